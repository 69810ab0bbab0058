"""Repeated surveys: permanent answers, randomised again in each report.

In the mechanisms here a respondent's value gets a permanent answer, which is epsilon_inf-private
(`permanent`) by itself, and each report randomises this answer again, such that one report alone is
`epsilon`-private, `epsilon` being the smaller. Over t reports of the same value a respondent spends
at most min(permanent, t epsilon). A value that changes gets another permanent answer, and the
budgets of the different answers add up: over all values with L-GRR and L-OSUE (k of them), over the
cells of a hash function with LOLOHA (g), over the sampled buckets with dBitFlip (d + 1).
:meth:`Longitudinal.spent` says what each respondent has spent so far.

Source of the two steps: Erlingsson, Pihur, Korolova, "RAPPOR", CCS 2014; of L-GRR and L-OSUE:
Arcolezi et al., Digital Communications and Networks, 2022.
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.domain import Domain
from privagg.domain.base import Codes, check_codes
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.symbols import count_symbols, replace_symbols
from privagg.mechanisms.base import Columns, FrequencyOracle, PureOracle
from privagg.mechanisms.exact import (
    Split,
    ceiling,
    check_epsilon,
    exp_lower,
    log_upper,
    realise,
    split,
)
from privagg.mechanisms.memory import Memory, Rows, column, empty_fixed
from privagg.mechanisms.reports import Column, Reports

__all__ = ["LGRR", "ChainedSplit", "Longitudinal", "chained_split"]


class Longitudinal(FrequencyOracle):
    """A frequency oracle for repeated surveys; see the module's text for the guarantee.

    :meth:`randomize` makes reports of respondents who never reported before and keep nothing.
    Respondents who report again keep what :meth:`remember` returns, and use :meth:`report`.

    Parameters
    ----------
    domain : Domain
        The declared values.
    epsilon : float
        The privacy parameter of one report alone.
    permanent : float, optional
        The privacy parameter of all reports of one value together; above `epsilon`. Twice it,
        unless given.

    Raises
    ------
    UsageError
        If `permanent` is not above `epsilon`, or 64-bit thresholds cannot realise them.
    """

    def __init__(self, domain: Domain, epsilon: float, permanent: float | None = None) -> None:
        super().__init__(domain, epsilon)
        self._stated = permanent
        self._permanent = (
            2 * self.epsilon if permanent is None else check_epsilon(permanent, "permanent")
        )
        if self._permanent <= self.epsilon:
            raise UsageError("permanent", permanent, f"a number above epsilon = {self.epsilon:g}")

    @property
    def options(self) -> dict[str, Any]:
        """The argument `permanent`, if it was given."""
        return {} if self._stated is None else {"permanent": self._permanent}

    @property
    def permanent(self) -> float:
        """The stated epsilon of all reports of one value together."""
        return self._permanent

    @property
    @abstractmethod
    def permanent_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of a permanent answer; exact."""

    @cached_property
    def permanent_realised(self) -> float:
        """The logarithm of :attr:`permanent_ratio`, rounded up: never above `permanent`."""
        return log_upper(self.permanent_ratio)

    @property
    @abstractmethod
    def answers(self) -> int:
        """How many permanent answers a respondent may come to need, if the value keeps changing."""

    @property
    def lifetime_epsilon(self) -> float:
        """The most that a respondent ever spends: `answers` times `permanent`."""
        return self.answers * self._permanent

    @property
    def guarantee(self) -> str:
        """What one report and all reports promise, in words."""
        return (
            f"{super().guarantee}; all reports of one value together: "
            f"{self.permanent_realised:.6g} (stated: {self._permanent:.6g}); however often the "
            f"value changes: {self.lifetime_epsilon:.6g}"
        )

    def remember(self, respondents: int, entropy: Entropy = OS) -> Memory:
        """Return an empty memory for so many respondents; it is theirs alone.

        Raises
        ------
        UsageError
            If `respondents` is no whole number from 1.
        """
        whole = isinstance(respondents, int | np.integer) and not isinstance(respondents, bool)
        if not whole or respondents < 1:
            raise UsageError("respondents", respondents, "a whole number from 1")
        draws = Draws(entropy)
        fixed = self._draw_once(int(respondents), draws)
        return self._memory(int(respondents), fixed, draws)

    def load_memory(self, data: bytes) -> Memory:
        """Read a memory that :meth:`Memory.dump_state` wrote.

        Parameters
        ----------
        data : bytes
            What was written; nothing in it is trusted.
        """
        return Memory.load_state(data, self.digest)

    def report(
        self,
        values: Any,
        memory: Memory,
        entropy: Entropy = OS,
        *,
        who: NDArray[Any] | None = None,
    ) -> Reports:
        """Return one report for each value, and keep the permanent answers in the memory.

        Parameters
        ----------
        values : list, tuple, ndarray or column
            Values of the domain.
        memory : Memory
            Of the respondents; it changes.
        entropy : Entropy
            For new permanent answers, and for this round's randomness.
        who : (n,) int array, optional
            Which respondents report, each at most once; all in their order unless given.

        Raises
        ------
        UsageError
            If the memory is of another mechanism, or its respondents are not those of the values.
        """
        codes = self.domain.encode(values)
        if not isinstance(memory, Memory) or memory.digest != self.digest:
            raise UsageError("memory", type(memory).__name__, "what remember returned")
        if who is None:
            everyone = np.arange(memory.respondents)
        else:
            everyone = check_codes(who, memory.respondents, "who").astype(np.int64)
        if everyone.size != codes.size or np.unique(everyone).size != everyone.size:
            raise UsageError("who", f"{everyone.size} respondents", f"{codes.size} different ones")
        draws = Draws(entropy)
        columns = self._report(codes, everyone, memory, draws)
        return self._reports(columns, draws.insecure or memory.insecure)

    def spent(self, memory: Memory) -> NDArray[np.float64]:
        """Return the epsilon that each respondent has spent so far, ``(respondents,)``.

        A permanent answer used t times costs min(permanent, t epsilon); answers add up.
        """
        return memory.spent(self._permanent, self.epsilon)

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        fixed = self._draw_once(codes.size, draws)
        memory = self._memory(codes.size, fixed, draws)
        return self._report(codes, np.arange(codes.size), memory, draws)

    def _memory(self, respondents: int, fixed: Rows, draws: Draws) -> Memory:
        words = self._answer_words()
        return Memory(self.digest, respondents, self.answers, words, fixed, draws.insecure)

    def _answer_words(self) -> int:
        """Return how many 64-bit words a permanent answer takes."""
        return 1

    def _draw_once(self, respondents: int, draws: Draws) -> Rows:
        return empty_fixed(respondents)

    @abstractmethod
    def _report(
        self, codes: Codes, who: NDArray[np.int64], memory: Memory, draws: Draws
    ) -> Columns:
        """Return the columns of a round, permanent answers kept in the memory."""


