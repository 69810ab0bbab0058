"""A Markov random field fitted to tables alone: no display is needed, labelled or not.

``P(x, y) proportional to exp(K(x).mu + y (K(x).theta + b))``, where K marks a display's cells. It
is the law of greatest entropy with the tables' counts, and ``P(y = 1 | x)`` is a logistic model of
the cells. The likelihood's gradient is the tables less what the model expects, which persistent
chains of Gibbs sampling estimate.

Noise: a penalty of s**2 |w|**2 / 2 is the same as maximising over the true counts too, where these
differ from the reported ones by Gaussian noise of variance s**2: so the noise's variance adds to
the ridge.

Source: Gilotte and others, "Learning a logistic model from aggregated data", AdKDD 2021.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT
from privagg._validate import whole
from privagg.protocols.responses._report_gibbs import Geometry, sweep, sweep_plain
from privagg.protocols.responses.report_learners import (
    check_fitted,
    click_chance,
    positive,
    sigmoid,
)
from privagg.protocols.responses.report_tables import Tables, check_tables

__all__ = ["MarkovRandomField"]

Reals = NDArray[np.float64]


class MarkovRandomField:
    """A model of displays and clicks together, from the tables alone.

    Parameters
    ----------
    ridge : float
        The penalty on all weights, above 0, in displays.
    noise_variance : float
        Of each count; it adds to the ridge. 0 takes the counts as true.
    chains : int
        Displays that are simulated.
    iterations : int
        Steps of the fit; each moves every chain by one sweep over its features.
    seed : int
        Of the chains, which are no secret.

    Attributes
    ----------
    mu, theta : (cells,) arrays
        Weights; 0 for cells that the report lacks.
    bias : float
    codes : (chains, f) int32 array
        The displays simulated last.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    def __init__(
        self,
        ridge: float = 100.0,
        noise_variance: float = 0.0,
        chains: int = 4000,
        iterations: int = 300,
        seed: int = 0,
    ) -> None:
        self.ridge = positive("ridge", ridge)
        self.noise_variance = positive("noise_variance", noise_variance, or_zero=True)
        self.chains = whole("chains", chains, 1, 10**7)
        self.iterations = whole("iterations", iterations, 1, 10**6)
        self.seed = whole("seed", seed, 0, 2**63)

    def fit(self, tables: Tables) -> MarkovRandomField:
        """Fit to tables.

        Returns
        -------
        itself
            Fitted.

        Raises
        ------
        UsageError
            If the tables count no displays, or all or none of these are clicked.
        """
        layout, total, share = check_tables(tables).layout, tables.total, tables.share()
        self.layout = layout
        kept = tables.kept
        displays = np.where(kept, np.maximum(tables.displays, 0.0), 0.0) / total
        clicks = np.where(kept, np.clip(tables.clicks, 0.0, displays * total), 0.0) / total
        penalty = (self.ridge + self.noise_variance) / total
        self.bias = float(np.log(share / (1 - share)))
        self.geometry = geometry = Geometry.of(layout)
        generator = np.random.default_rng(self.seed)
        features = len(layout.cardinalities)
        mu, theta = np.zeros(layout.cells), np.zeros(layout.cells)
        # Features begin independent of each other, at the shares of their values.
        codes = np.empty((self.chains, features), np.int32)
        for f, (start, size) in enumerate(zip(layout.starts, layout.cardinalities, strict=False)):
            shares = displays[start : start + size] + 0.1 / (size * total)
            shares /= shares.sum()
            mu[start : start + size] = np.log(shares)
            codes[:, f] = generator.choice(size, self.chains, p=shares)
        anchor = mu.copy()
        labels = (generator.random(self.chains) < share).astype(np.int8)
        sums, weights = np.zeros((2, layout.cells)), 0.0
        seen = displays.copy()
        step = sweep if JIT else sweep_plain
        for turn in range(self.iterations):
            step(codes, labels, mu, mu + theta, generator.random((self.chains, features)), geometry)
            index = layout.index(codes)
            chance = sigmoid(theta[index].sum(axis=1) + self.bias)
            labels[:] = generator.random(self.chains) < chance
            expected, clicked = self._expected(index, chance, kept)
            rate = 4.0 / (len(layout.tables) * (1 + 3.0 * turn / self.iterations))
            seen += 0.1 * (expected - seen)
            # The curvature: of mu about the cell's share, of theta about its clicks' variance.
            common = np.maximum(displays, seen) + penalty + 1 / self.chains
            mu += rate * (displays - expected - penalty * (mu - anchor)) / common
            least = common * share * (1 - share) + penalty
            theta += rate * (clicks - clicked - penalty * theta) / least
            mu, theta = np.where(kept, mu, anchor), np.where(kept, theta, 0.0)
            if turn >= self.iterations // 2:
                sums += np.stack([mu, theta])
                weights += 1.0
        self.mu, self.theta = sums / weights
        self.codes = codes
        return self

    def predict(self, codes: Any) -> Reals:
        """Return the probability of a click for each display.

        Parameters
        ----------
        codes : (n, f) array of integers
            Features of the displays.
        """
        check_fitted(self)
        return click_chance(self, self.theta, codes)

    def _expected(
        self, index: NDArray[np.int32], chance: Reals, kept: NDArray[np.bool_]
    ) -> tuple[Reals, Reals]:
        """Return the chains' shares of displays and of clicks in each cell."""
        cells = kept.size
        flat = index.ravel()
        both = np.repeat(chance, index.shape[1])
        expected = np.bincount(flat, minlength=cells) / self.chains
        clicked = np.bincount(flat, both, minlength=cells) / self.chains
        return expected, clicked
