"""Sums never wrap, integers are exact, floats are within their bound and unbiased."""

import dataclasses
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg import _levels
from privagg._jit import JIT
from privagg.encoding import Encoded, Encoding
from privagg.entropy import OS, from_seed
from privagg.errors import CapacityError, UsageError

INTEGERS = Encoding(kind="integer", value_bits=8)
FLOATS = Encoding(kind="float", value_bits=16, clip=1.0)


def add(encoding: Encoding, clients: int, *parts: Encoded) -> np.ndarray:
    """The ring's sum, as a server has it: modulo 2**b, in the encoding's words."""
    total = np.zeros(parts[0].words.size, object)
    for part in parts:
        total += part.words.astype(object)
    return (total % 2 ** encoding.modulus_bits(clients)).astype(encoding.word(clients))


def repeat(encoding: Encoding, clients: int, part: Encoded) -> np.ndarray:
    """The ring's sum of `clients` times the same words."""
    total = part.words.astype(object) * clients
    return (total % 2 ** encoding.modulus_bits(clients)).astype(encoding.word(clients))


# clients * max_weight * (2**value_bits - 1) + 1 is exactly 2**modulus_bits in each row.
TIGHT = [
    (7, 1, 1, 3),
    (1, 1, 32, 32),
    (17, 1, 4, 8),
    (257, 1, 8, 16),
    (65537, 1, 16, 32),
    (2**30 + 1, 1, 30, 60),
    (17, 257, 4, 16),
    (21, 3133, 8, 24),
    (257, 65537, 8, 32),
    (3, 715827883, 31, 62),
]


@pytest.mark.parametrize(("clients", "weight", "bits", "modulus"), TIGHT)
def test_everyone_at_the_maximum_where_the_modulus_is_tight(clients, weight, bits, modulus):
    assert clients * weight * (2**bits - 1) + 1 == 2**modulus
    for signed in (False, True):
        for weighted in {weight > 1, True}:
            encoding = Encoding(
                kind="integer",
                value_bits=bits,
                signed=signed,
                max_weight=weight,
                weighted=weighted,
            )
            assert encoding.modulus_bits(clients) == modulus
            high = encoding.levels - encoding.offset
            low = -encoding.offset
            part = encoding.encode(np.array([high, low]), weight=weight, clients=clients)
            found = encoding.decode(repeat(encoding, clients, part), count=clients)
            assert found.total.tolist() == [clients * weight * high, clients * weight * low]
            assert found.weight_total == clients * weight
            assert found.count == clients
    floats = Encoding(
        kind="float", value_bits=bits, clip=3.0, max_weight=weight, weighted=weight > 1
    )
    part = floats.encode(np.array([3.0, -3.0, 9.0]), weight=weight, clients=clients)
    assert part.clipped == 1
    found = floats.decode(repeat(floats, clients, part), count=clients)
    np.testing.assert_allclose(found.mean, [3.0, -3.0, 3.0], rtol=1e-15)
    np.testing.assert_allclose(found.total, clients * weight * found.mean, rtol=1e-15)


@pytest.mark.parametrize(("clients", "weight", "bits", "modulus"), TIGHT[:-1])
def test_one_client_more_takes_one_bit_more(clients, weight, bits, modulus):
    encoding = Encoding(kind="integer", value_bits=bits, max_weight=weight, weighted=weight > 1)
    assert encoding.modulus_bits(clients + 1) == modulus + 1
    assert encoding.word(clients + 1) == (np.uint32 if modulus < 32 else np.uint64)
    part = encoding.encode(np.array([encoding.levels]), weight=weight, clients=clients + 1)
    found = encoding.decode(repeat(encoding, clients + 1, part), count=clients + 1)
    assert found.total.tolist() == [(clients + 1) * weight * encoding.levels]


def test_a_modulus_one_bit_smaller_would_wrap():
    part = INTEGERS.encode(np.array([255]), clients=258)
    true = 258 * 255
    assert true % 2 ** INTEGERS.modulus_bits(258) == true
    assert true % 2 ** (INTEGERS.modulus_bits(258) - 1) != true
    assert int(part.words[0]) == 255


