"""Shamir and additive sharing: recovery, independence, wrong shares, refusals."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg import field, sharing
from privagg.entropy import OS, from_seed
from privagg.errors import UsageError

P = 2**61 - 1
quick = settings(deadline=None, max_examples=60)
secret_bytes = st.one_of(
    st.sampled_from([bytes(16), b"\xff" * 16, b"\x00" * 15 + b"\x80", b"\x01" + bytes(15)]),
    st.binary(min_size=16, max_size=16),
)
point_lists = st.lists(
    st.one_of(st.integers(1, 12), st.sampled_from([2**31 - 1, 2**31, 2**32 - 1])),
    min_size=2,
    max_size=9,
    unique=True,
)


def as_array(*secrets):
    return np.frombuffer(b"".join(secrets), dtype=np.uint8).reshape(len(secrets), 16)


def limbs_of(secret):
    """Cut one secret with Python integers: 43, 43, 42 bits of the little-endian number."""
    number = int.from_bytes(secret, "little")
    return [number % 2**43, (number >> 43) % 2**43, number >> 86]


def interpolate_at(points, values, where):
    """Lagrange's formula at any place, in Python integers."""
    total = 0
    for x, y in zip(points, values, strict=True):
        for other in points:
            if other != x:
                y = y * (where - other) * pow(x - other, -1, P) % P
        total += y
    return total % P


@quick
@given(st.data())
def test_any_threshold_or_more_shares_recover(data):
    points = data.draw(point_lists)
    threshold = data.draw(st.integers(2, len(points)))
    secrets = as_array(*data.draw(st.lists(secret_bytes, max_size=4)))
    shares = sharing.split(secrets, threshold, points, OS)
    assert shares.shape == (len(points), len(secrets), 3)
    assert shares.dtype == np.uint64
    assert (shares < P).all()
    order = data.draw(st.permutations(range(len(points))))
    chosen = order[: data.draw(st.integers(threshold, len(points)))]
    recovered, valid = sharing.combine(shares[chosen], [points[i] for i in chosen])
    assert recovered.dtype == np.uint8
    assert valid.dtype == np.bool_
    assert valid.all()
    assert (recovered == secrets).all()


def test_every_subset_of_a_small_group():
    secrets = as_array(b"first secret 16B", b"\xff" * 16)
    points = [1, 2, 3, 4, 5, 6]
    shares = sharing.split(secrets, 3, points, OS)
    for size in range(3, 7):
        for chosen in itertools.combinations(range(6), size):
            recovered, valid = sharing.combine(shares[list(chosen)], [points[i] for i in chosen])
            assert valid.all()
            assert (recovered == secrets).all()


@quick
@given(secret_bytes, point_lists)
def test_shares_lie_on_polynomials_through_the_limbs(secret, points):
    t = len(points)
    shares = sharing.split(as_array(secret), t, points, OS)
    for limb, truth in enumerate(limbs_of(secret)):
        assert interpolate_at(points, shares[:, 0, limb].tolist(), 0) == truth


@quick
@given(st.data())
def test_fewer_shares_fit_every_secret(data):
    """For t - 1 shares and any other secret there is exactly one polynomial through both.

    So each secret explains the shares by equally many choices of the uniform coefficients, one:
    the shares are independent of the secret.
    """
    points = data.draw(point_lists)
    t = len(points)
    secret, other = data.draw(secret_bytes), data.draw(secret_bytes)
    shares = sharing.split(as_array(secret), t, points, OS)
    known, missing = points[:-1], points[-1]
    forged = shares.copy()
    for limb, value in enumerate(limbs_of(other)):
        through = shares[:-1, 0, limb].tolist()
        forged[-1, 0, limb] = interpolate_at([0, *known], [value, *through], missing)
    recovered, valid = sharing.combine(forged, points)
    assert valid.all()
    assert recovered[0].tobytes() == other


