from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sensor_parties import Cluster, link_keys

from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols.sensor import (
    BaseStation,
    Leader,
    Member,
    MemberState,
    Params,
    PreloadedKeys,
    checks,
)
from privagg.protocols.sensor.messages import (
    Answer,
    Report,
    SenderSet,
    Shares,
)

VALUES = [3, 1, 4, 1, 5]


@pytest.fixture
def cluster():
    return Cluster(5)


@pytest.fixture
def shared(cluster):
    cluster.bundles = cluster.share(VALUES)
    return cluster


@pytest.fixture
def threshold():
    return Cluster(5, drops=1, min_cluster=4)


def flipped(data, at=0):
    octets = bytearray(data)
    octets[at] ^= 1
    return bytes(octets)


# What is checked, each by what breaks it.


def test_every_check_is_broken_by_a_test():
    """Each function of the module is called here by name or through a party that refuses."""
    assert set(checks.__all__) == {
        "cluster_is_large_enough",
        "echo_agrees",
        "elements_are_canonical",
        "epoch_is_new",
        "everyone_has_a_key",
        "first_share_of_origin",
        "holds_all_shares",
        "one_item_each",
        "opens",
        "quorum_is_reached",
        "roster_is_sorted",
        "roster_lists",
        "senders_are_enough",
    }


def refused_roster(cluster, roster, match, node=1):
    party = cluster.parties[cluster.nodes[node]]
    with pytest.raises(PeerError, match=match) as caught:
        party.share(roster, [1], cluster.head)
    assert caught.value.peer == cluster.head
    assert party.state is MemberState.IDLE
    assert party.epoch == -1


def test_roster_is_sorted(cluster):
    a, b, c, d, e = cluster.nodes
    for members in ([b, a, c, d, e], [a, a, b, c, d], [a, b, b, c, d]):
        refused_roster(cluster, cluster.roster(members=members), "ascending")


def test_roster_lists_this_node_and_the_leader(cluster):
    a, b, c, d, e = cluster.nodes
    refused_roster(cluster, cluster.roster(members=[a, c, d, e]), f"without node {b}")
    refused_roster(cluster, cluster.roster(members=[b, c, d, e]), f"without node {a}")


def test_cluster_is_large_enough(cluster):
    a, b, *_ = cluster.nodes
    refused_roster(cluster, cluster.roster(members=[a, b]), "a cluster of 2; allowed: at least 3")
    strict = Cluster(5, min_cluster=6)
    refused_roster(strict, strict.roster(), "at least 6")


def test_everyone_has_a_key(cluster):
    members = sorted([*cluster.nodes, 999])
    refused_roster(cluster, cluster.roster(members=members), "node 999, with which there is no key")


def test_epoch_is_new_so_that_a_reading_is_shared_once(cluster):
    """A second roster without one member would give that member's reading away."""
    cluster.run(VALUES, epoch=4)
    victim_left_out = cluster.roster(epoch=4, members=cluster.nodes[:-1])
    for epoch in (4, 3, 0):
        again = replace(victim_left_out, epoch=epoch)
        with pytest.raises(PeerError, match="again, or an older one"):
            cluster.parties[cluster.nodes[1]].share(again, [1], cluster.head)
    assert cluster.run(VALUES, epoch=5) == ([14], 5)


def test_first_share_of_origin(shared):
    origin, target = shared.nodes[1], shared.nodes[2]
    party = shared.parties[target]
    party.receive(shared.bundles[origin], origin)
    with pytest.raises(PeerError, match="a second share"):
        party.receive(shared.bundles[origin], origin)


@pytest.mark.parametrize("at", [0, 3, 4, 7])
def test_a_flipped_bit_does_not_open(shared, at):
    origin, target = shared.nodes[1], shared.nodes[0]
    bundle = shared.bundles[origin]
    spoiled = Shares(items=(flipped(bundle.items[0], at), *bundle.items[1:]))
    with pytest.raises(PeerError, match="does not verify") as caught:
        shared.parties[target].receive(spoiled, origin)
    assert caught.value.peer == origin
    shared.parties[target].receive(bundle, origin)  # nothing changed by the other


