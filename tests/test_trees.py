"""A tree and its flat vector say the same, in the same order, and mismatches are named by path."""

import json
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from privagg.errors import UsageError
from privagg.trees import Structure

FLOATS = st.sampled_from(["f2", "f4", "f8"])
INTEGERS = st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4"])
SHAPES = nps.array_shapes(min_dims=0, max_dims=3, max_side=3)


def arrays(dtypes):
    return dtypes.flatmap(
        lambda dtype: nps.arrays(
            dtype,
            SHAPES,
            elements=nps.from_dtype(np.dtype(dtype), allow_nan=False, allow_infinity=False),
        )
    )


FLOAT_LEAVES = arrays(FLOATS) | st.floats(allow_nan=False, allow_infinity=False)
INTEGER_LEAVES = arrays(INTEGERS) | st.integers(-(2**63), 2**63 - 1)


def trees(leaves):
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3),
            st.lists(inner, min_size=1, max_size=3).map(tuple),
            st.dictionaries(st.text(max_size=3), inner, min_size=1, max_size=3),
        ),
        max_leaves=8,
    )


def same(left, right, integers_widen=False):
    """Whether two trees agree in containers, order, shapes, dtypes and numbers."""
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and list(left) == list(right)
            and all(same(left[key], right[key], integers_widen) for key in left)
        )
    if isinstance(left, list | tuple):
        return (
            type(left) is type(right)
            and len(left) == len(right)
            and all(same(a, b, integers_widen) for a, b in zip(left, right, strict=True))
        )
    if type(left) is not type(right):
        return False
    if isinstance(left, int | float):
        return left == right
    dtype = np.dtype(np.int64) if integers_widen else left.dtype
    return left.shape == right.shape and right.dtype == dtype and bool(np.all(left == right))


@settings(max_examples=80)
@given(trees(FLOAT_LEAVES))
def test_trees_of_floats_come_back(tree):
    structure = Structure.of(tree)
    flat = structure.flatten(tree)
    assert flat.shape == (structure.size,)
    assert flat.dtype == structure.dtype
    assert same(tree, structure.unflatten(flat))


@settings(max_examples=80)
@given(trees(INTEGER_LEAVES))
def test_trees_of_integers_come_back_as_int64(tree):
    structure = Structure.of(tree)
    flat = structure.flatten(tree)
    assert flat.dtype == np.int64
    assert same(tree, structure.unflatten(flat), integers_widen=True)


@given(trees(FLOAT_LEAVES | arrays(st.sampled_from(["i1", "u4"]))))
def test_equal_structures_describe_and_hash_alike(tree):
    structure = Structure.of(tree)
    again = Structure.of(structure.unflatten(np.zeros(structure.size), keep_dtype=True))
    assert (again == structure) == (again.describe() == structure.describe())
    copy = Structure.of(tree)
    assert copy == structure
    assert hash(copy) == hash(structure)
    assert copy.describe() == structure.describe()
    json.loads(structure.describe())


MODEL = {
    "layer1": {"weight": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.float32(6)},
    "rest": [np.array([7.0, 8.0], np.float32), (9.0,)],
}


def test_order_is_the_trees_own():
    structure = Structure.of(MODEL)
    flat = structure.flatten(MODEL)
    assert flat.tolist() == list(range(10))
    assert flat.dtype == np.float64  # a Python float is a double
    back = structure.unflatten(flat * 2)
    assert back["layer1"]["weight"].tolist() == [[0, 2, 4], [6, 8, 10]]
    assert type(back["layer1"]["bias"]) is np.float32
    assert back["rest"][1] == (18.0,)
    assert type(back["rest"][1][0]) is float
    assert repr(structure) == "Structure(4 leaves, size 10, float64)"
    assert json.loads(structure.describe())[1][0] == [
        "layer1",
        ["dict", [["weight", ["array", "<f4", [2, 3]]], ["bias", ["scalar", "<f4", []]]]],
    ]


def test_dicts_are_read_by_key():
    structure = Structure.of({"a": 1, "b": [2, 3]})
    assert structure.flatten({"b": [2, 3], "a": 1}).tolist() == [1, 2, 3]
    assert structure.flatten(OrderedDict(b=[2, 3], a=1)).tolist() == [1, 2, 3]
    assert Structure.of({"b": [2, 3], "a": 1}) != structure


