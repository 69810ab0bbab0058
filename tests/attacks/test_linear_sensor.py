"""The linear auditor on sensor transcripts, against the rules and against trying everything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from privagg import field as fields
from privagg.attacks.linear_sensor import SensorViews, link
from privagg.errors import UsageError
from privagg.protocols import sensor
from privagg.protocols.sensor import Deployment, Params, Protocol, Radio
from privagg.protocols.sensor.transcript import STEP_OF, Entry, Transcript, sealed

STATION = 10


def entry(params, kind, sender, receiver, cluster=0, **more):
    tree = kind in ("Report", "Slice")
    return Entry(
        epoch=0,
        step=STEP_OF[kind],
        kind=kind,
        sender=sender,
        receiver=receiver,
        cluster=-1 if tree else cluster,
        size=8,
        sealed=sealed(kind, params.protocol),
        arrived=more.pop("arrived", True),
        **more,
    )


def transcript(params, entries):
    return Transcript(
        params=params,
        base_station=STATION,
        epochs=1,
        acknowledged=True,
        insecure_seed=False,
        entries=tuple(entries),
    )


def cluster(m, protocol="cpda-field", told=None, seeds=None, **changes):
    """Nodes 0 to m - 1 in one cluster that 0 leads, and that reports to the base station."""
    params = Params.recommend(protocol, nodes=STATION, bound=0, **changes)
    names = tuple(range(m))
    made = [entry(params, "Roster", 0, node, data=names) for node in names[1:]]
    pairs = list(itertools.permutations(names, 2))
    if seeds is not None:
        made += [entry(params, "Seed", a, b, data=(seeds[a],)) for a, b in pairs]
    if params.protocol.shares:
        made += [entry(params, "Shares", a, b) for a, b in pairs]
    for node, senders in (told or {}).items():
        made.append(entry(params, "SenderSet", 0, node, data=senders))
    made += [entry(params, "Answer", node, 0) for node in names[1:]]
    made.append(entry(params, "Report", 0, STATION, data=(0,)))
    return transcript(params, made)


def subsets(items):
    for size in range(len(items) + 1):
        yield from itertools.combinations(items, size)


# Rules.


@pytest.mark.parametrize("protocol", ["cpda-field", "mask-cluster"])
@pytest.mark.parametrize("m", [3, 4, 5, 6])
def test_all_coalitions_of_a_cluster(protocol, m):
    """Up to m - 2 reveal nothing; m - 1 the last one, if the sum is among what they know."""
    views = SensorViews(cluster(m, protocol))
    for coalition in subsets(range(m)):
        left = tuple(node for node in range(m) if node not in coalition)
        sees_sum = 0 in coalition
        disclosed = left if len(left) == 1 and sees_sum else ()
        assert views.disclosed(coalition) == disclosed
        if m < 6:
            with_base = left if len(left) == 1 else ()
            assert views.disclosed((*coalition, STATION)) == with_base
            assert views.knows(range(m), coalition) == (sees_sum or len(coalition) == m)
    found = views.smallest()
    assert (len(found.members), found.exact) == (m - 1, True)


@pytest.mark.parametrize("m", [3, 4, 5, 6])
def test_leaders_that_tell_two_stories_in_threshold_mode(m):
    """A leak if and only if 2 t - k <= m, or k >= t, or k = m - 1."""
    names = tuple(range(m))
    for drops in range(1, (m - 1) // 2 + 1):
        t = m - drops
        for k in range(1, m):
            victim = m - 1
            without = tuple(node for node in names if node != victim)
            honest, leaks = names[k:], False
            for split in subsets(honest):
                told = {node: names if node in split else without for node in names[1:]}
                log = cluster(m, told=told, drops=drops, min_cluster=2 * drops + 2, corrupt=1)
                leaks |= victim in SensorViews(log).disclosed(names[:k])
            assert leaks == (2 * t - k <= m or k >= t or k == m - 1), (m, t, k)


def test_broken_links():
    """Whoever has all links of a member has its reading; one less, and it has nothing."""
    for protocol in ("cpda-field", "mask-cluster"):
        views = SensorViews(cluster(4, protocol))
        links = [(1, other) for other in (0, 2, 3)]
        # Those of cpda-field carry the shares both ways, and the answer to the leader.
        assert views.disclosed(links=links) == (1,)
        for missing in links:
            assert views.disclosed(links=[one for one in links if one != missing]) == ()
    assert link(3, 1) == link(1, 3)


def smart():
    """Node 0 gives slices to 1 and 2; 1 to 0 and 2; 2 to 0 and 1; all report to the station."""
    params = Params.recommend("smart", nodes=STATION, bound=0, slices=3)
    pairs = itertools.permutations(range(3), 2)
    made = [entry(params, "Slice", a, b) for a, b in pairs]
    made += [entry(params, "Report", 0, 3), entry(params, "Report", 3, STATION)]
    made += [entry(params, "Report", a, STATION) for a in (1, 2)]
    return transcript(params, made)


def test_smart_needs_the_parent_and_all_slice_holders():
    views = SensorViews(smart())
    for coalition in subsets((1, 2, 3, STATION)):
        expected = {1, 2} <= set(coalition) and bool({3, STATION} & set(coalition))
        assert (0 in views.disclosed(coalition)) == expected
    links = [(0, 1), (0, 2), (0, 3)]
    assert views.disclosed(links=links) == (0,)
    assert all(0 not in views.disclosed(links=part) for part in itertools.combinations(links, 2))
    assert len(views.smallest().members) == 3


def test_cpda_gives_readings_away_modulo_seeds_but_not_by_algebra():
    """Over integers one share at a seed above all readings; linear algebra sees Shamir only."""
    log = cluster(3, "cpda", seeds=(211, 190, 173))
    assert SensorViews(log).disclosed([0]) == (1, 2)
    strict = SensorViews(log, modular=False)
    assert strict.disclosed([0]) == ()
    assert strict.disclosed([0, 1]) == (2,)
    # The sums are in clear: three of them, the leader's not among them, give no sum.
    assert strict.disclosed(eavesdropper=True) == ()
    assert not strict.knows(range(3), eavesdropper=True)
    assert strict.knows(range(3), [0])


# Trying everything: over GF(5), every choice of all that is unknown.


def tuples(count, p):
    return np.indices((p,) * count, np.int8).reshape(count, -1)


def determined(seen, reading):
    """Say whether what is seen fixes the reading: all is linear, so look at where it is zero."""
    zero = np.logical_and.reduce([values == 0 for values in seen])
    return not reading[zero].any()


def test_masks_against_everything():
    p, m = 5, 3
    unknown = tuples(6, p)
    x, masks = unknown[:3], {(0, 1): unknown[3], (0, 2): unknown[4], (1, 2): unknown[5]}
    masked = []
    for node in range(m):
        parts = [(1 if node < b else -1) * masks[min(node, b), max(node, b)] for b in range(m)
                 if b != node]  # fmt: skip
        masked.append((x[node] + sum(parts)) % p)
    seen = {
        node: [x[node], *(mask for pair, mask in masks.items() if node in pair)]
        for node in range(m)
    }
    seen[0] = [*seen[0], masked[1], masked[2]]
    views = SensorViews(cluster(m, "mask-cluster", field=fields.prime_field(p)))
    for coalition in subsets(range(m)):
        held = [values for node in coalition for values in seen[node]]
        for node in set(range(m)) - set(coalition):
            known = bool(held) and determined(held, x[node])
            assert (node in views.disclosed(coalition)) == known


def test_shares_against_everything():
    """Links and members of cpda-field with m = 3: 5^9 cases."""
    p, m = 5, 3
    unknown = tuples(9, p)
    x, r = unknown[:3], unknown[3:].reshape(3, 2, -1)
    share = [
        [(x[i] + r[i, 0] * (j + 1) + r[i, 1] * ((j + 1) ** 2 % p)) % p for j in range(m)]
        for i in range(m)
    ]
    answer = [sum(share[i][j] for i in range(m)) % p for j in range(m)]
    total = (x[0] + x[1] + x[2]) % p
    views = SensorViews(cluster(m, field=fields.prime_field(p)))
    own = {i: [x[i], r[i, 0], r[i, 1]] for i in range(m)}
    got = {j: [share[i][j] for i in range(m) if i != j] for j in range(m)}
    wires = {
        (0, 1): [share[0][1], share[1][0], answer[1]],
        (0, 2): [share[0][2], share[2][0], answer[2]],
        (1, 2): [share[1][2], share[2][1]],
        (0, STATION): [total],
    }
    cases = [
        ((0,), ()),
        ((1,), ((0, 2),)),
        ((1,), ((0, 2), (0, STATION))),
        ((1, 2), ()),
        ((), tuple(wires)),
    ]
    for coalition, links in cases:
        seen = [values for node in coalition for values in own[node] + got[node]]
        seen += [answer[1], answer[2]] if 0 in coalition else []
        seen += [values for pair in links for values in wires[pair]]
        for node in set(range(m)) - set(coalition):
            known = determined(seen, x[node])
            assert (node in views.disclosed(coalition, links)) == known, (coalition, links, node)


# Whole networks.


@pytest.mark.parametrize("protocol", Protocol)
def test_networks_keep_what_they_promise_to_one_curious_node(protocol):
    deployment = Deployment(nodes=24, area=70, range=40, seed=3)
    run = sensor.simulate(
        deployment,
        protocol=protocol,
        allow_insecure=True,
        transcript=True,
        radio=Radio(loss=0.05, retries=2),
        seed_max=255,
    )
    views = SensorViews(run.transcript)
    alone = [views.disclosed([node]) for node in range(24)]
    if protocol in ("smart", "cpda-field", "mask-cluster", "cmt"):
        assert not any(alone)
    else:
        assert any(alone)
    assert views.disclosed() == ()
    if protocol is Protocol.CPDA:
        heads = set(run.formation.grouping.leader.tolist())
        for head in heads:
            seeds = {e.sender: e.data[0] for e in run.transcript if e.kind == "Seed"}
            if seeds[head] > 200:  # readings are 0 to 100, and the bound is taken either way
                members = {e.sender for e in run.transcript
                           if e.kind == "Shares" and e.receiver == head}  # fmt: skip
                assert members <= set(alone[head])


@pytest.mark.parametrize("slices", [2, 3])
def test_no_parent_holds_a_slice_of_its_child(slices):
    """It would read the report that the slice was taken from: fewer would do than is promised."""
    for seed in range(2):
        deployment = Deployment(nodes=60, area=120, range=40, seed=seed)
        run = sensor.simulate(deployment, protocol="smart", slices=slices, transcript=True)
        parent = {e.sender: e.receiver for e in run.transcript if e.kind == "Report"}
        pairs = [(e.sender, e.receiver) for e in run.transcript if e.kind == "Slice"]
        assert pairs
        assert all(parent[child] != holder for child, holder in pairs)
        found = SensorViews(run.transcript).smallest(budget=800)
        assert found.at_least >= 2


@pytest.mark.parametrize(("area", "radio"), [(180, Radio()), (70, Radio(loss=0.3, retries=1))])
def test_neither_few_neighbours_nor_lost_slices_give_a_reading_of_smart_to_one_node(area, radio):
    """A slice taken back, or held by who reports nothing else, is known to a parent."""
    for seed in range(4):
        deployment = Deployment(nodes=20, area=area, range=50, seed=seed)
        run = sensor.simulate(deployment, protocol="smart", radio=radio, transcript=True)
        givers = {e.sender for e in run.transcript if e.kind == "Slice"}
        assert {e.receiver for e in run.transcript if e.kind == "Slice"} <= givers
        views = SensorViews(run.transcript)
        assert views.targets
        assert not any(views.disclosed([node]) for node in range(21))


def test_arguments():
    log = cluster(3)
    views = SensorViews(log)
    for call in (
        lambda: SensorViews("log"),
        lambda: SensorViews(log, 1),
        lambda: SensorViews(log, modular=1),
        lambda: SensorViews(transcript(log.params, log.entries[:2])),
        lambda: views.disclosed([99]),
        lambda: views.disclosed([True]),
        lambda: views.disclosed(links=[(1, 1)]),
        lambda: views.disclosed(links=[(1, 2, 3)]),
        lambda: views.smallest(budget=-1),
    ):
        with pytest.raises(UsageError):
            call()
    cut = views.smallest(budget=0)
    assert (cut.members, cut.exact, cut.at_least) == ((), False, 0)
    no_seeds = cluster(3, "cpda")
    with pytest.raises(UsageError, match="no seed of node"):
        SensorViews(no_seeds)
