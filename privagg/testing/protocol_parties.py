"""Checks of parties: order, repeated and foreign messages, no I/O, and what leaves them."""

from __future__ import annotations

import copy
import pickle
import re
from collections import defaultdict

from privagg.errors import PrivaggError
from privagg.testing.conformance import Failed, Skipped
from privagg.testing.protocol_contract import Envelope, Party, Run, play
from privagg.testing.protocol_trace import Trace
from privagg.testing.snapshot import changes, snapshot, watched

__all__ = [
    "dumped_states",
    "duplicates",
    "no_io",
    "no_pickles",
    "nothing_is_shown",
    "order",
    "other_session",
]


def order(trace: Trace) -> str:
    """Require that a message which is not due is refused, naming the round, and changes nothing.

    In every state of every party each message of every other round is tried. One that the party
    has already taken may also be answered with the same bytes again, or not at all.
    """
    to: dict[Party, list[Envelope]] = defaultdict(list)
    for one in trace.said:
        if sum(e.round == one.round for e in to[one.receiver]) < 2:  # two senders of each round
            to[one.receiver].append(one)
    heard: dict[Party, list[Envelope]] = defaultdict(list)
    answers: dict[Envelope, list[Envelope]] = {}
    tried = 0

    def carry(run: Run, envelope: Envelope) -> list[Envelope]:
        nonlocal tried
        party = envelope.receiver
        for wrong in to[party]:
            early = wrong not in answers and party in trace.protocol.asynchronous
            if wrong.round != envelope.round and not early:
                tried += 1
                _out_of_turn(trace, run, wrong, envelope, answers)
        answers[envelope] = run.handle(envelope)
        heard[party].append(envelope)
        return answers[envelope]

    run = trace.start()
    play(trace.protocol, run, carry=carry)
    if not trace.as_before(run.result()):
        raise Failed("after messages out of turn, all refused, the aggregate is another one")
    return f"{tried} messages out of turn to {len(heard)} parties: refused, or repeated unchanged"


def _out_of_turn(
    trace: Trace, run: Run, wrong: Envelope, due: Envelope, answers: dict[Envelope, list[Envelope]]
) -> None:
    what = f"a message of {wrong.round} to {wrong.receiver} while {due.round} is due"
    before = snapshot(run.parties[wrong.receiver])
    try:
        replies = run.handle(wrong)
    except PrivaggError as error:
        named = str(getattr(error, "round", "")), str(error)
        if not any(name in text for name in trace.protocol.rounds for text in named):
            raise Failed(f"{what}: the error names no round: {error}") from error
    except Exception as error:  # the contract has its own errors
        raise Failed(f"{what} raised {type(error).__name__}: {error}") from error
    else:
        if wrong not in answers:
            raise Failed(f"{what} was accepted")
        if replies and replies != answers[wrong]:
            raise Failed(f"{what} was answered with other bytes than the first time")
    changed = changes(before, snapshot(run.parties[wrong.receiver]))
    if changed:
        raise Failed(f"{what} changed {', '.join(changed[:3])}")


def duplicates(trace: Trace) -> str:
    """Require that a message which comes twice counts once: the same answer again, or an error."""
    refused = 0

    def carry(run: Run, envelope: Envelope) -> list[Envelope]:
        nonlocal refused
        replies = run.handle(envelope)
        before = snapshot(run.parties[envelope.receiver])
        what = f"a second copy of a message of {envelope.round} to {envelope.receiver}"
        try:
            again = run.handle(envelope)
        except PrivaggError:
            refused += 1
        else:
            if again and again != replies:
                raise Failed(f"{what} was answered with other bytes")
        changed = changes(before, snapshot(run.parties[envelope.receiver]))
        if changed:
            raise Failed(f"{what} changed {', '.join(changed[:3])}")
        return replies

    run = trace.start()
    said = play(trace.protocol, run, carry=carry)
    if not trace.as_before(run.result()):
        raise Failed("with every message sent twice the aggregate is another one")
    return f"{len(said)} messages twice: {refused} second ones refused, the others without effect"