def test_dtype_of_the_vector():
    half, single = np.zeros(2, np.float16), np.zeros(2, np.float32)
    assert Structure.of([half]).dtype == np.float16
    assert Structure.of([half, single]).dtype == np.float32
    assert Structure.of([half, np.zeros(1, np.int8)]).dtype == np.float64
    assert Structure.of([np.zeros(2, np.uint8), 3]).dtype == np.int64
    big_endian = Structure.of(np.zeros(2, ">f4"))
    assert big_endian.dtype.isnative
    assert big_endian.unflatten(np.ones(2)).dtype == np.dtype(">f4")


def test_mixed_leaves():
    tree = {"w": np.array([0.5], np.float32), "n": np.array([3, 4], np.int16), "k": 5}
    structure = Structure.of(tree)
    flat = structure.flatten(tree)
    assert flat.dtype == np.float64
    back = structure.unflatten(flat / 2)
    assert back["w"].dtype == np.float32
    assert back["n"].dtype == np.float64  # a mean need not be whole
    assert back["n"].tolist() == [1.5, 2.0]
    assert back["k"] == 2.5


def test_integers_come_back_wide_as_a_sum_may_not_fit():
    tree = [np.array([200, 100], np.uint8), np.int8(100)]
    structure = Structure.of(tree)
    back = structure.unflatten(structure.flatten(tree) * 1000)
    assert back[0].dtype == np.int64
    assert back[0].tolist() == [200_000, 100_000]
    assert type(back[1]) is np.int64
    assert back[1] == 100_000


def test_keep_dtype_off_leaves_the_vectors_dtype():
    structure = Structure.of({"a": np.zeros(2, np.float16), "b": np.zeros(1, np.int8)})
    back = structure.unflatten(np.array([1e9, 2.5, 3.5]), keep_dtype=False)
    assert back["a"].dtype == back["b"].dtype == np.float64
    assert back["a"].tolist() == [1e9, 2.5]


def test_a_sum_that_overflows_its_float_is_refused():
    structure = Structure.of({"a": np.zeros(2, np.float16), "b": np.zeros(2, np.float16)})
    with pytest.raises(UsageError, match=r"vector at b: .* fit float16.*keep_dtype=False"):
        structure.unflatten(np.array([1.0, 2.0, 3.0, 70000.0]))
    assert np.isinf(structure.unflatten(np.array([1.0, 2.0, 3.0, np.inf]))["b"][1])


def test_results_are_new_arrays():
    tree = np.zeros((2, 2))
    structure = Structure.of(tree)
    flat = structure.flatten(tree)
    flat[0] = 1
    assert tree[0, 0] == 0
    back = structure.unflatten(flat)
    back[1, 1] = 5
    assert flat[3] == 0


def test_any_memory_layout():
    base = np.arange(12.0).reshape(3, 4)
    for tree in (base.T, base[::2, ::-1], np.asfortranarray(base)):
        structure = Structure.of([tree])
        flat = structure.flatten([tree])
        assert flat.tolist() == tree.reshape(-1).tolist()
        np.testing.assert_array_equal(structure.unflatten(flat)[0], tree)


def changed(path, value):
    """`MODEL` with one node replaced."""
    tree = {"layer1": dict(MODEL["layer1"]), "rest": list(MODEL["rest"])}
    node = tree
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return tree


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        (("layer1", "weight"), np.zeros((3, 2), np.float32), "layer1.weight"),
        (("layer1", "weight"), np.zeros((2, 3)), "layer1.weight"),
        (("layer1", "weight"), 1.0, "layer1.weight"),
        (("layer1", "weight"), [1.0], "layer1.weight"),
        (("layer1", "weight"), None, "layer1.weight"),
        (("layer1", "bias"), 7.0, "layer1.bias"),
        (("layer1", "bias"), np.array(7, np.float32), "layer1.bias"),
        (("layer1", "extra"), 1.0, "layer1"),
        (("layer1",), [1.0, 2.0], "layer1"),
        (("rest", 0), np.zeros(3, np.float32), "rest[0]"),
        (("rest", 1), [10.0], "rest[1]"),
        (("rest", 1), (10.0, 11.0), "rest[1]"),
        (("rest", 1), (10,), "rest[1][0]"),
        (("rest",), {"a": 1.0}, "rest"),
    ],
)
def test_a_different_structure_is_named_by_its_path(path, value, name):
    structure = Structure.of(MODEL)
    with pytest.raises(UsageError) as caught:
        structure.flatten(changed(path, value))
    assert caught.value.argument == f"tree at {name}"


