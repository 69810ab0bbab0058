"""Draw the pictures of the documentation from real runs and plans: ``docs/images/*.png``.

The run is seeded, so that a picture changes only when what it shows does. It needs the extra
``plots`` and takes about ten seconds.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray

from privagg import datasets
from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import calibration, messages

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"

BLUE, ORANGE, GREY, DARK = "#2f6fab", "#d9772b", "#9a9a9a", "#222222"

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "figure.dpi": 110,
}


def round_picture(clients: int = 100) -> Any:
    """Draw what one client holds, what the server receives from it, and what it learns."""
    inputs = datasets.histogram_inputs("adult", "education", clients)
    params = secagg.Params.recommend(clients=clients, dim=len(inputs.categories), dropout=0.1)
    transcript = secagg.Transcript(payloads=True)
    leave = dict.fromkeys(range(5, clients, 10), "masked-input")
    result = secagg.run(params, inputs, dropouts=leave, seed=2017, transcript=transcript)
    assert result.exact
    sent = masked_vector(transcript, params, client=0)

    names = [str(category) for category in inputs.categories]
    order = np.argsort(result.sum)
    rows = np.arange(len(names))
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.9), sharey=True, layout="constrained")
    modulus = f"masked, modulo $2^{{{params.modulus_bits}}}$"
    panels: list[tuple[str, str, NDArray[Any], str]] = [
        ("Client 0 holds", "its rows by education", inputs[0], BLUE),
        ("The server receives from it", modulus, sent, GREY),
        ("The server learns", f"the sum over {result.count} survivors", result.sum, ORANGE),
    ]
    for axis, (title, label, values, colour) in zip(axes, panels, strict=True):
        axis.barh(rows, values[order], color=colour, height=0.75)
        axis.set_title(title)
        axis.set_xlabel(label)
        axis.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(thousands))
        axis.locator_params(axis="x", nbins=4)
        axis.tick_params(axis="y", length=0)
    axes[0].set_yticks(rows, [names[at] for at in order])
    return figure


def masked_vector(
    transcript: secagg.Transcript, params: secagg.Params, client: int
) -> NDArray[np.unsignedinteger[Any]]:
    """Return the vector that `client` sent, from the bytes on the wire."""
    for entry in transcript:
        if entry.sender == client and entry.kind == "MaskedInput":
            message = messages.MaskedInput.decode(entry.payload or b"", params, peer=client)
            return np.asarray(message.vector)
    raise LookupError(f"client {client} sent no masked input")


def thousands(value: float, _position: int) -> str:
    """Return an axis label: 12k for 12 000, 2M for two million."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def expansion_picture() -> Any:
    """Draw a client's bytes over the raw vector's, planned, beside the paper's formula."""
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.9), sharey=True, layout="constrained")
    cohorts = [2**power for power in range(5, 15)]
    for axis, dim in zip(axes, (2**17, 2**20), strict=True):
        for graph, colour in (("complete", BLUE), ("sparse", ORANGE)):
            plans = []
            for clients in cohorts:
                try:
                    plans.append(bill(clients, dim, graph))
                except UsageError:
                    continue
            counts = [plan.params.clients for plan in plans]
            axis.plot(counts, [plan.expansion for plan in plans], "o-", ms=4, color=colour)
            formula = [plan.expansion_formula for plan in plans]
            axis.plot(counts, formula, "x", ms=8, mew=1.5, color=DARK)
        floor = [
            secagg.Params.recommend(clients=clients, dim=dim).modulus_bits / 16
            for clients in cohorts
        ]
        axis.plot(cohorts, floor, "--", color=GREY, lw=1.2)
        axis.set_xscale("log", base=2)
        axis.set_ylim(1, 4)
        axis.set_xlabel("clients")
        axis.set_title(f"{dim:,} values of 16 bits".replace(",", " "))
        axis.grid(axis="y", color="#e5e5e5", lw=0.8)
        axis.set_axisbelow(True)
    axes[0].set_ylabel("a client's bytes, up and down,\nover its vector as it is")
    handles = [
        mpl.lines.Line2D([], [], color=BLUE, marker="o", ms=4, label="complete graph"),
        mpl.lines.Line2D([], [], color=ORANGE, marker="o", ms=4, label="sparse graph"),
        mpl.lines.Line2D([], [], color=DARK, marker="x", ms=8, ls="", label="the paper's formula"),
        mpl.lines.Line2D([], [], color=GREY, ls="--", label="the masked vector alone"),
    ]
    axes[1].legend(handles=handles, frameon=False, loc="upper left")
    return figure


def bill(clients: int, dim: int, graph: str) -> secagg.Plan:
    """Return the exact bytes of a round; seconds are not measured."""
    params = secagg.Params.recommend(clients=clients, dim=dim, graph=graph)
    fields = dataclasses.fields(calibration.Units)
    return secagg.plan(params, units=calibration.Units(**{field.name: 0.0 for field in fields}))


def main() -> int:
    """Draw every picture; return the exit code."""
    mpl.use("agg")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        for name, draw in (("round", round_picture), ("expansion", expansion_picture)):
            path = IMAGES / f"{name}.png"
            draw().savefig(path, metadata={"Software": None})
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
