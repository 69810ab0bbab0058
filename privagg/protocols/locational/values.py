"""What a respondent has in a region: nothing but its presence, a category, a number, a ranking.

Whatever it is, it becomes one of a few cells of its region: a category is one of k; a boolean, a
number and a ranked item's score are one of two, *low* and *high*. A number goes to either end of
its range with the probability that makes its mean right, so that the mean of a region is the middle
of the range plus half its width times (high - low) / (high + low). Privacy does not rest on that
rounding: each cell is as private as any other.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array
from privagg.domain import Categorical, Floats, Integers
from privagg.domain.numeric import _numbers
from privagg.entropy import Entropy
from privagg.errors import UsageError

__all__ = [
    "Boolean",
    "Category",
    "Encoded",
    "Number",
    "Presence",
    "Ranking",
    "Value",
    "parse_value",
]

_MAX_ITEMS = 64


@dataclass(frozen=True)
class Encoded:
    """Values as cells.

    Attributes
    ----------
    codes : (n,) int64 array
        The cell within the region, -1 for a value that is unknown.
    exact : (n,) float64 array
        The number itself, from -1 (low) to 1 (high); 1 for what is no number.
    clamped : int
        How many numbers were moved to an end of the range; for a simulation's truth only.
    """

    codes: NDArray[np.int64]
    exact: NDArray[np.float64]
    clamped: int = 0


class Value(ABC):
    """A type of value and its declared domain."""

    kind: ClassVar[str]
    numeric: ClassVar[bool] = False
    """Whether a region has a mean: its two cells are *low* and *high*."""

    @property
    def groups(self) -> int:
        """Disjoint groups of respondents, each asked for another coordinate: 1 but for rankings."""
        return 1

    @property
    @abstractmethod
    def k(self) -> int:
        """How many cells a region has."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The cells' labels."""

    @abstractmethod
    def encode(
        self, values: Any, *, unknown: str, clamp: bool, entropy: Entropy, group: int = 0
    ) -> Encoded:
        """Return values as cells.

        Parameters
        ----------
        values : list, ndarray or column
            Of n respondents.
        unknown : {"refuse", "other"}
            What becomes of a value that is missing or not declared: an error, or -1.
        clamp : bool
            Whether numbers out of range move to the nearer end; otherwise they are refused.
        entropy : Entropy
            For the rounding of numbers.
        group : int
            The coordinate that these respondents are asked for.

        Raises
        ------
        UsageError
            If a value is refused. The message tells neither values nor how many.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the declared domain as strings, numbers and lists."""

    @property
    def range(self) -> tuple[float, float]:
        """The ends that *low* and *high* stand for."""
        return 0.0, 1.0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.describe()})"


class Presence(Value):
    """No value: how many respondents are in each region."""

    kind = "presence"

    @property
    def k(self) -> int:
        """1."""
        return 1

    @property
    def labels(self) -> tuple[str, ...]:
        """One, empty."""
        return ("",)

    def encode(
        self, values: Any, *, unknown: str, clamp: bool, entropy: Entropy, group: int = 0
    ) -> Encoded:
        """Return zeros, as many as `values` (the respondents) has; see :meth:`Value.encode`."""
        size = len(values)
        return Encoded(np.zeros(size, np.int64), np.ones(size))

    def describe(self) -> dict[str, Any]:
        """Return the kind."""
        return {"kind": self.kind}


class Category(Value):
    """One of declared categories.

    Parameters
    ----------
    values : sequence of str, bool or int
        The categories: two or more; see :class:`privagg.domain.Categorical`.
    """

    kind = "category"

    def __init__(self, values: Sequence[Any]) -> None:
        self._domain = Categorical(values)
        self._with_gap = Categorical(values, unknown="other", other=_unused(values))

    @property
    def domain(self) -> Categorical:
        """The categories as a domain."""
        return self._domain

    @property
    def k(self) -> int:
        """How many categories."""
        return self._domain.size

    @property
    def labels(self) -> tuple[str, ...]:
        """The categories."""
        return tuple(str(label) for label in self._domain.labels)

    def encode(
        self, values: Any, *, unknown: str, clamp: bool, entropy: Entropy, group: int = 0
    ) -> Encoded:
        """Return each category's code; see :meth:`Value.encode`."""
        if unknown == "other":
            codes = self._with_gap.encode(values).astype(np.int64)
            codes[codes == self.k] = -1
        else:
            codes = self._domain.encode(values).astype(np.int64)
        return Encoded(codes, np.ones(codes.size))

    def describe(self) -> dict[str, Any]:
        """Return the kind and the categories."""
        return {"kind": self.kind, "values": list(self._domain.labels)}


