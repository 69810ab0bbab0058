from __future__ import annotations

import json

import numpy as np
import pytest

from privagg.attacks import sensor as attacks
from privagg.cli import _sensor_options
from privagg.protocols import sensor as protocol

SMALL = ("--nodes", 60, "--area", 130, "--seed", 3)
NAMED = {
    *("protocol", "secure", "nodes", "clusters", "mean_cluster_size", "coverage"),
    *("messages_per_node", "frames_per_node", "bytes_per_node", "microjoules_per_node"),
    *("accuracy", "sum", "true_sum", "count"),
}


@pytest.fixture
def sensor(run, capsys):
    def call(*args, code=0, command="simulate"):
        found = run(command, "sensor", *args, "--json")
        out, err = capsys.readouterr()
        assert found == code, err
        return json.loads(out), err

    return call


def test_the_choices_are_those_of_the_library():
    assert tuple(protocol.Protocol) == _sensor_options.PROTOCOLS
    assert tuple(protocol.QueryKind) == _sensor_options.QUERIES
    assert tuple(protocol.MODELS) == _sensor_options.ENERGY
    assert tuple(attacks.ATTACKS) == _sensor_options.ATTACKS


def test_the_example_of_the_page(sensor):
    data, _ = sensor(
        *("--protocol", "cpda-field", "--nodes", 600, "--area", 400, "--range", 50),
        *("--leader-probability", 0.3, "--loss", 0.05, "--retries", 3, "--seed", 1),
    )
    assert set(data) >= NAMED
    assert data["secure"] is True
    assert data["coverage"] > 0.98
    assert data["accuracy"] == pytest.approx(data["sum"] / data["true_sum"])


@pytest.mark.parametrize("name", _sensor_options.PROTOCOLS)
def test_every_protocol(sensor, name):
    broken = protocol.Protocol(name).broken
    if broken:
        data, err = sensor(*SMALL, "--protocol", name, code=2)
        assert "--allow-insecure" in data["error"]["message"]
    data, err = sensor(*SMALL, "--protocol", name, "--allow-insecure", "--quiet")
    assert data["protocol"] == name
    assert data["secure"] is (not broken and name != "tag")
    assert ("insecure" in err) is broken
    assert ("Warning" in err) is (not data["secure"])


def test_parties_and_arrays_give_the_same_sum(sensor):
    first, _ = sensor(*SMALL)
    second, _ = sensor(*SMALL, "--engine", "parties")
    assert first["sum"] == second["sum"]
    assert second["engine"] == "parties"


def table(path, rows):
    lines = ["lon,lat,kwh"] + [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


COLUMNS = ("--x-column", "lon", "--y-column", "lat", "--value-column", "kwh")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_real_readings(sensor, tmp_path, suffix):
    random = np.random.default_rng(1)
    rows = [
        (round(x, 3), round(y, 3), round(v, 2))
        for x, y, v in zip(*(random.random(50) * k for k in (100, 100, 9)), strict=True)
    ]
    path = table(tmp_path / "meters.csv", rows)
    if suffix == ".parquet":
        import pyarrow.csv
        from pyarrow import parquet

        path = tmp_path / "meters.parquet"
        parquet.write_table(pyarrow.csv.read_csv(tmp_path / "meters.csv"), path)
    data, err = sensor("--input", path, *COLUMNS, "--scale", 100, "--query", "mean", "--seed", 1)
    assert data["nodes"] == 50
    assert data["true_answer"] == pytest.approx(np.mean([v for *_, v in rows]))
    assert data["input"] == path.name
    assert "50 nodes" in err


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (("--value-column", "watt"), "watt"),
        (("--nodes", 5), "--nodes"),
    ],
)
def test_tables_are_checked(sensor, tmp_path, args, part):
    path = table(tmp_path / "m.csv", [(0, 0, 1), (1, 1, 2)])
    data, _ = sensor("--input", path, *COLUMNS, *args, code=2)
    assert part in data["error"]["message"]


def test_cells_are_checked(sensor, tmp_path):
    for row in (("", 1, 2), ("nan", 1, 2), ("a", 1, 2), (1, "inf", 2), (1e300, 1, 2)):
        path = table(tmp_path / "m.csv", [(0, 0, 1), row])
        data, _ = sensor("--input", path, *COLUMNS, code=2)
        assert "m.csv" in data["error"]["message"]
    other = tmp_path / "m.txt"
    other.write_text("x", encoding="utf-8")
    data, _ = sensor("--input", other, code=2)
    assert data["error"]["argument"] == "--input"


