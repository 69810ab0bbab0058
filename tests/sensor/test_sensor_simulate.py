from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from sensor_runs import run, small

from privagg import field as fields
from privagg.errors import CapacityError, UsageError
from privagg.protocols.sensor import (
    STEPS,
    Deployment,
    Energy,
    Params,
    Protocol,
    Query,
    Radio,
    engines,
    generated_readings,
    simulate,
)

EVERY = list(Protocol)


@pytest.mark.parametrize("protocol", EVERY)
@pytest.mark.parametrize("flood", ["all", "leaders"])
def test_every_protocol_adds_what_it_covers(protocol, flood):
    deployment = small(flood=flood)
    result = run(protocol, deployment, epochs=3)
    readings = generated_readings(deployment, 3)
    expected = (readings * result.covered).sum(axis=1)
    assert result.sums == pytest.approx(expected.tolist())
    assert result.true_sums == readings.sum(axis=1).tolist()
    assert result.counts == result.covered.sum(axis=1).tolist()
    assert result.accuracy == pytest.approx(np.mean(expected / readings.sum(axis=1)))
    assert result.answers == result.sums
    if protocol not in ("cpda-sen-checked",):
        assert result.coverage > 0.9


@pytest.mark.parametrize("protocol", EVERY)
def test_losses_without_retries_cost_readings_never_a_wrong_sum(protocol):
    result = run(protocol, radio=Radio(loss=0.1), epochs=4)
    readings = generated_readings(small(), 4)
    for total, row, covered in zip(result.sums, readings, result.covered, strict=True):
        if total is None:  # smart: noticed, nothing decoded
            assert protocol == "smart"
            assert not covered.any()
        else:
            assert total == (row * covered).sum()
    assert result.coverage < 1


def test_retries_bring_the_readings_back():
    for protocol in ("tag", "smart", "cpda-field", "mask-cluster", "cmt"):
        without = run(protocol, radio=Radio(loss=0.1), epochs=5)
        with_them = run(protocol, radio=Radio(loss=0.1, retries=5), epochs=5)
        assert with_them.coverage > 0.9
        assert with_them.coverage > without.coverage
        assert with_them.costs.frames > without.costs.frames * 0.9
        assert "acknowledgement" in with_them.costs.by_kind


def test_real_arithmetic_adds_in_floating_point():
    deployment = small(seed=2, leader_probability=0.35)
    result = run("cpda", deployment, arithmetic="real", seed_max=15, coefficient_max=100)
    expected = (generated_readings(deployment) * result.covered).sum()
    assert result.sums[0] != expected
    assert result.sums[0] == pytest.approx(expected, rel=0.2)


def test_overflowing_floats_are_no_sum():
    """Single precision and huge coefficients: not a number, so not decoded, and no warning."""
    result = run("cpda", arithmetic="real", real_bytes=4, seed_max=2**31, coefficient_max=2**60)
    assert result.sums == [None]
    assert result.counts == [0]
    assert result.accuracy == 0


# Both engines.


@pytest.mark.parametrize(
    "changes",
    [{}, {"protocol": "mask-cluster"}, {"drops": 1}, {"drops": 2, "corrupt": 2, "width2": True}],
    ids=str,
)
@pytest.mark.parametrize("loss", [0.0, 0.08, 0.3])
def test_parties_and_arrays_agree_with_deaths(changes, loss):
    """Sums by cluster, totals, counts, and who answers are compared inside, message by message."""
    changes = dict(changes)
    query = Query(kind="variance") if changes.pop("width2", False) else None
    for seed in range(3):
        random = np.random.default_rng(seed)
        dying = random.choice(45, 8, replace=False)
        deaths = {int(n): (int(random.integers(3)), STEPS[random.integers(6)]) for n in dying}
        result = run(
            deployment=small(seed=seed, nodes=45, flood=["all", "leaders"][seed % 2]),
            engine="parties",
            epochs=3,
            deaths=deaths,
            radio=Radio(loss=loss, retries=1),
            query=query,
            **changes,
        )
        assert result.engine == "parties"
        assert len(result.counts) == 3


@pytest.mark.parametrize("field", ["m31", "m61"])
def test_parties_and_arrays_agree_in_both_fields(field):
    result = run(engine="parties", field=fields.FIELDS[field], tag_bytes=8)
    assert result.coverage > 0.9


def test_parties_with_keys_from_a_pool():
    result = run(engine="parties", keys="pool")
    assert not result.secure
    assert result.key_statistics["linked"] > 0.9
    assert 0.2 < result.key_statistics["overheard_in_range"] < 0.8
    assert 0.005 < result.key_statistics["overheard_by_one"] < 0.05


