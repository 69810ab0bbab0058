"""Hadamard response: short reports, and an aggregator as fast as a Hadamard transform."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.domain import Domain
from privagg.domain.base import Codes
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.symbols import count_symbols, replace_symbols
from privagg.mechanisms.base import Columns, FrequencyOracle
from privagg.mechanisms.estimate import Vector
from privagg.mechanisms.exact import exp_lower, split
from privagg.mechanisms.reports import Column
from privagg.mechanisms.state import State

__all__ = ["HadamardResponse", "walsh_hadamard"]


class HadamardResponse(FrequencyOracle):
    """Hadamard response over any number of values, in one block or several.

    The possible reports are `blocks` blocks of `block_size` b = 2**j positions. Value v has a block
    and a row r of the b x b Hadamard matrix, never the first, which has no -1; its positions are
    those z of its block where (-1)**popcount(r & z) is +1: half of the block. A report is one of
    its positions with probability e**epsilon / (e**epsilon + 2 blocks - 1), else one of the rest;
    each position of either kind is equally likely.

    Source: Acharya, Sun, Zhang, "Hadamard Response: Estimating Distributions Privately,
    Efficiently, and with Little Communication", AISTATS 2019. With one block it is the one-bit
    response of the field: the index of a column, and a bit. The estimate counts +1 for reports at a
    value's positions, -1 for reports elsewhere in its block, over p - q, with p and q the
    probabilities of a value's half-block and of any other. It is unbiased: any two rows agree in
    half of a block.
    With F the frequency of all values of a value's block,
    n Var = (F (p + q) + (1 - F) 2 q) / (p - q)**2 - f. With one block this is
    ((e**epsilon + 1) / (e**epsilon - 1))**2 - f.

    Parameters
    ----------
    domain : Domain
        The declared values.
    epsilon : float
        The privacy parameter of one report; for guarantee and adjacency see
        :mod:`privagg.mechanisms.base`.
    blocks : int, optional
        A power of two, at most the number of values. Unless given, the one with the least variance
        for values spread evenly, (e**epsilon + 2 blocks - 1)**2 / (blocks (e**epsilon - 1)**2).

    Raises
    ------
    UsageError
        If `blocks` is not as described, or 64-bit thresholds cannot realise epsilon.
    """

    name = "hr"

    def __init__(self, domain: Domain, epsilon: float, blocks: int | None = None) -> None:
        super().__init__(domain, epsilon)
        if blocks is not None:
            number = whole("blocks", blocks, 1, self.k)
            if number & (number - 1):
                raise UsageError("blocks", number, "a power of two")
        else:
            weight = exp_lower(min(self.epsilon, 100.0))
            powers = [1 << j for j in range(self.k.bit_length()) if 1 << j <= self.k]
            number = min(powers, key=lambda many: (weight + 2 * many - 1) ** 2 / many)
        self._stated_blocks = blocks if blocks is None else number
        self._blocks = number
        rows = -(-self.k // number)
        self._size: int = 1 << rows.bit_length()  # rows 1 to b - 1 are enough
        self._split = split(2 * number, self.epsilon)

    @property
    def options(self) -> dict[str, Any]:
        """The argument `blocks`, if it was given."""
        return {} if self._stated_blocks is None else {"blocks": self._stated_blocks}

    @property
    def blocks(self) -> int:
        """How many blocks."""
        return self._blocks

    @property
    def block_size(self) -> int:
        """Positions of a block: a power of two."""
        return self._size

    @property
    def p(self) -> Fraction:
        """Probability of all positions of the own value together."""
        return self._split.p

    @property
    def q(self) -> Fraction:
        """Probability of any other half-block."""
        return self._split.q

    @property
    def ratio(self) -> Fraction:
        """That of randomised response over the half-blocks."""
        return self._split.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """Bits of the words, how many lead to each other half-block, and the blocks."""
        return {
            "bits": self._split.bits,
            "other": self._split.other,
            "blocks": self._blocks,
            "block_size": self._size,
        }

    @property
    def layout(self) -> tuple[Column, ...]:
        """A position among all blocks."""
        positions = self._blocks * self._size
        return (Column("position", (positions - 1).bit_length(), limit=positions),)

    @property
    def sums_size(self) -> int:
        """How many sums a state has: the reports of each position."""
        return self._blocks * self._size

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        size = np.uint32(self._size)
        block, row = (
            codes % np.uint32(self._blocks),
            codes // np.uint32(self._blocks) + np.uint32(1),
        )
        halves = replace_symbols(np.uint32(2) * block, self._split, draws)
        # A uniform position of the half: uniform bits, and the lowest bit of the row sets parity.
        at = draws.words32(codes.size) & (size - np.uint32(1))
        parity = parities(row & at)
        low = row & (~row + np.uint32(1))
        at ^= low * (parity ^ (halves & np.uint32(1)))
        return ((halves >> np.uint32(1)) * size + at,)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        return count_symbols(columns[0], self.sums_size)

    def _raw(self, state: State) -> Vector:
        signed = walsh_hadamard(state.sums.reshape(self._blocks, self._size))
        codes = np.arange(self.k)
        found = signed[codes % self._blocks, codes // self._blocks + 1]
        return np.asarray(found / state.users / float(self.p - self.q), np.float64)

    def _variance(self, frequencies: Vector) -> Vector:
        # The rest spread evenly over the other values: how many of them share the block.
        others = (-(-self.k // self._blocks) - 1) / (self.k - 1)
        return self._of_block(frequencies, frequencies + (1 - frequencies) * others)

    def _variances(self, users: int, frequencies: Vector, population: bool) -> Vector:
        block = np.arange(self.k) % self._blocks
        mass: Vector = np.bincount(block, frequencies, self._blocks).astype(np.float64)
        found = self._of_block(frequencies, mass[block]) / users
        return found + frequencies * (1 - frequencies) / users if population else found

    def _of_block(self, frequencies: Vector, mass: Vector) -> Vector:
        p, q = self.p, self.q
        inside, outside = float((p + q) / (p - q) ** 2), float(2 * q / (p - q) ** 2)
        return mass * inside + (1 - mass) * outside - frequencies

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        if int(sums.min()) < 0 or int(sums.sum()) != users:
            return f"expected counts that add up to {users}, the number of reports"
        return ""


def parities(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return for each word whether an odd number of its bits are set, as 0 or 1."""
    folded = words.copy()
    for shift in (16, 8, 4, 2, 1):
        folded ^= folded >> np.uint32(shift)
    return folded & np.uint32(1)


def walsh_hadamard(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the Walsh-Hadamard transform of each row, whose length is a power of two.

    Entry r of a transformed row is the sum over z of (-1)**popcount(r & z) times entry z.
    """
    found = rows.copy()
    size = found.shape[1]
    step = 1
    while step < size:
        pairs = found.reshape(len(found), size // (2 * step), 2, step)
        left, right = pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]
        pairs[:, :, 0], pairs[:, :, 1] = left, right
        step *= 2
    return found
