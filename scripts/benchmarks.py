"""Run every benchmark, peers beside us, and write the page with its pictures.

``python scripts/benchmarks.py run`` runs the parts (``--only PART``), keeps what they gave in
``docs/benchmarks.json`` and renders ``docs/benchmarks.md`` and ``docs/images/bench-*.png``, which
needs the extra ``plots``. ``--python FILE`` names the interpreter of an environment with the peers;
without it, those that are installed here take part. ``render`` renders alone; ``--check`` changes
nothing and ends with 1 if the page is stale.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks_page import compared, render

from privagg.report import write_file

ROOT = Path(__file__).resolve().parent.parent
STORE, PAGE = ROOT / "docs" / "benchmarks.json", ROOT / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Part:
    """One benchmark.

    Attributes
    ----------
    name, title : str
        Its command, and its heading.
    words : str
        Options of the command.
    peers : tuple of str
        Packages that it runs beside us where they are installed.
    here : bool
        Whether it runs in this environment in any case: its peers are extras of ours.
    """

    name: str
    title: str
    words: str = ""
    peers: tuple[str, ...] = ()
    here: bool = False

    @property
    def command(self) -> str:
        """The whole command."""
        return " ".join(["privagg bench", self.name, *self.words.split(), "--json"])


PARTS = (
    Part("prg", "Mask streams", "--against flower", ("flwr",)),
    Part(
        "field",
        "Fields, secret sharing, coded masks",
        "--against flower",
        ("galois", "python-flint", "gmpy2", "flwr"),
    ),
    Part(
        "secagg",
        "Rounds of secure aggregation",
        "--clients 100 --dim 1000000 --against flower",
        ("flwr",),
    ),
    Part("flower", "Rounds in Flower", peers=("flwr",)),
    Part("ldp", "Local differential privacy", peers=("multi-freq-ldpy", "pure-ldp")),
    Part("locational", "Statistics by region"),
    Part("sensor", "Sensor networks, participation audits"),
    Part("responses", "Learning from bags", here=True),
    Part("attacks", "Attacks on gradients", "--runs 2", here=True),
)


def stored() -> dict[str, Any]:
    """Return what runs have given so far, by part."""
    found: dict[str, Any] = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
    return found


def run(part: Part, python: str) -> dict[str, Any]:
    """Run a part and return what is kept of it."""
    interpreter = sys.executable if part.here else python
    words = part.command.split()[1:]
    done = subprocess.run(
        [interpreter, "-m", "privagg", *words, "--quiet"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{part.command}: exit code {done.returncode}\n{done.stderr}")
    return kept(part, json.loads(done.stdout))


def kept(part: Part, found: dict[str, Any]) -> dict[str, Any]:
    """Return the cases of a result in one shape: contestants, CPU seconds, times ours."""
    if part.name == "flower":
        cases = [_round(found)]
    elif part.name == "attacks":
        cases = _attacks(found["attacks"])
    else:
        cases = [
            {
                "name": case["name"],
                "rows": [
                    _row(
                        row["who"],
                        row["seconds"],
                        row["ratio_to_ours"],
                        f"extrapolated: {row['extrapolated']}" if row["extrapolated"] else "",
                    )
                    for row in case["rows"]
                ],
            }
            for case in found["cases"]
        ]
    versions = (
        found.get("versions") or {"flwr": ""}
        if part.name == "flower"
        else found.get("versions", {})
    )
    return {
        "command": part.command,
        "hertz": found.get("hertz"),
        "versions": versions,
        "cases": cases,
    }


def _row(who: str, seconds: dict[str, Any], ratio: float | None, note: str) -> dict[str, Any]:
    numbers = {name: _four(seconds[name]) for name in ("median", "low", "high")}
    return {"who": who, **numbers, "ratio": None if ratio is None else _four(ratio), "note": note}


def _four(value: float) -> float:
    return float(f"{value:.4g}")


def _round(found: dict[str, Any]) -> dict[str, Any]:
    """Return a round in Flower as a case; what nodes send stands in the note."""
    rows = found["rows"]
    ours = min(row["seconds"] for row in rows if row["who"].startswith("privagg"))
    name = f"a round of {found['nodes']} nodes, {found['dim']} parameters, {found['dropped']} lost"
    return {
        "name": name,
        "rows": [
            _row(
                row["who"],
                {"median": row["seconds"], "low": row["seconds_low"], "high": row["seconds_high"]},
                row["seconds"] / ours,
                f"{row['bytes_up_per_node'] / 1000:,.0f} kB up a node, "
                f"error of the mean {row['max_error']:.1e}",
            )
            for row in rows
        ],
    }


def _attacks(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return batches as cases, beside the attack that is quickest of ours."""
    cases = []
    for batch, width in dict.fromkeys((one["batch"], one["width"]) for one in found):
        mine = [one for one in found if (one["batch"], one["width"]) == (batch, width)]
        ours = min(one["seconds"] for one in mine if one["attack"] in {"ica", "relu_exact"})
        rows = [
            _row(
                f"privagg {one['attack']}"
                if one["attack"] in {"ica", "relu_exact"}
                else one["attack"],
                {"median": one["seconds"], "low": one["seconds"], "high": one["seconds_max"]},
                one["seconds"] / ours,
                f"PSNR {one['psnr_mean']:.0f} dB, {100 * one['exact']:.0f} % of the inputs exactly",
            )
            for one in mine
        ]
        cases.append({"name": f"a batch of {batch}, {width} neurons", "rows": rows})
    return cases


def problems(store: dict[str, Any]) -> list[str]:
    """Return what is stale, a line each; of what was never run the page says so."""
    found = []
    for part in PARTS:
        if part.name in store and store[part.name]["command"] != part.command:
            found.append(f"{part.name}: its command is another than the one that was run")
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != render(PARTS, store):
        found.append("docs/benchmarks.md is stale: run scripts/benchmarks.py render")
    return found


def write(store: dict[str, Any]) -> None:
    """Write values, page and pictures."""
    from benchmarks_plot import draw

    kept = {part.name: store[part.name] for part in PARTS if part.name in store}
    write_file(STORE, (json.dumps(kept, indent=1, ensure_ascii=False) + "\n").encode())
    write_file(PAGE, render(PARTS, kept).encode())
    for name, one in kept.items():
        picture = ROOT / "docs" / "images" / f"bench-{name}.png"
        picture.unlink(missing_ok=True)
        if compared(one["cases"]):
            draw([case for case in one["cases"] if compared([case])], picture)


def main(words: list[str]) -> int:
    """Do what the words say and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("command", nargs="?", choices=["run", "render"], default="render")
    parser.add_argument("--only", action="append", choices=[part.name for part in PARTS])
    parser.add_argument("--python", default=sys.executable, help="interpreter with the peers")
    parser.add_argument("--check", action="store_true", help="change nothing; say what is stale")
    chosen = parser.parse_args(words)
    store = stored()
    if chosen.check:
        found = problems(store)
        print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
        return 1 if found else 0
    if chosen.command == "run":
        for part in PARTS:
            if not chosen.only or part.name in chosen.only:
                print(f"{part.command}", file=sys.stderr)
                store[part.name] = run(part, chosen.python)
                write(store)
    write(store)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
