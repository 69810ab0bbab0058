"""``privagg ldp aggregate``: reports and states become a state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from privagg.cli._ldp_files import READABLE, emit_beside, out_is, read_survey_file, required_out
from privagg.cli.common import Options, command, note, progress, warn
from privagg.errors import PeerError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from privagg.protocols.collection import Collector, Survey

__all__ = ["aggregate"]

_REPORT_COLUMN = "report"


@out_is("The state: sums over all reports, and the survey.", "STATE.bin")
@command(
    "aggregate",
    examples=[
        "privagg ldp aggregate config.json reports*.bin --out state.bin",
        "privagg ldp aggregate config.json monday.bin tuesday.bin --out week.bin",
    ],
)
@click.argument("survey", type=READABLE, metavar="CONFIG.json")
@click.argument("files", type=READABLE, nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--skip-bad",
    is_flag=True,
    help="Leave out files that are malformed or of another survey, whole, and list them.",
)
def aggregate(survey: Path, files: tuple[Path, ...], skip_bad: bool, options: Options) -> None:
    """Add up reports, and states of other collectors.

    FILEs are reports, states, and tables (.parquet) with a column "report" of bytes, one batch in
    each row. They are read in parts, so that memory grows with neither respondents nor files; a
    file counts whole or not at all. Nobody can tell a file that is given twice under two names, nor
    reports that were made up.
    """
    from privagg.protocols.collection import Collector, encode_state
    from privagg.report import write_file

    out = required_out(options, "a file for the state, such as state.bin")
    asked = read_survey_file(survey)
    _refuse_twice(files)
    collector = Collector(asked)
    counted: list[dict[str, Any]] = []
    refused: list[dict[str, str]] = []
    total = sum(path.stat().st_size for path in files)
    done = 0
    with progress(options) as step:

        def tell(size: int) -> None:
            nonlocal done
            done = min(done + size, total)
            step("read [bytes]", done, total)

        for path in files:
            try:
                part = _read(path, asked, tell)
                collector.merge(part.state, peer=path.name)
            except PeerError as error:
                if not skip_bad:
                    raise
                refused.append({"file": str(path), "reason": error.reason})
                continue
            counted.append({"file": str(path), "reports": part.users})
        step("read [bytes]", total, total)
    if not counted:
        raise PeerError(refused[0]["file"], "reports", "no file is left: " + refused[0]["reason"])
    for one in refused:
        warn(f"left out {one['file']}: {one['reason']}")
    write_file(out, encode_state(collector))
    note(options, f"Wrote {out}")
    data = {
        "reports": collector.users,
        "files": counted,
        "refused": refused,
        "out": str(out),
        "digest": asked.digest.hex(),
        "insecure_seed": collector.state.insecure,
    }
    rows: list[list[Any]] = [
        ["reports", collector.users],
        ["files", len(counted)],
        ["files left out", len(refused)],
        ["digest", asked.digest.hex()[:16] + "..."],
    ]
    verdict = "Next: privagg ldp estimate."
    if collector.state.insecure:
        verdict += " Some reports were made from a seed: whoever knows it knows the values."
    emit_beside(data, "A state", rows, verdict, options)


def _refuse_twice(files: Sequence[Path]) -> None:
    seen: dict[tuple[int, int], Path] = {}
    for path in files:
        found = path.stat()
        before = seen.setdefault((found.st_dev, found.st_ino), path)
        if before is not path:
            raise UsageError("FILE", str(path), f"each file once: {before} is the same")


def _read(path: Path, survey: Survey, tell: Callable[[int], None]) -> Collector:
    """Return what is in one file."""
    from privagg.protocols.collection import Collector, decode_state, read_reports
    from privagg.protocols.collection.files import STATE_MAGIC

    if path.suffix.lower() == ".parquet":
        collector = Collector(survey)
        for number, data in enumerate(_cells(path)):
            collector.receive(data, peer=f"{path.name}, row {number + 1}")
            tell(len(data))
        return collector
    with path.open("rb") as file:
        if file.seekable() and path.stat().st_size:
            magic = file.read(4)
            file.seek(0)
            if magic == STATE_MAGIC:
                data = file.read()
                tell(len(data))
                return decode_state(data, survey, peer=path.name)
            if magic == b"PALS":
                collector = Collector(survey)
                data = file.read()
                tell(len(data))
                collector.merge(data, peer=path.name)
                return collector
        return read_reports(survey, file, peer=path.name, progress=tell)


def _cells(path: Path) -> Iterator[bytes]:
    """Give the reports of a table, a row after the other."""
    import pyarrow
    from pyarrow import parquet

    allowed = f"a .parquet file with a column {_REPORT_COLUMN!r} of bytes"
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if _REPORT_COLUMN not in names:
                raise PeerError(path.name, "reports", f"expected {allowed}, found other columns")
            kind = file.schema_arrow.field(_REPORT_COLUMN).type
            if not (pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind)):
                raise PeerError(path.name, "reports", f"expected {allowed}, found {kind}")
            columns = [_REPORT_COLUMN]
            for batch in file.iter_batches(1 << 12, columns=columns, use_threads=False):
                for cell in batch.column(0):
                    if not cell.is_valid:
                        raise PeerError(path.name, "reports", "a row without a report")
                    yield cell.as_py()
    except (pyarrow.ArrowException, OSError) as error:
        reason = f"not readable as {allowed}: {' '.join(str(error).split())[:200]}"
        raise PeerError(path.name, "reports", reason) from None
