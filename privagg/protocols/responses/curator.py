"""The party that holds responses and bags, and releases the bags' sums or means once.

Guarantee: ``(epsilon, delta)``-label differential privacy. Two inputs are adjacent if one row's
response is replaced by any other; features, membership and sizes of bags are public and the same in
both. It holds for all bags of the release together: disjoint ones compose in parallel, of
overlapping ones a response moves as many sums as the bags it is in. Without epsilon sums are exact
and there is no guarantee at all.

The clipping range is public knowledge, or found from noisy counts that are paid for out of
epsilon; it is never tuned on responses for free.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array, refuse_masked
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.clipping import PaidRange, unclipped
from privagg.protocols.responses.params import Release
from privagg.protocols.responses.release_noise import (
    Noise,
    gaussian_noise,
    laplace_noise,
    steps_for,
)
from privagg.protocols.responses.result import EXACT, Released

__all__ = ["Curator", "check_classes", "check_responses"]

Reals = NDArray[np.float64]


class Curator:
    """Adds up the responses of each bag, with noise. It releases once.

    Parameters
    ----------
    release : Release
    bags : Bags
        Public; who drew them must not have looked at responses.
    entropy : Entropy
        Where the noise comes from: the operating system, or else it is known.

    Attributes
    ----------
    clipped : int
        How many responses were beyond the range. It depends on single responses: it stays here.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    def __init__(self, release: Release, bags: Bags, entropy: Entropy = OS) -> None:
        if not isinstance(release, Release):
            raise UsageError("release", type(release).__name__, "a Release")
        if not isinstance(bags, Bags):
            raise UsageError("bags", type(bags).__name__, "Bags", "Bags.given(ids) makes them.")
        self._release = release
        self._bags = bags
        self._draws = Draws(entropy)
        self._done = False
        self.clipped = 0

    def release(self, responses: Any) -> Released:
        """Return the noisy sums or means.

        Parameters
        ----------
        responses : (n,) array
            Each row's response: finite numbers, or class numbers.

        Raises
        ------
        UsageError
            If this curator has released before, or a response is not allowed.
        """
        if self._done:
            raise UsageError(
                "release", "a second one", "one: noise that is drawn twice averages out"
            )
        values = check_responses(responses, self._bags.rows)
        found = self._classes(values) if self._release.classes else self._numbers(values)
        self._done = True
        return found

    def _classes(self, values: NDArray[Any]) -> Released:
        wanted = self._release
        check_classes(values, wanted.classes)
        binary = wanted.classes == 2
        if binary:
            sums = self._bags.sums(values)
        else:
            sums = np.empty((self._bags.count, wanted.classes))
            for number in range(wanted.classes):
                sums[:, number] = self._bags.sums(values == number)
        # A replaced class leaves one cell of a histogram and enters another.
        moved = self._bags.copies * (1 if binary else 2)
        noise, delta = self._noise(wanted.epsilon, 1, moved)
        return self._released(sums, noise, delta, (0.0, 1.0), 1.0, wanted.epsilon)

    def _numbers(self, values: NDArray[Any]) -> Released:
        wanted, bags = self._release, self._bags
        if wanted.epsilon is None:
            if wanted.clip is not None and not isinstance(wanted.clip, PaidRange):
                inside = np.clip(values, *wanted.clip)
                self.clipped = int((inside != values).sum())
                values = inside
            ends = wanted.clip if isinstance(wanted.clip, tuple) else (-math.inf, math.inf)
            sums = bags.sums(values)
            if not np.isfinite(sums).all():
                raise UsageError("responses", "so large that sums overflow", "sums below 1e308")
            return self._released(sums, None, 0.0, ends, 0.0, None)
        epsilon = wanted.epsilon
        if isinstance(wanted.clip, PaidRange):
            epsilon *= 1 - wanted.clip.share
            paid = Fraction(wanted.epsilon) - Fraction(epsilon)
            low, high = wanted.clip.choose(values, paid, self._draws)
        else:
            assert wanted.clip is not None
            low, high = (float(end) for end in wanted.clip)
        steps = wanted.steps or steps_for(epsilon, wanted.delta, bags.copies)
        step = (high - low) / steps
        inside = np.clip(values, low, high)
        self.clipped = int((inside != values).sum())
        # One float step may round up to steps + 1: the bound is on integers, so they are cut.
        whole_steps = np.clip(np.rint((inside - low) / step), 0, steps)
        noise, delta = self._noise(epsilon, steps, bags.copies)
        return self._released(bags.sums(whole_steps), noise, delta, (low, high), step, epsilon)

    def _noise(self, epsilon: float | None, steps: int, moved: int) -> tuple[Noise | None, float]:
        if epsilon is None:
            return None, 0.0
        if self._release.delta == 0:
            return laplace_noise(epsilon, steps, moved), 0.0
        return gaussian_noise(epsilon, self._release.delta, steps, moved)

    def _released(
        self,
        sums: Reals,
        noise: Noise | None,
        delta: float,
        ends: tuple[float, float],
        step: float,
        epsilon: float | None,
    ) -> Released:
        """Add noise to sums in steps, and turn them into what is released."""
        wanted, bags = self._release, self._bags
        variance = 0.0
        if noise is not None:
            sums = sums + noise.sample(sums.size, self._draws).reshape(sums.shape)
            variance = noise.variance * step * step
        sizes = bags.sizes if sums.ndim == 1 else bags.sizes[:, None]
        if step and not wanted.classes:
            sums = sums * step + sizes * ends[0]
        kappa = 1.0
        if not wanted.classes and math.isfinite(ends[0]):
            kappa = unclipped(sums, bags.sizes, ends, variance).kappa
        mechanism = EXACT if noise is None else ("laplace" if wanted.delta == 0 else "gaussian")
        return Released(
            bags=bags,
            values=sums / sizes if wanted.aggregate == "mean" else sums,
            aggregate=wanted.aggregate,
            classes=wanted.classes,
            mechanism=mechanism,
            epsilon=wanted.epsilon,
            delta=wanted.delta,
            delta_realised=delta,
            epsilon_clip=0.0 if epsilon is None else (wanted.epsilon or 0.0) - epsilon,
            noise_variance=variance,
            low=ends[0] if math.isfinite(ends[0]) else None,
            high=ends[1] if math.isfinite(ends[1]) else None,
            step=step,
            kappa=kappa,
            insecure=self._draws.insecure,
        )

    def __repr__(self) -> str:
        return f"Curator({self._bags!r}, {'done' if self._done else 'ready'})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Curator is not pickled or copied: each copy would release once more")


