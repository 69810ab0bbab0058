"""Files of ``privagg ldp``: surveys, the respondents' ledger, what becomes of ``--out``."""

from __future__ import annotations

import fcntl
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from privagg.cli._reading import reading
from privagg.cli.common import Options, warn
from privagg.errors import UsageError

if TYPE_CHECKING:
    from privagg.accounting import Ledger
    from privagg.protocols.collection import Survey

__all__ = [
    "READABLE",
    "emit_beside",
    "locked",
    "open_ledger",
    "out_is",
    "read_survey_file",
    "required_out",
    "warned",
    "write_private",
]

READABLE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
"""The type of a file to read."""

_MOST_BYTES = 1 << 28


def out_is(meaning: str, metavar: str = "FILE") -> Callable[[click.RichCommand], click.RichCommand]:
    """Say in the help what ``--out`` is, where the summary goes to stdout all the same."""

    def decorate(made: click.RichCommand) -> click.RichCommand:
        for param in made.params:
            if param.name == "out" and isinstance(param, click.Option):
                param.help, param.metavar = meaning, metavar
        return made

    return decorate


def required_out(options: Options, what: str) -> Path:
    """Return the file of ``--out``, which a command needs."""
    if options.out is None:
        raise UsageError("--out", "nothing", what)
    return options.out


def read_survey_file(path: Path) -> Survey:
    """Read a survey's file; what its privacy lacks is said on stderr."""
    from privagg.protocols.collection import Survey

    if path.stat().st_size > _MOST_BYTES:
        raise UsageError(path.name, f"{path.stat().st_size:,} bytes", f"at most {_MOST_BYTES:,}")
    with reading(path.name, "the file of a survey"):
        content = path.read_bytes()
    with warned():
        return Survey.decode(content, source=path.name)


@contextmanager
def warned() -> Iterator[None]:
    """Say on stderr what the library warns of, in the body, about privacy."""
    from privagg.protocols.multidim import PrivacyWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrivacyWarning)
        yield
    for text in dict.fromkeys(str(one.message) for one in caught):
        warn(f"{text}.")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file for this process alone: whoever else wants it waits.

    The lock is on its folder, since the file itself is replaced when it is saved.
    """
    folder = os.open(path.resolve().parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextmanager
def open_ledger(path: Path, limit: float | None) -> Iterator[Ledger]:
    """Open a ledger for this process alone; see :func:`locked`.

    Parameters
    ----------
    path : Path
        The file; a new ledger if there is none.
    limit : float, optional
        Of a new ledger; one that exists keeps its own, and another is refused.

    Raises
    ------
    UsageError
        If the file is no ledger.
    """
    from privagg.accounting import Ledger

    with locked(path):
        if not path.exists():
            yield Ledger(limit)
            return
        with reading(path.name, "a ledger"):
            content = path.read_bytes()
        try:
            found = Ledger.decode(content)
        except UsageError as error:
            raise UsageError(str(path), error.found, error.allowed, error.hint) from None
        if limit is not None and limit != found.limit:
            had = "none" if found.limit is None else f"{found.limit:g}"
            raise UsageError("--limit", limit, f"the ledger's own: {had}", "Leave it out.")
        yield found


def emit_beside(
    data: dict[str, Any], title: str, rows: Any, verdict: str, options: Options
) -> None:
    """Emit a summary on stdout, where ``--out`` was another file."""
    from dataclasses import replace

    from privagg.cli.common import emit
    from privagg.report import Report, Table

    emit(
        Report(title=title, data=data, tables=[Table("", ["", "value"], rows)], verdict=verdict),
        replace(options, out=None),
    )


def write_private(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; a new one can be read by its owner alone."""
    from privagg.report import write_file

    before = os.umask(0o077)
    try:
        write_file(path, content)
    finally:
        os.umask(before)
