from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import rich_click as click
from strict_schemas import check

from privagg.cli import common, main
from privagg.cli.common import Options, command, emit, note, progress, seed_option, warn
from privagg.cli.schema import commands
from privagg.errors import Abort, CapacityError, PeerError, PrivaggError, UsageError
from privagg.report import Plot, Report, Series, Table

ERRORS: dict[str, BaseException] = {
    "usage": UsageError("threshold", 1, "at least 2", "Raise it."),
    "capacity": CapacityError("value_bits", 60, "at most 57"),
    "peer": PeerError(3, "share-keys", "key repeated"),
    "abort": Abort("survivors of masked-input", 4, 7),
    "base": PrivaggError("something else"),
    "interrupt": KeyboardInterrupt(),
    "bug": ZeroDivisionError("division by zero"),
    "end": EOFError("no data left in file"),
}


@command("probe", examples=["privagg probe --threshold 3"], plots=True)
@click.option("--threshold", type=click.IntRange(min=2), help="A number.")
@click.option("--value-bits", type=int, default=16, help="Another.")
@click.option("--rate", type=float, default=0.05, help="A fraction.")
@click.option("--fast/--slow", default=True, help="A flag.")
@click.option("--pair", type=float, nargs=2, help="Two numbers.")
@click.option("--name", multiple=True, help="Names.")
@click.option("--fail", type=click.Choice([*ERRORS, "leak", "nan", "os"]), help="How to end.")
@seed_option
def probe(
    threshold: int | None,
    value_bits: int,
    rate: float,
    fast: bool,
    pair: tuple[float, float] | None,
    name: tuple[str, ...],
    fail: str | None,
    seed: int | None,
    options: Options,
) -> None:
    """Try the skeleton.

    More words.
    """
    with progress(options) as step:
        step("working", 1, 2)
        note(options, "a note")
        if seed is not None:
            warn("seeded")
        if fail in ERRORS:
            raise ERRORS[fail]
        if fail == "os":
            Path("/nonexistent/file").read_text()
    data = {
        "threshold": threshold,
        "value_bits": value_bits,
        "rate": float("nan") if fail == "nan" else rate,
        "fast": fast,
        "pair": pair,
        "name": name,
        "seed": seed,
    }
    table = Table("Given", ["option", "value"], [[key, str(value)] for key, value in data.items()])
    plot = Plot(
        kind="bar", title="Bars", x_label="x", y_label="y [1]", series=[Series("s", ["a"], [1])]
    )
    emit(Report("A probe", data, [table], [plot], verdict="Done."), options, leak=fail == "leak")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run a command line in this process, with the command `probe` added."""
    monkeypatch.setitem(main.root.commands, "probe", probe)
    for name in list(os.environ):
        if name.startswith("PRIVAGG_"):
            monkeypatch.delenv(name)

    return lambda *args: main.run([str(arg) for arg in args])


@pytest.fixture
def shell() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command line in a process of its own."""

    def call(*args: str, **settings: object) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PRIVAGG_")}
        environment |= settings.pop("env", {})
        command_line = [sys.executable, "-m", "privagg", *args]
        return subprocess.run(
            command_line, capture_output=True, text=True, env=environment, **settings
        )

    return call


@pytest.fixture
def simulate(run, capsys):
    """Run the command; return the JSON object and the text on stderr."""

    def call(*args, code=0):
        found = run("simulate", "secagg", *args, "--json")
        out, err = capsys.readouterr()
        assert found == code, err
        return json.loads(out), err

    return call


@pytest.fixture
def refused(simulate):
    def call(*args):
        data, _ = simulate(*args, code=2)
        return data["error"]["message"]

    return call


@pytest.fixture(autouse=True)
def every_object_is_as_published(monkeypatch):
    """Hold whatever a command emits in any test here against its schema."""
    emitted = common.enveloped

    def checked(data, context):
        found = emitted(data, context)
        name = str(found["command"])
        if name in commands():
            check(name, json.loads(Report("", found).to_json()))
        return found

    monkeypatch.setattr(common, "enveloped", checked)


@pytest.fixture
def in_a_folder(tmp_path, monkeypatch):
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def ask(run, capsys):
    """Run a command line with --json and return its exit code, object and stderr."""

    def call(*args):
        code = run(*args, "--json")
        streams = capsys.readouterr()
        return code, json.loads(streams.out), streams.err

    return call


@pytest.fixture
def ldp(ask):
    """Run a command of `privagg ldp`; it has to end with `code`."""

    def call(*args, code=0):
        found, data, err = ask("ldp", *args)
        assert found == code, err
        return data if code == 0 else data["error"]

    return call