def test_what_parties_cannot_play_is_refused():
    with pytest.raises(UsageError, match="more than one number"):
        run("cpda-sen-checked", engine="parties", query=Query(kind="variance"))
    with pytest.raises(CapacityError, match="bound"):
        engines.check(Params.recommend("cpda", nodes=1000, bound=2**60))
    with pytest.raises(UsageError, match="engine"):
        run(engine="both")


# Repeatability.


def summary(result):
    costs = result.costs
    return result.sums, result.counts, costs.frames, costs.octets, costs.sent.tolist()


def test_a_seed_repeats_everything_and_marks_it_insecure():
    radio = Radio(loss=0.05, retries=1)
    for protocol in EVERY:
        first, second = (run(protocol, radio=radio, epochs=2) for _ in range(2))
        assert summary(first) == summary(second)
        assert first.insecure_seed
    assert summary(run(deployment=small(seed=2))) != summary(run(deployment=small(seed=3)))
    free = run(deployment=small(seed=None))
    assert not free.insecure_seed
    assert free.secure


def test_protocols_are_compared_on_the_same_network_and_readings():
    results = [run(protocol) for protocol in EVERY]
    places = [r.formation.network.positions.tolist() for r in results]
    assert all(one == places[0] for one in places)
    assert len({tuple(r.true_sums) for r in results}) == 1


