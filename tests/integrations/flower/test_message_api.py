"""The Message API: parameters equal the plain weighted mean's, whoever drops out, wherever."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

import flower_local as local
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedProx, FedYogi

from privagg.integrations.flower import SecAggGrid
from privagg.integrations.flower.setup import KEY

STAGES = {
    "semi-honest": ("advertise-keys", "share-keys", "masked-input", "survivors"),
    "active": ("advertise-keys", "share-keys", "masked-input", "survivors", "unmasking"),
}


def strategy(kind=FedAvg, **more):
    chosen = {"fraction_evaluate": 0.0, "min_train_nodes": 2, "min_available_nodes": 2}
    return kind(**(chosen | more))


def plain_mean(arrays, numbers, server_round):
    weights = np.array([local.weight_of(number) for number in numbers], float)
    updates = [local.update_of(number, arrays, server_round) for number in numbers]
    return {
        name: np.average(
            [update[name].astype(float) for update in updates], axis=0, weights=weights
        )
        for name in arrays
    }


def assert_close(got, wanted, settings):
    """Within the rounding bound, and the narrow float's own rounding."""
    step = 2 * local.RANGES.clip / (2**settings.value_bits - 1)
    assert list(got) == list(wanted)
    for name, array in got.items():
        found = array.numpy()
        assert found.shape == wanted[name].shape
        ulp = 4 * np.finfo(found.dtype).eps * np.abs(wanted[name]).max()
        assert np.abs(found - wanted[name]).max() <= step + ulp, name


@pytest.mark.parametrize("threat", ["active", "semi-honest"])
def test_every_round_equals_the_plain_weighted_mean(threat):
    app = local.message_api_app(local.mod(threat))
    inner = local.LocalGrid(app, 5)
    chosen, settings = strategy(fraction_evaluate=1.0), local.settings(threat)
    grid = SecAggGrid(inner, chosen, settings)
    arrays = local.initial_arrays()
    seen = []

    def evaluate(server_round, record):
        if server_round:
            current = {name: array.numpy() for name, array in record.items()}
            wanted = plain_mean(seen[-1], range(5), server_round)
            assert_close(record, wanted, settings)
        else:
            current = arrays
        seen.append(current)

    result = chosen.start(
        grid, local.record_of(arrays), num_rounds=3, evaluate_fn=evaluate, timeout=30
    )
    assert len(seen) == 4
    weights = np.array([local.weight_of(number) for number in range(5)])
    for server_round in (1, 2, 3):
        metrics = result.train_metrics_clientapp[server_round]
        losses = [local.loss_of(number, server_round) for number in range(5)]
        assert metrics["train_loss"] == pytest.approx(
            np.average(losses, weights=weights), abs=10 * 2 / (2**16 - 1)
        )
        accuracy = result.evaluate_metrics_clientapp[server_round]["accuracy"]
        assert accuracy == pytest.approx(
            np.average(0.05 * np.arange(5), weights=weights), abs=2 / (2**16 - 1)
        )
    assert [report.job for report in grid.reports] == ["train", "evaluate"] * 3
    assert all(report.count == 5 and not report.error for report in grid.reports)
    assert all(report.weight_total == weights.sum() for report in grid.reports)


@pytest.mark.parametrize("reply", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("threat", "stage"), [(threat, stage) for threat, all in STAGES.items() for stage in all]
)
def test_dropped_at_every_round(threat, stage, reply):
    app = local.message_api_app(local.mod(threat))
    hook = local.lose(1, stage)
    inner = local.LocalGrid(app, 5, **{"after" if reply else "before": hook})
    chosen, settings = strategy(), local.settings(threat, deadline=0.1, training_deadline=0.1)
    grid = SecAggGrid(inner, chosen, settings)
    arrays = local.initial_arrays()
    result = chosen.start(grid, local.record_of(arrays), num_rounds=1, timeout=30)
    (report,) = grid.reports
    # Whoever left after its input had arrived is in the mean.
    stayed = range(5) if stage in ("survivors", "unmasking") else (0, 2, 3, 4)
    assert report.error == ""
    assert report.count == len(stayed)
    assert report.failures["no answer in time"] >= 1
    assert_close(result.arrays, plain_mean(arrays, stayed, 1), settings)


