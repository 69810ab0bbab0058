"""The Poisson-binomial mechanism: unbiased heads counts, no noise to add and nothing that wraps.

One client's vector: L2 norm clipped to c, rotated, each coordinate clipped to k c / sqrt(d), and m
coins tossed for each, whose bias is in proportion to it. The sum of the heads over n clients needs
log2(n m + 1) bits, fewer the smaller epsilon is. Thresholds of 32 bits are compared with uniform
words, so the coins are exact; the norm of the thresholds is checked in integers.

Guarantee: see :mod:`privagg.accounting.poisson_binomial`, which says what is proven and which part
is evaluated on a grid. Adjacency zero-out only.

Source: Chen, Ozgur, Kairouz, "The Poisson Binomial Mechanism for Unbiased Federated Learning with
Secure Aggregation", ICML 2022.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT
from privagg._validate import whole
from privagg.accounting.gaussian import analytic_sigma
from privagg.accounting.poisson_binomial import heads_curve
from privagg.accounting.rdp import Curve, positive
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.coins import tossed, tossed_plain
from privagg.mechanisms.distributed import NoisySum, NoisyWords, checked_sum, clipped_to
from privagg.mechanisms.guarantees import Guarantee, Target, honest_of, rounds_of
from privagg.mechanisms.rotation import Rotation, padded

__all__ = ["MAX_THETA", "REACH", "PoissonBinomial", "calibrate_poisson_binomial"]

MAX_THETA = 0.25
"""The largest bias of a coin."""

REACH = 4.5
"""Rotated coordinates beyond so many standard deviations are clipped: at most 8 in 100,000."""

_HALF = 1 << 31
_TILE = 1 << 16
_FINE_THETA = 1 / 32
_MOST_TRIALS = 4096
_TURNS, _CLOSE, _AIM, _APART = 20, 0.998, 0.999, 1.005
_WIDEST = 128
"""Coins that are taken unless more bits are asked for: beyond, calibration takes long."""


@dataclass(frozen=True, kw_only=True)
class PoissonBinomial:
    """The parameters of the mechanism, all public.

    Parameters
    ----------
    dim, clients, honest, clip, target
        As for :class:`~privagg.mechanisms.distributed.DistributedNoise`.
    trials : int
        Coins per client and coordinate, m.
    theta : float
        The largest bias of a coin, above 0 up to 1/4.

    Raises
    ------
    UsageError
        If a field is out of its range.
    """

    dim: int
    clients: int
    honest: int
    clip: float
    trials: int
    theta: float
    target: Target = field(default_factory=Target)

    kind = "poisson-binomial"
    wrap = 0.0

    def __post_init__(self) -> None:
        padded(self.dim)
        whole("clients", self.clients, 1, 2**20)
        whole("honest", self.honest, 1, self.clients)
        whole("trials", self.trials, 1, _MOST_TRIALS)
        positive("clip", self.clip)
        if not 2**-20 <= positive("theta", self.theta) <= MAX_THETA:
            raise UsageError("theta", self.theta, f"2**-20 to {MAX_THETA}")
        if not isinstance(self.target, Target):
            raise UsageError("target", type(self.target).__name__, "a Target")
        if self.target.adjacency != "zero-out" or self.target.sampling_rate < 1:
            found = f"{self.target.adjacency}, sampling rate {self.target.sampling_rate:g}"
            raise UsageError("target", found, "zero-out without sampling for this noise")

    @property
    def length(self) -> int:
        """Words of a client's contribution: `dim`, padded to a power of two."""
        return padded(self.dim)

    @property
    def modulus_bits(self) -> int:
        """Bits that hold the heads of all clients."""
        return max(2, (self.clients * self.trials).bit_length())

    bits = modulus_bits

    @property
    def reach(self) -> float:
        """What a rotated coordinate is clipped to."""
        return self.clip * min(1.0, REACH / math.sqrt(self.length))

    @property
    def energy(self) -> float:
        """How many coordinates can be at their clip at once."""
        return max(1.0, self.length / REACH**2) * (1 + 1e-9)

    @property
    def scale(self) -> float:
        """How many heads, on average, a unit of the vector is worth."""
        return self.trials * self.theta / self.reach

    @property
    def variance(self) -> float:
        """The variance of one client's heads in one coordinate, at most."""
        return self.trials / 4

    @property
    def inflation(self) -> float:
        """1: nothing is rounded to the grid of the sum."""
        return 1.0

    def deviation(self, survivors: int) -> float:
        """Return the standard deviation of a coordinate of the sum, at most.

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
        return math.sqrt(count * self.variance) / self.scale

    def encode(self, vector: NDArray[Any], *, seed: bytes, entropy: Entropy = OS) -> NoisyWords:
        """Clip, rotate and toss the coins for one client's vector; see DistributedNoise.encode.

        Parameters
        ----------
        vector : (dim,) float array
            The client's numbers.
        seed : bytes
            The rotation's, the same for all clients of a round.
        entropy : Entropy
            Where randomness comes from: the operating system, unless it is to be repeatable.

        Returns
        -------
        NoisyWords
            What the client adds to the sum.
        """
        values, beyond = clipped_to(vector, self.dim, self.clip)
        share = Rotation(self.dim, seed).forward(values) / self.reach
        outside = np.abs(share) > 1
        np.clip(share, -1.0, 1.0, out=share)
        top = self.theta * 2.0**32
        limit = Fraction(self.energy) * Fraction(top) ** 2
        moves = moved_back(np.trunc(share * top).astype(np.int64), limit)
        thresholds = (moves + _HALF).astype(np.uint32)
        out = np.empty(self.length, np.int64)
        draws = Draws(entropy)
        run = tossed if JIT else tossed_plain
        step = max(1, _TILE // self.trials)
        for start in range(0, self.length, step):
            part = thresholds[start : start + step]
            words = draws.words32(part.size * self.trials).reshape(part.size, self.trials)
            run(words, part, out[start : start + step])
        return NoisyWords(out.astype(np.uint32), beyond, int(outside.sum()))

    def decode(self, words_sum: NDArray[Any], *, count: int, seed: bytes) -> NoisySum:
        """Return the sum that heads stand for; see DistributedNoise.decode.

        Parameters
        ----------
        words_sum : (length,) array of unsigned integers
            The sum of the clients' words modulo ``2**bits``.
        count : int
            How many clients are in it.
        seed : bytes
            The rotation's.

        Raises
        ------
        UsageError
            If an argument is not as described.
        """
        survivors = whole("count", count, 1, self.clients)
        heads = checked_sum(words_sum, self.length) & ((1 << self.modulus_bits) - 1)
        if int(heads.max()) > survivors * self.trials:
            allowed = f"up to {survivors * self.trials} heads for {survivors} clients"
            raise UsageError("words_sum", int(heads.max()), allowed, "A client sent other words.")
        centred = (heads.astype(np.float64) - survivors * self.trials / 2) / self.scale
        total = Rotation(self.dim, seed).inverse(centred)
        return NoisySum(total, total / survivors, survivors, self.deviation(survivors))

    def guarantee(self, survivors: int, coalition: int = 0) -> Guarantee:
        """Return what is proved when `survivors` are in each round's sum, and some collude.

        Parameters
        ----------
        survivors : int
            How many are in the sum.
        coalition : int
            How many of the survivors collude.
        """
        return self._over({honest_of(survivors, coalition, self.clients): self.target.rounds})

    def spent(self, honest: Sequence[int]) -> Guarantee:
        """Return what is proved after rounds with so many honest contributors each.

        Parameters
        ----------
        honest : sequence of int
            Of each round, how many honest contributors it had.
        """
        return self._over(rounds_of(honest, self.clients))

    def _over(self, rounds: Mapping[int, int]) -> Guarantee:
        curves = [
            _curve(self.trials, self.theta, honest, self.energy).times(times)
            for honest, times in rounds.items()
        ]
        epsilon, order = reduce(add, curves).best(self.target.delta)
        return self.target.proved(rounds, epsilon, f"Renyi divergence of order {order:g}")


def squared_norm(moves: NDArray[np.int64]) -> int:
    """Return the exact sum of squares of integers up to 2**30, which 64 bits may not hold."""
    size = np.abs(moves)
    high, low = size >> 15, size & 0x7FFF
    parts = int((high * high).sum()), int((high * low).sum()), int((low * low).sum())
    return (parts[0] << 30) + (parts[1] << 16) + parts[2]


def moved_back(moves: NDArray[np.int64], limit: Fraction | float) -> NDArray[np.int64]:
    """Return integers whose squared norm is within a limit, towards 0 by a float's last digit."""
    while squared_norm(moves) > limit:
        moves = moves - np.sign(moves)
    return moves


