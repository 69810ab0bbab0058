"""One small run of every command: what several tests look at."""

from __future__ import annotations

import json

import numpy as np
import rich_click as click

from privagg.cli.main import COMMANDS, root

ALONE = {("completion",)}
"""Commands whose result is a script, and not an object."""

# By command: arguments, and the exit code. {d} is the folder that prepare() fills.
RUNS = {
    "simulate secagg": ("--clients 8 --dim 5 --dropout 0.2 --seed 1 --workers 1", 0),
    "simulate sensor": ("--nodes 30 --area 80 --seed 1", 0),
    "simulate multidim": ("--input {d}/people.csv --columns colour,size --seed 1", 0),
    "simulate locational": ("--input {d}/people.csv --region colour:{d}/colours.txt --seed 1", 0),
    "simulate responses": (
        "--input {d}/people.csv --target label --columns x --bag-size 2 --epsilon 1 --seed 1",
        0,
    ),
    "plan secagg": ("--clients 20 --dim 10 --no-calibrate", 0),
    "plan ldp": ("--users 1000 --domain 3,4 --epsilon 1 --no-calibrate", 0),
    "plan responses": ("--samples 90 --features 9 --snr 1 --epsilon 1 --sizes 1,2", 0),
    "ldp init": ("--attributes {d}/survey.toml --epsilon 1 --out {d}/config.json", 0),
    "ldp randomize": ("{d}/config.json --input {d}/colours.csv --out {d}/reports.bin --seed 1", 0),
    "ldp aggregate": ("{d}/config.json {d}/reports.bin --out {d}/state.bin", 0),
    "ldp estimate": ("{d}/state.bin", 0),
    "keys new": ("alice --dir {d}", 0),
    "keys show": ("{d}/alice.identity", 0),
    "keys roster": ("{d}/alice.identity --out {d}/roster.json", 0),
    "audit secagg": ("--transcript {d}/round.jsonl", 0),
    "audit linear": ("--participation {d}/log.csv --header", 5),
    "audit sensor": ("--protocol cpda --attack modulo --runs 10 --seed 1", 5),
    "audit ldp": ("--values 3 --epsilon 1 --trials 200 --oracles grr", 0),
    "audit responses": ("--bags {d}/released.parquet", 5),
    "audit gradient": (
        "--demo --attack analytic --clients 1 --batch 2 --trials 20 --iterations 1",
        0,
    ),
    "bench prg": ("--length 2000 --short 50 --neighbours 2 --repeats 1", 0),
    "bench field": ("--part arithmetic --length 64 --columns 4 --transform 64 --repeats 1", 0),
    "bench secagg": ("--clients 4 --dim 20 --repeats 1", 0),
    "bench ldp": ("--part grr --grr-users 1000 --repeats 1", 0),
    "bench sensor": ("--part epochs --nodes 30 --epochs 2 --repeats 1", 0),
    "bench responses": ("--part release --release-rows 100 --repeats 1", 0),
    "bench flower": ("--nodes 4 --dim 20 --dropped 1 --repeats 1", 0),
    "bench locational": ("--mechanism hr --users 1000 --cells 30 --repeats 1", 0),
    "bench attacks": ("--case 4x64 --runs 1 --seconds 1", 0),
    "list protocols": ("", 0),
    "list mechanisms": ("", 0),
    "list attacks": ("", 0),
    "data list": ("", 0),
    "data show": ("nursery --rows 1", 0),
    "schema": ("simulate secagg", 0),
    "doctor": ("", 0),
}
"""In an order in which each finds the files that it reads."""

NOT_QUIET = {"ldp randomize", "keys new"}
"""Commands that warn of something here, quiet or not."""


def leaves(table=COMMANDS, path=()):
    for name, entry in table.items():
        if hasattr(entry, "target"):
            yield (*path, name)
        else:
            yield from leaves(entry.children, (*path, name))


def command_at(words):
    """Return the command that `words` begin with, and what follows."""
    context, found, rest = click.Context(root), root, list(words)
    while isinstance(found, click.Group):
        _, found, rest = found.resolve_command(context, rest)
    return found, rest


def prepare(folder, run):
    """Write the files that the commands read."""
    draw = np.random.default_rng(7)
    rows = [
        f"{draw.choice(['red', 'blue'])},{draw.choice(['s', 'm', 'l'])},{i % 7},"
        f"{'yes' if i % 3 else 'no'}"
        for i in range(60)
    ]
    (folder / "people.csv").write_text("colour,size,x,label\n" + "\n".join(rows) + "\n")
    (folder / "colours.txt").write_text("red\nblue\n")
    (folder / "colours.csv").write_text("colour\n" + "red\nblue\n" * 10)
    (folder / "survey.toml").write_text(
        '[attributes.colour]\nkind = "categorical"\nvalues = ["red", "blue"]\n'
    )
    (folder / "log.csv").write_text("ann,bob\n1,1\n1,0\n")
    words = ["simulate", "secagg", "--clients", "6", "--dim", "3", "--quiet", "--out"]
    words += [str(folder / "round.txt"), "--transcript", str(folder / "round.jsonl")]
    assert run([*words, "--transcript-payloads", "--workers", "1"]) == 0
    from privagg.protocols.responses import Curator, Release
    from privagg.protocols.responses.bags import Bags

    released = Curator(Release(classes=2), Bags.random(6, 3)).release(np.ones(6, np.int64))
    released.write(folder / "released.parquet")


def words_of(command, folder):
    """Return the words of the command's run."""
    return [*command.split(), *RUNS[command][0].format(d=folder).split()]


def one_object(text):
    """Return the object that is all of `text`."""
    assert text.endswith("\n")
    assert text.count("\n") == 1
    return json.loads(text)