def test_a_share_of_another_epoch_member_or_roster_does_not_open(shared):
    first, second, third = shared.nodes[1], shared.nodes[2], shared.nodes[3]
    leader = shared.leader
    with pytest.raises(PeerError, match="does not verify"):
        leader.receive(shared.bundles[second], first)  # said to come from another
    items = shared.bundles[first].items
    swapped = Shares(items=(items[1], items[0], *items[2:]))
    with pytest.raises(PeerError, match="does not verify"):
        leader.receive(swapped, first)  # meant for another
    old = shared.bundles[first]
    shared.share(VALUES, epoch=2)
    with pytest.raises(PeerError, match="does not verify"):
        leader.receive(old, first)  # replayed
    # The leader shows one member another roster: what either says opens for nobody else.
    other = Cluster(5, extra=(40,))
    a, b, *_ = other.nodes
    true = other.roster()
    lie = other.roster(members=[*other.nodes[:-1], 40])
    other.leader.share(true, [1], a)
    made = other.parties[b].share(lie, [1], a)
    with pytest.raises(PeerError, match="another roster"):
        other.leader.receive(made, b)
    assert third in shared.nodes


def test_elements_are_canonical(shared):
    """A sender with a key can seal anything: the modulus itself is 0 in disguise."""
    origin = shared.parties[shared.nodes[1]]
    p = shared.params.field.modulus
    for bad in (p, 2**32 - 1):
        item = origin._seal(Shares, shared.head, bad.to_bytes(4, "little"), origin._digest)
        spoiled = Shares(items=(item, *shared.bundles[origin.node].items[1:]))
        with pytest.raises(PeerError, match="not below the field's modulus"):
            shared.leader.receive(spoiled, origin.node)


def test_holds_all_shares(shared):
    target = shared.nodes[2]
    shared.deliver(shared.bundles, missing={(shared.nodes[1], target)})
    with pytest.raises(Abort, match="never came"):
        shared.parties[target].answer()
    with pytest.raises(Abort, match="too few answers"):
        shared.finish(silent={target})
    shared.parties[target].receive(shared.bundles[shared.nodes[1]], shared.nodes[1])
    shared.leader.collect(shared.parties[target].answer(), target)
    assert shared.leader.conclude() == ([14], 5)


def test_senders_are_enough(threshold):
    threshold.deliver(threshold.share(VALUES))
    party = threshold.parties[threshold.nodes[1]]
    with pytest.raises(PeerError, match="a set of 3 senders; allowed: at least 4"):
        party.confirm(SenderSet(senders=(True, True, True, False, False)))
    assert party.state is MemberState.SHARED


def test_echo_agrees_or_the_leader_told_two_stories(threshold):
    threshold.deliver(threshold.share(VALUES))
    a, b = threshold.parties[threshold.nodes[1]], threshold.parties[threshold.nodes[2]]
    a.confirm(SenderSet(senders=(True,) * 5))
    other = b.confirm(SenderSet(senders=(True, True, True, True, False)))
    with pytest.raises(PeerError, match="echoes another set") as caught:
        a.hear_echo(other, b.node)
    assert caught.value.peer == threshold.head
    with pytest.raises(Abort, match="too few echo"):
        a.answer()


def test_quorum_is_reached(threshold):
    threshold.deliver(threshold.share(VALUES))
    chosen = SenderSet(senders=(True,) * 5)
    party = threshold.parties[threshold.nodes[1]]
    party.confirm(chosen)
    for agreeing, node in enumerate([n for n in threshold.nodes if n != party.node], start=2):
        party.hear_echo(threshold.parties[node].confirm(chosen), node)
        if agreeing < 4:
            with pytest.raises(Abort, match=f"agree|echo.*{agreeing} left, 4 needed"):
                party.answer()
    assert isinstance(party.answer(), Answer)


