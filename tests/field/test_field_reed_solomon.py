"""Reed-Solomon decoding in other fields than that of the shares: by exhaustion, and at size."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from privagg import field
from privagg.field import M31, M61, reed_solomon


def codeword(coefficients, points, of):
    return field.evaluate(field.elements(coefficients, of)[:, np.newaxis], points, of)


def decode(points, word, threshold, of):
    weights = field.lagrange_weights_at_zero(points, of)
    return reed_solomon.decode(points, weights, word, threshold, of)


@pytest.mark.parametrize("modulus", [5, 7])
def test_every_word_of_a_small_code(modulus):
    """Whatever word: the codeword that near, as exhaustion finds it, or None."""
    of, m, t = field.prime_field(modulus), 4, 2
    points = field.elements(list(range(1, 5)), of)
    book = [codeword(c, points, of)[:, 0] for c in itertools.product(range(modulus), repeat=t)]
    for values in itertools.product(range(modulus), repeat=m):
        word = field.elements(values, of)
        near = [c for c in book if int((c != word).sum()) <= (m - t) // 2]
        found = decode(points, word[:, np.newaxis], t, of)
        assert (found is None) == (not near)
        if found is not None:
            assert np.array_equal(found[1][:, 0], near[0] != word)


@pytest.mark.parametrize("of", [M31, M61, field.GOLDILOCKS], ids=lambda of: of.name)
@pytest.mark.parametrize("errors", [0, 1, 5])
def test_wrong_places_are_found(of, errors):
    rng = np.random.default_rng(errors)
    m, t = 30, 19  # corrects 5
    points = field.elements(np.arange(1, m + 1), of)
    coefficients = field.elements([int(c) for c in rng.integers(0, 2**31 - 1, t)], of)
    word = codeword(coefficients, points, of)
    wrong = np.zeros(m, np.bool_)
    wrong[rng.choice(m, errors, replace=False)] = True
    ones = field.elements(np.ones((errors, 1), np.int64), of)
    word[wrong] = field.add(word[wrong], ones, of)
    found = decode(points, word, t, of)
    assert found is not None
    assert found[0][0] == coefficients[0]
    assert np.array_equal(found[1][:, 0], wrong)


def test_one_error_too_many_is_noticed():
    points = field.elements(np.arange(1, 9), M31)
    word = codeword([5, 6, 7], points, M31)
    word[:4] = field.add(word[:4], field.elements([[1], [2], [4], [9]], M31), M31)
    assert decode(points, word, 3, M31) is None
