"""Correction of wrong shares: against the definition, up to the bound, beyond it, refusals."""

import functools
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg import correction, field, sharing
from privagg._jit import JIT
from privagg.correction import correct, secrets_of
from privagg.entropy import from_seed
from privagg.field import reed_solomon

P = 2**61 - 1
SECRET = b"sixteen bytes :)"
quick = settings(deadline=None, max_examples=100)
element = st.one_of(st.sampled_from([0, 1, 2, 2**60, P - 2, P - 1]), st.integers(0, P - 1))
point = st.one_of(st.integers(1, 40), st.sampled_from([2**31 - 1, 2**31, 2**32 - 1]))

DECODERS = [pytest.param(reed_solomon.decode_plain, id="plain")]
if JIT:
    DECODERS.append(pytest.param(reed_solomon.decode, id="kernels"))


@pytest.fixture(params=DECODERS)
def decoder(request, monkeypatch):
    """Run the test with kernels and without."""
    monkeypatch.setattr(correction.reed_solomon, "decode", request.param)
    return request.param


def array(values):
    return np.array(values, dtype=np.uint64)


def at(polynomial, x):
    value = 0
    for coefficient in reversed(polynomial):
        value = (value * x + coefficient) % P
    return value


@functools.cache
def inverse(a):
    return pow(a, -1, P)


def interpolated(points, values, x):
    """Lagrange's formula in Python integers."""
    total = 0
    for here, value in zip(points, values, strict=True):
        for other in points:
            if other != here:
                value = value * (x - other) * inverse(here - other) % P
        total += value
    return total % P


def by_definition(rows, points, threshold):
    """Try every set of t shares: what polynomials agree with m - e whole shares?"""
    m = len(points)
    found = set()
    for chosen in itertools.combinations(range(m), threshold):
        places = [points[i] for i in chosen]
        columns = [[rows[i][limb] for i in chosen] for limb in range(len(rows[0]))]
        wrong = tuple(
            any(
                interpolated(places, column, points[i]) != rows[i][limb]
                for limb, column in enumerate(columns)
            )
            for i in range(m)
        )
        if sum(wrong) <= (m - threshold) // 2:
            found.add((tuple(interpolated(places, column, 0) for column in columns), wrong))
    assert len(found) <= 1
    return found.pop() if found else None


def berlekamp_welch(values, points, threshold):
    """Solve ``Q(x_i) = y_i * E(x_i)``, deg Q < t + e, E monic of degree e; return Q / E at zero.

    Another algorithm, for sizes at which the definition takes too long. Returns the errors' places
    too; the caller knows that there are at most e errors.
    """
    m = len(points)
    e = (m - threshold) // 2
    width = threshold + 2 * e
    system = []
    for x, y in zip(points, values, strict=True):
        powers = [pow(x, k, P) for k in range(threshold + e)]
        system.append(powers + [-y * power % P for power in powers[:e]] + [y * pow(x, e, P) % P])
    pivots = []
    for column in range(width):
        lead = next((r for r in range(len(pivots), m) if system[r][column]), None)
        if lead is None:
            continue
        here = len(pivots)
        system[here], system[lead] = system[lead], system[here]
        factor = inverse(system[here][column])
        system[here] = [value * factor % P for value in system[here]]
        for row in range(m):
            if row != here and system[row][column]:
                factor = system[row][column]
                pairs = zip(system[row], system[here], strict=True)
                system[row] = [(a - factor * b) % P for a, b in pairs]
        pivots.append(column)
    solution = [0] * width
    for row, column in enumerate(pivots):
        solution[column] = system[row][width]
    q, locator = solution[: threshold + e], [*solution[threshold + e :], 1]
    right = [i for i in range(m) if at(locator, points[i])][:threshold]
    places = [points[i] for i in right]
    kept = [at(q, points[i]) * inverse(at(locator, points[i])) % P for i in right]
    wrong = [interpolated(places, kept, points[i]) != values[i] for i in range(m)]
    return interpolated(places, kept, 0), wrong


