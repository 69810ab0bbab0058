"""What a command writes: whole or not at all, looked at before the work, each its own file."""

from __future__ import annotations

import errno
import json
import os
import re
import stat

import pytest

from privagg import protocols
from privagg.protocols.secagg import Transcript
from privagg.protocols.secagg.identity import Roster
from privagg.report import replacing, write_file

SMALL = ("--clients", "8", "--dim", "3", "--dropout", "0")
OUTPUTS = {
    "--out": "r.json",
    "--report": "r.html",
    "--plot": "r.png",
    "--transcript": "t.jsonl",
    "--sum-out": "s.npz",
}


@pytest.fixture
def no_round(monkeypatch):
    """Make it a failure to run a round."""

    def work(*_, **__):
        raise AssertionError("the work began")

    monkeypatch.setattr(protocols.secagg, "run", work)


@pytest.fixture
def blocked(monkeypatch, tmp_path):
    """Return a folder in which no file can be made, whoever asks."""
    folder = tmp_path / "blocked"
    folder.mkdir()
    real = type(folder).open

    def refuse(path, *args, **settings):
        if path.parent == folder and "x" in (args[0] if args else settings.get("mode", "r")):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return real(path, *args, **settings)

    monkeypatch.setattr(type(folder), "open", refuse)
    return folder


# Whole or not at all


def test_a_file_is_whole_or_what_it_was(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    writing = replacing(path)
    file = writing.__enter__()
    file.write(b"half")
    file.flush()
    assert path.read_bytes() == b"old"
    assert not writing.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]
    with replacing(path) as file:
        file.write(b"one ")
        file.write(b"two")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"one two"
    assert os.listdir(tmp_path) == ["f"]


def test_the_content_is_on_the_disk_before_it_has_the_name(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, n=name, r=real: (calls.append(n), r(*a))[1])
    write_file(tmp_path / "f", b"content")
    assert calls == ["fsync", "replace", "fsync"]


def test_permissions_links_and_long_names_are_kept(tmp_path):
    private = tmp_path / "private"
    private.write_bytes(b"old")
    private.chmod(0o600)
    write_file(private, b"new")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    link = tmp_path / "link"
    link.symlink_to(private)
    write_file(link, b"newer")
    assert link.is_symlink()
    assert private.read_bytes() == b"newer"
    write_file(tmp_path / ("n" * 255), b"long")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"long"


def test_a_transcript_that_fails_leaves_the_old_one(run, capsys, tmp_path, monkeypatch):
    path = tmp_path / "t.jsonl"
    path.write_text("the last run's")

    def write(self, file, header):
        file.write("{}\n")
        file.flush()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Transcript, "write", write)
    assert run("simulate", "secagg", *SMALL, "--transcript", path) == 1
    assert "No space left" in capsys.readouterr().err
    assert path.read_text() == "the last run's"
    assert os.listdir(tmp_path) == ["t.jsonl"]


def test_a_transcript_is_written_whole(run, capsys, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text("the last run's")
    assert run("simulate", "secagg", *SMALL, "--transcript", path) == 0
    header, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert header["messages"] == len(lines) > 0
    assert path.read_bytes().endswith(b"}\n")
    assert os.listdir(tmp_path) == ["t.jsonl"]


def test_a_roster_is_written_whole(tmp_path, monkeypatch):
    path = tmp_path / "roster.json"
    Roster([bytes([9]) * 32]).save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        Roster([bytes([10]) * 32]).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["roster.json"]


# Before the work


@pytest.mark.usefixtures("no_round")
@pytest.mark.parametrize("flag", OUTPUTS)
def test_a_folder_that_cannot_be_written(run, capsys, blocked, flag):
    assert run("simulate", "secagg", *SMALL, flag, blocked / OUTPUTS[flag]) == 2
    err = capsys.readouterr().err
    assert flag in err
    assert "Read-only file system" in err


@pytest.mark.usefixtures("no_round")
@pytest.mark.parametrize("flag", OUTPUTS)
def test_a_name_that_is_too_long(run, capsys, tmp_path, flag):
    target = tmp_path / ("n" * 300 + OUTPUTS[flag])
    assert run("simulate", "secagg", *SMALL, flag, target) == 2
    assert flag in capsys.readouterr().err


@pytest.mark.usefixtures("no_round")
def test_a_link_to_itself(run, capsys, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    assert run("simulate", "secagg", *SMALL, "--out", tmp_path / "loop") == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.usefixtures("no_round")
@pytest.mark.parametrize("flag", OUTPUTS)
def test_the_check_leaves_nothing_behind(run, capsys, tmp_path, flag):
    assert run("simulate", "secagg", *SMALL, flag, tmp_path / OUTPUTS[flag]) == 1
    assert "the work began" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_devices_can_be_written_and_several_times(run, capsys):
    null = ("--out", "/dev/null", "--transcript", "/dev/null")
    assert run("simulate", "secagg", *SMALL, *null) == 0
    assert "Traceback" not in capsys.readouterr().err


# Each its own file


PAIRS = [(one, other) for one in OUTPUTS for other in OUTPUTS if one < other]


@pytest.mark.usefixtures("no_round")
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_outputs_that_are_one_file(run, capsys, tmp_path, monkeypatch, one, other):
    name = {"--plot": "r.png", "--sum-out": "s.npz"}
    monkeypatch.chdir(tmp_path)
    target = name.get(one) or name.get(other) or "same"
    (tmp_path / "here").symlink_to(tmp_path)
    code = run("simulate", "secagg", *SMALL, one, target, other, tmp_path / "here" / target)
    err = capsys.readouterr().err
    assert code == 2
    if {one, other} != {"--plot", "--sum-out"}:
        assert re.search(f"{one}|{other}", err)
        assert "another file than" in err
    assert sorted(os.listdir(tmp_path)) == ["here"]


@pytest.mark.usefixtures("no_round")
@pytest.mark.parametrize("flag", OUTPUTS)
@pytest.mark.parametrize("source", ["--input", "--schedule", "--config"])
def test_an_output_that_would_replace_what_is_read(run, capsys, tmp_path, flag, source):
    path = tmp_path / OUTPUTS[flag]
    path.write_text("# mine\n")
    assert run("simulate", "secagg", *SMALL, source, path, flag, path) == 2
    err = capsys.readouterr().err
    assert flag in err
    assert source in err
    assert "replace" in err
    assert path.read_text() == "# mine\n"


def test_an_identity_is_not_replaced_by_what_is_said_of_it(run, capsys, tmp_path):
    path = tmp_path / "a.identity"
    assert run("keys", "new", "--out", path) == 0
    before = path.read_bytes()
    assert run("keys", "show", path, "--out", path) == 2
    assert "replace" in capsys.readouterr().err
    link = tmp_path / "link"
    os.link(path, link)
    assert run("keys", "show", path, "--out", link) == 2
    assert path.read_bytes() == before
