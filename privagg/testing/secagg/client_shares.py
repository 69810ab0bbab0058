"""Clients that deal or hand in wrong shares, wrong vectors and wrong signatures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privagg import keys, sharing
from privagg.protocols.secagg import Graph, Phase, Threat, client_work
from privagg.protocols.secagg.messages import (
    ConsistencySignature,
    MaskedInput,
    Message,
    ShareKeys,
    UnmaskShares,
)
from privagg.testing.secagg.arena import Arena, Inapplicable
from privagg.testing.secagg.behaviour import (
    SIGNED,
    Expect,
    Liar,
    behaviour,
)
from privagg.testing.secagg.forgery import (
    Sent,
    correctable,
    lie_in,
    other_elements,
    random_rows,
    words_of,
)

__all__ = ()

_CLIENTS = Liar.CLIENTS


def _deal(arena: Arena, receivers: int | None) -> None:
    """Deal wrong shares, rightly encrypted, to the first peers, or to all."""

    def lie(index: int, reply: ShareKeys) -> Sent:
        roster, client = arena.rosters[index], arena.client(index)
        memory = client._memory
        own = memory.own_shares
        shape = (len(roster.members), 2, sharing.LIMBS)
        junk = np.arange(np.prod(shape), dtype=np.uint64).reshape(shape) + np.uint64(5)
        wrong = client_work.encrypt_shares(memory, roster, junk)
        memory.own_shares = own
        columns = reply.ciphertexts.copy()
        columns[:receivers] = wrong[:receivers]
        return [replace(reply, ciphertexts=columns)]

    lie_in(arena, Phase.SHARE_KEYS, lie)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.BLAMED,
    invariant="wrong shares are corrected",
    round="unmasking",
    source="pitfall 11",
    text=(
        "A client deals one peer shares, both of b and of the mask key, that are not on its "
        "polynomials. They open, and the peer passes them on in good faith."
    ),
)
def _dealer_of_one_wrong_share(arena: Arena) -> None:
    correctable(arena)
    _deal(arena, 1)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.ENDED,
    invariant="rebuilt secrets are checked",
    round="unmasking",
    source="pitfall 11",
    text=(
        "A client deals wrong shares to everyone: its secret cannot be rebuilt, and without a "
        "check the sum would be shifted by a mask."
    ),
)
def _dealer_of_wrong_shares(arena: Arena) -> None:
    _deal(arena, None)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.BLAMED,
    invariant="missing shares are got over",
    round="unmasking",
    source="pitfall 11",
    text="A client sends one peer random bytes in place of a ciphertext.",
)
def _dealer_of_one_garbage_ciphertext(arena: Arena) -> None:
    def lie(index: int, reply: ShareKeys) -> Sent:
        columns = reply.ciphertexts.copy()
        columns[:1] = random_rows(columns[:1])
        return [replace(reply, ciphertexts=columns)]

    if arena.params.holders <= arena.params.threshold:
        raise Inapplicable("no share can be spared")
    lie_in(arena, Phase.SHARE_KEYS, lie)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.ENDED,
    invariant="rebuilt secrets are checked",
    round="unmasking",
    source="pitfall 11",
    text="A client sends every peer random bytes: nobody holds a share of its secrets.",
)
def _dealer_of_garbage_ciphertexts(arena: Arena) -> None:
    def lie(index: int, reply: ShareKeys) -> Sent:
        return [replace(reply, ciphertexts=random_rows(reply.ciphertexts))]

    lie_in(arena, Phase.SHARE_KEYS, lie)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.ENDED,
    invariant="rebuilt secrets are checked",
    round="unmasking",
    source="pitfall 11",
    text="A client commits to another self mask than it shares and adds.",
)
def _client_with_another_commitment(arena: Arena) -> None:
    lie_in(
        arena,
        Phase.SHARE_KEYS,
        lambda index, reply: [replace(reply, commitment=keys.digest(b"another"))],
    )


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    invariant="one ciphertext per peer",
    round="share-keys",
    source="pitfall 21",
    text="A client leaves one peer without a ciphertext; for the others it is as if it had left.",
)
def _client_with_a_ciphertext_too_few(arena: Arena) -> None:
    lie_in(
        arena,
        Phase.SHARE_KEYS,
        lambda index, reply: [replace(reply, ciphertexts=reply.ciphertexts[1:])],
    )


@behaviour(
    liar=_CLIENTS,
    expect=Expect.ENDED,
    invariant="the sum is one that inputs can have",
    round="unmasking",
    source="pitfall 16",
    poisons=True,
    text=(
        "A client adds so much to its masked vector that no inputs of the cohort have this sum. "
        "A wrong vector within the range is not noticed: bound what clients may send."
    ),
)
def _words_outside_the_encoding(arena: Arena) -> None:
    params = arena.params
    encoding, clients = params.encoding, range(params.clients)
    highest = params.clients * encoding.levels * encoding.max_weight
    modulus = 2**params.modulus_bits
    target = (highest + modulus) // 2
    slack = 0 if encoding.clip is None else params.clients * encoding.max_weight
    if target - slack <= highest or target + slack >= modulus:
        raise Inapplicable("every sum below the modulus is one that inputs can have")
    quiet = arena.source("poison")
    sum_of_first = sum(
        int(
            encoding.encode(
                arena.inputs.vector(index),
                weight=arena.inputs.weight(index),
                clients=params.clients,
                entropy=quiet,
            ).words[0]
        )
        for index in clients
    )

    def lie(index: int, reply: MaskedInput) -> Sent:
        words = words_of(arena, reply)
        vector = words.astype(np.uint64)
        vector[0] = (int(vector[0]) + target - sum_of_first) % modulus
        return [replace(reply, vector=vector.astype(words.dtype))]

    lie_in(arena, Phase.MASKED_INPUT, lie)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    threats=SIGNED,
    invariant="signed survivor sets",
    round="consistency-check",
    source="pitfall 1",
    poisons=True,
    text=(
        "A client masks for another model than it was given: its masks do not cancel, as if it "
        "had sent a wrong vector. Its signature over the model says so."
    ),
)
def _client_with_another_model(arena: Arena) -> None:
    arena.models[arena.colluders[0]] = keys.digest(b"an old model")
    arena.liars = set(arena.colluders[:1])
    arena.play(lambda phase, index, reply: [reply])


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    threats=SIGNED,
    invariant="signed survivor sets",
    round="consistency-check",
    source="CCS 2017, figure 4, round 3",
    text=(
        "A client signs another survivor set than it was shown, so that all others leave when "
        "they see the signature."
    ),
)
def _client_that_signs_another_set(arena: Arena) -> None:
    def lie(index: int, reply: ConsistencySignature) -> Sent:
        return [replace(reply, signature=arena.identities[index].sign(b"another set"))]

    lie_in(arena, Phase.CONSISTENCY_CHECK, lie)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    threats=(Threat.SEMI_MALICIOUS,),
    graphs=(Graph.SPARSE,),
    invariant="signed survivor sets",
    round="masked-input",
    source="pitfall 21",
    text=(
        "A client signs another view of whose ciphertexts it was shown than the server has, so "
        "that its neighbours leave when they see the signature."
    ),
)
def _client_that_signs_another_view(arena: Arena) -> None:
    def lie(index: int, reply: MaskedInput) -> Sent:
        return [replace(reply, signature=arena.identities[index].sign(b"another view"))]

    lie_in(arena, Phase.MASKED_INPUT, lie)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.BLAMED,
    invariant="wrong shares are corrected",
    round="unmasking",
    source="pitfall 11",
    text="A client answers unmasking with a wrong share of one peer's secret.",
)
def _holder_of_one_wrong_share(arena: Arena) -> None:
    def lie(index: int, reply: UnmaskShares) -> Sent:
        shares = reply.shares.copy()
        shares[:1] = other_elements(shares[:1])
        return [replace(reply, shares=shares)]

    correctable(arena)
    lie_in(arena, Phase.UNMASKING, lie)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.BLAMED,
    invariant="wrong shares are corrected",
    round="unmasking",
    source="pitfall 11",
    text="A client answers unmasking with a wrong share of everyone's secret.",
)
def _holder_of_wrong_shares(arena: Arena) -> None:
    correctable(arena)
    lie_in(
        arena,
        Phase.UNMASKING,
        lambda index, reply: [replace(reply, shares=other_elements(reply.shares))],
    )


@behaviour(
    liar=_CLIENTS,
    expect=Expect.ENDED,
    invariant="rebuilt secrets are checked",
    round="unmasking",
    source="pitfall 11",
    text=(
        "More clients answer with wrong shares than the surplus corrects, all shifted alike: "
        "without a check against what the dealers committed to, a wrong secret would be "
        "believed."
    ),
)
def _too_many_holders_of_wrong_shares(arena: Arena) -> None:
    holders, threshold = arena.params.holders, arena.params.threshold
    liars = min(holders - threshold + 1, arena.params.clients - 1)
    arena.liars = {*arena.colluders, *arena.bystanders[: max(liars - len(arena.colluders), 0)]}

    def tamper(phase: Phase, index: int, reply: Message) -> Sent:
        if isinstance(reply, UnmaskShares):
            return [replace(reply, shares=other_elements(reply.shares))]
        return [reply]

    arena.play(tamper)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.BLAMED,
    invariant="missing shares are got over",
    round="unmasking",
    source="pitfall 11",
    text="A client says of every honest peer that its ciphertext did not open.",
)
def _holder_that_complains_of_everyone(arena: Arena) -> None:
    def lie(index: int, reply: UnmaskShares) -> Sent:
        members = arena.rosters[index].members
        shared = np.array(arena.server.survivors()["share-keys"])
        listed = members[np.isin(members, shared)]
        missing = listed != index
        shares = reply.shares.copy()
        shares[missing] = 0
        return [replace(reply, shares=shares, missing=missing)]

    if arena.params.holders <= arena.params.threshold:
        raise Inapplicable("no share can be spared")
    lie_in(arena, Phase.UNMASKING, lie)
