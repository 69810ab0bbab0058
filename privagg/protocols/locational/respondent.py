"""The respondent's side: a region and a value become a cell, and the cell a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array, whole
from privagg.accounting import Ledger
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms import Reports
from privagg.mechanisms._draws import Draws
from privagg.protocols.locational.params import Params
from privagg.protocols.locational.privset import PrivSet
from privagg.protocols.locational.regions import MISSING

__all__ = ["Held", "Respondent", "hold", "randomize"]


@dataclass(frozen=True)
class Held:
    """What respondents hold, as cells: private, and exact.

    Attributes
    ----------
    codes : (n, items) int64 array
        Cells, -1 where a respondent has fewer items.
    exact : (n, items) float64 array
        The numbers, from -1 (low end) to 1; of a boolean -1 or 1.
    unknown, clamped : int
        Items in no region or without a value, and numbers moved to an end: for a simulation's truth
        only. They never leave a respondent.
    """

    codes: NDArray[np.int64]
    exact: NDArray[np.float64]
    unknown: int
    clamped: int

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"Held({len(self)} respondents)"


def hold(
    params: Params,
    places: Sequence[Any],
    values: Any = None,
    *,
    owners: Any = None,
    users: int | None = None,
    group: int = 0,
    entropy: Entropy = OS,
) -> Held:
    """Turn regions and values into cells, on the respondents' side.

    Parameters
    ----------
    params : Params
        The survey.
    places : sequence of columns
        One column of region names, or latitudes and longitudes, as `params.regions` takes.
    values : column, optional
        The values; none for :class:`Presence`.
    owners : (t,) array of integers, optional
        Of respondents with several items, one row an item: whose it is, from 0, in increasing
        order. Unless given, each row is a respondent.
    users : int, optional
        How many respondents `owners` counts: those after the last owner have no items.
    group : int
        The group that all these respondents belong to.
    entropy : Entropy
        For the rounding of numbers to an end of their range.

    Returns
    -------
    Held

    Raises
    ------
    UsageError
        If a region or a value is refused, or a respondent has more items than were declared. The
        message tells neither values nor how many.
    """
    _check(params)
    if isinstance(places, str | bytes) or not isinstance(places, Sequence):
        raise UsageError("places", type(places).__name__, "a sequence of columns")
    whole("group", group, 0, params.groups - 1)
    if values is not None and params.value.kind == "presence":
        raise UsageError("values", type(values).__name__, "None: presence has no values")
    region = params.regions.locate(*places)
    found = params.value.encode(
        np.zeros(region.size) if values is None else values,
        unknown=params.missing,
        clamp=params.clamp,
        entropy=entropy,
        group=group,
    )
    if found.codes.size != region.size:
        raise UsageError("values", f"{found.codes.size} values for {region.size} places", "as many")
    if params.missing == "refuse" and (region == MISSING).any():
        hint = 'Or give it a cell: missing="other", --unknown other.'
        raise UsageError("places", "a missing coordinate", "latitude and longitude", hint)
    absent = (region < 0) | (found.codes < 0)
    if absent.any() and not params.other:
        hint = "Declare it, or a cell for whoever is in none: other=True, --unknown other."
        raise UsageError("regions", "a respondent in no declared region", "declared ones", hint)
    cell = np.where(absent, params.cells.known, region * params.value.k + found.codes)
    exact = np.where(absent, 0.0, found.exact)
    if owners is None:
        if params.items > 1:
            codes = np.full((cell.size, params.items), -1, np.int64)
            numbers = np.zeros(codes.shape)
            codes[:, 0], numbers[:, 0] = cell, exact
        else:
            codes, numbers = cell[:, None], exact[:, None]
    else:
        codes, numbers = _rows(params, cell, region, exact, owners, users)
    return Held(codes, numbers, int(absent.sum()), found.clamped)


def randomize(params: Params, held: Held, entropy: Entropy = OS, *, group: int = 0) -> Reports:
    """Return the reports of respondents: what leaves them.

    Parameters
    ----------
    params : Params
        The survey.
    held : Held
        What they hold.
    entropy : Entropy
        The operating system's unless given; with a seeded one reports are marked insecure.
    group : int
        The group that all these respondents belong to.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    _check(params)
    if not isinstance(held, Held):
        raise UsageError("held", type(held).__name__, "Held, as hold() returns it")
    oracle = params.oracles[whole("group", group, 0, params.groups - 1)]
    if isinstance(oracle, PrivSet):
        return oracle.randomize_sets(held.codes, entropy)
    codes = held.codes[:, 0]
    if params.items > 1:
        draws = Draws(entropy.spawn("items"))
        pick = draws.below([params.items], len(held)).reshape(-1).astype(np.int64)
        codes = held.codes[np.arange(len(held)), pick]
        padding = params.cells.padding
        assert padding is not None
        codes = np.where(codes < 0, padding, codes)
    return oracle.randomize_codes(codes, entropy)


