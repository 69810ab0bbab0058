"""Messages as bytes: canonical, of the size announced, and harmless whatever arrives instead."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from corpus import GONE, PARAMS, sent, survives
from hypothesis import given, settings
from hypothesis import strategies as st
from parties import ALL, Play, answered, spoken

from privagg.errors import PeerError, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import layout, messages
from privagg.protocols.secagg.graph import permutation
from privagg.protocols.secagg.states import Phase

KINDS = sorted(layout.KINDS.values(), key=lambda kind: kind.kind)


LEFT = {
    "complete": GONE,
    "active": GONE,
    "semi-malicious": {0: Phase.CONSISTENCY_CHECK},
}
"""Rounds in which someone leaves; from the ring, so that some in the sum have not signed it."""


@pytest.fixture(scope="module")
def corpus():
    """All the messages of a round of each kind of parameters, somebody missing in some."""
    return {
        name: sent(params) + (sent(params, LEFT[name]) if name in LEFT else [])
        for name, params in PARAMS.items()
    }


def equal(one, other):
    return all(
        equal(getattr(one, field.name), getattr(other, field.name))
        if field.name == "proof" and one.proof is not None
        else np.array_equal(getattr(one, field.name), getattr(other, field.name))
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
    assert seen == {*spoken(params), *answered(params)}


def test_these_rounds_have_every_kind_of_message():
    kinds = [{*spoken(params), *answered(params)} for params in PARAMS.values()]
    assert set().union(*kinds) == set(KINDS)


@pytest.mark.parametrize("name", PARAMS)
def test_sizes_are_the_encoded_bytes(corpus, name):
    params = PARAMS[name]
    for kind, data in corpus[name]:
        message = kind.decode(data, params, peer=1)
        proof = 0
        if kind is messages.KeyRoster and message.proof is not None:
            proof = message.proof.encoded_size()
            assert proof == messages.GraphProof.size(params, len(message.members))
        arguments = {
            messages.AdvertiseKeys: lambda m: (params,),
            messages.GraphRequest: lambda m: (params,),
            messages.GraphChallenge: lambda m: (params,),
            messages.SignatureSet: lambda m: (
                params,
                len(m.signers),
                len(m.signatures) + (0 if m.silent is None else int(m.silent.sum())),
            ),
            messages.KeyRoster: lambda m: (params, len(m.members)),
            messages.ShareKeys: lambda m: (len(m.ciphertexts),),
            messages.ShareBundle: lambda m: (len(m.present), len(m.ciphertexts)),
            messages.MaskedInput: lambda m: (params,),
            messages.SurvivorSet: lambda m: (len(m.survivors),),
            messages.UnmaskShares: lambda m: (len(m.shares),),
        }.get(kind, lambda m: ())(message)
        assert kind.size(*arguments) + proof == len(data)


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
    assert [kind.kind for kind in KINDS] == list(range(1, len(KINDS) + 1))
    assert {getattr(messages, name) for name in messages.__all__} >= set(KINDS)


@pytest.mark.parametrize("mine", ALL)
@pytest.mark.parametrize("theirs", ALL)
def test_rosters_of_one_kind_of_round_are_none_of_another(mine, theirs):
    """Of another graph, without signatures, or without the graph's proof: refused, not misread."""
    roster = Play(ALL[theirs](8)).until(Phase.SHARE_KEYS).ask(0)
    if mine == theirs:
        messages.decode(roster, ALL[mine](8), peer="server")
        return
    with pytest.raises(PeerError):
        messages.decode(roster, ALL[mine](8), peer="server")


@pytest.mark.parametrize("kind", ALL)
def test_keys_are_signed_or_not_as_the_threat_model_says(kind):
    """A signature cannot be left out where there has to be one, nor smuggled in elsewhere."""
    params = ALL[kind](8)
    play = Play(params)
    play.exchange()
    data = play.up[Phase.ADVERTISE_KEYS, 0]
    changed = data[:-64] if params.signed else data + bytes(64)
    with pytest.raises(PeerError):
        messages.decode(changed, params, peer=0)


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
        messages.AdvertiseKeys(
            tag=tag,
            cipher_key=rng.bytes(32),
            mask_key=rng.bytes(32),
            signature=rng.bytes(64) if params.signed else b"",
        ),
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
            signature=rng.bytes(64 * params.views_signed),
        ),
        messages.SurvivorSet(tag=tag, cohort=int(rng.integers(2**32)), survivors=flags),
        messages.ConsistencySignature(tag=tag, signature=rng.bytes(64)),
        signature_set(params, rng, tag, flags),
        *graph_messages(params, rng, tag),
        messages.UnmaskShares(
            tag=tag,
            shares=np.where(flags[:, None], 0, rng.integers(0, top, (count, 3), np.uint64)),
            missing=flags,
        ),
    ]
    for message in made:
        found = messages.decode(message.encode(), params, peer=0)
        assert equal(found, message)
    full = replace(made[-1], shares=np.full((1, 3), top, np.uint64), missing=np.zeros(1, np.bool_))
    with pytest.raises(PeerError, match="not a reduced element"):
        messages.decode(full.encode(), params, peer=0)
    odd = replace(full, shares=np.ones((1, 3), np.uint64), missing=np.ones(1, np.bool_))
    with pytest.raises(PeerError, match="called missing but is not zero"):
        messages.decode(odd.encode(), params, peer=0)


def signature_set(params, rng, tag, signers):
    def rows(count, width):
        return rng.integers(0, 256, (int(count), width), np.uint8)

    known = {"tag": tag, "signers": signers, "signatures": rows(signers.sum(), 64)}
    if not params.views_signed:
        return messages.SignatureSet(**known)
    silent, width = ~signers & (rng.random(len(signers)) < 0.5), layout.view_bytes(params)
    return messages.SignatureSet(
        **known,
        views=rows(signers.sum(), width),
        silent=silent,
        silent_signatures=rows(silent.sum(), 64),
        silent_views=rows(silent.sum(), width),
    )


def test_no_one_has_signed_and_has_not():
    params, rng = PARAMS["semi-malicious"], np.random.default_rng(4)
    good = signature_set(params, rng, bytes(8), np.array([True, False, True]))
    both = np.array([True, False, False])
    bad = replace(
        good,
        silent=both,
        silent_signatures=np.zeros((1, 64), np.uint8),
        silent_views=np.zeros((1, layout.view_bytes(params)), np.uint8),
    )
    with pytest.raises(PeerError, match="has signed and has not"):
        messages.decode(bad.encode(), params, peer=0)


def graph_messages(params, rng, tag):
    attempt, flags = int(rng.integers(256)), rng.random(params.clients) < 0.5
    return [
        messages.GraphRequest(tag=tag, attempt=attempt, present=flags, key_root=rng.bytes(32)),
        messages.GraphCommitment(tag=tag, attempt=attempt, commitment=rng.bytes(32)),
        messages.GraphChallenge(tag=tag, attempt=attempt, present=flags, root=rng.bytes(32)),
        messages.GraphReveal(tag=tag, attempt=attempt, opening=rng.bytes(16)),
    ]


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
        signatures=rng.integers(0, 256, (count, 64), np.uint8) if params.signed else None,
        proof=graph_proof(params, rng, count),
    )


def graph_proof(params, rng, members):
    if params.threat is not secagg.Threat.SEMI_MALICIOUS:
        return None
    openings, steps = int(rng.integers(params.clients + 1)), int(rng.integers(4))
    return messages.GraphProof(
        openings=rng.integers(0, 256, (openings, 16), np.uint8),
        paths=rng.integers(0, 256, (members, 32 * steps), np.uint8),
        depth=steps,
    )
