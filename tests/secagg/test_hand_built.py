"""Messages put together in this process, not decoded: checked like those from a network."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, replace

import numpy as np
import pytest
from parties import ALL, Play, phases, respond

from privagg.errors import Abort, PeerError
from privagg.protocols import secagg
from privagg.protocols.secagg import messages, tiles
from privagg.protocols.secagg.states import Phase

WHO = 2

ODD = [
    None,
    3,
    -1,
    2**80,
    1.5,
    True,
    "text",
    b"",
    b"short",
    bytes(1000),
    [1, 2],
    {},
    object(),
    np.zeros(0),
    np.zeros((2, 2), np.uint8),
    np.zeros((5, 64), np.uint8),
    np.zeros(5, np.bool_),
    np.ones((1, 3), np.uint64),
    np.full(5, 2**40, np.uint64),
    np.full(5, 2**63, np.float64),
    np.ma.masked_array(np.zeros(5, np.bool_), mask=True),
    np.array([None, object()]),
    np.zeros((), np.uint32),
    np.array([2**32 - 1, 7], np.uint32),
]
"""What a field may hold by mistake or malice."""


def hostile(message):
    """Yield the message with each field in turn replaced by each odd thing."""
    for field in fields(message):
        for value in ODD:
            wrong = replace(message, **{field.name: value})
            if not says_the_same(wrong, message):
                yield field.name, wrong


def says_the_same(one, other):
    """Say whether messages have the same bytes: spare bits of a bitmap, no signature for none."""
    with suppress(AttributeError, IndexError, OverflowError, TypeError, ValueError):
        return one.encode() == other.encode()
    return False


@pytest.mark.parametrize("kind", ALL)
def test_a_server_given_odd_objects_refuses_them_and_goes_on(kind):
    """Nothing but PeerError, and the sum is that of the round without them."""
    params = ALL[kind](6, 3)
    expected = Play(params).finish()
    play = Play(params)
    for _ in phases(params):
        for index in play.present():
            data = play.answer(index, play.ask(index))
            message = messages.decode(data, params, peer=index)
            if index == WHO:
                for name, wrong in hostile(message):
                    with pytest.raises(PeerError) as caught:
                        play.server.receive(index, wrong)
                    assert caught.value.peer == WHO, name
            play.hand_in(index, data)
        play.server.close()
    found = play.server.result()
    np.testing.assert_array_equal(found.total, expected.total)


@pytest.mark.parametrize("kind", ALL)
def test_a_client_given_odd_objects_raises_no_bare_exception(kind):
    params = ALL[kind](6, 3)
    play = Play(params)
    for _ in phases(params):
        client, refused = play.clients[WHO], 0
        message = messages.decode(play.ask(WHO), params, peer="server")
        state, source = client.dump_state(), play.source.spawn("again")
        for _, wrong in hostile(message):
            victim = play.load(WHO, state, source)
            try:  # any other exception fails the test
                respond(victim, wrong, play.vectors[WHO])
            except (PeerError, Abort):
                refused += 1
        assert refused > len(ODD)
        play.step()


@pytest.mark.parametrize("kind", ALL)
def test_a_round_without_bytes_gives_the_same_sum(kind):
    """Parties in one process may hand each other the objects themselves."""
    params = ALL[kind](6, 3)
    expected = Play(params).finish()
    play = Play(params)
    while play.phase is not Phase.DONE:
        for index in play.present():
            message = play.server.message_for(index)
            reply = respond(play.clients[index], message, play.vectors[index])
            play.server.receive(index, reply)
        play.server.close()
    np.testing.assert_array_equal(play.server.result().total, expected.total)


def masked(params, vector, **changes):
    return messages.MaskedInput(
        tag=bytes(8), bits=params.modulus_bits, vector=vector, **changes
    ).checked(params, peer=0)


def test_vectors_that_do_not_fit_are_refused_without_a_copy():
    params = ALL["complete"](5, 12)
    bits, length = params.modulus_bits, params.length
    good = np.full(length, 2**bits - 1, np.uint32)
    assert masked(params, good).vector is good
    packed = np.frombuffer(messages.wire.pack_bits(good, bits), np.uint8)
    whole = tiles.Packed(packed, length, bits, np.uint32)
    assert masked(params, whole).vector is whole
    beyond = good.copy()
    beyond[3] = 2**bits
    for wrong in (
        good[:-1],
        np.append(good, good[:1]),
        good.astype(np.uint64),
        good.astype(np.int32),
        good.reshape(1, -1),
        good.tolist(),
        beyond,
        np.ma.masked_array(good, mask=False),
        tiles.Packed(packed[:-1], length, bits, np.uint32),
        tiles.Packed(packed, length + 1, bits, np.uint32),
        tiles.Packed(packed, length, bits - 1, np.uint32),
        tiles.Packed(packed, length, bits, np.uint64),
        tiles.Packed(packed.astype(np.uint16), length, bits, np.uint32),
        tiles.Packed(packed.tobytes(), length, bits, np.uint32),
    ):
        with pytest.raises(PeerError, match="vector"):
            masked(params, wrong)
    with pytest.raises(PeerError):
        masked(params, good, signature=bytes(64))
    used = length * bits % 8
    assert used, "the last byte has bits to spare"
    stray = packed.copy()
    stray[-1] |= 1 << used
    with pytest.raises(PeerError, match="after its end"):
        masked(params, tiles.Packed(stray, length, bits, np.uint32))


def test_what_was_decoded_is_not_read_twice_but_for_other_parameters():
    params, others = ALL["complete"](5, 3), ALL["complete"](5, 4)
    start = messages.decode(secagg.Server(params).start(1).encode(), params, peer="server")
    assert start.checked(params, peer="server") is start
    assert start.checked(others, peer="server") is not start
    assert replace(start).checked(params, peer="server") is not start


def test_bytes_that_only_fit_together_become_the_message_they_encode():
    """A key too short beside one too long is what the bytes say, on both sides of a network."""
    params = ALL["complete"](5, 3)
    made = messages.AdvertiseKeys(tag=bytes(8), cipher_key=b"a" * 31, mask_key=b"b" * 33)
    found = made.checked(params, peer=1)
    assert (found.cipher_key, found.mask_key) == (b"a" * 31 + b"b", b"b" * 32)
