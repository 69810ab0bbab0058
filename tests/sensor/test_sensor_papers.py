"""Parties of `tag`, `smart`, `cmt` and the papers' variants of CPDA."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sensor_papers import NODES, VALUES, Cluster, tree

from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols.sensor import (
    STEPS,
    BaseStation,
    Deployment,
    Params,
    PreloadedKeys,
    Protocol,
    Radio,
    checks_papers,
    faithful,
    simulate,
    states_papers,
)
from privagg.protocols.sensor.insecure_leader import (
    InsecureEfficientLeader,
    InsecureEfficientMember,
    InsecureLeader,
)
from privagg.protocols.sensor.insecure_member import InsecureMember
from privagg.protocols.sensor.messages_papers import (
    Assembled,
    EfficientAnswer,
    PaperShares,
    Redo,
    Seed,
    SeedRelay,
)
from privagg.protocols.sensor.states_papers import PaperState
from privagg.protocols.sensor.tree_cmt import CmtBaseStation, CmtNode
from privagg.protocols.sensor.tree_parties import SmartNode, UnprotectedTagNode

# Runs.


@pytest.mark.parametrize("seed", range(5))
def test_cpda_adds_and_its_leader_reads_everybody(seed):
    """Over integers v mod x is the reading: here of a leader that does nothing wrong."""
    cluster = Cluster(seed=seed, seed_max=2**16)
    cluster.seeds()
    cluster.share()
    own = cluster.leader._seeds[1][0]
    if own > 200:
        read = {n: (int(v[0]) + 100) % own - 100 for n, v in cluster.leader._held.items()}
        assert read == VALUES
    assert cluster.finish() == ([60], 3)


def test_real_cpda_adds_but_for_rounding():
    cluster = Cluster(arithmetic="real", seed_max=9, coefficient_max=10)
    cluster.seeds()
    cluster.share()
    total, count = cluster.finish()
    assert (total[0], count) == (pytest.approx(60, abs=1e-9), 3)


@pytest.mark.parametrize("seed", range(4))
def test_checked_draws_again_until_the_checks_pass(seed):
    cluster = Cluster("cpda-sen-checked", seed=seed)
    cluster.seeds()
    assert checks_papers.seeds_form_triangles(cluster.leader._seeds)
    cluster.share()
    tries = 1
    while True:
        said = [(node, party.check()) for node, party in cluster.parties.items()]
        complaint = next(((node, redo) for node, redo in said if redo is not None), None)
        if complaint is None:
            break
        for party in cluster.parties.values():
            party.hear_redo(complaint[1], complaint[0])
        first = cluster.share()
        tries += 1
        # A share of another attempt opens for nobody: no nonce seals two things.
        party = cluster.parties[4]
        assert party._unseal(PaperShares, 9, first[9].items[1], party._digest, tries - 2) is None
    assert cluster.finish() == ([60], 3)


def test_efficient_adds():
    cluster = Cluster("cpda-sen-efficient")
    leader = cluster.leader
    hello = leader.announce(1, 1)
    for node in NODES[1:]:
        leader.admit(cluster.parties[node].join(hello, 1), node)
    roster = leader.seeded_roster(1)
    leader.begin(roster, [VALUES[1]])
    for node in NODES[1:]:
        leader.collect(cluster.parties[node].answer(roster, [VALUES[node]], 1), node)
    assert leader.conclude() == ([60], 3)
    with pytest.raises(PeerError, match="separate the digits"):
        cluster.parties[4].answer(replace(roster, epoch=2, exponent=3), [1], 1)


def test_tag_reports_to_a_parent_that_reads_it():
    params, nodes, ring = tree("tag", UnprotectedTagNode)
    station = BaseStation(params, ring)
    hello = station.query(3)
    for node, party in nodes.items():
        party.hear(hello, [VALUES[node]], 20)
    nodes[4].add(nodes[9].report(4), 9)
    assert nodes[4]._numbers == [VALUES[9] + VALUES[4]]
    for node in (1, 4):
        station.add(nodes[node].report(20), node)
    assert station.total() == ([60], 3)


@pytest.mark.parametrize("plain", [False, True])
def test_smart_slices_and_keeps_what_was_not_acknowledged(plain):
    params, nodes, ring = tree("smart", SmartNode, slices=3, plain_slices=plain)
    station = BaseStation(params, ring)
    hello = station.query(3)
    cut = {
        node: nodes[node].cut(hello, [VALUES[node]], [n for n in NODES if n != node], 20)
        for node in NODES
    }
    for origin, slices in cut.items():
        for target, part in slices.items():
            if plain and (origin, target) == (1, 4):
                nodes[1].keep(4)
            else:
                nodes[target].receive(part, origin)
    with pytest.raises(PeerError, match="second slice"):
        nodes[4].receive(cut[9][4], 9)
    with pytest.raises(UsageError, match="target" if plain else "plain_slices: found False"):
        nodes[1].keep(4)
    for node in NODES:
        station.add(nodes[node].report(20), node)
    assert station.total() == ([60], 3)
    with pytest.raises(UsageError, match="targets"):
        nodes[1].cut(replace(hello, epoch=4), [1], [1], 20)


def test_a_lost_slice_is_noticed_and_a_node_that_gives_none_takes_none():
    params, nodes, ring = tree("smart", SmartNode)
    station = BaseStation(params, ring)
    hello = station.query(3)
    part = nodes[1].cut(hello, [5], [4], 20)[4]
    nodes[4].cut(hello, [5], [], 20)
    with pytest.raises(PeerError, match="gives none"):
        nodes[4].receive(part, 1)
    station.add(nodes[1].report(20), 1)
    with pytest.raises(Abort, match="something is missing"):
        station.total()


def test_cmt_takes_off_the_keystreams_of_who_answered():
    params, nodes, ring = tree("cmt", CmtNode)
    station = CmtBaseStation(params, ring, {1: 20, 4: 20, 9: 4})
    hello = station.query(3)
    for node, party in nodes.items():
        party.encrypt(hello, [VALUES[node]], 20, 20)
    assert nodes[9]._numbers != [VALUES[9]]
    nodes[9].report_ciphertexts(4, [])  # and lost
    station.add_ciphertexts(nodes[4].report_ciphertexts(20, [9]), 4)
    station.add_ciphertexts(nodes[1].report_ciphertexts(20, []), 1)
    assert station.responders() == [1, 4]
    assert station.total() == ([VALUES[1] + VALUES[4]], 2)
    station._silent.add(1)
    with pytest.raises(PeerError, match="2 readings, where the lists leave 1"):
        station.total()


@pytest.mark.parametrize(
    ("protocol", "changes"),
    [
        ("tag", {}),
        ("smart", {"slices": 3}),
        ("smart", {"plain_slices": True}),
        ("cmt", {}),
        ("cpda", {}),
        ("cpda", {"arithmetic": "real"}),
        ("cpda", {"arithmetic": "real", "real_bytes": 4}),
        ("cpda-sen-efficient", {}),
        ("cpda-sen-checked", {}),
    ],
    ids=str,
)
@pytest.mark.parametrize("loss", [0.0, 0.15])
def test_parties_and_arrays_agree(protocol, changes, loss):
    """Sums by cluster, totals, counts and checks are compared inside, message by message."""
    result = simulate(
        Deployment(nodes=30, area=80, range=40, seed=7),
        protocol=protocol,
        allow_insecure=True,
        engine="parties",
        epochs=2,
        deaths={3: (0, STEPS[3]), 8: (1, STEPS[4]), 11: (1, STEPS[5])},
        radio=Radio(loss=loss, retries=3 * (loss > 0)),
        **changes,
    )
    assert result.engine == "parties"
    assert any(result.counts)


def test_insecure_parties_have_to_be_allowed():
    for protocol in Protocol:
        if protocol.broken:
            params = Params.recommend(protocol, nodes=10, bound=1)
            efficient = protocol is Protocol.CPDA_SEN_EFFICIENT
            for kind in (
                [InsecureEfficientMember, InsecureEfficientLeader]
                if efficient
                else [InsecureMember, InsecureLeader]
            ):
                with pytest.raises(UsageError, match="allow_insecure=True"):
                    kind(params, PreloadedKeys(1, {}))
                with pytest.raises(UsageError, match="allow_insecure"):
                    kind(params, PreloadedKeys(1, {}), allow_insecure=1)
                assert "nsecure" in kind.__name__
    with pytest.raises(UsageError, match="protocol"):
        InsecureMember(
            Params.recommend("cpda-field", nodes=9, bound=1),
            PreloadedKeys(1, {}),
            allow_insecure=True,
        )


# What is checked.


def test_seeds_that_are_missing_repeated_or_equal():
    cluster = Cluster()
    for node, party in cluster.parties.items():
        party.announce_seed(cluster.roster, [VALUES[node]], 1)
    party = cluster.parties[4]
    with pytest.raises(Abort, match="seeds never came"):
        party.share()
    party.hear_seed(Seed(seeds=party._seeds[4]), 9)
    with pytest.raises(PeerError, match="second seed"):
        party.hear_seed(Seed(seeds=(3,)), 9)
    wrong = (party._seeds[4][0] % 255 + 1,)
    relay = SeedRelay(origins=(False, False, True), seeds=(wrong,))
    with pytest.raises(PeerError, match="another seed of node 9"):
        party.hear_seeds(relay, 1)
    party.hear_seeds(SeedRelay(origins=(True, False, False), seeds=((7,),)), 1)
    assert not checks_papers.seeds_are_distinct(party._seeds)
    with pytest.raises(UsageError, match="do not stand"):
        party.share()
    assert isinstance(party.redraw_seed(), Seed)


def test_checked_gives_up_after_twenty_tries():
    cluster = Cluster("cpda-sen-checked")
    cluster.seeds()
    party = cluster.parties[4]
    for attempt in range(faithful.MAX_TRIES - 1):
        party.share()
        with pytest.raises(PeerError, match="attempt"):
            party.hear_redo(Redo(attempt=attempt + 1), 9)
        party.hear_redo(Redo(attempt=attempt), 9)
    party.share()
    with pytest.raises(Abort):
        party.hear_redo(Redo(attempt=faithful.MAX_TRIES - 1), 9)
    assert party.state is PaperState.GAVE_UP


def test_triangles():
    good, bad = {1: (3,), 2: (4,), 3: (5,)}, {1: (1,), 2: (4,), 3: (5,)}
    assert checks_papers.seeds_form_triangles(good)
    assert not checks_papers.seeds_form_triangles(bad)
    assert checks_papers.values_form_triangles(good)
    assert not checks_papers.values_form_triangles(bad)


def test_the_other_checks():
    params = Params.recommend("smart", nodes=10, bound=5)
    cases = [
        lambda: checks_papers.every_seed_is_known({1: (1,)}, [1, 2]),
        lambda: checks_papers.query_is_new(3, 3, 1),
        lambda: checks_papers.query_is_new(2**32, 3, 1),
        lambda: checks_papers.targets_are_other_nodes([1, 2], 3, params),
        lambda: checks_papers.silent_nodes_are_below([2, 1], params, 1),
        lambda: checks_papers.silent_nodes_are_below([10], params, 1),
        lambda: checks_papers.responders_are_as_many_as_counted(1, 2, 1),
        lambda: checks_papers.readings_are_in_range([11], 2, params),
        lambda: checks_papers.insecurity_is_accepted(False, params),
    ]
    for call in cases:
        with pytest.raises((PeerError, UsageError, Abort)):
            call()
    assert len(checks_papers.__all__) == 10


def test_hostile_items_and_answers():
    cluster = Cluster()
    cluster.seeds()
    cluster.share()
    party, leader = cluster.parties[4], cluster.leader
    with pytest.raises(PeerError, match="does not verify"):
        party.receive(PaperShares(items=(b"x" * 12, b"y" * 12)), 9)
    with pytest.raises(PeerError, match="outside the roster"):
        party.receive(PaperShares(items=(b"", b"")), 77)
    answer = party.answer()
    assert answer == party.answer()
    leader.collect(answer, 4)
    for node in (4, 1, 77):
        with pytest.raises(PeerError, match="second answer"):
            leader.collect(answer, node)
    with pytest.raises(Abort, match="too few answers"):
        leader.conclude()
    spoiled = Assembled(numbers=(10**9,), octets=answer.octets, real=False)
    leader.collect(spoiled, 9)
    with pytest.raises(PeerError, match="beyond the bound"):
        leader.conclude()
    assert isinstance(EfficientAnswer(sealed=b"").encode(), bytes)
    assert set(states_papers.__all__) >= {"follow", "step"}
