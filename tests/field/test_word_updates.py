"""The compiled matrix update of elimination against Python's integers."""

import numpy as np
import pytest

from privagg._jit import JIT
from privagg.field.word_updates import subtract_product

if not JIT:
    pytest.skip("compiled kernels only", allow_module_level=True)

PRIMES = [2, 3, 5, 65521, 1073741789, 1073741827, 2147483629, 2**31 - 1, 2147483659, 4294967291]


@pytest.mark.parametrize("p", PRIMES)
@pytest.mark.parametrize(
    ("m", "t", "n"),
    [
        (1, 1, 1),
        (2, 4, 3),
        (3, 5, 7),
        (4, 300, 513),
        (9, 64, 1025),
        (1, 513, 2),
        (0, 3, 2),
        (2, 0, 3),
    ],
)
@pytest.mark.parametrize("edge", [False, True])
def test_updates(p, m, t, n, edge):
    generator = np.random.default_rng(p % 1000 + m)
    if edge:
        target, left, right = (np.full(s, p - 1, np.uint32) for s in ((m, n), (m, t), (t, n)))
    else:
        target, left, right = (
            generator.integers(0, p, size=s).astype(np.uint32) for s in ((m, n), (m, t), (t, n))
        )
    product = left.astype(object) @ right.astype(object) if t else 0
    truth = ((target.astype(object) - product) % p).tolist()
    subtract_product(target, left, right, p)
    assert target.dtype == np.uint32
    assert target.tolist() == truth


def test_a_view_of_whole_rows_is_updated_in_place():
    p = 2147483629
    whole = np.zeros((4, 5), np.uint32)
    subtract_product(whole[:2], np.ones((2, 1), np.uint32), np.ones((1, 5), np.uint32), p)
    assert whole.tolist() == [[p - 1] * 5] * 2 + [[0] * 5] * 2
