"""The evaluation: simulated and real statistics by region, every mechanism, beside knowing nothing.

The four simulated sets are those of the unified locational framework, made anew
(:mod:`privagg.protocols.locational.scenes`); the four real ones are of the bundled tables. Each row
stands beside two predictors that know nothing: 0 everywhere, and all spread evenly. Where no
mechanism beats them, too few respondents share too many cells at that epsilon, and no other
mechanism would help.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privagg import datasets
from privagg.datasets.declared import BOXES, DIVISIONS, RANGES
from privagg.errors import UsageError
from privagg.mechanisms.exact import check_epsilon
from privagg.protocols.locational import published, scenes
from privagg.protocols.locational.geometry import Grid
from privagg.protocols.locational.params import ORACLES
from privagg.protocols.locational.planner import recommend
from privagg.protocols.locational.regions import Merged, RegionList
from privagg.protocols.locational.rounds import Chunk, run
from privagg.protocols.locational.values import Boolean, Category, Number, Ranking

__all__ = ["COARSE", "EPSILONS", "PUBLISHED", "SETS", "Row", "evaluate", "statistic"]

EPSILONS = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0)

SETS = (
    *("one-hot", "boolean", "integer", "ranking"),
    *("votes", "brackets", "income", "incidents"),
)
"""The four simulated sets, then the four real ones.

``one-hot``: which of 276 cells a respondent marked; ``boolean``: which one or two; ``integer``:
mean income of each cell; ``ranking``: mean Borda scores of five candidates. ``votes``: share of
Trump voters of 2016 by state; ``brackets``: respondents in each of twelve income brackets by state;
``income``: mean weekly income of 2000 by state, moved into 0 to 2000 dollars; ``incidents``: stops
on a grid of 6 x 6 over Minneapolis.
"""

COARSE = ("division-votes", "division-brackets", "division-income")
"""Real statistics by the nine census divisions, to which each respondent maps its own state: share
of Trump voters, mean income bracket, and mean weekly income, moved into 0 to 2000 dollars."""

PUBLISHED = "published"
"""The framework's randomised response as published, at equal true epsilon: one-hot sets only."""

_MOST_ENTRIES = 3 * 10**7
"""Of Gaussian vectors: larger ones are left out."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One mechanism on one set at one epsilon.

    Attributes
    ----------
    set, mechanism, oracle : str
        The set; what was asked for; what it is.
    epsilon : float
        The true one, for region and value together.
    users, cells : int
        Respondents, and cells of a region and a value.
    mse_raw, mse : float
        Of raw and of published frequencies; mean over the cells.
    mse_zero, mse_uniform : float
        Of the predictors that know nothing.
    covered : float or None
        Part of the raw intervals that held the truth.
    narrow : float
        Part of the regions whose raw interval is narrower than the estimate.
    narrow_smooth : float or None
        The same of smoothed means, whose intervals rest on a model.
    covered_smooth : float or None
        Part of those that held the truth.
    """

    set: str
    mechanism: str
    oracle: str
    epsilon: float
    users: int
    cells: int
    mse_raw: float
    mse: float
    mse_zero: float
    mse_uniform: float
    covered: float | None
    narrow: float | None
    narrow_smooth: float | None
    covered_smooth: float | None

    @property
    def loses(self) -> bool:
        """Whether knowing nothing is better."""
        return self.mse >= min(self.mse_zero, self.mse_uniform)


def statistic(name: str, seed: int = 0) -> tuple[dict[str, Any], Chunk]:
    """Return the arguments of a set's survey, without mechanism and epsilon, and its respondents.

    Parameters
    ----------
    name : str
        One of :data:`SETS` or :data:`COARSE`.
    seed : int
        Of a simulated set.

    Raises
    ------
    UsageError
        If there is no such set.
    """
    if name in scenes.SCENES:
        return _scene(name, seed)
    if name not in (*SETS, *COARSE):
        raise UsageError("set", name, ", ".join((*SETS, *COARSE)))
    if name == "incidents":
        stops = datasets.load("stops2017")
        regions = Grid(6, 6, BOXES["stops2017"])
        return {"regions": regions, "other": True}, Chunk(
            [stops["latitude"].to_numpy(), stops["longitude"].to_numpy()]
        )
    division, _, what = name.rpartition("-")
    table = datasets.load("income2000" if what == "income" else "voters2016")
    states = table["state"].combine_chunks()
    names = states.dictionary.to_pylist()
    declared = RegionList(names, {state: DIVISIONS[state] for state in names})
    survey: dict[str, Any] = {"regions": Merged(declared) if division else declared}
    if what == "income":
        survey |= {"value": Number(0, 2000), "clamp": True}
        return survey, Chunk([states], table["weekly_income"].combine_chunks())
    survey |= {"other": True, "missing": "other"}
    if what == "votes":
        survey["value"] = Boolean()
        return survey, Chunk([states], table["voted_trump"].combine_chunks())
    low, high = RANGES["voters2016", "income_bracket"]
    exact = Number(low, high, integer=True) if division else Category(range(low, high + 1))
    survey["value"] = exact
    return survey, Chunk([states], table["income_bracket"].combine_chunks())