@given(
    clients=st.integers(1, 2**24),
    weight=st.integers(1, 2**20),
    bits=st.integers(1, 16),
)
def test_the_modulus_is_the_least_that_holds_the_sum(clients, weight, bits):
    encoding = Encoding(kind="integer", value_bits=bits, max_weight=weight, weighted=True)
    b = encoding.modulus_bits(clients)
    assert 2 ** (b - 1) <= clients * weight * (2**bits - 1) < 2**b


def test_capacity_names_the_nearest_that_fit():
    encoding = Encoding(kind="integer", value_bits=32, max_weight=2**20, weighted=True)
    with pytest.raises(CapacityError, match="needs 67 bits") as caught:
        encoding.modulus_bits(2**15)
    nearest = {
        k: int(v) for k, v in (x.split("=") for x in caught.value.hint[:-1].split() if "=" in x)
    }
    assert set(nearest) == {"value_bits", "max_weight", "clients"}
    for name, value in nearest.items():
        for step, fits in ((0, True), (1, False)):
            clients = value + step if name == "clients" else 2**15
            changes = {} if name == "clients" else {name: value + step}
            changed = dataclasses.replace(encoding, **changes)
            if fits:
                assert changed.modulus_bits(clients) == 62
            else:
                with pytest.raises(CapacityError):
                    changed.modulus_bits(clients)
    for call in (
        lambda: encoding.word(2**15),
        lambda: encoding.encode(np.array([1]), clients=2**15),
        lambda: encoding.decode(np.array([1, 1], np.uint64), count=2**15),
    ):
        with pytest.raises(CapacityError):
            call()
    unweighted = Encoding(kind="integer", value_bits=32)
    with pytest.raises(CapacityError, match=r"Nearest that fit: clients=1073741824\.$"):
        unweighted.modulus_bits(2**63)


@settings(max_examples=60)
@given(data=st.data())
def test_sums_of_integers_are_exact(data):
    bits = data.draw(st.integers(1, 32))
    signed = data.draw(st.booleans())
    weighted = data.draw(st.booleans())
    top = data.draw(st.integers(1, 1000)) if weighted else 1
    encoding = Encoding(
        kind="integer", value_bits=bits, signed=signed, weighted=weighted, max_weight=top
    )
    clients = data.draw(st.integers(1, 6))
    dim = data.draw(st.integers(1, 5))
    low, high = -encoding.offset, encoding.levels - encoding.offset
    number = st.integers(low, high) | st.sampled_from([low, high])
    vectors = [data.draw(st.lists(number, min_size=dim, max_size=dim)) for _ in range(clients)]
    weights = [data.draw(st.integers(0, top)) if weighted else 1 for _ in range(clients)]
    weights[0] = max(1, weights[0])
    survivors = data.draw(st.integers(1, clients))
    parts = [
        encoding.encode(np.array(v), weight=w, clients=clients)
        for v, w in zip(vectors, weights, strict=True)
    ][:survivors]
    assert all(p.words.size == encoding.length(dim) and p.clipped == 0 for p in parts)
    assert all(p.words.dtype == encoding.word(clients) for p in parts)
    found = encoding.decode(add(encoding, clients, *parts), count=survivors)
    pairs = list(zip(vectors, weights, strict=True))[:survivors]
    expected = [sum(w * v[i] for v, w in pairs) for i in range(dim)]
    assert found.total.dtype == np.int64
    assert found.total.tolist() == expected
    assert found.weight_total == sum(w for _, w in pairs)
    np.testing.assert_allclose(
        found.mean, [e / found.weight_total for e in expected], rtol=1e-15, atol=0
    )


