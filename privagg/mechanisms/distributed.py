"""Differential privacy of a sum, with noise that each client adds to its own vector.

One client's vector: L2 norm clipped to c, rotated (:mod:`privagg.mechanisms.rotation`), scaled by
s, rounded at random to integers whose norm is at most D, noise added, reduced modulo 2**b. The sum
modulo 2**b, which is all that the server learns, carries the noise of every client in it. Decoding
centres it, undoes scale and rotation.

Guarantee: see :class:`privagg.mechanisms.guarantees.Guarantee`. The norm of the integers is checked
by integer arithmetic at the client, whose noise is drawn exactly
(:mod:`privagg.mechanisms.integer_noise`): no float stands between the sum and the proof. It holds
against a server and a coalition that learn nothing but the sum, if the honest clients follow the
protocol; a client that sends other words spoils the sum, not the others' privacy.

Source: Kairouz, Liu, Steinke, "The Distributed Discrete Gaussian Mechanism for Federated Learning
with Secure Aggregation", ICML 2021; Agarwal, Kairouz, Liu, NeurIPS 2021, for Skellam noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT
from privagg._validate import describe, refuse_masked, whole
from privagg.accounting.discrete_gaussian import SPARE, rounds_epsilon, slack, sum_curve
from privagg.accounting.rdp import Curve, positive
from privagg.accounting.skellam import skellam_bound, skellam_curve
from privagg.accounting.subsampling import sampled_curve, sampled_gaussian
from privagg.entropy import OS, Entropy
from privagg.errors import CapacityError, UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.rotation import rounded, rounded_plain
from privagg.mechanisms.guarantees import Guarantee, Target, best_of, honest_of, rounds_of
from privagg.mechanisms.integer_noise import MAX_SIGMA, integer_noise
from privagg.mechanisms.rotation import Rotation, padded

__all__ = ["BETA", "KINDS", "DistributedNoise", "NoisySum", "NoisyWords", "clipped_to", "inflated"]

KINDS = ("discrete-gaussian", "skellam")
"""Noise that is added; ``poisson-binomial`` is in :mod:`privagg.mechanisms.poisson_binomial`."""

BETA = math.exp(-0.5)
"""A rounding whose norm is beyond the bound is drawn again: with at most this probability."""

_CLIPS = (1e-100, 1e100)
_MAX_NORM = 2.0**30
_TRIES = 512
_NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class NoisyWords:
    """What one client contributes.

    Attributes
    ----------
    words : (length,) uint32 array
        Ring elements modulo 2**bits; out of the `repr`.
    clipped : bool
        Whether the vector's norm was beyond the clip. Stays with the client.
    coordinates_clipped : int
        Rotated coordinates beyond their own clip: Poisson-binomial noise only. Stays, too.
    """

    words: NDArray[np.uint32] = field(repr=False)
    clipped: bool
    coordinates_clipped: int = 0


@dataclass(frozen=True, eq=False)
class NoisySum:
    """What the sum of the survivors' words says.

    Attributes
    ----------
    total, mean : (dim,) float64 array
        Sum and mean of the clipped vectors, with noise.
    count : int
        Survivors in it.
    deviation : float
        Standard deviation of each coordinate of the total: noise, and at most that of rounding. The
        mean's is `count` times smaller. A coordinate that wrapped is off by 2**bits / scale.
    """

    total: NDArray[np.float64]
    mean: NDArray[np.float64]
    count: int
    deviation: float


@dataclass(frozen=True, kw_only=True)
class DistributedNoise:
    """The mechanism's parameters, all public; :func:`privagg.mechanisms.calibrate` finds them.

    Parameters
    ----------
    kind : {"discrete-gaussian", "skellam"}
        The noise.
    dim : int
        Coordinates of a vector.
    clients : int
        Clients that may be in the sum.
    honest : int
        Honest contributors that the noise is calibrated to, the least there can be.
    clip : float
        The L2 norm c that a vector is clipped to.
    bits : int
        The modulus is 2**bits; 2 to 32.
    scale : float
        s, integers per unit.
    variance : float
        The parameter v of each client's noise, in squared integers.
    wrap : float
        Probability that a coordinate of the sum wraps around the modulus, if all clients hold the
        same vector at the clip and all stay; by the normal approximation. Otherwise it is lower.
    target : Target
        Delta, rounds, sampling and adjacency.

    Raises
    ------
    UsageError
        If a field is out of its range.
    """

    kind: str
    dim: int
    clients: int
    honest: int
    clip: float
    bits: int
    scale: float
    variance: float
    wrap: float
    target: Target = field(default_factory=Target)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError("kind", self.kind, " or ".join(KINDS))
        padded(self.dim)
        whole("clients", self.clients, 1, 2**20)
        whole("honest", self.honest, 1, self.clients)
        whole("bits", self.bits, 2, 32)
        if not _CLIPS[0] <= positive("clip", self.clip) <= _CLIPS[1]:
            allowed = f"{_CLIPS[0]:g} to {_CLIPS[1]:g}"
            raise UsageError("clip", self.clip, allowed, "Take other units.")
        for name in ("scale", "variance"):
            positive(name, getattr(self, name))
        positive("wrap", self.wrap, 1.0)
        if not isinstance(self.target, Target):
            raise UsageError("target", type(self.target).__name__, "a Target")
        if self.scale * self.clip >= _MAX_NORM / 2 or self.variance > MAX_SIGMA**2:
            found = f"a clip of {self.scale * self.clip:g}, a variance of {self.variance:g}"
            allowed = f"below {_MAX_NORM / 2:g} and {MAX_SIGMA**2:g} in integers"
            raise UsageError("scale", found, allowed)

    @property
    def length(self) -> int:
        """Words of a client's contribution: `dim`, padded to a power of two."""
        return padded(self.dim)

    @property
    def modulus_bits(self) -> int:
        """Bits of a word on the wire."""
        return self.bits

    @cached_property
    def norm_squared(self) -> int:
        """D**2: no client's integers have a larger squared norm."""
        return inflated(self.scale * self.clip, self.length)

    @property
    def inflation(self) -> float:
        """How much larger than the clip the norm after rounding may be, D / (s c)."""
        return math.sqrt(self.norm_squared) / (self.scale * self.clip)

    @property
    def multiplier(self) -> float:
        """The noise multiplier at the worst case: standard deviation over the sensitivity D."""
        return math.sqrt(self.honest * self.variance / self.norm_squared) / self.target.factor

    def deviation(self, survivors: int) -> float:
        """Return the standard deviation of a coordinate of the sum; rounding's part is a bound.

        Parameters
        ----------
        survivors : int
            How many are in the sum.

        Raises
        ------
        UsageError
            If an argument is not as described.
        """
        count = whole("survivors", survivors, 1, self.clients)
        return math.sqrt(count * (self.variance + 0.25)) / self.scale

    def encode(self, vector: NDArray[Any], *, seed: bytes, entropy: Entropy = OS) -> NoisyWords:
        """Clip, rotate, round and add noise to one client's vector.

        Parameters
        ----------
        vector : (dim,) array of numbers
            Integers or floats of at most 64 bits, all finite.
        seed : bytes
            The round's public seed of the rotation.
        entropy : Entropy
            Where rounding and noise come from: the operating system, or else the noise is known.

        Returns
        -------
        NoisyWords
            What the client adds to the sum.

        Raises
        ------
        UsageError
            If the vector has another shape or type, or a number in it is NaN or infinite.
        """
        values, beyond = clipped_to(vector, self.dim, self.clip)
        scaled = Rotation(self.dim, seed).forward(values)
        scaled *= self.scale
        draws = Draws(entropy)
        levels = self._round(scaled, draws)
        levels += integer_noise(self.kind, self.variance).sample(levels.size, draws)
        levels &= (1 << self.bits) - 1
        return NoisyWords(levels.astype(np.uint32), beyond)

    def _round(self, scaled: NDArray[np.float64], draws: Draws) -> NDArray[np.int64]:
        """Return integers near `scaled`, of mean `scaled`, but for those beyond the norm D."""
        out = np.empty(scaled.size, np.int64)
        run = rounded if JIT else rounded_plain
        for _ in range(_TRIES):
            if run(scaled, draws.words32(scaled.size), out) <= self.norm_squared:
                return out
        raise CapacityError(
            "vector", f"{_TRIES} roundings beyond the norm", "one within it", "Report this."
        )

    def decode(self, words_sum: NDArray[Any], *, count: int, seed: bytes) -> NoisySum:
        """Return the sum that words modulo 2**bits stand for.

        Parameters
        ----------
        words_sum : (length,) integer array
            The sum; residues of any sign.
        count : int
            Survivors in it.
        seed : bytes
            As the clients had it.

        Raises
        ------
        UsageError
            If an argument is not as described.
        """
        survivors = whole("count", count, 1, self.clients)
        residues = checked_sum(words_sum, self.length) & ((1 << self.bits) - 1)
        half = 1 << (self.bits - 1)
        centred = (residues ^ half) - half
        total = Rotation(self.dim, seed).inverse(centred / self.scale)
        return NoisySum(total, total / survivors, survivors, self.deviation(survivors))

    def guarantee(self, survivors: int, coalition: int = 0) -> Guarantee:
        """Return what is proved when `survivors` are in each round's sum, and some collude.

        Parameters
        ----------
        survivors : int
            How many are in the sum.
        coalition : int
            How many of the survivors collude.

        Raises
        ------
        UsageError
            If nobody honest is left.
        """
        rounds = {honest_of(survivors, coalition, self.clients): self.target.rounds}
        return self.target.proved(rounds, *self._over(rounds, self.variance))

    def spent(self, honest: Sequence[int]) -> Guarantee:
        """Return what is proved after rounds with so many honest contributors each.

        Parameters
        ----------
        honest : sequence of int
            For each round so far: clients in its sum, less those that collude.

        Raises
        ------
        UsageError
            If there is no round, or nobody honest was in one.
        """
        rounds = rounds_of(honest, self.clients)
        return self.target.proved(rounds, *self._over(rounds, self.variance))

    def epsilon_with(self, honest: int, variance: float) -> tuple[float, str]:
        """Return the epsilon that so many honest clients' noise of a variance proves, and how.

        Parameters
        ----------
        honest : int
            How many.
        variance : float
            Of one client's noise.
        """
        return self._over({honest: self.target.rounds}, variance)

    def _over(self, rounds: Mapping[int, int], variance: float) -> tuple[float, str]:
        """Return the same for rounds, counted by the honest contributors that each had."""
        target, dim, found = self.target, self.length, []
        if self.kind == "discrete-gaussian" and target.sampling_rate == 1:
            l2_squared = float(target.factor**2 * self.norm_squared)
            exact = rounds_epsilon(l2_squared, variance, rounds, dim, target.delta)
            apart = sum(times * slack(variance, honest, dim) for honest, times in rounds.items())
            if apart < _NOTHING and exact < math.inf:
                return exact, "continuous Gaussian"  # no Renyi curve of it proves less
            found.append((exact, "continuous Gaussian"))
        curves = [self._curve(honest, variance) for honest in rounds]
        if any(curve is None for curve in curves):
            return best_of(found)
        each = [curve.times(rounds[h]) for h, curve in zip(rounds, curves, strict=True) if curve]
        epsilon, order = reduce(add, each).best(target.delta)
        return best_of([*found, (epsilon, f"Renyi divergence of order {order:g}")])

    def _curve(self, honest: int, variance: float) -> Curve | None:
        """Return the Renyi curve of one round; None where nothing is proved."""
        target, dim = self.target, self.length
        root = math.sqrt(self.norm_squared)
        # The norms of a difference of integers: |x|_1 <= sqrt(d) |x|_2 and <= |x|_2 squared.
        l2_squared = float(target.factor**2 * self.norm_squared)
        l1 = target.factor * min(math.sqrt(dim) * root, float(self.norm_squared))
        whole_variance = honest * variance
        if self.kind == "skellam":
            if target.sampling_rate < 1:
                return sampled_curve(
                    lambda order: skellam_bound(order, l2_squared, l1, whole_variance),
                    target.sampling_rate,
                )
            return skellam_curve(l2_squared, l1, whole_variance, target.stated)
        if target.sampling_rate == 1:
            return sum_curve(l2_squared, l1, variance, honest, dim, target.stated)
        apart, spared = slack(variance, honest, dim), whole_variance - SPARE
        if not (spared > 0 and apart < 1):
            return None
        plain = sampled_gaussian(math.sqrt(spared / l2_squared), target.sampling_rate)
        # Both distributions are off by e**(+-apart): (2 a - 1) / (a - 1) <= 3 from a = 2 on.
        moved = tuple(value + 3 * apart for value in plain.values)
        return Curve(plain.orders, moved, plain.adjacency)


