"""Byte layouts: sizes, canonical form, and bytes from anyone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsa_parties import ALL, Play, honest

from privagg import wire
from privagg.errors import PeerError, UsageError
from privagg.field import prime_field
from privagg.protocols.lightsecagg import decode, messages
from privagg.protocols.lightsecagg.messages import KINDS
from privagg.protocols.lightsecagg.states import Phase

SETTINGS = {
    name + suffix: (make, options)
    for name, make in ALL.items()
    for suffix, options in (("", {}), (" m61", {"value_bits": 30}))
}


@pytest.fixture(scope="module", params=SETTINGS)
def played(request):
    make, options = SETTINGS[request.param]
    play = Play(make(5, 3, **options))
    play.finish()
    return play


def traffic(play):
    """Return every message of the round as bytes: of the server, then of clients."""
    return [*play.down.values(), *play.up.values()]


def test_messages_are_what_they_were_encoded_from(played):
    seen = set()
    for data in traffic(played):
        message = decode(data, played.params, peer="x")
        seen.add(type(message))
        assert message.encode() == data
        assert message.checked(played.params, peer="x") is message
    expected = set(KINDS.values())
    if not played.params.signed:
        expected -= {messages.ConsistencySignature, messages.SignatureSet}
    assert seen == expected


def test_sizes_are_those_of_the_layouts(played):
    p, n = played.params, 5
    sizes = {
        messages.Start: messages.Start.size(),
        messages.AdvertiseKeys: messages.AdvertiseKeys.size(p),
        messages.KeyRoster: messages.KeyRoster.size(p, n),
        messages.ShareMasks: messages.ShareMasks.size(p, n - 1),
        messages.ShareBundle: messages.ShareBundle.size(p, n, n - 1),
        messages.MaskedInput: messages.MaskedInput.size(p, n),
        messages.SurvivorSet: messages.SurvivorSet.size(p, n, n),
        messages.ConsistencySignature: messages.ConsistencySignature.size(),
        messages.SignatureSet: messages.SignatureSet.size(n, n),
        messages.CodedSum: messages.CodedSum.size(p),
    }
    for data in traffic(played):
        assert len(data) == sizes[type(decode(data, p, peer="x"))]


def test_every_prefix_and_every_extension_is_refused(played):
    kinds = {}
    for data in traffic(played):
        kinds.setdefault(data[1], data)
    for data in kinds.values():
        for end in range(len(data)):
            with pytest.raises(PeerError):
                decode(data[:end], played.params, peer=3)
        with pytest.raises(PeerError, match="expected the message to end"):
            decode(data + b"\0", played.params, peer=3)


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_changed_bytes_are_refused_or_canonical(played, data):
    """Whatever is accepted is written back byte for byte; nothing else but PeerError is raised."""
    original = bytearray(data.draw(st.sampled_from(traffic(played))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(original) - 1))
        original[at] = data.draw(st.integers(0, 255))
    try:
        message = decode(bytes(original), played.params, peer=3)
    except PeerError:
        return
    assert message.encode() == bytes(original)


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused_or_canonical(played, data):
    head = bytes([1, data[0] % 12 if data else 0]) + data[1:]
    try:
        message = decode(head, played.params, peer="server")
    except PeerError:
        return
    assert message.encode() == head


@pytest.mark.parametrize(
    ("kind", "field", "count"),
    [(messages.MaskedInput, "vector", "length"), (messages.CodedSum, "elements", "piece")],
    ids=["MaskedInput", "CodedSum"],
)
def test_elements_that_are_not_below_the_modulus_are_refused(played, kind, field, count):
    params = played.params
    data = next(d for d in played.up.values() if isinstance(decode(d, params, peer=0), kind))
    size = getattr(params, count)
    for place in range(size):
        words = getattr(decode(data, params, peer=0), field).copy()
        words[place] = params.field.modulus
        forged = data[: -wire.packed_size(size, params.bits)] + wire.pack_bits(words, params.bits)
        with pytest.raises(PeerError, match="not below the modulus"):
            decode(forged, params, peer=0)


def test_a_field_whose_width_leaves_many_words_unused_is_strict():
    params = honest(3, 2, value_bits=1, threshold=2, field=prime_field(11))
    play = Play(params)
    play.finish()
    data = play.up[Phase.UNMASKING, 0]
    assert len(data) == messages.CodedSum.size(params)
    for word in range(11, 16):
        packed = wire.pack_bits(np.full(params.piece, word, np.uint32), 4)
        with pytest.raises(PeerError, match="not below the modulus"):
            decode(data[: -len(packed)] + packed, params, peer=0)


def test_other_versions_and_kinds_are_named(played):
    data = played.up[Phase.MASKED_INPUT, 0]
    with pytest.raises(PeerError, match="protocol version 2 where 1 is spoken"):
        decode(b"\2" + data[1:], played.params, peer=0)
    with pytest.raises(PeerError, match="message kind 99; known are 1, 2, 3"):
        decode(b"\1\x63" + data[2:], played.params, peer=0)
    with pytest.raises(PeerError, match=r"message kind 6 where 10 \(CodedSum\) is due"):
        messages.CodedSum.decode(data, played.params, peer=0)
    with pytest.raises(UsageError, match="bytes, bytearray or memoryview"):
        decode("text", played.params, peer=0)


def test_secrets_are_not_in_representations(played):
    for data in traffic(played):
        text = repr(decode(data, played.params, peer="x"))
        for name in ("vector=", "elements=", "ciphertexts=", "signature="):
            assert name not in text


def test_hand_built_messages_are_held_to_the_layout():
    params = honest(4, 2)
    play = Play(params).until(Phase.UNMASKING)
    tag = play.server.start(0).tag
    for elements in (
        np.zeros(params.piece + 1, np.uint32),
        np.full(params.piece, 2**31 - 1, np.uint32),
        np.zeros(params.piece, np.int64),
        [0],
        None,
    ):
        with pytest.raises(PeerError):
            play.server.receive(0, messages.CodedSum(tag=tag, bits=31, elements=elements))
    roster = messages.KeyRoster(
        tag=tag, members=np.arange(2), keys=np.zeros((2, 32), np.uint8), universe=2**40
    )
    with pytest.raises(PeerError, match="cannot be written"):
        roster.checked(params, peer="server")
