"""``privagg ldp``: a survey, reports, a state, estimates."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from privagg.accounting import Ledger
from privagg.cli import ldp_estimate
from privagg.entropy import from_seed
from privagg.mechanisms import MECHANISMS, METHODS, FrequencyOracle, State
from privagg.mechanisms.state import MAX_REPORTS
from privagg.protocols.collection import Collector, Survey, decode_state

COLOUR = """
[attributes.colour]
kind = "categorical"
values = ["red", "green", "blue"]
unknown = "other"
"""
MORE = """
[attributes.age]
kind = "integer"
low = 0
high = 9
unknown = "clip"

[attributes.adult]
kind = "boolean"
"""
N = 6000


@pytest.fixture(autouse=True)
def folder(in_a_folder):
    Path("one.toml").write_text(COLOUR)
    Path("several.toml").write_text(COLOUR + MORE)
    table = people(N)
    parquet.write_table(table, "mine.parquet", row_group_size=1000)
    Path("mine.csv").write_text(as_csv(table))


def people(n):
    at = np.arange(n)
    return pa.table(
        {
            "spare": at / 7,
            "colour": np.array(["red", "red", "green", "mauve"])[at % 4],
            "age": at % 12,
            "adult": at % 5 > 0,
            "name": [f"p{i}" for i in at],
        }
    )


def as_csv(table):
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(table.column_names)
    writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return file.getvalue()


@pytest.fixture
def init(ldp):
    def call(source="one.toml", out="config.json", epsilon=1, **options):
        given = [part for k, v in options.items() for part in (f"--{k.replace('_', '-')}", v)]
        return ldp("init", "--attributes", source, "--epsilon", epsilon, "--out", out, *given)

    return call


TRUTH = {
    "colour": [0.5, 0.25, 0, 0.25],
    "age": [1 / 12] * 9 + [3 / 12],
    "adult": [0.2, 0.8],
}


@pytest.mark.parametrize("source", ["mine.parquet", "mine.csv"])
@pytest.mark.parametrize(
    ("attributes", "options"),
    [
        ("one.toml", {}),
        ("one.toml", {"mechanism": "lh", "option": "g=4"}),
        ("one.toml", {"mechanism": "ss"}),
        ("several.toml", {}),
        ("several.toml", {"protocol": "spl", "mechanism": "oue"}),
        ("several.toml", {"protocol": "rs+fd", "calibration": "attribute"}),
        ("several.toml", {"protocol": "rs+rfd", "mechanism": "grr"}),
    ],
    ids=str,
)
def test_a_collection_from_end_to_end(ldp, init, attributes, options, source):
    made = init(attributes, epsilon=4, **options)
    sent = ldp("randomize", "config.json", "--input", source, "--out", "r.bin")
    assert (sent["reports"], sent["insecure_seed"]) == (N, False)
    state = ldp("aggregate", "config.json", "r.bin", "--out", "state.bin")
    assert (state["reports"], state["digest"]) == (N, made["digest"])
    found = ldp("estimate", "state.bin", "--post", "none")
    assert found["users"] == N
    assert found["insecure_seed"] is False
    assert list(found["attributes"]) == list(found["estimates"]) == list(made["attributes"])
    for name, rows in found["estimates"].items():
        assert len(rows) == len(TRUTH[name])
        for row, truth in zip(rows, TRUTH[name], strict=True):
            # Six deviations: once in 10**8 for each.
            assert abs(row["raw"] - truth) <= 6 * row["deviation"] + 1e-9
            assert row["low"] < row["raw"] < row["high"]
    # On the wire: the report's own bits, and a header for each batch.
    assert sent["bytes"] <= N * sent["bytes_per_report"] * 1.3 + 200


def test_posts_are_those_of_the_library():
    assert set(ldp_estimate.POSTS) == {*METHODS, "none"}


def test_every_oracle_can_be_declared(init):
    options = {"ue": {"option": "p=0.5"}, "lh": {"option": "g=3"}}
    for name, kind in MECHANISMS.items():
        if not issubclass(kind, FrequencyOracle) or name == "rr":  # rr needs a table
            continue
        given = options.get(name, {})
        assert init(mechanism=name, **given)["mechanism"] == name
        survey = Survey.decode(Path("config.json").read_bytes())
        collector = Collector(survey)
        collector.receive(survey.randomize({"colour": ["red", None] * 40}).encode())
        assert collector.estimate()["colour"].users == 80


def test_the_configuration_is_canonical(init):
    first = init("several.toml", "a.json", protocol="rs+fd")
    assert init("several.toml", "b.json", protocol="rs+fd") | {"config": "a.json"} == first
    text = Path("a.json").read_bytes()
    assert text == Path("b.json").read_bytes()
    assert text.isascii()
    table = json.loads(text)
    assert table["digest"] == first["digest"]
    assert list(table["survey"]["attributes"][1]["domain"]) == sorted(
        table["survey"]["attributes"][1]["domain"]
    )
    assert (
        init("several.toml", "c.json", protocol="rs+fd", epsilon=1.5)["digest"] != table["digest"]
    )


def test_the_attribute_s_name_is_in_the_digest(init):
    first = init()
    Path("two.toml").write_text(COLOUR.replace("colour", "color"))
    assert init("two.toml")["digest"] != first["digest"]


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda t: t.replace('"epsilon": 1.0', '"epsilon": 9.0'), 4, "changed after it was made"),
        (lambda t: t.replace('"red"', '"rad"'), 4, "changed after it was made"),
        (lambda t: t.replace('"digest": "', '"digest": "0'), 4, "digest"),
        (lambda t: t.replace("  ", " "), 2, "one form"),
        (lambda t: t.replace('"format"', '"more": 1, "format"'), 2, "unknown field"),
        (lambda t: t.replace('"epsilon": 1.0', '"epsilon": 1.0, "epsilon": 1.0'), 2, "one form"),
        (lambda t: t.replace('"mechanism": "grr"', '"mechanism": "gr"'), 2, "mechanism"),
        (lambda t: t.replace('"survey": {', '"survey": {"x": 1, '), 2, "unknown"),
        (lambda t: t.replace("survey 1", "survey 2"), 2, "format"),
        (lambda t: t[: len(t) // 2], 2, "truncated"),
        (lambda t: "", 2, "truncated"),
        (lambda t: "[1]", 2, "object"),
        (lambda t: t.replace('"epsilon": 1.0', '"epsilon": 1' + 400 * "0"), 2, "config.json"),
        (lambda t: "[" * 100_000, 2, "config.json"),
        (lambda t: '{"digest": "", "format": "privagg survey 1", "survey": {}}', 2, "config.json"),
    ],
)
def test_a_changed_configuration_is_refused(ldp, init, change, code, words):
    init()
    text = Path("config.json").read_text()
    changed = change(text)
    assert changed != text
    Path("config.json").write_text(changed)
    args = ("randomize", "config.json", "--input", "mine.csv", "--out", "r.bin")
    error = ldp(*args, code=code)
    assert words in error["message"]
    assert "config.json" in error["message"]
    assert not Path("r.bin").exists()


def test_reports_of_another_survey_are_refused(ldp, init):
    init(out="a.json")
    init(out="b.json", epsilon=2)
    ldp("randomize", "b.json", "--input", "mine.csv", "--out", "r.bin")
    error = ldp("aggregate", "a.json", "r.bin", "--out", "s.bin", code=4)
    assert (error["type"], error["peer"], error["round"]) == ("PeerError", "r.bin", "reports")
    ldp("aggregate", "b.json", "r.bin", "--out", "s.bin")
    assert ldp("aggregate", "a.json", "s.bin", "--out", "t.bin", code=4)["round"] == "state"
    assert ldp("estimate", "s.bin", "--survey", "a.json", code=4)["round"] == "state"
    assert ldp("estimate", "s.bin", "--survey", "b.json")["users"] == N
    assert not Path("t.bin").exists()


def test_states_and_reports_merge_to_the_state_of_all(ldp, init):
    init("several.toml")
    for at in range(3):
        args = ("--input", "mine.csv", "--seed", at, "--out", f"r{at}.bin")
        ldp("randomize", "config.json", *args)
    whole = ldp("aggregate", "config.json", "r0.bin", "r1.bin", "r2.bin", "--out", "all.bin")
    assert [one["reports"] for one in whole["files"]] == [N] * 3
    ldp("aggregate", "config.json", "r2.bin", "r0.bin", "--out", "part.bin")
    ldp("aggregate", "config.json", "part.bin", "r1.bin", "--out", "merged.bin")
    assert Path("all.bin").read_bytes() == Path("merged.bin").read_bytes()
    # Files strung together, and what the library itself wrote, count alike.
    joined = b"".join(Path(f"r{at}.bin").read_bytes() for at in range(3))
    Path("joined.bin").write_bytes(joined)
    ldp("aggregate", "config.json", "joined.bin", "--out", "again.bin")
    assert Path("all.bin").read_bytes() == Path("again.bin").read_bytes()


def test_reports_in_a_table(ldp, init):
    init()
    survey = Survey.decode(Path("config.json").read_bytes())
    cells = [survey.randomize({"colour": [one]}).encode() for one in ["red", "blue", "x"] * 5]
    parquet.write_table(pa.table({"report": cells, "when": range(15)}), "r.parquet")
    assert ldp("aggregate", "config.json", "r.parquet", "--out", "s.bin")["reports"] == 15
    cells[3] = cells[3][:-1]
    parquet.write_table(pa.table({"report": cells}), "r.parquet")
    error = ldp("aggregate", "config.json", "r.parquet", "--out", "t.bin", code=4)
    assert error["peer"] == "r.parquet, row 4"
    parquet.write_table(pa.table({"report": ["a"]}), "r.parquet")
    args = ("aggregate", "config.json", "r.parquet", "--out", "t.bin")
    assert "string" in ldp(*args, code=4)["message"]
    # Broken ones are malformed like any other file, and can be left out.
    survey_cell = survey.randomize({"colour": ["red"]}).encode()
    parquet.write_table(pa.table({"report": [survey_cell]}), "r.parquet")
    whole = Path("r.parquet").read_bytes()
    ldp("randomize", "config.json", "--input", "mine.csv", "--out", "good.bin")
    for broken in (whole[:60] + bytes(40) + whole[100:], whole[: len(whole) // 2], b""):
        Path("r.parquet").write_bytes(broken)
        assert ldp(*args, code=4)["peer"] == "r.parquet"
        found = ldp(*args, "good.bin", "--skip-bad")
        assert [one["file"] for one in found["refused"]] == ["r.parquet"]


def test_a_single_batch_of_the_library_counts(ldp, init):
    init()
    survey = Survey.decode(Path("config.json").read_bytes())
    Path("r.bin").write_bytes(survey.randomize({"colour": ["red"] * 9}).encode())
    assert ldp("aggregate", "config.json", "r.bin", "--out", "s.bin")["reports"] == 9
    state = decode_state(Path("s.bin").read_bytes()).state
    Path("t.bin").write_bytes(state.encode())
    assert ldp("aggregate", "config.json", "t.bin", "r.bin", "--out", "u.bin")["reports"] == 18


def test_hostile_bytes_are_peer_errors(ldp, init):
    init("several.toml", protocol="rs+fd")
    ldp("randomize", "config.json", "--input", "mine.csv", "--out", "good.bin")
    ldp("aggregate", "config.json", "good.bin", "--out", "state.bin")
    draw = np.random.default_rng(5)
    for name in ("good.bin", "state.bin"):
        whole = Path(name).read_bytes()
        wrong = [whole[: draw.integers(len(whole))] for _ in range(12)]
        wrong += [whole + bytes(1), b"", whole[:4] + b"\x02" + whole[5:], b"PALF" + b"\xff" * 60]
        # A batch that claims to be of four gigabytes, and a total that is another.
        wrong.append(whole[:37] + b"\xff\xff\xff\xff" + whole[41:])
        wrong += [whole[:-8] + bytes(8)] if name == "good.bin" else []
        for data in wrong:
            Path("bad.bin").write_bytes(data)
            error = ldp("aggregate", "config.json", "bad.bin", "--out", "out.bin", code=4)
            assert "bad.bin" in error["message"]
            if name == "state.bin":
                ldp("estimate", "bad.bin", code=4)
    assert not Path("out.bin").exists()


def test_bad_files_can_be_left_out_whole(ldp, init):
    init()
    ldp("randomize", "config.json", "--input", "mine.csv", "--out", "good.bin")
    whole = Path("good.bin").read_bytes()
    Path("cut.bin").write_bytes(whole[:-1])
    args = ("aggregate", "config.json", "good.bin", "cut.bin", "--out", "s.bin")
    ldp(*args, code=4)
    found = ldp(*args, "--skip-bad")
    assert found["reports"] == N
    assert [one["file"] for one in found["refused"]] == ["cut.bin"]
    ldp("aggregate", "config.json", "cut.bin", "--out", "t.bin", "--skip-bad", code=4)
    assert not Path("t.bin").exists()


def test_a_state_that_claims_too_many_reports_is_its_maker_s_fault(ldp, init):
    init(mechanism="grr")
    ldp("randomize", "config.json", "--input", "mine.csv", "--out", "good.bin")
    survey = Survey.decode(Path("config.json").read_bytes())
    sums = np.zeros(survey.mechanism.sums_size, np.int64)
    sums[0] = MAX_REPORTS
    Path("vast.bin").write_bytes(State(survey.mechanism.digest, MAX_REPORTS, sums).encode())
    args = ("aggregate", "config.json", "good.bin", "vast.bin", "--out", "s.bin")
    assert ldp(*args, code=4)["peer"] == "vast.bin"
    assert ldp(*args, "--skip-bad")["reports"] == N


def test_a_file_given_twice_is_refused(ldp, init):
    init()
    ldp("randomize", "config.json", "--input", "mine.csv", "--out", "r.bin")
    error = ldp("aggregate", "config.json", "r.bin", "./r.bin", "--out", "s.bin", code=2)
    assert "once" in error["allowed"]


def test_a_seed_repeats_and_marks(ldp, init):
    init()
    for out in ("a.bin", "b.bin"):
        args = ("--input", "mine.csv", "--out", out, "--seed", 3)
        assert ldp("randomize", "config.json", *args)["insecure_seed"] is True
    assert Path("a.bin").read_bytes() == Path("b.bin").read_bytes()
    assert ldp("aggregate", "config.json", "a.bin", "--out", "s.bin")["insecure_seed"] is True
    assert ldp("estimate", "s.bin")["insecure_seed"] is True
    for out in ("c.bin", "d.bin"):
        ldp("randomize", "config.json", "--input", "mine.csv", "--out", out)
    assert Path("c.bin").read_bytes() != Path("d.bin").read_bytes()


def test_estimates_as_csv_json_and_a_page(ldp, init):
    init("several.toml")
    ldp("randomize", "config.json", "--input", "mine.csv", "--out", "r.bin")
    ldp("aggregate", "config.json", "r.bin", "--out", "s.bin")
    found = ldp("estimate", "s.bin", "--out", "e.csv", "--report", "e.html", "--plot", "e.png")
    rows = list(csv.DictReader(io.StringIO(Path("e.csv").read_text())))
    assert len(rows) == 4 + 10 + 2
    assert [row["value"] for row in rows[:4]] == ["red", "green", "blue", "OTHER"]
    for row in rows:
        (other,) = [
            o for o in found["estimates"][row["attribute"]] if str(o["value"]) == row["value"]
        ]
        assert float(row["estimate"]) == other["estimate"]
        assert float(row["low"]) < float(row["raw"]) < float(row["high"])
    assert "<html" in Path("e.html").read_text()
    assert Path("e.png").read_bytes()[:4] == b"\x89PNG"
    total = sum(float(row["estimate"]) for row in rows if row["attribute"] == "colour")
    assert total == pytest.approx(1)


def test_priors_from_an_earlier_survey(run, ldp, init, capsys):
    init("several.toml", "first.json")
    ldp("randomize", "first.json", "--input", "mine.csv", "--out", "r.bin")
    ldp("aggregate", "first.json", "r.bin", "--out", "s.bin")
    assert run("ldp", "estimate", "s.bin", "--out", "first-estimates.json", "--quiet") == 0
    given = {"protocol": "rs+rfd", "priors": "first-estimates.json"}
    assert 0.999 < init("several.toml", "second.json", **given)["epsilon_prior"] <= 1
    ldp("randomize", "second.json", "--input", "mine.csv", "--out", "r2.bin")
    assert ldp("aggregate", "second.json", "r2.bin", "--out", "s2.bin")["reports"] == N
    args = ("init", "--attributes", "one.toml", "--epsilon", 1, "--out", "x.json")
    assert ldp(*args, "--priors", "first-estimates.json", code=2)["argument"] == "--priors"


def test_published_calibration_warns(run, init, capsys):
    args = ["--protocol", "rs+fd", "--calibration", "published", "--out", "c.json", "--json"]
    assert run("ldp", "init", "--attributes", "several.toml", "--epsilon", 1, *args) == 0
    streams = capsys.readouterr()
    assert "not the stated" in streams.err
    assert json.loads(streams.out)["epsilon_tuple"] > 1
    args = ["c.json", "--input", "mine.csv", "--out", "r.bin", "--quiet"]
    assert run("ldp", "randomize", *args) == 0
    assert "not the stated" in capsys.readouterr().err


def test_a_killed_process_leaves_no_file():
    n = 3_000_000
    values = pa.DictionaryArray.from_arrays(
        np.arange(n, dtype=np.int32) % 3, ["red", "green", "blue"]
    )
    parquet.write_table(pa.table({"colour": values}), "large.parquet")
    python = [sys.executable, "-m", "privagg", "ldp"]
    init = [*python, "init", "--attributes", "one.toml", "--epsilon", "1", "--mechanism", "she"]
    subprocess.run([*init, "--out", "c.json"], check=True, capture_output=True)
    line = [*python, "randomize", "c.json", "--input", "large.parquet", "--out", "r.bin"]
    for sign in (signal.SIGKILL, signal.SIGINT):
        for draft in Path().glob(".privagg-*"):  # what the process killed before left
            draft.unlink()
        process = subprocess.Popen(
            line,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Shells have what runs in the background ignore Ctrl-C, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        while not list(Path().glob(".privagg-*")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(sign)
        assert process.wait(timeout=60) in (-9, 130)
        assert not Path("r.bin").exists()
        for draft in Path().glob(".privagg-*"):
            assert sign == signal.SIGKILL
            draft.unlink()


def test_library_and_command_agree(ldp, init):
    init("several.toml")
    survey = Survey.decode(Path("config.json").read_bytes())
    ledger = Ledger(limit=1.5)
    survey.charge(ledger, ["a", "b"])
    with pytest.raises(ValueError, match="what each respondent has left"):
        survey.charge(ledger, ["c", "a"], round=1)
    assert ledger.spent("c") == 0
    table = people(N)
    columns = {name: table.column(name) for name in survey.names}
    reports = survey.randomize(columns, from_seed(9))
    ldp("randomize", "config.json", "--input", "mine.parquet", "--out", "r.bin", "--seed", 9)
    ldp("aggregate", "config.json", "r.bin", "--out", "s.bin")
    collector = Collector(survey)
    collector.receive(reports.encode())
    assert (
        decode_state(Path("s.bin").read_bytes(), survey).state.encode() == collector.state.encode()
    )


def test_the_mean_of_a_numeric_attribute(ldp, init):
    Path("n.toml").write_text(
        '[attributes.spare]\nkind = "float"\nlow = 0\nhigh = 1000\nsteps = 64\n'
    )
    truth = (N - 1) / 14
    for name, option in (("hybrid", {}), ("laplace", {}), ("gaussian", {"option": "delta=1e-6"})):
        made = init("n.toml", epsilon=4, mechanism=name, **option)
        assert made["delta"] == (1e-6 if option else 0)
        ldp("randomize", "config.json", "--input", "mine.csv", "--out", "r.bin")
        ldp("aggregate", "config.json", "r.bin", "--out", "s.bin")
        found = ldp("estimate", "s.bin", "--out", "e.csv", "--report", "e.html")
        (row,) = found["estimates"]["spare"]
        assert row["value"] == "mean"
        assert abs(row["raw"] - truth) < 6 * row["deviation"]
        assert Path("e.csv").read_text().splitlines()[1].startswith("spare,mean,")
    args = ("--input", "mine.csv", "--out", "r.bin", "--ledger", "l.json", "--id", "name")
    assert "delta" in ldp("randomize", "config.json", *args, code=2)["message"]
