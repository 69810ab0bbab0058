"""What coalitions learn from the linear functionals that each observer holds.

Unknowns have names: inputs (the targets), and what hides them, such as masks and the coefficients
of sharing polynomials. Observers (members, leaders, servers, links) hold linear functionals of
them. Any set of observers learns the functionals in the span of all that they hold. That is what
algebra gives; that nothing more can be learned rests on whatever makes the hidden unknowns look
uniform.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.linear_exact import ExactSpace
from privagg.attacks.linear_log import weight_matrix
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.field import Elimination, Field, elements

__all__ = ["Views"]


class Views:
    """Who holds which linear functionals of which unknowns.

    Parameters
    ----------
    targets : iterable of hashable
        Names of the inputs.
    hidden : iterable of hashable
        Names of the other unknowns.
    field : Field, optional
        What coefficients are elements of; integers are reduced. Without one they are integers,
        Fractions or floats, and answers hold but for :attr:`ExactSpace.error_bound`.
    entropy : Entropy
        Without a field: of the random primes.

    Raises
    ------
    UsageError
        No target, or a name twice.

    Examples
    --------
    Two clients with one pairwise mask: the server learns the sum and nothing else.

    >>> views = Views(["x0", "x1"], ["mask"])
    >>> views.learn("server", {"x0": 1, "mask": 1})
    >>> views.learn("server", {"x1": 1, "mask": -1})
    >>> views.exposed(["server"])
    ()
    >>> views.knows(["server"], {"x0": 1, "x1": 1})
    True
    """

    def __init__(
        self,
        targets: Iterable[Hashable],
        hidden: Iterable[Hashable] = (),
        *,
        field: Field | None = None,
        entropy: Entropy = OS,
    ) -> None:
        self.targets = tuple(targets)
        self.field = field
        names = [*self.targets, *hidden]
        self._column = {name: index for index, name in enumerate(names)}
        if not self.targets:
            raise UsageError("targets", "none", "at least one input")
        if len(self._column) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UsageError("hidden", f"the name {twice!r} twice", "distinct names")
        self._names = names
        self._held: dict[Hashable, list[NDArray[Any]]] = {}
        self._implied: dict[int, list[int]] = {}
        self._entropy = entropy

    @property
    def observers(self) -> tuple[Hashable, ...]:
        """Who holds anything, in the order in which they first did."""
        return tuple(self._held)

    def learn(self, observer: Hashable, functional: Mapping[Any, Any]) -> None:
        """Give an observer a functional: coefficients by the unknowns' names.

        Parameters
        ----------
        observer : hashable
            Who sees it, by any name.
        functional : mapping of unknown to coefficient
            A linear combination of the unknowns.

        Raises
        ------
        UsageError
            A name that is no unknown's, or a coefficient that is no number; over a field no
            integer.
        """
        row = self._row(functional)
        self._held.setdefault(observer, []).append(row)

    def implies(self, cause: Hashable, consequences: Iterable[Hashable]) -> None:
        """Note that who can compute one unknown knows others: a seed, and the masks made from it.

        Parameters
        ----------
        cause : hashable
            The unknown that gives the others away.
        consequences : iterable of hashable
            Those.

        Raises
        ------
        UsageError
            A name that is no unknown's.
        """
        at, others = self._index(cause), [self._index(name) for name in consequences]
        self._implied.setdefault(at, []).extend(others)

    def determined(self, observers: Iterable[Hashable]) -> tuple[Hashable, ...]:
        """Return all unknowns that these observers can compute together.

        An observer who holds nothing is no mistake.

        Parameters
        ----------
        observers : iterable of hashable
            Who pool what they see.
        """
        known = self._span(observers)[1]
        return tuple(name for name, flag in zip(self._names, known, strict=True) if flag)

    def exposed(self, observers: Iterable[Hashable]) -> tuple[Hashable, ...]:
        """Return the targets that these observers can compute together, their own among them.

        Parameters
        ----------
        observers : iterable of hashable
            Who pool what they see.
        """
        known = self._span(observers)[1]
        return tuple(name for name, flag in zip(self.targets, known, strict=False) if flag)

    def knows(self, observers: Iterable[Hashable], functional: Mapping[Any, Any]) -> bool:
        """Tell whether these observers can compute a functional, such as a sum of inputs.

        Parameters
        ----------
        observers : iterable of hashable
            Who pool what they see.
        functional : mapping of unknown to coefficient
            A linear combination of the unknowns.
        """
        row = self._row(functional)
        return bool(self._span(observers)[0].contains(row[np.newaxis])[0])

    def coalitions(
        self,
        pool: Iterable[Hashable],
        most: int | None = None,
        always: Iterable[Hashable] = (),
    ) -> Iterator[tuple[tuple[Hashable, ...], tuple[Hashable, ...]]]:
        """Yield every set of observers of the pool, smallest first, with the targets it learns.

        Parameters
        ----------
        pool : iterable of hashable
            Observers that may collude.
        most : int, optional
            Largest size; by default the whole pool.
        always : iterable of hashable
            Observers that are in every coalition beside them.
        """
        members, base = tuple(pool), tuple(always)
        for size in range((len(members) if most is None else most) + 1):
            for coalition in itertools.combinations(members, size):
                yield coalition, self.exposed((*base, *coalition))

    def _index(self, name: Hashable) -> int:
        if name not in self._column:
            raise UsageError("name", repr(name), "a target or a hidden unknown")
        return self._column[name]

    def _row(self, functional: Mapping[Any, Any]) -> NDArray[Any]:
        """Return the coefficients over all unknowns."""
        if not isinstance(functional, Mapping):
            raise UsageError("functional", type(functional).__name__, "coefficients by name")
        columns = [self._index(name) for name in functional]
        if self.field is None:
            values = np.empty((1, len(columns)), object)
            values[0] = list(functional.values())
            numbers = weight_matrix("functional", values)
            if any(isinstance(value, float) and not math.isfinite(value) for value in numbers.flat):
                raise UsageError("functional", "NaN or infinity", "finite numbers")
            row = np.zeros(len(self._names), object)
            row[columns] = values[0]
            return row
        for value in functional.values():
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise UsageError("functional", f"coefficient {value!r}", "integers, over a field")
        reduced = [int(value) % self.field.modulus for value in functional.values()]
        dense = elements([0] * len(self._names), self.field)
        dense[columns] = elements(reduced, self.field)
        return dense

    def _empty(self) -> Elimination | ExactSpace:
        if self.field is None:
            return ExactSpace(len(self._names), self._entropy)
        return Elimination(len(self._names), self.field)

    def _span(self, observers: Iterable[Hashable]) -> tuple[Elimination | ExactSpace, list[bool]]:
        rows = [
            row for observer in dict.fromkeys(observers) for row in self._held.get(observer, [])
        ]
        space = self._empty()
        applied: set[int] = set()
        while True:
            if rows:
                space.extend(np.stack(rows))
            known = (space.first_exposed >= 0).tolist()
            fresh = [at for at in self._implied if known[at] and at not in applied]
            applied |= set(fresh)
            rows = [
                self._row({self._names[target]: 1}) for at in fresh for target in self._implied[at]
            ]
            if not rows:
                return space, known
