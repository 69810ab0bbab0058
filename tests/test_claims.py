"""The pages of claims and of benchmarks are those of their lists and of what was run."""

from __future__ import annotations

import dataclasses
import importlib
import re
import shlex
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

from privagg.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
# First on the path: other packages have modules of such names, too.
sys.path.insert(0, str(ROOT / "scripts"))

benchmarks, claims, claims_list, claims_page, claims_run = (
    importlib.import_module(name)
    for name in ("benchmarks", "claims", "claims_list", "claims_page", "claims_run")
)

AREAS = claims_list.areas()
CLAIMS = [claim for area in AREAS for claim in area.claims]
COMMAND_LINES = sorted({command for claim in CLAIMS for command in claim.run})


def test_pages_are_those_of_the_lists_and_of_what_was_run(capsys):
    assert claims.main(["--check"]) == 0, capsys.readouterr().err
    assert benchmarks.main(["--check"]) == 0, capsys.readouterr().err


def test_every_claim_that_does_not_hold_is_in_its_table_with_the_reason():
    store = claims.stored()
    page = claims_page.render(AREAS, store)
    known = store["claims"]
    run = [claim for claim in CLAIMS if claim.name in known]
    failing = [claim for claim in run if not claim.holds(known[claim.name]["got"])]
    assert failing
    for claim in failing:
        assert claim.because in page
        assert re.search(rf"^\| {re.escape(claim.says)} .*\*\*no\*\*", page, re.MULTILINE)
    assert page.count("**no**") == len(failing)


@pytest.mark.parametrize("name", ["expansion-1024", "share-length"])
def test_a_cheap_claim_gives_what_is_stored(name):
    (claim,) = (one for one in CLAIMS if one.name == name)
    got = claims_run.value(claim, claims_run.start([claim], 1))
    assert got == pytest.approx(claims.stored()["claims"][name]["got"], rel=1e-12)
    assert claim.holds(got)


def has(node):
    path, _, name = node.partition("::")
    file = ROOT / path
    return file.is_file() and (not name or f"def {name}(" in file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_commands_exist(line):
    for part in claims_list.parts(line):
        program, first, *rest = shlex.split(part)
        if program == "privagg":
            assert rest[0] in COMMANDS[first].children
            assert rest[-1] == "--json"
        elif program == "python":
            assert (ROOT / first).is_file()
        else:
            assert program == "pytest"
            nodes = claims_run.nodes(part)
            assert nodes
            assert [node for node in nodes if not has(node)] == []


def finished(result):
    future = Future()
    future.set_result(result)
    return future


def claim_of(value, compare, stated):
    return claims_list.Claim(
        name="x", says="x", source="x", run=("c",), value=value, compare=compare, stated=stated
    )


DOCUMENT = {
    "a": 6,
    "b": {"c d": [1, 2, 3], "e": True},
    "rows": [{"who": "we", "n": 4, "on": True}, {"who": "they, too", "n": 8, "on": False}],
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a", 6),
        ("b.e", True),
        ("b[c d][1]", 2),
        ("max:b[c d][*]", 3),
        ("mean:rows[*].n", 6),
        ("rows[who=they, too].n / rows[who=we].n", 2),
        ("rows[on=true;who=we].n * 2 - 1", 7),
        ("sum:b[c d][*] / a", 1),
    ],
)
def test_values_are_found(expression, expected):
    known = {"c": finished(DOCUMENT)}
    assert claims_run.value(claim_of(expression, "equal", 0), known) == expected


@pytest.mark.parametrize("expression", ["z", "rows[who=nobody].n", "rows[*].n", "b", "b.e + 1"])
def test_values_that_are_not_there_are_told(expression):
    with pytest.raises(claims_run.Failed, match="no value at"):
        claims_run.value(claim_of(expression, "equal", 0), {"c": finished(DOCUMENT)})


@pytest.mark.parametrize(
    ("compare", "stated", "good", "bad"),
    [
        ("equal", "EXACT", "EXACT", "HIDDEN"),
        ("at least", 2, 2.0, 1.99),
        ("at most", 2, 2, 2.01),
        ("within 1 %", 200, 202, 202.1),
        ("within 0.5", -1, -1.5, -1.6),
    ],
)
def test_comparisons(compare, stated, good, bad):
    claim = claim_of("a", compare, stated)
    assert claim.holds(good)
    assert not claim.holds(bad)


def test_a_claim_that_fails_or_was_not_run_is_told():
    area = claims_list.Area("x", "X", (), "", (claim_of("a", "at most", 5),))
    store = {"claims": {"x": {"run": ["c"], "value": "a", "got": 6, "failed": ""}}}
    assert claims.problems([area], store) == ["x: does not hold (6, stated 5)"]
    store["claims"]["x"]["run"] = ["d"]
    assert "its command is another" in claims.problems([area], store)[0]
    assert claims.problems([area], {"claims": {}}) == ["x: never run"]
    assert claims.problems([area], {"claims": {}}, fast=True) == ["x: never run"]
    slow = claims_list.Area("x", "X", (), "", (dataclasses.replace(area.claims[0], slow=True),))
    assert claims.problems([slow], {"claims": {}}, fast=True) == []


def test_tests_that_were_skipped_or_failed_show_nothing():
    problem = claims_run._problem
    command = "pytest tests/a.py::test_x tests/b.py"
    both = [("PASSED", "tests/a.py::test_x[1]"), ("PASSED", "tests/b.py::test_y")]
    assert problem(command, both, "") == ""
    assert "no test of tests/b.py passed" in problem(command, both[:1], "1 skipped")
    assert problem(command, [*both, ("FAILED", "tests/b.py::test_z")], "") == "test_z failed"
