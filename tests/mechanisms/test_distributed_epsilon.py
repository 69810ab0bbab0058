"""Distributed noise: the whole mechanism's exact epsilon, and rounds that differ."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privagg.accounting import analytic_epsilon
from privagg.errors import UsageError
from privagg.mechanisms import DistributedNoise, Target, calibrate
from privagg.mechanisms.distributed import KINDS

ALL = (*KINDS, "poisson-binomial")


def small(kind, **changes):
    settings = {"dim": 100, "clients": 20, "honest": 15, "epsilon": 3.0, "delta": 1e-5}
    return calibrate(kind, **settings | changes)


# The whole mechanism in one dimension, rounding included, beside its exact epsilon.


def summed_noise(kind, variance, clients):
    at = np.arange(-120, 121)
    if kind == "skellam":
        logs = np.cumsum(np.log(np.maximum(at[120:], 1)))
        one = np.exp(at[120:] * math.log(variance / 2) - logs - variance / 2)
        mass = np.convolve(one, one[::-1])
    else:
        mass = np.exp(-(at**2) / (2 * variance))
    mass = mass / mass.sum()
    total = mass
    for _ in range(clients - 1):
        total = np.convolve(total, mass)
    return total


def exact_epsilon(first, other, delta):
    low, high = 0.0, 100.0
    for _ in range(50):
        e = (low + high) / 2
        worst = max(
            np.maximum(a - math.exp(e) * b, 0).sum() for a, b in ((first, other), (other, first))
        )
        low, high = (e, high) if worst > delta else (low, e)
    return low


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("scale", "variance", "clients", "adjacency"),
    [(7.5, 12.0, 5, "zero-out"), (3.3, 2.0, 6, "zero-out"), (2.6, 9.0, 4, "replace")],
)
def test_no_input_passes_the_stated_epsilon(kind, scale, variance, clients, adjacency):
    target = Target(delta=1e-5, adjacency=adjacency)
    made = DistributedNoise(
        kind=kind,
        dim=1,
        clients=clients,
        honest=clients,
        clip=1.0,
        bits=16,
        scale=scale,
        variance=variance,
        wrap=1e-4,
        target=target,
    )
    noise, most = summed_noise(kind, variance, clients), math.isqrt(made.norm_squared)

    def law(x):
        below = math.floor(x * scale)
        up = x * scale - below
        parts = {z: p for z, p in ((below, 1 - up), (below + 1, up)) if abs(z) <= most and p > 0}
        out = np.zeros(noise.size + 2 * most)
        for z, p in parts.items():
            out[most + z : most + z + noise.size] += p / sum(parts.values()) * noise
        return out

    other = law(0.0 if adjacency == "zero-out" else -1.0)
    found = max(exact_epsilon(law(x), other, 1e-5) for x in np.linspace(-1, 1, 21))
    stated = made.guarantee(clients).epsilon
    assert 0.5 * stated < found <= stated


# Rounds that differ.


@pytest.mark.parametrize("kind", ALL)
def test_rounds_with_other_survivors_add_up(kind):
    made = small(kind, rounds=6)
    alike = made.spent([15] * 6)
    assert alike == made.guarantee(15)
    assert made.spent([15] * 5).epsilon < alike.epsilon < made.spent([15] * 7).epsilon
    mixed = made.spent([15, 20, 15, 20, 20, 15])
    assert mixed == made.spent([20, 20, 20, 15, 15, 15])
    assert made.guarantee(20).epsilon < mixed.epsilon < alike.epsilon
    assert (mixed.honest, mixed.rounds) == (15, 6)


def test_gaussian_rounds_that_differ_are_one_gaussian_round():
    made = calibrate(dim=2**10, clients=1000, honest=400, epsilon=4.0, bits=16, rounds=3)
    counts = [400, 700, 1000]
    ratio = math.sqrt(sum(made.norm_squared / (made.variance * count) for count in counts))
    own = analytic_epsilon(ratio, 1e-6)
    assert own <= made.spent(counts).epsilon <= own * (1 + 1e-4)


@pytest.mark.parametrize("honest", [[], [0], [True], [2.5], "12", 3, None])
@pytest.mark.parametrize("kind", ["skellam", "poisson-binomial"])
def test_rounds_are_checked(kind, honest):
    with pytest.raises(UsageError, match="honest"):
        small(kind).spent(honest)