def other_session(trace: Trace) -> str:
    """Require that messages of another session are refused, and change nothing.

    What a party hears before it said anything may open a session, and is left out.
    """
    foreign = {(one.sender, one.receiver, one.round): one for one in trace.other}
    heard: set[Party] = set()
    tried = 0

    def carry(run: Run, envelope: Envelope) -> list[Envelope]:
        nonlocal tried
        party = envelope.receiver
        wrong = foreign.get((envelope.sender, party, envelope.round))
        if party in heard and wrong is not None and wrong.data != envelope.data:
            tried += 1
            before = snapshot(run.parties[party])
            what = f"a message of another session, {envelope.round} to {party},"
            try:
                run.handle(wrong)
            except PrivaggError:
                changed = changes(before, snapshot(run.parties[party]))
                if changed:
                    raise Failed(f"{what} changed {', '.join(changed[:3])}") from None
            else:
                raise Failed(f"{what} was accepted")
        heard.update((party, envelope.sender))
        return run.handle(envelope)

    run = trace.start()
    play(trace.protocol, run, carry=carry)
    if not tried:
        raise Skipped("no party hears a second message")
    if not trace.as_before(run.result()):
        raise Failed("after messages of another session, all refused, the aggregate is another")
    return f"{tried} messages of another session refused, without effect"


def no_io(trace: Trace) -> str:
    """Require that no party uses a file, socket, process, clock or global generator."""
    _ = trace.honest  # once before: what is loaded or compiled on first use is no party's doing
    run = trace.start()
    with watched() as noted:
        play(trace.protocol, run)
        run.result()
    if noted:
        raise Failed(f"a run used {', '.join(sorted(set(noted)))}")
    return "a run without files, sockets, processes, clocks or global randomness"


def dumped_states(trace: Trace) -> str:
    """Require the same bytes when every party is dumped and loaded before each message."""
    loads = 0

    def carry(run: Run, envelope: Envelope) -> list[Envelope]:
        nonlocal loads
        run.reload(envelope.receiver)
        loads += 1
        return run.handle(envelope)

    run = trace.start()
    try:
        said = play(trace.protocol, run, carry=carry)
    except NotImplementedError:
        raise Skipped("no party has dump_state()") from None
    if said != trace.said:
        raise Failed("parties from dumped states said other bytes")
    return f"{loads} loaded states, the same {len(said)} messages"


def nothing_is_shown(trace: Trace) -> str:
    """Require that what is printed of parties and messages does not depend on their secrets."""
    shown: list[list[str]] = []
    for further in (0, 1):
        texts: list[str] = []

        def carry(run: Run, envelope: Envelope, texts: list[str] = texts) -> list[Envelope]:
            replies = run.handle(envelope)
            party = repr(run.parties[envelope.receiver])
            texts.append(f"{envelope.receiver}: {party} {_printed(trace, envelope)}")
            return replies

        play(trace.protocol, trace.start(further), carry=carry)
        shown.append([re.sub(r"0x[0-9a-f]{6,}", "0x", text) for text in texts])
    for one, other in zip(*shown, strict=True):
        if one != other:
            raise Failed(f"a repr depends on the seed: {one[:120]}")
    return f"{len(shown[0])} states and messages of two seeds print alike"


def _printed(trace: Trace, envelope: Envelope) -> str:
    message = trace.protocol.decode(envelope)
    text = repr(message)
    for name in trace.protocol.public_fields:
        if hasattr(message, name):
            text = text.replace(f"{name}={getattr(message, name)!r}", f"{name}=...")
    return text


def no_pickles(trace: Trace) -> str:
    """Require that parties refuse to be pickled or copied: their state leaves by dump_state()."""
    secret = [who for who in trace.start().parties if who not in trace.protocol.public]
    if not secret:
        raise Skipped("no party holds a secret")

    def carry(run: Run, envelope: Envelope) -> list[Envelope]:
        party = run.parties[envelope.receiver]
        if envelope.receiver in secret:
            for name, leave in (("pickled", pickle.dumps), ("copied", copy.deepcopy)):
                try:
                    leave(party)
                except TypeError as error:
                    if "cannot" not in str(error):
                        raise Failed(f"{envelope.receiver}: {error}") from error
                    continue
                raise Failed(f"{envelope.receiver} can be {name} in round {envelope.round}")
        return run.handle(envelope)

    play(trace.protocol, trace.start(), carry=carry)
    return f"{len(secret)} parties refuse in every state"
