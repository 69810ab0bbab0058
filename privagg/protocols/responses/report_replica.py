"""The AdKDD'21 challenge in small, on made-up displays: which learner does best, and by how much.

The tables, thresholds, noise and score are the challenge's; displays come from
:func:`privagg.protocols.responses.report_simulator.simulate`, with another world for every seed. So
levels are not those of the real log: what can be compared is the order of the methods.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.protocols.responses.report_learners import (
    AggregateLogistic,
    Boosting,
    NaiveBayes,
    nllh,
)
from privagg.protocols.responses.report_mrf import MarkovRandomField
from privagg.protocols.responses.report_release import ReportParams, release
from privagg.protocols.responses.report_simulator import Displays, simulate
from privagg.protocols.responses.report_tables import Layout

__all__ = ["METHODS", "Gap", "Setting", "gaps", "score"]

METHODS = (
    "oracle",
    "all rows labelled",
    "aggregate logistic",
    "naive Bayes",
    "Markov random field",
    "boosting",
    "few rows labelled",
)
"""The true probabilities; logistic regression on every row; four learners; the same on few rows."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Sizes of a replica.

    Parameters
    ----------
    rows : int
        Displays that the tables count.
    unlabelled, labelled, test : int
        Displays for the learners that want some, and for the score.
    features, smallest, largest : int
        As for :func:`~privagg.protocols.responses.report_simulator.simulate`.
    sigma : float
        Of the Gaussian noise on each count; 0 for none.
    iterations : int
        Of the Markov random field.
    """

    rows: int = 300_000
    unlabelled: int = 15_000
    labelled: int = 3_000
    test: int = 30_000
    features: int = 6
    smallest: int = 6
    largest: int = 100
    sigma: float = 17.0
    iterations: int = 100


@dataclass(frozen=True)
class Gap:
    """How much better one method is than another.

    Attributes
    ----------
    better, worse : str
    mean : float
        The mean difference of NLLH, over seeds.
    error : float
        Its standard error; seeds are paired.
    """

    better: str
    worse: str
    mean: float
    error: float

    @property
    def errors(self) -> float:
        """The gap in standard errors."""
        return self.mean / self.error if self.error else math.inf


def score(setting: Setting, seed: int) -> dict[str, float]:
    """Return the NLLH of every method on one world.

    Parameters
    ----------
    setting : Setting
        How the attacks are run.
    seed : int
        Chooses the world.

    Raises
    ------
    UsageError
        If scikit-learn or SciPy is not installed.
    """
    if not isinstance(setting, Setting):
        raise UsageError("setting", type(setting).__name__, "a Setting")
    seed = whole("seed", seed, 0, 2**62)
    sizes = (setting.rows, setting.unlabelled, setting.labelled, setting.test)
    world = simulate(
        sum(sizes),
        features=setting.features,
        smallest=setting.smallest,
        largest=setting.largest,
        seed=seed,
    )
    ends = np.cumsum((0, *sizes))
    rows, unlabelled, labelled, test = (world[a:b] for a, b in itertools.pairwise(ends))
    layout = Layout(world.cardinalities)
    params = ReportParams(
        layout=layout,
        noise="discrete-gaussian" if setting.sigma else "none",
        scale=setting.sigma or 1.0,
        threshold="true",
    )
    tables = release(params, rows.codes, rows.labels, from_seed(seed)).tables
    variance = setting.sigma**2
    ridge = 100.0 + variance
    aggregate = AggregateLogistic(ridge, iterations=100).fit(tables, unlabelled.codes)
    field = MarkovRandomField(
        100.0, variance, iterations=setting.iterations, chains=2000, seed=seed
    ).fit(tables)
    boosting = Boosting(seed=seed % 2**31).fit(tables, labelled.codes, labelled.labels)
    found: dict[str, NDArray[np.float64]] = {
        "oracle": test.probability,
        "all rows labelled": _regression(layout, rows, test, 1 / 100),
        "aggregate logistic": aggregate.predict(test.codes),
        "naive Bayes": NaiveBayes().fit(tables).predict(test.codes),
        "Markov random field": field.predict(test.codes),
        "boosting": boosting.predict(test.codes),
        "few rows labelled": _regression(layout, labelled, test, 1 / 20),
    }
    return {name: nllh(test.labels, found[name]) for name in METHODS}


def gaps(scores: Sequence[dict[str, float]]) -> list[Gap]:
    """Return the gap between each method and the next one, best first by the mean over seeds.

    Parameters
    ----------
    scores : sequence of dict of str to float
        Of each world, a score by method.

    Raises
    ------
    UsageError
        If there are fewer than two seeds.
    """
    if len(scores) < 2:
        raise UsageError("scores", len(scores), "two seeds or more")
    table = {name: np.array([one[name] for one in scores]) for name in scores[0]}
    order = sorted(table, key=lambda name: -table[name].mean())
    found = []
    for better, worse in itertools.pairwise(order):
        apart = table[better] - table[worse]
        error = float(apart.std(ddof=1) / math.sqrt(apart.size))
        found.append(Gap(better, worse, float(apart.mean()), error))
    return found


def _regression(layout: Layout, rows: Displays, test: Displays, c: float) -> Any:
    """Return the predictions of logistic regression on labelled rows' cells."""
    try:
        from scipy.sparse import csr_matrix
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise UsageError(
            "privagg",
            "no scikit-learn",
            "the extra 'responses'",
            "pip install 'privagg[responses]'",
        ) from None

    def cells(some: Displays) -> Any:
        index = layout.index(some.codes)
        n, t = index.shape
        return csr_matrix(
            (np.ones(n * t), index.ravel(), np.arange(0, n * t + 1, t)), (n, layout.cells)
        )

    model = LogisticRegression(C=c, max_iter=100, tol=1e-3)
    return model.fit(cells(rows), rows.labels).predict_proba(cells(test))[:, 1]