class Respondent:
    """One respondent of one survey.

    Only :meth:`report` leaves the respondent, once: another report would spend epsilon again.

    Parameters
    ----------
    params : Params
        The survey. What it guarantees is `params.guarantee`.
    group : int
        Of a ranking, which item is asked for: public, and chosen without a look at the ranking.
    entropy : Entropy
        The operating system's unless given.
    ledger : Ledger, optional
        Charged with what a report has before it is made.
    name : str or int
        Who, in the ledger.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    def __init__(
        self,
        params: Params,
        *,
        group: int = 0,
        entropy: Entropy = OS,
        ledger: Ledger | None = None,
        name: str | int = "me",
    ) -> None:
        _check(params)
        if not isinstance(entropy, Entropy):
            found = type(entropy).__name__
            raise UsageError("entropy", found, "an Entropy, such as privagg.entropy.OS")
        if ledger is not None and not isinstance(ledger, Ledger):
            raise UsageError("ledger", type(ledger).__name__, "a privagg.accounting.Ledger")
        if ledger is not None and params.delta_realised:
            raise UsageError("ledger", "a ledger of epsilon", "a mechanism without delta")
        self._params = params
        self._group = whole("group", group, 0, params.groups - 1)
        self._entropy, self._ledger, self._name = entropy, ledger, name
        self._reported = False

    @property
    def params(self) -> Params:
        """The survey."""
        return self._params

    @property
    def group(self) -> int:
        """The respondent's group."""
        return self._group

    def report(self, *items: tuple[Any, Any]) -> Reports:
        """Return the report of one respondent.

        Parameters
        ----------
        *items : pairs
            Each a place (a name, or latitude and longitude) and a value (None for presence); as
            many as the survey allows. None at all where it allows several.

        Raises
        ------
        UsageError
            If an item is refused, the ledger's limit would be passed, or this respondent has
            reported. Nothing was spent then.
        """
        if self._reported:
            hint = "Another round takes another Respondent, and spends epsilon again."
            raise UsageError("report", "a second one", "one report", hint)
        params = self._params
        # Who has none of several reports, too: else reporting would tell that one has some.
        least = 0 if params.items > 1 else 1
        if not least <= len(items) <= params.items:
            raise UsageError("items", f"{len(items)} items", f"{least} to {params.items}")
        if any(not isinstance(item, tuple) or len(item) != 2 for item in items):
            raise UsageError("items", "an item that is no pair", "pairs of a place and a value")
        places: list[Any]
        if params.regions.by_points:
            if any(not isinstance(at, tuple) or len(at) != 2 for at, _ in items):
                raise UsageError("items", "a place that is no point", "latitude and longitude")
            places = [[at[0] for at, _ in items], [at[1] for at, _ in items]]
        else:
            places = [[at for at, _ in items]]
        values: list[Any] | None = [value for _, value in items]
        if params.value.kind == "presence" and not any(one is not None for one in values or ()):
            values = None
        owners = np.zeros(len(items), np.int64)
        held = hold(
            params,
            places,
            values,
            owners=owners,
            users=1,
            group=self._group,
            entropy=self._entropy,
        )
        if self._ledger is not None:
            survey = params.digest.hex()
            self._ledger.spend(self._name, params.epsilon_realised, survey=survey)
        made = randomize(params, held, self._entropy, group=self._group)
        self._reported = True
        return made

    def __repr__(self) -> str:
        return f"Respondent(reported={self._reported})"


def _rows(
    params: Params,
    cell: NDArray[np.int64],
    region: NDArray[np.int64],
    exact: NDArray[np.float64],
    owners: Any,
    count: int | None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return items as rows, one for each respondent; those in no region count as one."""
    whose = as_array("owners", owners)
    right = whose.shape == cell.shape and whose.dtype.kind in "iu"
    if not right or (whose.size and (int(whose[0]) < 0 or (np.diff(whose) < 0).any())):
        raise UsageError("owners", "another array", "an increasing (t,) array of integers")
    least = int(whose[-1]) + 1 if whose.size else 0
    users = least if count is None else whole("users", count, least, 2**38)
    known = params.cells.known
    keys = whose.astype(np.int64) * (known + 1) + np.where(cell == known, known, region)
    order = np.argsort(keys, kind="stable")
    twice = np.append(False, np.diff(keys[order]) == 0)[: keys.size]
    if (twice & (cell[order] != known)).any():
        raise UsageError("items", "two items of one respondent in one region", "one in a region")
    kept = order[~twice]
    place = np.arange(kept.size) - np.searchsorted(whose[kept], whose[kept])
    if place.size and int(place.max()) >= params.items:
        allowed = f"up to {params.items} items of a respondent"
        raise UsageError("items", "a respondent with more items", allowed, "Declare more.")
    codes = np.full((users, params.items), -1, np.int64)
    numbers = np.zeros(codes.shape)
    codes[whose[kept], place], numbers[whose[kept], place] = cell[kept], exact[kept]
    return codes, numbers


def _check(params: Any) -> None:
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "Params")
