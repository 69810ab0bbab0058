"""``privagg ldp randomize``: respondents' values, ledger and memory; files larger than memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import privagg
from privagg.accounting import Ledger
from privagg.cli._ldp_files import open_ledger, write_private
from privagg.mechanisms.longitudinal import Longitudinal
from privagg.protocols.collection import Survey

SURVEY = """
[attributes.colour]
kind = "categorical"
values = ["red", "green", "blue"]
{unknown}
[attributes.age]
kind = "integer"
low = 0
high = 9
{clip}
[attributes.size]
kind = "float"
low = 0
high = 1
steps = 4
"""


@pytest.fixture(autouse=True)
def folder(in_a_folder):
    Path("one.toml").write_text(
        '[attributes.colour]\nkind = "categorical"\nvalues = ["red", "green", "blue"]\n'
    )


@pytest.fixture
def survey(ldp):
    def declare(unknown="", clip="", **more):
        text = SURVEY.format(
            unknown=f'unknown = "{unknown}"' if unknown else "",
            clip=f'unknown = "{clip}"' if clip else "",
        )
        Path("survey.toml").write_text(text)
        ldp("init", "--attributes", "survey.toml", "--epsilon", 2, "--out", "config.json")

    return declare


def randomize(ldp, text, name="mine.csv", code=0, *args):
    Path(name).write_text(text, encoding="utf-8")
    line = ("randomize", "config.json", "--input", name, "--out", "r.bin", *args)
    found = ldp(*line, code=code)
    assert Path("r.bin").exists() == (code == 0)
    assert not list(Path().glob(".privagg-*"))
    return found


HEAD = "age,colour,size,spare\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no rows"),
        (HEAD, "no rows"),
        ("age,size\n1,0.5\n", "no column 'colour'"),
        ("age,colour,size,age\n1,red,0.5,2\n", "two columns 'age'"),
        (HEAD + "1,red,0.5,x\n\n2,red,0.5,x\n", "mine.csv, line 3"),
        (HEAD + '1,red,0.5,"x\n\n"\n2,red,0.5,x\r\n\r\n', "mine.csv, line 6"),
        (HEAD + "1,red,0.5,x\n2,red,0.5\n", "not readable"),
        (HEAD + "secret,red,0.5,x\n", "not readable"),
        (HEAD + "1.5,red,0.5,x\n", "not readable"),
        (HEAD + "1,red,0.5,x\n,red,0.5,x\n", "column 'age'"),
        (HEAD + "1,secret,0.5,x\n", "column 'colour'"),
        (HEAD + "1,,0.5,x\n", "column 'colour'"),
        (HEAD + "77,red,0.5,x\n", "column 'age'"),
        (HEAD + "7,red,77,x\n", "column 'size'"),
        (HEAD + "7,red,nan,x\n", "column 'size'"),
    ],
)
def test_what_is_refused_names_the_file_and_no_value(ldp, survey, text, words):
    survey()
    error = randomize(ldp, text, code=2)
    assert words in error["message"]
    assert error["argument"].startswith("mine.csv")
    assert "secret" not in error["message"]
    assert "77" not in error["message"]


def test_policies_take_what_is_outside(ldp, survey):
    survey("other", "clip")
    rows = "1,red,0.5,x\n77,mauve,0.25,x\n-3,,1,x\n"
    found = randomize(ldp, "\ufeff" + HEAD + rows)
    assert found["reports"] == 3
    # How many values were outside is said nowhere.
    assert not {"unknown", "clipped", "truth"} & set(found)
    # A missing number has no nearer end.
    Path("r.bin").unlink()
    assert "column 'age'" in randomize(ldp, HEAD + ",red,0.5,x\n", code=2)["message"]


def test_blank_lines_within_quotes_are_values(ldp, survey):
    survey()
    assert randomize(ldp, HEAD + '1,red,0.5,"x\n\n"\n2,red,0.5,x\n')["reports"] == 2


def test_types_of_parquet_columns(ldp, survey):
    survey("other", "clip")
    line = ("randomize", "config.json", "--input", "m.parquet", "--out", "r.bin")
    good = {"age": [3, 99], "colour": ["red", None], "size": [0.5, 1.0]}
    parquet.write_table(pa.table(good), "m.parquet")
    assert ldp(*line)["reports"] == 2
    words = pa.array(["red", "no"]).dictionary_encode()
    parquet.write_table(pa.table({**good, "colour": words}), "m.parquet")
    assert ldp(*line)["reports"] == 2
    parquet.write_table(pa.table({**good, "age": ["3", "4"]}), "m.parquet")
    assert "column 'age'" in ldp(*line, code=2)["message"]
    parquet.write_table(pa.table({**good, "age": [None, None]}), "m.parquet")
    assert "column 'age'" in ldp(*line, code=2)["message"]
    parquet.write_table(pa.table({"age": [3]}), "m.parquet")
    assert "no column 'colour'" in ldp(*line, code=2)["message"]
    parquet.write_table(pa.table(good).slice(0, 0), "m.parquet")
    assert "no rows" in ldp(*line, code=2)["message"]
    for data in (b"", b"PAR1", Path("one.toml").read_bytes()):
        Path("m.parquet").write_bytes(data)
        assert ldp(*line, code=2)["argument"] == "m.parquet"
    Path("m.txt").write_text("x")
    line = ("randomize", "config.json", "--input", "m.txt", "--out", "r.bin")
    assert ".parquet or .csv" in ldp(*line, code=2)["message"]


def test_words_for_nothing_are_words(ldp):
    Path("n.toml").write_text(
        '[attributes.answer]\nkind = "categorical"\nvalues = ["NA", "null", "yes"]\n'
    )
    ldp("init", "--attributes", "n.toml", "--epsilon", 1, "--out", "config.json")
    assert randomize(ldp, "answer\nNA\nnull\nyes\n")["reports"] == 3


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["init", "--epsilon", 1, "--attributes", "one.toml"], "--out"),
        (["init", "--epsilon", 0, "--attributes", "one.toml", "--out", "c"], "--epsilon"),
        (["init", "--epsilon", "nan", "--attributes", "one.toml", "--out", "c"], "--epsilon"),
        (["init", "--epsilon", 800, "--attributes", "one.toml", "--out", "c"], "epsilon"),
        (["init", "--epsilon", 1, "--attributes", "no.toml", "--out", "c"], "no.toml"),
        (
            ["init", "--epsilon", 1, "--attributes", "one.toml", "--out", "c", "--mechanism", "x"],
            "--mechanism",
        ),
        (
            ["init", "--epsilon", 1, "--attributes", "one.toml", "--out", "c", "--option", "g"],
            "--option",
        ),
        (
            ["init", "--epsilon", 1, "--attributes", "one.toml", "--out", "c", "--option", "g=4"],
            "adp",
        ),
        (
            ["init", "--epsilon", 1, "--attributes", "one.toml", "--out", "c", "--protocol", "spl"],
            "--protocol",
        ),
        (["init", "--epsilon", 1, "--attributes", "one.toml", "--out", "one.toml"], "--out"),
        (["estimate", "one.toml"], "one.toml"),
        (["aggregate", "one.toml"], "FILE"),
    ],
)
def test_options_that_cannot_be(ask, args, words):
    code, data, _ = ask("ldp", *args)
    assert code == (4 if args[0] == "estimate" else 2)
    assert words in data["error"]["message"]
    assert not Path("c").exists()


def test_a_ledger_is_charged_before_reports_have_a_name(ldp, survey):
    survey()
    text = "who,age,colour,size\n" + "".join(f"p{i},{i},red,0.5\n" for i in range(4))
    args = ("--ledger", "ledger.json", "--id", "who")
    first = randomize(ldp, text, "mine.csv", 0, *args, "--limit", 3)
    assert 1.999 < first["spent_most"] <= 2
    ledger = Ledger.decode(Path("ledger.json").read_bytes())
    assert ledger.limit == 3
    assert {one.respondent for one in ledger.entries} == {"p0", "p1", "p2", "p3"}
    assert Path("ledger.json").stat().st_mode & 0o077 == 0
    before = Path("ledger.json").read_bytes()
    Path("r.bin").unlink()
    # Beyond the limit nobody reports, though one of them could.
    text = "who,age,colour,size\nnew,1,red,0.5\np2,1,red,0.5\n"
    error = randomize(ldp, text, "mine.csv", 2, *args, "--round", 1)
    assert "1 of 3 is left" in error["message"]
    # Nor is anybody charged for what was refused.
    text = "who,age,colour,size\nnew,1,red,0.5\nother,1,mauve,0.5\n"
    randomize(ldp, text, "mine.csv", 2, *args)
    assert Path("ledger.json").read_bytes() == before
    error = randomize(ldp, "who,age,colour,size\nnew,1,red,1\n", "mine.csv", 2, *args, "--limit", 9)
    assert error["argument"] == "--limit"
    Path("ledger.json").write_text("{}")
    error = randomize(ldp, "who,age,colour,size\nnew,1,red,1\n", "mine.csv", 2, *args)
    assert "ledger.json" in error["argument"]


def test_a_pipe_gets_reports_only_when_they_are_charged(ldp, survey):
    survey()
    os.mkfifo("pipe")
    columns = "who,age,colour,size\n"
    args = ("randomize", "config.json", "--input", "mine.csv", "--out", "pipe")
    args += ("--ledger", "ledger.json", "--id", "who")
    # Some reports of this file are in the pipe when the last of its rows is refused.
    rows = "".join(f"p{number},1,red,0.5\n" for number in range(70_000))
    Path("mine.csv").write_text(columns + rows + "last,1,mauve,0.5\n")
    with ThreadPoolExecutor(1) as pool:
        got = pool.submit(Path("pipe").read_bytes)
        ldp(*args, code=2)
        assert len(got.result()) > 1000
    ledger = Ledger.decode(Path("ledger.json").read_bytes())
    assert 1.99 < ledger.spent("p0") <= 2


def test_numbers_and_their_digits_are_one_respondent(ldp):
    ldp("init", "--attributes", "one.toml", "--epsilon", 1, "--out", "config.json")
    args = ("randomize", "config.json", "--out", "r.bin", "--ledger", "l.json", "--id", "who")
    Path("mine.csv").write_text("who,colour\n7,red\n")
    ldp(*args, "--input", "mine.csv", "--limit", 1)
    parquet.write_table(pa.table({"who": [7], "colour": ["red"]}), "mine.parquet")
    assert "is left" in ldp(*args, "--input", "mine.parquet", code=2)["message"]


def test_a_ledger_knows_who(ldp, survey):
    survey()
    one, two = "age,colour,size\n1,red,0.5\n", "age,colour,size\n1,red,0.5\n2,red,0.5\n"
    args = ("--ledger", "ledger.json")
    assert "neither" in randomize(ldp, one, "mine.csv", 2, *args)["message"]
    assert "2 rows" in randomize(ldp, two, "mine.csv", 2, *args, "--respondent", "me")["message"]
    assert "--id" in randomize(ldp, one, "mine.csv", 2, *args, "--id", "colour")["message"]
    assert "'who'" in randomize(ldp, one, "mine.csv", 2, *args, "--id", "who")["message"]
    text = "who,age,colour,size\na,1,red,0.5\na,2,red,0.5\n"
    assert "twice" in randomize(ldp, text, "mine.csv", 2, *args, "--id", "who")["message"]
    text = "who,age,colour,size\na,1,red,0.5\n,2,red,0.5\n"
    assert "no name" in randomize(ldp, text, "mine.csv", 2, *args, "--id", "who")["message"]
    assert randomize(ldp, one, "mine.csv", 2, "--respondent", "me")["argument"] == "--respondent"
    assert not Path("ledger.json").exists()
    randomize(ldp, one, "mine.csv", 0, *args, "--respondent", "me")
    (entry,) = Ledger.decode(Path("ledger.json").read_bytes()).entries
    config = json.loads(Path("config.json").read_text())
    assert (entry.respondent, entry.survey) == ("me", config["digest"][:16])


def test_those_who_share_a_ledger_wait_for_each_other():
    path = Path("ledger.json")

    def charge(who):
        with open_ledger(path, None) as ledger:
            ledger.spend(who, 1.0, survey="s")
            time.sleep(0.01)
            write_private(path, ledger.encode())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(charge, [f"p{number % 5}" for number in range(20)]))
    ledger = Ledger.decode(path.read_bytes())
    assert [ledger.spent(f"p{number}") for number in range(5)] == [4.0] * 5


def test_repeated_surveys_remember_permanent_answers(ldp):
    args = ("--attributes", "one.toml", "--epsilon", 1, "--mechanism", "loloha", "--out")
    ldp("init", *args, "config.json", "--option", "permanent=1.5", "--option", "g=2")
    text = "colour\n" + "red\n" * 300
    spent = []
    for _ in range(3):
        spent.append(randomize(ldp, text, "mine.csv", 0, "--memory", "m.bin")["spent_most"])
        Path("r.bin").unlink()
    assert spent == [1, 1.5, 1.5]
    assert Path("m.bin").stat().st_mode & 0o077 == 0
    # Two who begin at once share one permanent answer: neither is lost.
    Path("m.bin").unlink()
    line = [sys.executable, "-m", "privagg", "ldp", "randomize", "config.json"]
    line += ["--input", "mine.csv", "--memory", "m.bin", "--quiet", "--out"]
    here = {**os.environ, "PYTHONPATH": str(Path(privagg.__file__).parents[1])}
    quiet = subprocess.DEVNULL
    both = [subprocess.Popen([*line, name], stdout=quiet, env=here) for name in ("a", "b")]
    assert [one.wait() for one in both] == [0, 0]
    assert randomize(ldp, text, "mine.csv", 0, "--memory", "m.bin")["spent_most"] == 1.5
    config = Survey.decode(Path("config.json").read_bytes()).mechanism
    assert isinstance(config, Longitudinal)
    memory = config.load_memory(Path("m.bin").read_bytes())
    assert memory._uses.sum() == 900
    Path("r.bin").unlink()
    error = randomize(ldp, "colour\nred\n", "mine.csv", 2, "--memory", "m.bin")
    assert "300 rows" in error["message"]
    args = ("--memory", "m.bin", "--ledger", "l.json", "--respondent", "me")
    assert randomize(ldp, text, "mine.csv", 2, *args)["argument"] == "--memory"
    ldp("init", "--attributes", "one.toml", "--epsilon", 1, "--out", "config.json")
    assert "loloha" in randomize(ldp, text, "mine.csv", 2, "--memory", "n.bin")["message"]


MEMORY = """
import sys
from pathlib import Path
from privagg.cli.main import run
run(["ldp", "randomize", "config.json", "--input", sys.argv[1], "--out", "r.bin", "--quiet"])
run(["ldp", "aggregate", "config.json", "r.bin", "--out", "s.bin", "--quiet"])
# Not ru_maxrss, which counts what the process had that started this one.
lines = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024)
"""


def peak(name):
    line = [sys.executable, "-c", MEMORY, name]
    return int(subprocess.run(line, check=True, capture_output=True, text=True).stdout.split()[-1])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is there")
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_memory_does_not_grow_with_the_file(ldp, suffix):
    args = ("--attributes", "one.toml", "--epsilon", 1, "--mechanism", "olh", "--out")
    ldp("init", *args, "config.json")
    words = pa.array(["red", "green", "blue"])
    for n, name in ((100_000, "small"), (2_000_000, "large")):
        if suffix == ".csv":
            with open(name + suffix, "w") as file:
                file.write("colour\n")
                for _ in range(n // 100_000):
                    file.write("green\n" * 100_000)
            continue
        with parquet.ParquetWriter(name + suffix, pa.schema({"colour": pa.string()})) as writer:
            for start in range(0, n, 100_000):
                at = (np.arange(100_000) + start) % 3
                writer.write_table(pa.table({"colour": words.take(pa.array(at))}))
    # The words as objects are more than 100 MB; the reader's buffers fill up with a large file.
    assert peak("large" + suffix) - peak("small" + suffix) < 60_000_000
    assert Path("r.bin").stat().st_size > 800_000
