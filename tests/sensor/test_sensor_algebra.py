from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sensor_parties import Cluster

from privagg import field as fields
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.protocols.sensor import Params, faithful, senders, sound
from privagg.protocols.sensor.grouping import group

GF5 = fields.prime_field(5)


@pytest.mark.parametrize("m", range(3, 31))
def test_parties_add_exactly(m):
    random = np.random.default_rng(m)
    values = random.integers(-100, 101, m).tolist()
    for protocol in ("cpda-field", "mask-cluster"):
        cluster = Cluster(m, seed=m, protocol=protocol)
        assert cluster.run(values) == ([sum(values)], m)


@pytest.mark.parametrize("name", ["m31", "m61"])
@pytest.mark.parametrize("drops", [0, 1, 2])
def test_arrays_add_exactly(name, drops):
    """All sizes at once, several epochs and numbers, in threshold mode with silent members."""
    random = np.random.default_rng(drops)
    sizes = list(range(5, 31))
    leader = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
    grouping = group(leader)
    field = fields.FIELDS[name]
    params = Params.recommend(
        "cpda-field", nodes=1000, bound=1000, width=2, drops=drops, field=field
    )
    numbers = random.integers(-1000, 1001, (3, len(leader), 2))
    sends = np.ones((3, len(leader)), bool)
    answers = np.ones((3, len(leader)), bool)
    for epoch in range(3):
        for start, size in zip(grouping.start, sizes, strict=False):
            gone = random.choice(size, (2, drops), replace=drops > size)
            sends[epoch, start + gone[0]] = False
            answers[epoch, start + gone[1]] = False
    success = random.random((3, len(sizes))) < 0.8
    found = sound.polynomial_sums(
        sound.lower(numbers, field), grouping, sends, answers, success, params, from_seed(1)
    )
    expected = np.add.reduceat(numbers * sends[..., None], grouping.start[:-1], axis=1)
    assert np.array_equal(sound.lift(found, field), expected * success[..., None])
    if drops:  # masks have no threshold: once is enough
        return
    masked = sound.masked_sums(sound.lower(numbers, field), grouping, success, params, from_seed(1))
    whole = np.add.reduceat(numbers, grouping.start[:-1], axis=1)
    assert np.array_equal(sound.lift(masked, field), whole * success[..., None])


class Listed:
    """Random bytes that are a list of elements of GF(5), in order."""

    def __init__(self, elements):
        self._bytes = np.asarray(elements, "<u4").tobytes()

    def take(self, count):
        taken, self._bytes = self._bytes[:count], self._bytes[count:]
        return taken


def views(b, c, threshold=3):
    """Count the views of leader A over all coefficients of B and C, its own fixed."""
    coefficients = np.array(list(product(range(5), repeat=2 * (threshold - 1))))
    count = len(coefficients)
    values = np.concatenate([np.full(count, b), np.full(count, c)]).astype(np.uint32)
    order = coefficients.reshape(count, 2, threshold - 1).transpose(2, 1, 0)
    shares = sound.shares_of(values, 3, threshold, GF5, Listed(order.reshape(-1)))
    shares = shares.reshape(3, 2, count)
    own = np.array([2, 4, 1])[:, None]
    assembled = (shares.sum(axis=1) + own) % 5
    rows = np.stack([shares[0, 0], shares[0, 1], assembled[1], assembled[2]], axis=1)
    return Counter(map(tuple, rows.tolist()))


def test_the_leader_sees_the_same_for_all_readings_with_equal_sums():
    """Exhaustive over GF(5), three members: all readings of B and C, all coefficients."""
    for total in range(5):
        seen = [views(b, (total - b) % 5) for b in range(5)]
        assert all(one == seen[0] for one in seen)
    # and another sum is told apart, or the view would be good for nothing
    assert views(0, 0) != views(0, 1)


def test_a_member_sees_the_same_whatever_the_other_readings():
    """One share of degree t - 1 polynomials is uniform: t - 1 of them are, too."""
    for reading in range(5):
        coefficients = np.array(list(product(range(5), repeat=2)))
        values = np.full(25, reading, np.uint32)
        shares = sound.shares_of(values, 4, 3, GF5, Listed(coefficients.T.reshape(-1)))
        for first, second in ((0, 1), (0, 3), (2, 3)):
            pairs = Counter(zip(shares[first].tolist(), shares[second].tolist(), strict=True))
            assert set(pairs.values()) == {1}
            assert len(pairs) == 25