def test_deaths(sensor):
    data, _ = sensor(*SMALL, "--die", "3:shares", "--die", "5:report", "--epochs", 3)
    assert data["formations"] == 2
    data, _ = sensor(*SMALL, "--death-rate", 0.2, "--epochs", 3)
    assert data["coverage"] < 1
    for word in ("3", "3:lunch", "x:join", "-1:join", "999:join"):
        data, _ = sensor(*SMALL, "--die", word, code=2)
    data, _ = sensor(*SMALL, "--die", "3:join", "--die", "3:hello", code=2)
    assert "once" in data["error"]["message"]


def test_queries(sensor):
    data, _ = sensor(*SMALL, "--query", "histogram", "--edge", 0, "--edge", 50, "--edge", 100)
    assert sum(data["answer"]) == data["count"]
    data, _ = sensor(*SMALL, "--query", "max")
    assert data["bisection"]
    assert data["answer"] == data["true_answer"]
    data, _ = sensor(*SMALL, "--query", "count", "--at-least", 50)
    assert 0 < data["answer"] < data["count"]
    data, _ = sensor(*SMALL, "--query", "histogram", code=2)
    assert "--edge" in data["error"]["message"]
    data, _ = sensor(*SMALL, "--bound", 3, code=2)
    assert "bound" in data["error"]["message"]


def test_page_and_picture(run, tmp_path):
    page, picture = tmp_path / "net.html", tmp_path / "net.png"
    assert run("simulate", "sensor", *SMALL, "--report", page, "--plot", picture, "-q") == 0
    text = page.read_text(encoding="utf-8")
    for part in ("clusters", "tree", "base station", "cc2420", "Guarantee"):
        assert part in text
    assert picture.stat().st_size > 10_000


def test_audit_of_one_attack(sensor):
    data, _ = sensor(
        "--protocol", "cpda", "--attack", "modulo", "--runs", 50, code=5, command="audit"
    )
    assert data["protocol"] == "cpda"
    (finding,) = data["attacks"]
    assert set(finding) >= {"name", "runs", "recovered", "rate"}
    assert finding["name"] == "modulo"
    assert finding["rate"] == 1


def test_an_audit_that_tries_nothing_is_no_verdict(sensor):
    words = ("--protocol", "tag", "--attack", "split-view")
    data, _ = sensor(*words, "--runs", 10, code=2, command="audit")
    assert "tag" in data["error"]["message"]


def test_audit_of_what_holds(sensor, run, tmp_path):
    data, _ = sensor(
        "--protocol", "mask-cluster", "--runs", 100, "--seed", 1, command="audit", code=0
    )
    assert data["leak"] is False
    assert {one["finding"] for one in data["attacks"]} == {
        "no better than guessing",
        "inherent",
        "beyond the bound",
    }
    picture = tmp_path / "audit.png"
    words = ("--protocol", "cpda", "--attack", "modulo", "--attack", "crt", "--runs", 20)
    assert run("audit", "sensor", *words, "--plot", picture, "-q") == 5
    assert picture.exists()


@pytest.mark.parametrize(
    ("arguments", "alive", "needed", "says"),
    [
        (("--nodes", 1, "--area", "1e6", "--range", 1), 0, 1, "no node heard the query"),
        (("--nodes", 60, "--area", 130, "--loss", 1), 0, 1, "no node heard the query"),
        (("--nodes", 2, "--area", 10), 0, 1, "no cluster of 3 or more came together among 2 nodes"),
        (("--nodes", 9, "--area", 10, "--min-cluster", 20), 0, 1, "no cluster of 20"),
        (("--nodes", 60, "--area", 130, "--leader-probability", 0), 0, 1, "among 60 nodes"),
        (("--nodes", 1, "--protocol", "tag", "--area", "1e6"), 0, 1, "no node heard the query"),
        (("--nodes", 3, "--area", 9, "--protocol", "tag", "--die", "0:report", "--die", "1:report",
          "--die", "2:report"), 0, 1, "no reading reached"),
        (("--nodes", 60, "--area", 130, "--loss", 0.05, "--protocol", "smart"), 0, 1, "slices"),
    ],
)  # fmt: skip
def test_nothing_at_the_base_station_is_an_abort(sensor, arguments, alive, needed, says):
    data, _ = sensor(*arguments, "--seed", 2, code=3)
    error = data["error"]
    assert says in error["message"]
    assert (error["alive"], error["needed"]) == (alive, needed)


EFFECTS = {
    "corrupt": ("--corrupt", 2),
    "drops": ("--drops", 1),
    "min_cluster": ("--min-cluster", 4),
    "keys": ("--keys", "unique"),
    "arithmetic": ("--arithmetic", "integer"),
    "slices": ("--slices", 2),
    "plain_slices": ("--plain-slices",),
}


