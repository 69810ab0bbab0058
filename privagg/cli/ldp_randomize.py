"""``privagg ldp randomize``: on the respondents' side, values become reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from privagg.cli._ldp_files import (
    READABLE,
    emit_beside,
    locked,
    open_ledger,
    out_is,
    read_survey_file,
    required_out,
    write_private,
)
from privagg.cli.common import (
    Options,
    Step,
    command,
    file_option,
    note,
    progress,
    seed_option,
    warn,
)
from privagg.errors import UsageError

if TYPE_CHECKING:
    from privagg.entropy import Entropy
    from privagg.mechanisms.longitudinal import Longitudinal
    from privagg.protocols.collection import Survey
    from privagg.protocols.collection.survey import Batch

__all__ = ["randomize"]


@out_is("The reports: all that leaves the respondents.", "REPORTS.bin")
@command(
    "randomize",
    examples=[
        "privagg ldp randomize config.json --input mine.parquet --out reports.bin",
        "privagg ldp randomize config.json --input mine.csv --out reports.bin "
        "--ledger ledger.json --respondent me --limit 3",
    ],
)
@click.argument("survey", type=READABLE, metavar="CONFIG.json")
@click.option(
    "--input",
    "source",
    type=READABLE,
    required=True,
    metavar="FILE",
    help="A row per respondent, a column per attribute: .csv or .parquet.",
)
@file_option(
    "--ledger",
    "LEDGER.json",
    "Charge each respondent here for the report; made if it is not there.",
)
@click.option("--respondent", metavar="NAME", help="Who the one row is, in the ledger.")
@click.option("--id", "column", metavar="COLUMN", help="The column that says who each row is.")
@click.option(
    "--limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="FLOAT",
    help="Of a new ledger: the most that a respondent may spend in all.",
)
@click.option(
    "--round",
    "number",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="INT",
    help="Of the survey, in the ledger.",
)
@file_option(
    "--memory",
    "MEMORY.bin",
    "Of a mechanism for repeated surveys: the respondents' permanent answers, made if not there.",
)
@seed_option
def randomize(
    survey: Path,
    source: Path,
    ledger: Path | None,
    respondent: str | None,
    column: str | None,
    limit: float | None,
    number: int,
    memory: Path | None,
    seed: int | None,
    options: Options,
) -> None:
    """Randomise values into reports, on the respondents' side.

    Randomness comes from the operating system. A value outside its declared domain is refused
    before anything is written, or reported under epsilon as the domain declares; how many there
    were is said nowhere. Every report spends epsilon: with --ledger it is charged, and refused
    beyond the limit, before the reports' file gets its name, or a pipe its first byte.
    """
    from privagg.accounting import Ledger
    from privagg.entropy import from_seed
    from privagg.protocols.collection import write_reports
    from privagg.report import replacing

    out = required_out(options, "a file for the reports, such as reports.bin")
    asked = read_survey_file(survey)
    _check_ledger(ledger, respondent, column, limit, memory)
    entropy = from_seed(seed)
    if seed is not None:
        warn("seeded, so insecure: who knows the seed knows the values behind the reports.")
    remembered: _Remembered | None = None
    spent: float | None = None
    with progress(options) as step:

        def save() -> None:
            if book is not None and ledger is not None:
                write_private(ledger, book.encode())
            if remembered is not None:
                remembered.save()

        def write() -> int:
            batches = _batches(asked, source, entropy, remembered, step)
            # What is spent is on the disk before the reports have their name, or before the first
            # of them is in a pipe: a process that is killed in between has charged too much, never
            # too little.
            direct = out.exists() and not out.is_file()
            if direct:
                batches = batches if remembered is None else iter(list(batches))
                save()
            with replacing(out) as file:
                found = write_reports(asked, batches, file)
                if book is not None and found != len(who):
                    raise UsageError("--input", "another file than before", "one left as it is")
                if not direct:
                    save()
            return found

        book: Ledger | None = None
        who: list[str | int] = []
        if memory is not None:
            with locked(memory):
                remembered = _Remembered(asked, memory, entropy)
                reports = write()
        elif ledger is None:
            reports = write()
        else:
            with open_ledger(ledger, limit) as book:
                who = _who(source, column, respondent, asked)
                asked.charge(book, who, round=number)
                reports = write()
            spent = book.most()
    note(options, f"Wrote {out}")
    if remembered is not None:
        spent = remembered.spent()
    data = {
        "reports": reports,
        "out": str(out),
        "bytes": out.stat().st_size if out.is_file() else None,
        "bytes_per_report": asked.report_bytes,
        "digest": asked.digest.hex(),
        "epsilon": asked.cost,
        "spent_most": spent,
        "guarantee": asked.guarantee,
        "insecure_seed": seed is not None,
    }
    rows: list[list[Any]] = [
        ["reports", reports],
        ["bytes", data["bytes"]],
        ["digest", asked.digest.hex()[:16] + "..."],
        ["epsilon of each", asked.cost],
    ]
    if spent is not None:
        rows.append(["the most that a respondent has spent", spent])
    emit_beside(data, "Reports", rows, f"One report has {asked.guarantee}.", options)


def _check_ledger(
    ledger: Path | None,
    respondent: str | None,
    column: str | None,
    limit: float | None,
    memory: Path | None,
) -> None:
    if ledger is None:
        for flag, value in (("--respondent", respondent), ("--id", column), ("--limit", limit)):
            if value is not None:
                raise UsageError(flag, value, "only with --ledger")
    elif memory is not None:
        hint = "The memory itself counts what its answers have spent."
        raise UsageError("--memory", str(memory), "nothing with --ledger", hint)
    elif (respondent is None) == (column is None):
        found = "neither" if respondent is None else "both"
        raise UsageError("--respondent and --id", found, "one of them with --ledger")


def _batches(
    survey: Survey,
    source: Path,
    entropy: Entropy,
    remembered: _Remembered | None,
    step: Step,
) -> Iterator[Batch]:
    """Give the reports of a file, a batch at a time."""
    from privagg.protocols.collection import read_chunks
    from privagg.protocols.collection.files import rows_per_batch

    chunks = read_chunks(source, survey.attributes, rows=rows_per_batch(survey))
    if remembered is not None:
        import pyarrow

        (name,) = survey.names
        values = []
        for chunk in chunks:
            survey.codes(chunk.columns, source=source.name)  # refused by name, before any report
            values.append(chunk.columns[name])
        yield remembered.report(pyarrow.chunked_array(values))
        return
    for chunk in chunks:
        yield survey.randomize(chunk.columns, entropy, source=source.name)
        step("randomised", chunk.done, chunk.total)
    if chunk.done < chunk.total:
        step("randomised", chunk.total, chunk.total)


def _who(
    source: Path, column: str | None, respondent: str | None, survey: Survey
) -> list[str | int]:
    """Return who each row is."""
    from privagg.protocols.collection import read_chunks

    if column is None:
        rows = sum(len(chunk) for chunk in read_chunks(source, survey.attributes))
        if rows != 1:
            hint = "Name the column that says who each is: --id."
            raise UsageError("--respondent", f"a file of {rows:,} rows", "a file of one row", hint)
        return [str(respondent)]
    if column in survey.attributes:
        raise UsageError("--id", column, "a column that is no attribute of the survey")
    found: list[str | int] = []
    for chunk in read_chunks(source, {}, also=[column]):
        found += chunk.columns[column].to_pylist()
    for one in found:
        if isinstance(one, bool) or not isinstance(one, str | int) or one == "":
            raise UsageError(f"{source.name}, column {column!r}", "no name", "a name in every row")
    # A number is who the same digits are: in a .csv file all names are text.
    found = [str(one) for one in found]
    if len(set(found)) < len(found):
        raise UsageError(f"{source.name}, column {column!r}", "a name twice", "a row for each name")
    return found


class _Remembered:
    """The permanent answers of the respondents of a repeated survey."""

    def __init__(self, survey: Survey, path: Path, entropy: Entropy) -> None:
        from privagg.mechanisms.longitudinal import Longitudinal

        one = survey.mechanism
        if not isinstance(one, Longitudinal):
            raise UsageError(
                "--memory", str(path), "only with a mechanism for repeated surveys, such as loloha"
            )
        self._one: Longitudinal = one
        self._path, self._entropy = path, entropy
        self._memory = one.load_memory(path.read_bytes()) if path.exists() else None

    def report(self, values: Any) -> Batch:
        """Return the next report of each respondent, in the order of the first file."""
        if self._memory is None:
            self._memory = self._one.remember(len(values), self._entropy)
        elif self._memory.respondents != len(values):
            allowed = f"{self._memory.respondents:,} rows, the respondents of the memory in order"
            raise UsageError("--input", f"{len(values):,} rows", allowed)
        return self._one.report(values, self._memory, self._entropy)

    def save(self) -> None:
        """Write the memory."""
        assert self._memory is not None
        write_private(self._path, self._memory.dump_state())

    def spent(self) -> float:
        """Return the most that a respondent has spent."""
        assert self._memory is not None
        return float(self._one.spent(self._memory).max())
