"""Clients that repeat, reorder, pad and mangle what they send to an honest server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from privagg import sharing
from privagg.errors import Abort
from privagg.protocols.secagg import Phase
from privagg.protocols.secagg.identity import SIGNATURE_BYTES
from privagg.protocols.secagg.layout import FIELD_BITS, HEADER_BYTES
from privagg.protocols.secagg.messages import (
    AdvertiseKeys,
    MaskedInput,
    Message,
    UnmaskShares,
)
from privagg.testing.secagg.arena import Arena
from privagg.testing.secagg.behaviour import (
    Expect,
    Liar,
    behaviour,
)
from privagg.testing.secagg.forgery import Sent, lie_in, other_elements, words_of

__all__ = ()

_CLIENTS = Liar.CLIENTS


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    invariant="one share per peer",
    round="unmasking",
    source="pitfall 3",
    text="A client answers unmasking with a row twice, so that it would count as two holders.",
)
def _holder_that_pads_its_shares(arena: Arena) -> None:
    def lie(index: int, reply: UnmaskShares) -> Sent:
        rows = np.concatenate([reply.shares[:1], reply.shares])[: len(reply.shares)]
        return [
            replace(reply, shares=rows[:-1], missing=reply.missing[:-1]),
            reply,
        ]

    lie_in(arena, Phase.UNMASKING, lie)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.IGNORED,
    invariant="the first answer counts",
    round="unmasking",
    source="pitfall 3",
    text="In every round a client sends its answer three times: it must count once.",
)
def _client_that_answers_many_times(arena: Arena) -> None:
    arena.liars = set(arena.colluders[:1])
    arena.play(lambda phase, index, reply: [reply, reply, reply])


@behaviour(
    liar=_CLIENTS,
    expect=Expect.IGNORED,
    invariant="the first answer counts",
    round="masked-input",
    source="pitfall 8",
    text="A client sends a second, other masked vector, to be added on top.",
)
def _client_that_sends_two_vectors(arena: Arena) -> None:
    def lie(index: int, reply: MaskedInput) -> Sent:
        words = words_of(arena, reply)
        return [reply, replace(reply, vector=words ^ words.dtype.type(1))]

    lie_in(arena, Phase.MASKED_INPUT, lie)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.IGNORED,
    invariant="the first answer counts",
    round="unmasking",
    source="pitfall 11",
    text="A client sends its shares, and then others.",
)
def _client_that_sends_shares_twice(arena: Arena) -> None:
    def lie(index: int, reply: UnmaskShares) -> Sent:
        return [reply, replace(reply, shares=other_elements(reply.shares))]

    lie_in(arena, Phase.UNMASKING, lie)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    invariant="order",
    round="masked-input",
    source="CCS 2017, figure 4",
    text=(
        "A client sends its masked vector while keys are being shared, and its shares while "
        "vectors are being collected."
    ),
)
def _client_ahead_of_its_time(arena: Arena) -> None:
    params = arena.params

    def tamper(phase: Phase, index: int, reply: Message) -> Sent:
        early: Message | None = None
        if phase is Phase.SHARE_KEYS:
            zeros = np.zeros(params.length, params.word)
            signature = bytes(SIGNATURE_BYTES * params.views_signed)
            early = MaskedInput(
                tag=reply.tag, bits=params.modulus_bits, vector=zeros, signature=signature
            )
        elif phase is Phase.MASKED_INPUT:
            rows = np.zeros((params.holders, sharing.LIMBS), np.uint64)
            missing = np.zeros(params.holders, np.bool_)
            early = UnmaskShares(tag=reply.tag, shares=rows, missing=missing)
        return [reply] if early is None else [early, reply]

    arena.liars = set(arena.colluders[:1])
    arena.play(tamper)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    invariant="same round",
    round="masked-input",
    source="pitfall 12",
    text="A client sends its answers of the round before, each before that of this round.",
)
def _client_that_replays_last_round(arena: Arena) -> None:
    last = arena.last_round()
    answers: dict[Phase, Message] = {}
    while last.phase is not Phase.DONE:
        for index in last.present():
            reply = last.reply(index, last.ask(index))
            last.server.receive(index, reply)
            if index == arena.colluders[0]:
                answers[last.phase] = reply
        last.server.close()
    arena.liars = set(arena.colluders[:1])
    arena.play(lambda phase, index, reply: [answers[phase], reply])


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    invariant="canonical messages",
    round="advertise-keys",
    source="malformed input",
    text=(
        "Before each answer a client sends it cut, too long, of an unknown kind and of an "
        "unknown version."
    ),
)
def _client_that_mangles_messages(arena: Arena) -> None:
    def tamper(phase: Phase, index: int, reply: Message) -> Sent:
        data = reply.encode()
        return [
            data[:-1],
            data + b"\0",
            data[:1] + b"\xff" + data[2:],
            b"\xff" + data[1:],
            data[:HEADER_BYTES],
            b"",
            reply,
        ]

    arena.liars = set(arena.colluders[:1])
    arena.play(tamper)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    invariant="canonical messages",
    round="unmasking",
    source="malformed input",
    text="A share is 2**61 - 1, a second encoding of zero.",
)
def _holder_of_a_share_out_of_range(arena: Arena) -> None:
    def lie(index: int, reply: UnmaskShares) -> Sent:
        shares = reply.shares.copy()
        shares[0] = np.uint64(2**FIELD_BITS - 1)
        return [replace(reply, shares=shares, missing=np.zeros_like(reply.missing)), reply]

    lie_in(arena, Phase.UNMASKING, lie)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.ENDED,
    errors=(Abort,),
    invariant="too few are left",
    round="unmasking",
    source="pitfall 3",
    text="Fewer than t clients answer unmasking, each many times.",
)
def _too_few_that_answer_often(arena: Arena) -> None:
    short = arena.params.threshold - 1
    everyone = range(arena.params.clients)
    arena.liars = set(everyone)

    def tamper(phase: Phase, index: int, reply: Any) -> Sent:
        if not isinstance(reply, UnmaskShares):
            return [reply]
        return [reply] * 3 if index < short else []

    arena.play(tamper)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    invariant="only the invited take part",
    round="advertise-keys",
    source="Boenisch et al., EuroS&P 2023",
    text="A client sends keys under an index beyond the cohort, then its own.",
)
def _client_that_was_not_invited(arena: Arena) -> None:
    def lie(index: int, reply: AdvertiseKeys) -> Sent:
        arena.hand_in_as(arena.params.clients + 3, reply)
        return [reply]

    lie_in(arena, Phase.ADVERTISE_KEYS, lie)