def check_classes(values: NDArray[Any], classes: int) -> None:
    """Require class numbers below `classes`.

    Parameters
    ----------
    values : (n,) integer array
        What should be class numbers.
    classes : int
        How many classes.

    Raises
    ------
    UsageError
        If there is another value.
    """
    if values.dtype.kind not in "iub" or values.min() < 0 or values.max() >= classes:
        raise UsageError("responses", "another class", f"0 to {classes - 1}")


def check_responses(responses: Any, rows: int) -> NDArray[Any]:
    """Return a finite number for each row.

    Parameters
    ----------
    responses : (n,) column of numbers
        The rows' responses.
    rows : int
        How many rows there are.

    Returns
    -------
    (n,) array

    Raises
    ------
    UsageError
        If there is none for some row.
    """
    refuse_masked("responses", responses)
    values = as_array("responses", responses)
    if values.shape != (rows,) or values.dtype.kind not in "fiub":
        raise UsageError("responses", f"{values.dtype}, {values.shape}", f"{rows} numbers")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values)))
        raise UsageError("responses", f"no finite number in row {at}", "finite numbers")
    if values.dtype.kind in "iub":
        return values
    if np.abs(values).max() > np.finfo(np.float64).max:
        raise UsageError("responses", "a number beyond float64", "smaller ones")
    # Of float16 and float32 the ends of the range, or a step, may be beyond what they hold.
    return values.astype(np.float64)
