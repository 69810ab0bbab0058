"""What an encoding takes and refuses, and how it says so."""

import numpy as np
import pytest

from privagg.encoding import Encoding
from privagg.errors import UsageError

INTEGERS = Encoding(kind="integer", value_bits=8)
FLOATS = Encoding(kind="float", value_bits=16, clip=1.0)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">u8"])
def test_integers_of_any_width(dtype):
    values = np.array([0, 5, 100], dtype)
    assert INTEGERS.encode(values, clients=2).words.tolist() == [0, 5, 100]
    floats = Encoding(kind="float", value_bits=8, clip=127.5)
    assert floats.encode(np.repeat(values, 2)[::2], clients=2).words.size == 3


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", ">f8"])
def test_floats_of_any_width_and_layout(dtype):
    encoding = Encoding(kind="float", value_bits=2, clip=1.5)
    values = np.array([-1.5, 9, 0.5, 9, 1.5, 9], dtype)[::2]
    values.flags.writeable = False
    assert encoding.encode(values, clients=1).words.tolist() == [0, 2, 3]


@pytest.mark.parametrize(
    ("signed", "bad", "low", "high"),
    [
        (False, -1, 0, 255),
        (False, 256, 0, 255),
        (True, -129, -128, 127),
        (True, 128, -128, 127),
        (True, -(2**63), -128, 127),
        (False, 2**63 - 1, 0, 255),
    ],
)
def test_an_integer_out_of_range_is_named(signed, bad, low, high):
    encoding = Encoding(kind="integer", value_bits=8, signed=signed)
    for at in (0, 7):
        values = np.full(9, high)
        values[at] = bad
        with pytest.raises(
            UsageError, match=f"found {bad} at index {at}; allowed: integers from {low} to {high}"
        ):
            encoding.encode(values, clients=2)


def test_an_unsigned_integer_beyond_int64_is_named():
    values = np.array([1, 2, 2**64 - 1], np.uint64)
    with pytest.raises(UsageError, match=f"{2**64 - 1} at index 2"):
        INTEGERS.encode(values, clients=2)
    signed = Encoding(kind="integer", value_bits=8, signed=True)
    with pytest.raises(UsageError, match=f"{2**64 - 1} at index 2"):
        signed.encode(values, clients=2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_first_float_that_is_not_finite_is_named(bad, dtype):
    for at in (0, 5, 20_000):
        values = np.zeros(40_000, dtype)
        values[[at, 30_000]] = bad
        with pytest.raises(UsageError, match=f"{bad} at index {at}; allowed: finite"):
            FLOATS.encode(values, clients=2)


@pytest.mark.parametrize("encoding", [INTEGERS, FLOATS])
@pytest.mark.parametrize(
    "vector",
    [
        [1, 2],
        None,
        3,
        np.zeros(0),
        np.zeros((2, 2)),
        np.array(1),
        np.array([True]),
        np.array([1j]),
        np.array(["1"]),
        np.array([1, 2], object),
        np.array([1.0], np.longdouble),
        np.array([1], "m8[s]"),
    ],
)
def test_other_vectors_are_refused(encoding, vector):
    with pytest.raises(UsageError, match="vector"):
        encoding.encode(vector, clients=2)


def test_floats_need_a_float_encoding():
    with pytest.raises(UsageError, match=r'Floats need a clip.*Encoding\(kind="float", clip=...\)'):
        INTEGERS.encode(np.array([1.0]), clients=2)


@pytest.mark.parametrize("weight", [2, 0, -1, True, 1.0, "1", None, np.ones(2)])
def test_weights_of_an_encoding_without(weight):
    with pytest.raises(UsageError, match="weight"):
        INTEGERS.encode(np.array([1]), weight=weight, clients=2)


@pytest.mark.parametrize("weight", [11, -1, True, 1.0, "1", None])
def test_weights_out_of_range(weight):
    encoding = Encoding(kind="integer", value_bits=8, weighted=True, max_weight=10)
    with pytest.raises(UsageError, match=r"weight: .* from 0 to 10"):
        encoding.encode(np.array([1]), weight=weight, clients=2)


@pytest.mark.parametrize("number", [0, -1, True, 2.0, "2", None])
def test_counts_are_positive_integers(number):
    for call in (
        INTEGERS.modulus_bits,
        INTEGERS.word,
        INTEGERS.length,
        INTEGERS.rounding_bound,
        lambda n: INTEGERS.encode(np.array([1]), clients=n),
        lambda n: INTEGERS.decode(np.array([1], np.uint32), count=n),
    ):
        with pytest.raises(UsageError, match="an integer from 1"):
            call(number)


def test_entropy_must_be_one():
    with pytest.raises(UsageError, match="entropy"):
        FLOATS.encode(np.zeros(3), clients=2, entropy=np.random.default_rng(1))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"kind": "real"}, "kind"),
        ({"value_bits": 0}, "value_bits"),
        ({"value_bits": 33}, "value_bits"),
        ({"value_bits": True}, "value_bits"),
        ({"value_bits": 8.0}, "value_bits"),
        ({"signed": 1}, "signed"),
        ({"weighted": "yes"}, "weighted"),
        ({"clip": 1.0}, "clip"),
        ({"max_weight": 2}, "max_weight"),
        ({"max_weight": 0, "weighted": True}, "max_weight"),
        ({"max_weight": 2**62, "weighted": True}, "max_weight"),
        ({"kind": "float"}, "clip"),
        ({"kind": "float", "clip": 0.0}, "clip"),
        ({"kind": "float", "clip": -1.0}, "clip"),
        ({"kind": "float", "clip": np.inf}, "clip"),
        ({"kind": "float", "clip": np.nan}, "clip"),
        ({"kind": "float", "clip": 1e-300}, "clip"),
        ({"kind": "float", "clip": True}, "clip"),
        ({"kind": "float", "clip": "1"}, "clip"),
        ({"kind": "float", "clip": 1.0, "signed": True}, "signed"),
    ],
)
def test_fields_are_checked(changes, name):
    with pytest.raises(UsageError) as caught:
        Encoding(**({"kind": "integer", "value_bits": 8} | changes))
    assert caught.value.argument == name


