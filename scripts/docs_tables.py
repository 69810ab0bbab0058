"""Markdown tables of the pages in docs/."""

from __future__ import annotations


def table(head: list[str], rows: list[list[object]]) -> str:
    """Return a Markdown table; numbers are set right."""
    right = [all(not isinstance(row[at], str) for row in rows) for at in range(len(head))]
    lines = [head, ["--:" if numbers else "---" for numbers in right]]
    lines += [[cell(value) for value in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def cell(value: object) -> str:
    """Return what stands in a cell."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else str(value)
