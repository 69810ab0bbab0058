"""Post-processing: what each method promises, and facts about them that must hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from ldp_oracles import oracle
from scipy import optimize

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms import METHODS, postprocess

RAW = hnp.arrays(
    np.float64, st.integers(1, 30), elements=st.floats(-2, 2, allow_subnormal=False, width=32)
)
NORMALISED = {
    "norm-sub": postprocess.norm_sub,
    "clip": postprocess.clip_renormalise,
    "norm-cut": postprocess.norm_cut,
    "mle": lambda raw: postprocess.grr_mle(raw, 0.6, 0.4 / max(len(raw) - 1, 1)),
}


@pytest.mark.parametrize("name", NORMALISED)
@given(RAW)
@settings(max_examples=150, deadline=None)
def test_frequencies_on_the_simplex_and_the_input_kept(name, raw):
    if name == "mle":
        if len(raw) < 2:
            return
        shares = np.abs(raw) + 0.01
        q = 0.4 / (len(raw) - 1)
        raw = (shares / shares.sum() - q) / (0.6 - q)
    raw.flags.writeable = False
    before = raw.copy()
    found = NORMALISED[name](raw)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1, abs=1e-9)
    assert np.array_equal(raw, before)
    # The order of the values is kept.
    order = np.argsort(raw, kind="stable")
    assert (np.diff(found[order]) >= -1e-12).all()


@pytest.mark.parametrize("name", ["norm-sub", "clip", "norm-cut"])
def test_frequencies_stay_as_they_are(name):
    exact = np.array([0.5, 0.3, 0.2, 0.0])
    assert NORMALISED[name](exact) == pytest.approx(exact)


@given(RAW)
@settings(max_examples=100, deadline=None)
def test_norm_sub_is_the_nearest_point(raw):
    """The gradient of the distance separates it: (raw - x) . (y - x) <= 0 for every corner y."""
    x = postprocess.norm_sub(raw)
    gap = raw - x
    assert (gap - gap @ x <= 1e-9).all()


def test_small_examples():
    raw = np.array([0.7, 0.5, -0.1, 0.1])
    # Subtract 0.1: 0.6 + 0.4 are 1.
    assert postprocess.norm_sub(raw) == pytest.approx([0.6, 0.4, 0, 0])
    assert postprocess.clip_renormalise(raw) == pytest.approx(np.array([0.7, 0.5, 0, 0.1]) / 1.3)
    assert postprocess.norm_cut(raw) == pytest.approx([1, 0, 0, 0])
    assert postprocess.norm_cut([0.6, 0.3, 0.2]) == pytest.approx(np.array([0.6, 0.3, 0]) / 0.9)
    assert postprocess.norm_cut([0.2, 0.2, -1]) == pytest.approx([0.5, 0.5, 0])
    assert postprocess.base_cut(raw, 0.1) == pytest.approx([0.7, 0.5, 0, 0])
    # Threshold of four values at 0.05: 2.24 deviations.
    assert postprocess.base_cut(raw, 0.3) == pytest.approx([0.7, 0, 0, 0])
    assert postprocess.base_cut(raw, 0.3, alpha=0.9) == pytest.approx([0.7, 0.5, 0, 0])


def test_nothing_left_is_uniform_and_never_nan():
    """All estimates negative: other libraries return NaN or zeros here."""
    for method in (postprocess.norm_sub, postprocess.clip_renormalise, postprocess.norm_cut):
        found = method(np.array([-1.0, -1.0, -1.0, -1.0]))
        assert found == pytest.approx([0.25] * 4)


@pytest.mark.parametrize("seed", range(6))
def test_mle_is_the_most_likely(seed):
    """No nearby frequencies, and none that a general solver finds, are more likely."""
    rng = np.random.default_rng(seed)
    k = 5
    mechanism = oracle("grr", k, 0.7)
    p, q = float(mechanism.p), float(mechanism.q)
    counts = rng.multinomial(300, rng.dirichlet(np.ones(k) / 2) * (p - q) + q)
    raw = (counts / 300 - q) / (p - q)

    def loss(theta):
        return -counts @ np.log(theta * (p - q) + q)

    found = postprocess.grr_mle(raw, p, q)
    solved = optimize.minimize(
        loss,
        np.full(k, 1 / k),
        bounds=[(0, 1)] * k,
        constraints={"type": "eq", "fun": lambda theta: theta.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found == pytest.approx(solved.x, abs=2e-4)
    assert loss(found) <= loss(solved.x) + 1e-9


def test_every_method_through_estimate_keeps_the_raw_estimates():
    mechanism = oracle("grr", 20, 1.0)
    codes = np.zeros(500, np.uint32)
    state = mechanism.aggregate(mechanism.randomize_codes(codes, from_seed(1)))
    raw = mechanism.estimate(state, post=None)
    assert raw.values is raw.raw
    assert raw.raw.min() < 0
    for method in METHODS:
        found = mechanism.estimate(state, post=method)
        assert np.array_equal(found.raw, raw.raw)
        assert found.values.min() >= 0
        assert found.post == method
    other = oracle("oue", 20, 1.0)
    others = other.aggregate(other.randomize_codes(codes))
    with pytest.raises(UsageError, match="another method"):
        other.estimate(others, post="mle")


def test_base_cut_rarely_keeps_what_nobody_holds():
    mechanism = oracle("oue", 50, 1.0)
    codes = np.zeros(2000, np.uint32)
    kept = 0
    for seed in range(100):
        state = mechanism.aggregate(mechanism.randomize_codes(codes, from_seed(seed)))
        kept += mechanism.estimate(state, post="base-cut").values[1:].any()
    # Five in a hundred are expected; more than 16 in one of 100,000 tests.
    assert kept <= 16


def zipf(k, n, rng):
    weights = 1 / np.arange(1, k + 1) ** 1.1
    return rng.choice(k, n, p=weights / weights.sum()).astype(np.uint32)


@pytest.mark.parametrize(
    ("name", "k", "n", "epsilon", "gain"),
    [
        ("oue", 100, 45_222, 0.5, 1.3),
        ("oue", 100, 45_222, 1.0, 1.2),
        ("grr", 100, 45_222, 1.0, 1.2),
        ("oue", 1024, 100_000, 1.0, 4.0),
    ],
)
def test_norm_sub_beats_clipping_on_skewed_data(name, k, n, epsilon, gain):
    rng = np.random.default_rng(7)
    mechanism = oracle(name, k, epsilon)
    errors = {"norm-sub": 0.0, "clip": 0.0}
    for seed in range(4):
        codes = zipf(k, n, rng)
        truth = np.bincount(codes, minlength=k) / n
        state = mechanism.aggregate(mechanism.randomize_codes(codes, from_seed(seed)))
        for post in errors:
            values = mechanism.estimate(state, post=post).values
            errors[post] += float(((values - truth) ** 2).mean())
    assert errors["clip"] > gain * errors["norm-sub"]


@pytest.mark.parametrize("raw", [[], [[0.5]], ["a"], [np.nan], [np.inf, 0], 3, None])
def test_wrong_estimates(raw):
    for method in (postprocess.norm_sub, postprocess.clip_renormalise, postprocess.norm_cut):
        with pytest.raises(UsageError, match="raw"):
            method(raw)


def test_wrong_parameters():
    for alpha in (0, 1, True, "0.5"):
        with pytest.raises(UsageError, match="alpha"):
            postprocess.base_cut([0.5, 0.5], 0.1, alpha)
    with pytest.raises(UsageError, match="cannot be"):
        postprocess.grr_mle([-0.5, -1.0, -1.0], 0.6, 0.2)
    for p, q in ((0.4, 0.4), (0.4, 0.5), (1.0, 0.2), (0.5, 0.0)):
        with pytest.raises(UsageError, match="q"):
            postprocess.grr_mle([0.5, 0.5], p, q)


def test_consistent_totals_are_the_least_squares():
    """Against the normal equations of all equations at once, weighted by their variances."""
    rng = np.random.default_rng(3)
    raw, variance = rng.normal(size=6), rng.uniform(0.5, 2, 6)
    groups = np.array([0, 1, 0, 2, 2, 2])
    totals, total_variance = rng.normal(size=3), rng.uniform(0.5, 2, 3)
    values, sums = postprocess.consistent(raw, variance, groups, totals, total_variance)
    design = np.vstack([np.eye(6), np.eye(3)[groups].T])
    weights = 1 / np.sqrt(np.concatenate([variance, total_variance]))
    known = np.concatenate([raw, totals])
    solved = np.linalg.lstsq(design * weights[:, None], known * weights, rcond=None)[0]
    assert values == pytest.approx(solved)
    assert sums == pytest.approx(np.bincount(groups, solved))
    exact = postprocess.consistent(raw, variance, groups, totals, 0.0)[1]
    assert exact == pytest.approx(totals)


def test_consistent_wrong_arguments():
    good = {"raw": [0.5, 0.5], "variance": 1.0, "groups": [0, 1], "totals": [1, 1]}
    for name, value in (
        ("raw", [np.nan, 1]),
        ("variance", 0.0),
        ("variance", [1.0, -1.0]),
        ("variance", [1.0, 1.0, 1.0]),
        ("groups", [0, 2]),
        ("groups", [0, -1]),
        ("groups", [0.0, 1.0]),
        ("groups", [0]),
        ("totals", [np.inf, 1]),
    ):
        with pytest.raises(UsageError) as caught:
            postprocess.consistent(**{**good, name: value}, total_variance=1.0)
        assert caught.value.argument == name
