"""Tables in which a client could be lost, made of a header, or given another number."""

from __future__ import annotations

import numpy as np
import pytest

from privagg.cli.inputs import extremes, read_inputs
from privagg.errors import UsageError


def load(path, **settings):
    inputs = read_inputs(path, **settings)
    extremes(inputs)
    return [inputs.vectors[client] for client in range(inputs.clients)]


def refuse(path, *words, **settings):
    with pytest.raises(UsageError) as caught:
        load(path, **settings)
    for word in (path.name, *words):
        assert word in str(caught.value)


@pytest.fixture
def table(tmp_path):
    def write(content):
        path = tmp_path / "x.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x\n1\n\n3\n", 3),
        ("x\n\n1\n3\n", 2),
        ("\nx\n1\n3\n", 1),
        ("x,y\n1,2\n\n3,4\n", 3),
        ("x\n1\n3\n\n", 4),
        ("x\r\n1\r\n\r\n3\r\n", 3),
        ("x\r1\r\r3\r", 3),
        ("x\n1\n  \t\n3\n", 3),
        ('x,"a\n\nb"\n1,2\n\n3,4\n', 5),
    ],
)
def test_a_blank_row_is_refused_with_its_line(table, text, line):
    refuse(table(text), f"line {line}:", "blank")


def test_a_blank_line_within_quotes_is_text(table):
    path = table('x,"a\n\nb"\n1,2\n3,4\n')
    assert np.array_equal(load(path), [[1, 2], [3, 4]])


@pytest.mark.parametrize("first", ["1,2", "0,1", " 1,2", "1,", "1,NA", "nan,2", "1e3,-2.5"])
def test_a_first_line_of_numbers_must_be_explained(table, first):
    path = table(f"{first}\n3,4\n5,6\n")
    refuse(path, "line 1", "--no-header", "--header")
    assert np.array_equal(load(path, header=True), [[3, 4], [5, 6]])


def test_a_first_line_can_be_a_row_or_names(table):
    path = table("1,2\n3,4\n5,6\n")
    assert np.array_equal(load(path, header=False), [[1, 2], [3, 4], [5, 6]])
    assert read_inputs(path, header=True).labels == ("1", "2")
    assert read_inputs(path, header=False, columns=["f1"]).labels == ("f1",)
    refuse(table("a,b\n3,4\n5,6\n"), "'a'", header=False)


def test_a_header_with_one_word_is_a_header(table):
    assert read_inputs(table("1,pay\n3,4\n5,6\n")).labels == ("1", "pay")


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (f"x\n1\n{2**63}\n", 2),
        (f"x\n-{2**63 + 1}\n1\n", 1),
        (f"x\n1\n{2**64}\n", 2),
        (f"x\n1.5\n{2**53 + 1}\n", 2),
        (f"x\n1.5\n +{2**53 + 1} \n", 2),
        (f"x\n1\n{'1' * 5000}\n", 2),
        ("x\n1\n0xFFFFFFFFFFFFFFFF\n", 2),
        ("x\n1\n0x8000000000000000\n", 2),
    ],
)
def test_integers_that_would_be_rounded_or_wrapped(table, text, row):
    refuse(table(text), f"data row {row}", "'x'", "2**63")


def test_integers_that_fit_are_kept(table):
    assert load(table(f"x\n{2**63 - 1}\n{-(2**63) + 1}\n")) == [[2**63 - 1], [-(2**63) + 1]]
    assert load(table(f"x\n{2**53}\n0.5\n")) == [[2.0**53], [0.5]]
    assert load(table("x\n-3\n0xFF\n")) == [[-3], [255]]


def test_only_the_columns_that_are_summed_are_looked_at(table):
    path = table(f"id,x,n\n{2**70},1,2\n{2**70 + 1},3,4\n")
    assert load(path, columns=["x"]) == [[1], [3]]
    refuse(path, "'id'", columns=["id"])


@pytest.mark.parametrize(
    "content",
    [
        b"\xe9,b\n1,2\n3,4\n",
        b"a,b\n\xe9,2\n3,4\n",
        b"\xff\xfea\x00\n\x001\x00\n\x00",
        b"\x00\x00\n\x00\n",
        b'"a\n1\n2\n',
        b'a,b\n1,"2\n3,4\n',
        b"\n",
        b"a" * 100_000,
        b"PK\x03\x04" + bytes(range(256)) * 4,
    ],
)
def test_tables_of_other_bytes(table, content):
    refuse(table(content))
