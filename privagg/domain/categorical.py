"""Categories: strings, booleans or integers, each with a code of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.domain.base import MAX_SIZE, Codes, Domain
from privagg.domain.columns import KINDS, positions
from privagg.errors import UsageError

__all__ = ["Categorical"]

_POLICIES = ("refuse", "other")
_MAX_INTEGER = 2**62


class Categorical(Domain):
    """A declared, ordered list of categories.

    Parameters
    ----------
    values : iterable of str, bool or int
        The categories: distinct, all of one kind, in the order of their codes. Booleans are no
        integers, and integers lie strictly between ``-2**62`` and ``2**62``.
    unknown : {"refuse", "other"}
        What happens to a value that is not declared, and to a missing one, on the respondent's
        side. ``"refuse"`` raises, before anything is reported. ``"other"`` adds one more cell to
        the domain, as its last code: whoever is in it is hidden by epsilon like everyone else.
    other : str
        The label of that cell.

    Raises
    ------
    UsageError
        If fewer than two cells are declared, one twice, or of mixed kinds.

    Examples
    --------
    >>> colours = Categorical(["red", "green", "blue"], unknown="other")
    >>> colours.encode(["green", "mauve", None]).tolist()
    [1, 3, 3]
    >>> colours.labels
    ('red', 'green', 'blue', 'OTHER')
    """

    def __init__(
        self, values: Iterable[Any], *, unknown: str = "refuse", other: str = "OTHER"
    ) -> None:
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise UsageError("values", type(values).__name__, "a list of categories")
        found = [one.item() if isinstance(one, np.generic) else one for one in values]
        self._kind = _kind(found)
        if not isinstance(unknown, str) or unknown not in _POLICIES:
            raise UsageError("unknown", unknown, '"refuse" or "other"')
        if not isinstance(other, str) or not other:
            raise UsageError("other", other, "a label that is not empty")
        self._has_other = unknown == "other"
        if self._has_other and self._kind == "string":
            _kind([other])
        if self._has_other and other in found:
            raise UsageError("other", other, "a label that is not declared as a value")
        self._declared = tuple(found)
        self._labels = (*found, other) if self._has_other else tuple(found)
        if not 2 <= len(self._labels) <= MAX_SIZE:
            raise UsageError(
                "values",
                f"{len(self._labels)} cells",
                f"2 to {MAX_SIZE} cells, the one for unknown values included",
                "A domain of one value has nothing to ask for." if len(self._labels) < 2 else "",
            )

    @property
    def size(self) -> int:
        """How many codes there are, the cell for unknown values included."""
        return len(self._labels)

    @property
    def labels(self) -> tuple[Any, ...]:
        """The categories in the order of their codes; last, the cell for unknown values."""
        return self._labels

    @property
    def kind(self) -> str:
        """What the categories are: ``"string"``, ``"boolean"`` or ``"integer"``."""
        return self._kind

    @property
    def unknown(self) -> str:
        """What happens to values that are not declared: ``"refuse"`` or ``"other"``."""
        return "other" if self._has_other else "refuse"

    def encode(self, values: Any, unknown: str | None = None) -> Codes:
        """Return the code of each value as a ``(n,)`` uint32 array; see :meth:`Domain.encode`.

        `unknown` is ``"refuse"``, or ``"other"`` where the domain has that cell. The codes of a
        domain with that cell remain its codes under ``"refuse"``.
        """
        policy = self.unknown if unknown is None else unknown
        if not isinstance(policy, str) or policy not in _POLICIES:
            raise UsageError("unknown", policy, '"refuse" or "other"')
        if policy == "other" and not self._has_other:
            hint = 'Declare it: Categorical(..., unknown="other").'
            raise UsageError("unknown", policy, '"refuse" for a domain without that cell', hint)
        codes = self._positions(values)
        absent = codes < 0
        if absent.any():
            if policy == "refuse":
                raise UsageError(
                    "values",
                    "a value that is missing or not declared",
                    f"the {len(self._declared)} declared values",
                    'Declare it, or a cell for all others: unknown="other".',
                )
            codes[absent] = len(self._declared)
        return codes.astype(np.uint32)

    def unknown_count(self, values: Any) -> int:
        """Return how many values are not declared or missing, exactly: for simulations only."""
        return int((self._positions(values) < 0).sum())

    def describe(self) -> dict[str, Any]:
        """Return the domain as a dict: kind, values, unknown, and other where there is one."""
        found: dict[str, Any] = {
            "kind": "categorical",
            "values": list(self._declared),
            "unknown": self.unknown,
        }
        return {**found, "other": self._labels[-1]} if self._has_other else found

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self._labels[:4]))
        more = f", ... {self.size} in all" if self.size > 4 else ""
        return f"Categorical([{shown}{more}], unknown={self.unknown!r})"

    def _positions(self, values: Any) -> NDArray[np.int64]:
        return positions(values, self._declared, self._kind)


def _kind(values: list[Any]) -> str:
    """Return the one kind of the values; booleans are no integers."""
    fits = [name for name, kind in KINDS.items() if all(type(value) is kind for value in values)]
    if not values or not fits:
        kinds = ", ".join(sorted({type(value).__name__ for value in values})) or "nothing"
        raise UsageError("values", kinds, "strings, booleans or integers, all of one kind")
    if len(set(values)) != len(values):
        twice = next(value for at, value in enumerate(values) if value in values[:at])
        raise UsageError("values", f"{twice!r} twice", "distinct values")
    (name,) = fits
    if name == "string":
        try:
            "".join(values).encode()
        except UnicodeEncodeError:
            found = "half a surrogate pair"
            raise UsageError("values", found, "strings of whole characters") from None
    if name == "integer" and max(map(abs, values)) >= _MAX_INTEGER:
        raise UsageError("values", "an integer beyond 2**62", "integers within 2**62")
    return name
