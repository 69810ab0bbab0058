"""Generalised randomised response: report the value, or any other one."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.domain import Domain
from privagg.domain.base import Codes, check_codes
from privagg.entropy import OS, Entropy
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.symbols import count_symbols, replace_symbols
from privagg.mechanisms.base import Columns, PureOracle
from privagg.mechanisms.exact import Split, split
from privagg.mechanisms.reports import Column, Reports

__all__ = ["GRR"]


class GRR(PureOracle):
    """Generalised randomised response, also called direct encoding or k-RR.

    The value is reported with probability p = e**epsilon / (e**epsilon + k - 1), each other value
    with q = 1 / (e**epsilon + k - 1). Best for few values: below about 3 e**epsilon + 2 of them.
    For two values it is Warner's randomised response.

    Source: Kairouz, Bonawitz, Ramage, "Discrete Distribution Estimation under Local Privacy", ICML
    2016; variance as in Wang et al., USENIX Security 2017, section 4.1: at frequency 0,
    n Var = (e**epsilon + k - 2) / (e**epsilon - 1)**2.

    Parameters
    ----------
    domain : Domain
        The declared values.
    epsilon : float
        The privacy parameter of one report; for guarantee and adjacency see
        :mod:`privagg.mechanisms.base`.

    Raises
    ------
    UsageError
        If 64-bit thresholds cannot realise epsilon over so many values.
    """

    name = "grr"

    def __init__(self, domain: Domain, epsilon: float) -> None:
        super().__init__(domain, epsilon)
        self._split = split(self.k, self.epsilon)

    @property
    def split(self) -> Split:
        """The integer thresholds."""
        return self._split

    @property
    def p(self) -> Fraction:
        """Probability that the value itself is reported."""
        return self._split.p

    @property
    def q(self) -> Fraction:
        """Probability of each other value."""
        return self._split.q

    @property
    def ratio(self) -> Fraction:
        """The ratio p / q."""
        return self._split.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """Bits of the words, and how many lead to each other value."""
        return {"bits": self._split.bits, "other": self._split.other}

    @property
    def layout(self) -> tuple[Column, ...]:
        """The reported value's code."""
        return (Column("value", (self.k - 1).bit_length(), limit=self.k),)

    def randomize_codes(self, codes: NDArray[Any], entropy: Entropy = OS) -> Reports:
        """Return one report for each code of the domain, an integer from 0 to ``k - 1``."""
        plain = type(codes) is np.ndarray and codes.dtype == np.uint32 and codes.ndim == 1
        if not plain or not codes.flags.c_contiguous:
            codes = check_codes(codes, self.k)
        # Whether codes of this type are in range, the sampler sees on its way.
        draws = Draws(entropy)
        return self._reports(self._randomize(codes, draws), draws.insecure)

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        return (replace_symbols(codes, self._split, draws),)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        return count_symbols(columns[0], self.k)

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        if int(sums.min()) < 0 or int(sums.sum()) != users:
            return f"expected counts that add up to {users}, the number of reports"
        return ""

    def probabilities(self) -> list[list[Fraction]]:
        """Return P(report | value), a row for each value; exact."""
        rows: list[list[Any]] = [[self.q] * self.k for _ in range(self.k)]
        for code in range(self.k):
            rows[code][code] = self.p
        return rows
