"""Releases without a curator: bags' sums by secure aggregation, with noise of the rows."""

import math

import numpy as np
import pytest

from privagg.accounting.gaussian import analytic_sigma
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.protocols.responses import Curator, Release, run
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.clipping import PaidRange
from privagg.protocols.responses.rounds import release_securely


def test_sums_are_those_of_the_bags_with_the_noise_of_a_curator(rng):
    y = rng.uniform(-3, 3, 200)
    bags = Bags.random(200, 10, from_seed(1))
    wanted = Release(epsilon=4.0, delta=1e-5, clip=(-1.0, 2.0), aggregate="sum")
    made = release_securely(wanted, bags, y, entropy=from_seed(2))
    off = made.values - bags.sums(np.clip(y, -1, 2))
    sigma = analytic_sigma(3.0, 4.0, 1e-5)
    # No coalition: the noise of all rows is needed, and is little more than a curator's.
    assert 0.95 * sigma < math.sqrt(made.noise_variance) < 1.35 * sigma
    assert math.sqrt((off**2).mean()) == pytest.approx(math.sqrt(made.noise_variance), rel=0.6)
    assert np.abs(off).max() < 6 * math.sqrt(made.noise_variance)
    assert made.mechanism == "secure-aggregation"
    assert "(4, 1e-05)-label" in made.guarantee


def test_classes_and_more_noise_where_rows_may_collude(rng):
    y, bags = rng.integers(0, 3, 24), Bags.random(24, 8, from_seed(1))
    wanted = Release(epsilon=64.0, delta=1e-3, classes=3)
    made = release_securely(wanted, bags, y, entropy=from_seed(2))
    assert made.values.shape == (3, 3)
    assert np.allclose(made.values, bags.means(np.eye(3)[y]), atol=0.3)
    two = Release(epsilon=4.0, delta=1e-5, classes=2)
    plain, more = (
        release_securely(two, bags, y == 1, corrupt=c, entropy=from_seed(2)) for c in (0.0, 0.25)
    )
    assert more.noise_variance > plain.noise_variance * 1.2


def test_a_row_in_two_bags_composes_its_rounds():
    wanted = Release(epsilon=4.0, delta=1e-5, classes=2)
    one, two = (
        release_securely(wanted, Bags.random(8, 4, from_seed(1), copies=c), np.ones(8, int))
        for c in (1, 2)
    )
    assert two.noise_variance > 1.8 * one.noise_variance


def test_without_epsilon_sums_are_exact_and_say_so(rng):
    bags = Bags.random(17, 5, from_seed(1), copies=2)
    y = rng.integers(0, 3, 17)
    for values, classes in ((y == 1, 2), (y, 3)):
        wanted = Release(classes=classes, aggregate="sum")
        made, same = release_securely(wanted, bags, values), Curator(wanted, bags).release(values)
        assert np.array_equal(made.values, same.values)
        assert made.epsilon is None
        assert made.mechanism == "exact"
        assert made.guarantee.startswith("no differential privacy")
    numbers = rng.uniform(-3, 3, 17)
    made = release_securely(Release(clip=(-1.0, 2.0)), bags, numbers)
    assert np.allclose(made.values, bags.means(np.clip(numbers, -1, 2)), atol=3 / 2**17)
    assert made.step == 3 / 2**16
    coarse = release_securely(Release(clip=(-1.0, 2.0), steps=3), bags, numbers)
    assert np.allclose(coarse.values, bags.means(np.rint(np.clip(numbers, -1, 2))))


@pytest.mark.parametrize(
    ("release", "ids", "responses"),
    [
        (Release(), [0] * 4, [1] * 4),
        (Release(classes=2), [0, 0, 0, 1], [1] * 4),
        (Release(classes=2), [0] * 4, [2] * 4),
        (Release(epsilon=1.0, classes=2), [0] * 4, [1] * 4),
        (Release(epsilon=1.0, delta=1e-6, clip=PaidRange(candidates=(1.0,))), [0] * 4, [1] * 4),
        (Release(epsilon=1.0, delta=1e-6, classes=2), [0, 0, 0, 1], [1] * 4),
        (Release(epsilon=1.0, delta=1e-6, classes=2), [0] * 4, [2] * 4),
        (Release(epsilon=1.0, delta=1e-6, clip=(0.0, 1.0)), [0] * 4, [np.nan] * 4),
    ],
)
def test_what_cannot_be_released_is_refused(release, ids, responses):
    with pytest.raises(UsageError):
        release_securely(release, Bags.given(ids), responses)


def test_the_driver_runs_both_ways(rng):
    bags, y = Bags.random(24, 8, from_seed(1)), rng.uniform(-1, 1, 24)
    wanted = Release(epsilon=4.0, delta=1e-5, clip=(-1.0, 1.0))
    drawn = Curator(wanted, bags, from_seed(2)).release(y)
    assert np.array_equal(run(wanted, bags, y, entropy=from_seed(2)).values, drawn.values)
    alone = run(wanted, bags, y, secure=True, corrupt=0.25, entropy=from_seed(2))
    same = release_securely(wanted, bags, y, corrupt=0.25, entropy=from_seed(2))
    assert alone.noise_variance == same.noise_variance
    assert alone.mechanism == "secure-aggregation"
    with pytest.raises(UsageError, match="corrupt"):
        run(wanted, bags, y, corrupt=0.25)
    with pytest.raises(UsageError, match="secure"):
        run(wanted, bags, y, secure=1)
