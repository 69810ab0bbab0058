"""Reproduce every claim: run its command, read the value, and write the page.

``python scripts/claims.py run`` runs all (``--only AREA`` or ``--only NAME``, ``--fast``), writes
``docs/claims.json`` and renders ``docs/claims.md`` from it. ``render`` renders alone; ``--check``
changes nothing and ends with 1 if the page is stale, a claim has no stored value, or one fails that
is not known to; with ``--fast``, what takes long may have no value yet. The list is in
``docs/claims/*.toml``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
from claims_list import Area, Claim, areas
from claims_page import render
from claims_run import Failed, start, value

import privagg
from privagg.report import write_file

DOCS = Path(__file__).resolve().parent.parent / "docs"
STORE, PAGE = DOCS / "claims.json", DOCS / "claims.md"


def machine() -> dict[str, object]:
    """Return what the values depend on, and nothing that names the machine."""
    return {
        "privagg": privagg.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpus": os.cpu_count(),
    }


def stored() -> dict[str, Any]:
    """Return what runs have found so far."""
    if not STORE.exists():
        return {"machine": machine(), "claims": {}}
    found: dict[str, Any] = json.loads(STORE.read_text(encoding="utf-8"))
    return found


def entry(claim: Claim, known: dict[str, Future[Any]]) -> dict[str, object]:
    """Wait for a claim's commands and return what is stored of it."""
    found: dict[str, object] = {"run": list(claim.run), "value": claim.value}
    try:
        return found | {"got": value(claim, known), "failed": ""}
    except Failed as error:
        return found | {"got": None, "failed": str(error)}


def problems(listed: list[Area], store: dict[str, Any], fast: bool = False) -> list[str]:
    """Return what is missing, stale, or fails although it should hold, a line each."""
    found = []
    known = store["claims"]
    for claim in (claim for area in listed for claim in area.claims):
        kept = known.get(claim.name)
        if kept is None:
            found += [] if fast and claim.slow else [f"{claim.name}: never run"]
        elif kept["run"] != list(claim.run) or kept["value"] != claim.value:
            found.append(f"{claim.name}: its command is another than the one that was run")
        elif kept["got"] is None:
            found.append(f"{claim.name}: {kept['failed']}")
        elif claim.holds(kept["got"]) == bool(claim.because):
            verdict = "does not hold" if not claim.because else "holds, against what is said of it"
            found.append(f"{claim.name}: {verdict} ({kept['got']}, stated {claim.stated})")
    names = {claim.name for area in listed for claim in area.claims}
    found += [f"{name}: stored, but not in the list" for name in known if name not in names]
    return found


def run(listed: list[Area], store: dict[str, Any], only: list[str], fast: bool, jobs: int) -> None:
    """Run the chosen claims and put their values into the store."""
    chosen = [
        claim
        for area in listed
        for claim in area.claims
        if (not only or area.name in only or claim.name in only) and not (fast and claim.slow)
    ]
    if only and not chosen:
        raise SystemExit(f"no area and no claim is called {', '.join(only)}")
    known = start(chosen, jobs)
    began = time.monotonic()
    for number, claim in enumerate(finishing(chosen, known), start=1):
        found = store["claims"][claim.name] = entry(claim, known)
        said = found["failed"] or f"{found['got']}, stated {claim.stated}"
        spent = time.monotonic() - began
        print(f"{number}/{len(chosen)} {claim.name}: {said} ({spent:.0f} s)", file=sys.stderr)
        write(listed, store)  # what was found stays, whatever comes next
    store["machine"] = machine()


def finishing(claims: list[Claim], known: dict[str, Future[Any]]) -> Iterator[Claim]:
    """Yield claims as their commands end."""
    left = list(claims)
    while left:
        ready = [one for one in left if all(known[command].done() for command in one.run)]
        yield from ready
        left = [one for one in left if one not in ready]
        time.sleep(0.2)


def write(listed: list[Area], store: dict[str, Any]) -> None:
    """Write the values in the order of the list, and the page."""
    names = [claim.name for area in listed for claim in area.claims]
    kept = {name: store["claims"][name] for name in names if name in store["claims"]}
    store = {"machine": store["machine"], "claims": kept}
    write_file(STORE, (json.dumps(store, indent=1, ensure_ascii=False) + "\n").encode())
    write_file(PAGE, render(listed, store).encode())


def main(words: list[str]) -> int:
    """Do what the words say and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("command", nargs="?", choices=["run", "render"], default="render")
    parser.add_argument("--only", action="append", default=[], metavar="AREA|NAME")
    parser.add_argument("--fast", action="store_true", help="leave out what takes long")
    parser.add_argument("--jobs", type=int, default=2, metavar="INT", help="commands at a time")
    parser.add_argument("--check", action="store_true", help="change nothing; say what is stale")
    chosen = parser.parse_args(words)
    listed, store = areas(), stored()
    if chosen.check:
        found = problems(listed, store, chosen.fast)
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != render(listed, store):
            found.append("docs/claims.md is stale: run scripts/claims.py render")
    else:
        if chosen.command == "run":
            run(listed, store, chosen.only, chosen.fast, chosen.jobs)
        write(listed, store)
        found = problems(listed, store, chosen.fast)
    print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