def inflated(norm: float, dim: int) -> int:
    """Return the squared norm that roundings of a vector of a norm stay within, rounded up.

    min of n**2 + d/4 + sqrt(2 ln(1/b)) (n + sqrt(d)/2) and (n + sqrt(d))**2: Kairouz, Liu, Steinke,
    ICML 2021; the first holds with probability 1 - b at least, b = exp(-1/2) here,
    and is made to hold by drawing again.
    """
    root = math.sqrt(dim)
    near = norm * norm + dim / 4 + math.sqrt(2 * math.log(1 / BETA)) * (norm + root / 2)
    return math.ceil(min(near, (norm + root) ** 2) * (1 + 1e-9))


def clipped_to(vector: Any, dim: int, clip: float) -> tuple[NDArray[np.float64], bool]:
    """Return a vector as float64, its norm at most `clip`, and whether it was beyond.

    Raises
    ------
    UsageError
        If it is no finite ``(dim,)`` array of numbers.
    """
    allowed = f"a ({dim},) array of integers or floats of at most 64 bits"
    refuse_masked("vector", vector)
    if not isinstance(vector, np.ndarray) or vector.shape != (dim,):
        raise UsageError("vector", describe(vector), allowed)
    if vector.dtype.kind not in "iuf" or vector.dtype.itemsize > 8:
        raise UsageError("vector", vector.dtype.name, allowed)
    values = vector.astype(np.float64)
    finite = np.isfinite(values)
    if not finite.all():
        at = int(np.argmin(finite))
        raise UsageError("vector", f"{values[at]} at index {at}", "finite numbers")
    largest = float(np.abs(values).max())
    if largest == 0:
        return values, False
    unit = values / largest  # the squares of very large numbers would overflow
    norm = float(np.sqrt(unit @ unit))
    if largest <= clip / norm:
        return values, False
    return unit * (clip / norm), True


def checked_sum(words_sum: Any, length: int) -> NDArray[np.int64]:
    """Return a sum of words as int64.

    Raises
    ------
    UsageError
        If it is no ``(length,)`` array of integers.
    """
    if not isinstance(words_sum, np.ndarray) or words_sum.shape != (length,):
        raise UsageError("words_sum", describe(words_sum), f"a ({length},) array of integers")
    if words_sum.dtype.kind not in "iu":
        raise UsageError("words_sum", words_sum.dtype.name, "integers")
    return words_sum.astype(np.int64)
