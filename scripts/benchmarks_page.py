"""Render ``docs/benchmarks.md``: a table and a picture for each benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks import Part

_HEAD = """# Benchmarks

Ours beside other libraries, each part from one run in which the contestants took turns: medians
of CPU seconds of all threads, and times ours, the fastest of ours being 1. `make bench` runs them,
with the peers in an environment of their own, and writes this page; `make bench ONLY=prg` runs one
part. What limits each figure, and how it is measured, is on the page of [speed](speed.md). Where a
smaller measurement was extrapolated the row says from what. CPU times move by a third on a busy
machine, ratios of one run less.

"""


def render(parts: Sequence[Part], store: dict[str, Any]) -> str:
    """Return the page.

    Parameters
    ----------
    parts : sequence of Part
        In their order.
    store : dict
        What was kept of their runs, as in ``docs/benchmarks.json``.
    """
    others = {name for part in parts for name in part.peers}
    links = [f"[{part.title}](#{_anchor(part.title)})" for part in parts if part.name in store]
    text = _HEAD + " · ".join(links) + "\n"
    for part in parts:
        if part.name in store:
            text += _part(part, store[part.name], others - set(part.peers))
        else:
            text += f"\n## {part.title}\n\n`{part.command}` was not run yet.\n"
    return text


def compared(cases: Sequence[dict[str, Any]]) -> bool:
    """Say whether anybody else takes part: else there is nothing to draw."""
    return any(not row["who"].startswith("privagg") for case in cases for row in case["rows"])


def _anchor(title: str) -> str:
    return "".join(sign for sign in title.lower() if sign.isalnum() or sign in " -").replace(
        " ", "-"
    )


def _part(part: Part, one: dict[str, Any], others: set[str]) -> str:
    text = f"\n## {part.title}\n\n`{one['command']}`"
    if one["hertz"]:
        text += f", at {one['hertz'] / 1e9:.2f} GHz"
    versions = ", ".join(
        f"{name} {version}".strip()
        for name, version in one["versions"].items()
        if name not in others
    )
    text += f". {versions}.\n" if versions else ".\n"
    if compared(one["cases"]):
        text += f"\n![{part.title}: CPU time as times ours](images/bench-{part.name}.png)\n"
    absent = [name for name in part.peers if name not in one["versions"]]
    for number, case in enumerate(one["cases"]):
        rows = [_row(row) for row in case["rows"]]
        if number == 0:
            rows += [[name, "not installed", "", ""] for name in absent]
        noted = any(row[3] for row in rows)
        name = case["name"].replace("**", "^").replace("*", "\\*")
        text += f"\n**{name}**\n\n" + _table(rows, noted)
    return text


def _row(row: dict[str, Any]) -> list[str]:
    ratio = "" if row["ratio"] is None else f"{row['ratio']:,.3g}"
    if row["ratio"] is not None and row["ratio"] >= 1000:
        ratio = f"{row['ratio']:,.0f}"
    return [row["who"].replace("|", "\\|"), _time(row["median"]), ratio, row["note"]]


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= factor:
            number = f"{seconds / factor:.3g}" if seconds < 1000 else f"{seconds:,.0f}"
            return f"{number}\u00a0{unit}"
    return f"{seconds / 1e-9:.3g}\u00a0ns"


def _table(rows: list[list[str]], noted: bool) -> str:
    head = ["contestant", "CPU", "times ours", "beside"]
    rule = ["---", "--:", "--:", "---"]
    count = 4 if noted else 3
    lines = [line[:count] for line in [head, rule, *rows]]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
