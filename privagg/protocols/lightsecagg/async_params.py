"""Parameters of asynchronous use: whose inputs make a buffer, and what a stale one weighs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from privagg import keys
from privagg._validate import whole
from privagg.encoding import Encoding
from privagg.errors import CapacityError, UsageError
from privagg.protocols.lightsecagg.params import Params

__all__ = ["AsyncParams"]


@dataclass(frozen=True, kw_only=True)
class AsyncParams:
    """What the parties of an asynchronous session agree on.

    An input that was masked in round t and reaches the server in round t + s has staleness s and
    weighs ``round(levels * (1 + s) ** -decay)``. The paper rounds at random; here everyone computes
    the same weight from public numbers, and believes nobody's.

    Parameters
    ----------
    round : Params
        Cohort, vector, threshold and field. Semi-honest, and not weighted: the weight is the
        staleness'.
    buffer : int
        Inputs in one sum, K; at least ``round.min_cohort``.
    levels : int
        What a fresh input weighs.
    decay : float
        How fast weight is lost; 0 gives all inputs the same.
    max_staleness : int
        Older inputs are refused; those as old must still weigh 1 or more.

    Raises
    ------
    UsageError
        If a value is out of its range.
    CapacityError
        If a weighted sum could reach the modulus.
    """

    round: Params
    buffer: int
    levels: int = 16
    decay: float = 0.5
    max_staleness: int = 10

    def __post_init__(self) -> None:
        if not isinstance(self.round, Params):
            raise UsageError("round", type(self.round).__name__, "lightsecagg.Params")
        if self.round.signed or self.round.encoding.weighted:
            raise UsageError(
                "round",
                f"threat {self.round.threat.value}, weighted={self.round.encoding.weighted}",
                "semi-honest and not weighted",
                "Who survived is agreed upon within a round; buffers have inputs of many.",
            )
        for name, low, high in (
            ("buffer", self.round.min_cohort, 2**20),
            ("levels", 1, 2**20),
            ("max_staleness", 0, 2**20),
        ):
            object.__setattr__(self, name, whole(name, getattr(self, name), low, high))
        number = isinstance(self.decay, int | float) and not isinstance(self.decay, bool)
        if not number or not 0 <= self.decay <= 100:
            raise UsageError("decay", self.decay, "a number from 0 to 100")
        object.__setattr__(self, "decay", float(self.decay))
        if self._weight(self.max_staleness) < 1:
            raise UsageError(
                "max_staleness",
                self.max_staleness,
                f"what still weighs something at decay {self.decay} and {self.levels} levels",
                "Raise levels, or lower max_staleness or decay.",
            )
        most = self.buffer * self.levels * self.round.encoding.levels
        if most >= self.round.field.modulus:
            raise CapacityError(
                "buffer, levels",
                f"{self.buffer} and {self.levels}, whose largest weighted sum is {most}",
                f"sums below the modulus of {self.round.field.name}",
                "Take fewer levels, a smaller buffer, fewer value_bits, or field.M61.",
            )

    @property
    def clients(self) -> int:
        """Size of the cohort, N."""
        return self.round.clients

    def digest(self) -> bytes:
        """Return SHA-256 over the canonical form of every field; it binds keys and messages.

        Parties that weigh stale inputs differently would add up to nonsense: they never meet.
        """
        named = {name: value for name, value in vars(self).items() if name != "round"}
        text = msgspec.json.encode(named, order="sorted")
        return keys.digest(b"privagg lightsecagg async params", self.round.digest(), text)

    def weight(self, staleness: int) -> int:
        """Return what an input of this staleness weighs: at least 1.

        Raises
        ------
        UsageError
            If `staleness` is negative or above `max_staleness`.
        """
        return self._weight(whole("staleness", staleness, 0, self.max_staleness))

    def _weight(self, staleness: int) -> int:
        share: float = (1 + staleness) ** -self.decay
        return round(self.levels * share)

    def summed(self) -> Encoding:
        """Return the encoding of a buffer's sum: weighted, its last word the weights' sum."""
        return replace(self.round.encoding, weighted=True, max_weight=self.levels)
