"""Distributed noise: rotation, rounding, calibration, the sum's law and error, the guarantee."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import privagg.mechanisms.distributed as distributed
import privagg.mechanisms.poisson_binomial as coins
import privagg.mechanisms.rotation as rotation
from privagg import entropy
from privagg.accounting import analytic_epsilon
from privagg.errors import UsageError
from privagg.mechanisms import (
    DistributedNoise,
    PoissonBinomial,
    Rotation,
    Target,
    calibrate,
    coalition_curve,
)
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.rotation import transformed_plain
from privagg.mechanisms.calibration import central_deviation, scale_for
from privagg.mechanisms.distributed import KINDS, inflated

ALL = (*KINDS, "poisson-binomial")
SEED = b"round 7"

BITS = {
    # clients, bits: scale, standard deviation of a client's noise, norm after rounding
    (100, 12): (524, 52.4, 1.40),
    (100, 14): (2096, 210, 1.03),
    (100, 16): (8383, 838, 1.002),
    (1000, 14): (1506, 47.6, 1.06),
    (1000, 16): (6026, 191, 1.004),
    (10_000, 16): (858, 8.6, 1.17),
    (10_000, 18): (3432, 34.3, 1.01),
}
"""At 2**20 coordinates, clip and noise multiplier 1."""


def vectors(clients, dim, norm=0.9, seed=1):
    drawn = np.random.default_rng(seed).normal(size=(clients, dim))
    return drawn * (norm / np.linalg.norm(drawn, axis=1))[:, None]


def summed(mechanism, items, seed=5):
    total = np.zeros(mechanism.length, np.int64)
    source = entropy.from_seed(seed)
    for at, item in enumerate(items):
        total += mechanism.encode(item, seed=SEED, entropy=source.spawn(str(at))).words
    return total % 2**mechanism.modulus_bits


# Rotation and rounding.


@pytest.mark.parametrize("dim", [1, 2, 5, 64, 1000])
def test_the_rotation_keeps_norms_and_is_undone(dim):
    turn = Rotation(dim, SEED)
    x = np.random.default_rng(dim).normal(size=dim)
    y = turn.forward(x)
    assert y.shape == (turn.length,)
    assert np.linalg.norm(y) == pytest.approx(np.linalg.norm(x), rel=1e-12)
    assert turn.inverse(y) == pytest.approx(x, abs=1e-12)


def test_the_rotation_is_a_signed_hadamard_matrix():
    turn = Rotation(8, SEED)
    matrix = np.stack([turn.forward(row) for row in np.eye(8)], axis=1)
    assert np.allclose(np.abs(matrix), 8**-0.5)
    signs = matrix[0] * math.sqrt(8)
    hadamard = np.array([[1.0]])
    for _ in range(3):
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    assert np.allclose(matrix * math.sqrt(8), hadamard * signs)


def test_rotations_depend_on_the_seed_and_spread_a_spike():
    spike = np.zeros(4096)
    spike[17] = 1.0
    one, other = (Rotation(4096, seed).forward(spike) for seed in (b"a", b"b"))
    assert np.abs(one).max() == pytest.approx(1 / 64)
    flat = np.ones(4096) / 64
    one, other = (Rotation(4096, seed).forward(flat) for seed in (b"a", b"b"))
    assert np.abs(one).max() < 6 / 64
    assert not np.allclose(one, other)


@pytest.mark.parametrize(
    ("dim", "seed"), [(0, b"x"), (2**29, b"x"), (4, b""), (4, "x"), (True, b"x")]
)
def test_rotations_are_checked(dim, seed):
    with pytest.raises(UsageError):
        Rotation(dim, seed)


@pytest.mark.parametrize("bad", [np.ones(5), np.ones(1), np.ones((2, 2)), [1.0] * 4, np.array("a")])
def test_what_is_rotated_is_checked(bad):
    with pytest.raises(UsageError, match="vector"):
        Rotation(4, SEED).forward(bad)
    with pytest.raises(UsageError, match="rotated"):
        Rotation(4, SEED).inverse(bad)


def test_kernels_and_plain_numpy_agree(monkeypatch):
    made = [small(kind) for kind in ALL]
    x = vectors(1, 100)[0]

    def words():
        return [m.encode(x, seed=SEED, entropy=entropy.from_seed(1)).words for m in made]

    fast = words()
    for module in (distributed, rotation, coins):
        monkeypatch.setattr(module, "JIT", False)
    for one, other in zip(fast, words(), strict=True):
        assert np.array_equal(one, other)
    values = np.arange(8.0)
    transformed_plain(values)
    assert values.tolist() == [28, -4, -8, 0, -16, 0, 0, 0]


def small(kind, **changes):
    settings = {"dim": 100, "clients": 20, "honest": 15, "epsilon": 3.0, "delta": 1e-5}
    return calibrate(kind, **settings | changes)


@pytest.mark.parametrize("kind", KINDS)
def test_no_rounding_is_beyond_the_norm_and_its_mean_is_right(kind):
    made = DistributedNoise(
        kind=kind,
        dim=256,
        clients=4,
        honest=4,
        clip=1.0,
        bits=20,
        scale=40.0,  # the inflation matters: d / 4 is 64 of 1600
        variance=1.0,
        wrap=1e-4,
    )
    scaled = Rotation(256, SEED).forward(vectors(1, 256, 1.0)[0]) * made.scale
    draws = Draws(entropy.from_seed(3))
    rounds = np.stack([made._round(scaled, draws).copy() for _ in range(2000)])
    squares = (rounds**2).sum(axis=1)
    assert squares.max() <= made.norm_squared == inflated(40.0, 256)
    assert made.norm_squared < (40 + 16) ** 2
    assert np.abs(rounds - scaled).max() < 1
    assert np.abs(rounds.mean(axis=0) - scaled).max() < 6 * 0.5 / math.sqrt(2000)


# Calibration.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", BITS)
def test_the_bit_table(kind, case):
    clients, bits = case
    made = calibrate(kind, dim=2**20, clients=clients, multiplier=1.0, bits=bits)
    scale, deviation, inflation = BITS[case]
    assert made.scale == pytest.approx(scale, rel=2e-3)
    assert math.sqrt(made.variance) == pytest.approx(deviation, rel=5e-3)
    assert made.inflation == pytest.approx(inflation, abs=5e-3)


def test_the_scale_fills_the_modulus():
    scale = scale_for(bits=16, clients=100, dim=1024, clip=2.0, local=0.3, wrap=1e-4)
    spread = math.sqrt(4 * 100**2 / 1024 + (0.25 / scale**2 + 0.09) * 100)
    assert 2 * 3.8906 * spread * scale == pytest.approx(2**16, rel=1e-4)


@pytest.mark.parametrize("kind", ALL)
def test_epsilon_is_met_at_the_worst_case_and_falls_with_survivors(kind):
    made = small(kind)
    worst = made.guarantee(15)
    assert 0.97 * 3 < worst.epsilon <= 3
    assert worst.honest == 15
    assert made.guarantee(20).epsilon < worst.epsilon < made.guarantee(20, 9).epsilon
    assert made.guarantee(20, 5).epsilon == worst.epsilon
    curve = coalition_curve(made, 20, 15, points=4)
    assert [size for size, _ in curve] == [0, 5, 10, 15]
    epsilons = [one.epsilon for _, one in curve]
    assert epsilons == sorted(epsilons)


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_sampling_and_adjacency_move_the_noise(kind):
    one = small(kind)
    assert small(kind, rounds=50).multiplier > 4 * one.multiplier
    assert small(kind, rounds=50, sampling_rate=0.01).multiplier < small(kind, rounds=50).multiplier
    other = small(kind, adjacency="replace")
    assert other.deviation(20) == pytest.approx(2 * one.deviation(20), rel=0.02)
    assert "replace" in other.guarantee(20).adjacency
    assert "server" in small(kind, sampling_rate=0.5).guarantee(20).adjacency


def test_discrete_gaussian_epsilon_is_that_of_a_gaussian_with_a_little_less_noise():
    made = calibrate(dim=2**14, clients=1000, epsilon=4.0, delta=1e-6, bits=16)
    own = analytic_epsilon(1 / made.multiplier, 1e-6)
    assert own <= made.guarantee(1000).epsilon <= own * (1 + 1e-4)


@pytest.mark.parametrize("rounds", [1, 100])
def test_the_error_is_within_3_percent_of_central_gaussian_noise(rounds):
    made = calibrate(dim=2**14, clients=1000, epsilon=4.0, delta=1e-6, bits=16, rounds=rounds)
    central = central_deviation(1.0, 4.0, made.target)
    assert 1 < (made.deviation(1000) / central) ** 2 < 1.03
    assert made.guarantee(1000).epsilon <= 4.0


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS)
def test_the_error_measured_is_that_foretold_with_1000_clients(kind):
    made = calibrate(kind, dim=2**14, clients=1000, epsilon=4.0, delta=1e-6, bits=16)
    items = vectors(1000, 2**14)
    errors = []
    for seed in range(3):
        found = made.decode(summed(made, items, seed), count=1000, seed=SEED).total
        errors.append(((found - items.sum(axis=0)) ** 2).mean())
    assert np.mean(errors) == pytest.approx(made.deviation(1000) ** 2, rel=0.03)
    if kind == "discrete-gaussian":
        assert np.mean(errors) < 1.03 * central_deviation(1.0, 4.0, made.target) ** 2


@pytest.mark.parametrize("kind", ALL)
def test_the_error_measured_is_that_foretold(kind):
    bits = 10 if kind == "poisson-binomial" else 14  # it tosses as many coins as they hold
    made = calibrate(kind, dim=8192, clients=24, epsilon=6.0, delta=1e-5, bits=bits)
    items = vectors(24, 8192)
    noisy = made.decode(summed(made, items), count=24, seed=SEED)
    error = ((noisy.total - items.sum(axis=0)) ** 2).mean()
    low = 1 - 2 * made.theta**2 if isinstance(made, PoissonBinomial) else 1.0
    assert (low - 0.08) * noisy.deviation**2 < error < 1.08 * noisy.deviation**2
    assert noisy.mean == pytest.approx(noisy.total / 24)


def test_a_wrap_is_a_whole_modulus_off():
    made = small("discrete-gaussian")
    levels = np.zeros(made.length, np.int64)
    levels[3] = 2 ** (made.bits - 1)
    found = made.decode(levels, count=20, seed=SEED)
    turned = Rotation(100, SEED).forward(found.total)
    assert found.total.shape == (100,)
    assert np.linalg.norm(turned) <= 2 ** (made.bits - 1) / made.scale * (1 + 1e-9)


# One client.


@pytest.mark.parametrize("kind", ALL)
def test_a_clip_is_told_to_the_client_and_halves_a_long_vector(kind):
    made = small(kind)
    x = vectors(1, 100, 1.0)[0]
    assert not made.encode(0.99 * x, seed=SEED).clipped
    long = made.encode(2 * x, seed=SEED, entropy=entropy.from_seed(1))
    assert long.clipped
    short = made.encode(x * (1 - 1e-12), seed=SEED, entropy=entropy.from_seed(1))
    assert np.mean(long.words == short.words) > 0.95
    assert "array" not in repr(long)


def test_very_large_and_very_small_vectors_are_clipped_right():
    made = small("discrete-gaussian")
    for size in (1e300, 1e-300):
        found = made.encode(np.full(100, size), seed=SEED)
        assert found.clipped == (size > 1)
    assert made.encode(np.zeros(100), seed=SEED).words.dtype == np.uint32
    assert made.encode(np.arange(100, dtype=np.int8), seed=SEED).clipped


@pytest.mark.parametrize(
    "vector",
    [
        np.zeros(99),
        np.zeros((10, 10)),
        [0.0] * 100,
        np.full(100, np.nan),
        np.full(100, np.inf),
        np.zeros(100, complex),
        np.zeros(100, bool),
        np.ma.zeros(100),
    ],
)
@pytest.mark.parametrize("kind", ["skellam", "poisson-binomial"])
def test_vectors_are_checked(kind, vector):
    with pytest.raises(UsageError, match="vector"):
        small(kind).encode(vector, seed=SEED)


@pytest.mark.parametrize("words", [np.zeros(100, int), np.zeros(128), [0] * 128])
def test_sums_are_checked(words):
    with pytest.raises(UsageError, match="words_sum"):
        small("skellam").decode(words, count=20, seed=SEED)


def test_thresholds_beyond_the_energy_are_moved_back_though_64_bits_do_not_hold_their_norm():
    made = PoissonBinomial(dim=4096, clients=50, honest=50, clip=1.0, trials=4, theta=0.25)
    moves = np.full(4096, 2**30, np.int64)
    moves[::3] *= -1
    assert coins.squared_norm(moves) == 4096 * 2**60  # which wraps to 0
    odd = np.array([3, -(2**15), 2**30 - 1, -(2**15) - 1])
    assert coins.squared_norm(odd) == sum(int(one) ** 2 for one in odd)
    limit = made.energy * (made.theta * 2.0**32) ** 2
    over = np.full(4096, math.isqrt(int(limit / 4096)) + 3, np.int64)
    assert coins.squared_norm(over) > limit
    within = coins.moved_back(over, limit)
    assert coins.squared_norm(within) <= limit < coins.squared_norm(within + 1)


def test_heads_beyond_the_coins_are_refused():
    made = small("poisson-binomial")
    words = np.full(128, 20 * made.trials)
    made.decode(words, count=20, seed=SEED)
    with pytest.raises(UsageError, match="other words"):
        made.decode(words, count=19, seed=SEED)


def test_coordinates_beyond_the_reach_are_counted():
    made = small("poisson-binomial", dim=128)
    spike = Rotation(128, SEED).inverse(np.eye(128)[5])  # all of it in one rotated coordinate
    assert made.encode(spike * 0.9, seed=SEED).coordinates_clipped == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 0.0},
        {"epsilon": None},
        {"multiplier": 1.0},
        {"delta": 0.0},
        {"rounds": 0},
        {"sampling_rate": 0.0},
        {"sampling_rate": 1.5},
        {"honest": 21},
        {"honest": 0},
        {"clip": -1.0},
        {"bits": 1},
        {"bits": 33},
        {"adjacency": "other"},
        {"adjacency": "replace", "sampling_rate": 0.5},
        {"adjacency": ["zero-out"]},
        {"wrap": 0.0},
        {"wrap": 1e-300},
        {"wrap": "x"},
        {"clip": 1e-300},
        {"clip": 1e300},
        {"clients": 0},
    ],
)
def test_arguments_are_checked(changes):
    name = next(iter(changes))
    with pytest.raises(UsageError, match="adjacency" if "adjacency" in changes else name[:7]):
        small("discrete-gaussian", **changes)


@pytest.mark.parametrize("kind", ALL)
def test_a_delta_that_suffices_alone_and_rounds_beyond_any_noise(kind):
    if kind != "skellam":  # whose Renyi curve proves nothing there
        assert small(kind, delta=0.9999).guarantee(15).epsilon <= 3
    if kind != "poisson-binomial":
        with pytest.raises(UsageError, match="epsilon"):
            small(kind, rounds=10**6)


def test_too_few_bits_name_what_would_do():
    with pytest.raises(UsageError, match="or more for 1000 clients"):
        calibrate(dim=1000, clients=1000, epsilon=1.0, bits=6)
    with pytest.raises(UsageError, match="kind"):
        small("gaussian")
    with pytest.raises(UsageError, match="target"):
        small("poisson-binomial", adjacency="replace")


def test_fields_are_checked():
    made = small("skellam")
    for changes in ({"variance": 1e9}, {"scale": 1e12}, {"kind": "x"}, {"target": None}):
        with pytest.raises(UsageError):
            dataclasses.replace(made, **changes)
    with pytest.raises(UsageError, match="coalition"):
        made.guarantee(5, 5)
    for call in (made.guarantee, lambda count: made.spent([count])):
        with pytest.raises(UsageError, match="1 to 20"):  # clients that are not there add no noise
            call(21)
    for most, points in ((20, 3), (-1, 3), ("3", 3), (3, 1), (3, "x")):
        with pytest.raises(UsageError, match=r"most|points"):
            coalition_curve(made, 20, most, points=points)
    with pytest.raises(UsageError, match="theta"):
        PoissonBinomial(dim=4, clients=2, honest=2, clip=1.0, trials=2, theta=0.3, target=Target())


def test_bits_that_rounding_outgrows_are_refused():
    settings = {"dim": 2**20, "clients": 1000, "epsilon": 4.0, "rounds": 100}
    with pytest.raises(UsageError, match="more bits"):
        calibrate(bits=14, **settings)
    tight = calibrate(bits=16, **settings)
    assert 3.9 < tight.guarantee(1000).epsilon <= 4
    central = central_deviation(1.0, 4.0, tight.target)
    assert 1.5 < (tight.deviation(1000) / central) ** 2 < 3  # rounding doubles the variance here
    assert calibrate(**settings).deviation(1000) < 1.02 * central
