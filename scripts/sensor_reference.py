"""Reproduce the reference figures of sensor networks and print them as the tables of the docs.

Nodes in 400 m x 400 m with a range of 50 m, 20 random topologies a row: mean and standard deviation
over these, beside the value of an independent prototype. Takes about a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.sensor_keys import disclosure
from privagg.protocols.sensor import MODELS, Deployment, Flood, Radio, Result, simulate

TOPOLOGIES = 20

FORMATION = {
    # (nodes, leader probability): mean size, nodes in m >= 3, the same after merging, mean size
    (200, 0.3): (3.16, 0.748, 0.897, 5.07),
    (400, 0.3): (3.28, 0.813, 0.988, 5.14),
    (600, 0.1): (9.37, 0.929, 0.932, 9.53),
    (600, 0.2): (5.00, 0.949, 0.992, 5.73),
    (600, 0.3): (3.32, 0.822, 0.997, 5.10),
}
"""Clusters where everyone forwards the query."""

SIZES = {
    (200, 0.3): (0.16, 0.25, 0.24, 0.16, 0.09, 0.06, 0.03, 0.02),
    (400, 0.3): (0.14, 0.23, 0.24, 0.19, 0.11, 0.05, 0.03, 0.02),
    (600, 0.1): (0.00, 0.01, 0.03, 0.06, 0.07, 0.09, 0.10, 0.63),
    (600, 0.2): (0.04, 0.09, 0.16, 0.19, 0.18, 0.13, 0.09, 0.13),
    (600, 0.3): (0.11, 0.24, 0.24, 0.21, 0.10, 0.06, 0.03, 0.02),
}
"""P(m = 1 ... 7) and P(m >= 8), before merging."""

DISCLOSURE = {
    0.1: (9e-6, 2.6e-4, 1.2e-3),
    0.2: (5.4e-5, 1.5e-3, 6.3e-3),
    0.3: (1.1e-4, 2.9e-3, 1.2e-2),
}
"""P(q) for q = 0.01, 0.05, 0.1, by leader probability; 600 nodes, clusters of 3 or more."""

COSTS = {
    # frames, bytes, uJ sent, sent + addressed, sent + overheard, MICA2 sent, frames of 114 bytes
    "tag": (2.00, 58, 107, 1575, 3137, 736, 2.00),
    "smart J=2": (3.00, 85, 156, 1679, 4597, 1078, 3.00),
    "smart J=3": (4.00, 112, 206, 1782, 6058, 1421, 4.00),
    "cpda": (5.67, 182, 334, 1618, 9922, 2304, 4.74),
    "cpda-field": (4.68, 159, 292, 1416, 8683, 2014, 3.75),
    "cpda-sen-efficient": (2.18, 61, 112, 542, 3306, 772, 2.16),
    "mask-cluster": (2.18, 61, 112, 542, 3306, 772, 2.16),
}
"""Per node and round, 600 nodes, p_c = 0.3; clusters: leaders forward the query, the rest: all."""

ACCURACY = {
    # loss: tag, cpda-field, threshold m - 1, all without retries
    0.01: (0.96, 0.67, 0.90),
    0.05: (0.82, 0.20, 0.60),
    0.10: (0.67, 0.06, 0.35),
}
"""Sum over true sum, 600 nodes, p_c = 0.3, everyone forwards."""

Spread = tuple[float, float]


def topologies(
    nodes: int, probability: float, flood: str, count: int = TOPOLOGIES, **changes: Any
) -> Iterator[Result]:
    """Run one protocol on so many topologies."""
    for seed in range(count):
        yield simulate(
            Deployment(nodes, 400.0, 50.0, probability, flood=Flood(flood), seed=1000 + seed),
            allow_insecure=True,
            **changes,
        )


def spread(rows: list[list[float]]) -> list[Spread]:
    """Return mean and standard deviation of each column."""
    table = np.array(rows)
    return list(zip(table.mean(axis=0), table.std(axis=0, ddof=1), strict=True))


def formation(nodes: int, probability: float) -> tuple[list[Spread], list[Spread]]:
    """Return the figures of FORMATION, and the sizes' distribution before merging."""
    figures, shares = [], []
    for result in topologies(nodes, probability, "all", protocol="mask-cluster"):
        before = result.formation.clusters.sizes(before=True)
        after = result.formation.clusters.sizes()
        inside = before[before >= 3].sum() / nodes
        figures.append(
            [float(v) for v in (before.mean(), inside, after.sum() / nodes, after.mean())]
        )
        shares.append(
            [float(np.mean(before == m)) for m in range(1, 8)] + [float(np.mean(before >= 8))]
        )
    return spread(figures), spread(shares)


