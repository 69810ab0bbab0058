from __future__ import annotations

import os

import pytest

from privagg.errors import UsageError
from privagg.report import write_file


def test_write_file_replaces_the_whole_file(tmp_path):
    target = tmp_path / "f"
    target.write_bytes(b"a long old content")
    link = tmp_path / "link"
    link.symlink_to(target)
    write_file(link, b"new")
    assert target.read_bytes() == b"new"
    assert link.is_symlink()
    assert len(list(tmp_path.iterdir())) == 2


def test_write_file_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    target = tmp_path / "f"
    target.write_bytes(b"old")

    def full(_: int) -> None:
        assert len(list(tmp_path.iterdir())) == 2
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(target, b"new")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_write_file_refuses_folders(tmp_path):
    with pytest.raises(UsageError, match="folder that exists"):
        write_file(tmp_path / "no" / "f", b"")
    with pytest.raises(UsageError, match="not a folder"):
        write_file(tmp_path, b"")
