"""Declared domains: codes of columns of any kind, and what is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from privagg.domain import Categorical, Floats, Integers, domain_from, read_attributes
from privagg.entropy import from_seed
from privagg.errors import UsageError

COLOURS = Categorical(["red", "green", "blue"], unknown="other")


class Polarsish:
    """A column that knows how to become Arrow's, as Polars' do."""

    def __init__(self, array):
        self._array = array

    def to_arrow(self):
        return self._array


class Streamish:
    """A column that has only the capsule interface."""

    def __init__(self, array):
        self._array = pa.chunked_array([array])

    def __arrow_c_stream__(self, requested_schema=None):
        return self._array.__arrow_c_stream__(requested_schema)


TEXT = ["green", "mauve", "red", None, "blue"]
CODES = [1, 3, 0, 3, 2]


@pytest.mark.parametrize(
    "values",
    [
        TEXT,
        tuple(TEXT),
        np.array(TEXT, object),
        ["green", "mauve", "red", float("nan"), np.str_("blue")],
        pa.array(TEXT),
        pa.array(TEXT, pa.large_string()),
        pa.array(TEXT, pa.string_view()),
        pa.array(TEXT).dictionary_encode(),
        pa.chunked_array([TEXT[:2], TEXT[2:]]),
        pa.chunked_array([pa.array(TEXT[:2]), pa.array(TEXT[2:])]).dictionary_encode(),
        Polarsish(pa.array(TEXT)),
        Streamish(pa.array(TEXT)),
    ],
    ids=lambda values: type(values).__name__,
)
def test_text_in_every_kind_of_column(values):
    codes = COLOURS.encode(values)
    assert codes.dtype == np.uint32
    assert codes.tolist() == CODES
    assert COLOURS.unknown_count(values) == 2
    with pytest.raises(UsageError, match="missing or not declared"):
        COLOURS.encode(values, unknown="refuse")


def test_text_of_numpy_strings():
    assert COLOURS.encode(np.array(["blue", "x"])).tolist() == [2, 3]
    assert COLOURS.encode(np.array([], dtype="U3")).tolist() == []
    assert COLOURS.encode([]).tolist() == []
    assert COLOURS.encode(pa.chunked_array([], pa.string())).tolist() == []
    assert COLOURS.encode(pa.nulls(2)).tolist() == [3, 3]


@pytest.mark.parametrize("labels", [[0, 1, 2], [7, -3, 10**12], [5, 4, 3]])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int16, object, "arrow", "list"])
def test_integers(labels, dtype):
    domain = Categorical(labels, unknown="other")
    values = [labels[2], 99, labels[0]]
    if dtype == np.int16 or (dtype == np.uint64 and min(labels) < 0):
        values = [labels[0], 99, labels[0]] if labels[0] >= 0 else values
    expected = [labels.index(v) if v in labels else 3 for v in values]
    column = {"arrow": pa.array, "list": list}.get(dtype, lambda v: np.array(v, dtype))(values)
    assert domain.encode(column).tolist() == expected


def test_large_unsigned_integers_do_not_wrap_to_a_label():
    domain = Categorical([-1, 0, 1], unknown="other")
    assert domain.encode(np.array([2**64 - 1, 1], np.uint64)).tolist() == [3, 2]
    assert domain.encode(pa.array([2**64 - 1, 1, None], pa.uint64())).tolist() == [3, 2, 3]
    assert domain.encode([2**70, 1]).tolist() == [3, 2]


def test_booleans_are_no_integers():
    flags = Categorical([True, False], unknown="other")
    assert flags.encode([False, True, None]).tolist() == [1, 0, 2]
    assert flags.encode(np.array([False, True])).tolist() == [1, 0]
    assert flags.encode(pa.array([False, None, True])).tolist() == [1, 2, 0]
    for wrong in ([0, 1], np.array([0, 1]), pa.array([0, 1]), ["True"]):
        with pytest.raises(UsageError, match="boolean values"):
            flags.encode(wrong)
    digits = Categorical([0, 1])
    for wrong in ([True], np.array([True]), pa.array([True]), ["1"], [1.0], np.array([1.0])):
        with pytest.raises(UsageError, match="integer values"):
            digits.encode(wrong)


@pytest.mark.parametrize(
    "values",
    [
        "red",
        b"red",
        3,
        None,
        {"red": 1},
        np.array([["red"]]),
        np.array("red"),
        np.ma.masked_array(["red"], [True]),
        np.array([b"red"]),
        [["red"]],
        Polarsish(pa.table({"a": ["red"]})),
        Streamish(pa.array(["red"])).__class__,
        pa.table({"a": ["red"]}),
    ],
)
def test_what_is_no_column(values):
    with pytest.raises(UsageError):
        COLOURS.encode(values)


def test_messages_name_neither_values_nor_counts():
    domain = Categorical(["a", "b"])
    with pytest.raises(UsageError) as caught:
        domain.encode(["a", "secret", "secret"])
    assert "secret" not in str(caught.value)
    assert caught.value.found == "a value that is missing or not declared"


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([], {}),
        (["a"], {}),
        ([True], {}),
        (["a", "a"], {}),
        (["a", 1], {}),
        ([0, True], {}),
        ([1.0, 2.0], {}),
        ([None, "a"], {}),
        ("ab", {}),
        (7, {}),
        ([2**62, 0], {}),
        (["a", "b"], {"unknown": "drop"}),
        (["a", "b"], {"unknown": None}),
        (["a", "OTHER"], {"unknown": "other"}),
        (["a", "b"], {"unknown": "other", "other": ""}),
        (["a", "b"], {"unknown": "other", "other": 3}),
    ],
)
def test_bad_declarations(values, options):
    with pytest.raises(UsageError):
        Categorical(values, **options)


def test_one_value_and_the_other_cell_are_a_domain():
    assert Categorical(["yes"], unknown="other").size == 2


def test_other_needs_its_cell():
    with pytest.raises(UsageError, match="without that cell"):
        Categorical(["a", "b"]).encode(["a"], unknown="other")
    with pytest.raises(UsageError, match="unknown"):
        COLOURS.encode(["red"], unknown="ignore")


def test_encode_changes_nothing_and_decode_turns_it_back():
    values = np.array([3, 1, 2])
    values.flags.writeable = False
    domain = Categorical([1, 2, 3])
    codes = domain.encode(values)
    assert domain.decode(codes) == [3, 1, 2]
    assert COLOURS.decode(np.array([3, 0])) == ["OTHER", "red"]
    for wrong in (np.array([4]), np.array([-1]), np.array([0.0]), [0], np.array([[0]])):
        with pytest.raises(UsageError):
            COLOURS.decode(wrong)


def test_digest_is_the_description():
    assert Categorical(["a", "b"]) == Categorical(("a", "b"))
    assert Categorical(["a", "b"]).digest == Categorical(["a", "b"]).digest
    different = [
        Categorical(["a", "b"]),
        Categorical(["b", "a"]),
        Categorical(["a", "b"], unknown="other"),
        Categorical(["a", "b"], unknown="other", other="rest"),
        Categorical([0, 1]),
        Categorical([False, True]),
        Integers(0, 1),
        Integers(0, 1, unknown="clip"),
        Floats(0, 1, steps=1),
        Floats(0, 1, steps=2),
    ]
    assert len({domain.digest for domain in different}) == len(different)
    assert len(set(different)) == len(different)
    for domain in different:
        assert domain_from(domain.describe()) == domain


def test_integer_ranges():
    ages = Integers(-2, 3)
    assert (ages.size, list(ages.labels)) == (6, [-2, -1, 0, 1, 2, 3])
    assert ages.encode([-2, 3, 0]).tolist() == [0, 5, 2]
    assert ages.encode(pa.array([1])).tolist() == [3]
    assert ages.decode(np.array([0, 5])) == [-2, 3]
    with pytest.raises(UsageError, match="out of range"):
        ages.encode(np.array([4]))
    assert ages.encode([9, -9, 0], unknown="clip").tolist() == [5, 0, 2]
    assert ages.unknown_count([9, None, 0]) == 2
    for wrong in ([0.0], [True], ["0"], np.array([0.5]), pa.array([0.5]), [None], [float("nan")]):
        with pytest.raises(UsageError):
            ages.encode(wrong, unknown="clip")


def test_float_grids():
    grid = Floats(-1, 1, steps=4)
    assert grid.labels == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert grid.encode([-1, 1.0, 0.2, 0.3]).tolist() == [0, 4, 2, 3]
    assert grid.encode(np.array([0.1, 7.0, -np.inf]), unknown="clip").tolist() == [2, 4, 0]
    for wrong in ([np.nan], [np.inf], [None], [1.01], ["0"], [True], pa.array([None, 0.0])):
        with pytest.raises(UsageError):
            grid.encode(wrong)
    with pytest.raises(UsageError):
        grid.encode([10**400], unknown="clip")


def test_stochastic_rounding_is_right_on_average_and_repeats():
    grid = Floats(0, 1, steps=4)
    values = np.full(40_000, 0.3)
    codes = grid.encode(values, entropy=from_seed(3))
    assert set(codes.tolist()) == {1, 2}
    # 0.3 is 1.2 steps: the mean of 40,000 codes has standard deviation 0.002.
    assert abs(codes.mean() - 1.2) < 0.01
    assert np.array_equal(codes, grid.encode(values, entropy=from_seed(3)))
    assert grid.encode([0.5, 1.0], entropy=from_seed(1)).tolist() == [2, 4]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Integers(0, 0),
        lambda: Integers(1, 0),
        lambda: Integers(0, 2**24),
        lambda: Integers(0.0, 1),
        lambda: Integers(False, 1),
        lambda: Integers(0, 3, unknown="other"),
        lambda: Floats(0, 0),
        lambda: Floats(0, float("inf")),
        lambda: Floats(-(10**400), 1),
        lambda: Floats(-1.7e308, 1.7e308),
        lambda: Floats(0, float("nan")),
        lambda: Floats(0, 1, steps=0),
        lambda: Floats(0, 1, steps=2.0),
        lambda: Floats(True, 2),
    ],
)
def test_bad_ranges(make):
    with pytest.raises(UsageError):
        make()


SURVEY = """
[attributes.colour]
kind = "categorical"
values = ["red", "green"]
unknown = "other"