def disclosures(probability: float) -> list[Spread]:
    """Return P(q) for the q of DISCLOSURE."""
    rows = []
    for result in topologies(600, probability, "all", protocol="mask-cluster"):
        sizes = result.formation.clusters.sizes(before=True)
        sizes = sizes[sizes >= 3]
        shares = {int(m): float(np.mean(sizes == m)) for m in np.unique(sizes)}
        rows.append([disclosure(q, shares) for q in (0.01, 0.05, 0.1)])
    return spread(rows)


def changes_of(name: str) -> dict[str, Any]:
    """Return the arguments of a row of COSTS."""
    if name.startswith("smart"):
        return {"protocol": "smart", "slices": int(name[-1])}
    if name == "cpda":
        return {"protocol": "cpda", "arithmetic": "real", "real_bytes": 4}
    return {"protocol": name}


def costs(name: str) -> list[Spread]:
    """Return the figures of COSTS, and what the prototype leaves out: merging, seeds sent on.

    The last two columns are the frames of these.
    """
    flood = "all" if name == "tag" or name.startswith("smart") else "leaders"
    rows = []
    large = Radio(payload=114)
    for small, big in zip(
        topologies(600, 0.3, flood, **changes_of(name)),
        topologies(600, 0.3, flood, radio=large, **changes_of(name)),
        strict=True,
    ):
        rows.append([*_figures(small), _frames(big), *_left_out(small)])
    return spread(rows)


_APART = ("merge", "seeds-relay")


def _frames(result: Result) -> float:
    kinds = result.costs.by_kind
    return result.costs.frames - sum(kinds[kind][1] for kind in _APART if kind in kinds)


def _left_out(result: Result) -> list[float]:
    kinds = result.costs.by_kind
    return [kinds[kind][1] if kind in kinds else 0.0 for kind in _APART]


def _figures(result: Result) -> list[float]:
    kinds = result.costs.by_kind
    apart = sum(kinds[kind][2] for kind in _APART if kind in kinds)
    octets = result.costs.octets - apart
    cc2420, mica2 = (result.costs.microjoules(name, 50.0) for name in ("cc2420", "mica2"))
    share = octets / result.costs.octets
    heard = sum(result.costs.received_by_kind.get(kind, 0.0) for kind in _APART)
    received = cc2420["received"] - heard * MODELS["cc2420"].receive
    return [
        _frames(result),
        octets,
        cc2420["sent"] * share,
        cc2420["sent"] * share + received,
        (cc2420["sent"] + cc2420["overheard"]) * share,
        mica2["sent"] * share,
    ]


def accuracies(loss: float, retries: int) -> list[Spread]:
    """Return the accuracy of tag, cpda-field and cpda-field with one that may fall silent."""
    columns: list[NDArray[Any]] = []
    radio = Radio(loss=loss, retries=retries)
    for changes in (
        {"protocol": "tag"},
        {"protocol": "cpda-field"},
        {"protocol": "cpda-field", "drops": 1, "corrupt": 0},
    ):
        found = [r.accuracy for r in topologies(600, 0.3, "all", radio=radio, **changes)]
        columns.append(np.array(found))
    return spread(np.stack(columns, axis=1).tolist())


def cell(value: Spread) -> str:
    """Return mean and deviation as text."""
    mean, deviation = value
    if 0 < abs(mean) < 0.01:
        return f"{mean:.1e} ± {deviation:.0e}"
    digits = 0 if mean >= 50 else 2 if mean >= 2 else 3
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] + ["--:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def beside(name: str, expected: Any, found: list[Spread]) -> list[str]:
    """Return a row of cells: the reference, then mean and deviation here."""
    return [name] + [f"{want:g}: {cell(got)}" for want, got in zip(expected, found, strict=False)]


def main() -> int:
    """Print all tables."""
    rows = []
    for key, expected in FORMATION.items():
        figures, _ = formation(*key)
        rows.append(beside(f"{key[0]}, {key[1]}", expected, figures))
    heads = ["N, p_c", "mean size", "nodes in m >= 3", "after merging", "mean size after"]
    print(table(heads, rows), "\n")
    rows = [beside(str(p), DISCLOSURE[p], disclosures(p)) for p in DISCLOSURE]
    print(table(["p_c", "q = 0.01", "q = 0.05", "q = 0.1"], rows), "\n")
    heads = ["protocol", "frames", "bytes", "µJ sent", "+ addressed", "+ overheard", "MICA2 sent"]
    heads += ["frames, 114 B"]
    rows = []
    for name, wanted in COSTS.items():
        found = costs(name)
        rows.append(beside(name, wanted, found))
        print(f"{name}: apart from that {cell(found[7])} merging, {cell(found[8])} seeds sent on")
    print(table(heads, rows), "\n")
    rows = [beside(f"{loss:.0%}", ACCURACY[loss], accuracies(loss, 0)) for loss in ACCURACY]
    rows += [
        [f"{loss:.0%}, 3 retries"] + [cell(value) for value in accuracies(loss, 3)]
        for loss in ACCURACY
    ]
    print(table(["loss", "tag", "cpda-field", "one may fall silent"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
