"""Planned bytes are the encoded ones; plans of both protocols compare."""

from __future__ import annotations

import tracemalloc
from dataclasses import fields, replace

import pytest
from lsa_parties import inputs

from privagg import entropy
from privagg._jit import JIT
from privagg.errors import UsageError
from privagg.protocols import lightsecagg as lsa
from privagg.protocols import secagg
from privagg.protocols.lightsecagg import calibration, client_work, coding, planner
from privagg.protocols.secagg.calibration import Units as TheirUnits

COHORT = {"clients": 12, "dim": 50, "corrupt": 0.1, "dropout": 0.25}
LONG = COHORT | {"dim": 5000}


@pytest.mark.parametrize("threat", ["semi-honest", "active"])
@pytest.mark.parametrize("options", [{}, {"value_bits": 32}, {"clip": 1.0, "max_weight": 9}])
def test_planned_bytes_are_the_encoded_ones(threat, options):
    weighted = "max_weight" in options
    params = lsa.Params.recommend(**COHORT, threat=threat, weighted=weighted, **options)
    plan = lsa.plan(params, units=calibration.free())
    weights = [1] * 12 if weighted else None
    result = lsa.run(params, inputs(params), weights=weights)
    for planned, measured in (
        (plan.bytes_up, result.bytes_up),
        (plan.bytes_down, result.bytes_down),
    ):
        assert list(planned) == list(measured) == [r for r in lsa.ROUNDS if r in planned]
        for name, per_client in measured.items():
            assert set(per_client.tolist()) == {planned[name]}
    assert plan.expansion == pytest.approx(result.expansion)
    total = plan.bytes_up_per_client + plan.bytes_down_per_client
    assert plan.bytes_server == 12 * total
    assert plan.elements_relayed == 12 * 11 * params.piece
    assert plan.bytes_shares == plan.bytes_up["share-masks"] - 14


def test_dropouts_never_raise_the_bytes():
    params = lsa.Params.recommend(**COHORT)
    plan = lsa.plan(params, units=calibration.free())
    result = lsa.run(params, inputs(params), dropouts={1: "share-masks", 2: "masked-input"})
    for planned, measured in (
        (plan.bytes_up, result.bytes_up),
        (plan.bytes_down, result.bytes_down),
    ):
        for name, per_client in measured.items():
            assert per_client.max() <= planned[name]


@pytest.mark.skipif(not JIT, reason="plain NumPy keeps more in between")
@pytest.mark.parametrize(("clients", "dim"), [(300, 10), (60, 20000)])
def test_planned_memory_of_a_client_is_what_it_takes(clients, dim):
    params = lsa.Params.recommend(clients=clients, dim=dim)
    planned = lsa.plan(params, units=calibration.free())
    client_work.draw_mask(lsa.Params.recommend(clients=6, dim=3), entropy.OS)  # compiled
    coding._generator.cache_clear()
    tracemalloc.start()
    try:
        client_work.draw_mask(params, entropy.OS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert planned.memory_client / 4 <= peak <= planned.memory_client
    assert planned.memory_code < planned.memory_client


def test_predictions_grow_with_the_work():
    units = calibration.measure(lsa.Params.recommend(**COHORT))
    assert all(getattr(units, one.name) >= 0 for one in fields(units))
    assert units.product > 0
    small = lsa.Params.recommend(**COHORT)
    large = replace(small, dim=5000)
    assert units.client(large) > units.client(small)
    assert units.server(large) > units.server(small) > units.recovery(small) > 0
    signed = lsa.Params.recommend(**COHORT, threat="active", threshold=small.threshold)
    assert units.client(signed) > units.client(small)


def their_units(**seconds):
    return TheirUnits(**{one.name: seconds.get(one.name, 0.0) for one in fields(TheirUnits)})


def test_the_comparison_weighs_bytes_against_the_servers_masks():
    """Masks that cost much favour this protocol; a slow connection favours the other."""
    ours = lsa.plan(lsa.Params.recommend(**LONG), units=calibration.free())
    theirs = secagg.Params.recommend(**LONG)
    costly = secagg.plan(theirs, units=their_units(stream=1.0))
    fast = planner.compare(costly, ours)
    assert fast.recommended == "lightsecagg"
    assert fast.seconds["bonawitz"] > fast.seconds["lightsecagg"]
    free = secagg.plan(theirs, units=their_units())
    slow = planner.compare(free, ours, bandwidth=1.0)
    assert slow.recommended == "bonawitz"
    total = ours.bytes_up_per_client + ours.bytes_down_per_client
    assert slow.seconds["lightsecagg"] == total


def test_plans_of_other_rounds_do_not_compare():
    ours = lsa.plan(lsa.Params.recommend(**COHORT), units=calibration.free())
    for changes in ({"dim": 51}, {"clients": 13}, {"corrupt": 0.2}, {"threat": "active"}):
        other = secagg.Params.recommend(**COHORT | changes)
        with pytest.raises(UsageError, match="the same"):
            planner.compare(secagg.plan(other, units=their_units()), ours)
    mine = secagg.plan(secagg.Params.recommend(**COHORT), units=their_units())
    for pair in ((ours, ours), (mine, mine), (None, ours), (mine, None)):
        with pytest.raises(UsageError, match="Plan"):
            planner.compare(*pair)
    for arguments in ({"params": None}, {"params": mine.params}, {"units": 3}):
        with pytest.raises(UsageError, match=r"params|units"):
            lsa.plan(**{"params": ours.params, "units": calibration.free()} | arguments)
    for bandwidth in (0, -1, True, float("nan"), "fast"):
        with pytest.raises(UsageError, match="bandwidth"):
            planner.compare(mine, ours, bandwidth=bandwidth)
