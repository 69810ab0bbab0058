"""What correction refuses, and what it shows."""

import numpy as np
import pytest

from privagg import field
from privagg.correction import correct, secrets_of
from privagg.errors import UsageError

P = 2**61 - 1


def array(values):
    return np.array(values, dtype=np.uint64)


GOOD = field.evaluate(array([[11, 12, 13], [21, 22, 23]]), array([1, 2, 3, 4]))


@pytest.mark.parametrize("function", [correct, secrets_of])
@pytest.mark.parametrize(
    ("argument", "shares", "points", "threshold"),
    [
        ("shares", GOOD.tolist(), [1, 2, 3, 4], 2),
        ("shares", None, [1, 2, 3, 4], 2),
        ("shares", GOOD.astype(np.int64), [1, 2, 3, 4], 2),
        ("shares", GOOD.astype(np.float64), [1, 2, 3, 4], 2),
        ("shares", GOOD[:, 0], [1, 2, 3, 4], 2),
        ("shares", GOOD[:, None], [1, 2, 3, 4], 2),
        ("shares", GOOD[:3], [1, 2, 3, 4], 2),
        ("shares", GOOD + np.uint64(P), [1, 2, 3, 4], 2),
        ("points", GOOD, [1, 2, 3, 3], 2),
        ("points", GOOD, [0, 1, 2, 3], 2),
        ("points", GOOD, [1, 2, 3, 2**32], 2),
        ("points", GOOD, [1, 2, 3, -4], 2),
        ("points", GOOD, [1, 2, 3, True], 2),
        ("points", GOOD, [1, 2, 3, 4.0], 2),
        ("points", GOOD, [[1, 2, 3, 4]], 2),
        ("points", GOOD[:1], [1], 2),
        ("points", GOOD[:0], [], 2),
        ("points", GOOD, None, 2),
        ("points", GOOD, "1234", 2),
        ("threshold", GOOD, [1, 2, 3, 4], 1),
        ("threshold", GOOD, [1, 2, 3, 4], 0),
        ("threshold", GOOD, [1, 2, 3, 4], -2),
        ("threshold", GOOD, [1, 2, 3, 4], 5),
        ("threshold", GOOD, [1, 2, 3, 4], True),
        ("threshold", GOOD, [1, 2, 3, 4], 2.0),
        ("threshold", GOOD, [1, 2, 3, 4], "2"),
        ("threshold", GOOD, [1, 2, 3, 4], None),
        ("threshold", GOOD, [1, 2, 3, 4], array([2])),
    ],
)
def test_refusals_name_the_argument(function, argument, shares, points, threshold):
    with pytest.raises(UsageError) as caught:
        function(shares, points, threshold)
    assert caught.value.argument == argument
    assert "allowed" in str(caught.value)
    assert str(GOOD[0, 0]) not in caught.value.found


@pytest.mark.parametrize("limbs", [0, 2, 4])
def test_a_secret_has_three_limbs(limbs):
    with pytest.raises(UsageError, match="shares"):
        secrets_of(np.zeros((4, limbs), np.uint64), [1, 2, 3, 4], 2)


def test_integers_of_numpy_are_thresholds():
    assert correct(GOOD, [1, 2, 3, 4], np.int64(2)).values.tolist() == [11, 12, 13]


def test_repr_hides_the_values():
    found = correct(GOOD, [1, 2, 3, 4], 2)
    assert "11" not in repr(found)
    assert "wrong" in repr(found)
