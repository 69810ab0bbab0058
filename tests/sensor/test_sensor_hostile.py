"""Parties under messages of wrong sizes, kinds and times: an error that says who, never a crash."""

import pytest
from sensor_parties import Cluster

from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols.sensor import BaseStation, Leader, Member, PreloadedKeys, UniqueKeys, channel
from privagg.protocols.sensor.messages import (
    Answer,
    Echo,
    Hello,
    Received,
    Relay,
    Report,
    Roster,
    Shares,
)

VALUES = [5, -3, 7, 1, 4]


@pytest.fixture
def cluster():
    return Cluster(5)


def station_of(cluster):
    return BaseStation(cluster.params, PreloadedKeys(cluster.head, cluster.keys[cluster.head]))


def sealed(cluster, kind, plaintext, associated=b"", epoch=1):
    """What a member with its key makes, of any size."""
    sender = cluster.nodes[1]
    return kind(
        sealed=channel.seal(
            cluster.keys[sender][cluster.head],
            plaintext,
            associated,
            kind=kind.kind,
            epoch=epoch,
            sender=sender,
            receiver=cluster.head,
            tag_bytes=cluster.params.tag_bytes,
        )
    )


def test_a_report_before_the_first_epoch_is_refused_and_the_station_goes_on(cluster):
    station, child = station_of(cluster), cluster.nodes[1]
    with pytest.raises(PeerError, match="before this node began an epoch"):
        station.add(Report(sealed=bytes(12)), child)
    with pytest.raises(UsageError, match="begin_reports"):
        station.report(child)
    station.query(0)
    station.add(sealed(cluster, Report, bytes(4) + b"\2\0\0\0", epoch=0), child)
    assert station.total() == ([0], 2)


@pytest.mark.parametrize("size", [0, 3, 4, 20])
def test_a_sealed_report_of_another_size_is_refused(cluster, size):
    station = station_of(cluster)
    station.query(1)
    with pytest.raises(PeerError, match="report"):
        station.add(sealed(cluster, Report, bytes(size)), cluster.nodes[1])
    assert station.total() == ([0], 0)


@pytest.mark.parametrize("epoch", ["1", -1, 2**32, True, 1.5, None])
def test_epochs_are_whole_numbers_of_32_bits(cluster, epoch):
    for begin in (
        station_of(cluster).query,
        lambda value: cluster.leader.announce(value, 1),
        cluster.leader.roster,
    ):
        with pytest.raises(UsageError, match="epoch"):
            begin(epoch)


def test_an_epoch_too_large_changes_nothing(cluster):
    member = cluster.parties[cluster.nodes[1]]
    with pytest.raises(PeerError, match="32 bits"):
        member.share(cluster.roster(epoch=2**40), [1], cluster.head)
    assert (member.epoch, member.members) == (-1, ())
    with pytest.raises(PeerError, match="32 bits"):
        member.join(Hello(epoch=2**40, hops=1, leads=True), cluster.head)
    assert cluster.run(VALUES) == ([14], 5)


def test_a_join_of_another_epoch_is_a_replay(cluster):
    leader, node = cluster.leader, cluster.nodes[1]
    old = cluster.parties[node].join(leader.announce(1, 2), cluster.head)
    leader.admit(old, node)
    leader.announce(2, 2)
    with pytest.raises(PeerError, match="epoch 1, which was not announced"):
        leader.admit(old, node)
    with pytest.raises(Abort):
        leader.roster(2)


@pytest.mark.parametrize("protocol", ["cpda-field", "mask-cluster"])
def test_answers_of_an_epoch_given_up_do_not_enter_the_next(protocol):
    cluster = Cluster(5, protocol=protocol)
    cluster.deliver(cluster.share(VALUES))
    with pytest.raises(Abort, match="too few answers"):
        cluster.finish(silent=cluster.nodes[3:])
    assert cluster.run([1, 1, 1, 1, 1], epoch=2) == ([5], 5)


def test_a_late_answer_does_not_enter_the_next_epoch():
    cluster = Cluster(5, drops=1)
    cluster.deliver(cluster.share(VALUES))
    cluster.agree()
    late = cluster.nodes[-1]
    answer = cluster.parties[late].answer()
    assert cluster.finish(silent=[late]) == ([14], 5)
    with pytest.raises(PeerError, match="after epoch 1 was concluded"):
        cluster.leader.collect(answer, late)
    assert cluster.run([1, 1, 1, 1, 1], epoch=2) == ([5], 5)


def test_bundles_need_an_item_for_each_other_member(cluster):
    """`one_item_each`."""
    bundles = cluster.share(VALUES)
    first, second = cluster.nodes[1:3]
    for items in ((), bundles[second].items[:-1], (*bundles[second].items, b"")):
        with pytest.raises(PeerError, match="items for 4 other members"):
            cluster.parties[first].receive(Shares(items=items), second)
        with pytest.raises(PeerError, match="items for 4 other members"):
            cluster.leader.relay(Shares(items=items), second, [first])
    cluster.deliver(bundles)
    assert cluster.finish() == ([14], 5)


