"""The bundled tables hold what they say, and dealing them out to clients loses no row."""

from __future__ import annotations

import hashlib
import math
import re
import subprocess
import sys
from collections import Counter
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg import datasets
from privagg.errors import UsageError

FOLDER = Path(str(resources.files("privagg.datasets")))

SHA256 = {
    "adult": "a32eda8394bf4beb4500ff8555085e3ee30ab884eabb55230d9576c53d08e512",
    "income2000": "ce53f3671c78d5904ac8f7e0c34c7d512d2a1b7ef5d5d74ba722b96365e14659",
    "nursery": "b884297b9f7f3ff7691989858e7086fee867ce9712a37140236b4f7f11e0062d",
    "stops2017": "08e72f64324e8d86303c34795fe13885e8a12f0902b7596ac7c3cc68daf9efa4",
    "voters2016": "a5282f0082f30240d5410276cbcb7fbb97129589f4533bec9fc04cbdda0aa46e",
}

COUNTABLE = [
    (name, column)
    for name in datasets.names()
    for column in datasets.info(name).columns
    if column not in {"weekly_income", "latitude", "longitude"}
]


def counted(name: str, column: str) -> Counter[object]:
    """The oracle: a table's histogram by counting Python values."""
    return Counter(datasets.load(name)[column].to_pylist())


