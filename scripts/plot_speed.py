"""Run rounds of three cohorts and three lengths and draw what they cost beside the plan.

Writes ``docs/images/speed-*.png`` and prints the table of ``docs/speed.md``. It takes a minute or
two, needs the extra ``plots``, and gives the figures of the machine it runs on. With the name of a
file that ``privagg bench secagg --json --out FILE`` wrote, it draws that and measures nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from privagg.bench import secagg

DOCS = Path(__file__).resolve().parent.parent / "docs"
CLIENTS, DIMS = (30, 60, 120), (1_000, 30_000, 300_000)
COLOURS = ("#2f6fab", "#d9772b", "#4a8f4a")


def measure() -> list[dict[str, Any]]:
    """Return the rounds: sizes, CPU seconds and the plan's."""
    report = secagg.bench(
        clients=CLIENTS,
        dims=DIMS,
        step=lambda phase, done, total: print(f"{phase}: {done} of {total}", file=sys.stderr),
    )
    return rounds_of(report.to_json())


def rounds_of(text: str) -> list[dict[str, Any]]:
    """Return the rounds in the JSON of a benchmark."""
    rounds: list[dict[str, Any]] = json.loads(text)["rounds"]
    return rounds


def draw(rounds: list[dict[str, Any]], axis: str, other: str, label: str) -> Any:
    """Draw client and server over `axis`, one line for each value of `other`."""
    figure, panels = plt.subplots(1, 2, figsize=(10.5, 3.9), layout="constrained")
    for panel, party in zip(panels, ("client", "server"), strict=True):
        fixed = sorted({one[other] for one in rounds})
        for colour, value in zip(COLOURS, fixed, strict=True):
            chosen = [one for one in rounds if one[other] == value]
            x = [one[axis] for one in chosen]
            name = f"{'n' if other == 'clients' else 'd'} = {value:,}"
            panel.plot(x, [one[f"{party}_seconds"] for one in chosen], "o-", c=colour, label=name)
            panel.plot(x, [one[f"{party}_seconds_planned"] for one in chosen], "x:", c=colour)
        panel.set(xscale="log", yscale="log", xlabel=label, ylabel="CPU time [s]")
        panel.set_title("one client" if party == "client" else "the server, a tenth dropped")
        panel.legend(title="measured; dotted: planned", frameon=False)
    return figure


def table(rounds: list[dict[str, Any]]) -> str:
    """Return the rounds as the page's table."""
    lines = [
        "| n | d | client | planned | server | planned |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for one in rounds:
        cells = [f"{one['clients']:,}", f"{one['dim']:,}"]
        for party in ("client", "server"):
            measured = one[f"{party}_seconds"]
            ratio = one[f"{party}_seconds_planned"] / measured
            cells += [f"{1000 * measured:,.1f} ms", f"{ratio:.2f} x"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(words: list[str]) -> None:
    """Measure, or take what was measured, then draw and print the table."""
    rounds = rounds_of(Path(words[0]).read_text(encoding="utf-8")) if words else measure()
    for axis, other, label, name in (
        ("clients", "dim", "clients n", "speed-clients"),
        ("dim", "clients", "coordinates d", "speed-dim"),
    ):
        figure = draw(rounds, axis, other, label)
        figure.savefig(DOCS / "images" / f"{name}.png", dpi=110)
    print(table(rounds))


if __name__ == "__main__":
    main(sys.argv[1:])