# Runs.


@pytest.mark.parametrize("silent", [(), (1,), (4,), (2,)])
def test_threshold_mode_goes_on_without_one(threshold, silent):
    gone = {threshold.nodes[k] for k in silent}
    threshold.deliver(threshold.share(VALUES))
    threshold.agree()
    assert threshold.finish(silent=gone) == ([14], 5)


def test_threshold_mode_leaves_out_whose_shares_are_lost(threshold):
    bundles = threshold.share(VALUES)
    lost = threshold.nodes[3]
    missing = {(lost, node) for node in threshold.nodes[1:3]}
    threshold.deliver(bundles, missing)
    chosen = threshold.agree()
    assert chosen.senders == (True, True, True, False, True)
    assert threshold.finish() == ([13], 4)


def test_a_successor_collects_and_nothing_is_shared_again(shared):
    shared.deliver(shared.bundles)
    dead = shared.head
    successor = Leader.take_over(shared.parties[shared.nodes[1]])
    shared.parties[successor.node] = successor
    before = [shared.parties[n].answer(dead) for n in shared.nodes[2:]]
    after = [shared.parties[n].answer(successor.node) for n in shared.nodes[2:]]
    assert all(a != b for a, b in zip(before, after, strict=True))  # other keys, same numbers
    for node, message in zip(shared.nodes[2:], after, strict=True):
        successor.collect(message, node)
    with pytest.raises(Abort, match="4 left, 5 needed"):
        successor.conclude()  # the dead leader's own point is needed with full degree
    with pytest.raises(PeerError, match="outside the roster"):
        shared.parties[shared.nodes[2]].answer(999)


def test_a_successor_finishes_in_threshold_mode(threshold):
    threshold.deliver(threshold.share(VALUES))
    threshold.agree()
    successor = Leader.take_over(threshold.parties[threshold.nodes[1]])
    threshold.parties[successor.node] = successor
    found = threshold.finish(silent={threshold.head}, collector=successor)
    assert found == ([14], 5)
    with pytest.raises(UsageError, match="member"):
        Leader.take_over("member")


def test_relayed_items_find_their_receivers(shared):
    origin = shared.nodes[1]
    far = shared.nodes[3:]
    relay = shared.leader.relay(shared.bundles[origin], origin, far)
    assert len(relay.items) == 2
    for node in far:
        shared.parties[node].receive_relayed(relay, shared.head)
    with pytest.raises(PeerError, match="does not verify"):
        shared.parties[shared.nodes[2]].receive_relayed(relay, shared.head)


def test_reports_are_added_up_the_tree(cluster):
    station = BaseStation(cluster.params, PreloadedKeys(999, {}))
    nodes = [*cluster.nodes, 999]
    ring = link_keys(nodes, seed=9)
    station = BaseStation(cluster.params, PreloadedKeys(999, ring[999]))
    first = Cluster(5, seed=1)
    assert first.run([-100, 2, 3, -4, 5]) == ([-94], 5)
    head = first.leader
    head._keyring = PreloadedKeys(head.node, ring[head.node])
    child = Member(cluster.params, PreloadedKeys(13, ring[13]))
    child.begin_reports(1)
    station.query(1)
    child_report = child.report(head.node)
    station_report = head.report(999)
    station.add(station_report, head.node)
    with pytest.raises(PeerError, match="second report, or one that is too late"):
        head.add(child_report, 13)
    assert station.total() == ([-94], 5)
    with pytest.raises(PeerError, match="second report"):
        station.add(station_report, head.node)
    spoiled = Report(sealed=flipped(station_report.sealed))
    station.query(2)
    for report in (spoiled, station_report):  # damaged, and of another epoch
        with pytest.raises(PeerError, match="does not verify"):
            station.add(report, head.node)
    with pytest.raises(UsageError, match="epoch"):
        station.begin_reports(2)
    with pytest.raises(PeerError, match="no key"):
        child.report(12345)


