"""Federated logistic regression on a census table, with secure aggregation and without.

    python examples/flower/run.py

runs both in Flower's simulation engine and prints what differs. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np

from privagg import keyfiles, keys
from privagg.protocols.secagg import Roster


def simulate(*, secure: bool, nodes: int, rounds: int) -> dict[str, Any]:
    """Run one federation in the simulation engine; return what came out."""
    from adult_secagg.client_app import client_app
    from adult_secagg.server_app import server_app
    from flwr.simulation import run_simulation

    server, found = server_app(secure=secure, nodes=nodes, rounds=rounds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the function's own word on `flwr run`
        run_simulation(
            server,
            client_app(secure=secure),
            num_supernodes=nodes,
            backend_config={
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                "init_args": {"num_cpus": 2},
            },
        )
    return found


def main() -> None:
    """Run both and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.nodes < 5 or options.rounds < 1:
        parser.error("at least 5 nodes, so that one may be lost, and one round")
    with tempfile.TemporaryDirectory() as folder:
        identities = [keys.Identity.generate() for _ in range(options.nodes)]
        for number, identity in enumerate(identities):
            keyfiles.write_identity(Path(folder, f"{number}.key"), identity)
        Roster(identity.public for identity in identities).save(Path(folder, "roster.json"))
        os.environ["ADULT_SECAGG_KEYS"] = folder
        plain, secure = (
            simulate(secure=choice, nodes=options.nodes, rounds=options.rounds)
            for choice in (False, True)
        )
    if len(secure["accuracy"]) <= options.rounds or not secure["model"]:
        sys.exit("; ".join(secure["failures"]))
    apart = max(
        float(np.abs(plain["model"][name] - secure["model"][name]).max()) for name in plain["model"]
    )
    if options.json:
        for found in (plain, secure):
            found.pop("model")
        print(json.dumps({"plain": plain, "secure": secure, "largest difference": apart}))
        return
    print(f"{'':24}{'plain':>12}{'secure':>12}")
    for number, pair in enumerate(zip(plain["accuracy"], secure["accuracy"], strict=True)):
        print(f"{f'accuracy, round {number}':24}{pair[0]:12.4f}{pair[1]:12.4f}")
    key = "bytes up per node and round"
    print(f"{key:28}{plain[key]:8.0f}{secure[key]:12.0f}")
    print(f"largest difference of a parameter: {apart:.2e}")


if __name__ == "__main__":
    main()
