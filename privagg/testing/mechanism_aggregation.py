"""Checks of states and bytes, of where randomness comes from, and of what is shown."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from privagg.entropy import OS, from_seed
from privagg.errors import PeerError, PrivaggError
from privagg.testing.conformance import Failed, Skipped
from privagg.testing.mechanism_subject import Subject

__all__ = [
    "bytes_are_canonical",
    "no_global_randomness",
    "nothing_shows_values",
    "other_states_are_refused",
    "seeded_runs_are_marked",
    "seeds_repeat",
    "states_come_back_whole",
    "states_merge_in_any_order",
]

_MANGLED = 400


def states_merge_in_any_order(subject: Subject) -> str:
    """Require that states add up in any order and grouping, and that an empty one adds nothing."""
    mechanism = subject.mechanism
    reports = subject.batch("merge", 61)
    whole = _held(mechanism.aggregate(reports))
    a, b, c = (mechanism.aggregate(reports[x:y]) for x, y in ((0, 7), (7, 30), (30, 61)))
    orders: dict[str, Callable[[], Any]] = {
        "(a + b) + c": lambda: (a + b) + c,
        "a + (b + c)": lambda: a + (b + c),
        "c + a + b": lambda: c + a + b,
        "b + c + a": lambda: b + c + a,
        "a + empty + b + c": lambda: a + mechanism.empty() + b + c,
    }
    for name, add in orders.items():
        if _held(add()) != whole:
            raise Failed(f"{name} is not the state of one pass over the same reports")
    return f"{len(orders)} orders and groupings of three states are the state of one pass"


def other_states_are_refused(subject: Subject) -> str:
    """Require that states and reports of another epsilon are refused wherever they are used."""
    mechanism = subject.mechanism
    other = subject.make(subject.domain, subject.epsilon * 0.75)
    reports = other.randomize(subject.values, subject.entropy("other"))
    state = other.aggregate(reports)
    own = mechanism.aggregate(subject.batch("own"))
    calls: dict[str, Callable[[], Any]] = {
        "adding up": lambda: own + state,
        "estimating": lambda: mechanism.estimate(state),
        "aggregating": lambda: mechanism.aggregate(reports),
    }
    if hasattr(state, "encode") and hasattr(mechanism, "decode_state"):
        calls["reading its state"] = lambda: mechanism.decode_state(state.encode())
        calls["reading its reports"] = lambda: mechanism.decode_reports(reports.encode())
    for name, call in calls.items():
        try:
            call()
        except PrivaggError:
            continue
        raise Failed(f"{name} took what was made at epsilon {other.epsilon:g}")
    return f"epsilon {other.epsilon:g} refused when {', '.join(calls)}"


def states_come_back_whole(subject: Subject) -> str:
    """Require that a state which was encoded and read again gives the same estimate."""
    mechanism = subject.mechanism
    state = mechanism.aggregate(subject.batch("save"))
    if not hasattr(state, "encode") or not hasattr(mechanism, "decode_state"):
        raise Skipped("states have no encode(), or the mechanism no decode_state()")
    again = mechanism.decode_state(state.encode())
    if _held(again) != _held(state):
        raise Failed("users or sums of the state that was read are not those that were saved")
    one, other = mechanism.estimate(state), mechanism.estimate(again)
    if not np.array_equal(np.asarray(one.raw), np.asarray(other.raw)):
        raise Failed("the estimate from the state that was read is another one")
    return f"{len(state.encode())} bytes, {state.users} reports: same sums, same estimate"


def bytes_are_canonical(subject: Subject) -> str:
    """Require that changed bytes are refused, or are what they encode back to."""
    mechanism = subject.mechanism
    reports = subject.batch("encoding", 20)
    if not hasattr(reports, "encode") or not hasattr(mechanism, "decode_reports"):
        raise Skipped("reports have no encode(), or the mechanism no decode_reports()")
    state = mechanism.aggregate(reports)
    draw, refused = random.Random(subject.seed), 0  # noqa: S311 - which bytes to change, no secret
    for thing, read in ((reports, mechanism.decode_reports), (state, mechanism.decode_state)):
        data = thing.encode()
        if read(data).encode() != data:
            raise Failed(f"a {type(thing).__name__} does not encode back to its bytes")
        for turn in range(_MANGLED):
            damaged = bytearray(data)
            if turn % 3 == 0:
                damaged[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            elif turn % 3 == 1:
                del damaged[draw.randrange(len(data)) :]
            else:
                damaged += draw.randbytes(draw.randint(1, 8))
            try:
                found = read(bytes(damaged))
            except PeerError:
                refused += 1
                continue
            if found.encode() != bytes(damaged):
                raise Failed("changed bytes were read as something that encodes to other bytes")
    return f"{refused} of {2 * _MANGLED} changed encodings refused with PeerError, others canonical"


def no_global_randomness(subject: Subject) -> str:
    """Require that neither NumPy's nor Python's global generator is drawn from or seeded."""
    mechanism = subject.mechanism
    before = _generators()
    reports = subject.batch("global")
    mechanism.randomize(subject.values, OS)
    mechanism.estimate(mechanism.aggregate(reports))
    for name, state in _generators().items():
        if state != before[name]:
            raise Failed(f"the global generator of {name} was used")
    return "numpy.random and random are as they were before"


def seeds_repeat(subject: Subject) -> str:
    """Require equal reports of one seed, others of another seed, and others as a stream goes on."""
    mechanism = subject.mechanism
    values = [subject.values[at % len(subject.values)] for at in range(200)]
    legacy = np.random.get_state()  # noqa: NPY002 - put back, so that only entropy can differ
    first = _columns(mechanism.randomize(values, from_seed(subject.seed)))
    np.random.set_state(legacy)  # noqa: NPY002
    source = from_seed(subject.seed)
    again = _columns(mechanism.randomize(values, source))
    if first != again:
        raise Failed("one seed gave two different batches")
    np.random.set_state(legacy)  # noqa: NPY002
    if first == _columns(mechanism.randomize(values, from_seed(subject.seed + 1))):
        np.random.set_state(legacy)  # noqa: NPY002
        if _global_only(mechanism, values, subject.seed):
            return "the entropy that is given is not used: see global-randomness"
        raise Failed("two seeds gave the same batch")
    if first == _columns(mechanism.randomize(values, source)):
        raise Failed("one stream gave the same batch twice")
    return "200 reports: equal for one seed, different for another and for the stream's next"


def _global_only(mechanism: Any, values: list[Any], seed: int) -> bool:
    """Say whether the global generator decides the reports: another check's finding."""
    before = _generators()
    mechanism.randomize(values, from_seed(seed))
    return _generators() != before


