"""Messages as bytes: canonical, of the size announced, and harmless whatever arrives instead."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parties import BOTH, Play, complete, sparse

from privagg import wire
from privagg.errors import PeerError, UsageError
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.graph import permutation
from privagg.protocols.secagg.states import Phase

PARAMS = {
    "complete": complete(9, 5),
    "complete, one coordinate": complete(2, 1, value_bits=1),
    "complete, 64-bit words": complete(9, 5, value_bits=32),
    "complete, weighted": complete(8, 7, weighted=True, max_weight=1000),
    "sparse": sparse(9, 5),
    "sparse, few neighbours": sparse(17, 1, neighbours=2, value_bits=3),
}
KINDS = [
    messages.Start,
    messages.AdvertiseKeys,
    messages.KeyRoster,
    messages.ShareKeys,
    messages.ShareBundle,
    messages.MaskedInput,
    messages.SurvivorSet,
    messages.UnmaskShares,
]
OVERHEAD = 64 * 1024
"""Bytes that reading any small message may take, whatever it says."""


def sent(params, leaves=None):
    """Return every encoded message of one round, with the name of its class."""
    play = Play(params, leaves=leaves)
    play.finish()
    found = [*play.down.values(), *play.up.values()]
    return [(type(messages.decode(data, params, peer=0)), data) for data in found]


@pytest.fixture(scope="module")
def corpus():
    """All the messages of a round of each kind of parameters, somebody missing in some."""
    return {
        name: sent(params) + (sent(params, {0: 1, 3: 2}) if name == "complete" else [])
        for name, params in PARAMS.items()
    }


def equal(one, other):
    return all(
        np.array_equal(getattr(one, field.name), getattr(other, field.name))
        for field in fields(one)
    )


@pytest.mark.parametrize("name", PARAMS)
def test_every_message_of_a_round_is_canonical(corpus, name):
    params, seen = PARAMS[name], set()
    for kind, data in corpus[name]:
        message = kind.decode(data, params, peer=1)
        assert message.encode() == data
        assert equal(message, messages.decode(data, params, peer=1))
        assert equal(message, kind.decode(memoryview(data), params, peer=1))
        seen.add(kind)
    assert seen == set(KINDS)


@pytest.mark.parametrize("name", PARAMS)
def test_sizes_are_the_encoded_bytes(corpus, name):
    params = PARAMS[name]
    for kind, data in corpus[name]:
        message = kind.decode(data, params, peer=1)
        arguments = {
            messages.KeyRoster: lambda m: (params, len(m.members)),
            messages.ShareKeys: lambda m: (len(m.ciphertexts),),
            messages.ShareBundle: lambda m: (len(m.present), len(m.ciphertexts)),
            messages.MaskedInput: lambda m: (params,),
            messages.SurvivorSet: lambda m: (len(m.survivors),),
            messages.UnmaskShares: lambda m: (len(m.shares),),
        }.get(kind, lambda m: ())(message)
        assert kind.size(*arguments) == len(data)


@pytest.mark.parametrize("name", PARAMS)
def test_truncated_at_every_length_and_extended(corpus, name):
    params = PARAMS[name]
    for kind, data in dict(corpus[name]).items():
        for length in range(len(data)):
            for decode in (kind.decode, messages.decode):
                with pytest.raises(PeerError) as caught:
                    decode(data[:length], params, peer=4)
                assert caught.value.peer == 4
        for tail in (b"\0", b"\xff", data, bytes(1000)):
            with pytest.raises(PeerError):
                kind.decode(data + tail, params, peer=4)


@pytest.mark.parametrize("name", PARAMS)
def test_every_flipped_bit_is_refused_or_another_message(corpus, name):
    """There is no bit that does not matter: what still decodes encodes to the flipped bytes."""
    params = PARAMS[name]
    for kind, data in dict(corpus[name]).items():
        flipped = bytearray(data)
        for bit in range(8 * min(len(data), 300)):
            flipped[bit // 8] ^= 1 << bit % 8
            survives(bytes(flipped), params, kind)
            flipped[bit // 8] ^= 1 << bit % 8


def survives(data, params, kind=None):
    """Decode; return whether it was a message. Anything but PeerError is a failure."""
    try:
        message = messages.decode(data, params, peer=2)
    except PeerError as error:
        found = error
    else:
        assert message.encode() == data
        return True
    assert found.peer == 2
    assert found.round
    return False


def test_headers_are_checked():
    params = PARAMS["complete"]
    data = Play(params).server.start(0).encode()
    for changed, reason in (
        (b"\0" + data[1:], "protocol version 0"),
        (b"\x02" + data[1:], "protocol version 2"),
        (data[:1] + b"\x02" + data[2:], "expected"),
        (data[:1] + b"\0" + data[2:], "message kind 0"),
        (data[:1] + b"\xff" + data[2:], "message kind 255"),
        (b"", "expected"),
    ):
        with pytest.raises(PeerError, match=reason):
            messages.decode(changed, params, peer=0)
    for kind in KINDS[1:]:
        with pytest.raises(PeerError, match=f"kind 1 where {kind.kind}"):
            kind.decode(data, params, peer=0)
    for wrong in ("text", None, 3, [1]):
        with pytest.raises(UsageError):
            messages.decode(wrong, params, peer=0)


def test_kinds_are_distinct_and_known():
    assert len({kind.kind for kind in KINDS}) == len(KINDS)
    assert set(messages._KINDS.values()) >= set(KINDS)


@pytest.mark.parametrize("graph", BOTH)
def test_the_messages_of_one_graph_are_no_messages_of_the_other(graph):
    """A roster of the other graph is refused, not misread."""
    mine, theirs = BOTH[graph](8), BOTH["sparse" if graph == "complete" else "complete"](8)
    roster = Play(theirs).until(Phase.SHARE_KEYS).ask(0)
    with pytest.raises(PeerError):
        messages.decode(roster, mine, peer="server")


HUGE = 2**32 - 1


def claims(params):
    """Return messages that claim more than they bring: counts of 2**32 - 1 and the like."""
    tag = bytes(8)

    def header(kind):
        return wire.Writer().u8(1).u8(kind.kind).raw(tag)

    return [
        header(messages.KeyRoster).u32(HUGE).raw(b"\xff" * 200),
        header(messages.KeyRoster).u32(HUGE).raw(bytes(32)).u32(HUGE).raw(bytes(64)),
        header(messages.KeyRoster).u32(8).raw(bytes(32)).u32(params.neighbours),
        header(messages.ShareKeys).raw(bytes(32)).u32(HUGE),
        header(messages.ShareKeys).raw(bytes(32)).u32(params.neighbours),
        header(messages.ShareBundle).u32(HUGE).u32(HUGE).raw(b"\xff" * 200),
        header(messages.ShareBundle).u32(8).u32(params.neighbours).raw(b"\xff" * 200),
        header(messages.MaskedInput),
        header(messages.SurvivorSet).u32(HUGE).u32(HUGE),
        header(messages.UnmaskShares).u32(HUGE),
        header(messages.UnmaskShares).u32(params.neighbours),
    ]


@pytest.mark.parametrize("graph", BOTH)
def test_claimed_sizes_allocate_nothing(graph):
    """In a round of thousands of clients and a billion coordinates: bytes decide, not claims."""
    clients = 4000
    options = {"threshold": None, "min_cohort": None, "corrupt": 0.01, "dropout": 0.05}
    if graph == "sparse":
        options |= {"neighbours": None, "sigma": 40, "eta": 20}
    params = BOTH[graph](clients, 10**9, **options)
    for writer in claims(params):
        data = writer.getvalue()
        tracemalloc.start()
        try:
            assert not survives(data, params)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < OVERHEAD + 2 * clients


def test_twenty_thousand_mutations():
    """Bytes changed, cut, inserted, repeated: a PeerError or a message, in little memory."""
    rng = random.Random(20_000)
    parts = [
        (params, data)
        for params in (PARAMS["complete"], PARAMS["sparse"], PARAMS["complete, weighted"])
        for data in dict(sent(params)).values()
    ]
    accepted = 0
    tracemalloc.start()
    try:
        for _ in range(20_000):
            params, data = rng.choice(parts)
            accepted += survives(mutated(bytearray(data), rng, parts), params)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * OVERHEAD
    assert 0 < accepted < 20_000


def mutated(data, rng, parts):
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(data)) if data else 0
        how = rng.randrange(7)
        if how == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1 and data:
            data[at] = rng.choice((0, 1, 127, 128, 255))
        elif how == 2:
            del data[at : at + rng.choice((1, 4, 16, 64))]
        elif how == 3:
            data[at:at] = rng.randbytes(rng.choice((1, 4, 16)))
        elif how == 4:
            data[at:at] = data[at : at + 64]
        elif how == 5:
            data[at : at + 4] = rng.choice((b"\xff" * 4, bytes(4), b"\x01\0\0\0", b"\0\0\0\x80"))
        else:
            other = rng.choice(parts)[1]
            data[at:] = other[at:]
    return bytes(data)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.binary(max_size=300), st.sampled_from(sorted(PARAMS)))
def test_arbitrary_bytes(data, name):
    survives(data, PARAMS[name])
    for kind in KINDS:
        survives(bytes([1, kind.kind]) + data, PARAMS[name])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_messages_made_of_any_fields_round_trip(data):
    """Not only those of real rounds: any content that the layout allows."""
    params = PARAMS[data.draw(st.sampled_from(sorted(PARAMS)))]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    tag, k = rng.bytes(8), params.neighbours
    count = int(rng.integers(0, k + 1))
    flags = rng.random(count) < 0.5
    top = np.uint64(2**61 - 1)
    made = [
        messages.Start(
            tag=tag,
            session=rng.bytes(16),
            round_number=int(rng.integers(2**32)),
            client=int(rng.integers(2**32)),
            params_digest=rng.bytes(32),
        ),
        messages.AdvertiseKeys(tag=tag, cipher_key=rng.bytes(32), mask_key=rng.bytes(32)),
        roster(params, rng, tag),
        messages.ShareKeys(tag=tag, commitment=rng.bytes(32), ciphertexts=columns(rng, count)),
        messages.ShareBundle(
            tag=tag,
            cohort=int(rng.integers(2**32)),
            present=flags,
            ciphertexts=columns(rng, int(flags.sum())),
        ),
        messages.MaskedInput(
            tag=tag,
            bits=params.modulus_bits,
            vector=rng.integers(0, 2**params.modulus_bits, params.length).astype(params.word),
        ),
        messages.SurvivorSet(tag=tag, cohort=int(rng.integers(2**32)), survivors=flags),
        messages.UnmaskShares(tag=tag, shares=rng.integers(0, top, (count, 3), np.uint64)),
    ]
    for message in made:
        found = messages.decode(message.encode(), params, peer=0)
        assert equal(found, message)
    full = replace(made[-1], shares=np.full((1, 3), top, np.uint64))
    with pytest.raises(PeerError, match="not a reduced element"):
        messages.decode(full.encode(), params, peer=0)


def columns(rng, count):
    return rng.integers(0, 256, (count, messages.CIPHERTEXT_BYTES), np.uint8)


def roster(params, rng, tag):
    everyone = params.graph.value == "complete"
    count = int(rng.integers(1, params.clients if everyone else params.neighbours + 1))
    members = np.sort(permutation(params.clients, rng.bytes(16))[:count]).astype(np.uint32)
    return messages.KeyRoster(
        tag=tag,
        cohort=count if everyone else min(count + 1, params.clients),
        members=members,
        keys=rng.integers(0, 256, (count, 64), np.uint8),
        universe=params.clients if everyone else 0,
        digest=b"" if everyone else rng.bytes(32),
    )