class Boolean(Value):
    """True or false; a region's mean is its share of true ones."""

    kind = "bool"
    numeric = True

    @property
    def k(self) -> int:
        """2."""
        return 2

    @property
    def labels(self) -> tuple[str, ...]:
        """The two, false first."""
        return ("false", "true")

    def encode(
        self, values: Any, *, unknown: str, clamp: bool, entropy: Entropy, group: int = 0
    ) -> Encoded:
        """Return 0 or 1; see :meth:`Value.encode`."""
        found = Category([False, True]).encode(
            values, unknown=unknown, clamp=clamp, entropy=entropy
        )
        return Encoded(found.codes, np.where(found.codes == 1, 1.0, -1.0))

    def describe(self) -> dict[str, Any]:
        """Return the kind."""
        return {"kind": self.kind}


class Number(Value):
    """A number of a declared range, rounded to one of its ends at random.

    Parameters
    ----------
    low, high : float
        The ends, finite, `low` first.
    integer : bool
        Whether values are integers; floats are then refused.
    """

    numeric = True
    kind = "number"

    def __init__(self, low: float, high: float, *, integer: bool = False) -> None:
        domain: Integers | Floats
        if integer:
            ends = [
                int(end) if isinstance(end, float) and end % 1 == 0 else end for end in (low, high)
            ]
            # What is no integer is refused there.
            domain = Integers(cast(int, ends[0]), cast(int, ends[1]))
        else:
            domain = Floats(low, high)
        self._low, self._high, self._integer = domain.low, domain.high, bool(integer)

    @property
    def integer(self) -> bool:
        """Whether values are integers."""
        return self._integer

    @property
    def range(self) -> tuple[float, float]:
        """The ends."""
        return float(self._low), float(self._high)

    @property
    def k(self) -> int:
        """2."""
        return 2

    @property
    def labels(self) -> tuple[str, ...]:
        """The two ends."""
        return ("low", "high")

    def encode(
        self, values: Any, *, unknown: str, clamp: bool, entropy: Entropy, group: int = 0
    ) -> Encoded:
        """Return 0 or 1, right on average up to 2**-32; see :meth:`Value.encode`."""
        numbers, missing = _numbers(values, self._integer)
        if missing.any() and unknown != "other":
            raise UsageError("values", "a missing value or a NaN", "finite numbers")
        low, high = self.range
        infinite = ~np.isfinite(numbers) & ~missing
        outside = ((numbers < low) | (numbers > high)) & ~missing
        if infinite.any() or (outside.any() and not clamp):
            hint = "" if infinite.any() else "Or ask for clamping: clamp=True, --clamp."
            raise UsageError("values", "a number out of range", f"{low:g} to {high:g}", hint)
        inside = np.clip(np.where(missing, low, numbers), low, high)
        share = (inside - low) / (high - low)
        words = np.frombuffer(entropy.take(4 * share.size), "<u4")
        codes = (words < share * 2.0**32).astype(np.int64)
        codes[missing] = -1
        return Encoded(codes, 2 * share - 1, int(outside.sum()))

    def describe(self) -> dict[str, Any]:
        """Return the kind and the range."""
        low, high = self.range
        return {"kind": self.kind, "low": low, "high": high, "integer": self._integer}