@lru_cache(maxsize=64)
def _curve(trials: int, theta: float, honest: int, energy: float) -> Curve:
    # Thresholds are integers of 32 bits: the bias is at most theta.
    return heads_curve(trials, theta, honest, energy)


def calibrate_poisson_binomial(
    *,
    dim: int,
    clients: int,
    honest: int,
    clip: float,
    epsilon: float,
    bits: int | None,
    target: Target,
) -> PoissonBinomial:
    """Return the mechanism with the largest bias for epsilon.

    With `bits` as many coins as they hold; without, 16, or about as many as make the bias 1/32,
    since a bias t costs a factor 1 / (1 - 2 t) of variance in the proof.

    Raises
    ------
    UsageError
        If the bits hold no coin for each client, or no bias is small enough.
    """
    most = _MOST_TRIALS
    if bits is not None:
        most = min(most, (2 ** whole("bits", bits, 2, 32) - 1) // clients)
        if most < 1:
            raise UsageError("bits", bits, f"{clients.bit_length()} or more for {clients} clients")
    made = _fit(dim, clients, honest, clip, epsilon, target, most if bits is not None else 16)
    if made is not None and bits is None and made.theta > _FINE_THETA:
        # theta**2 m, by which epsilon goes, stays.
        wanted = made.trials * (made.theta / _FINE_THETA) ** 2
        trials = min(_WIDEST, 1 << math.ceil(math.log2(wanted)))
        made = _fit(dim, clients, honest, clip, epsilon, target, trials)
    if made is None:
        hint = "Raise epsilon, the clients or the smallest cohort."
        raise UsageError("epsilon", epsilon, "what coins of bias 2**-20 prove", hint)
    return made


def _fit(
    dim: int,
    clients: int,
    honest: int,
    clip: float,
    epsilon: float,
    target: Target,
    trials: int,
) -> PoissonBinomial | None:
    def with_theta(theta: float) -> PoissonBinomial:
        return PoissonBinomial(
            dim=dim,
            clients=clients,
            honest=honest,
            clip=clip,
            trials=trials,
            theta=theta,
            target=target,
        )

    def epsilon_of(theta: float) -> float:
        return with_theta(theta).guarantee(honest).epsilon

    low, high = 2.0**-20, MAX_THETA
    # As much noise as one Gaussian needs; from there by the power law that epsilon nearly follows.
    sigma = analytic_sigma(1.0, epsilon, target.delta) * math.sqrt(target.rounds)
    theta = math.sqrt(honest / (4 * trials)) * with_theta(high).reach / (clip * sigma)
    best = None
    for _ in range(_TURNS):
        theta = min(max(theta, low), high)
        found = epsilon_of(theta)
        if found <= epsilon:
            low, best = theta, theta
            if theta == MAX_THETA or found >= epsilon * _CLOSE:
                break
        else:
            high = theta
            if theta <= 2.0**-20:
                break
        if high <= low * _APART:
            break
        # Where delta alone suffices, epsilon says nothing about the next guess.
        guess = theta * (epsilon * _AIM / found) ** 0.9 if found else high
        theta = guess if low < guess < high else math.sqrt(low * high)
    return None if best is None else with_theta(best)