[attributes.smoker]
kind = "boolean"

[attributes.age]
kind = "integer"
low = 0
high = 120
unknown = "clip"

[attributes.height]
kind = "float"
low = 0.5
high = 2.5
steps = 20
"""


def test_a_survey_from_toml(tmp_path):
    path = tmp_path / "survey.toml"
    path.write_text(SURVEY, encoding="utf-8")
    assert read_attributes(path) == {
        "colour": Categorical(["red", "green"], unknown="other"),
        "smoker": Categorical([False, True]),
        "age": Integers(0, 120, unknown="clip"),
        "height": Floats(0.5, 2.5, steps=20),
    }
    assert list(read_attributes(str(path))) == ["colour", "smoker", "age", "height"]


@pytest.mark.parametrize(
    ("old", "new", "argument"),
    [
        ('kind = "boolean"', 'kind = "bool"', "attributes.smoker.kind"),
        ('kind = "boolean"', "", "attributes.smoker.kind"),
        ("high = 120", "", "attributes.age.high"),
        ("high = 120", "high = 120.5", "attributes.age.high"),
        ("high = 120", "hihg = 120", "attributes.age.hihg"),
        ("steps = 20", "step = 20", "attributes.height.step"),
        ('"green"]', '"red"]', "attributes.colour.values"),
        ("[attributes.colour]", "[attribute.colour]", "attribute"),
        ("[attributes.colour]", "[attributes", "source"),
    ],
)
def test_survey_mistakes_are_named(tmp_path, old, new, argument):
    path = tmp_path / "survey.toml"
    path.write_text(SURVEY.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_attributes(path)
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    "source", [3, {}, {"attributes": {}}, {"attributes": {" ": {}}}, {"attributes": {"a": 3}}]
)
def test_no_survey(source, tmp_path):
    with pytest.raises(UsageError):
        read_attributes(source)
    with pytest.raises(UsageError, match="can be read"):
        read_attributes(tmp_path / "absent.toml")


def test_halves_of_characters_are_no_labels_and_no_crash():
    half = "\ud800"
    for wrong in ([half, "a"], ["a" + half, "b"]):
        with pytest.raises(UsageError, match="surrogate"):
            Categorical(wrong)
    with pytest.raises(UsageError, match="surrogate"):
        Categorical(["a", "b"], unknown="other", other=half)
    strict, open_ = Categorical(["a", "b"]), Categorical(["a", "b"], unknown="other")
    for values in (["a", half], np.array(["a", half]), np.array(["a", half], object)):
        assert open_.encode(values).tolist() == [0, 2]
        with pytest.raises(UsageError, match="not declared"):
            strict.encode(values)
