"""What is refused when it is declared: strategies, ranges, settings, arguments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

import flower_local as local
import flwr.server.strategy as legacy_strategies
import flwr.serverapp.strategy as strategies
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp.strategy import FedAvg

import privagg
from privagg.errors import CapacityError, UsageError
from privagg.integrations.flower import (
    Policy,
    Ranges,
    SecAggGrid,
    SecAggWorkflow,
    check_strategy,
    secagg_mod,
)


def strategy(**more):
    return FedAvg(**({"fraction_evaluate": 0.0} | more))


NEW = ("Krum", "MultiKrum", "Bulyan", "FedMedian", "FedTrimmedAvg", "QFedAvg", "FedXgbBagging")


@pytest.mark.parametrize("name", NEW)
def test_strategies_that_need_single_updates_are_refused(name):
    more = {"client_learning_rate": 0.1} if name == "QFedAvg" else {}
    try:
        chosen = getattr(strategies, name)(**more)
    except TypeError:
        chosen = object.__new__(getattr(strategies, name))
    with pytest.raises(UsageError, match=f"{name} cannot work under secure aggregation"):
        check_strategy(chosen)


@pytest.mark.parametrize(
    "name",
    [
        "DifferentialPrivacyServerSideFixedClipping",
        "DifferentialPrivacyServerSideAdaptiveClipping",
        "DifferentialPrivacyClientSideFixedClipping",
        "DifferentialPrivacyClientSideAdaptiveClipping",
    ],
)
@pytest.mark.parametrize("module", [strategies, legacy_strategies], ids=["new", "legacy"])
def test_privacy_on_the_server_is_refused(module, name):
    chosen = object.__new__(getattr(module, name))
    with pytest.raises(UsageError, match="cannot work under secure aggregation"):
        check_strategy(chosen)


@pytest.mark.parametrize(
    "name", ["Krum", "Bulyan", "FedMedian", "FedTrimmedAvg", "QFedAvg", "FedXgbBagging"]
)
def test_legacy_strategies_that_need_single_updates_are_refused(name):
    chosen = object.__new__(getattr(legacy_strategies, name))
    with pytest.raises(UsageError, match="cannot work under secure aggregation"):
        check_strategy(chosen)


def test_every_strategy_of_flower_is_decided_upon():
    """A release with new ones makes this fail, and they are looked at."""
    from privagg.integrations.flower.strategies import ALLOWED, REFUSED

    known = {*ALLOWED, *REFUSED, "Strategy", "Result", "FedAvgAndroid"}
    for module in (strategies, legacy_strategies):
        assert set(module.__all__) <= known


@pytest.mark.parametrize("chosen", [object(), "FedAvg", None])
def test_what_is_no_strategy_of_flower_is_refused(chosen):
    with pytest.raises(UsageError, match="strategy"):
        check_strategy(chosen)


def test_strategies_and_ranges_have_to_fit():
    with pytest.raises(UsageError, match="weight_key"):
        check_strategy(strategy(weighted_by_key="examples"), local.RANGES)
    with pytest.raises(UsageError, match="fraction_evaluate"):
        check_strategy(FedAvg(), Ranges(clip=1.0, max_weight=10))


@pytest.mark.parametrize(
    "wrong",
    [
        {"clip": 0.0},
        {"clip": -1.0},
        {"clip": np.nan},
        {"clip": np.inf},
        {"clip": True},
        {"clip": "1"},
        {"max_weight": 0},
        {"max_weight": 2.5},
        {"max_weight": True},
        {"metrics": {"loss": 0.0}},
        {"metrics": {"num-examples": 1.0}},
        {"metrics": ["loss"]},
        {"evaluate_metrics": {1: 1.0}},
        {"array_clips": {"w": -1.0}},
        {"weight_key": ""},
    ],
    ids=str,
)
def test_ranges_are_checked_when_declared(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Ranges(**({"clip": 1.0, "max_weight": 10} | wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        {"ranges": {}},
        {"roster": None},
        {"threat": "none"},
        {"value_bits": 0},
        {"value_bits": 33},
        {"deadline": 0},
        {"training_deadline": -1.0},
        {"deadline": True},
        {"on_abort": "ignore"},
        {"dropout": 2.0},
        {"corrupt": "x"},
    ],
    ids=str,
)
def test_settings_are_checked_when_made(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        local.settings(**wrong)


def test_a_sum_that_could_wrap_is_refused_before_sending():
    ranges = Ranges(clip=1.0, max_weight=2**31, metrics={"train_loss": 10.0})
    inner = local.LocalGrid(local.message_api_app(local.mod(ranges=ranges)), 4)
    chosen = strategy()
    grid = SecAggGrid(inner, chosen, local.settings(ranges=ranges, value_bits=32))
    record = local.record_of(local.initial_arrays())
    with pytest.raises(CapacityError):
        chosen.start(grid, record, num_rounds=1)
    assert {at for _, at, _, _ in inner.seen} == {"enrol"}


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("ranges", {"ranges": None}),
        ("policy", {"policy": None}),
        ("policy.roster", {"policy": Policy(min_cohort=3, max_corrupt=0)}),
        ("threat", {"threat": "brave"}),
        ("out_of_range", {"out_of_range": "wrap"}),
        ("plain", {"plain": "query"}),
    ],
)
def test_the_mods_arguments_are_checked(argument, wrong):
    chosen = {"ranges": local.RANGES, "policy": local.policy()} | wrong
    with pytest.raises(UsageError, match=argument.replace(".", r"\.")):
        secagg_mod(**chosen)


def test_the_grids_arguments_are_checked():
    inner = local.LocalGrid(local.message_api_app(local.mod()), 4)
    settings = local.settings()
    for grid, chosen, what in (
        (object(), strategy(), settings),
        (inner, object(), settings),
        (inner, strategy(), {}),
        (SecAggGrid(inner, strategy(), settings), strategy(), settings),
    ):
        with pytest.raises(UsageError):
            SecAggGrid(grid, chosen, what)
    with pytest.raises(UsageError, match="settings"):
        SecAggWorkflow({})
    wrapped = SecAggGrid(inner, strategy(), settings)
    query = Message(RecordDict(), 100, "query")
    with pytest.raises(UsageError, match="type query"):
        wrapped.send_and_receive([query])
    with pytest.raises(UsageError, match="pull_messages"):
        wrapped.pull_messages(["1"])
    assert wrapped.send_and_receive([]) == []


def test_a_plain_message_type_is_answered_where_allowed():
    app = local.message_api_app(local.mod(plain=("query",)))

    @app.query()
    def query(message, context):
        return Message(RecordDict({"config": ConfigRecord({"up": True})}), reply_to=message)

    inner = local.LocalGrid(app, 1)
    (reply,) = inner.send_and_receive([Message(RecordDict(), 100, "query")])
    assert reply.content["config"]["up"] is True


def test_without_flower_it_is_named():
    """The ranges can be declared without it; the rest says what to install."""
    code = (
        "import sys; sys.modules['flwr'] = None\n"
        "from privagg.errors import UsageError\n"
        "from privagg.integrations.flower import Ranges, Settings\n"
        "try:\n"
        "    from privagg.integrations.flower import SecAggGrid\n"
        "except UsageError as error:\n"
        "    assert 'privagg[flower]' in str(error)\n"
        "else:\n"
        "    raise SystemExit(1)\n"
    )
    root = Path(privagg.__file__).resolve().parent.parent
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, timeout=60)
