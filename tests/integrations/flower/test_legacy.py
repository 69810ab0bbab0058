"""The legacy model: the same mod, and Flower's own workflow over the wrapped grid."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

import flower_local as local
from flwr.app import Context, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAdam, FedAvg, FedAvgM, FedProx, FedYogi
from flwr.server.workflow import DefaultWorkflow

from privagg.errors import UsageError
from privagg.integrations.flower import Ranges, SecAggWorkflow

RANGES = Ranges(
    clip=1.0,
    max_weight=1000,
    metrics={"train_loss": 10.0},
    evaluate_metrics={"loss": 10.0, "accuracy": 1.0},
)


class Node(NumPyClient):
    def __init__(self, number):
        self.number = number

    def fit(self, parameters, config):
        new = local.update_of(self.number, dict(enumerate(parameters)), config["round"])
        metrics = {"train_loss": local.loss_of(self.number, config["round"])}
        return list(new.values()), local.weight_of(self.number), metrics

    def evaluate(self, parameters, config):
        accuracy = 0.05 * self.number
        return 2.0 * accuracy, local.weight_of(self.number), {"accuracy": accuracy}


def client_fn(context: Context):
    return Node(int(context.node_config["partition-id"])).to_client()


def app_with(threat):
    return ClientApp(client_fn, mods=[local.mod(threat, ranges=RANGES)])


def average(results):
    (only,) = results  # one for all nodes
    return only[1]


def strategy(kind=FedAvg, **more):
    arrays = list(local.initial_arrays().values())
    return kind(
        initial_parameters=ndarrays_to_parameters(arrays),
        on_fit_config_fn=lambda number: {"round": number},
        fit_metrics_aggregation_fn=average,
        evaluate_metrics_aggregation_fn=average,
        **more,
    )


def play(inner, chosen, workflow, rounds):
    empty = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={})
    context = LegacyContext(empty, config=ServerConfig(num_rounds=rounds), strategy=chosen)
    DefaultWorkflow(fit_workflow=workflow, evaluate_workflow=workflow.evaluate)(inner, context)
    return context


def plain_mean(arrays, numbers, server_round):
    weights = np.array([local.weight_of(number) for number in numbers], float)
    rows = [
        local.update_of(number, dict(enumerate(arrays)), server_round).values()
        for number in numbers
    ]
    return [
        np.average([np.asarray(x, float) for x in same], axis=0, weights=weights)
        for same in zip(*rows, strict=True)
    ]


class Watched(FedAvg):
    """Keeps what each round is given, and makes of it."""

    def __init__(self, **more):
        super().__init__(**more)
        self.steps = []

    def configure_fit(self, server_round, parameters, client_manager):
        self.before = parameters_to_ndarrays(parameters)
        return super().configure_fit(server_round, parameters, client_manager)

    def aggregate_fit(self, server_round, results, failures):
        assert len(results) == 1
        got = super().aggregate_fit(server_round, results, failures)
        self.steps.append((self.before, parameters_to_ndarrays(got[0])))
        return got


@pytest.mark.parametrize("threat", ["active", "semi-honest"])
def test_every_round_equals_the_plain_weighted_mean(threat):
    inner = local.LocalGrid(app_with(threat), 4)
    workflow = SecAggWorkflow(local.settings(threat, ranges=RANGES))
    chosen = strategy(Watched)
    context = play(inner, chosen, workflow, rounds=2)
    step = 2 * RANGES.clip / (2**16 - 1)
    for server_round, (before, after) in enumerate(chosen.steps, start=1):
        for found, wanted in zip(after, plain_mean(before, range(4), server_round), strict=True):
            assert np.abs(found - wanted).max() <= step + 4e-7 * (1 + np.abs(wanted).max())
    assert len(chosen.steps) == 2
    weights = [local.weight_of(number) for number in range(4)]
    (_, loss), *_ = context.history.losses_distributed
    (_, accuracy), *_ = context.history.metrics_distributed["accuracy"]
    wanted = np.average(0.05 * np.arange(4), weights=weights)
    assert accuracy == pytest.approx(wanted, abs=4e-5)
    assert loss == pytest.approx(2 * wanted, abs=4e-4)
    assert [report.job for report in workflow.reports] == ["train", "evaluate"] * 2
    assert [stage for _, stage, _, _ in inner.seen].count("enrol") == (
        4 if threat == "active" else 0
    )


@pytest.mark.parametrize("reply", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "stage", ["advertise-keys", "share-keys", "masked-input", "survivors", "unmasking"]
)
def test_dropped_at_every_round(stage, reply):
    hook = local.lose(2, stage)
    inner = local.LocalGrid(app_with("active"), 5, **{"after" if reply else "before": hook})
    workflow = SecAggWorkflow(local.settings(ranges=RANGES, deadline=0.1, training_deadline=0.1))
    chosen = strategy(Watched, fraction_evaluate=0.0)
    play(inner, chosen, workflow, rounds=1)
    stayed = range(5) if stage in ("survivors", "unmasking") else (0, 1, 3, 4)
    ((before, after),) = chosen.steps
    for found, wanted in zip(after, plain_mean(before, stayed, 1), strict=True):
        assert np.abs(found - wanted).max() <= 4e-5
    assert workflow.reports[0].count == len(stayed)


@pytest.mark.parametrize("kind", [FedAvg, FedProx, FedAvgM, FedAdam, FedYogi])
def test_strategies_run(kind):
    more = {"proximal_mu": 0.1} if kind is FedProx else {}
    inner = local.LocalGrid(app_with("semi-honest"), 4)
    workflow = SecAggWorkflow(local.settings("semi-honest", ranges=RANGES))
    context = play(inner, strategy(kind, **more), workflow, rounds=1)
    assert [report.count for report in workflow.reports] == [4, 4]
    assert context.history.metrics_distributed_fit["train_loss"]


def test_a_nodes_own_parameters_are_not_given_in_the_clear():
    inner = local.LocalGrid(app_with("semi-honest"), 4)
    workflow = SecAggWorkflow(local.settings("semi-honest", ranges=RANGES))
    chosen = FedAvg(fraction_evaluate=0.0, on_fit_config_fn=lambda number: {"round": number})
    play(inner, chosen, workflow, rounds=1)
    (first,) = [reply for _, stage, _, reply in inner.seen if stage == "plain"]
    assert first.has_error()


def test_the_loss_of_evaluation_has_to_be_declared():
    with pytest.raises(UsageError, match="loss"):
        SecAggWorkflow(local.settings())
