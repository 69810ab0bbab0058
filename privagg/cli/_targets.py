"""The files that a command will write: looked at before it works, not after."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import rich_click as click

from privagg.errors import UsageError

__all__ = ["CONFIG", "FILE", "check_distinct", "check_writable"]

CONFIG = "privagg.config"
"""Where a context's ``meta`` keeps the path that ``--config`` gave."""

FILE = click.Path(dir_okay=False, writable=True, path_type=Path)
"""The type of every option that names a file to write; by it they are found."""


def check_writable(flag: str, path: Path) -> None:
    """Refuse a file that could not be written, by writing beside it.

    Only an attempt tells: permissions say nothing of a disk that is read-only or full, or of a
    superuser. A device or a pipe is only asked whether it may be written.

    Raises
    ------
    UsageError
        If the folder does not exist, or nothing can be written there.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".privagg-{os.urandom(8).hex()}")
    try:
        if not target.parent.is_dir():
            raise UsageError(flag, str(path), "a file in a folder that exists")
        with suppress(FileNotFoundError):
            # A name that is too long, or a link to itself, fails here and not after the work.
            if not stat.S_ISREG(target.stat().st_mode):
                return  # click has asked whether it may be written
        try:
            with draft.open("xb") as file:
                file.write(bytes(1))
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        allowed = f"a file that can be written ({error.strerror})"
        raise UsageError(flag, str(path), allowed) from None


def check_distinct(context: click.Context) -> None:
    """Refuse outputs that are one file, or that would replace what the command reads.

    Raises
    ------
    UsageError
        Naming both options.
    """
    written: list[tuple[str, Path]] = []
    read: list[tuple[str, Path]] = []
    for param in context.command.params:
        if not isinstance(param.type, click.Path):
            continue
        given = context.params.get(param.name or "")
        for path in given if isinstance(given, tuple) else (given,):
            if isinstance(path, Path):
                (written if param.type is FILE else read).append((_name(param), path))
    if CONFIG in context.meta:
        read.append(("--config", context.meta[CONFIG]))
    for place, (flag, path) in enumerate(written):
        for other, there in written[:place]:
            if _same(path, there):
                raise UsageError(flag, str(path), f"another file than {other}'s")
        for other, there in read:
            if _same(path, there):
                raise UsageError(
                    flag, str(path), f"another file than {other}'s, which it would replace"
                )


def _name(param: click.Parameter) -> str:
    return (
        max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name
    )


def _same(one: Path, other: Path) -> bool:
    """Whether two paths are one file; devices and pipes may take several outputs in turn."""
    if one.exists() and not one.is_file():
        return False
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()