@pytest.mark.parametrize("name", _sensor_options.ONLY_FOR)
def test_options_without_effect_are_refused(sensor, name):
    """Even with the value that is the default: who gives it expects something of it."""
    allowed = _sensor_options.ONLY_FOR[name]
    for other in _sensor_options.PROTOCOLS:
        words = ("--protocol", other, "--allow-insecure", *EFFECTS[name], "-q")
        if other not in allowed:
            data, _ = sensor(*SMALL, *words, code=2)
            assert data["error"]["argument"] == EFFECTS[name][0]
            for one in allowed:
                assert one in data["error"]["message"]
        elif other == allowed[-1]:
            sensor(*SMALL, *words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--protocol", "tag", "--leader-probability", 0.2), "cpda-field"),
        (("--epoch-seconds", 3), "--duty-cycle"),
        (("--x-column", "x"), "--input"),
        (("--power", 3), "--approximation"),
        (("--approximation", "power"), "max or min"),
        (("--nodes", 300, "--query", "min", "--approximation", "power"), "zero"),
        (
            (
                *("--engine", "parties", "--protocol", "cpda-sen-checked", "--allow-insecure"),
                *("--query", "variance"),
            ),
            "engine",
        ),
        (("--epochs", 2, "--query", "max"), "epochs"),
        (("--death-rate", "nan"), "--death-rate"),
        (("--area", 1e308), "--area"),
    ],
)
def test_what_goes_with_what(sensor, words, says):
    data, _ = sensor(*SMALL, *words, code=2)
    assert says in data["error"]["message"]


def test_leaders_alone_forward(sensor):
    words = ("--protocol", "tag", "--flood", "leaders", "--leader-probability", 0.5)
    assert sensor(*SMALL, *words)[0]["flood"] == "leaders"


@pytest.mark.parametrize(("kind", "best"), [("max", max), ("min", min)])
def test_extremes_are_told_step_by_step(sensor, run, capsys, tmp_path, kind, best):
    random = np.random.default_rng(4)
    values = random.integers(3, 90, 40).tolist()
    rows = "".join(
        f"{x:.2f},{y:.2f},{v}\n"
        for (x, y), v in zip(random.random((40, 2)) * 9, values, strict=True)
    )
    path = tmp_path / "meters.csv"
    path.write_text("x,y,value\n" + rows, encoding="utf-8")
    words = ("--input", path, "--query", kind, "--seed", 1)
    data, _ = sensor(*words, "--approximation", "power", "--power", 4, "--power", 400)
    assert data["answer"] == data["true_answer"] == best(values)
    assert data["sum"] is data["true_sum"] is data["accuracy"] is data["per_epoch"] is None
    steps = data["bisection"]
    assert data["count"] == steps[-1]["readings"] == 40
    assert data["epochs"] == len(steps)
    for step in steps:
        beyond = (
            v >= step["threshold"] if kind == "max" else v <= step["threshold"] for v in values
        )
        assert step["count"] == step["true_count"] == sum(beyond)
    count, _ = sensor("--input", path, "--query", "count", "--seed", 1)
    assert count["power_approximation"] is None
    assert data["by_kind"]["answer"]["messages"] == pytest.approx(
        len(steps) * count["by_kind"]["answer"]["messages"]
    )
    four, large = data["power_approximation"]
    assert four["power"] == 4
    assert four["bits"] == (40 * max(values) ** 4).bit_length()
    sign = 1 if kind == "max" else -1
    expected = sum((v / best(values)) ** (4 * sign) for v in values) ** (sign / 4)
    assert four["relative_error"] == pytest.approx(expected - 1)
    assert abs(large["relative_error"]) < abs(four["relative_error"])
    assert run("simulate", "sensor", *words, "--approximation", "power", "-q") == 0
    out = capsys.readouterr().out
    assert "Demonstration" in out
    assert f"the {kind} of 40 of 40 readings" in out


def test_hints_name_options_of_this_command(run, capsys, tmp_path):
    table = tmp_path / "meters.csv"
    table.write_text("x,y,value\n0,0,one\n1,1,2\n")
    assert run("simulate", "sensor", "--input", table, "--range", 5) == 2
    assert "--value-column" in capsys.readouterr().err
    log = tmp_path / "log.csv"
    log.write_text("a,b\n1,x\n")
    assert run("audit", "linear", "--participation", log) == 2
    err = capsys.readouterr().err
    assert "--client-column" in err
    assert "--column." not in err


def test_rounded_readings_are_said(run, capsys, tmp_path):
    table = tmp_path / "meters.csv"
    table.write_text("x,y,value\n0,0,1.5\n1,1,2\n2,2,0.25\n")
    arguments = ("simulate", "sensor", "--input", table, "--protocol", "tag", "--json")
    for scale, rounded in ((1, 2), (100, 0)):
        assert run(*arguments, "--scale", scale) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["rounded"] == rounded
        assert ("readings rounded" in err) == bool(rounded)