def test_a_difference_at_the_root():
    with pytest.raises(UsageError, match=r"tree: found a Python int; allowed: a list of 2"):
        Structure.of([1, 2]).flatten(1)


def cyclic():
    tree = {"a": [1.0]}
    tree["a"].append(tree)
    return tree


def deep():
    tree = 1.0
    for _ in range(500):
        tree = [tree]
    return tree


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        ({}, "tree: found an empty dict"),
        ([], "tree: found an empty list"),
        ({"a": {"b": ()}}, r"tree at a\.b: found an empty tuple"),
        ({"a": np.zeros((3, 0))}, r"tree at a: found an empty array of shape \(3, 0\)"),
        (None, "tree: found NoneType"),
        ({"a": None}, "tree at a: found NoneType"),
        ({"a": [1.0, "b"]}, r"tree at a\[1\]: found str"),
        ({"a": True}, "tree at a: found bool"),
        ({"a": np.bool_(1)}, "tree at a: found bool"),
        ({"a": np.array([True])}, "tree at a: found dtype bool"),
        ({"a": np.array([None])}, "tree at a: found dtype object"),
        ({"a": np.array([1j])}, "tree at a: found dtype complex128"),
        ({"a": 1j}, "tree at a: found complex"),
        ({"a": np.array(["x"])}, "tree at a: found dtype <U1"),
        ({"a": np.timedelta64(1, "s")}, "tree at a: found dtype timedelta64"),
        ({"a": np.longdouble(1)}, "tree at a: found dtype float"),
        ({"a": np.ma.masked_array([1.0], [True])}, r"found MaskedArray.*filled"),
        ({"a": {1: 2.0}}, "tree at a: found key 1; allowed: string keys"),
        ({"a": Pair(1, 2)}, "tree at a: found Pair"),
        ({"a": {1.0}}, "tree at a: found set"),
        (cyclic(), r"tree at a\[1\]: found a container that contains itself"),
        (deep(), "deeper nesting; allowed: at most 100 levels"),
    ],
)
def test_what_is_no_tree_of_numbers(tree, found):
    with pytest.raises(UsageError, match=found):
        Structure.of(tree)


def test_one_array_twice_is_no_cycle():
    shared = [1.0]
    assert Structure.of([shared, shared]).size == 2


def test_integers_that_would_be_changed_are_refused():
    for big in (2**63, -(2**63) - 1):
        with pytest.raises(UsageError, match=rf"tree at \[0\]: found {big}; allowed: .* int64"):
            Structure.of([big]).flatten([big])
    wide = {"a": np.array([1, 2**63], np.uint64)}
    with pytest.raises(UsageError, match=f"tree at a: found {2**63}"):
        Structure.of(wide).flatten(wide)
    fits = {"a": np.array([1, 2**63 - 1], np.uint64)}
    assert Structure.of(fits).flatten(fits).tolist() == [1, 2**63 - 1]
    for big in (2**53 + 1, -(2**53) - 1, np.array([2**53 + 1]), np.uint64(2**60)):
        mixed = {"w": 0.5, "n": big}
        with pytest.raises(UsageError, match=r"tree at n: .* up to 2\*\*53"):
            Structure.of(mixed).flatten(mixed)
    for exact in (2**53, -(2**53), np.array([-(2**53), 2**53])):
        mixed = {"w": 0.5, "n": exact}
        structure = Structure.of(mixed)
        back = structure.unflatten(structure.flatten(mixed))
        assert np.array_equal(back["n"], exact)


@pytest.mark.parametrize(
    "vector",
    [
        [1.0, 2.0],
        np.zeros(3),
        np.zeros((2, 1)),
        np.zeros(2, bool),
        np.zeros(2, complex),
        np.zeros(2, object),
        np.zeros(2, np.longdouble),
        None,
    ],
)
def test_unflatten_refuses_other_vectors(vector):
    with pytest.raises(UsageError, match=r"vector: .* allowed: a \(2,\) array"):
        Structure.of([1.0, 2.0]).unflatten(vector)


def test_unflatten_checks_its_other_arguments():
    structure = Structure.of([1, 2])
    with pytest.raises(UsageError, match="keep_dtype"):
        structure.unflatten(np.zeros(2), keep_dtype=1)
    with pytest.raises(UsageError, match="below"):
        structure.unflatten(np.array([1, 2**63], np.uint64))
    assert structure.unflatten(np.array([1, 2**63 - 1], np.uint64)) == [1, 2**63 - 1]