def test_fewer_shares_do_not_depend_on_the_secret():
    """With the same coefficients, a share moves by a constant: the difference of the secrets."""
    points = [1, 2, 3, 2**31]
    zeros = sharing.split(as_array(bytes(16)), 3, points, from_seed(4))
    ones = sharing.split(as_array(b"\xff" * 16), 3, points, from_seed(4))
    moved = field.sub(ones, zeros)
    assert (moved == np.array(limbs_of(b"\xff" * 16), np.uint64)).all()
    # And the coefficients are uniform: the shares of a zero secret fill the whole field evenly.
    many = sharing.split(np.zeros((4000, 16), np.uint8), 2, points, from_seed(5))
    for party in many:
        counts = np.bincount((party.ravel() >> np.uint64(58)).astype(int), minlength=8)
        # 12,000 draws into 8 bins: 1,500 expected, standard deviation 36.2.
        assert (np.abs(counts - 1500) < 6 * 36.2).all()


def test_every_secret_has_its_own_coefficients():
    same = sharing.split(np.zeros((5, 16), np.uint8), 2, [1, 2], OS)
    assert len(set(same[0].ravel().tolist())) == 15
    again = sharing.split(np.zeros((5, 16), np.uint8), 2, [1, 2], OS)
    assert (same != again).all()


def test_a_seed_repeats_the_shares():
    secrets = as_array(b"0123456789abcdef")
    first = sharing.split(secrets, 2, [1, 2, 3], from_seed(9))
    assert (first == sharing.split(secrets, 2, [1, 2, 3], from_seed(9))).all()
    assert (first != sharing.split(secrets, 2, [1, 2, 3], from_seed(10))).all()


def test_too_few_shares_are_flagged():
    rng = np.random.default_rng(2)
    secrets = rng.integers(0, 256, (200, 16), dtype=np.uint8)
    shares = sharing.split(secrets, 4, range(1, 8), OS)
    recovered, valid = sharing.combine(shares[:3], [1, 2, 3])
    assert not valid.any()
    assert not recovered.any()


def test_a_wrong_share_is_flagged_where_it_is_and_only_there():
    rng = np.random.default_rng(3)
    secrets = rng.integers(0, 256, (50, 16), dtype=np.uint8)
    shares = sharing.split(secrets, 4, range(1, 8), OS)
    shares[2, 17] = field.uniform(OS, 3)
    shares[5, 30, 1] = (int(shares[5, 30, 1]) + 2**59) % P
    recovered, valid = sharing.combine(shares, range(1, 8))
    wrong = {17, 30}
    for k in range(50):
        if k not in wrong:
            assert valid[k]
            assert (recovered[k] == secrets[k]).all()
    assert not valid[17]
    assert not valid[30] or (recovered[30] != secrets[30]).any()
    assert not recovered[~valid].any()


def test_shares_given_under_the_wrong_points_are_flagged():
    secrets = as_array(b"0123456789abcdef")
    shares = sharing.split(secrets, 3, [1, 2, 3], OS)
    recovered, valid = sharing.combine(shares, [2, 1, 3])
    assert not valid[0]
    assert not recovered.any()


def test_a_chosen_error_turns_one_secret_into_another_unnoticed():
    """What the documentation warns of: the range check is no authentication."""
    shares = sharing.split(as_array(bytes(16)), 2, [1, 2], OS)
    # The weight of point 1 is 2 / (2 - 1) = 2: an error of 1 there moves the limb by 2.
    shares[0, 0, 0] = (int(shares[0, 0, 0]) + 1) % P
    recovered, valid = sharing.combine(shares, [1, 2])
    assert valid.all()
    assert recovered[0].tolist() == [2] + [0] * 15


@pytest.mark.parametrize(("limb", "bits"), [(0, 43), (1, 43), (2, 42)])
def test_validity_at_the_edge_of_each_limb(limb, bits):
    # On a constant polynomial every share is the limb itself.
    for value, good in ((2**bits - 1, True), (2**bits, False), (P - 1, False)):
        shares = np.zeros((3, 1, 3), dtype=np.uint64)
        shares[:, 0, limb] = value
        recovered, valid = sharing.combine(shares, [4, 5, 6])
        assert valid.tolist() == [good]
        expected = value << (0, 43, 86)[limb] if good else 0
        assert int.from_bytes(recovered[0].tobytes(), "little") == expected