# What is refused.


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"protocol": "tap"}, "protocol"),
        ({"readings": [1, 2]}, "readings"),
        ({"readings": ["a"] * 80}, "readings"),
        ({"readings": [True] * 80}, "readings"),
        ({"readings": [float("nan")] * 80}, "readings"),
        ({"readings": [[1], [2, 3]]}, "readings"),
        ({"readings": np.ma.masked_array(np.ones(80), np.ones(80))}, "readings"),
        ({"readings": [1e300] * 80}, "readings"),
        ({"readings": np.arange(80), "bound": 78}, "readings"),
        ({"readings": np.arange(80), "query": Query(kind="histogram", edges=(0, 5))}, "readings"),
        ({"scale": 0}, "scale"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": 2, "query": "max"}, "epochs"),
        ({"deaths": {80: "join"}}, "deaths"),
        ({"deaths": {1: "lunch"}}, "deaths"),
        ({"deaths": {1: (1, "join")}}, "deaths"),
        ({"corrupt": -1}, "corrupt"),
        ({"corrupt": 3, "min_cluster": 4}, "min_cluster"),
        ({"drops": 1, "corrupt": 2, "min_cluster": 4}, "min_cluster"),
        ({"drops": 1, "protocol": "mask-cluster"}, "drops"),
        ({"min_cluster": 2}, "min_cluster"),
        ({"tag_bytes": 5}, "tag_bytes"),
        ({"keys": "none"}, "keys"),
        ({"slices": 1}, "slices"),
        ({"plain_slices": 1}, "plain_slices"),
        ({"field": "m31"}, "field"),
        ({"field": fields.F128}, "field"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_arguments_are_checked(changes, argument):
    with pytest.raises(UsageError) as caught:
        run(**changes)
    assert caught.value.argument == argument


def test_broken_protocols_must_be_allowed():
    for protocol in Protocol:
        if protocol.broken:
            with pytest.raises(UsageError, match="allow_insecure"):
                simulate(small(), protocol=protocol)
            assert not run(protocol).secure
            assert run(protocol).guarantee.startswith("insecure")
        else:
            assert simulate(small(), protocol=protocol).secure is (protocol != "tag")


def test_sums_that_could_wrap_are_refused():
    with pytest.raises(CapacityError, match="bound"):
        run(bound=2**30, field=fields.M31)
    params = Params.recommend("cpda-field", nodes=1000, bound=2**40)
    assert params.field is fields.M61
    with pytest.raises(CapacityError):
        Params.recommend("cpda-field", nodes=1000, bound=2**60)
    extreme = run(readings=np.full(80, -(2**23)))
    assert extreme.sums[0] == -(2**23) * extreme.counts[0]


def test_the_collusion_rule_of_threshold_mode():
    """k < min(t, 2 t - m, m - 1) with t = m - d."""
    for k in range(5):
        for d in range(4):
            least = Params.recommend("cpda-field", nodes=9, bound=1, corrupt=k, drops=d).min_cluster
            good = [m for m in range(3, 40) if k < min(m - d, 2 * (m - d) - m if d else m, m - 1)]
            assert least == max(3, min(good)), (k, d)


# Deaths, costs, energy.


def test_a_dead_leader_loses_its_cluster_with_full_degree():
    deployment = small(seed=4)
    whole = run(deployment=deployment)
    leader = int(whole.formation.grouping.leader[0])
    size = int(whole.formation.grouping.size[0])
    for step in ("shares", "answers", "report"):
        found = run(deployment=deployment, deaths={leader: step})
        assert not found.covered[0][leader]
        assert found.counts[0] <= whole.counts[0] - size


@pytest.mark.parametrize("step", ["answers", "report"])
def test_a_successor_reports_where_one_may_fall_silent(step):
    """The leader shared its reading before it died: it is in the sum."""
    deployment = small(seed=4)
    tolerant = run(deployment=deployment, drops=1)
    group = tolerant.formation.grouping
    for cluster in range(group.count):
        leader = int(group.leader[cluster])
        found = run(deployment=deployment, drops=1, deaths={leader: step}, engine="parties")
        formation = found.formation
        assert formation.collector[cluster] != formation.grouping.leader_row[cluster]
        if found.covered[0][leader]:
            members = group.node[group.start[cluster] : group.start[cluster + 1]]
            assert found.covered[0][members].all()
            break
    else:
        pytest.fail("no successor got through")


def test_the_network_forms_anew_after_deaths():
    found = run(epochs=4, deaths={3: (1, "report"), 5: (1, "hello")})
    assert found.formations == 3  # before, in, and after the epoch with deaths
    for epoch in (2, 3):
        assert not found.covered[epoch][[3, 5]].any()


def test_messages_as_papers_count():
    deployment = small(seed=1, nodes=400, area=300)
    elected = run(deployment=deployment).formation.clusters.elected.mean() * 401 / 400
    counts = {
        "tag": 2,
        "smart": 3,
        "cpda": 3 + elected,
        "cpda-sen-efficient": 2 + elected,
        "cpda-field": 2 + elected,
        "mask-cluster": 2,
        "cmt": 2,
    }
    for protocol, expected in counts.items():
        assert run(protocol, deployment).messages == pytest.approx(expected), protocol
    assert run("smart", deployment, slices=3).messages == 4
    assert run("cpda-sen-checked", deployment).messages > 3 + elected


def test_frames_by_kind_add_up_and_energy_has_its_parts():
    result = run(radio=Radio(loss=0.02, retries=2), energy=Energy(overhearing=True))
    kinds = result.costs.by_kind.values()
    assert sum(frames for _, frames, _ in kinds) == pytest.approx(result.costs.frames)
    assert sum(octets for _, _, octets in kinds) == pytest.approx(result.costs.octets)
    parts = result.all_models()["cc2420"]
    assert result.microjoules() == pytest.approx(parts["sent"] + parts["overheard"])
    assert parts["overheard"] > parts["received"] > parts["sent"]
    plain = run(radio=Radio(loss=0.02, retries=2))
    assert plain.microjoules() == pytest.approx(parts["sent"] + parts["received"])
    idle = run(energy=Energy(duty_cycle=0.01, epoch_seconds=10))
    assert idle.microjoules() == pytest.approx(run().microjoules() + 6200)


def test_larger_frames_take_fewer_and_the_same_payload():
    few, many = run(radio=Radio(payload=114)), run()
    assert few.costs.frames < many.costs.frames
    saved = (many.costs.frames - few.costs.frames) * 19
    heads = 2 * (many.costs.by_kind["relay"][1] - few.costs.by_kind["relay"][1])
    assert many.costs.octets - few.costs.octets == pytest.approx(saved + heads)


def test_no_node_and_no_link_give_no_result_and_no_error():
    for protocol in EVERY:
        alone = run(protocol, Deployment(1, 100.0, 200.0, seed=1))
        assert len(alone.counts) == 1
        far = run(protocol, Deployment(4, 1e6, 1.0, seed=1))
        assert far.counts == [0]


def test_without_the_compiler_all_is_the_same():
    code = """
from privagg.protocols.sensor import *
r = simulate(Deployment(70, 150.0, 50.0, seed=9), radio=Radio(loss=0.05, retries=1), drops=1)
print(r.sums, r.counts, r.costs.frames)
"""
    outputs = set()
    for jit in ("0", "1"):
        found = subprocess.run(
            [sys.executable, "-c", code],
            env={"PRIVAGG_JIT": jit} | _environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.add(found.stdout)
    assert len(outputs) == 1


def _environment():
    return {k: v for k, v in os.environ.items() if k in ("HOME", "PYTHONPATH", "NUMBA_CACHE_DIR")}
