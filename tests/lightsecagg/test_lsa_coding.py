"""The mask code: any U shares decode, and T shares say nothing, by exhaustion over tiny fields."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from lsa_parties import honest

from privagg import field
from privagg.errors import UsageError
from privagg.field import M31, M61, prime_field
from privagg.protocols.lightsecagg import MaskCode
from privagg.protocols.lightsecagg.client_work import add_shares, draw_mask

CODES = [(3, 2, 1, 5), (4, 3, 1, 7), (4, 3, 2, 7), (5, 3, 2, 11), (6, 5, 3, 11), (5, 4, 1, 13)]
"""N, U, T and p; the first two fill their fields: N + U = p."""


def determinant(rows, p):
    """Return the determinant mod p, by the definition."""
    total = 0
    for order in itertools.permutations(range(len(rows))):
        sign = (-1) ** sum(a > b for a, b in itertools.combinations(order, 2))
        for row, column in enumerate(order):
            sign = sign * int(rows[row][column]) % p
        total += sign
    return total % p


def elements(values, of):
    return field.elements(values, of)


@pytest.mark.parametrize(("n", "u", "t", "p"), CODES)
def test_generator_is_mds_and_t_private(n, u, t, p):
    """Any U rows are invertible, and so is what the noise is multiplied by at any T clients."""
    matrix = MaskCode(n, u, t, prime_field(p)).generator()
    assert matrix.shape == (n, u)
    for rows in itertools.combinations(range(n), u):
        assert determinant(matrix[list(rows)], p) != 0
    for rows in itertools.combinations(range(n), t):
        assert determinant(matrix[list(rows)][:, u - t :], p) != 0


@pytest.mark.parametrize(("n", "u", "t", "p"), CODES)
def test_any_threshold_of_shares_decode(n, u, t, p):
    rng = np.random.default_rng(n + p)
    code, length = MaskCode(n, u, t, prime_field(p)), 5
    mask = elements(rng.integers(0, p, length), code.field)
    noise = elements(rng.integers(0, p, (t, code.piece(length))), code.field)
    shares = code.split(mask, noise)
    assert shares.shape == (n, code.piece(length))
    for holders in itertools.combinations(range(n), u):
        at = np.array(holders)
        assert np.array_equal(code.join(shares[at], at, length), mask)


@pytest.mark.parametrize("of", [M31, M61], ids=lambda of: of.name)
def test_sums_of_shares_decode_to_sums_of_masks(of):
    rng = np.random.default_rng(3)
    code, length = MaskCode(20, 13, 4, of), 100
    masks, total = [], np.zeros((20, code.piece(length)), of.dtype)
    for _ in range(3):
        mask = elements([int(x) for x in rng.integers(0, 2**31 - 1, length)], of)
        noise = elements(rng.integers(0, 2**31 - 1, (4, code.piece(length))), of)
        masks.append(mask)
        total = field.add(total, code.split(mask, noise), of)
    holders = rng.permutation(20)[:13]
    expected = field.add(field.add(masks[0], masks[1], of), masks[2], of)
    assert np.array_equal(code.join(total[holders], holders, length), expected)


@pytest.mark.parametrize(("n", "u", "t", "p"), [code for code in CODES if code[3] < 11])
def test_shares_of_t_clients_are_uniform_whatever_the_mask(n, u, t, p):
    """Exhaustive: all masks of U - T elements, all noise, all T clients."""
    code = MaskCode(n, u, t, prime_field(p))
    for mask in itertools.product(range(p), repeat=u - t):
        views = [Counter() for _ in itertools.combinations(range(n), t)]
        for noise in itertools.product(range(p), repeat=t):
            column = elements(np.array(noise)[:, np.newaxis], code.field)
            shares = code.split(elements(mask, code.field), column)[:, 0]
            for view, who in zip(views, itertools.combinations(range(n), t), strict=True):
                view[tuple(shares[list(who)])] += 1
        for view in views:
            assert len(view) == p**t
            assert set(view.values()) == {1}


def test_shares_of_one_client_more_are_not():
    """The same count does tell masks apart where one client too many colludes."""
    code = MaskCode(3, 2, 1, prime_field(5))
    views = []
    for mask in range(5):
        seen = set()
        for noise in range(5):
            shares = code.split(elements([mask], code.field), elements([[noise]], code.field))
            seen.add(tuple(shares[:2, 0]))
        views.append(seen)
    assert not set.intersection(*views)


class Scripted:
    """An entropy that hands out given field elements, for a field of small words."""

    insecure = True

    def __init__(self, values):
        self._values = list(values)

    def take(self, count):
        words = [self._values.pop(0) for _ in range(count // 4)]
        return np.array(words, "<u4").tobytes()

    def spawn(self, label):
        raise AssertionError(label)


def views(params, first, second, leaver):
    """Count what the server and client 2 see of clients 0 and 1, over all their randomness.

    They see the masked inputs, the coded shares that client 2 was dealt, and every client's coded
    sum over the survivors. `leaver`: client 2 sends no input.
    """
    p, seen = params.field.modulus, Counter()
    for zero in itertools.product(range(p), repeat=2):
        mask_0, shares_0 = draw_mask(params, Scripted(zero))
        for one in itertools.product(range(p), repeat=2):
            mask_1, shares_1 = draw_mask(params, Scripted(one))
            own = np.full_like(shares_0, 0 if leaver else 3)  # of its own mask, which they know
            sums = [
                int(add_shares(params, np.stack([shares_0[j], shares_1[j], own[j]]))[0])
                for j in range(3)
            ]
            masked = (first + int(mask_0[0])) % p, (second + int(mask_1[0])) % p
            seen[masked, int(shares_0[2, 0]), int(shares_1[2, 0]), *sums] += 1
    return seen


@pytest.mark.parametrize("leaver", [False, True])
@pytest.mark.parametrize("p", [5, 7])
def test_view_of_server_and_colluder_depends_on_the_sum_alone(p, leaver):
    """By the parties' own functions, exhaustively: N = 3, T = 1, U = 2."""
    params = honest(
        3, 1, value_bits=1, corrupt=1 / 3, min_cohort=3, threshold=2, field=prime_field(p)
    )
    assert (params.privacy, params.piece) == (1, 1)
    zero_one, one_zero = views(params, 0, 1, leaver), views(params, 1, 0, leaver)
    assert zero_one == one_zero
    assert sum(zero_one.values()) == p**4
    assert zero_one != views(params, 1, 1, leaver)  # the sum itself does show


def test_a_mask_padded_with_zeros_is_whole_again():
    code = MaskCode(6, 5, 1, M31)  # pieces of ceil(5 / 4)
    mask = elements([1, 2, 3, 4, 5], M31)
    shares = code.split(mask, elements([[9, 9]], M31))
    assert shares.shape == (6, 2)
    assert code.join(shares[1:], np.arange(1, 6), 5).tolist() == [1, 2, 3, 4, 5]


def test_a_field_too_small_for_the_code_is_refused():
    with pytest.raises(UsageError, match=r"clients \+ threshold = 7"):
        honest(4, 1, value_bits=1, threshold=3, field=prime_field(5))