def test_equal_encodings_are_equal_and_hash_alike():
    first = Encoding(kind="float", value_bits=8, clip=1)
    second = Encoding(kind="float", value_bits=np.int64(8), clip=np.float32(1))
    assert first == second
    assert hash(first) == hash(second)
    assert repr(first) == repr(second)


@pytest.mark.parametrize(
    "words",
    [
        [1, 2],
        np.zeros(3),
        np.zeros(3, np.int64),
        np.zeros((1, 3), np.uint32),
        np.zeros(1, np.uint32),
    ],
)
def test_decode_refuses_other_arrays(words):
    encoding = Encoding(kind="integer", value_bits=8, weighted=True)
    with pytest.raises(UsageError, match="1-D uint32 or uint64 array of 2 words or more"):
        encoding.decode(words, count=2)


def test_decode_refuses_sums_that_no_honest_clients_have():
    with pytest.raises(UsageError, match="found 511 at index 1; allowed: at most 510"):
        INTEGERS.decode(np.array([510, 511], np.uint32), count=2)
    encoding = Encoding(kind="integer", value_bits=8, weighted=True, max_weight=3)
    with pytest.raises(UsageError, match="a sum of weights of 7; allowed: at most 6"):
        encoding.decode(np.array([0, 7], np.uint32), count=2)
    with pytest.raises(UsageError, match="found 256 at index 0; allowed: at most 255"):
        encoding.decode(np.array([256, 1], np.uint32), count=2)
    with pytest.raises(UsageError, match="at most 255"):
        Encoding(kind="float", value_bits=8, clip=1.0).decode(
            np.array([2**64 - 1], np.uint64), count=1
        )


def test_words_stay_out_of_the_repr():
    part = INTEGERS.encode(np.array([211, 212]), clients=3)
    assert "211" not in repr(part)
    assert repr(part) == "Encoded(clipped=0)"


def test_decode_leaves_its_input_alone():
    words = np.array([5, 6], np.uint64)
    words.flags.writeable = False
    FLOATS.decode(words, count=3)
    assert words.tolist() == [5, 6]
