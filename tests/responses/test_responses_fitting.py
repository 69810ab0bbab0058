"""Least squares against small dense algebra; losses against finite differences."""

import numpy as np
import pytest
from monte_carlo import estimator, projection
from scipy import optimize, sparse

from privagg.entropy import from_seed
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.fitting import NotConverged, fit_family, statistics_of
from privagg.protocols.responses.losses import (
    Binary,
    Categorical,
    Grouped,
    Poisson,
    Square,
    interpolated,
)
from privagg.protocols.responses.statistics import Statistics
from privagg.protocols.responses.targets import easy_targets

BAGS = {
    "equal": lambda: Bags.random(24, 4, from_seed(1)),
    "unequal": lambda: Bags.given([0] * 1 + [1] * 5 + [2] * 2 + [3] * 9 + [4] * 7),
    "overlapping": lambda: Bags.random(24, 4, from_seed(1), copies=2),
    "some overlap": lambda: Bags.of([range(9), range(6, 14), range(14, 24), [0], [23]], 24),
    "twice the same": lambda: Bags.of([range(12), range(12), range(12, 24)], 24),
}


@pytest.fixture(params=BAGS)
def bags(request):
    return BAGS[request.param]()


def data(rng, bags, features=3, columns=1):
    x, y = rng.normal(size=(bags.rows, features)), rng.normal(size=(bags.rows, columns))
    return x, y, bags.means(y)


