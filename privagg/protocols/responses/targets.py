"""What the caller says of bags and responses, checked: every row in a bag, a response for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import describe, refuse_masked
from privagg.errors import UsageError
from privagg.protocols.responses.bags import Bags

__all__ = ["as_bags", "as_responses", "easy_targets"]

Reals = NDArray[np.float64]


def as_bags(bags: Any, rows: int) -> Bags:
    """Return `bags` as Bags: they may be it already, or be a column of ids.

    Parameters
    ----------
    bags : Bags, or (n,) column of ids
        Which rows are in a bag.
    rows : int
        How many rows there must be.

    Raises
    ------
    UsageError
        If there is not one bag for each of the rows.
    """
    found = bags if isinstance(bags, Bags) else Bags.given(bags)
    if found.rows != rows:
        raise UsageError("bags", f"{found.rows} rows", f"the {rows} rows of X")
    return found


def as_responses(responses: Any, bags: Bags, aggregate: str = "mean") -> Reals:
    """Return the mean response of each bag, in the order of the bags' numbers.

    Parameters
    ----------
    responses : mapping, (m,) or (m, c) array
        A mapping (or whatever else has ``items()``, as a pandas Series) goes by the bags' ids; an
        array by their order: sorted ids.
    bags : Bags
    aggregate : {"mean", "sum"}
        What the responses are.

    Returns
    -------
    (m, c) float64 array

    Raises
    ------
    UsageError
        If a bag has no response, a response no bag, or one is not finite.
    """
    if aggregate not in ("mean", "sum"):
        raise UsageError("aggregate", aggregate, "'mean' or 'sum'")
    refuse_masked("responses", responses)
    if isinstance(responses, Mapping) or hasattr(responses, "items"):
        responses = _in_order(dict(responses.items()), bags)
    try:
        table = np.array(responses, np.float64)
    except (TypeError, ValueError):
        raise UsageError("responses", describe(responses), "numbers") from None
    if table.ndim not in (1, 2) or table.shape[0] != bags.count or not table.size:
        raise UsageError(
            "responses",
            f"shape {table.shape}",
            f"a response for each of the {bags.count} bags",
            "Bags are in the order of their sorted ids; a mapping by id needs no order.",
        )
    if not np.isfinite(table).all():
        at = int(np.flatnonzero(~np.isfinite(table).all(axis=-1 if table.ndim == 2 else ()))[0])
        raise UsageError("responses", f"{table[at]} for bag {_name(bags, at)}", "finite numbers")
    table = table.reshape(bags.count, -1)
    return table / bags.sizes[:, None] if aggregate == "sum" else table


def easy_targets(target: Reals, sizes: NDArray[np.int64], prior: Reals) -> Reals:
    """Return EasyLLP's targets ``k (mean - prior) + prior``: unbiased for each row's response.

    They lie outside the range of responses where a bag's mean is far from the prior. The losses of
    :mod:`privagg.protocols.responses.losses` that take them stay convex, but may have no minimum
    without a ridge.

    Source: Busa-Fekete et al., NeurIPS 2023 (arXiv 2302.03115), averaged over the bag's rows.

    Parameters
    ----------
    target : (m, c) float array
        Responses of the bags.
    sizes : (m,) int64 array
        Rows in each bag.
    prior : (c,) float array
        The mean response.
    """
    found: Reals = sizes[:, None] * (target - prior) + prior
    return found


def _in_order(by_name: dict[Any, Any], bags: Bags) -> list[Any]:
    names = bags.names or tuple(range(bags.count))
    lost = [name for name in names if name not in by_name]
    if lost:
        raise UsageError(
            "responses",
            f"none for bag {lost[0]!r}" + (f", nor for {len(lost) - 1} more" if lost[1:] else ""),
            "a response for every bag",
        )
    if len(by_name) > len(names):
        known = set(names)
        strange = next(name for name in by_name if name not in known)
        raise UsageError("responses", f"bag {strange!r}", "bags that have rows")
    return [by_name[name] for name in names]


def _name(bags: Bags, number: int) -> str:
    return repr(bags.names[number]) if bags.names else str(number)
