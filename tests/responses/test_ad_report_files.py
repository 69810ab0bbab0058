from __future__ import annotations

import gzip

import numpy as np
import pytest

from privagg.errors import UsageError
from privagg.protocols.responses.reports import AggregateLogistic, read_criteo, read_criteo_rows

SINGLES = """feature_1_value,feature_1_id,count,nb_clicks,nb_sales
900,0,50.5,10.2,1
-7,0,30,3,0
12,1,40,8,2
13,1,35,-1.5,0
14,1,5,1,0
"""
PAIRS = """feature_1_value,feature_2_value,feature_1_id,feature_2_id,count,nb_clicks,nb_sales
900,12,0,1,30,7,1
13,-7,1,0,20,2,0
900,14,0,1,4,1,0
"""
ROWS = "hash_0,hash_1,click,sale\n900,12,1,0\n-7,13,0,0\n5,14,1,1\n"


@pytest.fixture
def write(tmp_path):
    def call(text, name):
        path = tmp_path / name
        if name.endswith(".gz"):
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text, encoding="utf-8")
        return path

    return call


def test_files_of_the_challenge_s_shape(write):
    found = read_criteo(write(SINGLES, "s.csv"), write(PAIRS, "p.csv.gz"))
    assert [some.tolist() for some in found.hashes] == [[-7, 900], [12, 13, 14]]
    layout = found.tables.layout
    assert layout.cardinalities == (3, 4)
    hashed, labels = read_criteo_rows(write(ROWS, "r.csv"))
    codes = found.codes(hashed)
    assert codes.tolist() == [[1, 0], [0, 1], [2, 2]]
    assert labels.tolist() == [1, 0, 1]
    index = layout.index(codes)
    assert found.tables.displays[index].tolist() == [[50.5, 40, 30], [30, 35, 20], [0, 5, 0]]
    assert found.tables.clicks[index[1]].tolist() == [3, -1.5, 2]
    assert found.tables.kept[index].tolist() == [[True] * 3, [True] * 3, [False, True, False]]
    assert found.tables.kept.sum() == 8
    AggregateLogistic(10.0).fit(found.tables, codes).predict(codes)
    sales = read_criteo(write(SINGLES, "s.csv"), label="sale")
    assert sales.tables.clicks.sum() == 3
    assert sales.tables.layout.cells == 7


def test_rare_hashes_are_put_together(write):
    found = read_criteo(write(SINGLES, "s.csv"), write(PAIRS, "p.csv"), most=1)
    assert [some.tolist() for some in found.hashes] == [[900], [12]]
    assert found.tables.displays.tolist() == [50.5, 30, 40, 40, 30, 4, 0, 20]
    assert found.codes([[900, 13], [-7, 12]]).tolist() == [[0, 1], [1, 0]]


def test_the_names_of_other_copies(write):
    text = SINGLES.replace("nb_clicks", "click").replace("nb_sales", "sale")
    assert read_criteo(write(text, "s.csv")).tables.clicks.sum() == pytest.approx(20.7)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("feature_1_id", "feature_id", "a column 'feature_id'"),
        (",nb_sales", ",more", "a column 'more'"),
        (",1\n", "\n", "ArrowInvalid"),
        ("900,0", "900,7", "without gaps"),
        ("900,0,50.5", "900,0,", "with gaps"),
        ("900,0,50.5", "900,0,x", "no numbers"),
        ("900,0,50.5", "900,0,nan", "no numbers"),
        ("900,0", "-7,0", "a cell twice"),
        ("900", "900.5", "whole numbers"),
        (",nb_clicks", ",count", "two columns"),
    ],
)
def test_bad_singles(write, old, new, match):
    with pytest.raises(UsageError, match=match):
        read_criteo(write(SINGLES.replace(old, new, 1), "s.csv"))


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("900,12,0,1", "900,12,0,0", "with itself"),
        ("900,12,0,1", "900,12,0,9", "the singles lack"),
        ("900,12,0,1", "900,77,0,1", "a hash that the singles lack"),
        ("13,-7,1,0", "12,900,1,0", "a cell twice"),
        ("feature_2_id", "feature_3_id", "a column"),
    ],
)
def test_bad_pairs(write, old, new, match):
    with pytest.raises(UsageError, match=match):
        read_criteo(write(SINGLES, "s.csv"), write(PAIRS.replace(old, new, 1), "p.csv"))


def test_bad_rows_and_arguments(write, tmp_path):
    for text in (ROWS.replace("hash_1", "hash_2"), ROWS.replace(",1,0\n", ",2,0\n", 1)):
        with pytest.raises(UsageError):
            read_criteo_rows(write(text, "r.csv"))
    singles = write(SINGLES, "s.csv")
    for call in (
        lambda: read_criteo(tmp_path / "missing.csv"),
        lambda: read_criteo(singles, label="buy"),
        lambda: read_criteo_rows(singles, label="buy"),
        lambda: read_criteo(singles, most=0),
        lambda: read_criteo(singles).codes(np.zeros((2, 3), int)),
        lambda: read_criteo(singles).codes(np.zeros((2, 2))),
    ):
        with pytest.raises(UsageError):
            call()