@pytest.mark.parametrize("rho", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_paths_are_the_dense_estimator(rng, bags, rho, ridge):
    x, y, means = data(rng, bags, columns=2)
    found = statistics_of(x, bags, means).path(rho, [1.0, ridge], intercept=False)[1]
    dense = estimator(x, projection(bags), rho, ridge) @ y
    assert np.allclose(found.coefficients, dense, atol=1e-8)
    assert (found.intercept == 0).all()


@pytest.mark.parametrize("rho", [0.0, 0.3, 1.0])
def test_an_intercept_is_a_column_of_ones(rng, bags, rho):
    x, y, means = data(rng, bags, features=1)
    x += 5
    found = statistics_of(x, bags, means + 3).path(rho, [0.0])[0]
    with_ones = np.hstack([x, np.ones((bags.rows, 1))])
    dense = estimator(with_ones, projection(bags), rho, 0.0) @ (y + 3)
    assert np.allclose(found.coefficients, dense[:-1], atol=1e-6)
    assert np.allclose(found.intercept, dense[-1], atol=1e-6)


def test_the_minimum_of_the_loss_is_what_the_closed_form_finds(rng, bags):
    """L-BFGS on the losses of rows and bags, which know nothing of projections."""
    if not bags.disjoint:
        pytest.skip("overlapping bags are weighted by what they share")
    x, _, means = data(rng, bags)
    closed = statistics_of(x, bags, means).path(0.4, [0.05])[0]
    found = fit_family(Square(), x, bags, means, rho=0.4, ridge=0.05).solution
    assert np.allclose(found.coefficients, closed.coefficients, atol=1e-5)
    assert np.allclose(found.intercept, closed.intercept, atol=1e-5)


def test_more_features_than_rows_give_the_solution_of_least_norm(rng):
    bags = Bags.random(12, 3, from_seed(1))
    x, _, means = data(rng, bags, features=30)
    found = statistics_of(x, bags, means).path(0.0, [0.0], intercept=False)[0]
    expected = np.linalg.pinv(bags.means(x)) @ means
    assert np.allclose(found.coefficients, expected, atol=1e-8)


def test_constant_responses_and_features_give_no_weight(rng):
    bags = Bags.random(20, 4, from_seed(1))
    x = np.hstack([rng.normal(size=(20, 2)), np.full((20, 1), 7.0)])
    found = statistics_of(x, bags, np.full((5, 1), 2.5)).path(0.5, [0.0])[0]
    assert np.allclose(found.coefficients, 0, atol=1e-12)
    assert found.intercept == pytest.approx([2.5])


def test_sparse_and_single_precision_features_give_the_same(rng, bags):
    x, _, means = data(rng, bags)
    x[x < 0] = 0
    plain = statistics_of(x, bags, means).path(0.2, [0.1])[0].coefficients
    for other in (sparse.csr_matrix(x), sparse.csr_array(x)):
        found = statistics_of(other, bags, means).path(0.2, [0.1])[0].coefficients
        assert np.allclose(found, plain)
    single = statistics_of(x.astype(np.float32), bags, means).path(0.2, [0.1])[0].coefficients
    assert np.allclose(single, plain, atol=1e-5)


def test_statistics_add_up_and_subtract(rng):
    bags = Bags.given(np.repeat(range(6), [1, 2, 3, 4, 5, 6]))
    x, _, means = data(rng, bags)
    parts = []
    for chosen in (range(3), range(3, 6)):
        rows = np.isin(bags.labels[:, 0], chosen)
        parts.append(statistics_of(x[rows], Bags.given(bags.labels[rows, 0]), means[list(chosen)]))
    total = statistics_of(x, bags, means)
    for made, expected in ((parts[0] + parts[1], total), (total - parts[0], parts[1])):
        assert all(np.allclose(getattr(made, f), getattr(expected, f)) for f in vars(expected))
    with pytest.raises(Exception, match="other"):
        total + Statistics.of(np.eye(2), np.ones((1, 2)), np.array([1]), np.ones((1, 1)))


def test_bag_loss_is_what_it_says(rng):
    bags = BAGS["unequal"]()
    x, _, means = data(rng, bags)
    statistics = statistics_of(x, bags, means)
    solution = statistics.path(0.3, [0.2])[0]
    fitted = bags.means(x @ solution.coefficients + solution.intercept)
    expected = (bags.sizes * (means - fitted)[:, 0] ** 2).sum() / bags.count
    assert statistics.bag_loss(solution) == pytest.approx([expected])


FAMILIES = {
    "square": (Square(), lambda rng, m: rng.normal(size=(m, 2))),
    "binary": (Binary(), lambda rng, m: rng.uniform(size=(m, 1))),
    "categorical": (Categorical(), lambda rng, m: rng.dirichlet(np.ones(3), size=m)),
    "poisson": (Poisson(), lambda rng, m: rng.uniform(0, 4, size=(m, 1))),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("rho", [0.0, 0.4, 1.0, 1.7])
def test_gradients_are_those_of_finite_differences(rng, bags, name, rho):
    family, targets = FAMILIES[name]
    grouped, target = Grouped(bags), targets(rng, bags.count)
    z = rng.normal(size=(grouped.rows.size, target.shape[1]))
    _, gradient = interpolated(family, grouped, target, z, rho)
    numeric = optimize.approx_fprime(
        z.ravel(),
        lambda flat: interpolated(family, grouped, target, flat.reshape(z.shape), rho)[0],
        1e-7,
    )
    assert np.allclose(gradient.ravel(), numeric, atol=1e-5)


def test_the_proportion_loss_is_the_logarithm_of_the_mean_probability(rng):
    bags = BAGS["unequal"]()
    grouped = Grouped(bags)
    z, share = rng.normal(size=(24, 1)), rng.uniform(size=(bags.count, 1))
    value, _ = interpolated(Binary(), grouped, share, z, 0.0)
    p = np.array([(1 / (1 + np.exp(-z[rows]))).mean() for rows in bags.members()])
    each = -(share[:, 0] * np.log(p) + (1 - share[:, 0]) * np.log(1 - p))
    assert value == pytest.approx((each * bags.sizes).sum() / 24)
    two = np.hstack([np.zeros((24, 1)), z])
    both = np.hstack([1 - share, share])
    assert interpolated(Categorical(), grouped, both, two, 0.0)[0] == pytest.approx(value)


def test_losses_of_rows_do_not_overflow():
    z = np.array([[800.0], [-800.0]])
    for family in (Binary(), Poisson()):
        loss, slope = family.instance(np.array([[1.0], [0.0]]), z, family.mean(z))
        assert np.isfinite(loss).all()
        assert np.isfinite(slope).all()


def test_easyllp_targets_are_unbiased_and_their_loss_convex(rng):
    """Over all ways to put four labels into bags of two, each row's target averages its label."""
    labels = np.array([1.0, 0.0, 0.0, 1.0])
    prior = labels.mean()
    total = np.zeros(4)
    draws = 4000
    for seed in range(draws):
        iid = (rng.random(8) < prior).astype(float)
        iid[0] = labels[seed % 4]
        bags = Bags.given(np.repeat(range(4), 2))
        targets = easy_targets(bags.means(iid[:, None]), bags.sizes, np.array([prior]))
        total[seed % 4] += targets[bags.labels[0, 0], 0] * 4 / draws
    assert np.allclose(total, labels, atol=0.1)
    # Weights below 0: the cross-entropy of rows stays convex in the logit, whatever the target.
    z = np.linspace(-4, 4, 41)[:, None]
    for target in (-2.0, 0.3, 3.0):
        loss, _ = Binary().instance(np.full((41, 1), target), z, Binary().mean(z))
        assert (np.diff(loss, 2) > 0).all()


def test_an_unfinished_iteration_says_so(rng):
    bags = Bags.random(40, 4, from_seed(1))
    x, share = rng.normal(size=(40, 8)), rng.uniform(size=(10, 1))
    with pytest.warns(NotConverged, match="raise max_iter"):
        fit_family(Binary(), x, bags, share, rho=0.5, ridge=1e-9, max_iter=1)
