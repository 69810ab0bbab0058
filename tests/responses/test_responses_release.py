"""Releases of bags: their guarantee by enumeration, what they refuse, their file."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privagg.entropy import OS, from_seed
from privagg.errors import UsageError
from privagg.protocols.responses import Curator, Release, release_noise
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.clipping import PaidRange, _moments, unclipped
from privagg.protocols.responses.result import Released


def curated(responses, bags, seed=1, **settings):
    return Curator(Release(**settings), bags, from_seed(seed)).release(responses)


def test_exact_sums_and_means_are_exact_and_claim_nothing(rng):
    y, bags = rng.normal(size=20), Bags.given(np.repeat(list("abcd"), [2, 5, 6, 7]))
    means = curated(y, bags)
    sums = curated(y, bags, aggregate="sum")
    assert np.allclose(means.values, [y[m].mean() for m in bags.members()])
    assert np.allclose(sums.means, means.values)
    assert sums.epsilon is None
    assert "no differential privacy" in sums.guarantee
    assert means.by_bag()["a"] == pytest.approx(y[:2].mean())


class Recorded:
    """Noise that is 0, and says how it was asked for."""

    def __init__(self):
        self.asked = []
        self.variance = 0.0

    def laplace(self, epsilon, steps, moved):
        self.asked.append((epsilon, steps, moved))
        return self

    def sample(self, count, draws):
        return np.zeros(count, np.int64)


@pytest.mark.parametrize(
    ("bags", "settings", "values", "distance"),
    [
        (Bags.of([[0, 1], [2]], 3), {"classes": 2}, (0, 1), 1),
        (Bags.of([[0, 1], [2]], 3), {"classes": 3}, (0, 1, 2), 2),
        (Bags.of([[0, 1], [1, 2], [0, 1, 2]], 3), {"classes": 2}, (0, 1), 3),
        (Bags.of([[0, 1], [1, 2]], 3), {"classes": 3}, (0, 1, 2), 4),
        (Bags.of([[0, 1], [1, 2]], 3), {"clip": (-1.0, 2.0), "steps": 3}, (-9, 0, 0.4, 7), 6),
    ],
)
def test_no_response_moves_the_sums_by_more_than_the_noise_is_made_for(
    monkeypatch, bags, settings, values, distance
):
    """All neighbouring inputs of a small table: the largest L1 distance is the sensitivity."""
    noise = Recorded()
    monkeypatch.setattr("privagg.protocols.responses.curator.laplace_noise", noise.laplace)
    found = {}
    for y in product(values, repeat=3):
        made = curated(np.array(y), bags, aggregate="sum", epsilon=1.0, **settings)
        found[y] = made.values / (made.step or 1)
    largest = max(
        np.abs(found[a] - found[b]).sum()
        for a in found
        for b in found
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1
    )
    _epsilon, steps, moved = noise.asked[0]
    assert largest == pytest.approx(steps * moved)
    assert steps * moved == distance


@pytest.mark.parametrize(("moved", "steps"), [(1, 1), (2, 1), (1, 3), (3, 2)])
def test_epsilon_of_laplace_noise_by_enumeration(moved, steps):
    """The ratio of all outputs near the origin under every move of the moved sums."""
    epsilon = 1.3
    decay = release_noise.laplace_noise(epsilon, steps, moved).law.decay
    assert decay * moved * steps == Fraction(epsilon)
    q = math.exp(-float(decay))
    worst = 0.0
    for out in product(range(-4, 5), repeat=moved):
        for move in product(range(-steps, steps + 1), repeat=moved):
            here = sum(abs(o) for o in out)
            there = sum(abs(o - m) for o, m in zip(out, move, strict=True))
            worst = max(worst, -math.log(q) * (there - here))
    assert worst == pytest.approx(epsilon)


@pytest.mark.parametrize(("moved", "steps"), [(1, 1), (1, 4), (2, 1), (2, 2)])
def test_delta_of_gaussian_noise_by_enumeration(moved, steps):
    epsilon, variance = 0.8, 6.0
    reach = range(-24, 25)
    weights = {j: math.exp(-j * j / (2 * variance)) for j in range(-30, 31)}
    total = sum(weights.values())
    worst = 0.0
    for move in product(range(-steps, steps + 1), repeat=moved):
        delta = 0.0
        for out in product(reach, repeat=moved):
            here = math.prod(weights[o] / total for o in out)
            there = math.prod(weights[o - m] / total for o, m in zip(out, move, strict=True))
            delta += max(0.0, here - math.exp(epsilon) * there)
        worst = max(worst, delta)
    assert release_noise.gaussian_delta(variance, epsilon, steps, moved) == pytest.approx(worst)


def test_gaussian_noise_meets_its_delta_and_is_near_the_continuous_one():
    for epsilon, moved in ((0.5, 1), (2.0, 8)):
        steps = release_noise.steps_for(epsilon, 1e-6, moved)
        noise, delta = release_noise.gaussian_noise(epsilon, 1e-6, steps, moved)
        assert delta <= 1e-6
        least = release_noise.analytic_sigma(steps * math.sqrt(moved), epsilon, 1e-6)
        assert math.sqrt(noise.variance) == pytest.approx(least, rel=0.02)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_noise_has_the_variance_that_is_stated(rng, delta):
    bags = Bags.random(30_000, 3, from_seed(1))
    y = rng.uniform(-1, 1, 30_000)
    exact = curated(y, bags, aggregate="sum")
    made = curated(y, bags, epsilon=1.0, delta=delta, clip=(-1.0, 1.0), aggregate="sum")
    noise = made.values - exact.values
    rounding = 3 * made.step**2 / 12
    assert noise.var() == pytest.approx(made.noise_variance + rounding, rel=0.08)
    assert abs(noise.mean()) < 5 * noise.std() / math.sqrt(noise.size)
    expected = 8.0 if delta == 0 else release_noise.analytic_sigma(2, 1, 1e-6) ** 2
    assert made.noise_variance == pytest.approx(expected, rel=0.05)


def test_histograms_of_classes_and_counts_of_class_1(rng):
    bags, y = Bags.random(3000, 10, from_seed(2)), rng.integers(0, 3, 3000)
    made = curated(y, bags, epsilon=4.0, classes=3, aggregate="sum")
    assert made.values.shape == (300, 3)
    assert (made.values == np.rint(made.values)).all()
    off = made.values.sum(axis=0) - np.bincount(y)
    assert np.abs(off).max() < 6 * math.sqrt(300 * made.noise_variance)
    two = curated(y == 1, bags, epsilon=4.0, classes=2)
    assert two.values.shape == (300,)


def test_a_response_in_several_bags_costs_more_noise():
    y = np.zeros(40)
    plain, twice = (
        curated(
            y, Bags.random(40, 4, from_seed(1), copies=c), epsilon=1.0, clip=(0.0, 1.0), steps=8
        )
        for c in (1, 2)
    )
    assert twice.noise_variance == pytest.approx(4 * plain.noise_variance, rel=0.01)


def test_a_curator_releases_once_and_keeps_what_it_clipped():
    curator = Curator(Release(epsilon=1.0, clip=(0.0, 1.0)), Bags.given([0, 0, 1]), OS)
    curator.release([5.0, 0.5, -1.0])
    assert curator.clipped == 2
    assert "clipped" not in repr(curator)
    with pytest.raises(UsageError, match="averages out"):
        curator.release([0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 1.0},
        {"epsilon": 0.0, "classes": 2},
        {"epsilon": True, "classes": 2},
        {"epsilon": float("nan"), "classes": 2},
        {"delta": 1e-6, "classes": 2},
        {"epsilon": 1.0, "delta": 1e-15, "classes": 2},
        {"epsilon": 1.0, "clip": (1.0, 1.0)},
        {"epsilon": 1.0, "clip": 3.0},
        {"epsilon": 1.0, "clip": (0.0, float("inf"))},
        {"epsilon": 1.0, "clip": (0.0, 1.0), "classes": 2},
        {"clip": PaidRange(candidates=(1.0,))},
        {"classes": 1},
        {"aggregate": "median"},
        {"epsilon": 1.0, "clip": (0.0, 1.0), "steps": 0},
    ],
)
def test_impossible_releases_are_refused(settings):
    with pytest.raises(UsageError):
        Release(**settings)


@pytest.mark.parametrize(
    "responses",
    [[0.0], [0.0, np.nan], ["a", "b"], [[0.0, 1.0]], np.ma.masked_array([1.0, 2.0], [1, 0])],
)
def test_impossible_responses_are_refused(responses):
    with pytest.raises(UsageError, match="responses"):
        curated(responses, Bags.given([0, 1]), epsilon=1.0, clip=(0.0, 1.0))
    with pytest.raises(UsageError, match="responses"):
        curated([0, 3], Bags.given([0, 1]), epsilon=1.0, classes=3)


@pytest.mark.parametrize(("mean", "low", "high"), [(0.0, -1.0, 1.0), (1.0, -0.5, 4.0)])
def test_kappa_is_what_clipping_keeps(rng, mean, low, high):
    """E[clip(y) x] / E[y x] of a Gaussian pair, and its estimate from noisy sums."""
    n = 200_000
    x = rng.normal(size=n)
    y = mean + x + rng.normal(size=n)
    ratio = (np.clip(y, low, high) @ x) / ((y - mean) @ x)
    kappa = _moments(mean, math.sqrt(2), low, high)[2]
    assert ratio == pytest.approx(kappa, abs=0.01)
    clipped = np.clip(y, low, high)
    m, v, _ = _moments(mean, math.sqrt(2), low, high)
    assert (clipped.mean(), clipped.var()) == pytest.approx((m, v), abs=0.02)
    made = curated(y, Bags.random(n, 5, from_seed(3)), epsilon=4.0, clip=(low, high))
    assert made.kappa == pytest.approx(kappa, abs=0.05)


def test_kappa_is_1_where_nothing_is_known():
    assert curated(np.ones(10), Bags.given(range(10)), clip=(0.0, 3.0)).kappa == 1.0
    assert unclipped(np.zeros(3), np.ones(3, np.int64), (-1.0, 1.0), 5.0).kappa == 1.0
    labels = curated(np.arange(10) % 2, Bags.given(range(10)), epsilon=1.0, classes=2)
    assert labels.kappa == 1.0


def test_a_range_that_is_paid_for_is_near_the_wanted_one(rng):
    y = rng.normal(size=50_000)
    ends = tuple(np.linspace(0.1, 5, 50))
    wanted = PaidRange(candidates=ends, beyond=0.1, share=0.25)
    made = curated(y, Bags.random(y.size, 5, from_seed(1)), epsilon=1.0, clip=wanted)
    assert made.high == pytest.approx(1.645, abs=0.15)
    assert made.low == -made.high
    assert made.epsilon_clip == pytest.approx(0.25)
    # The sums have three quarters of epsilon left.
    assert made.noise_variance == pytest.approx(8 * made.high**2 / 0.75**2, rel=0.01)
    for settings in ({"candidates": (2.0, 1.0)}, {"candidates": (1.0,), "share": 1.0}):
        with pytest.raises(UsageError):
            PaidRange(**settings)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_a_file_gives_the_release_back(tmp_path, rng, classes):
    bags = Bags.of([[0, 1, 2], [2, 3], [3, 4]], 5)
    settings = {"classes": classes} if classes else {"clip": (0.0, 2.0)}
    made = curated(rng.integers(0, max(classes, 2), 5), bags, epsilon=1.0, **settings)
    made.write(tmp_path / "a.parquet", prior=np.full(5, 0.5))
    back = Released.read(tmp_path / "a.parquet")
    assert (back.values == made.values).all()
    assert (back.bags.labels == bags.labels).all()
    same = {f for f in vars(made) if f not in ("bags", "values")}
    assert all(getattr(back, f) == getattr(made, f) for f in same)
    assert "prior" in pq.read_table(tmp_path / "a.parquet").column_names


def test_names_of_bags_are_kept(tmp_path):
    made = curated([1.0, 2.0], Bags.given(["y", "x"]))
    made.write(tmp_path / "a.parquet")
    assert Released.read(tmp_path / "a.parquet").by_bag() == {"x": 2.0, "y": 1.0}
    with pytest.raises(UsageError, match="prior"):
        made.write(tmp_path / "b.parquet", prior=[2.0, 0.0])


def test_files_that_contradict_themselves_are_refused(tmp_path, rng):
    path = tmp_path / "a.parquet"
    made = curated(rng.normal(size=4), Bags.given([0, 0, 1, 1]), epsilon=1.0, clip=(-1.0, 1.0))
    made.write(path)
    table = pq.read_table(path)
    changes = {
        "two responses": ("response", [0.0, 1.0, 2.0, 2.0]),
        "no finite": ("response", [np.nan, np.nan, 2.0, 2.0]),
        "a row or a bag missing": ("row", [0, 1, 2, 9]),
        "negative": ("row", [0, 1, 2, -1]),
        "column row of": ("row", [0.0, 1.0, 2.0, 3.0]),
        "twice": ("row", [0, 0, 1, 1]),
        "gaps": ("bag", [0, 0, None, 1]),
    }
    for reason, (name, values) in changes.items():
        at = table.column_names.index(name)
        pq.write_table(table.set_column(at, name, pa.array(values)), path)
        with pytest.raises(UsageError, match=reason):
            Released.read(path)
    pq.write_table(table.append_column("label", table["response"]), path)
    with pytest.raises(UsageError, match="a column label"):
        Released.read(path)
    pq.write_table(table.replace_schema_metadata({}), path)
    with pytest.raises(UsageError, match="no metadata"):
        Released.read(path)
    text = table.schema.metadata[b"privagg.responses"]
    for old, new in (
        (b"1.0", b'"1"'),
        (b'"mean"', b'"median"'),
        (b'"version": 1', b'"version": 2'),
    ):
        pq.write_table(
            table.replace_schema_metadata({"privagg.responses": text.replace(old, new)}), path
        )
        with pytest.raises(UsageError, match=r"metadata|version"):
            Released.read(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(UsageError, match="path"):
        Released.read(path)


def test_a_seed_voids_the_guarantee_in_words():
    made = curated([0, 1], Bags.given([0, 1]), epsilon=1.0, classes=2)
    assert "void" in made.guarantee
    assert "void" not in replace(made, insecure=False).guarantee
