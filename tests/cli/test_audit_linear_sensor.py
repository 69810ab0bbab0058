from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "sensor.md"


@pytest.fixture
def network(run, tmp_path, capsys):
    path = tmp_path / "net.jsonl"
    size = ("--nodes", "40", "--area", "90", "--seed", "3")
    assert run("simulate", "sensor", *size, "--transcript", path, "--quiet") == 0
    capsys.readouterr()
    return path


@pytest.fixture
def audit(run, capsys, network):
    def call(*args, code=0):
        found = run("audit", "linear", "--sensor-transcript", network, *args, "--json", "--quiet")
        out, err = capsys.readouterr()
        assert found == code, out + err
        return json.loads(out) if code in (0, 5) else err

    return call


def test_coalitions_and_keys_of_the_page(audit):
    alone = audit()
    assert alone["disclosed"] == []
    assert not alone["leak"]
    page = PAGE.read_text(encoding="utf-8")
    table = page[page.index("The JSON of the audit:") :].split("\n## ")[0]
    assert set(alone) - {"command", "privagg"} == {
        key
        for line in table.splitlines()
        if line.startswith("| `")
        for key in re.findall(r"`(\w+)`", line.replace("`base_station` is", "`base_station`"))
    } - {"size", "members", "discloses", "exact", "at_least"}
    members = alone["smallest_coalition"]["members"]
    assert len(members) == 2
    found = audit("--coalition", ",".join(map(str, members)), code=5)
    assert found["disclosed"] == alone["smallest_coalition"]["discloses"]
    assert found["leak"]
    one = audit("--coalition", f"{members[0]},base", "--links", "1-2,3-4", "--eavesdropper")
    assert one["links"] == [[1, 2], [3, 4]]
    assert one["coalition"] == [members[0], 40]


@pytest.mark.parametrize(
    "args",
    [
        ("--coalition", "99"),
        ("--coalition", "1,1"),
        ("--coalition", "one"),
        ("--links", "1"),
        ("--links", "1-1"),
        ("--links", "1-2-3"),
        ("--epoch", "1"),
        ("--schedules",),
        ("--seed", "1"),
        ("--low", "0"),
        ("--gain",),
    ],
    ids=" ".join,
)
def test_what_does_not_fit_is_refused(audit, args):
    assert args[0] in audit(*args, code=2) or args[0] == "--epoch"


def test_sensor_options_belong_to_a_transcript(run, tmp_path, capsys):
    log = tmp_path / "log.csv"
    log.write_text("client,round\nann,1\nbob,1\n")
    assert run("audit", "linear", "--participation", log, "--coalition", "1") == 2
    assert "--coalition" in capsys.readouterr().err
