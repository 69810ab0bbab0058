"""Draw the arithmetic of the fields beside other libraries, and print it as a table.

Writes ``docs/images/speed-fields.png`` and prints the table of ``docs/fields.md``, from what
``privagg bench field --part arithmetic --json --out FILE`` wrote to the file that is named. Needs
the extra ``plots``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

DOCS = Path(__file__).resolve().parent.parent / "docs"
OURS = "privagg"
COLOURS = {
    "NumPy": "#d9772b",
    "plain": "#8a8a8a",
    "galois": "#4a8f4a",
    "python-flint": "#8a5fb0",
}
FLOOR = "#c9d8e8"
ONE = {
    "products": "product",
    "terms": "term",
    "butterflies": "butterfly",
    "coefficients": "coefficient",
}


def draw(cases: list[dict[str, Any]]) -> Any:
    """Draw a bar for each contestant, as times ours; below 1, the floors."""
    figure, panel = plt.subplots(figsize=(9.5, 6.0), layout="constrained")
    place, ticks = 0.0, []
    for case in reversed(cases):
        start = place
        best = min(r["seconds"]["median"] for r in case["rows"] if r["who"].startswith(OURS))
        for row in reversed(case["rows"]):
            if row["who"].startswith(OURS):
                continue
            library = row["who"].split()[0].rstrip(",")
            panel.barh(place, row["ratio_to_ours"] - 1, left=1, color=COLOURS[library], height=0.8)
            panel.text(
                row["ratio_to_ours"] * 1.08, place, f"{row['ratio_to_ours']:.3g}", va="center"
            )
            place += 1
        floor = max((floor["seconds"] for floor in case["floors"]), default=None)
        if floor is not None:
            high = max(place, start + 1)
            panel.fill_betweenx([start - 0.4, high - 0.6], floor / best, 1, color=FLOOR)
            place = high
        ticks.append(((start + place - 1) / 2, case["name"]))
        place += 0.9
    panel.axvline(1, color="black", lw=1)
    panel.set(xscale="log", xlabel="CPU time, as times ours; blue: down to the highest floor")
    panel.set_yticks([at for at, _ in ticks], [folded(name) for _, name in ticks])
    for name, colour in COLOURS.items():
        panel.barh(0, 0, left=1, color=colour, label=name if name != "plain" else "plain Python")
    panel.legend(frameon=False, loc="upper right", bbox_to_anchor=(1.0, 1.08), ncols=4)
    panel.margins(x=0.12)
    return figure


def folded(name: str) -> str:
    """Return the name of a case on two lines."""
    for word in ("modulo", "decoded", "multiplied"):
        name = name.replace(f" {word}", f"\n{word}")
    return name


def table(cases: list[dict[str, Any]]) -> str:
    """Return the cases as the page's table."""
    lines = ["| work | ours | cycles | beside it, times ours |", "|---|---:|---:|---|"]
    for case in cases:
        ours, *others = case["rows"]
        beside = "; ".join(
            f"{row['who']} {'~' if row['extrapolated'] else ''}{row['ratio_to_ours']:.3g}"
            for row in others
        )
        seconds = ours["seconds"]["median"]
        time = f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"
        cycles = f"{ours['cycles_per_unit']:.3g} a {ONE.get(case['unit'], case['unit'])}"
        name = case["name"].replace("**", "^").replace("*", "\\*")
        lines.append(f"| {name} | {time} | {cycles} | {beside} |")
    return "\n".join(lines)


def main(name: str) -> None:
    """Draw and print what a file holds."""
    cases = json.loads(Path(name).read_text(encoding="utf-8"))["cases"]
    draw(cases).savefig(DOCS / "images" / "speed-fields.png", dpi=100)
    print(table(cases))


if __name__ == "__main__":
    main(sys.argv[1])
