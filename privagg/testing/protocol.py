"""Hold a protocol's parties, messages and order against what all protocols here keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.testing import protocol_messages, protocol_parties, protocol_runs
from privagg.testing.conformance import Conformance, carry_out
from privagg.testing.protocol_contract import Protocol
from privagg.testing.protocol_trace import Trace

__all__ = ["PROTOCOL_CHECKS", "check_protocol"]

PROTOCOL_CHECKS: dict[str, Callable[[Trace], str]] = {
    "honest-run": protocol_runs.honest_run,
    "dropouts": protocol_runs.dropouts,
    "seeded-repeat": protocol_runs.seeds_repeat,
    "insecure-mark": protocol_runs.seeded_runs_are_marked,
    "swapped-senders": protocol_runs.swapped_senders,
    "order": protocol_parties.order,
    "duplicates": protocol_parties.duplicates,
    "other-session": protocol_parties.other_session,
    "no-io": protocol_parties.no_io,
    "dump-load": protocol_parties.dumped_states,
    "repr": protocol_parties.nothing_is_shown,
    "pickle": protocol_parties.no_pickles,
    "decoding": protocol_messages.decoding,
    "sizes": protocol_messages.sizes,
    "lies": protocol_runs.lies,
}
"""The checks by name, in the order they are made; the docstring of each says what it holds."""


def check_protocol(
    protocol: Protocol,
    *,
    seed: int = 1,
    schedules: int = 100,
    mutations: int = 1500,
    skip: Mapping[str, str] | None = None,
    only: Iterable[str] | None = None,
    raise_on_failure: bool = True,
) -> Conformance:
    """Hold a protocol against :data:`PROTOCOL_CHECKS`.

    Everything is played in this process with small numbers of clients; the kit carries the
    messages. What a pass says: on these inputs, schedules and changed bytes no party did what the
    contract excludes. It says nothing about what the messages reveal: that is a proof's matter.

    Parameters
    ----------
    protocol : Protocol
        How it is played; :mod:`privagg.testing.adapters` has ours.
    seed : int
        Of all runs and changes, from 0 to 2**63.
    schedules : int
        How many schedules of dropouts are played: all there are, if they are no more.
    mutations : int
        How many changed encodings of each kind of message are decoded.
    skip : mapping of str to str, optional
        Checks that do not apply, each with the reason, for the report.
    only : iterable of str, optional
        The checks to make; all by default.
    raise_on_failure : bool
        Whether failures raise.

    Returns
    -------
    Conformance

    Raises
    ------
    ConformanceError
        An ``AssertionError`` that lists the checks that failed.
    UsageError
        If an argument is not as described.
    """
    if not isinstance(protocol, Protocol):
        hint = "Derive one from privagg.testing.Protocol."
        raise UsageError("protocol", type(protocol).__name__, "a Protocol", hint)
    whole("seed", seed, 0, 2**63)
    whole("schedules", schedules, 1, 10**6)
    whole("mutations", mutations, 1, 10**7)
    trace = Trace(protocol, seed, schedules, mutations)
    checks = {name: _bound(check, trace) for name, check in PROTOCOL_CHECKS.items()}
    found = carry_out(
        f"{protocol.name} ({len(protocol.clients)} clients)",
        checks,
        skip=skip or {},
        only=only,
        notes=[f"Played from seed {seed}: the same checks find the same."],
    )
    if raise_on_failure:
        found.raise_for_failures()
    return found


def _bound(check: Callable[[Trace], str], trace: Trace) -> Callable[[], str]:
    return lambda: check(trace)