@quick
@given(st.data())
def test_result_is_what_the_definition_says(data):
    """Shares put together from two sharings and noise lie at every distance from both."""
    points = data.draw(st.lists(point, min_size=2, max_size=7, unique=True))
    threshold = data.draw(st.integers(2, len(points)))
    limbs = data.draw(st.integers(1, 3))
    polynomial = st.lists(element, min_size=threshold, max_size=threshold)
    first, second = (data.draw(st.lists(polynomial, min_size=limbs, max_size=limbs)) for _ in "ab")
    rows = []
    for x in points:
        a, b = ([at(p, x) for p in polynomials] for polynomials in (first, second))
        kind = data.draw(st.sampled_from("aaaabbmn"))
        mixed = [data.draw(st.sampled_from(pair)) for pair in zip(a, b, strict=True)]
        noise = [data.draw(element) for _ in range(limbs)]
        rows.append({"a": a, "b": b, "m": mixed, "n": noise}[kind])
    expected = by_definition(rows, points, threshold)
    words = array(rows)
    weights = field.lagrange_weights_at_zero(array(points))
    for decode in (reed_solomon.decode_plain, reed_solomon.decode):
        decoded = decode(array(points), weights, words, threshold)
        if decoded is not None:
            assert decoded[1].sum(axis=0).max() <= (len(points) - threshold) // 2
    found = correct(words, points, threshold)
    if expected is None:
        assert found is None
    else:
        assert tuple(found.values.tolist()) == expected[0]
        assert tuple(found.wrong.tolist()) == expected[1]
        assert (found.values.dtype, found.wrong.dtype) == (np.uint64, np.bool_)