def test_a_combiner_serves_many_batches():
    rng = np.random.default_rng(5)
    combiner = sharing.Combiner([9, 4, 2**32 - 1])
    assert combiner.points.tolist() == [9, 4, 2**32 - 1]
    for m in (0, 1, 40):
        secrets = rng.integers(0, 256, (m, 16), dtype=np.uint8)
        shares = sharing.split(secrets, 3, combiner.points, OS)
        recovered, valid = combiner.combine(shares)
        assert recovered.shape == (m, 16)
        assert valid.all()
        assert (recovered == secrets).all()
    assert repr(combiner) == "Combiner(3 points)"


def test_a_thousand_parties():
    secrets = as_array(b"0123456789abcdef", b"\xff" * 16)
    shares = sharing.split(secrets, 667, np.arange(1, 1001), OS)
    recovered, valid = sharing.combine(shares[333:], np.arange(334, 1001))
    assert valid.all()
    assert (recovered == secrets).all()


def test_layouts_and_read_only_input():
    rng = np.random.default_rng(6)
    wide = rng.integers(0, 256, (6, 32), dtype=np.uint8)
    for secrets in (wide[::2, ::2], wide[::-1, 16:], np.asfortranarray(wide[:, :16])):
        shares = sharing.split(secrets, 2, [1, 2, 3], OS)
        turned = np.asfortranarray(shares[1:])
        turned.setflags(write=False)
        recovered, valid = sharing.combine(turned, (2, 3))
        assert valid.all()
        assert (recovered == secrets).all()


def test_constants():
    assert (sharing.LIMBS, sharing.SECRET_BYTES, sharing.SHARE_BITS) == (3, 16, 183)


ONE = np.zeros((1, 16), np.uint8)


@pytest.mark.parametrize(
    "secrets",
    [
        None,
        b"0" * 16,
        [[0] * 16],
        np.zeros(16, np.uint8),
        np.zeros((1, 15), np.uint8),
        np.zeros((1, 17), np.uint8),
        np.zeros((1, 1, 16), np.uint8),
        np.zeros((1, 16), np.int8),
        np.zeros((1, 16), np.uint64),
        np.zeros((1, 16), bool),
    ],
)
def test_secrets_that_are_refused(secrets):
    with pytest.raises(UsageError, match="secrets"):
        sharing.split(secrets, 2, [1, 2], OS)


@pytest.mark.parametrize(
    "threshold", [-1, 0, 1, 4, 10**9, 2**70, True, 2.0, "2", None, np.float64(2), [2]]
)
def test_thresholds_that_are_refused(threshold):
    with pytest.raises(UsageError, match="threshold"):
        sharing.split(ONE, threshold, [1, 2, 3], OS)


def test_numpy_integers_are_integers():
    assert sharing.split(ONE, np.int32(2), np.array([1, 2], np.uint8), OS).shape == (2, 1, 3)


BAD_POINTS = [
    None,
    5,
    "12",
    [],
    [1],
    [0, 1],
    [1, 2, 1],
    [-1, 2],
    [1, 2**32],
    [1, 2**61 - 1],
    [1, 2**61],
    [1, 2**64 + 1],
    [1, 2.0],
    [1, True],
    [[1, 2]],
    {1, 2},
    np.array([1.0, 2.0]),
    np.array([True, False]),
    np.array([[1, 2]]),
    np.array([3, 3]),
]


@pytest.mark.parametrize("points", BAD_POINTS)
def test_points_that_are_refused(points):
    with pytest.raises(UsageError, match="points"):
        sharing.split(ONE, 2, points, OS)
    with pytest.raises(UsageError, match="points"):
        sharing.combine(np.zeros((2, 1, 3), np.uint64), points)


@pytest.mark.parametrize(
    "shares",
    [
        None,
        [[[1, 2, 3]], [[1, 2, 3]]],
        np.zeros((2, 1, 3), np.int64),
        np.zeros((2, 1, 3), np.uint32),
        np.zeros((2, 1, 3)),
        np.zeros((3, 1, 3), np.uint64),
        np.zeros((1, 1, 3), np.uint64),
        np.zeros((2, 1, 2), np.uint64),
        np.zeros((2, 3), np.uint64),
        np.full((2, 1, 3), P, np.uint64),
        np.full((2, 1, 3), 2**64 - 1, np.uint64),
    ],
)
def test_shares_that_are_refused(shares):
    with pytest.raises(UsageError, match="shares"):
        sharing.combine(shares, [1, 2])