def test_echoes_need_an_item_for_each_other_member():
    cluster = Cluster(5, drops=1)
    cluster.deliver(cluster.share(VALUES))
    for node in cluster.nodes[1:]:
        cluster.leader.note_received(cluster.parties[node].received(), node)
    member = cluster.parties[cluster.nodes[1]]
    member.confirm(cluster.leader.choose_senders())
    with pytest.raises(PeerError, match="0 items for 4 other members"):
        member.hear_echo(Echo(items=()), cluster.nodes[2])


@pytest.mark.parametrize("octets", [b"", b"\xff", b"\x1f\x00"])
def test_lists_have_one_bit_for_each_member(octets):
    cluster = Cluster(5, drops=1)
    cluster.deliver(cluster.share(VALUES))
    node = cluster.nodes[1]
    digest = channel.roster_digest(1, cluster.head, tuple(cluster.nodes))
    with pytest.raises(PeerError, match="no list of one bit for each of 5"):
        cluster.leader.note_received(sealed(cluster, Received, octets, digest), node)
    cluster.leader.note_received(cluster.parties[node].received(), node)


def test_relays_name_another_member_of_the_roster(cluster):
    bundles = cluster.share(VALUES)
    first, second = cluster.nodes[1:3]
    member = cluster.parties[first]
    for place, reason in ((9, "outside 5 members"), (-1, "outside"), (1, "own items")):
        with pytest.raises(PeerError, match=reason) as caught:
            member.receive_relayed(Relay(position=place, items=(bytes(8),)), cluster.head)
        assert caught.value.peer == cluster.head
    for target in (99, second):
        with pytest.raises(UsageError, match="targets"):
            cluster.leader.relay(bundles[second], second, [target])
    with pytest.raises(PeerError, match="outside the roster"):
        cluster.leader.relay(bundles[second], 99, [first])


@pytest.mark.parametrize("size", [0, 3, 8])
def test_sealed_answers_of_another_size_are_refused(cluster, size):
    cluster.deliver(cluster.share(VALUES))
    digest = channel.roster_digest(1, cluster.head, tuple(cluster.nodes))
    with pytest.raises(PeerError, match="answer"):
        cluster.leader.collect(sealed(cluster, Answer, bytes(size), digest), cluster.nodes[1])
    assert cluster.finish() == ([14], 5)


def test_what_is_no_message_is_a_usage_error(cluster):
    leader, member = cluster.leader, cluster.parties[cluster.nodes[1]]
    threshold = Cluster(5, drops=1).parties[13]
    for call in (
        lambda: leader.admit(None, 13),
        lambda: leader.collect(Shares(items=()), 13),
        lambda: leader.note_received(b"", 13),
        lambda: member.join(1, 10),
        lambda: member.share("roster", [1], 10),
        lambda: member.receive(None, 10),
        lambda: member.receive_relayed(Shares(items=()), 10),
        lambda: threshold.confirm((True,) * 5),
        lambda: threshold.hear_echo(None, 10),
        lambda: station_of(cluster).add(None, 13),
    ):
        with pytest.raises(UsageError, match=r"allowed: sensor\.messages"):
            call()


@pytest.mark.parametrize("numbers", [None, 5, "a", b"a", {1}, [1.0], [True], [1, 2], []])
def test_numbers_are_a_sequence_of_whole_numbers(cluster, numbers):
    with pytest.raises(UsageError, match="numbers"):
        cluster.leader.share(cluster.roster(), numbers, cluster.head)
    assert cluster.leader.epoch == -1


def test_keyrings_hold_keys_of_the_right_size():
    for table in (
        [1],
        None,
        {2: b"x"},
        {2: bytes(31)},
        {2: "x"},
        {"2": bytes(32)},
        {-1: bytes(32)},
    ):
        with pytest.raises(UsageError, match="directory"):
            UniqueKeys(1, bytes(range(32)), table)
        with pytest.raises(UsageError, match="link_keys"):
            PreloadedKeys(1, table)
    for node in (-1, "1", True, 2**32):
        with pytest.raises(UsageError, match="node"):
            UniqueKeys(node, bytes(range(32)), {})
        with pytest.raises(UsageError, match="node"):
            PreloadedKeys(node, {})


def test_parties_want_a_keyring_and_a_source(cluster):
    with pytest.raises(UsageError, match="keyring"):
        Member(cluster.params, None)
    with pytest.raises(UsageError, match="entropy"):
        Leader(cluster.params, PreloadedKeys(10, {}), entropy=None)


def test_an_empty_roster_names_nobody(cluster):
    with pytest.raises(PeerError, match="without node"):
        cluster.leader.share(Roster(epoch=1, members=(), id_size=2), [1], cluster.head)
