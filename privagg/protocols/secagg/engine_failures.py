"""Exceptions on their way from a worker to the engine, which raises them there."""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from privagg.errors import Abort, CapacityError, PeerError, PrivaggError, UsageError

__all__ = ["Failure", "Quiet", "exception", "failure"]


class Quiet(msgspec.Struct, array_like=True, frozen=True):
    """A struct that keeps what it holds to itself."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a frame may hold secrets and cannot be pickled")


class Failure(Quiet, frozen=True):
    """An exception: of this package with its fields, another one as its traceback."""

    kind: str
    fields: list[str | int]


def failure(error: BaseException, trace: str) -> Failure:
    """Return an exception as it is sent."""
    match error:
        case UsageError():
            kind = "capacity" if isinstance(error, CapacityError) else "usage"
            return Failure(kind, [error.argument, error.found, error.allowed, error.hint])
        case PeerError():
            return Failure("peer", [error.peer, error.round, error.reason])
        case Abort():
            return Failure("abort", [error.reason, error.alive, error.needed])
        case PrivaggError():
            return Failure("privagg", [str(error)])
        case OSError() if error.errno is not None:
            name = "" if error.filename is None else str(error.filename)
            return Failure("system", [error.errno, str(error.strerror), name])
    return Failure("other", [trace])


def exception(sent: Failure) -> Exception:
    """Return the exception that was sent."""
    kinds: dict[str, Any] = {
        "usage": UsageError,
        "capacity": CapacityError,
        "peer": PeerError,
        "abort": Abort,
        "privagg": PrivaggError,
    }
    if sent.kind == "system":
        number, reason, name = sent.fields
        return OSError(number, reason, name) if name else OSError(number, reason)
    if sent.kind in kinds:
        found: Exception = kinds[sent.kind](*sent.fields)
        return found
    return RuntimeError(f"in a worker process:\n{sent.fields[0]}")
