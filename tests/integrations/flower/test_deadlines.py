"""A round never waits longer than said: on a clock that only moves when the server sleeps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

import flower_local as local
from flwr.app import ConfigRecord
from flwr.serverapp.strategy import FedAvg

from privagg.integrations.flower import SecAggGrid, grid, rounds, transport


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=1000.0, naps=0)

    def sleep(seconds):
        assert seconds > 0
        now.seconds += seconds
        now.naps += 1

    fake = SimpleNamespace(monotonic=lambda: now.seconds, sleep=sleep)
    for module in (grid, rounds, transport):
        monkeypatch.setattr(module, "time", fake)
    return now


def run(inner, timeout=None, **more):
    chosen = FedAvg(fraction_evaluate=0.0)
    secure = SecAggGrid(inner, chosen, local.settings(**more))
    record = local.record_of(local.initial_arrays())
    replies = secure.send_and_receive(
        chosen.configure_train(1, record, ConfigRecord(), secure), timeout=timeout
    )
    return secure.reports[0], replies


def silent(stage, *numbers):
    return lambda number, at, message: None if at == stage and number in numbers else message


def test_nobody_waits_when_all_answer(clock):
    inner = local.LocalGrid(local.message_api_app(local.mod()), 4)
    report, replies = run(inner)
    assert len(replies) == 1
    assert clock.naps == 0
    assert report.seconds == 0


@pytest.mark.parametrize(
    ("stage", "waited"),
    [("enrol", 7), ("share-keys", 7), ("masked-input", 11), ("survivors", 7), ("unmasking", 7)],
)
def test_a_silent_node_costs_one_deadline(clock, stage, waited):
    inner = local.LocalGrid(local.message_api_app(local.mod()), 5, before=silent(stage, 1))
    report, replies = run(inner, deadline=7.0, training_deadline=11.0)
    assert len(replies) == 1
    # In the consistency check a node that has not signed may still answer in unmasking.
    assert report.seconds == pytest.approx(waited)


def test_the_strategys_timeout_is_for_all_rounds_together(clock):
    before = silent("masked-input", 0, 1, 2, 3, 4)
    inner = local.LocalGrid(local.message_api_app(local.mod()), 5, before=before)
    report, replies = run(inner, timeout=3.0, deadline=60.0, training_deadline=600.0)
    assert replies == []
    assert report.seconds == pytest.approx(3.0)
    assert report.failures == {"no answer in time": 5}
    assert report.error


def test_messages_outlive_their_deadline_by_seconds_only(clock):
    seen = []

    def before(number, stage, message):
        seen.append((stage, message.metadata.ttl))
        return message

    inner = local.LocalGrid(local.message_api_app(local.mod()), 4, before=before)
    run(inner, deadline=7.0, training_deadline=11.0)
    assert {round(ttl) for stage, ttl in seen if stage == "masked-input"} == {16}
    assert {round(ttl) for stage, ttl in seen if stage != "masked-input"} == {12}
