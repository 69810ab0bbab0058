"""Least squares from Parquet files: grouped, not grouped, and files that are refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privagg.errors import UsageError
from privagg.protocols.responses import files
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.files import read_statistics
from privagg.protocols.responses.fitting import statistics_of


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(files, "_ROWS", 7)


def table_of(rng, ids, order=None):
    ids = np.asarray(ids)
    x = rng.normal(size=(ids.size, 3))
    bags = Bags.given(ids)
    means = rng.normal(size=bags.count)
    order = np.arange(ids.size) if order is None else order
    table = pa.table(
        {
            "bag": ids[order],
            "response": means[bags.labels[:, 0]][order],
            **{f"x{i}": x[order, i] for i in range(3)},
        }
    )
    return table, x, bags, means


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("aggregate", ["mean", "sum"])
@pytest.mark.parametrize("text", [True, False])
def test_a_file_has_the_statistics_of_its_rows(tmp_path, rng, grouped, aggregate, text):
    ids = np.repeat(np.arange(9), [1, 2, 30, 4, 5, 1, 7, 8, 3])
    ids = np.array([f"b{i}" for i in ids]) if text else ids
    order = None if grouped else rng.permutation(ids.size)
    table, x, bags, means = table_of(rng, ids, order)
    pq.write_table(table, tmp_path / "a.parquet")
    found = read_statistics(
        tmp_path / "a.parquet", bag="bag", response="response", aggregate=aggregate, folds=3
    )
    scale = bags.sizes if aggregate == "sum" else 1
    expected = statistics_of(x, bags, (means / scale)[:, None])
    assert found.grouped == grouped
    assert found.features == ("x0", "x1", "x2")
    for made in (found.statistics, found.folds[0] + found.folds[1] + found.folds[2]):
        for name in vars(expected):
            assert np.allclose(getattr(made, name), getattr(expected, name)), name
    assert [part.bags for part in found.folds] == [3, 3, 3]


@pytest.mark.parametrize("order", [range(20), [*range(1, 20), 0]])
def test_two_responses_in_one_bag_are_refused(tmp_path, rng, order):
    table, *_ = table_of(rng, np.repeat([0, 1], 10), np.array(order))
    at = table.column_names.index("response")
    values = table["response"].to_numpy().copy()
    values[3] += 1
    pq.write_table(table.set_column(at, "response", pa.array(values)), tmp_path / "a.parquet")
    with pytest.raises(UsageError, match="two different ones for bag"):
        read_statistics(tmp_path / "a.parquet", bag="bag", response="response")


def test_other_files_are_refused(tmp_path, rng):
    path = tmp_path / "a.parquet"
    table, *_ = table_of(rng, np.repeat([0, 1], 3))
    changes = {
        "missing": ("x1", pa.array([1.0, None, 1, 1, 1, 1])),
        "not finite": ("x1", pa.array([1.0, np.nan, 1, 1, 1, 1])),
        "numbers": ("x1", pa.array(list("abcdef"))),
        "whole numbers or strings": ("bag", pa.array([0.5] * 6)),
    }
    for reason, (name, values) in changes.items():
        pq.write_table(table.set_column(table.column_names.index(name), name, values), path)
        with pytest.raises(UsageError, match=reason):
            read_statistics(path, bag="bag", response="response")
    pq.write_table(table, path)
    with pytest.raises(UsageError, match="columns"):
        read_statistics(path, bag="bags", response="response")
    with pytest.raises(UsageError, match="features"):
        read_statistics(path, bag="bag", response="response", features=[])
    pq.write_table(table.slice(0, 0), path)
    with pytest.raises(UsageError, match="no rows"):
        read_statistics(path, bag="bag", response="response")
    path.write_bytes(b"")
    with pytest.raises(UsageError, match="Parquet"):
        read_statistics(path, bag="bag", response="response")
