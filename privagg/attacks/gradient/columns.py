"""One column of the mixing matrix: a vector with many exact zeros in a known subspace.

Column i of A is zero on every neuron that is off for input i. It lies in the span of U, so it is
``U c`` with c of B numbers, and B - 1 neurons known to be off determine c up to scale. Which
neurons are off is predicted with the known weights from an approximate input; the candidates below
differ in how far they trust that, and :meth:`ColumnSearch.settle` decides from the numbers alone.

Sources: Dimitrov et al., "SPEAR", NeurIPS 2024 (sparse columns in a known subspace, exact
recovery); Bakarsky, Dimitrov, Baader, Vechev, "SPEAR++", 2025 (dictionary learning for larger
batches). New here are the start from independent components and the use of the known weights.
Reweighting: Chartrand and Yin, "Iteratively Reweighted Algorithms for Compressive Sensing", ICASSP
2008.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.factors import Factors
from privagg.attacks.gradient.recovery import Floats

__all__ = ["Column", "ColumnSearch"]

_TOLERANCE = 20.0
"""Standard deviations of the noise within which an entry counts as zero."""

_WITNESSES = 8
"""Neurons that must exclude a second column with the same zeros.

A mixture of k columns can be made to vanish on k - 1 neurons more than they share. Those few then
look as if they excluded every other column: a real column is excluded by many.
"""

_GAP = np.log(5.0)
"""Of sorted entries: the first such step ends the zeros, however small the next entry is."""

_SPARE = 5
"""Zeros beyond the rank, of neurons that are on for some input, that a column must have.

Any B - 1 neurons are the zeros of some vector of the span.
"""

_SOFT, _SHARP = 0.1, 0.02
"""Widths of the prior, in root mean squares of the layer's outputs."""


@dataclass(frozen=True)
class Column:
    """A column with exact zeros.

    Attributes
    ----------
    direction : (r,) float array
        c, of unit norm: the column is ``U c``.
    zeros : (h,) bool array
        Where it is zero up to noise.
    witnesses : int
        How many neurons exclude a second column with these zeros.
    """

    direction: Floats
    zeros: NDArray[np.bool_]
    witnesses: int

    @property
    def unique(self) -> bool:
        """Whether its zeros leave no other column."""
        return self.witnesses >= _WITNESSES


