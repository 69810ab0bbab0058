"""Whatever an argument is, the answer is a result or a UsageError, and at once."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from privagg import field
from privagg.entropy import OS
from privagg.errors import UsageError
from privagg.field import xof

VECTOR = field.elements([1, 2], field.M61)
MATRIX = field.elements([[1, 2], [3, 4]], field.M61)

GOOD = {
    "a": MATRIX,
    "b": MATRIX,
    "c": MATRIX,
    "field": field.M61,
    "exponent": 3,
    "coefficients": MATRIX,
    "points": VECTOR,
    "targets": VECTOR,
    "values": MATRIX,
    "columns": 3,
    "length": 2,
    "weights": VECTOR,
    "rows": MATRIX,
    "source": OS,
    "shape": (2,),
    "modulus": 7,
    "bits": 8,
    "name": "values",
    "seed": b"1",
    "dst": b"2",
    "binder": b"3",
}

FUNCTIONS = {name: getattr(field, name) for name in field.__all__} | {
    "Elimination": field.Elimination,
    "derive_seed": xof.derive_seed,
    "expand_into_vec": xof.expand_into_vec,
}
FUNCTIONS = {
    name: found
    for name, found in FUNCTIONS.items()
    if inspect.isfunction(found) or found is field.Elimination
}

WRONG = [
    None,
    True,
    -1,
    2.5,
    "x",
    [1, 2],
    [[1], [1, 2]],
    {},
    np.array(3),
    np.array([1, 2]),
    np.zeros((2, 2, 2), np.uint64),
    np.ma.array([1, 2], dtype=np.uint64),
    np.array([2**63], np.uint64),
    np.array([1, 2], ">u8"),
    np.array([(1, 2)], dtype=[("a", "u8"), ("b", "u8")]),
    np.uint64(3),
    -(10**30),
    field.Field("q", [7], 3, np.dtype(np.uint32), 3),
    field.Field("p7", "7", 3, np.dtype(np.uint32), 3),
    field.Field(None, 7, 3, np.dtype(np.uint32), 3),
    field.Ring("z2_8", 256, [8], np.dtype("u1")),
    field.Ring("z2_8", 256, 8, "u1"),
    type,
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_arguments_are_named(name):
    function = FUNCTIONS[name]
    good = {one: GOOD[one] for one in inspect.signature(function).parameters}
    if name in ("dot",):
        good |= {"a": VECTOR, "b": VECTOR}
    function(**good)
    refused = 0
    for argument in good:
        for value in WRONG:
            try:
                function(**good | {argument: value})
            except UsageError:
                refused += 1
    assert refused


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("function", [field.ntt, field.rank, field.neg])
def test_numpy_matrices_are_refused(function):
    with pytest.raises(UsageError, match="uint64 array of shape"):
        function(np.matrix([[1, 2], [3, 4]], dtype=np.uint64), field.GOLDILOCKS)


class Source:
    def __init__(self, answer):
        self.answer = answer

    def take(self, count):
        return self.answer


@pytest.mark.parametrize("answer", [None, 3, "12345678", b"1234567", [0] * 8, bytearray(8)])
def test_sources_that_hand_out_something_else_are_refused(answer):
    with pytest.raises(UsageError, match="source"):
        field.uniform(Source(answer), 1)
