"""What a protocol's figure shows, read off the code: its order table, its messages, its parties.

A flow is one course of a protocol in which nothing goes wrong. It is found by walking the table of
the party whose states are drawn; every step of the walk must be in the table, and every pair of the
table must be in the flow: as a step, as a message that changes nothing, or as a way back.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any, Protocol

__all__ = ["Event", "Flow", "Move", "Step", "note_of", "rounds_flow", "steps_flow", "walked"]

Step = type[Any] | str
Table = Mapping[tuple[Any, Any], Any]


@dataclass(frozen=True)
class Event:
    """A message from one role to another, or a step of one role alone.

    Attributes
    ----------
    round, sender, receiver, name, note : str
        Of a step alone `receiver` is the sender. The name is a message's type, or a step's.
    after : str
        The state that it leads the walker to, if another one.
    both : bool
        Whether each of the walker's kind sends one to all others of its kind.
    by : str
        The walker's own step that sends it, where the table lists that instead of the message.
    """

    round: str
    sender: str
    receiver: str
    name: str
    note: str = ""
    after: str = ""
    both: bool = False
    by: str = ""


@dataclass(frozen=True)
class Move:
    """A pair of the table beside the course: a way back, or to a state off the course."""

    state: str
    by: str
    after: str


@dataclass(frozen=True)
class Flow:
    """One figure.

    Attributes
    ----------
    name, title, subtitle : str
    roles : tuple of str
        From left to right; the first is the walker, whose states are drawn, if any are.
    events : tuple of Event
    start : str
        The walker's first state; empty where there is no table.
    states : tuple of (str, str)
        Names and what they say, of the states that can be reached.
    stays : tuple of Move
        Messages that change no state and are not in the course.
    moves : tuple of Move
        All else in the table.
    aborted : str
        The state that the table does not lead to: where a party gives up. Empty if there is none.
    ends : str
        What the last role has in the end.
    """

    name: str
    title: str
    subtitle: str
    roles: tuple[str, ...]
    events: tuple[Event, ...]
    start: str = ""
    states: tuple[tuple[str, str], ...] = ()
    stays: tuple[Move, ...] = ()
    moves: tuple[Move, ...] = ()
    aborted: str = ""
    ends: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of all that is drawn."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def note_of(kind: object) -> str:
    """Return the first sentence of a docstring, without who sends it, which the arrow shows."""
    if kind == "":
        return ""
    text = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    text = re.sub(r":\w+:`~?\.?([\w.]+)`", r"\1", text).replace("`", "")
    text = re.sub(r"^(\w+ to \w+(, [\w -]+)?|Threshold mode|[a-z-]+): ", "", text)
    text = re.split(r"(?<=\.) |; see ", text)[0].rstrip(".")
    return text[:1].upper() + text[1:]


class _States(Protocol):
    """What `rounds_flow` needs of a module ``states.py``."""

    CLIENT_TABLES: Mapping[Any, Table]
    SEQUENCES: Mapping[Any, tuple[Any, ...]]
    SERVER_TABLE: Mapping[type[Any], Any]
    ClientState: type[Enum]


def rounds_flow(states: Any, threat: Any, name: str, title: str, ends: str) -> Flow:
    """Return a round of clients and a server, in one threat model.

    Raises
    ------
    ValueError
        If table and sequence of rounds do not fit each other.
    """
    order: _States = states
    table = order.CLIENT_TABLES[threat]
    answers = {phase: kind for kind, phase in order.SERVER_TABLE.items()}
    state = next(iter(order.ClientState))
    seen, events = {state}, []
    for phase in order.SEQUENCES[threat]:
        due = [
            (kind, after)
            for (at, kind), after in table.items()
            if at is state and after not in seen
        ]
        if len(due) != 1:
            raise ValueError(f"{phase.title}: {len(due)} ways on from {state.name}")
        [(kind, state)] = due
        seen.add(state)
        answer = answers[phase]
        events += [
            Event(phase.title, "server", "client", kind.__name__, note_of(kind), state.name),
            Event(phase.title, "client", "server", answer.__name__, note_of(answer)),
        ]
    return walked(
        Flow(
            name=name,
            title=title,
            subtitle=f"threat model: {threat.value}",
            roles=("client", "server"),
            events=tuple(events),
            ends=ends,
        ),
        table,
        order.ClientState,
    )


def walked(flow: Flow, table: Table, states: type[Enum]) -> Flow:
    """Return the flow with its states, and with every pair of the table that is not a step of it.

    Raises
    ------
    ValueError
        If a step of the flow leads elsewhere than the table says.
    """
    named = {(at.name, _name(kind)): after.name for (at, kind), after in table.items()}
    start = next(iter(states)).name
    reached = _reachable(start, named)
    state, covered = start, set()
    for event in flow.events:
        key = (state, event.by or event.name)
        listed = key in named
        if (event.after or state) != (named[key] if listed else state):
            raise ValueError(f"{event.name} in {state}: not what the table says")
        if listed:
            covered.add(key)
            state = named[key]
    rest = [Move(at, by, after) for (at, by), after in named.items() if (at, by) not in covered]
    rest = [move for move in rest if move.state in reached]
    known = {at for at, _ in named} | set(named.values())
    given_up = [one.name for one in states if one.name == "ABORTED" and one.name not in known]
    return replace(
        flow,
        start=start,
        states=tuple((one.name, one.value) for one in states if one.name in reached),
        stays=tuple(move for move in rest if move.state == move.after),
        moves=tuple(move for move in rest if move.state != move.after),
        aborted="".join(given_up),
    )


def _name(kind: Step) -> str:
    return kind if isinstance(kind, str) else kind.__name__


def _reachable(start: str, named: Mapping[tuple[str, str], str]) -> set[str]:
    reached = {start}
    while more := {after for (at, _), after in named.items() if at in reached} - reached:
        reached |= more
    return reached


def steps_flow(
    flow: Flow,
    table: Table,
    states: type[Enum],
    order: Sequence[tuple[str, str, Step, type[Any] | None]],
    alone: Mapping[str, object] | None = None,
) -> Flow:
    """Return one epoch of sensors: of a list of steps those that the table has, in this order.

    Parameters
    ----------
    flow : Flow
        With all but events and states.
    order : sequence of (sender, receiver, step, message)
        A step is what the table lists: a message, or the walker's own step, with the message that
        it sends, if any. A step that no state lists stays out, unless the walker has no part in it
        or `message` is the step itself: those frame the course.
    alone : mapping
        For steps that send nothing the methods that they are, for their docstrings.
    """
    state = next(iter(states))
    listed = {kind for _, kind in table}
    events = []
    for sender, receiver, step, message in order:
        framing = step is message
        if step not in listed and not framing:
            continue
        after = table.get((state, step), state)
        sent = step if isinstance(step, type) else message
        own = isinstance(step, str)
        events.append(
            Event(
                round=_round(sent, step),
                sender=sender,
                receiver=receiver if sent else sender,
                name=_name(sent or step),
                note=note_of(sent or (alone or {}).get(_name(step), "")),
                after=after.name if after is not state else "",
                both=not own and (sender, receiver) == flow.roles[:2],
                by=_name(step) if own else "",
            )
        )
        state = after
    acting = {role for event in events for role in (event.sender, event.receiver)}
    roles = tuple(role for role in flow.roles if role in acting)
    return walked(replace(flow, roles=roles, events=tuple(events)), table, states)


def _round(sent: type[Any] | None, step: Step) -> str:
    return str(sent.round) if sent is not None else _name(step)


def backed(order: Iterable[tuple[str, str, Step, type[Any] | None]], parties: Any) -> list[str]:
    """Return the arrows that no party's method stands behind; `parties` are classes by role.

    A sender needs a method that returns the message, a receiver one that takes it.
    """
    missing = []
    for sender, receiver, step, message in order:
        sent = step if isinstance(step, type) else message
        for role, side in ((sender, "return"), (receiver, "")):
            if sent is None or role not in parties:
                continue
            if not any(sent.__name__ in hint for hint in _hints(parties[role], side)):
                missing.append(f"{sent.__name__}: {role} {'sends' if side else 'takes'} none")
    return missing


def _hints(classes: Iterable[type[Any]], side: str) -> Iterable[str]:
    for one in classes:
        for _, method in inspect.getmembers(one, inspect.isfunction):
            for name, hint in method.__annotations__.items():
                if (name == "return") == (side == "return"):
                    yield from re.findall(r"\w+", str(hint))