def test_files_are_the_ones_described():
    files = sorted((FOLDER / "tables").iterdir())
    assert [file.name for file in files] == [f"{name}.parquet" for name in datasets.names()]
    found = {file.stem: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    assert found == SHA256


@pytest.mark.parametrize("name", datasets.names())
def test_description_matches_the_table(name):
    info, table = datasets.info(name), datasets.load(name)
    assert info.name == name
    assert table.num_rows == info.rows
    assert tuple(table.column_names) == info.columns
    assert all(table[column].num_chunks == 1 for column in info.columns)
    assert info.title
    assert info.source
    assert info.licence


@pytest.mark.parametrize("name", datasets.names())
def test_readme_describes_every_table_and_column(name):
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    info, table = datasets.info(name), datasets.load(name)
    assert f"| `{name}` | {info.rows:,} | {len(info.columns)} |" in text
    section = re.search(rf"^## {name}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", section[1], re.MULTILINE)
    assert tuple(column for column, _, _ in rows) == info.columns
    for column, kind, values in rows:
        found = str(table[column].type)
        found = {"float": "float32", "double": "float64"}.get(found, found)
        assert kind == ("category" if found.startswith("dictionary") else found)
        if kind not in {"float32", "float64"}:
            distinct = {value for value in table[column].to_pylist() if value is not None}
            assert values.startswith(str(len(distinct)))
        missing = re.search(r"([\d,]+) missing", values)
        assert table[column].null_count == (int(missing[1].replace(",", "")) if missing else 0)


def test_adult_matches_the_published_counts():
    # adult.names of the repository: without unknown values 24.78 % earn more than 50K.
    assert counted("adult", "income") == {"<=50K": 34_014, ">50K": 11_208}
    assert counted("adult", "sex") == {"Male": 30_527, "Female": 14_695}
    assert counted("adult", "race")["White"] == 38_903
    assert counted("adult", "education")["HS-grad"] == 14_783


def test_nursery_is_a_full_product_with_the_published_classes():
    table = datasets.load("nursery")
    attributes = datasets.info("nursery").columns[:-1]
    sizes = [len(set(table[column].to_pylist())) for column in attributes]
    assert sizes == [3, 5, 4, 4, 3, 2, 3, 3]
    rows = set(zip(*(table[column].to_pylist() for column in attributes), strict=True))
    assert len(rows) == table.num_rows == math.prod(sizes)
    # nursery.names of the repository.
    assert counted("nursery", "class") == {
        "not_recom": 4_320,
        "recommend": 2,
        "very_recom": 328,
        "priority": 4_266,
        "spec_prior": 4_044,
    }


def test_values_of_the_other_tables_are_plausible():
    stops = datasets.load("stops2017")
    assert all(44.89 < value < 45.06 for value in stops["latitude"].to_pylist())
    assert all(-93.34 < value < -93.19 for value in stops["longitude"].to_pylist())
    income = datasets.load("income2000")["weekly_income"].to_pylist()
    assert all(math.isfinite(value) and value > 0 for value in income)
    assert len(set(datasets.load("voters2016")["state"].to_pylist())) == 51
    assert counted("voters2016", "voted_trump")[None] == 19_668


@pytest.mark.parametrize(("name", "column"), COUNTABLE)
def test_histograms_sum_to_the_whole_table(name, column):
    inputs = datasets.histogram_inputs(name, column, 37)
    total = np.sum(np.stack(list(inputs)), axis=0)
    assert dict(zip(inputs.categories, total.tolist(), strict=True)) == counted(name, column)


def test_one_client_holds_its_own_rows_in_file_order():
    inputs = datasets.histogram_inputs("adult", "education", 100)
    values = datasets.load("adult")["education"].to_pylist()
    start = 0
    for client, vector in enumerate(inputs):
        rows = inputs.rows_of(client)
        assert rows.start == start
        start = rows.stop
        own = Counter(values[rows.start : rows.stop])
        assert vector.tolist() == [own[category] for category in inputs.categories]
        assert vector.dtype == np.int64
        assert vector.shape == (16,)
    assert start == len(values)


@settings(max_examples=30, deadline=None)
@given(clients=st.integers(1, datasets.info("nursery").rows))
def test_parts_are_near_equal_and_cover_the_rows(clients):
    inputs = datasets.histogram_inputs("nursery", "finance", clients)
    parts = [inputs.rows_of(client) for client in range(clients)]
    assert len(inputs) == clients
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert (parts[0].start, parts[-1].stop) == (0, datasets.info("nursery").rows)
    sizes = {len(part) for part in parts}
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1


def test_inputs_behave_like_a_sequence():
    inputs = datasets.histogram_inputs("stops2017", "precinct", 5)
    assert inputs.categories == [1, 2, 3, 4, 5]
    assert np.asarray(inputs).shape == (5, 5)
    np.testing.assert_array_equal(inputs[-1], inputs[4])
    np.testing.assert_array_equal(np.stack(inputs[1:3]), np.asarray(inputs)[1:3])
    with pytest.raises(IndexError):
        inputs[5]
    with pytest.raises(IndexError):
        inputs.rows_of(-6)
    assert repr(inputs) == (
        "HistogramInputs(name='stops2017', column='precinct', clients=5, categories=5)"
    )


def test_missing_values_are_counted_last():
    inputs = datasets.histogram_inputs("voters2016", "income_bracket", 3)
    assert inputs.categories == [*range(1, 13), None]
    assert sum(int(vector[-1]) for vector in inputs) == 6_521
    assert None not in datasets.histogram_inputs("voters2016", "female", 3).categories


@pytest.mark.parametrize("name", ["adlt", "Adult", "", 4, None, ["adult"], True])
def test_unknown_table_is_refused_with_the_list(name):
    for call in (datasets.info, datasets.load):
        with pytest.raises(UsageError, match=", ".join(datasets.names())) as caught:
            call(name)
        assert caught.value.argument == "name"
    with pytest.raises(UsageError):
        datasets.histogram_inputs(name, "education", 2)


def test_a_near_miss_is_suggested():
    with pytest.raises(UsageError, match=r"Did you mean adult\?"):
        datasets.load("Adlt")
    with pytest.raises(UsageError, match=r"Did you mean education\?"):
        datasets.histogram_inputs("adult", "Educaton", 2)
    with pytest.raises(UsageError) as caught:
        datasets.load("zzzzzz")
    assert caught.value.hint == ""


@pytest.mark.parametrize("column", ["", "latitude", 3, None, ["education"]])
def test_unknown_column_is_refused(column):
    with pytest.raises(UsageError, match="hours_per_week") as caught:
        datasets.histogram_inputs("adult", column, 2)
    assert caught.value.argument == "column"


@pytest.mark.parametrize(
    ("name", "column", "usable"),
    [
        ("income2000", "weekly_income", "state, puma, education_years"),
        ("stops2017", "latitude", "problem, neighborhood, precinct"),
    ],
)
def test_continuous_column_is_refused_with_those_that_work(name, column, usable):
    with pytest.raises(UsageError, match=usable):
        datasets.histogram_inputs(name, column, 2)


def test_integer_column_of_too_many_values_is_refused(monkeypatch):
    monkeypatch.setattr("privagg.datasets.histograms.MAX_CATEGORIES", 73)
    with pytest.raises(UsageError) as caught:
        datasets.histogram_inputs("adult", "age", 2)
    assert "age" not in caught.value.allowed.split(": ")[1].split(", ")
    monkeypatch.setattr("privagg.datasets.histograms.MAX_CATEGORIES", 74)
    assert len(datasets.histogram_inputs("adult", "age", 2).categories) == 74


@pytest.mark.parametrize("clients", [0, -1, 12_961, True, 2.0, "2", None])
def test_impossible_number_of_clients_is_refused(clients):
    with pytest.raises(UsageError, match="12960") as caught:
        datasets.histogram_inputs("nursery", "class", clients)
    assert caught.value.argument == "clients"


def test_limits_of_the_number_of_clients_are_allowed():
    each = datasets.histogram_inputs("nursery", "class", np.int64(12_960))
    assert all(int(vector.sum()) == 1 for vector in each[:10])
    assert int(datasets.histogram_inputs("nursery", "class", 1)[0].sum()) == 12_960


def test_describing_tables_loads_neither_numpy_nor_pyarrow():
    code = (
        "import sys; from privagg import datasets; datasets.info(datasets.names()[0]);"
        "loaded = {'numpy', 'pyarrow'} & set(sys.modules); sys.exit(str(loaded) if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
