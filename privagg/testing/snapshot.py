"""What a party holds, as values to compare before and after; and a watch on its doings."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from privagg.entropy import Entropy

__all__ = ["changes", "snapshot", "watched"]

_EVENTS = (
    "open",
    "socket.",
    "subprocess.",
    "os.exec",
    "os.fork",
    "os.listdir",
    "os.mkdir",
    "os.posix_spawn",
    "os.putenv",
    "os.remove",
    "os.rename",
    "os.scandir",
    "os.system",
    "shutil.",
    "urllib.",
)
_CLOCKS = (
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "sleep",
)
_watch = threading.local()
_hooked: list[bool] = []


def snapshot(thing: Any) -> dict[str, Any]:
    """Return everything that an object holds, by path. Sources of randomness are left out."""
    found: dict[str, Any] = {}
    _walk(thing, type(thing).__name__, found, set())
    return found


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the paths at which two snapshots differ."""
    paths = {**before, **after}
    return [path for path in paths if before.get(path, _NONE) != after.get(path, _NONE)]


_NONE = object()


def _walk(thing: Any, path: str, found: dict[str, Any], seen: set[int]) -> None:
    match thing:
        case None | bool() | int() | float() | str() | bytes():
            found[path] = thing
            return
        case bytearray() | memoryview():
            found[path] = bytes(thing)
            return
        case Enum():
            found[path] = thing.name
            return
        case np.ndarray():
            found[path] = (str(thing.dtype), thing.shape, thing.tobytes())
            return
        case np.generic():
            found[path] = thing.item()
            return
    if isinstance(thing, Entropy | type) or id(thing) in seen:
        return
    seen.add(id(thing))
    match thing:
        case dict():
            found[path] = len(thing)
            for key, value in thing.items():
                _walk(value, f"{path}[{key!r}]", found, seen)
        case list() | tuple():
            found[path] = len(thing)
            for at, value in enumerate(thing):
                _walk(value, f"{path}[{at}]", found, seen)
        case set() | frozenset():
            found[path] = sorted(map(repr, thing))
        case _:
            _walk_attributes(thing, path, found, seen)


def _walk_attributes(thing: Any, path: str, found: dict[str, Any], seen: set[int]) -> None:
    kind = type(thing)
    names = list(getattr(thing, "__dict__", {}))
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else list(slots)
    for name in names:
        # What was computed of the rest is no state, and is kept from the first use on.
        if not isinstance(getattr(kind, name, None), cached_property) and hasattr(thing, name):
            _walk(getattr(thing, name), f"{path}.{name}", found, seen)


@contextmanager
def watched() -> Iterator[list[str]]:
    """Note files, sockets, processes, clocks and global randomness that this thread uses inside.

    By an audit hook of the interpreter, and by stand-ins for the functions of :mod:`time`; who
    imported a clock by name before, ``from time import perf_counter``, is not seen.
    """
    if not _hooked:
        sys.addaudithook(_hook)  # it cannot be taken away: it notes nothing unless it is asked to
        _hooked.append(True)
    noted: list[str] = []
    originals = {name: getattr(time, name) for name in _CLOCKS}
    here = threading.get_ident()
    before = _generators()
    for name, original in originals.items():
        setattr(time, name, _noting(original, f"time.{name}", noted, here))
    _watch.noted = noted
    try:
        yield noted
    finally:
        _watch.noted = None
        for name, original in originals.items():
            setattr(time, name, original)
        after = _generators()
        noted += [f"the global generator of {n}" for n in before if before[n] != after[n]]


def _noting(
    original: Callable[..., Any], name: str, noted: list[str], here: int
) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        if threading.get_ident() == here:
            noted.append(name)
        return original(*arguments)

    return call


def _hook(event: str, arguments: Any) -> None:
    noted = getattr(_watch, "noted", None)
    if noted is not None and event.startswith(_EVENTS):
        noted.append(event)


def _generators() -> dict[str, Any]:
    legacy: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - looked at, not drawn from
    words = legacy["state"]
    return {
        "numpy.random": (words["key"].tolist(), words["pos"], legacy["has_gauss"]),
        "random": random.getstate(),
    }
