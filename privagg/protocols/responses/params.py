"""What all agree on before anything is released: how privately, and within which range.

Here it is called :class:`Release`, and :data:`Params` as in every protocol. Who is in which bag is
public too, and apart from it: :class:`~privagg.protocols.responses.bags.Bags`.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.protocols.responses.clipping import PaidRange

__all__ = ["Params", "Release"]


@dataclass(frozen=True, kw_only=True)
class Release:
    """What is to be released, and how privately.

    Parameters
    ----------
    epsilon : float, optional
        Of the whole release. None releases exact sums, with no guarantee.
    delta : float
        0 for Laplace noise; above 0 for Gaussian noise, which is smaller only where a response is
        in many bags.
    clip : (float, float), PaidRange or None
        The range that responses are clipped to: public, or bought with a part of epsilon. Not for
        classes. None clips nothing, which takes exact sums.
    classes : int
        0 for numbers. From 2 for classes 0 to ``classes - 1``: histograms, or for 2 the count of
        class 1.
    aggregate : {"mean", "sum"}
    steps : int, optional
        Into how many steps the range is divided, to which responses are rounded; as many as leave
        the rounding small beside the noise, unless given. 1 is exact for responses at the ends.

    Raises
    ------
    UsageError
        If a field is not allowed.
    """

    epsilon: float | None = None
    delta: float = 0.0
    clip: tuple[float, float] | PaidRange | None = None
    classes: int = 0
    aggregate: str = "mean"
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            _number("epsilon", self.epsilon, 1e-3, 64)
        if _number("delta", self.delta, 0, 0.1) and self.epsilon is None:
            raise UsageError("delta", self.delta, "0 without epsilon")
        if self.delta and self.delta < 1e-12:
            raise UsageError("delta", self.delta, "0, or 1e-12 to 0.1")
        if self.aggregate not in ("mean", "sum"):
            raise UsageError("aggregate", self.aggregate, "'mean' or 'sum'")
        if self.classes != 0 or isinstance(self.classes, bool):
            whole("classes", self.classes, 2, 4096)
        if self.steps is not None:
            whole("steps", self.steps, 1, 1 << 20)
        self._check_clip()

    def _check_clip(self) -> None:
        if self.classes:
            if self.clip is not None or self.steps is not None:
                raise UsageError("clip, steps", "given", "none for classes: counts need neither")
            return
        if isinstance(self.clip, PaidRange):
            if self.epsilon is None:
                raise UsageError("clip", "a PaidRange", "epsilon to pay with")
            return
        if self.clip is None:
            if self.epsilon is not None:
                raise UsageError(
                    "clip",
                    None,
                    "the range of responses",
                    "Noise hides one response only if it is bounded: say by what, from public "
                    "knowledge, or give a PaidRange.",
                )
            return
        if not isinstance(self.clip, tuple) or len(self.clip) != 2:
            raise UsageError("clip", self.clip, "a pair of numbers (low, high)")
        low, high = (_number("clip", end, -1e100, 1e100) for end in self.clip)
        if not high - low >= 1e-100:
            raise UsageError("clip", self.clip, "low below high, at least 1e-100 apart")


Params = Release
"""The name of a protocol's parameters in every package of protocols."""


def _number(name: str, value: Any, low: float, high: float) -> float:
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not low <= value <= high:
        raise UsageError(name, value, f"{low:g} to {high:g}")
    return float(value)