def seeded_runs_are_marked(subject: Subject) -> str:
    """Require that what comes of a seeded run says insecure, and nothing else does."""
    mechanism = subject.mechanism
    seeded, fresh = subject.batch("mark"), mechanism.randomize(subject.values, OS)
    for name, reports, expected in (("seeded", seeded, True), ("the system's", fresh, False)):
        state = mechanism.aggregate(reports)
        for thing in (reports, state, mechanism.estimate(state)):
            if bool(thing.insecure) is not expected:
                raise Failed(f"{type(thing).__name__} of {name} randomness: {thing.insecure}")
    both = mechanism.aggregate(fresh) + mechanism.aggregate(seeded)
    if not both.insecure:
        raise Failed("a sum with a seeded state is not marked")
    return "reports, states, their sums and estimates"


def nothing_shows_values(subject: Subject) -> str:
    """Require that what is printed of reports and states does not depend on values and draws."""
    mechanism = subject.mechanism
    shown = []
    for at, value in enumerate((subject.values[0], subject.values[-1])):
        reports = mechanism.randomize([value] * 9, subject.entropy(f"repr {at}"))
        shown.append(_shown(reports) + _shown(mechanism.aggregate(reports)))
    if shown[0] != shown[1]:
        raise Failed("the repr of reports or of a state depends on what they hold")
    return "reports and states of two values print alike"


def _held(state: Any) -> Any:
    return int(state.users), np.asarray(state.sums).tolist(), bool(state.insecure)


def _columns(reports: Any) -> list[bytes]:
    return [np.ascontiguousarray(column).tobytes() for column in reports.columns]


def _generators() -> dict[str, Any]:
    legacy: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - looked at, not drawn from
    words = legacy["state"]
    return {
        "numpy.random": (words["key"].tolist(), words["pos"], legacy["has_gauss"]),
        "random": random.getstate(),
    }


def _shown(thing: Any) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", repr(thing))