def test_too_many_dropouts_leave_the_model_as_it_is():
    app = local.message_api_app(local.mod())
    inner = local.LocalGrid(
        app, 5, before=lambda who, at, m: None if who < 3 and at == "masked-input" else m
    )
    chosen = strategy()
    grid = SecAggGrid(inner, chosen, local.settings(training_deadline=0.1))
    record = local.record_of(local.initial_arrays())
    result = chosen.start(grid, record, num_rounds=1, timeout=30)
    assert result.arrays is None or len(result.arrays) == 0
    assert "left" in grid.reports[0].error
    assert grid.reports[0].count == 0


@pytest.mark.parametrize("kind", [FedAvg, FedProx, FedAvgM, FedAdagrad, FedAdam, FedYogi])
def test_strategies_move_as_they_do_on_the_plain_mean(kind):
    """Beside the same strategy over Flower's own grid, where every node answers in the clear."""
    more = {}
    if kind is FedAvgM:
        more = {"server_momentum": 0.9, "server_learning_rate": 0.5}
    elif kind is FedProx:
        more = {"proximal_mu": 0.1}
    arrays = local.initial_arrays()
    del arrays["scale"]  # Flower's own strategies of some releases make no arrays of scalars
    ends = []
    for secure in (True, False):
        app = local.message_api_app(*([local.mod()] if secure else []))
        inner = local.LocalGrid(app, 4)
        chosen, settings = strategy(kind, **more), local.settings(value_bits=24)
        grid = SecAggGrid(inner, chosen, settings) if secure else inner
        ends.append(chosen.start(grid, local.record_of(arrays), num_rounds=2, timeout=30).arrays)
    for name, array in ends[0].items():
        assert array.numpy().dtype == ends[1][name].numpy().dtype
        np.testing.assert_allclose(array.numpy(), ends[1][name].numpy(), atol=2e-4)


def test_the_state_is_wiped_after_unmasking_and_never_in_the_clear():
    app = local.message_api_app(local.mod())
    states = []

    def before(number, stage, message):
        states.append(inner.contexts[100 + number].state.get(KEY))
        return message

    inner = local.LocalGrid(app, 4, before=before)
    chosen = strategy()
    grid = SecAggGrid(inner, chosen, local.settings())
    chosen.start(grid, local.record_of(local.initial_arrays()), num_rounds=1, timeout=30)
    assert sum(state is not None for state in states) == 4 * 4  # all rounds but the first
    assert all(KEY not in context.state for context in inner.contexts.values())
    assert all(list(reply.content) == [KEY] for _, _, _, reply in inner.seen)
    upward = {key for _, _, _, reply in inner.seen for key in reply.content[KEY]}
    assert upward == {"data", "place", "signature"}


def test_nodes_are_asked_who_they_are_once():
    inner = local.LocalGrid(local.message_api_app(local.mod()), 4)
    chosen = strategy()
    grid = SecAggGrid(inner, chosen, local.settings())
    chosen.start(grid, local.record_of(local.initial_arrays()), num_rounds=3, timeout=30)
    assert [stage for _, stage, _, _ in inner.seen].count("enrol") == 4


def test_the_sparse_graph_drawn_by_all():
    """Semi-malicious: two more rounds, in which the nodes draw the graph."""
    inner = local.LocalGrid(local.message_api_app(local.mod("semi-malicious")), 20)
    chosen = strategy()
    settings = local.settings("semi-malicious", dropout=0.0)
    grid = SecAggGrid(inner, chosen, settings)
    arrays = local.initial_arrays()
    result = chosen.start(grid, local.record_of(arrays), num_rounds=1, timeout=60)
    (report,) = grid.reports
    assert (report.error, report.count) == ("", 20)
    assert report.params.graph.value == "sparse"
    assert {"commit-graph", "reveal-graph"} < set(report.survivors)
    assert_close(result.arrays, plain_mean(arrays, range(20), 1), settings)