@settings(max_examples=60)
@given(data=st.data())
def test_sums_of_floats_are_within_the_bound(data):
    bits = data.draw(st.integers(1, 32))
    clip = data.draw(st.sampled_from([1e-250, 1e-3, 1.0, 7.3, 1e250]) | st.floats(1e-5, 1e5))
    weighted = data.draw(st.booleans())
    top = data.draw(st.integers(1, 100)) if weighted else 1
    encoding = Encoding(kind="float", value_bits=bits, clip=clip, weighted=weighted, max_weight=top)
    clients = data.draw(st.integers(1, 5))
    shares = st.floats(-1, 1) | st.sampled_from([-1.0, 1.0])
    vectors = [
        np.array(data.draw(st.lists(shares, min_size=3, max_size=3))) for _ in range(clients)
    ]
    vectors = [np.clip(v * clip, -clip, clip) for v in vectors]
    weights = [data.draw(st.integers(1, top)) for _ in range(clients)]
    entropy = from_seed(data.draw(st.integers(0, 1000)))
    parts = [
        encoding.encode(v, weight=w, clients=clients, entropy=entropy)
        for v, w in zip(vectors, weights, strict=True)
    ]
    assert all(part.clipped == 0 for part in parts)
    found = encoding.decode(add(encoding, clients, *parts), count=clients)
    bound = Fraction(encoding.rounding_bound(clients))
    factor = bound / Fraction(clients * top * encoding.step)
    for i in range(3):
        true = sum(w * Fraction(float(v[i])) for v, w in zip(vectors, weights, strict=True))
        assert abs(Fraction(float(found.total[i])) - true) < bound
        error = Fraction(float(found.mean[i])) - true / found.weight_total
        assert abs(error) < factor * Fraction(encoding.step)


def test_the_bound_is_what_it_says():
    encoding = Encoding(kind="float", value_bits=8, clip=2.0, weighted=True, max_weight=10)
    assert encoding.step == pytest.approx(4 / 255)
    assert encoding.rounding_bound(7) == pytest.approx(7 * 10 * 4 / 255, rel=1e-12)
    assert encoding.rounding_bound(7) > 7 * 10 * encoding.step
    assert FLOATS.rounding_bound(3) == pytest.approx(3 * FLOATS.step, rel=1e-9)
    assert INTEGERS.rounding_bound(5) == 0
    assert INTEGERS.step == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_is_unbiased_within_five_standard_errors(dtype):
    count = 200_000
    entropy = from_seed(11)
    encoding = Encoding(kind="float", value_bits=10, clip=1.0)
    for fraction in (0.01, 0.25, 0.5, 0.9):
        value = dtype(-1 + (300 + fraction) * encoding.step)
        exact = (float(value) + 1) / encoding.step
        words = encoding.encode(np.full(count, value), clients=1, entropy=entropy).words
        assert set(np.unique(words).tolist()) == {300, 301}
        p = exact - 300
        error = np.mean(words.astype(float)) - exact
        assert abs(error) < 5 * np.sqrt(p * (1 - p) / count)


def test_rounding_of_neighbours_is_independent():
    encoding = Encoding(kind="float", value_bits=10, clip=1.0)
    value = -1 + 300.5 * encoding.step
    entropy = from_seed(5)
    first = encoding.encode(np.full(100_000, value), clients=1, entropy=entropy).words
    second = encoding.encode(np.full(100_000, value), clients=1, entropy=entropy).words
    signs = first.astype(float) * 2 - 601
    others = second.astype(float) * 2 - 601
    for product in (signs * others, signs[1:] * signs[:-1], signs[1 << 14 :] * signs[: -(1 << 14)]):
        assert abs(product.mean()) < 5 / np.sqrt(product.size)


def test_values_on_a_level_are_not_rounded():
    encoding = Encoding(kind="float", value_bits=2, clip=1.5)  # levels -1.5, -0.5, 0.5, 1.5
    found = encoding.encode(np.array([-1.5, -0.5, 0.5, 1.5]), clients=1)
    assert found.words.tolist() == [0, 1, 2, 3]


def test_clipped_values_are_counted():
    values = np.array([2.0, -2.0, 1.0, -1.0, 0.0, 1.0000001, -1e300])
    found = FLOATS.encode(values, clients=3)
    assert found.clipped == 4
    assert found.words[:4].tolist() == [65535, 0, 65535, 0]
    assert found.words[6] == 0


def test_weights_scale_and_travel_last():
    encoding = Encoding(kind="integer", value_bits=8, weighted=True, max_weight=10)
    heavy = encoding.encode(np.array([4, 5]), weight=10, clients=2)
    idle = encoding.encode(np.array([200, 1]), weight=0, clients=2)
    assert heavy.words.tolist() == [40, 50, 10]
    assert idle.words.tolist() == [0, 0, 0]
    found = encoding.decode(add(encoding, 2, heavy, idle), count=2)
    assert found.mean.tolist() == [4.0, 5.0]
    with pytest.raises(UsageError, match="every survivor had weight 0"):
        encoding.decode(idle.words, count=1)