def evaluate(
    *,
    sets: Sequence[str] = SETS,
    epsilons: Sequence[float] = EPSILONS,
    mechanisms: Sequence[str] = ("auto", *ORACLES),
    runs: int = 1,
    seed: int = 0,
    progress: Callable[[str, int, int], None] = lambda _phase, _done, _total: None,
) -> list[Row]:
    """Run every mechanism on every set.

    Parameters
    ----------
    sets, epsilons, mechanisms : sequence
        What is run; ``privset`` only where respondents have several items, the Gaussian mechanism
        only where its vectors are not too large.
    runs : int
        How often each.
    seed : int
        Everything is drawn from it: an evaluation is for comparison, and no collection.
    progress : callable
        Called with a phase, how much of it is done, and of how much.

    Raises
    ------
    UsageError
        If a name or a number is none.
    """
    for one in epsilons:
        check_epsilon(one)
    found: list[Row] = []
    total = len(sets) * len(epsilons)
    for number, name in enumerate(sets):
        survey, chunk = statistic(name, seed)
        for step, epsilon in enumerate(epsilons):
            for mechanism in mechanisms:
                row = _row(name, survey, chunk, mechanism, float(epsilon), runs, seed)
                found += [] if row is None else [row]
            if name == "one-hot":
                found.append(_as_published(survey, chunk, float(epsilon), runs, seed))
            progress("evaluation", number * len(epsilons) + step + 1, total)
    return found


def _row(
    name: str,
    survey: dict[str, Any],
    chunk: Chunk,
    mechanism: str,
    epsilon: float,
    runs: int,
    seed: int,
) -> Row | None:
    items = survey.get("items", 1)
    if mechanism == "privset" and items == 1:
        return None
    try:
        params = recommend(mechanism, epsilon=epsilon, **survey).params
    except UsageError as error:
        if error.argument != "epsilon" or mechanism == "auto":
            raise
        return None  # what 64-bit words cannot realise
    entries = params.cells.size * len(chunk.places[0])
    if params.oracle == "gaussian" and entries > _MOST_ENTRIES:
        return None
    result = run(params, [chunk], runs=runs, seed=seed)
    made, truth = result.estimates, result.truth
    smooth = None
    if made.smooth is not None and made.smooth_low is not None and made.smooth_high is not None:
        smooth = float((made.smooth_high - made.smooth_low < np.abs(made.smooth)).mean())
    return Row(
        set=name,
        mechanism=mechanism,
        oracle=params.oracle,
        epsilon=epsilon,
        users=result.users,
        cells=params.cells.known,
        mse_raw=truth.mse_raw,
        mse=truth.mse,
        mse_zero=truth.mse_zero,
        mse_uniform=truth.mse_uniform,
        covered=result.covered,
        narrow=made.narrow,
        narrow_smooth=smooth,
        covered_smooth=result.covered_smooth,
    )


def _as_published(
    survey: dict[str, Any], chunk: Chunk, epsilon: float, runs: int, seed: int
) -> Row:
    codes = survey["regions"].locate(*chunk.places)
    cells = len(survey["regions"])
    truth = np.bincount(codes, minlength=cells) / codes.size
    generator = np.random.default_rng(seed)
    errors = []
    for _ in range(runs):
        # Its reports have twice the epsilon that it states.
        noisy = published.one_hot(codes, cells, epsilon / 2, "randomised-response", generator)
        errors.append(np.square(noisy - truth).mean())
    return Row(
        set="one-hot",
        mechanism=PUBLISHED,
        oracle="randomised response, not inverted",
        epsilon=epsilon,
        users=codes.size,
        cells=cells,
        mse_raw=float(np.mean(errors)),
        mse=float(np.mean(errors)),
        mse_zero=float(np.square(truth).mean()),
        mse_uniform=float(np.square(truth - 1 / cells).mean()),
        covered=None,
        narrow=None,
        narrow_smooth=None,
        covered_smooth=None,
    )


def _scene(name: str, seed: int) -> tuple[dict[str, Any], Chunk]:
    feature = scenes.FEATURES[0] if name == "one-hot" else None
    made = scenes.scene(name, seed=seed, feature=feature)
    grid = Grid(scenes.ROWS, scenes.COLUMNS, scenes.BOX)
    regions = RegionList(grid.names)
    names = np.array(regions.names)
    if name == "boolean":
        there = made.cells >= 0
        owners = np.repeat(np.arange(made.users), there.sum(axis=1))
        chunk = Chunk([names[made.cells[there]]], None, owners, made.users)
        return {"regions": regions, "items": 2}, chunk
    places = [names[made.cells]]
    if name == "one-hot":
        return {"regions": regions}, Chunk(places)
    assert made.values is not None
    if name == "integer":
        value = Number(0, scenes.MOST_INCOME, integer=True)
        return {"regions": regions, "value": value}, Chunk(places, made.values)
    # From the order of candidates to each one's place.
    ranks = np.argsort(made.values, axis=1)
    return {"regions": regions, "value": Ranking(scenes.CANDIDATES)}, Chunk(places, ranks)
