"""Numeric mechanisms against the literature's figures, and what each alone has."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from privagg.domain import Floats
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms import Duchi, Gaussian, Hybrid, Laplace, Piecewise, SquareWave
from privagg.mechanisms.additive import Noise, analytic_sigma
from privagg.mechanisms.em import expectation_maximisation, smoothed
from privagg.mechanisms.exact import exp_lower, exp_upper
from privagg.mechanisms.window import Window

UNIT = Floats(-1, 1)
SHORT = Floats(0, 1, steps=32)


@pytest.mark.parametrize(
    ("kind", "worst"),
    [
        (Laplace, (32, 8, 2, 0.5)),
        (Duchi, (16.67, 4.683, 1.724, 1.076)),
        (Piecewise, (21.22, 5.224, 1.228, 0.241)),
        (Hybrid, (16.67, 4.289, 1.042, 0.219)),
    ],
)
def test_worst_variances_are_the_published_ones(kind, worst):
    for epsilon, published in zip((0.5, 1, 2, 4), worst, strict=True):
        assert kind(UNIT, epsilon).variance(1) == pytest.approx(published, rel=8e-3)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_variances_are_the_closed_forms(epsilon):
    e, s = np.exp(epsilon), np.exp(epsilon / 2)
    t = np.linspace(-1, 1, 9)
    duchi = ((e + 1) / (e - 1)) ** 2 - t**2
    assert Duchi(UNIT, epsilon).variance(1, t) == pytest.approx(duchi, rel=1e-4)
    piecewise = t**2 / (s - 1) + (s + 3) / (3 * (s - 1) ** 2)
    assert Piecewise(UNIT, epsilon).variance(1, t) == pytest.approx(piecewise, rel=5e-3)
    if epsilon > 0.61:
        hybrid = Hybrid(UNIT, epsilon)
        assert float(hybrid.alpha) == pytest.approx(1 - 1 / s)
        assert np.ptp(hybrid.variance(1, t)) < 0.01 * hybrid.variance(1)
        others = (Duchi(UNIT, epsilon).variance(1), Piecewise(UNIT, epsilon).variance(1))
        assert hybrid.variance(1) < min(others)
    else:
        assert Hybrid(UNIT, epsilon).cells == 2


def test_the_hybrid_shows_its_coin_and_no_piecewise_report_without_one():
    quiet, mixed = Hybrid(SHORT, 0.5), Hybrid(SHORT, 2.0)
    assert quiet.layout[0].bits == 1
    drawn = mixed.randomize_codes(np.zeros(20_000, np.uint32), from_seed(1)).columns[0]
    share = float((drawn > 1).mean())
    assert share == pytest.approx(float(mixed.alpha), abs=4.5 * 0.5 / np.sqrt(20_000))


# Gaussian


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_delta_by_enumeration_of_all_pairs(epsilon, delta):
    """Over all reports of all pairs of values, with an upper and a lower bound of e**epsilon."""
    mechanism = Gaussian(Floats(0, 1, steps=4), epsilon, delta)
    rows = [mechanism.noise.row(code) for code in range(5)]
    assert {sum(row) for row in rows} == {2**64}
    found = {}
    for bound in (exp_lower(epsilon), exp_upper(epsilon)):
        top, bottom = bound.numerator, bound.denominator
        found[bound] = max(
            Fraction(
                sum(max(0, a * bottom - top * b) for a, b in zip(one, other, strict=True)),
                bottom * 2**64,
            )
            for one in rows
            for other in rows
        )
    low, high = found.values()
    assert float(low) == pytest.approx(float(high), rel=1e-9)
    assert low <= mechanism._realised <= Fraction(delta)
    assert float(low) == pytest.approx(mechanism.delta_realised, rel=1e-2)
    assert mechanism.delta_realised > 0.8 * delta
    assert mechanism.noise.delta(exp_lower(epsilon)) == low  # the ends are the worst


def test_the_noise_is_that_of_the_analytic_calibration():
    """Classical noise for epsilon 1 and delta 1e-5 has 4.845; the least is 3.730 (Balle, Wang)."""
    assert analytic_sigma(1.0, 1.0, 1e-5) == pytest.approx(3.7304, abs=1e-3)
    mechanism = Gaussian(Floats(0, 10), 1.0, 1e-5)
    assert mechanism.sigma == pytest.approx(37.304, abs=0.02)
    assert mechanism.variance(1, 5) == pytest.approx(mechanism.sigma**2, rel=1e-6)
    assert mechanism.variance(1) < 100 * 2 * np.log(1.25e5)


def test_the_guarantee_of_the_gaussian_names_delta():
    mechanism = Gaussian(UNIT, 1.0, 1e-5)
    assert "(1, 1e-05)-local" in mechanism.guarantee
    assert (mechanism.epsilon_realised, mechanism.delta) == (1.0, 1e-5)
    assert mechanism.estimate(mechanism.aggregate(mechanism.randomize([0.0]))).delta == 1e-5
    assert mechanism.digest != Gaussian(UNIT, 1.0, 2e-5).digest
    assert Laplace(UNIT, 1.0).delta == 0
    for delta in (0, 1, 0.2, 1e-11, float("nan"), "1", None, True):
        with pytest.raises(UsageError, match="delta"):
            Gaussian(UNIT, 1.0, delta)


def test_noise_that_does_not_fall_is_refused():
    for half in ([2**64 - 6, 1, 2, 0], [2**64], [2**64 - 2, 2, 0], [2**64 + 2, -1, 0]):
        with pytest.raises(ValueError, match="expected counts"):
            Noise(half, 1)


# Square wave


@pytest.mark.parametrize(
    ("epsilon", "b", "p", "mass"),
    [(0.5, 0.3582, 0.756, 0.54), (1, 0.2561, 1.136, 0.58), (2, 0.1293, 2.538, 0.66)],
)
def test_the_square_wave_is_the_published_one(epsilon, b, p, mass):
    mechanism = SquareWave(UNIT, epsilon)
    assert mechanism.b == pytest.approx(b, abs=1e-4)
    window = mechanism.window
    assert float(window.near) * window.outside == pytest.approx(p, rel=5e-3)
    assert window.inside / 2**window.bits == pytest.approx(mass, abs=5e-3)


def test_em_with_sums_of_windows_is_em_with_the_whole_table():
    window = Window(6, 3, 7, 32, 2**31)
    table = np.array([[float(p) for p in row] for row in window.probabilities()])
    counts = np.random.default_rng(2).integers(0, 50, window.cells)
    for smooth in (False, True):
        expected = np.full(7, 1 / 7)
        for rounds in range(1, 6):
            expected = expected * (table @ (counts / (expected @ table)))
            expected /= expected.sum()
            expected = smoothed(expected) if smooth else expected
            found, done, rests, likelihood = expectation_maximisation(
                counts, window, smooth, -np.inf, rounds
            )
            assert (done, rests) == (rounds, False)
            assert found == pytest.approx(expected, rel=1e-12)
        assert likelihood < 0


def test_smoothing_loses_nothing():
    values = np.array([1.0, 0.0, 0.0, 0.0])
    assert smoothed(values).tolist() == [0.75, 0.25, 0.0, 0.0]
    assert smoothed(np.random.default_rng(1).random(9)).sum() == pytest.approx(
        np.random.default_rng(1).random(9).sum()
    )


def distance(found, codes, k):
    """Return the Wasserstein distance of two distributions on a grid from 0 to 1."""
    truth = np.bincount(codes, minlength=k) / codes.size
    return float(np.abs(np.cumsum(found - truth)).sum() / (k - 1))


def test_distributions_are_found():
    """Two humps; the error falls with epsilon, and smoothing has less of it than none."""
    rng = np.random.default_rng(4)
    humps = np.concatenate([rng.beta(20, 60, 30_000), rng.beta(50, 20, 30_000)])
    domain = Floats(0, 1, steps=128)
    codes = domain.encode(humps)
    errors = []
    for epsilon, bound in ((1.0, 0.045), (3.0, 0.008)):
        mechanism = SquareWave(domain, epsilon)
        state = mechanism.aggregate(mechanism.randomize(humps, from_seed(6)))
        smooth = mechanism.distribution(state)
        plain = mechanism.distribution(state, smooth=False)
        for found in (smooth, plain):
            assert found.converged
            assert found.values.min() >= 0
            assert found.values.sum() == pytest.approx(1)
            assert distance(found.values, codes, 129) < bound
            assert found.mean == pytest.approx(humps.mean(), abs=0.03)
            assert found.quantile(0.25) == pytest.approx(np.quantile(humps, 0.25), abs=0.05)
            assert found.variance == pytest.approx(humps.var(), rel=0.2)
        roughness = [np.abs(np.diff(found.values)).sum() for found in (smooth, plain)]
        assert roughness[0] < roughness[1]
        assert plain.log_likelihood > smooth.log_likelihood
        errors.append(distance(smooth.values, codes, 129))
        mean = mechanism.estimate(state)
        assert mean.low < humps.mean() < mean.high
    uniform = distance(np.full(129, 1 / 129), codes, 129)
    assert errors[1] < errors[0] / 4 < uniform / 8


def test_distribution_reads_and_refuses():
    mechanism = SquareWave(SHORT, 1.0)
    state = mechanism.aggregate(mechanism.randomize([0.5] * 50, from_seed(1)))
    found = mechanism.distribution(state)
    assert [row["value"] for row in found.rows()] == pytest.approx(SHORT.labels)
    assert found.cumulative[-1] == pytest.approx(1)
    assert found.insecure
    assert "array" not in repr(found)
    assert (found.quantile(0), found.quantile(1)) == (0.0, 1.0)
    for part in (-0.1, 1.1, float("nan"), True, "1"):
        with pytest.raises(UsageError, match="part"):
            found.quantile(part)
    for options in ({"smooth": 1}, {"tolerance": 0}, {"tolerance": True}, {"limit": 0}):
        with pytest.raises(UsageError):
            mechanism.distribution(state, **options)
    with pytest.raises(UsageError, match="no reports"):
        mechanism.distribution(mechanism.empty())
    with pytest.raises(UsageError, match="state"):
        mechanism.distribution(3)
    assert not mechanism.distribution(state, limit=1).converged