def test_seeds_that_would_leak_or_lose_the_sum_cannot_occur():
    """Positions start at 1 and stay below the modulus: no 0, no p, no two alike modulo p."""
    values = np.array([3], np.uint32)
    for point in (0, 5):
        share = fields.evaluate(
            np.array([[3], [4]], np.uint32), np.array([point % 5], np.uint32), GF5
        )
        assert share[0, 0] == 3  # the reading itself
    with pytest.raises(UsageError, match="members"):
        sound.shares_of(values, 5, 3, GF5, from_seed(1))
    for points in ([0, 1, 2], [1, 1, 2]):
        with pytest.raises(UsageError):
            fields.lagrange_weights_at_zero(fields.elements(points, GF5), GF5)
    with pytest.raises(UsageError, match="0 to 4"):
        fields.elements([1, 6], GF5)  # 6 = 1 (mod 5)


def test_signed_numbers_come_back_or_are_refused():
    for field in (GF5, fields.M31, fields.M61):
        half = field.modulus // 2
        numbers = np.array([-half, -1, 0, 1, half])
        assert np.array_equal(sound.lift(sound.lower(numbers, field), field), numbers)
        for beyond in (half + 1, -half - 1):
            with pytest.raises(UsageError):
                sound.lower(np.array([beyond]), field)


# The papers' arithmetic.


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 12), st.integers(0, 2**32), st.sampled_from([15, 255, 65535]))
def test_integer_cpda_is_exact(m, seed, seed_max):
    params = Params.recommend("cpda", nodes=100, bound=1000, seed_max=seed_max)
    values = np.random.default_rng(seed).integers(-1000, 1001, (3, m))
    done = faithful.run(values, params, from_seed(seed))
    assert done.total.tolist() == values.sum(axis=1).tolist()
    assert all(len(set(row)) == m for row in done.seeds.tolist())
    assert done.seeds.min() >= 1
    assert done.seeds.max() <= seed_max
    # What hides a reading is divisible by the receiver's seed: the whole leak.
    masks = done.shares - values[:, :, None]
    assert not (masks % done.seeds[:, None, :]).any()


def test_lagrange_at_zero_for_seeds_1_2_3():
    assembled = np.array([[7, 11, 19]], object)
    seeds = np.array([[1, 2, 3]], object)
    assert faithful.lagrange_sum(assembled, seeds).tolist() == [3 * 7 - 3 * 11 + 19]


def test_a_share_is_horner():
    values, coefficients = np.array([[5, 6]], object), np.array([[[2], [3]]], object)
    shares = faithful.share(values, coefficients, np.array([[10, 100]], object))
    assert shares.tolist() == [[[25, 205], [36, 306]]]


def test_the_efficient_variant_decodes_its_sum_and_every_reading():
    params = Params.recommend("cpda-sen-efficient", nodes=100, bound=1000)
    values = np.random.default_rng(1).integers(-1000, 1001, (50, 5))
    done = faithful.run(values, params, from_seed(1))
    assert done.total.tolist() == values.sum(axis=1).tolist()
    readings = done.shares[:, :, 0] % done.seeds[:, :1] - 1000
    assert np.array_equal(readings.astype(int), values)


def test_checks_hold_when_passed_and_the_readings_are_still_read():
    """Seeds (211, 190, 173) and readings (12, 37, 85): both checks pass, both readings leak."""
    seeds, readings = np.array([[211, 190, 173]], object), np.array([[12, 37, 85]], object)
    assert faithful.triangles(seeds).all()
    source = from_seed(5)
    for _ in range(200):
        coefficients = faithful.below(source, 1001, (1, 3, 2))
        shares = faithful.share(readings, coefficients, seeds)
        if faithful.triangles(np.swapaxes(shares, 1, 2)).all():
            break
    else:
        pytest.fail("no draw passed")
    assert [int(shares[0, owner, 0]) % 211 for owner in (1, 2)] == [37, 85]


