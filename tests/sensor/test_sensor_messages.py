"""Byte layouts and keys."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sensor_parties import Cluster

from privagg import keys
from privagg.entropy import from_seed
from privagg.errors import PeerError, UsageError
from privagg.protocols.sensor import (
    Params,
    PoolKeys,
    PreloadedKeys,
    UniqueKeys,
    keypool,
    messages,
)
from privagg.protocols.sensor.messages import (
    Answer,
    Echo,
    Hello,
    Join,
    Received,
    Relay,
    Report,
    Roster,
    SenderSet,
    Shares,
)

VALUES = [3, 1, 4, 1, 5]


@pytest.fixture
def cluster():
    return Cluster(5)


def examples(params):
    m = 5
    item = messages.item_bytes(params)
    yield Hello(epoch=2**32 - 1, hops=7, leads=True), 0
    yield Join(epoch=1, tag=bytes(params.tag_bytes)), 0
    yield Roster(epoch=3, members=(1, 2, 65534), id_size=2), 0
    yield Shares(items=tuple(bytes([k]) * item for k in range(m - 1))), m
    yield Relay(position=4, items=(b"1" * item, b"2" * item)), m
    yield Received(sealed=bytes(1 + params.tag_bytes)), m
    yield SenderSet(senders=(True, False, True, True, False)), m
    yield Echo(items=(bytes(params.tag_bytes),) * (m - 1)), m
    yield Answer(sealed=bytes(item)), m
    yield Report(sealed=bytes(item + 4)), 0


@pytest.mark.parametrize("tag_bytes", [4, 8, 16])
@pytest.mark.parametrize("width", [1, 3])
def test_messages_come_back_and_nothing_longer_or_shorter(tag_bytes, width):
    params = Params.recommend("cpda-field", nodes=1000, bound=9, tag_bytes=tag_bytes, width=width)
    for message, members in examples(params):
        octets = message.encode()
        read = type(message).decode(octets, params, peer=1, members=members)
        assert read == message
        assert read.encode() == octets
        for bad in (octets[:-1], octets + b"\0", b""):
            with pytest.raises(PeerError):
                type(message).decode(bad, params, peer=1, members=members)


def test_layouts_are_as_short_as_the_counts_say():
    params = Params.recommend("cpda-field", nodes=600, bound=100)
    sizes = {type(m).__name__: len(m.encode()) for m, _ in examples(params)}
    assert sizes["Hello"] == 8
    assert sizes["Join"] == 8
    assert sizes["Roster"] == 4 + 2 * 3
    assert sizes["Shares"] == 4 * 8
    assert sizes["Answer"] == 8
    assert sizes["Report"] == 12


def test_encodings_that_are_not_canonical_are_refused():
    params = Params.recommend("cpda-field", nodes=1000, bound=9)
    cases = [
        (Hello, Hello(epoch=1, hops=1, leads=True).encode()[:-2] + b"\2\0", 0),
        (SenderSet, b"\xff", 5),
        (Relay, b"\5\0" + bytes(8), 5),
        (Relay, b"\0\0" + bytes(8 * 5), 5),
        (Relay, b"\0\0", 5),
        (Roster, bytes(7), 0),
    ]
    for kind, octets, members in cases:
        with pytest.raises(PeerError):
            kind.decode(octets, params, peer=1, members=members)
    with pytest.raises(PeerError, match="echo"):
        Relay.decode_echoes(b"\0\0abc", params, peer=1, members=5)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 40))
def test_hostile_bytes_are_refused_or_canonical(data, members):
    params = Params.recommend("cpda-field", nodes=1000, bound=9)
    for kind in (Hello, Join, Roster, Shares, Relay, Received, SenderSet, Echo, Answer, Report):
        try:
            message = kind.decode(data, params, peer=1, members=max(members, 1))
        except PeerError:
            continue
        assert message.encode() == data


# Keys.


def test_unique_keys_are_the_same_at_both_ends_and_for_nobody_else():
    source = from_seed(1)
    private = {node: source.take(32) for node in (1, 2, 3)}
    directory = {node: keys.public_key(key) for node, key in private.items()}
    rings = {node: UniqueKeys(node, key, directory) for node, key in private.items()}
    assert rings[1].key(2) == rings[2].key(1)
    assert len({rings[1].key(2), rings[1].key(3), rings[2].key(3)}) == 3
    assert rings[1].key(1) is None
    assert rings[1].key(77) is None
    weak = UniqueKeys(1, private[1], {2: bytes(32)})
    assert weak.key(2) is None
    with pytest.raises(UsageError):
        UniqueKeys(1, b"short", directory)
    with pytest.raises(UsageError):
        PreloadedKeys(1, {2: b"short"})


def test_pool_keys_are_those_that_both_rings_have():
    rings = keypool.draw(12, from_seed(2), pool=50, ring=12)
    for a in range(12):
        for b in range(12):
            one, other = PoolKeys(a, rings).key(b), PoolKeys(b, rings).key(a)
            assert one == other
            shared = rings.shared(a, b)
            assert (one is None) == (a == b or shared < 0)
            if shared >= 0:
                assert rings.holders(shared, np.array([a, b])).all()
    assert PoolKeys(0, rings).key(99) is None


def test_secrets_are_not_shown_and_not_pickled(cluster):
    cluster.deliver(cluster.share(VALUES))
    party = cluster.parties[cluster.nodes[1]]
    held = [str(number) for part in party._held.values() for number in part]
    ring = UniqueKeys(1, bytes(range(32)), {})
    shown = repr(party) + repr(cluster.leader) + repr(ring) + repr(PreloadedKeys(1, {2: bytes(16)}))
    assert not any(len(text) > 3 and text in shown for text in held)
    assert bytes(range(32)).hex()[:8] not in shown
    for secret in (ring, PreloadedKeys(1, {2: bytes(16)})):
        with pytest.raises(TypeError):
            pickle.dumps(secret)