@pytest.mark.parametrize(("bits", "clip"), [(3, 1.2), (8, 0.7), (16, 8.9), (32, 5.2)])
def test_the_top_level_stays_the_top_level(bits, clip):
    top = 2**bits - 1
    scale = top / (2 * clip)
    assert 2 * clip * scale > top  # float rounding lifts it
    out = np.zeros(1, np.uint64)
    run = _levels.float_levels if JIT else _levels.float_levels_plain
    # Zero as random word rounds every fraction up.
    arguments = (np.array([clip]), np.zeros(1, np.uint32), clip, scale, np.uint64(top))
    assert run(*arguments, np.uint64(1), out) == 0
    assert out.tolist() == [top]


@pytest.mark.skipif(not JIT, reason="compares compiled kernels with the plain path")
@pytest.mark.parametrize("word", [np.uint32, np.uint64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bits", [1, 8, 16, 31, 32])
def test_float_kernel_equals_the_plain_path(bits, dtype, word):
    rng = np.random.default_rng(bits)
    clip = 0.7
    values = rng.uniform(-0.8, 0.8, 3000).astype(dtype)
    values[:6] = [0.7, -0.7, 0.0, -0.0, 5e-324, 1e30]
    noise = rng.integers(0, 2**32, 3000, dtype=np.uint32)
    top = np.uint64(2**bits - 1)
    weight = np.uint64(1 if word == np.uint32 else 1000)
    fast, slow = np.empty(3000, word), np.empty(3000, word)
    arguments = (values, noise, clip, int(top) / (2 * clip), top, weight)
    assert _levels.float_levels(*arguments, fast) == _levels.float_levels_plain(*arguments, slow)
    np.testing.assert_array_equal(fast, slow)


@pytest.mark.skipif(not JIT, reason="compares compiled kernels with the plain path")
@pytest.mark.parametrize("offset", [0, 128, 2**31])
def test_integer_kernel_equals_the_plain_path(offset):
    top = np.uint64(255 if offset < 2**31 else 2**32 - 1)
    rng = np.random.default_rng(3)
    for extra in ([], [-offset - 1], [int(top) - offset + 1], [2**63 - 1], [-(2**63)]):
        inside = rng.integers(-offset, int(top) - offset, 100, endpoint=True)
        values = np.append(inside, extra).astype(np.int64)
        fast, slow = np.zeros(values.size, np.uint64), np.zeros(values.size, np.uint64)
        arguments = (values, np.uint64(offset), top, np.uint64(7))
        ran = _levels.integer_levels(*arguments, fast)
        assert ran == _levels.integer_levels_plain(*arguments, slow) == (not extra)
        if not extra:
            np.testing.assert_array_equal(fast, slow)


def test_without_jit_the_words_are_the_same():
    program = (
        "import sys, numpy as np; from privagg import _jit; assert not _jit.JIT\n"
        "from privagg.encoding import Encoding; from privagg.entropy import from_seed\n"
        "e = Encoding(kind='float', value_bits=20, clip=0.9, weighted=True, max_weight=9)\n"
        "x = np.linspace(-1, 1, 40001).astype(np.float32)\n"
        "w = e.encode(x, weight=7, clients=100, entropy=from_seed(4)).words\n"
        "sys.stdout.buffer.write(w.astype('<u8').tobytes())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PRIVAGG_JIT": "0"},
        check=True,
        capture_output=True,
    )
    encoding = Encoding(kind="float", value_bits=20, clip=0.9, weighted=True, max_weight=9)
    values = np.linspace(-1, 1, 40001).astype(np.float32)
    words = encoding.encode(values, weight=7, clients=100, entropy=from_seed(4)).words
    assert ran.stdout == words.astype("<u8").tobytes()


def test_entropy_decides_the_rounding_and_only_it():
    values = np.linspace(-0.9, 0.9, 20_000)
    same = [FLOATS.encode(values, clients=9, entropy=from_seed(1)).words for _ in range(2)]
    np.testing.assert_array_equal(*same)
    other = FLOATS.encode(values, clients=9, entropy=from_seed(2)).words
    assert np.mean(other != same[0]) > 0.2
    again = [FLOATS.encode(values, clients=9, entropy=OS).words for _ in range(2)]
    assert np.mean(again[0] != again[1]) > 0.2
