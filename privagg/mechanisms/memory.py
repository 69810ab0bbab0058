"""What respondents of repeated surveys remember: permanent answers, and how often they were used.

A mechanism for repeated reports answers each value once and for all (the permanent answer), and
randomises that answer again in each report. Averaging over many reports then reveals the permanent
answer, and not the value. The memory is the respondents' own and never leaves them: whoever reads
it knows the permanent answers, and which values were reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError
from privagg.wire import Reader, Writer

__all__ = ["Memory"]

_MAGIC = b"PALM"
_VERSION = 1

Rows = NDArray[np.uint64]


class Memory:
    """Permanent answers of `respondents` respondents: one, or a whole simulated cohort.

    Parameters
    ----------
    digest : bytes
        The mechanism's.
    respondents : int
        How many.
    keys : int
        How many different permanent answers one respondent may need.
    width : int
        64-bit words of an answer.
    fixed : (respondents, w) uint64 array
        What each respondent drew once, such as a hash function.
    insecure : bool
        Whether any of it came from a seed.
    """

    def __init__(
        self, digest: bytes, respondents: int, keys: int, width: int, fixed: Rows, insecure: bool
    ) -> None:
        self.digest, self.respondents, self.insecure = digest, respondents, insecure
        self.fixed = fixed
        self._per = keys
        self._keys = np.empty(0, np.int64)
        self._uses = np.empty(0, np.int64)
        self._rows = np.empty((0, width), np.uint64)

    def answers(
        self,
        who: NDArray[np.int64],
        keys: NDArray[np.int64],
        make: Callable[[NDArray[np.intp]], Rows],
    ) -> Rows:
        """Return the permanent answers to `keys`, one for each respondent in `who`.

        Those that are missing are made, by `make` from their positions, and kept. Each use counts.

        Parameters
        ----------
        who : (n,) int64 array
            Respondents, by number.
        keys : (n,) int64 array
            What each is asked: a value, or a hash of it.
        make : callable
            Draws the answers of those at the given places that have none yet.
        """
        wanted = who * self._per + keys
        at = np.searchsorted(self._keys, wanted)
        known = np.zeros(wanted.size, np.bool_)
        inside = at < self._keys.size
        known[inside] = self._keys[at[inside]] == wanted[inside]
        missing = np.flatnonzero(~known)
        if missing.size:
            every = np.concatenate([self._keys, wanted[missing]])
            order = np.argsort(every, kind="stable")
            self._keys = every[order]
            self._rows = np.concatenate([self._rows, make(missing)])[order]
            self._uses = np.concatenate([self._uses, np.zeros(missing.size, np.int64)])[order]
            at = np.searchsorted(self._keys, wanted)
        self._uses[at] += 1
        return self._rows[at]

    def spent(self, permanent: float, single: float) -> NDArray[np.float64]:
        """Return the epsilon that each respondent has spent, ``(respondents,)``.

        A permanent answer that was used t times costs min(permanent, t * single); a respondent's
        answers add up.

        Parameters
        ----------
        permanent : float
            Epsilon of a permanent answer by itself.
        single : float
            Epsilon of one report.
        """
        each = np.minimum(permanent, self._uses * single)
        found: NDArray[np.float64] = np.bincount(
            self._keys // self._per, each, self.respondents
        ).astype(np.float64)
        return found

    def dump_state(self) -> bytes:
        """Return all of it as bytes, to be kept as secret as the values themselves."""
        writer = Writer().raw(_MAGIC).u8(_VERSION).u8(int(self.insecure)).raw(self.digest)
        writer.u64(self.respondents).u32(self._per).u32(self.fixed.shape[1])
        writer.u64(self._keys.size).u32(self._rows.shape[1])
        for numbers in (self.fixed, self._keys, self._uses, self._rows):
            writer.packed(np.ascontiguousarray(numbers).view(np.uint64).reshape(-1), 64)
        return writer.getvalue()

    @classmethod
    def load_state(cls, data: bytes, digest: bytes) -> Memory:
        """Read what :meth:`dump_state` returned.

        Parameters
        ----------
        data : bytes
            What was written; nothing in it is trusted.
        digest : bytes
            The 32 bytes that name the configuration.

        Raises
        ------
        PeerError
            If the bytes are no memory.
        UsageError
            If it is one of another mechanism.
        """
        reader = Reader(data, peer="memory", round="load")
        if reader.raw(4) != _MAGIC or reader.u8() != _VERSION:
            reader.fail("expected a memory of permanent answers, version 1")
        flag = reader.u8()
        if flag > 1:
            reader.fail(f"expected 0 or 1, found {flag}")
        if reader.raw(32) != digest:
            raise UsageError("data", "another mechanism's memory", "one of this mechanism")
        respondents, per, fixed = reader.u64(), reader.u32(), reader.u32()
        count, width = reader.u64(), reader.u32()
        rows = reader.packed(respondents * fixed, 64).reshape(respondents, fixed)
        made = cls(digest, respondents, per, width, rows, bool(flag))
        made._keys = reader.packed(count, 64).view(np.int64)
        made._uses = reader.packed(count, 64).view(np.int64)
        made._rows = reader.packed(count * width, 64).reshape(count, width)
        reader.end()
        keys = made._keys
        if count and (int(keys[0]) < 0 or (np.diff(keys) <= 0).any()):
            reader.fail("expected increasing keys")
        if count and (int(keys[-1]) >= respondents * per or int(made._uses.min()) < 0):
            reader.fail("expected keys of the respondents, and counts of uses")
        return made

    def __repr__(self) -> str:
        return f"Memory({self.respondents} respondents)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a memory holds secrets: use dump_state and load_state")


def empty_fixed(respondents: int) -> Rows:
    """Return what respondents hold who draw nothing once: ``(respondents, 0)``."""
    return np.empty((respondents, 0), np.uint64)


def column(symbols: NDArray[Any]) -> Rows:
    """Return symbols as answers of one word."""
    return symbols.astype(np.uint64).reshape(-1, 1)
