from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg.errors import CapacityError, UsageError
from privagg.protocols.sensor import (
    MODELS,
    Deployment,
    Energy,
    Flood,
    Radio,
    energy,
    flood,
    keypool,
    network,
)
from privagg.protocols.sensor import clusters as forming
from privagg.protocols.sensor.air import Air, Ledger, fragments
from privagg.protocols.sensor.grouping import Bundles, group, pairs


def made(nodes=80, area=200.0, range_=40.0, seed=0, **changes):
    random = np.random.default_rng(seed)
    return network.build(Deployment(nodes, area, range_, **changes), random), random


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 60),
    st.floats(0.5, 400),
    st.integers(0, 2**32),
    st.sampled_from(["square", "line", "same", "grid"]),
)
def test_neighbours_are_those_of_all_pairs(nodes, range_, seed, shape):
    random = np.random.default_rng(seed)
    positions = random.random((nodes, 2)) * 200
    if shape == "line":
        positions[:, 1] = 7.0
    elif shape == "same":
        positions[:] = positions[0]
    elif shape == "grid":
        positions = np.floor(positions / 20) * 20  # many gaps are exactly the range
        range_ = 20.0
    found = network.build(Deployment(nodes, 200, range_, positions=positions), random)
    start, neighbours = network.neighbours_plain(found.positions, range_)
    assert np.array_equal(found.start, start)
    assert np.array_equal(found.neighbours, neighbours)


def test_the_mean_degree_is_that_of_the_formula_with_borders():
    nodes, area, range_ = 3000, 1000.0, 50.0
    found, _ = made(nodes, area, range_)
    ratio = range_ / area
    expected = (nodes - 1) * (np.pi * ratio**2 - 8 * ratio**3 / 3 + ratio**4 / 2)
    assert abs(found.mean_degree - expected) < 0.03 * expected


@pytest.mark.parametrize("policy", Flood)
@pytest.mark.parametrize("seed", range(4))
def test_flood_and_clusters(policy, seed):
    net, random = made(200, 300.0, 45.0, seed)
    count = net.nodes + 1
    alive = random.random(count) < 0.95
    alive[-1] = True
    found = forming.form(
        net,
        probability=0.3,
        flood=policy,
        minimum=3,
        alive=alive,
        listens=alive,
        loss=0.1,
        joins=0.01,
        random=random,
    )
    spread = found.flood
    inside = np.flatnonzero(spread.depth > 0)
    assert (spread.depth[spread.parent[inside]] == spread.depth[inside] - 1).all()
    assert net.hears(inside, spread.parent[inside]).all()
    assert alive[inside].all()
    forwards = found.sent_hello
    forwards[-1] = True
    assert forwards[spread.parent[inside]].all()
    if policy is Flood.LEADERS:
        assert found.elected[forwards[:-1].nonzero()].all()
    for of, least in ((found.joined, 1), (found.leader, 3)):
        members = np.flatnonzero(of >= 0)
        assert net.hears(members, of[members]).all()
        assert (of[of[members]] == of[members]).all()  # leaders lead themselves
        assert alive[members].all()
        sizes = np.bincount(of[members])
        assert sizes[sizes > 0].min() >= least
    assert found.leader[-1] == -1
    assert found.sizes().sum() == (found.leader >= 0).sum()
    assert found.sizes(before=True).sum() == (found.joined >= 0).sum()


def test_the_tree_prefers_leaders_and_reaches_all_that_can_be():
    net, random = made(300, 300.0, 40.0, 1)
    count = net.nodes + 1
    everyone = np.ones(count, bool)
    wanted = random.random(count) < 0.2
    reached = flood.spread(net, everyone, everyone).reached
    grown = flood.tree(net, wanted, everyone, reached)
    assert np.array_equal(grown.reached, reached)
    node = np.flatnonzero(reached[:-1])
    hops = node.copy()
    for _ in range(count):
        hops = np.where(hops == net.base_station, hops, grown.parent[hops])
    assert (hops == net.base_station).all()  # no cycle
    assert net.hears(node, grown.parent[node]).all()
    inner = wanted.copy()
    inner[-1] = True
    only = flood.spread(net, inner, everyone)
    leaders = np.flatnonzero(wanted & only.reached)
    assert inner[grown.parent[leaders]].all()