@pytest.mark.skipif(not JIT, reason="compares compiled kernels with the plain path")
@quick
@given(st.data())
def test_kernels_equal_the_plain_path(data):
    m = data.draw(st.integers(2, 24))
    threshold = data.draw(st.integers(1, m))
    columns = data.draw(st.integers(0, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    points = rng.choice(P - 1, m, replace=False).astype(np.uint64) + np.uint64(1)
    words = field.evaluate(rng.integers(0, P, (threshold, columns), dtype=np.uint64), points)
    for column in range(columns):  # one error more than can be corrected, at times
        places = rng.choice(m, data.draw(st.integers(0, (m - threshold) // 2 + 1)), replace=False)
        words[places, column] = rng.integers(0, P, places.size, dtype=np.uint64)
    weights = field.lagrange_weights_at_zero(points)
    fast = reed_solomon.decode(points, weights, words, threshold)
    slow = reed_solomon.decode_plain(points, weights, words, threshold)
    assert (fast is None) == (slow is None)
    if fast is not None:
        for left, right in zip(fast, slow, strict=True):
            np.testing.assert_array_equal(left, right)
            assert left.dtype == right.dtype


def spoil(shares, places, limbs, rng):
    """Change the given limbs of the given shares, for sure, to random or neighbouring values."""
    spoiled = shares.copy()
    for place, chosen in zip(places, limbs, strict=True):
        for limb in chosen:
            shift = rng.choice(array([1, P - 1, rng.integers(1, P)]))
            spoiled[place, limb] = (int(shares[place, limb]) + int(shift)) % P
    return spoiled


@quick
@given(st.data())
def test_up_to_the_bound_all_is_corrected_and_located(data):
    threshold = data.draw(st.integers(2, 20))
    m = data.draw(st.integers(threshold, threshold + 14))
    wrong = data.draw(st.integers(0, (m - threshold) // 2))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    points = rng.choice(2**32 - 1, m, replace=False) + 1
    shares = sharing.split(
        np.frombuffer(SECRET, np.uint8)[None], threshold, points, from_seed(threshold)
    )[:, 0]
    places = rng.choice(m, wrong, replace=False)
    # At each wrong holder one, two or all three limbs.
    some = st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True)
    bad = spoil(shares, places, [data.draw(some) for _ in places], rng)
    before = bad.copy()
    secret, flags = secrets_of(bad, points, threshold)
    assert secret == SECRET
    assert type(secret) is bytes
    assert np.flatnonzero(flags).tolist() == sorted(places)
    found = correct(bad, points, threshold)
    np.testing.assert_array_equal(found.wrong, flags)
    number = int.from_bytes(SECRET, "little")
    assert found.values.tolist() == [number % 2**43, (number >> 43) % 2**43, number >> 86]
    np.testing.assert_array_equal(bad, before)


@pytest.mark.parametrize(("m", "threshold"), [(200, 134), (129, 2)])
def test_many_holders_as_many_wrong_as_can_be(decoder, m, threshold):
    rng = np.random.default_rng(m)
    points = np.arange(2**32 - m, 2**32)
    secrets = np.frombuffer(SECRET, np.uint8)[None]
    shares = sharing.split(secrets, threshold, points, from_seed(m))[:, 0]
    e = (m - threshold) // 2
    places = rng.choice(m, e + 1, replace=False)
    bad = shares.copy()
    bad[places[:e]] = rng.integers(P - 9, P, (e, 3), dtype=np.uint64)
    secret, wrong = secrets_of(bad, points, threshold)
    assert secret == SECRET
    assert np.flatnonzero(wrong).tolist() == sorted(places[:e])
    bad[places[e]] = 0
    assert secrets_of(bad, points, threshold) is None


@pytest.mark.parametrize(("m", "threshold"), [(40, 21), (33, 2), (50, 48), (30, 29)])
def test_against_berlekamp_and_welch(decoder, m, threshold):
    rng = np.random.default_rng(m)
    points = rng.choice(1000, m, replace=False).astype(np.uint64) + np.uint64(1)
    shares = field.evaluate(rng.integers(0, P, (threshold, 1), dtype=np.uint64), points)
    e = (m - threshold) // 2
    for wrong in {0, 1, e // 2, e} & set(range(e + 1)):
        bad = spoil(shares, rng.choice(m, wrong, replace=False), [[0]] * wrong, rng)
        found = correct(bad, points, threshold)
        value, flags = berlekamp_welch(bad[:, 0].tolist(), points.tolist(), threshold)
        assert found.values.tolist() == [value]
        assert found.wrong.tolist() == flags
        assert sum(flags) == wrong


@quick
@given(st.data())
def test_beyond_the_bound_a_result_still_agrees_with_all_but_a_few(data):
    threshold = data.draw(st.integers(2, 6))
    m = data.draw(st.integers(threshold, threshold + 8))
    e = (m - threshold) // 2
    wrong = data.draw(st.integers(e + 1, m))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    points = list(range(1, m + 1))
    shares = field.evaluate(rng.integers(0, P, (threshold, 2), dtype=np.uint64), array(points))
    places = rng.choice(m, wrong, replace=False)
    some = st.sampled_from([[0], [1], [0, 1]])
    bad = spoil(shares, places, [data.draw(some) for _ in places], rng)
    found = correct(bad, points, threshold)
    if wrong <= m - threshold - e:
        assert found is None
    if found is not None:
        kept = np.flatnonzero(~found.wrong)
        assert kept.size >= m - e
        chosen = [points[i] for i in kept[:threshold]]
        for limb in range(2):
            column = bad[kept[:threshold], limb].tolist()
            assert interpolated(chosen, column, 0) == int(found.values[limb])
            on = [
                interpolated(chosen, column, x) == y
                for x, y in zip(points, bad[:, limb].tolist(), strict=True)
            ]
            assert all(on[i] for i in kept)


@pytest.mark.parametrize(("m", "threshold"), [(9, 4), (10, 4), (7, 2), (12, 9)])
def test_too_many_who_act_together_choose_the_secret_and_whom_to_blame(decoder, m, threshold):
    """The documented limit, tight: m - t - e + 1 holders, who know no share but their own."""
    points = list(range(1, m + 1))
    e = (m - threshold) // 2
    rng = np.random.default_rng(m)
    shares = field.evaluate(rng.integers(0, P, (threshold, 1), dtype=np.uint64), array(points))
    secret = correct(shares, points, threshold).values[0]
    # They add a polynomial that vanishes at t - 1 honest holders.
    untouched, blamed = points[: threshold - 1], points[threshold - 1 : threshold - 1 + e]
    cheats = points[threshold - 1 + e :]
    assert len(cheats) == m - threshold - e + 1

    def shift(x):
        value = 1
        for root in untouched:
            value = value * (x - root) % P
        return value

    bad = shares.copy()
    for x in cheats:
        bad[x - 1, 0] = (int(shares[x - 1, 0]) + shift(x)) % P
    found = correct(bad, points, threshold)
    assert int(found.values[0]) == (int(secret) + shift(0)) % P
    assert (np.flatnonzero(found.wrong) + 1).tolist() == blamed
    # One of them less and it is noticed.
    bad[cheats[0] - 1] = shares[cheats[0] - 1]
    fewer = correct(bad, points, threshold)
    assert fewer is None or fewer.values[0] == secret
    assert (fewer is None) == (len(cheats) - 1 > e)


def test_errors_within_the_bound_in_each_limb_but_at_too_many_holders(decoder):
    rng = np.random.default_rng(5)
    points = list(range(1, 11))
    shares = field.evaluate(rng.integers(0, P, (4, 3), dtype=np.uint64), array(points))
    # e is 3, and each limb is wrong at three holders or fewer.
    three = spoil(shares, [0, 4, 9], [[0], [1], [2]], rng)
    assert np.flatnonzero(correct(three, points, 4).wrong).tolist() == [0, 4, 9]
    four = spoil(shares, [0, 4, 8, 9], [[0], [1], [2], [2]], rng)
    assert correct(four, points, 4) is None
    for limb in range(3):
        assert correct(four[:, [limb]], points, 4) is not None


@pytest.mark.parametrize("extra", [0, 1])
def test_with_no_share_to_spare(decoder, extra):
    rng = np.random.default_rng(6)
    points = list(range(3, 8 + extra))
    noise = rng.integers(0, P, (5 + extra, 3), dtype=np.uint64)
    found = correct(noise, points, 5)
    if extra:
        assert found is None
        return
    assert not found.wrong.any()
    expected = [interpolated(points, column, 0) for column in noise.T.tolist()]
    assert found.values.tolist() == expected


def test_all_shares_wrong(decoder):
    rng = np.random.default_rng(7)
    points = list(range(1, 13))
    assert correct(rng.integers(0, P, (12, 3), dtype=np.uint64), points, 4) is None
    # A common error everywhere is another sharing: nothing to notice.
    shares = field.evaluate(rng.integers(0, P, (4, 1), dtype=np.uint64), array(points))
    shifted = field.add(shares, np.full_like(shares, 9))
    before, after = correct(shares, points, 4), correct(shifted, points, 4)
    assert int(after.values[0]) == (int(before.values[0]) + 9) % P
    assert not after.wrong.any()


@pytest.mark.parametrize("degree", [-1, 0, 1, 2])
def test_polynomials_of_lower_degree(decoder, degree):
    """Zero, constants and lines, with and without errors: remainders that vanish early."""
    polynomial = array([[0], [0], [0]])
    polynomial[: degree + 1] = 7
    points = [2, 3, 5, 7, 11, 13, 17]
    shares = field.evaluate(polynomial, array(points))
    for places in ([], [3], [0, 6]):
        bad = spoil(shares, places, [[0]] * len(places), np.random.default_rng(8))
        found = correct(bad, points, 3)
        assert found.values.tolist() == [int(polynomial[0, 0])]
        assert np.flatnonzero(found.wrong).tolist() == places


@pytest.mark.parametrize(
    ("limb", "value", "good"),
    [(0, 2**43, False), (2, 2**42, False), (2, P - 1, False), (0, 2**43 - 1, True)],
)
def test_a_limb_out_of_range_is_no_secret(decoder, limb, value, good):
    polynomials = np.random.default_rng(9).integers(0, P, (3, 3), dtype=np.uint64)
    polynomials[0] = 5
    polynomials[0, limb] = value
    points = list(range(1, 8))
    bad = field.evaluate(polynomials, array(points))
    bad[2] = 0
    assert correct(bad, points, 3).values.tolist() == polynomials[0].tolist()
    found = secrets_of(bad, points, 3)
    assert (found is not None) == good
    assert secrets_of(bad, points, 6) is None  # e is 0


def test_agrees_with_combine_on_the_right_shares(decoder):
    points = array([4, 9, 2**32 - 1, 1, 30, 8, 77])
    secrets = np.random.default_rng(10).integers(0, 256, (5, 16), dtype=np.uint8)
    shares = sharing.split(secrets, 3, points, from_seed(1))
    shares[1, :, 0] += np.uint64(1)
    shares %= np.uint64(P)
    combined, valid = sharing.combine(np.delete(shares, 1, 0), np.delete(points, 1))
    assert valid.all()
    for k in range(5):
        secret, wrong = secrets_of(shares[:, k], points, 3)  # rows of a wider array
        assert secret == combined[k].tobytes() == secrets[k].tobytes()
        assert np.flatnonzero(wrong).tolist() == [1]


def test_read_only_and_foreign_layouts(decoder):
    points = np.arange(1, 9, dtype=np.int32)
    points.setflags(write=False)
    words = field.evaluate(array([[1, 2], [3, 4], [5, 6]]), points.astype(np.uint64))
    words[7] = 3
    for layout in (np.asfortranarray(words), np.repeat(words, 2, axis=1)[:, ::2]):
        layout.setflags(write=False)
        found = correct(layout, points, 3)
        assert found.values.tolist() == [1, 2]
        assert np.flatnonzero(found.wrong).tolist() == [7]
    empty = correct(words[:, :0], points, 3)
    assert empty.values.shape == (0,)
    assert not empty.wrong.any()


PROBE = """
import sys
import numpy as np
from privagg import sharing
from privagg._jit import JIT
from privagg.correction import secrets_of
from privagg.entropy import from_seed
secret = np.arange(16, dtype=np.uint8).reshape(1, 16)
shares = sharing.split(secret, 5, range(1, 13), from_seed(3))[:, 0]
shares[[0, 7, 11], [0, 1, 2]] = 4
found, wrong = secrets_of(shares, range(1, 13), 5)
print(JIT, "numba" in sys.modules, found.hex(), np.flatnonzero(wrong).tolist())
"""


def test_the_switch_changes_the_code_and_not_the_results():
    for switch, state in (("0", "False False"), ("1", "True True")):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROBE],
            env={**os.environ, "PRIVAGG_JIT": switch},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split("\n")[0] == f"{state} {bytes(range(16)).hex()} [0, 7, 11]"
