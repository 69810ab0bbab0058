"""A server that lies about who signed which survivor set: the consistency check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privagg import keys
from privagg.errors import Abort
from privagg.protocols.secagg import Phase, Threat
from privagg.protocols.secagg.messages import (
    ConsistencySignature,
    SignatureSet,
)
from privagg.testing.secagg.arena import Arena, Inapplicable
from privagg.testing.secagg.behaviour import (
    Cohort,
    Liar,
    behaviour,
)
from privagg.testing.secagg.forgery import (
    members_of,
    other_set,
    signature_set,
    statement,
    survivor_set,
)

__all__: list[str] = []

_ACTIVE = (Threat.ACTIVE,)
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
    threats=_ACTIVE,
    source="pitfall 1; Pasquini et al., CCS 2022",
    text=(
        "The victim is given another model than everyone else. Its signature is over that "
        "model, the others' are not."
    ),
)
def _model_inconsistency(arena: Arena) -> None:
    arena.models[arena.victim] = keys.digest(b"a model made for you")
    arena.until(Phase.CONSISTENCY_CHECK)
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
    invariant="enough_holders",
    round="unmasking",
    threats=_ACTIVE,
    source="CCS 2017, figure 4, round 4",
    errors=(Abort,),
    text="Fewer than t clients signed the set: the others may have been shown another.",
)
def _too_few_signatures(arena: Arena) -> None:
    message = signature_set(arena)
    few = arena.params.threshold - 1
    flags = message.signers & (np.cumsum(message.signers) <= few)
    arena.deliver(replace(message, signers=flags, signatures=message.signatures[:few]))


@behaviour(
    invariant="enough_holders",
    round="unmasking",
    threats=_ACTIVE,
    source="CCS 2017, figure 4, round 4",
    errors=(Abort,),
    text="No signature at all comes with the request for shares.",
)
def _survivor_signatures_dropped(arena: Arena) -> None:
    message = signature_set(arena)
    none = np.zeros_like(message.signers)
    arena.deliver(replace(message, signers=none, signatures=message.signatures[:0]))


@behaviour(
    invariant="signers_within_survivors",
    round="unmasking",
    threats=_ACTIVE,
    liar=Liar.COALITION,
    source="CCS 2017, figure 4, round 4",
    text="A colluder signs the set although it is not in it, in the place of someone who is.",
)
def _signer_outside_the_sum(arena: Arena) -> None:
    colluder = arena.colluders[0]
    arena.until(Phase.MASKED_INPUT)
    arena.gone.add(colluder)
    message = signature_set(arena)
    survivors = np.array(arena.server.survivors()["masked-input"], np.uint32)
    signature = arena.identities[colluder].sign(statement(arena, survivors))
    flags = message.signers.copy()
    place = int(np.flatnonzero(members_of(arena) == colluder)[0])
    flags[place] = True
    row = int(flags[:place].sum())
    rows = np.insert(message.signatures, row, np.frombuffer(signature, np.uint8), axis=0)
    arena.deliver(replace(message, signers=flags, signatures=rows))


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
    threats=_ACTIVE,
    source=_FIGURE_4,
    text="One of the signatures is no one's.",
)
def _survivor_signature_forged(arena: Arena) -> None:
    _with_signature(arena, keys.digest(b"r") + keys.digest(b"s"))


@behaviour(
    invariant="signatures_are_valid",
    round="unmasking",
    threats=_ACTIVE,
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
    row = int(np.flatnonzero(np.isin(signers, arena.colluders))[0])
    _with_signature(arena, message.signatures[row].tobytes())


@behaviour(
    invariant="signatures_are_valid",
    round="unmasking",
    threats=_ACTIVE,
    source="pitfall 12",
    text="The signatures of the round before, over the same set of clients.",
)
def _survivor_signatures_of_last_round(arena: Arena) -> None:
    last = arena.last_round()
    old = signature_set(last)
    message = signature_set(arena)
    arena.deliver(replace(message, signers=old.signers, signatures=old.signatures))


@behaviour(
    invariant="bitmap_covers_roster",
    round="unmasking",
    threats=_ACTIVE,
    source="pitfall 2",
    text="The set of signers has a bit less than the roster.",
)
def _signers_of_another_roster(arena: Arena) -> None:
    message = signature_set(arena)
    rows = message.signatures[: len(message.signatures) - int(message.signers[-1])]
    arena.deliver(replace(message, signers=message.signers[:-1], signatures=rows))
