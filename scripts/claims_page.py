"""Render ``docs/claims.md``: which claim is shown where, and what came out."""

from __future__ import annotations

from typing import Any

from claims_list import Area, Claim, Value, tolerance

_HEAD = """# Which claim is shown where

Every figure below is stated by a paper or by these pages, and was got by a command under its table.
`make claims` runs all of them (`make claims ONLY=sensor` an area or a single claim) and writes this
page and `claims.json`; the list is `docs/claims/*.toml`. Tests hold that page, list and values
belong together, and run some of the commands again.

- **stated**: what the source says, or what was aimed at. A tolerance is ours.
- **got**: the value of the last run. "passed" is of tests.
- **holds**: a claim that does not is shown as such, with the reason under its table.
- **command**: its number under the table. It prints JSON, and the value is in it; files for a next
  command go to the folder `out`. Tests run with the extra `dev`.
- Running times are not here: they are on the page of [benchmarks](benchmarks.md).

"""


def render(areas: list[Area], store: dict[str, Any]) -> str:
    """Return the page.

    Parameters
    ----------
    areas : list of Area
        The claims.
    store : dict
        What was found, as in ``docs/claims.json``.
    """
    known = store["claims"]
    claims = [claim for area in areas for claim in area.claims]
    verdicts = [_verdict(claim, known.get(claim.name)) for claim in claims]
    machine = store["machine"]
    summary = (
        f"{len(claims)} claims: {verdicts.count('yes')} hold, {verdicts.count('**no**')} do not"
    )
    missing = verdicts.count("not run")
    summary += f", {missing} were not run" if missing else ""
    text = (
        f"{_HEAD}{summary}. privagg {machine['privagg']}, Python {machine['python']}, "
        f"NumPy {machine['numpy']}, {machine['cpus']} CPUs.\n"
    )
    return text + _summary(areas, known) + "".join(_area(area, known) for area in areas)


def _summary(areas: list[Area], known: dict[str, Any]) -> str:
    rows = []
    for area in areas:
        verdicts = [_verdict(claim, known.get(claim.name)) for claim in area.claims]
        held, failed = verdicts.count("yes"), verdicts.count("**no**")
        title = f"[{area.title}](#{area.title.lower().replace(' ', '-')})"
        counts = [failed, verdicts.count("not run")]
        rows.append([title, str(len(verdicts)), str(held), *(str(one or "") for one in counts)])
    return "\n" + _table(["area", "claims", "hold", "do not", "not run"], rows, "lrrrr")


def _area(area: Area, known: dict[str, Any]) -> str:
    text = f"\n## {area.title}\n\n"
    if area.about:
        text += f"{area.about}\n\n"
    if area.pages:
        pages = " · ".join(f"[{page.partition('.md')[0]}]({page})" for page in area.pages)
        text += f"More: {pages}\n\n"
    head = ["claim", "source", "stated", "got", "holds", "command"]
    commands = list(dict.fromkeys(command for claim in area.claims for command in claim.run))
    rows = [_row(claim, known.get(claim.name), commands) for claim in area.claims]
    reasons = [
        f"- *{claim.says}*: {_reason(claim, known.get(claim.name))}"
        for claim in area.claims
        if _verdict(claim, known.get(claim.name)) not in {"yes", "not run"}
    ]
    text += _table(head, rows, "llrrcr") + "\nCommands:\n\n"
    text += "".join(f"{number}. `{line}`\n" for number, line in enumerate(commands, start=1))
    if reasons:
        text += "\nWhat does not hold, and why:\n\n" + "\n".join(reasons) + "\n"
    return text


def _row(claim: Claim, kept: dict[str, Any] | None, commands: list[str]) -> list[str]:
    numbers = ", ".join(str(commands.index(command) + 1) for command in claim.run)
    got = "" if kept is None or kept["got"] is None else shown(kept["got"], claim.unit)
    stated = "" if claim.stated is None else _stated(claim)
    return [claim.says, claim.source, stated, got, _verdict(claim, kept), numbers]


def _stated(claim: Claim) -> str:
    assert claim.stated is not None
    text = shown(claim.stated, claim.unit)
    if claim.compare == "at least":
        return f"≥ {text}"
    if claim.compare == "at most":
        return f"≤ {text}"
    if claim.compare == "equal":
        return text
    amount, percent = tolerance(claim.compare)
    return f"{text} ± {amount:g}{' %' if percent else ''}"


def _verdict(claim: Claim, kept: dict[str, Any] | None) -> str:
    if kept is None:
        return "not run"
    if kept["got"] is None:
        return "**no**"
    return "yes" if claim.holds(kept["got"]) else "**no**"


def _reason(claim: Claim, kept: dict[str, Any] | None) -> str:
    return claim.because or (kept or {}).get("failed") or "not looked into yet."


def shown(value: Value, unit: str = "") -> str:
    """Return a value as the page has it, four digits of a number, with its unit."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    text = f"{value:,}" if isinstance(value, int) else _digits(value)
    return text + (f" {unit}" if unit else "")


def _digits(value: float) -> str:
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    return f"{value:.4g}"


def _table(head: list[str], rows: list[list[str]], align: str) -> str:
    """Return a Markdown table whose columns are padded to one width."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in [head, *rows]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    rule = {"l": "---", "r": "--:", "c": ":-:"}
    lines = [_line(cells[0], widths, align), _line([rule[kind] for kind in align], widths, align)]
    lines += [_line(row, widths, align) for row in cells[1:]]
    return "\n".join(lines) + "\n"


def _line(cells: list[str], widths: list[int], align: str) -> str:
    padded = [
        cell.rjust(width) if kind == "r" else cell.ljust(width)
        for cell, width, kind in zip(cells, widths, align, strict=True)
    ]
    return "| " + " | ".join(padded) + " |"