def test_messages_hold_no_secret():
    with pytest.raises(UsageError) as caught:
        sharing.split(np.full(16, 77, np.uint8), 2, [1, 2], OS)
    assert "77" not in str(caught.value)
    with pytest.raises(UsageError) as caught:
        sharing.combine(np.full((2, 1, 3), P + 77, np.uint64), [1, 2])
    assert str(P + 77) not in str(caught.value)


def test_no_entropy_is_refused():
    for source in (None, 7, np.random.default_rng(1)):
        with pytest.raises(UsageError, match="entropy"):
            sharing.split(ONE, 2, [1, 2], source)
        with pytest.raises(UsageError, match="entropy"):
            sharing.split_additive(np.zeros(2, np.uint64), 2, 8, source)


@quick
@given(st.data())
def test_additive_shares_sum_to_the_values(data):
    bits = data.draw(st.one_of(st.integers(1, 64), st.sampled_from([1, 32, 63, 64])))
    top = 2**bits - 1
    values = data.draw(st.lists(st.sampled_from([0, 1, top]) | st.integers(0, top), max_size=9))
    parties = data.draw(st.integers(2, 6))
    array = np.array(values, dtype=np.uint64)
    shares = sharing.split_additive(array, parties, bits, OS)
    assert shares.shape == (parties, len(values))
    assert shares.size == 0 or int(shares.max()) <= top
    totals = [sum(column) % 2**bits for column in zip(*shares.tolist(), strict=True)]
    assert totals == values
    assert sharing.combine_additive(shares, bits).tolist() == values


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (0, 2)])
def test_additive_sharing_keeps_shapes(shape):
    values = np.random.default_rng(7).integers(0, 2**20, shape, dtype=np.uint64, endpoint=False)
    values = np.asarray(values, dtype=np.uint64)
    shares = sharing.split_additive(values, 3, 20, OS)
    assert shares.shape == (3, *shape)
    back = sharing.combine_additive(shares, 20)
    assert back.shape == shape
    assert (back == values).all()


def test_all_but_one_additive_share_are_independent_of_the_value():
    """Any share but one may be the computed one: fix the others, and it fits each value."""
    zero = sharing.split_additive(np.zeros(30_000, np.uint64), 3, 2, from_seed(8))
    for left_out in range(3):
        kept = np.delete(zero, left_out, axis=0)
        counts = np.bincount((kept[0] * np.uint64(4) + kept[1]).astype(int), minlength=16)
        # 30,000 draws into the 16 pairs: 1,875 expected, standard deviation 41.9.
        assert (np.abs(counts - 1875) < 6 * 41.9).all()


@pytest.mark.parametrize(
    ("argument", "values", "parties", "bits"),
    [
        ("values", [1, 2], 2, 8),
        ("values", np.array([1, 2]), 2, 8),
        ("values", np.array([1.0]), 2, 8),
        ("values", np.array([256], np.uint64), 2, 8),
        ("values", None, 2, 8),
        ("parties", np.zeros(1, np.uint64), 1, 8),
        ("parties", np.zeros(1, np.uint64), 0, 8),
        ("parties", np.zeros(1, np.uint64), -3, 8),
        ("parties", np.zeros(1, np.uint64), True, 8),
        ("parties", np.zeros(1, np.uint64), 2.0, 8),
        ("bits", np.zeros(1, np.uint64), 2, 0),
        ("bits", np.zeros(1, np.uint64), 2, 65),
        ("bits", np.zeros(1, np.uint64), 2, 8.0),
        ("bits", np.zeros(1, np.uint64), 2, None),
    ],
)
def test_additive_arguments_that_are_refused(argument, values, parties, bits):
    with pytest.raises(UsageError, match=argument):
        sharing.split_additive(values, parties, bits, OS)


@pytest.mark.parametrize(
    "shares",
    [
        None,
        [[1], [2]],
        np.zeros((1, 4), np.uint64),
        np.zeros((0, 4), np.uint64),
        np.array(5, np.uint64),
        np.zeros((2, 4)),
        np.full((2, 4), 256, np.uint64),
    ],
)
def test_additive_shares_that_are_refused(shares):
    with pytest.raises(UsageError, match="shares"):
        sharing.combine_additive(shares, 8)
