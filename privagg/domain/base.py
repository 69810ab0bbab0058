"""What all domains share: a size, labels, and values turned into codes and back."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import refuse_masked
from privagg.errors import UsageError

__all__ = ["MAX_SIZE", "Codes", "Domain"]

Codes = NDArray[np.uint32]

MAX_SIZE = 2**24
"""The most values a domain may have."""

_DIGEST_LABEL = b"privagg domain 1\0"


class Domain(ABC):
    """The values an attribute may have, each with a code from 0 to ``size - 1``.

    Domains are values: equal if, and only if, their descriptions are. They never change.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """How many codes there are, the cell for unknown values included."""

    @property
    @abstractmethod
    def labels(self) -> Sequence[Any]:
        """The value of each code, in the order of the codes."""

    @abstractmethod
    def encode(self, values: Any, unknown: str | None = None) -> Codes:
        """Return the code of each value as a ``(n,)`` uint32 array.

        Parameters
        ----------
        values : list, tuple, ndarray, or column
            The values of n respondents: a list or tuple, a 1-D NumPy array, or a column of
            pyarrow, pandas or Polars. It is not changed.
        unknown : str, optional
            What to do with values outside the domain, missing ones included; the domain's own
            policy unless given.

        Raises
        ------
        UsageError
            If a value is outside the domain under the policy ``"refuse"``, or the values are of
            another type. The message names neither values nor how many there are: on a
            respondent's side both are private.
        """

    @abstractmethod
    def unknown_count(self, values: Any) -> int:
        """Return how many values are outside the domain, missing ones included.

        This is exact, so it has no privacy: it may appear in a simulation's ``truth`` only, and
        never leaves a respondent.

        Parameters
        ----------
        values : list, tuple, ndarray or column
            Values, as for :meth:`encode`.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the domain as a dict of strings, numbers and lists, as in a survey's file."""

    @property
    def digest(self) -> bytes:
        """32 bytes that all who hold the same domain agree on: SHA-256 of its description."""
        text = json.dumps(self.describe(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(_DIGEST_LABEL + text.encode()).digest()

    def decode(self, codes: NDArray[Any]) -> list[Any]:
        """Return the value of each code.

        Parameters
        ----------
        codes : (n,) array of integers
            Codes from 0 to ``size - 1``.

        Raises
        ------
        UsageError
            If a code is out of range, or the array is not of integers.
        """
        checked = check_codes(codes, self.size)
        labels = self.labels
        return [labels[code] for code in checked.tolist()]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(self.digest)


def check_codes(codes: Any, size: int, name: str = "codes") -> Codes:
    """Return codes as a contiguous uint32 array, if they are integers from 0 to ``size - 1``.

    Raises
    ------
    UsageError
        If they are not. The message does not say which codes there are.
    """
    refuse_masked(name, codes)
    if not isinstance(codes, np.ndarray) or codes.ndim != 1 or codes.dtype.kind not in "iu":
        found = type(codes).__name__
        if isinstance(codes, np.ndarray):
            found = f"{codes.dtype} array of shape {codes.shape}"
        raise UsageError(name, found, "a 1-D array of integers", "Domain.encode returns one.")
    low = int(codes.min()) if codes.size and codes.dtype.kind == "i" else 0
    if codes.size and (low < 0 or int(codes.max()) >= size):
        raise UsageError(name, "a code out of range", f"codes from 0 to {size - 1}")
    return np.ascontiguousarray(codes, np.uint32)
