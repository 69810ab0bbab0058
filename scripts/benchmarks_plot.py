"""Draw a benchmark: a bar for each contestant, as times the fastest of ours."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from PIL import Image

OURS, PEERS, ESTIMATED, PLAN = "#2f6fab", "#d9772b", "#f0c199", "#9bbbdb"
_WIDTH, _ROW = 6.0, 0.36  # inches; narrow, for a phone


def draw(cases: list[dict[str, Any]], path: Path) -> None:
    """Draw cases one below the other into a small PNG.

    Parameters
    ----------
    cases : list of dict
        With `name`, and `rows` of `who`, `ratio` and `note`.
    path : Path
        The picture.
    """
    mpl.use("Agg")
    lines = sum(len(case["rows"]) + 1.3 for case in cases)
    figure, panel = plt.subplots(figsize=(_WIDTH, _ROW * lines + 0.9), layout="constrained")
    ratios = [row["ratio"] for case in cases for row in case["rows"] if row["ratio"]]
    low, high = min([*ratios, 1.0]), max([*ratios, 10.0])
    place = 0.0
    for case in cases:
        panel.text(
            low / 1.5, place, _short(case["name"], 74), weight="bold", va="center", fontsize=9
        )
        place += 0.95
        for row in case["rows"]:
            _bar(panel, row, place, low / 1.5)
            panel.plot([1, 1], [place + 0.02, place + 0.34], color="black", lw=1)
            place += 1
        place += 0.35
    panel.set(
        xscale="log", xlim=(low / 1.5, high * (high / low) ** 0.22), ylim=(place, -0.8), yticks=[]
    )
    panel.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}")
    panel.set_xlabel("CPU time, as times the fastest of ours (logarithmic)")
    for colour, label in ((OURS, "privagg"), (PEERS, "others"), (ESTIMATED, "extrapolated")):
        panel.barh(0, 0, left=1, color=colour, label=label)
    panel.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=9)
    panel.spines[["top", "left", "right"]].set_visible(False)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=90)
    plt.close(figure)
    Image.open(drawn).convert("RGB").quantize(colors=48).save(path, optimize=True)


def _bar(panel: Any, row: dict[str, Any], place: float, left: float) -> None:
    """Draw one bar, the name above its line, the ratio at its end."""
    panel.text(left, place - 0.22, _short(row["who"], 66), va="center", fontsize=8.5)
    ratio = row["ratio"]
    if ratio is None:
        return
    colour = OURS if row["who"].startswith("privagg") else PEERS
    if row["who"] == "plan":
        colour = PLAN
    elif row["note"].startswith("extrapolated"):
        colour = ESTIMATED
    panel.barh(place + 0.18, ratio - left, left=left, height=0.3, color=colour)
    text = f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"
    panel.text(max(ratio, 1) * 1.1, place + 0.18, text, va="center", fontsize=8.5)


def _short(text: str, most: int) -> str:
    text = text.replace("**", "^")
    return text if len(text) <= most else text[: most - 1] + "…"