class ChainedSplit:
    """Randomised response twice over k symbols: permanent, and again in each report.

    Attributes
    ----------
    first, second : Split
        Thresholds of both steps.
    p, q : Fraction
        Probability that a report shows the true symbol, and any other one.
    """

    def __init__(self, first: Split, second: Split) -> None:
        k, self.first, self.second = first.k, first, second
        self.p = first.p * second.p + (k - 1) * first.q * second.q
        self.q = first.q * second.p + (first.p + (k - 2) * first.q) * second.q

    @property
    def ratio(self) -> Fraction:
        """How much likelier the true symbol is in a report than any other."""
        return self.p / self.q


def chained_split(k: int, epsilon: float, permanent: float) -> ChainedSplit:
    """Return the thresholds of both steps; the second is the weakest that `epsilon` allows.

    Raises
    ------
    UsageError
        If 64-bit words cannot realise them.
    """
    first = split(k, permanent)

    def make(stated: float, bits: int) -> ChainedSplit | None:
        weight = exp_lower(stated)
        least = (first.p - weight * first.q) / ((first.p - first.q) * (k - 1 + weight))
        second = Split(k, bits, max(1, ceiling(2**bits * least)))
        return ChainedSplit(first, second) if second.keep > 0 else None

    return realise(make, epsilon)


class LGRR(Longitudinal, PureOracle):
    """L-GRR: generalised randomised response twice.

    Source: Arcolezi, Couchot, Al Bouna, Xiao, "Improving the Utility of Locally Differentially
    Private Protocols for Longitudinal and Multidimensional Frequency Estimates", Digital
    Communications and Networks 2022. Good for few values. The second step is the weakest for which
    the exact ratio p / q of one report is e**epsilon: one report alone is then that of generalised
    randomised response. The published second step leaves out that a report may come by way of a
    third symbol; for more than two values it adds more noise than epsilon asks for.

    Parameters, guarantee and errors as for :class:`Longitudinal`.

    Parameters
    ----------
    domain : Domain
        The declared domain.
    epsilon : float
        The privacy parameter of one report; see the module.
    permanent : float, optional
        Epsilon of the permanent answer by itself; see the module.
    """

    name = "l-grr"

    def __init__(self, domain: Domain, epsilon: float, permanent: float | None = None) -> None:
        super().__init__(domain, epsilon, permanent)
        self._chain = chained_split(self.k, self.epsilon, self.permanent)

    @property
    def answers(self) -> int:
        """One for each value."""
        return self.k

    @property
    def p(self) -> Fraction:
        """Probability that a report is the value."""
        return self._chain.p

    @property
    def q(self) -> Fraction:
        """Probability that a report is a given other value."""
        return self._chain.q

    @property
    def ratio(self) -> Fraction:
        """The ratio p / q of one report."""
        return self._chain.ratio

    @property
    def permanent_ratio(self) -> Fraction:
        """That of the first step."""
        return self._chain.first.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """Bits and words of both steps."""
        first, second = self._chain.first, self._chain.second
        return {
            "bits": first.bits,
            "other": first.other,
            "bits_again": second.bits,
            "other_again": second.other,
        }

    @property
    def layout(self) -> tuple[Column, ...]:
        """The reported value's code."""
        return (Column("value", (self.k - 1).bit_length(), limit=self.k),)

    def _report(
        self, codes: Codes, who: NDArray[np.int64], memory: Memory, draws: Draws
    ) -> Columns:
        answers = memory.answers(
            who,
            codes.astype(np.int64),
            lambda at: column(replace_symbols(codes[at], self._chain.first, draws)),
        )
        permanent = np.ascontiguousarray(answers[:, 0], np.uint32)
        return (replace_symbols(permanent, self._chain.second, draws),)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        return count_symbols(columns[0], self.k)
