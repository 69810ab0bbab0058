"""A server that lies about who signed which survivor set: the consistency check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from privagg import keys
from privagg.errors import Abort
from privagg.protocols.secagg import Graph, Phase, Threat, layout
from privagg.protocols.secagg.identity import SIGNATURE_BYTES
from privagg.protocols.secagg.messages import (
    ConsistencySignature,
    ShareBundle,
    SignatureSet,
    SurvivorSet,
    UnmaskShares,
)
from privagg.testing.secagg.arena import Arena, Inapplicable
from privagg.testing.secagg.behaviour import (
    SIGNED,
    Cohort,
    Expect,
    Liar,
    behaviour,
)
from privagg.testing.secagg.forgery import (
    fewer,
    members_of,
    other_set,
    sign_survivors,
    signature_set,
    some_signers,
    survivor_set,
    view_of,
)

__all__ = ()

_ACTIVE, _SM = (Threat.ACTIVE,), (Threat.SEMI_MALICIOUS,)
_SPARSE = (Graph.SPARSE,)
_FIGURE_4 = "CCS 2017, figure 4"


@behaviour(
    invariant="signatures_are_valid",
    round="unmasking",
    threats=_ACTIVE,
    source="pitfall 2; CCS 2017, figure 4, round 3",
    cohort=Cohort.TWO,
    text=(
        "The victim is shown one survivor set and everyone else another, and then the "
        "signatures of the others: the shares of the two groups together would open an input."
    ),
)
def _survivor_equivocation(arena: Arena) -> None:
    honest = survivor_set(arena)
    shown = other_set(arena, honest)
    own = arena.say(shown)
    assert isinstance(own, ConsistencySignature)
    rows = []
    flags = shown.survivors.copy()
    for member in map(int, members_of(arena)[flags]):
        reply = own if member == arena.victim else arena.reply(member, honest)
        assert isinstance(reply, ConsistencySignature)
        rows.append(np.frombuffer(reply.signature, np.uint8))
    arena.deliver(SignatureSet(tag=honest.tag, signers=flags, signatures=np.stack(rows)))


@behaviour(
    invariant="signatures_are_valid",
    round="unmasking",
    threats=SIGNED,
    source="pitfall 1; Pasquini et al., CCS 2022",
    text=(
        "The victim is given another model than everyone else. Its signature is over that "
        "model, the others' are not."
    ),
)
def _model_inconsistency(arena: Arena) -> None:
    arena.models[arena.victim] = keys.digest(b"a model made for you")
    arena.until(Phase.MASKED_INPUT)
    for index in arena.present():
        if index == arena.victim:
            arena.server.believe(index, arena.say(arena.ask(index)))
        else:
            arena.exchange(index)
    arena.server.close()
    for index in arena.present():
        message = arena.ask(index)
        if index == arena.victim:
            arena.say(message)  # what it signs does not count for the server
        else:
            reply = arena.reply(index, message)
            arena.server.receive(index, reply)
    arena.server.close()
    # The server claims the victim's signature too.
    message = signature_set(arena)
    if not message.signers.sum() >= arena.params.threshold:
        raise Inapplicable("too few others signed")
    arena.deliver(message)


@behaviour(
    invariant="neighbours_were_told",
    round="unmasking",
    threats=_SM,
    graphs=_SPARSE,
    source="pitfall 2",
    text=(
        "The victim's neighbours are told that it has left, and sign that; the victim is told "
        "that it is in the sum. They would give shares of its mask key, the others of its self "
        "mask: its input opens."
    ),
)
def _neighbours_told_otherwise(arena: Arena) -> None:
    honest = survivor_set(arena)
    arena.say(honest)
    members = members_of(arena)
    rows, views = [], []
    for member in map(int, members):
        shown = arena.ask(member)
        assert isinstance(shown, SurvivorSet)
        flags = shown.survivors & (arena.rosters[member].members != arena.victim)
        reply = arena.reply(member, replace(shown, survivors=flags, cohort=shown.cohort - 1))
        assert isinstance(reply, ConsistencySignature)
        rows.append(np.frombuffer(reply.signature, np.uint8))
        views.append(np.frombuffer(layout.pack_view(flags, arena.params), np.uint8))
    none = np.zeros(len(members), np.bool_)
    arena.deliver(
        SignatureSet(
            tag=honest.tag,
            signers=~none,
            signatures=np.stack(rows),
            views=np.stack(views),
            silent=none,
            silent_signatures=np.zeros((0, SIGNATURE_BYTES), np.uint8),
            silent_views=np.zeros((0, len(views[0])), np.uint8),
        )
    )


@behaviour(
    invariant="neighbours_were_told",
    round="unmasking",
    threats=_SM,
    graphs=_SPARSE,
    source="pitfall 2",
    text=(
        "As neighbours-told-otherwise, but the server shows the victim other views than the "
        "neighbours signed: that it survived."
    ),
)
def _view_changed(arena: Arena) -> None:
    message = signature_set(arena)
    views = _views(message).copy()
    views[0] ^= np.uint8(1)
    arena.deliver(replace(message, views=views))


@behaviour(
    invariant="neighbours_were_told",
    round="unmasking",
    threats=_SM,
    graphs=_SPARSE,
    source="pitfall 2",
    ends_round=False,
    text="The signatures come without the views that they are over.",
)
def _views_left_out(arena: Arena) -> None:
    message = signature_set(arena)
    arena.deliver(replace(message, views=_views(message)[:0]))


def _with_a_silent_neighbour(arena: Arena) -> tuple[SignatureSet, int]:
    """Play a round in which a neighbour was not shown the victim's ciphertext, and does not sign.

    Returns
    -------
    message : SignatureSet
        What the victim is due then.
    place : int
        That of the neighbour among the victim's.
    """
    arena.until(Phase.MASKED_INPUT)
    place = arena.peer_of_victim(arena.rosters[arena.victim], arena.bystanders)
    neighbour = int(members_of(arena)[place])
    for index in arena.present():
        if index != neighbour:
            arena.exchange(index)
    shown = arena.ask(neighbour)
    assert isinstance(shown, ShareBundle)
    where = np.flatnonzero(arena.rosters[neighbour].members == arena.victim)
    reply = arena.reply(neighbour, fewer(shown, where, shown.cohort))
    arena.server.believe(neighbour, reply)
    arena.server.close()
    for index in arena.present():
        if index != neighbour:
            arena.exchange(index)
    arena.server.close()
    message = arena.due()
    assert isinstance(message, SignatureSet)
    assert message.silent is not None
    views = np.array(message.silent_views)
    signed = arena.rosters[neighbour].members != arena.victim
    row = int(message.silent[:place].sum())
    views[row] = np.frombuffer(layout.pack_view(signed, arena.params), np.uint8)
    return replace(message, silent_views=views), place


@behaviour(
    invariant="neighbours_were_told",
    round="unmasking",
    threats=_SM,
    graphs=_SPARSE,
    source="pitfall 2",
    expect=Expect.CONTAINED,
    text=(
        "A neighbour was not shown the victim's ciphertext, so that the two have no masks with "
        "each other, and the server keeps it from signing what it was told of survivors. The "
        "victim may go on, but must give no share of that neighbour's self mask."
    ),
)
def _neighbour_without_masks(arena: Arena) -> str | None:
    message, place = _with_a_silent_neighbour(arena)
    answer = arena.deliver(message)
    assert isinstance(answer, UnmaskShares)
    kept = answer.missing[place] and not answer.shares[place].any()
    return "no share of its self mask given" if kept else None


@behaviour(
    invariant="neighbours_were_told",
    round="unmasking",
    threats=_SM,
    graphs=_SPARSE,
    source="pitfall 2",
    text=(
        "As neighbour-without-masks, but the server shows another view than the neighbour "
        "signed with its input: that it was shown the victim's ciphertext."
    ),
)
def _silent_view_changed(arena: Arena) -> None:
    message, _ = _with_a_silent_neighbour(arena)
    assert message.silent_views is not None
    views = message.silent_views.copy()
    views[0] = np.uint8(0xFF)
    arena.deliver(replace(message, silent_views=views))


def _views(message: SignatureSet) -> NDArray[np.uint8]:
    assert message.views is not None
    return message.views


@behaviour(
    invariant="enough_holders",
    round="unmasking",
    threats=SIGNED,
    source="CCS 2017, figure 4, round 4",
    errors=(Abort,),
    text="Fewer than t clients signed the set: the others may have been shown another.",
)
def _too_few_signatures(arena: Arena) -> None:
    message = signature_set(arena)
    few = arena.params.threshold - 1
    flags = message.signers & (np.cumsum(message.signers) <= few)
    arena.deliver(some_signers(message, flags))


@behaviour(
    invariant="enough_holders",
    round="unmasking",
    threats=SIGNED,
    source="CCS 2017, figure 4, round 4",
    errors=(Abort,),
    text="No signature at all comes with the request for shares.",
)
def _survivor_signatures_dropped(arena: Arena) -> None:
    message = signature_set(arena)
    arena.deliver(some_signers(message, np.zeros_like(message.signers)))


@behaviour(
    invariant="signers_within_survivors",
    round="unmasking",
    threats=SIGNED,
    liar=Liar.COALITION,
    source="CCS 2017, figure 4, round 4",
    text="A colluder signs the set although it is not in it, in the place of someone who is.",
)
def _signer_outside_the_sum(arena: Arena) -> None:
    arena.until(Phase.MASKED_INPUT)
    members = members_of(arena)
    place = arena.peer_of_victim(arena.rosters[arena.victim])
    colluder = int(members[place])
    arena.gone.add(colluder)
    message = signature_set(arena)
    flags = message.signers.copy()
    flags[place] = True
    row = int(flags[:place].sum())
    signature = np.frombuffer(sign_survivors(arena, colluder), np.uint8)
    views = message.views
    if views is not None:
        view = np.frombuffer(view_of(arena, colluder), np.uint8)
        views = np.insert(views, row, view, axis=0)
    signatures = np.insert(message.signatures, row, signature, axis=0)
    arena.deliver(replace(message, signers=flags, signatures=signatures, views=views))


def _with_signature(arena: Arena, signature: bytes) -> None:
    message = signature_set(arena)
    signers = members_of(arena)[message.signers]
    row = int(np.flatnonzero(np.isin(signers, arena.bystanders))[0])
    rows = message.signatures.copy()
    rows[row] = np.frombuffer(signature, np.uint8)
    arena.deliver(replace(message, signatures=rows))


@behaviour(
    invariant="signatures_are_valid",
    round="unmasking",
    threats=SIGNED,
    source=_FIGURE_4,
    text="One of the signatures is no one's.",
)
def _survivor_signature_forged(arena: Arena) -> None:
    _with_signature(arena, keys.digest(b"r") + keys.digest(b"s"))


@behaviour(
    invariant="signatures_are_valid",
    round="unmasking",
    threats=SIGNED,
    liar=Liar.COALITION,
    source="pitfall 3",
    text=(
        "A colluder's signature stands in the place of an honest client's: one signer that "
        "counts twice toward the threshold."
    ),
)
def _survivor_signature_counted_twice(arena: Arena) -> None:
    message = signature_set(arena)
    signers = members_of(arena)[message.signers]
    rows = np.flatnonzero(np.isin(signers, arena.colluders))
    if not len(rows):
        raise Inapplicable("no colluder among the signers")
    _with_signature(arena, message.signatures[rows[0]].tobytes())


@behaviour(
    invariant="signatures_are_valid",
    round="unmasking",
    threats=SIGNED,
    source="pitfall 12",
    text="The signatures of the round before, over the same set of clients.",
)
def _survivor_signatures_of_last_round(arena: Arena) -> None:
    last = arena.last_round()
    last.until(Phase.UNMASKING)
    message = signature_set(arena)
    signers = members_of(arena)[message.signers]
    old = b"".join(last.server.signature_of(int(signer)) for signer in signers)
    rows = np.frombuffer(old, np.uint8).reshape(message.signatures.shape)
    arena.deliver(replace(message, signatures=rows))


@behaviour(
    invariant="bitmap_covers_roster",
    round="unmasking",
    threats=SIGNED,
    source="pitfall 2",
    text="The set of signers has a bit less than the roster.",
)
def _signers_of_another_roster(arena: Arena) -> None:
    message = signature_set(arena)
    kept = message.signers.copy()
    kept[-1] = False
    message = some_signers(message, kept)
    silent = None if message.silent is None else message.silent[:-1]
    arena.deliver(replace(message, signers=message.signers[:-1], silent=silent))
