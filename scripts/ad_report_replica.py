"""Run the replica of the ad challenge and write docs/ad-report-replica.json.

About a minute for each seed and noise: python scripts/ad_report_replica.py [SEEDS]
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from privagg.protocols.responses.report_replica import METHODS, Setting, gaps, score

TARGET = Path(__file__).resolve().parent.parent / "docs" / "ad-report-replica.json"


def main() -> None:
    """Score every method on every seed, without and with noise."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    runs: dict[float, list[dict[str, float]]] = {0.0: [], 17.0: []}
    for seed in range(seeds):
        for sigma, scores in runs.items():
            scores.append(score(Setting(sigma=sigma), seed))
            print(seed, sigma, scores[-1], flush=True)
        if seed:
            _write(runs)


def _write(runs: dict[float, list[dict[str, float]]]) -> None:
    data = []
    for sigma, scores in runs.items():
        nllh = {name: [round(one[name], 5) for one in scores] for name in METHODS}
        steps = [
            {
                "better": gap.better,
                "worse": gap.worse,
                "mean": round(gap.mean, 5),
                "standard_errors": round(gap.errors, 1),
            }
            for gap in gaps(scores)
        ]
        means = {name: round(float(np.mean(values)), 4) for name, values in nllh.items()}
        data.append(
            {
                "setting": asdict(Setting(sigma=sigma)),
                "seeds": len(scores),
                "mean_nllh": means,
                "gaps": steps,
                "nllh": nllh,
            }
        )
    TARGET.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
