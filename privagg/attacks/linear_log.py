"""Participation logs: which client's input went into which round's sum, and with what weight."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Integral, Rational, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privagg._validate import refuse_masked
from privagg.errors import UsageError

__all__ = ["Log", "Name", "weight_matrix"]

Name: TypeAlias = str | int
"""What a client or a round is called; `1` and `"1"` are one name."""

_MOST = 2**63 - 1


@dataclass(frozen=True)
class Log:
    """Rounds of one aggregation: row t holds the weights of the clients in round t's sum.

    Made by :meth:`of_matrix` or :meth:`of_triples`.

    Attributes
    ----------
    clients : tuple of str
        Names of the columns.
    rounds : tuple of str
        Names of the rows, in the order in which their sums were seen.
    weights : ndarray, shape (rounds, clients)
        int64, float64, or Fractions in an object array; 0 where a client took no part.
    missing : tuple of int
        Numbers between the first and the last round's that no round has, where all are numbers.
    """

    clients: tuple[str, ...]
    rounds: tuple[str, ...]
    weights: NDArray[Any]
    missing: tuple[int, ...] = ()

    @classmethod
    def of_matrix(
        cls,
        weights: Any,
        clients: Sequence[Name] | None = None,
        rounds: Sequence[Name] | None = None,
    ) -> Log:
        """Return the log in a matrix.

        Parameters
        ----------
        weights : array, shape (rounds, clients)
            0 and 1, or the factors with which inputs entered the sums: bools, integers below 2**63,
            finite floats, Fractions.
        clients, rounds : sequence of str or int, optional
            Their names; by default numbers from 0.

        Raises
        ------
        UsageError
            No such matrix, a number that is none, too many or too few names, or one twice.
        """
        matrix = weight_matrix("weights", weights)
        if 0 in matrix.shape:
            raise UsageError("weights", f"shape {matrix.shape}", "at least a round and a client")
        names = _names("clients", clients, matrix.shape[1])
        labels = _names("rounds", rounds, matrix.shape[0])
        _finite(matrix, names, labels)
        return cls(names, labels, matrix, _missing(labels))

    @classmethod
    def of_triples(cls, triples: Iterable[tuple[Any, ...]]) -> Log:
        """Return the log in a list of who took part when.

        Parameters
        ----------
        triples : iterable of (client, round) or (client, round, weight)
            Names and, unless it is 1, the weight. In any order: rounds are ordered by number if
            all names are numbers, else as they first appear; so are clients.

        Raises
        ------
        UsageError
            Nothing in it, something else, a weight that is no finite number, or the same client
            twice in a round.
        """
        found: dict[tuple[str, str], Any] = {}
        for index, item in enumerate(triples):
            where = f"triples[{index}]"
            if isinstance(item, str) or not isinstance(item, Sequence) or len(item) not in (2, 3):
                raise UsageError(where, repr(item), "(client, round) or (client, round, weight)")
            client, when = (_name(where, name) for name in item[:2])
            weight = item[2] if len(item) == 3 else 1
            _check_weight(where, weight)
            if (when, client) in found:
                raise UsageError(
                    where,
                    f"client {client!r} again in round {when!r}",
                    "each client once in a round",
                    "Add its weights up if both went into the sum.",
                )
            found[when, client] = weight
        if not found:
            raise UsageError("triples", "none", "at least one client in a round")
        labels = _ordered(when for when, _ in found)
        names = _ordered(client for _, client in found)
        row = {name: index for index, name in enumerate(labels)}
        column = {name: index for index, name in enumerate(names)}
        matrix = np.zeros((len(labels), len(names)), _dtype(found.values()))
        for (when, client), weight in found.items():
            exact = isinstance(weight, Rational) and not isinstance(weight, Integral)
            matrix[row[when], column[client]] = weight if exact else _plain(weight)
        return cls(names, labels, matrix, _missing(labels))

    @cached_property
    def numbered(self) -> bool:
        """Whether all rounds are called by numbers."""
        return _numbers(self.rounds) is not None

    @property
    def cohorts(self) -> NDArray[np.int64]:
        """Clients with a weight in each round."""
        return np.asarray(np.count_nonzero(self.weights, axis=1), np.int64)


def weight_matrix(name: str, weights: Any) -> NDArray[Any]:
    """Return a matrix of numbers as int64, float64 or Fractions; nothing is rounded.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    weights : array or nested sequence
        Two axes: bools, integers below 2**63, finite floats, Fractions.

    Raises
    ------
    UsageError
        Something else; NaN and infinity are left to the caller.
    """
    refuse_masked(name, weights)
    allowed = "a matrix of integers below 2**63, finite floats or Fractions"
    try:
        matrix = np.asarray(weights)
    except ValueError:
        raise UsageError(name, "rows of unequal length", allowed) from None
    if matrix.ndim != 2:
        raise UsageError(name, f"{matrix.ndim} axes", allowed, "One row for each round.")
    if matrix.dtype.kind == "b":
        return matrix.astype(np.int64)
    if matrix.dtype.kind in "iu":
        if matrix.size and int(matrix.max()) > _MOST:
            raise UsageError(name, str(matrix.max()), allowed)
        return matrix.astype(np.int64)
    if matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 8:
        return _whole_if_possible(matrix.astype(np.float64))
    if matrix.dtype == object:
        for value in matrix.flat:
            _check_weight(name, value, finite=False)
        plain = np.zeros(matrix.shape, _dtype(matrix.flat))
        for index, value in np.ndenumerate(matrix):
            exact = isinstance(value, Rational) and not isinstance(value, Integral)
            plain[index] = value if exact or plain.dtype == object else _plain(value)
        return plain
    raise UsageError(name, f"dtype {matrix.dtype}", allowed)


def _whole_if_possible(matrix: NDArray[np.float64]) -> NDArray[Any]:
    """Return integers in floats as integers: they are faster, and exact either way."""
    with np.errstate(invalid="ignore"):
        whole = np.all((np.floor(matrix) == matrix) & (np.abs(matrix) <= 2**53))
    return matrix.astype(np.int64) if whole else matrix


def _check_weight(name: str, value: Any, finite: bool = True) -> None:
    if isinstance(value, Rational):  # integers, NumPy's too, bools and Fractions
        if isinstance(value, Integral) and abs(int(value)) > _MOST:
            raise UsageError(name, "an integer of 2**63 or more", "integers below 2**63")
        return
    if isinstance(value, np.bool_):
        return
    if not isinstance(value, Real):
        raise UsageError(name, f"a weight of type {type(value).__name__}", "a number")
    if finite and not math.isfinite(float(value)):
        raise UsageError(name, f"the weight {value}", "finite numbers")


def _plain(value: Any) -> int | float:
    return int(value) if isinstance(value, Integral | np.bool_) else float(value)


def _dtype(values: Iterable[Any]) -> Any:
    """Return what holds all values: int64, float64 only where integers stay exact, else objects."""
    floats = fractions = large = False
    for value in values:
        if isinstance(value, Integral | np.bool_):
            large = large or abs(int(value)) > 2**53
        elif isinstance(value, Rational):
            fractions = True
        else:
            floats = True
    if fractions or (floats and large):
        return object
    return np.float64 if floats else np.int64


def _name(where: str, name: Any) -> str:
    if isinstance(name, Integral) and not isinstance(name, bool):
        return str(int(name))
    if not isinstance(name, str) or not name.strip():
        raise UsageError(where, f"the name {name!r}", "a name, or an integer")
    return name


def _names(argument: str, names: Sequence[Name] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(map(str, range(count)))
    found = tuple(_name(argument, name) for name in names)
    if len(found) != count:
        raise UsageError(argument, f"{len(found)} names", f"{count}, one for each")
    if len(set(found)) != count:
        twice = next(name for name in found if found.count(name) > 1)
        raise UsageError(argument, f"{twice!r} twice", "distinct names")
    return found


def _finite(matrix: NDArray[Any], clients: Sequence[str], rounds: Sequence[str]) -> None:
    if matrix.dtype == np.int64:
        return
    if matrix.dtype == object:
        bad = np.array([isinstance(v, float) and not math.isfinite(v) for v in matrix.flat])
    else:
        bad = ~np.isfinite(matrix).reshape(-1)
    if bad.any():
        row, column = divmod(int(np.argmax(bad)), matrix.shape[1])
        raise UsageError(
            "weights",
            f"{matrix[row, column]} for client {clients[column]!r} in round {rounds[row]!r}",
            "finite numbers",
            "Write 0 where a client took no part.",
        )


def _numbers(names: Iterable[str]) -> list[int] | None:
    """Return names as numbers, unless one is none or is written unlike its number."""
    found = []
    for name in names:
        digits = name.removeprefix("-")
        if not digits.isdecimal() or len(digits) > 18 or str(int(name)) != name:
            return None
        found.append(int(name))
    return found


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    distinct = list(dict.fromkeys(names))
    numbers = _numbers(distinct)
    return tuple(distinct) if numbers is None else tuple(map(str, sorted(numbers)))


def _missing(rounds: Sequence[str]) -> tuple[int, ...]:
    numbers = _numbers(rounds)
    if numbers is None:
        return ()
    low, high = min(numbers), max(numbers)
    if high - low > 4 * len(numbers) + 1000:  # time stamps, not numbers in a row
        return ()
    return tuple(sorted(set(range(low, high + 1)) - set(numbers)))


def as_fraction(value: Any) -> Fraction:
    """Return a weight as the fraction that it is."""
    return Fraction(value) if isinstance(value, Rational | float) else Fraction(int(value))