def test_triangle_checks():
    assert faithful.triangles(np.array([3, 4, 5])).item()
    assert not faithful.triangles(np.array([3, 4, 7])).item()
    values = np.array([[5, 6, 7, 10], [2, 3, 9, 4]])
    for row, good in zip(values, faithful.triangles(values), strict=True):
        triples = [(a, b, c) for a, b, c in product(range(4), repeat=3) if len({a, b, c}) == 3]
        assert good == all(row[a] + row[b] > row[c] for a, b, c in triples)


def test_honest_seeds_often_fail_the_check():
    """Uniform seeds pass with probability 2**-(m - 2), so half of honest clusters of three fail."""
    for m, expected in ((3, 0.5), (4, 0.25), (5, 0.125)):
        seeds = faithful.draw_seeds(from_seed(m), 2**20, 4000, m)
        rate = faithful.triangles(seeds).mean()
        assert abs(rate - expected) < 5 * (expected * (1 - expected) / 4000) ** 0.5


def test_too_few_seeds_for_a_cluster():
    with pytest.raises(UsageError, match="seed_max"):
        faithful.draw_seeds(from_seed(1), 4, 2, 5)


def float_errors(seed_max, m, runs=300):
    """Return the median and largest relative error of real CPDA against the exact sum."""
    params = Params.recommend(
        "cpda", nodes=100, bound=100, arithmetic="real", seed_max=seed_max, coefficient_max=1000
    )
    values = np.random.default_rng(m).integers(1, 101, (runs, m))
    done = faithful.run(values.astype(float), params, from_seed(m))
    exact = values.sum(axis=1)
    errors = np.abs(done.total - exact) / exact
    return float(np.median(errors)), float(errors.max())


# (seed_max, m): bounds on the median relative error, as docs/sensor.md says
FLOATS = {
    (100, 3): (0, 1e-10),
    (100, 5): (1e-11, 1e-5),
    (100, 8): (1e-4, 1e3),
    (1000, 5): (1e-7, 1e-1),
    (1000, 6): (1e-4, 1e2),
}


@pytest.mark.parametrize(("seed_max", "m"), FLOATS, ids=str)
def test_real_cpda_is_numerically_wrong_for_larger_clusters(seed_max, m):
    low, high = FLOATS[seed_max, m]
    median, largest = float_errors(seed_max, m)
    assert low <= median <= high
    assert largest >= median


def test_exact_rational_sum_of_the_float_case():
    """The same shares in rationals give the sum exactly: the error is floating point alone."""
    seeds, readings = [3, 50, 77, 81], [Fraction(5), Fraction(6), Fraction(7), Fraction(8)]
    coefficients = np.array([[Fraction(i + 1, j + 2) for j in range(3)] for i in range(4)], object)
    shares = faithful.share(np.array(readings, object), coefficients, np.array(seeds, object))
    total = Fraction(0)
    for j, x in enumerate(seeds):
        weight = Fraction(1)
        for k, other in enumerate(seeds):
            weight *= Fraction(other, other - x) if k != j else 1
        total += weight * sum(shares[:, j])
    assert total == 26


# Threshold mode.


def brute_choice(received, drops):
    """Return whether some set of at least m - d senders has as many holders."""
    m = len(received)
    for mask in product([False, True], repeat=m):
        if sum(mask) >= m - drops:
            chosen = np.array(mask)
            holders = received[:, chosen].all(axis=1) & received.any(axis=1)
            if holders.sum() >= m - drops:
                return True
    return False


@settings(max_examples=200, deadline=None)
@given(st.integers(3, 6), st.integers(1, 2), st.integers(0, 2**32), st.floats(0, 0.3))
def test_senders_are_enough_and_holders_have_all(m, drops, seed, loss):
    received = np.random.default_rng(seed).random((m, m)) >= loss
    received |= np.eye(m, dtype=bool)
    received[np.random.default_rng(seed + 1).random(m) < loss / 2] = False
    chosen, holders = senders.choose(received[None], drops)
    if chosen.any():
        assert chosen.sum() >= m - drops
        assert holders.sum() >= m - drops
        assert received[holders[0]][:, chosen[0]].all()
    else:
        assert not holders.any()
        # the choice is greedy: where nothing works at all it must find nothing
        if received.all():
            pytest.fail("all shares came and no senders were chosen")
    if not brute_choice(received, drops):
        assert not chosen.any()
