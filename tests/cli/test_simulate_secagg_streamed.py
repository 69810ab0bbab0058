"""``simulate secagg --streamed``: the same round, through files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import namedtuple

import numpy as np
import pytest

from privagg.cli import _secagg_streamed
from privagg.protocols.secagg.tiles import TILE

KINDS = {
    "semi-honest": (),
    "sparse": ("--graph", "sparse"),
    "active": ("--threat", "active"),
    "semi-malicious": ("--threat", "semi-malicious", "--graph", "sparse"),
}
DIM = 5003
FEW = ("--corrupt", 0.0, "--dropout", 0.1, "--seed", 3, "--workers", 1)


@pytest.fixture
def rows(tmp_path):
    """Write inputs of 30 clients."""
    path = tmp_path / "rows.npy"
    np.save(path, np.random.default_rng(1).integers(0, 2**12, (30, DIM)))
    return path


def without_seconds(data):
    return {**data, "seconds": sorted(data["seconds"])}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_summed_as_without(simulate, tmp_path, rows, kind):
    sums = [tmp_path / "plain.npy", tmp_path / "streamed.npy"]
    settings = ("--input", rows, *FEW, *KINDS[kind], "--sum-out")
    plain, _ = simulate(*settings, sums[0])
    streamed, _ = simulate(*settings, sums[1], "--streamed")
    assert without_seconds(streamed) == without_seconds(plain)
    assert streamed["exact"]
    assert sums[0].read_bytes() == sums[1].read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["plain.npy", "rows.npy", "streamed.npy"]
    )


@pytest.mark.parametrize("more", [(), ("--signed",), ("--max-weight", 5)])
def test_drawn_numbers_are_those_of_the_ordinary_round(simulate, more):
    settings = ("--clients", 9, "--dim", TILE + 7, "--value-bits", 9, *FEW, *more)
    plain, _ = simulate(*settings)
    streamed, err = simulate(*settings, "--streamed")
    assert without_seconds(streamed) == without_seconds(plain)
    assert "unmasking by tiles: 2 of 2" in err


def test_drawn_floats_are_too_but_for_their_rounding(simulate):
    settings = ("--clients", 9, "--dim", TILE + 7, "--clip", 2.0, *FEW)
    plain, _ = simulate(*settings)
    streamed, _ = simulate(*settings, "--streamed")
    bound = 2 * plain["error_bound"]
    assert streamed["exact"]
    for name in ("sum", "mean"):
        ours, theirs = streamed[name][0], plain[name][0]
        assert np.abs(np.subtract(ours["first"], theirs["first"])).max() <= bound
        assert (ours["shape"], ours["dtype"]) == (theirs["shape"], theirs["dtype"])


def test_workers_read_the_file_and_give_the_same(simulate, tmp_path):
    path = tmp_path / "floats.npy"
    np.save(path, np.random.default_rng(1).normal(size=(12, DIM)).astype(np.float32))
    found = []
    for workers in (1, 2):
        sums = tmp_path / f"{workers}.npy"
        settings = ("--input", path, "--streamed", *FEW[:-1], workers, "--sum-out", sums)
        data, _ = simulate(*settings)
        found.append((without_seconds(data), sums.read_bytes()))
    assert found[0] == found[1]


def test_rows_of_any_shape_are_flat(simulate, tmp_path):
    path = tmp_path / "cube.npy"
    whole = np.random.default_rng(1).integers(0, 99, (8, 3, 5))
    np.save(path, whole)
    data, _ = simulate("--input", path, "--streamed", "--dropout", 0, "--corrupt", 0)
    assert data["sum"][0]["first"] == whole.sum(axis=0).ravel().tolist()
    assert data["dim"] == 15


def test_a_wrong_number_beyond_the_first_tile_is_named(refused, tmp_path):
    whole = np.zeros((4, 3, TILE // 2), np.float32)
    whole[2, 2, 5] = np.nan
    np.save(tmp_path / "bad.npy", whole)
    message = refused("--input", tmp_path / "bad.npy", "--streamed")
    assert "nan for client 2, index 2, 5" in message


def test_the_sum_is_not_there_and_no_file_left_after_an_abort(run, tmp_path, rows):
    schedule = tmp_path / "schedule.json"
    schedule.write_text(json.dumps({"masked-input": list(range(28))}))
    settings = ("--input", rows, "--schedule", schedule, "--sum-out", tmp_path / "sum.npy")
    assert run("simulate", "secagg", "--streamed", *settings, "--corrupt", 0) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.npy", "schedule.json"]


def test_scratch_files_lie_where_they_are_told(simulate, refused, tmp_path, rows, monkeypatch):
    seen = []
    play = _secagg_streamed.play

    def noted(params, inputs, folder, **settings):
        seen.append(folder.parent)
        return play(params, inputs, folder, **settings)

    monkeypatch.setattr(_secagg_streamed, "play", noted)
    room = tmp_path / "room"
    room.mkdir()
    simulate("--input", rows, "--streamed", "--scratch", room, *FEW)
    simulate("--input", rows, "--streamed", "--sum-out", tmp_path / "s.npy", *FEW)
    assert seen == [room, tmp_path]
    assert list(room.iterdir()) == []
    assert "--scratch" in refused("--input", rows, "--scratch", room)


def test_a_disk_too_small_is_told_before_the_round(refused, rows, monkeypatch):
    usage = namedtuple("usage", "total used free")(1, 1, 1000)
    monkeypatch.setattr(_secagg_streamed.shutil, "disk_usage", lambda path: usage)
    message = refused("--input", rows, "--streamed")
    assert "--scratch" in message
    assert "1000 B free" in message.replace(" kB", "000 B")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--misbehave", "keys-replaced"), "--misbehave"),
        (("--transcript", "t.jsonl"), "--transcript"),
        (("--sum-out", "s.npz"), ".npy"),
        (("--data", "adult", "--column", "education"), "--data"),
    ],
)
def test_what_does_not_go_with_it(refused, tmp_path, monkeypatch, more, words):
    monkeypatch.chdir(tmp_path)
    assert words in refused("--clients", 9, "--dim", 4, "--streamed", *more)


def test_files_that_cannot_be_read_where_they_lie(refused, tmp_path):
    np.savez(tmp_path / "a.npz", np.zeros((4, 3)))
    assert ".npy" in refused("--input", tmp_path / "a.npz", "--streamed")
    np.save(tmp_path / "f.npy", np.asfortranarray(np.zeros((4, 3, 2))))
    assert "Fortran" in refused("--input", tmp_path / "f.npy", "--streamed")


PROGRAM = """
import resource, sys
from pathlib import Path
from privagg.cli import main
code = main.run(sys.argv[1:])
# ru_maxrss of a process counts what the one had that started it.
lines = Path("/proc/self/status").read_text().splitlines()
own = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
most = max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
print(code, most * 1024, file=sys.stderr)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is there")
def test_memory_of_the_command(tmp_path):
    """Two vectors and the sum have 128 MiB each; docs/speed.md states the limit."""
    words = f"simulate secagg --streamed --clients 3 --dim {1 << 24} --clip 1 --corrupt 0 "
    words += f"--dropout 0 --workers 2 --scratch {tmp_path} --json -q"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words.split()],
        capture_output=True,
        text=True,
        check=False,
    )
    code, most = map(int, done.stderr.split()[-2:])
    assert code == 0, done.stderr
    assert json.loads(done.stdout)["exact"]
    assert most < 384 << 20
