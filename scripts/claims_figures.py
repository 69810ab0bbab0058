"""Print figures that no command has: ``python scripts/claims_figures.py NAME ...`` prints JSON.

``locational EPSILON``: on the one-hot setting of the unified locational framework, 1,000 people
over 276 cells, how many times the error of ours its published reports have, and the same inverted,
at equal true epsilon.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from privagg.protocols.locational import Params, RegionList, published, recommend

CELLS, USERS, RUNS = 276, 1000, 60


def locational(epsilon: float) -> dict[str, object]:
    """Return ratios of mean squared errors, and what a stated epsilon of 1 really is."""
    generator = np.random.default_rng(1)
    codes = np.random.default_rng(2).integers(0, 42, USERS)
    truth = np.bincount(codes, minlength=CELLS) / USERS
    errors = [
        np.square(
            published.one_hot(codes, CELLS, epsilon / 2, "randomised-response", generator) - truth
        ).mean()
        for _ in range(RUNS)
    ]
    regions = RegionList([str(at) for at in range(CELLS)])
    ours = recommend(regions=regions, epsilon=epsilon).params.oracles[0].variance(USERS)
    unary = Params(regions=regions, epsilon=epsilon, mechanism="sue").oracles[0].variance(USERS)
    return {
        "published_over_ours": float(np.mean(errors) / ours),
        "inverted_over_ours": float(unary / ours),
        "true_epsilon_of_1": {name: published.true_epsilon(1.0, name) for name in published.NAMES},
    }


if __name__ == "__main__":
    assert sys.argv[1] == "locational"
    print(json.dumps(locational(float(sys.argv[2]))))