class Ranking(Value):
    """An order of declared items, the best first.

    Each respondent belongs to one of as many groups as there are items, public and chosen without a
    look at any value, and is asked for the score of its group's item only: a Borda count, from 0
    (last) to the number of items less 1 (first), rounded at random to either end.

    Parameters
    ----------
    items : sequence of str
        2 to 64 distinct items, without the sign ``>``.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    numeric = True
    kind = "ranking"

    def __init__(self, items: Sequence[str]) -> None:
        domain = Categorical(items)
        names = domain.labels
        if len(names) > _MAX_ITEMS or any(
            not isinstance(name, str) or ">" in name for name in names
        ):
            raise UsageError("items", f"{len(names)} items", f"2 to {_MAX_ITEMS} texts without '>'")
        self._items = tuple(names)

    @property
    def items(self) -> tuple[str, ...]:
        """The items."""
        return self._items

    @property
    def groups(self) -> int:
        """As many as there are items."""
        return len(self._items)

    @property
    def range(self) -> tuple[float, float]:
        """The Borda scores of the last and of the first."""
        return 0.0, float(len(self._items) - 1)

    @property
    def k(self) -> int:
        """2."""
        return 2

    @property
    def labels(self) -> tuple[str, ...]:
        """The two ends."""
        return ("low", "high")

    def scores(self, values: Any) -> NDArray[np.float64]:
        """Return ``(n, items)`` Borda scores; a row of NaN where a ranking is missing.

        Parameters
        ----------
        values : list or column of str, or (n, items) array of integers
            Texts such as ``"b > a > c"``, the best first; or each item's place, from 0 (the best).

        Raises
        ------
        UsageError
            If one is no order of all items.
        """
        m = len(self._items)
        if isinstance(values, np.ndarray) and values.ndim == 2:
            places = values
            right = places.shape[1] == m and places.dtype.kind in "iu"
            if not right or (np.sort(places, axis=1) != np.arange(m)).any():
                raise UsageError("values", "a row that is no order", f"the places 0 to {m - 1}")
            return (m - 1 - places).astype(np.float64)
        texts = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
        at = {name: index for index, name in enumerate(self._items)}
        found = np.full((len(texts), m), np.nan)
        for row, text in zip(found, texts, strict=True):
            if text is None:
                continue
            names = [part.strip() for part in text.split(">")] if isinstance(text, str) else []
            if len(names) != m or {at.get(name) for name in names} != set(range(m)):
                raise UsageError("values", "a ranking that is none", f"an order of {m} items")
            row[[at[name] for name in names]] = np.arange(m - 1, -1, -1)
        return found

    def encode(
        self, values: Any, *, unknown: str, clamp: bool, entropy: Entropy, group: int = 0
    ) -> Encoded:
        """Return 0 or 1 for the group's item; see :meth:`Value.encode`."""
        column = np.ascontiguousarray(self.scores(values)[:, group])
        number = Number(*self.range)
        return number.encode(column, unknown=unknown, clamp=clamp, entropy=entropy)

    def describe(self) -> dict[str, Any]:
        """Return the kind and the items."""
        return {"kind": self.kind, "items": list(self._items)}


def parse_value(text: str, declared: Any = None) -> Value:
    """Return what a text such as ``float[0,5000]`` or ``category[a,b]`` declares.

    Parameters
    ----------
    text : str
        ``bool``, ``int[LOW,HIGH]``, ``float[LOW,HIGH]``, ``category[A,B,...]`` or
        ``ranking[A,B,...]``; without brackets, the domain is `declared`.
    declared : sequence or pair of float, optional
        What is declared for the column: its categories, or the ends of its range.

    Raises
    ------
    UsageError
        If it declares nothing.
    """
    allowed = "bool, int[LOW,HIGH], float[LOW,HIGH], category[A,B,...] or ranking[A,B,...]"
    if not isinstance(text, str):
        raise UsageError("value", type(text).__name__, allowed)
    found = re.fullmatch(r"(bool|int|float|category|ranking)(?:\[(.*)\])?", text.strip())
    if found is None or (found[1] == "bool" and found[2] is not None):
        raise UsageError("value", text, allowed)
    kind, inner = found[1], found[2]
    if kind == "bool":
        return Boolean()
    parts: Sequence[Any] | None
    parts = [part.strip() for part in inner.split(",")] if inner is not None else declared
    if parts is None:
        raise UsageError("value", text, allowed, f"Declare it: {kind}[...].")
    if any(isinstance(part, str) and not part for part in parts):
        raise UsageError("value", text, allowed, "Between two commas there is nothing.")
    if kind == "category":
        return Category(parts)
    if kind == "ranking":
        return Ranking(list(parts))
    if len(parts) != 2:
        raise UsageError("value", text, f"{kind}[LOW,HIGH]")
    try:
        low, high = (int(part) if kind == "int" else float(part) for part in parts)
    except (ValueError, TypeError):
        raise UsageError("value", text, f"{kind}[LOW,HIGH], two numbers") from None
    return Number(low, high, integer=kind == "int")


def _unused(values: Any) -> str:
    """Return a label that is none of the categories."""
    label = "OTHER"
    taken = set(as_array("values", [str(value) for value in values]).tolist())
    while label in taken:
        label += "_"
    return label