def test_pairs_and_bundles_hold_every_item_once():
    net, random = made(200, 200.0, 45.0, 2)
    everyone = np.ones(net.nodes + 1, bool)
    found = forming.form(
        net, probability=0.2, flood=Flood.ALL, minimum=3, alive=everyone, listens=everyone,
        loss=0.0, joins=0.0, random=random,
    )  # fmt: skip
    grouping = group(found.leader)
    assert np.array_equal(np.sort(grouping.node), np.flatnonzero(found.leader >= 0))
    assert (grouping.leader[grouping.cluster] == found.leader[grouping.node]).all()
    for cluster in range(grouping.count):
        rows = grouping.node[grouping.start[cluster] : grouping.start[cluster + 1]]
        assert (np.diff(rows) > 0).all()  # the sorted roster
    pair = pairs(grouping, net)
    expected = {
        (i, j)
        for c in range(grouping.count)
        for i in range(grouping.start[c], grouping.start[c + 1])
        for j in range(grouping.start[c], grouping.start[c + 1])
        if i != j
    }
    assert set(zip(pair.origin.tolist(), pair.target.tolist(), strict=True)) == expected
    flags = random.random((3, len(pair.origin))) < 0.9
    into, counts = pair.all_into(flags), pair.count_into(flags)
    for row in range(len(grouping.node)):
        assert np.array_equal(into[:, row], flags[:, pair.target == row].all(axis=1))
        assert np.array_equal(counts[:, row], flags[:, pair.target == row].sum(axis=1))
    for item in (8, 13, 40):
        bundles = Bundles.of(grouping, pair, np.full(grouping.count, item), 28)
        each = max(1, 28 // item)
        assert (bundles.frame_items <= each).all()
        sent = np.bincount(bundles.frame_origin, weights=bundles.frame_items)
        assert np.array_equal(sent, grouping.size[grouping.cluster] - 1)
        assert (bundles.parts == -(-item // 28)).all()
        frame = bundles.link_frame[bundles.hop]
        assert (bundles.frame_origin[frame] == pair.origin).all()
        to = bundles.link_row[bundles.hop]
        leader = grouping.leader_row[grouping.cluster[pair.origin]]
        assert np.array_equal(to, np.where(pair.direct, pair.target, leader))
        ends = np.diff(np.append(bundles.relay_first, len(bundles.relayed)))
        assert (ends <= max(1, (28 - 2) // item)).all()
        assert set(bundles.relayed) == set(np.flatnonzero(~pair.direct))


def test_fragments():
    assert fragments(np.array([0, 1, 28, 29, 56, 57]), 28).tolist() == [1, 1, 1, 2, 2, 3]


def test_losses_have_their_probabilities():
    loss, retries, count = 0.3, 2, 200_000
    air = Air(Radio(loss=loss, retries=retries), np.random.default_rng(1))
    tries = air.tries((count,))
    for k in range(1, retries + 2):
        expected = loss ** (k - 1) * (1 - loss)
        assert abs((tries == k).mean() - expected) < 5 * (expected / count) ** 0.5
    assert abs((~air.arrived(tries)).mean() - loss ** (retries + 1)) < 0.003
    assert air.sent(tries).max() == retries + 1
    double = air.tries((count,), parts=2)
    single = 1 - loss ** (retries + 1)
    assert abs(air.arrived(double).mean() - single**2) < 0.004
    whole = Air(Radio(), np.random.default_rng(1)).tries((3, 4))
    assert whole.shape == (3, 4)
    assert (whole == 1).all()


def test_the_ledger_adds_frames_bytes_and_energy():
    net, _ = made(40, 100.0, 40.0, 3)
    ledger = Ledger(net, Radio())
    a, b = np.array([0, 1, 0]), np.array([2, 3, 4])
    ledger.unicast("x", a, b, np.array([8, 30, 8]), np.array([1, 2, 3]), acknowledged=True)
    assert ledger.frames_sent[:2].tolist() == [4, 4]
    assert ledger.bytes_sent[0] == 4 * (8 + 19)
    assert ledger.bytes_sent[1] == 2 * (30 + 2 * 19)
    assert ledger.bytes_received[2] == 27
    assert ledger.bytes_sent[3] == 2 * 11  # one acknowledgement a frame
    assert ledger.by_kind["x"].tolist() == [3, 8, 4 * 27 + 2 * 68]
    assert ledger.received_by_kind == {"x": 4 * 27 + 2 * 68, "acknowledgement": 4 * 11}
    heard = ledger.overheard()
    for node in range(net.nodes + 1):
        assert heard[node] == ledger.bytes_sent[net.of(node)].sum()
    base = np.array([net.base_station])
    ledger.send("x", base, np.ones(1), np.ones(1), 1.0)
    assert ledger.by_kind["x"].tolist()[1] == 8  # the base station is no node


def test_energy_per_byte_is_that_of_the_data_sheets():
    assert MODELS["cc2420"].send == pytest.approx(1.84, abs=0.005)
    assert MODELS["cc2420"].receive == pytest.approx(1.98, abs=0.005)
    assert MODELS["mica2"].send == pytest.approx(12.7, abs=0.02)
    assert MODELS["mica2"].receive == pytest.approx(10.5, abs=0.05)
    assert MODELS["cc1000"].send == pytest.approx(31.2 * 8 / 19.2, abs=1e-9)
    assert energy.model("first-order", 50).send == pytest.approx(0.6)
    assert energy.model("first-order", 100).send == pytest.approx(8 * (0.05 + 0.13))
    assert Energy(duty_cycle=0.1, epoch_seconds=10).idle(50) == pytest.approx(62_000)
    with pytest.raises(UsageError, match="energy"):
        energy.model("cc9999", 1)
    with pytest.raises(UsageError, match="overhearing"):
        Energy(overhearing=1)


@pytest.mark.parametrize(
    ("ring", "connects"),
    [(83, 0.501), (100, 0.636), (150, 0.898), (200, 0.983), (250, 0.998)],
)
def test_key_pool_formulas(ring, connects):
    assert keypool.connects(10_000, ring) == pytest.approx(connects, abs=0.001)
    assert keypool.overhears(10_000, ring) == ring / 10_000
    assert keypool.connects(100, 60) == 1


def test_somebody_in_range_overhears_often():
    for others, expected in ((10, 0.18), (26, 0.41), (50, 0.64), (100, 0.87)):
        found = keypool.overheard_by_any(10_000, 200, others)
        assert found == pytest.approx(expected, abs=0.006)
    with pytest.raises(UsageError, match="ring"):
        keypool.connects(10, 11)
    with pytest.raises(CapacityError, match="nodes"):
        keypool.draw(50_001, None)


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"nodes": 0}, "nodes"),
        ({"nodes": True}, "nodes"),
        ({"area": 0}, "area"),
        ({"area": float("nan")}, "area"),
        ({"range": -1}, "range"),
        ({"leader_probability": 1.5}, "leader_probability"),
        ({"flood": "some"}, "flood"),
        ({"seed": -1}, "seed"),
        ({"base_station": 3}, "base_station"),
        ({"base_station": (1, float("inf"))}, "base_station"),
        ({"positions": np.zeros((3, 2))}, "positions"),
        ({"positions": np.full((5, 2), np.nan)}, "positions"),
        ({"positions": "here"}, "positions"),
    ],
    ids=str,
)
def test_deployments_are_checked(changes, argument):
    with pytest.raises(UsageError) as caught:
        Deployment(**{"nodes": 5, "area": 10, "range": 5} | changes)
    assert caught.value.argument == argument


def test_a_crowd_is_refused_before_it_is_counted():
    """A million nodes in a square metre have 10**12 links."""
    with pytest.raises(CapacityError, match="links or more"):
        network.build(Deployment(300_000, 1.0, 50.0), np.random.default_rng(1))


@pytest.mark.parametrize("changes", [{"area": 1e13}, {"range": 1e300}])
def test_nothing_is_too_far_to_square(changes):
    with pytest.raises(UsageError, match=next(iter(changes))):
        Deployment(**{"nodes": 3, "area": 9.0, "range": 5.0} | changes)
    with pytest.raises(UsageError, match="positions"):
        Deployment(2, 9.0, 5.0, positions=[[0, 0], [1e200, 0]])
