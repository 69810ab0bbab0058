"""Write the input of a claim: ``python scripts/claims_inputs.py NAME FILE``; the same every time.

``absences``: a participation log of 20 clients in 200 rounds, each absent from one round in twenty.
``isolated``: three rounds whose sums give one client away, by hand. ``bags``: exact counts of 2,000
random bags of ten fair bits. ``rare-bags``: the same, of bits that are 1 with probability 0.05.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from privagg.entropy import from_seed
from privagg.protocols.responses import Curator, Release
from privagg.protocols.responses.bags import Bags


def absences(path: Path) -> None:
    """Write a log in which nearly everybody is in each round."""
    present = np.random.default_rng(1).random((200, 20)) >= 0.05
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([f"client{at}" for at in range(20)])
        rows.writerows(present.astype(int).tolist())


def isolated(path: Path) -> None:
    """Write the log of three rounds of four clients: the first two differ by one of them."""
    rounds = ["ann,bob,cy,dan", "1,1,1,0", "1,1,0,0", "0,1,0,1"]
    path.write_text("\n".join(rounds) + "\n", encoding="utf-8")


def bags(path: Path, rate: float = 0.5) -> None:
    """Write a release of exact counts of bags of ten labels."""
    labels = (np.random.default_rng(1).random(20_000) < rate).astype(int)
    Curator(Release(classes=2), Bags.random(len(labels), 10, from_seed(1))).release(labels).write(
        path
    )


INPUTS: dict[str, Callable[[Path], None]] = {
    "absences": absences,
    "isolated": isolated,
    "bags": bags,
    "rare-bags": lambda path: bags(path, 0.05),
}

if __name__ == "__main__":
    name, target = sys.argv[1:]
    INPUTS[name](Path(target))
