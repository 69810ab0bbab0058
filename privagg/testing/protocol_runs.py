"""Checks of whole runs: the aggregate is right, or there is none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from privagg.errors import Abort, PrivaggError
from privagg.testing.conformance import Failed, Skipped
from privagg.testing.protocol_contract import Envelope, Run, play
from privagg.testing.protocol_trace import Trace

__all__ = [
    "dropouts",
    "honest_run",
    "lies",
    "seeded_runs_are_marked",
    "seeds_repeat",
    "swapped_senders",
]


def honest_run(trace: Trace) -> str:
    """Require the plain aggregate over all clients when everyone stays."""
    said, found = trace.honest
    if set(found.contributors) != set(trace.protocol.clients):
        raise Failed(f"everyone stayed, and {found.contributors} are in the aggregate")
    if not trace.protocol.holds(found):
        raise Failed("the aggregate is not the plain one")
    size = sum(len(one.data) for one in said)
    return f"the plain aggregate of {len(found.contributors)} clients, {size} bytes in all"


def dropouts(trace: Trace) -> str:
    """Require, whoever leaves before whichever round, the aggregate of its contributors or Abort.

    Nobody who stayed may be left out, and someone leaves in each schedule.
    """
    protocol = trace.protocol
    ended = {"aggregate": 0, "abort": 0}
    for leaves in _schedules(trace):
        run = trace.start()
        try:
            play(protocol, run, leaves=leaves)
            found = run.result()
        except Abort:
            ended["abort"] += 1
            continue
        ended["aggregate"] += 1
        stayed = set(protocol.clients) - set(leaves)
        if not stayed <= set(found.contributors):
            raise Failed(
                f"{leaves}: {sorted(stayed - set(found.contributors))} stayed, not counted"
            )
        if not protocol.holds(found):
            raise Failed(
                f"{leaves}: the aggregate is not that of its contributors {found.contributors}"
            )
    return (
        f"{ended['aggregate']} schedules ended with the right aggregate, {ended['abort']} in Abort"
    )


def seeds_repeat(trace: Trace) -> str:
    """Require the same bytes from the same seed, and others from another."""
    again = play(trace.protocol, trace.start())
    if again != trace.said:
        raise Failed("one seed gave two different runs")
    if [one.data for one in trace.other] == [one.data for one in trace.said]:
        raise Failed("two seeds gave the same bytes")
    return f"{len(again)} messages: equal for one seed, others for another"


def seeded_runs_are_marked(trace: Trace) -> str:
    """Require that the driver's result says insecure if, and only if, it was seeded."""
    seeded = trace.protocol.simulated(trace.seed)
    if seeded is None:
        raise Skipped("no driver is given: simulated() returns None")
    if not seeded:
        raise Failed("the result of a seeded run does not say insecure")
    if trace.protocol.simulated(None):
        raise Failed("the result of a run from the system's entropy says insecure")
    return "the driver's result is marked if, and only if, seeded"


def swapped_senders(trace: Trace) -> str:
    """Require an error or the right aggregate when two clients' messages change places."""
    protocol = trace.protocol
    errors = right = 0
    for first, second in _pairs(trace.said):
        exchanged = {
            (first.sender, first.receiver, first.round): second.data,
            (second.sender, second.receiver, second.round): first.data,
        }

        def carry(
            run: Run,
            envelope: Envelope,
            exchanged: dict[tuple[int | str, int | str, str], bytes] = exchanged,
        ) -> list[Envelope]:
            place = envelope.sender, envelope.receiver, envelope.round
            return run.handle(replace(envelope, data=exchanged.get(place, envelope.data)))

        run = trace.start()
        try:
            play(protocol, run, carry=carry)
            found = run.result()
        except PrivaggError:
            errors += 1
            continue
        right += 1
        if not trace.as_before(found) and not protocol.holds(found):
            raise Failed(
                f"round {first.round}: {first.sender} and {second.sender} were exchanged, and the "
                "aggregate is silently wrong"
            )
    if not errors + right:
        raise Skipped("no two parties send to the same one in a round")
    return f"{errors} exchanges refused, {right} without effect on the aggregate"


def lies(trace: Trace) -> str:
    """Require that what dishonest peers say is noticed, where the protocol has a kit of lies."""
    told = list(trace.protocol.lies())
    if not told:
        raise Skipped("no kit of lies is given")
    missed = [f"{name}: {evidence}" for name, passed, evidence in told if not passed]
    if missed:
        raise Failed("; ".join(missed))
    return f"{len(told)} lies came to what they must"


def _schedules(trace: Trace) -> Iterator[dict[int, str]]:
    clients, rounds = trace.protocol.clients, trace.protocol.rounds
    moments = (None, *rounds)
    if len(moments) ** len(clients) <= trace.schedules:
        chosen: Iterator[tuple[str | None, ...]] = itertools.product(moments, repeat=len(clients))
    else:
        chosen = iter(_drawn(trace, len(moments)))
    for one in chosen:
        leaves = {c: name for c, name in zip(clients, one, strict=True) if name is not None}
        if leaves:
            yield leaves


def _drawn(trace: Trace, moments: int) -> list[tuple[str | None, ...]]:
    """Return two clients leaving alone at each moment, and then any of them."""
    clients, rounds = trace.protocol.clients, trace.protocol.rounds
    names = (None, *rounds)
    alone = [
        tuple(names[at] if who == client else None for who in clients)
        for at in range(1, moments)
        for client in clients[:2]
    ]
    draw = np.random.default_rng(trace.seed)
    found: list[tuple[str | None, ...]] = [*alone]
    while len(found) < trace.schedules:
        stay = draw.choice([0.5, 0.7, 0.9])
        places = np.where(
            draw.random(len(clients)) < stay, 0, draw.integers(1, moments, len(clients))
        )
        found.append(tuple(names[at] for at in places.tolist()))
    return found[: trace.schedules]


def _pairs(said: list[Envelope]) -> list[tuple[Envelope, Envelope]]:
    """Return for each round and role two messages to the same party from two others."""
    found: dict[tuple[str, str], tuple[Envelope, Envelope]] = {}
    first: dict[tuple[str, int | str], Envelope] = {}
    for one in said:
        earlier = first.setdefault((one.round, one.receiver), one)
        role = one.round, type(one.receiver).__name__
        if earlier.sender != one.sender and role not in found:
            found[role] = (earlier, one)
    return list(found.values())