def test_no_nonce_seals_two_things(threshold):
    """What is said again in an epoch is the same, or refused."""
    bundles = threshold.share(VALUES)
    party = threshold.parties[threshold.nodes[1]]
    first = party.received()
    threshold.deliver(bundles)
    assert party.received() == first  # though more has come since
    full = Cluster(5)
    assert full.run(VALUES) == ([14], 5)
    member = full.parties[full.nodes[1]]
    assert member.answer() == member.answer()
    with pytest.raises(UsageError, match="concluded"):
        full.leader.conclude()
    late = Cluster(5)
    late.deliver(late.share(VALUES))
    late.leader._keyring = PreloadedKeys(late.head, late.keys[late.head] | {999: bytes(16)})
    assert late.leader.report(999) == late.leader.report(999)
    with pytest.raises(UsageError, match="report"):
        late.finish()


def test_a_node_that_restarts_remembers_its_epoch(cluster):
    node = cluster.nodes[1]
    ring = PreloadedKeys(node, cluster.keys[node])
    again = Member(cluster.params, ring, last_epoch=7)
    with pytest.raises(PeerError, match="again, or an older one"):
        again.share(cluster.roster(epoch=7), [1], cluster.head)
    with pytest.raises(UsageError, match="epoch"):
        again.begin_reports(7)
    assert isinstance(again.share(cluster.roster(epoch=8), [1], cluster.head), Shares)
    with pytest.raises(UsageError, match="last_epoch"):
        Member(cluster.params, ring, last_epoch=-2)


def test_a_count_above_the_nodes_is_refused(cluster):
    ring = link_keys([1, 2])
    params = Params.recommend("cpda-field", nodes=4, bound=1)
    child, parent = (Member(params, PreloadedKeys(n, ring[n])) for n in (1, 2))
    for party in (child, parent):
        party.begin_reports(0)
    child._add_own([1], 5)
    with pytest.raises(PeerError, match="5 readings where there are too few nodes"):
        parent.add(child.report(2), 1)


def test_joining_proves_a_key(cluster):
    hello = cluster.leader.announce(7, 2)
    joins = {n: cluster.parties[n].join(hello, cluster.head) for n in cluster.nodes[1:]}
    for node, join in joins.items():
        cluster.leader.admit(join, node)
    assert cluster.leader.roster(7).members == tuple(cluster.nodes)
    cluster.leader.announce(8, 2)
    with pytest.raises(Abort, match="too small"):
        cluster.leader.roster(8)
    cluster.leader.announce(7, 2)
    with pytest.raises(PeerError, match="does not verify"):
        cluster.leader.admit(joins[cluster.nodes[1]], cluster.nodes[2])
    with pytest.raises(PeerError, match="no key"):
        cluster.leader.admit(joins[cluster.nodes[1]], 4242)
    with pytest.raises(PeerError, match="does not lead"):
        cluster.parties[cluster.nodes[1]].join(replace(hello, leads=False), cluster.head)


def test_numbers_are_checked_before_anything_is_sent(cluster):
    party = cluster.parties[cluster.nodes[1]]
    for numbers in ([101], [-101], [1, 2], [], [True], [1.0]):
        with pytest.raises(UsageError, match="numbers"):
            party.share(cluster.roster(), numbers, cluster.head)
    assert party.state is MemberState.IDLE
    assert isinstance(party.share(cluster.roster(), [np.int64(100)], cluster.head), Shares)


def test_these_parties_are_for_two_protocols():
    params = Params.recommend("tag", nodes=10, bound=1)
    with pytest.raises(UsageError, match="cpda-field or mask-cluster"):
        Member(params, PreloadedKeys(1, {}))
    with pytest.raises(UsageError, match="params"):
        Member("params", PreloadedKeys(1, {}))