class ColumnSearch:
    """Looks for columns with exact zeros in the span of a gradient's left singular vectors.

    Parameters
    ----------
    factors : Factors
        The gradient's, of full visible rank.
    head : (k, h) float array, optional
        Weights of the layer that follows the ReLU and gives the logits: the nonzero entries of a
        column are then those of a vector of its row space.
    """

    def __init__(self, factors: Factors, head: Floats | None = None) -> None:
        self.span = factors.left
        self.height, self.rank = factors.left.shape
        rest = max(1, self.height - self.rank)
        # Neurons that are off for all inputs say nothing about any column.
        sizes = np.linalg.norm(factors.left, axis=1)
        self.dead = int(np.count_nonzero(sizes <= 1e-6 / np.sqrt(self.height)))
        self._spread = factors.noise / factors.singular[: self.rank]
        self._floor = 1e-13 * np.sqrt(rest)
        self._head: Floats | None = None
        if head is not None and head.shape[0] <= 64 and head.shape[0] + self.rank < self.height:
            # Cross-entropy's gradients sum to zero over the classes.
            _, _, right = np.linalg.svd(head - head.mean(axis=0), full_matrices=False)
            self._head = right[: max(1, len(head) - 1)].T

    def tolerance(self, direction: Floats) -> float:
        """Return what an entry of ``U c`` may differ from zero by noise, c of unit norm."""
        return float(_TOLERANCE * np.linalg.norm(self._spread * direction) + self._floor)

    def find(self, outputs: Floats, guess: Floats, unmixing: Floats) -> Column | None:
        """Return the column of an input, if any candidate has exact zeros where it should.

        Parameters
        ----------
        outputs : (h,) float array
            The layer's outputs on the approximate input.
        guess : (r,) float array
            The column as the unmixing matrix has it.
        unmixing : (r,) float array
            The row that unmixes the input.
        """
        scale = np.sqrt(np.mean(outputs**2))
        if not scale > 0:
            return None
        relative = outputs / scale
        off = relative < 0
        for candidate in self._candidates(relative, guess, unmixing):
            column = self.settle(candidate)
            if column is not None and column.unique and np.mean(column.zeros == off) >= 0.85:
                return column
        return None

    def _candidates(self, outputs: Floats, guess: Floats, unmixing: Floats) -> Iterator[Floats]:
        """Yield directions, cheap ones first."""
        off = int(np.count_nonzero(outputs < 0))
        least = self.dead + self.rank + 3
        for share in (0.5, 1.0, 0.25):
            count = round((1 - share) * least + share * off)
            if least <= count <= off:
                chosen = np.argpartition(outputs, count - 1)[:count]
                yield self._null(self.span[chosen])
        soft = _prior(outputs, _SOFT)
        yield self._reweighted(soft, guess, unmixing)
        yield self._reweighted(soft, None, unmixing)
        yield self._reweighted(_prior(outputs, _SHARP), None, unmixing)
        if self._head is not None:
            basis, _ = np.linalg.qr(np.where(outputs[:, None] > 0, self._head, 0.0))
            left, _, _ = np.linalg.svd(self.span.T @ basis, full_matrices=False)
            yield left[:, 0]
            yield self._reweighted(soft, left[:, 0], left[:, 0])

    @staticmethod
    def _null(rows: Floats) -> Floats:
        """Return the unit vector that the rows map nearest to zero."""
        direction: Floats = np.linalg.eigh(rows.T @ rows)[1][:, 0]
        return direction

    def _reweighted(self, prior: Floats, start: Floats | None, normal: Floats) -> Floats:
        """Minimise a sum of small powers of ``|U c|``, weighted, over c with ``normal @ c = 1``."""
        direction, width = start, 0.3
        for _ in range(14):
            if direction is None:
                weights = prior
            else:
                entries = np.abs(self.span @ direction)
                entries *= np.sqrt(self.height) / np.linalg.norm(entries)
                weights = prior / (entries**2 + width**2)
                width = max(width * 0.4, 1e-6)
            weights = weights / weights.max()
            kept = weights > 1e-12
            rows = self.span[kept]
            second = (rows * weights[kept, None]).T @ rows
            second[np.diag_indices(self.rank)] += np.trace(second) * 1e-15
            try:
                direction = np.linalg.solve(second, normal)
            except np.linalg.LinAlgError:
                break
            direction = direction / np.linalg.norm(direction)
        return normal if direction is None else direction

    def settle(self, direction: Floats) -> Column | None:
        """Return the column near a direction, if it has exact zeros that determine it.

        The zeros are what lies below the first wide gap of the sorted entries; the direction is
        then solved for again from those rows, until they stay the same.
        """
        least = self.dead + self.rank + _SPARE
        most = self.height - 1
        if least >= most:
            return None
        direction = direction / np.linalg.norm(direction)
        count, chosen = -1, np.zeros(0, np.intp)
        for _ in range(5):
            entries = np.abs(self.span @ direction)
            order = np.argsort(entries)
            logs = np.log(np.maximum(entries[order], self.tolerance(direction)))
            gaps = np.diff(logs[least - 1 : most + 1])
            wide = gaps > _GAP
            found = least + int(np.argmax(wide) if wide.any() else np.argmax(gaps))
            below = int(np.count_nonzero(entries <= self.tolerance(direction)))
            found = below if below >= least else found
            if found == count:
                break
            count, chosen = found, order[:found]
            rows = self.span[chosen]
            _, vectors = np.linalg.eigh(rows.T @ rows)
            direction = vectors[:, 0]
        rows = self.span[chosen]
        tolerance = self.tolerance(direction)
        entries = np.abs(self.span @ direction)
        zeros = entries <= tolerance
        if not zeros[chosen].all():
            return None
        # The next best direction must fail on many of the rows, not on a few.
        second = np.abs(rows @ vectors[:, 1])
        return Column(direction, zeros, int(np.count_nonzero(second > 10 * tolerance)))


def _prior(outputs: Floats, width: float) -> Floats:
    """Return how likely a neuron is off, by its predicted output."""
    prior: Floats = 1 / (1 + np.exp(np.clip(outputs / width, -30, 30)))
    return prior
