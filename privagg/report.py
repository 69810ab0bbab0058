"""One result type for every run, plan and audit: table, JSON, picture and page.

A command computes nothing and draws nothing: it returns a :class:`Report`, whose `data` is the
stable object for programs and whose tables, plots, notes and verdict are for people.

    >>> from privagg.report import Report, Table
    >>> report = Report(
    ...     title="A round",
    ...     data={"clients": 3},
    ...     tables=[Table("Survivors", ["round", "clients"], [["share keys", 3]])],
    ...     verdict="The server learned the sum of 3 vectors.",
    ... )
    >>> report.to_json()
    '{"schema_version":1,"clients":3}'
"""

from __future__ import annotations

import io
import os
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from privagg import _report_draw, _report_text
from privagg._report_areas import Area, Choropleth
from privagg._report_images import ImageGrid
from privagg._report_json import SCHEMA_VERSION, encode, plain
from privagg._report_parts import (
    Cell,
    Column,
    Plot,
    PlotKind,
    Reference,
    SecondAxis,
    Series,
    Table,
    printable,
)
from privagg.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Report",
    "Table",
    "Column",
    "Cell",
    "Plot",
    "PlotKind",
    "Choropleth",
    "ImageGrid",
    "Area",
    "Series",
    "SecondAxis",
    "Reference",
    "SCHEMA_VERSION",
    "plain",
    "replacing",
    "write_file",
]


@dataclass(frozen=True, slots=True)
class Report:
    """What a run, a plan or an audit has to say.

    Parameters
    ----------
    title : str
        What was done.
    data : mapping of str to object
        The stable JSON object; see :meth:`to_json` for what it may hold.
    tables : sequence of Table
        For people; `data` holds the same numbers unrounded.
    plots : sequence of Plot, Choropleth and ImageGrid
        Pictures as data.
    notes : sequence of str
        What a reader must know: warnings, assumptions, what was not measured.
    verdict : str
        The last line: what was learned and what was not.
    """

    title: str
    data: Mapping[str, object]
    tables: Sequence[Table] = ()
    plots: Sequence[Plot | Choropleth | ImageGrid] = ()
    notes: Sequence[str] = ()
    verdict: str = ""

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `data` as one JSON object, ``schema_version`` first.

        `data` may hold null, booleans, integers of any size, finite floats, strings, lists, maps
        and NumPy scalars and arrays. Its own ``schema_version`` is kept; otherwise
        :data:`SCHEMA_VERSION` is added.

        Parameters
        ----------
        indent : int, optional
            Spaces per level; without it the object is one line.

        Raises
        ------
        UsageError
            If there is a NaN or an infinity, or a type that JSON does not have; it names the
            path of the value.
        """
        return encode(self.data, indent=indent)

    def print(self, console: Console) -> None:
        """Print title, tables, notes and verdict on a `console` of rich, in its width.

        Strings are printed as they are: nothing in them is read as markup or as a terminal's
        control sequence.
        """
        from rich.text import Text

        console.print(Text(printable(self.title), style="bold"))
        for table in self.tables:
            _report_text.print_table(console, table)
        if self.notes:
            console.print()
        for note in self.notes:
            console.print(Text("• " + printable(note)))
        if self.verdict:
            console.print(Text("\n" + printable(self.verdict), style="bold"))

    def to_html(self) -> str:
        """Return a page that needs nothing else: no script, no request, light and dark.

        Raises
        ------
        UsageError
            If the extra ``plots`` is not installed, or as :meth:`to_json`.
        """
        from privagg import _report_page

        return _report_page.page(
            title=self.title,
            verdict=self.verdict,
            tables=self.tables,
            plots=self.plots,
            notes=self.notes,
            json=self.to_json(indent=2),
        )

    def save_html(self, path: str | Path) -> None:
        """Write the page of :meth:`to_html` to `path`.

        Raises
        ------
        UsageError
            As :meth:`to_html`, or if the folder does not exist.
        """
        write_file(path, self.to_html().encode())

    def save_plot(self, path: str | Path) -> None:
        """Write all plots as one picture to `path`: ``.png``, ``.svg`` or ``.pdf``.

        Raises
        ------
        UsageError
            If the suffix is another, the report has no plots, the extra ``plots`` is not
            installed, or the folder does not exist.
        """
        buffer = io.BytesIO()
        _report_draw.save(self.plots, path, buffer)
        write_file(path, buffer.getvalue())


def write_file(path: str | Path, content: bytes) -> None:
    """Write `content` to `path` whole or not at all: a failure leaves no half of a file.

    Raises
    ------
    UsageError
        If the folder does not exist or `path` is a folder.
    """
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a draft beside `path` that takes its name when the body ends well.

    Until then `path` holds what it held; if the body or the disk fails, it still does, and the
    draft is gone. The draft has reached the disk before it takes the name, and a file that is
    replaced keeps its permissions. A device or a pipe cannot be replaced: it is written directly.

    Parameters
    ----------
    path : str or Path
        The file; a link is followed.

    Yields
    ------
    binary file
        Write to it in as many parts as there are.

    Raises
    ------
    UsageError
        If the folder does not exist or `path` is a folder.
    OSError
        If the system cannot write it.
    """
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise UsageError("path", str(path), "a file in a folder that exists")
    if target.is_dir():
        raise UsageError("path", str(path), "a file, not a folder")
    if target.exists() and not target.is_file():
        # A device or a pipe: /dev/stdout, a shell's process substitution.
        with target.open("wb") as file:
            yield file
        return
    # Not made from the target's name, which may be as long as a name can be.
    draft = target.with_name(f".privagg-{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            if target.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            os.fsync(file.fileno())
        os.replace(draft, target)
        _sync_folder(target.parent)
    finally:
        draft.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Have the new name reach the disk too, where the system can: the content already has."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
