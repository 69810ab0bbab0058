"""What was released: the bags' responses, and what is guaranteed of them; and its file.

Here it is called :class:`Released`, and :data:`Result` as in every protocol.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array, describe
from privagg.accounting.gaussian import analytic_sigma
from privagg.errors import UsageError
from privagg.protocols.responses.bags import Bags

__all__ = ["ADJACENCY", "EXACT", "Released", "Result"]

Reals = NDArray[np.float64]

ADJACENCY = "one row's response replaced; features, membership and sizes of bags are public"
EXACT = "exact"
MECHANISMS = (EXACT, "laplace", "gaussian", "secure-aggregation")

_KEY = b"privagg.responses"
_VERSION = 1
_LARGEST = 1e290
_MOST_VARIANCE = 1e12
_FIELDS = (
    *("aggregate", "classes", "mechanism", "epsilon", "delta", "delta_realised", "epsilon_clip"),
    *("noise_variance", "low", "high", "step", "kappa", "insecure"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Released:
    """The responses of bags; all of it is public.

    Attributes
    ----------
    bags : Bags
    values : (m,) or (m, c) array
        Means or sums of the responses, or of classes the shares or counts: (m,) of class 1 where
        there are two. Noise may take them out of their range.
    aggregate : {"mean", "sum"}
    classes : int
        0 for numbers.
    mechanism : str
        ``exact``, ``laplace``, ``gaussian`` (both discrete) or ``secure-aggregation``.
    epsilon : float or None
        None where there is no guarantee.
    delta : float
        As asked for.
    delta_realised : float
        Summed up for the noise that was used; never above `delta`.
    epsilon_clip : float
        The part of epsilon that the clipping range cost.
    noise_variance : float
        Of the noise on each sum, in squared units of the response; a mean has it over the squared
        size of its bag.
    low, high : float or None
        The clipping range.
    step : float
        What responses were rounded to; 0 if they were not.
    kappa : float
        What clipping left of the dependence on features: divide coefficients by it. An estimate
        from the released sums for Gaussian responses; 1 for classes.
    insecure : bool
        Whether a seed made the noise: then it is known, and there is no guarantee.
    """

    bags: Bags
    values: Reals
    aggregate: str
    classes: int
    mechanism: str
    epsilon: float | None
    delta: float
    delta_realised: float
    epsilon_clip: float
    noise_variance: float
    low: float | None
    high: float | None
    step: float
    kappa: float
    insecure: bool

    @property
    def adjacency(self) -> str:
        """What the guarantee compares."""
        return ADJACENCY

    @property
    def guarantee(self) -> str:
        """The guarantee in words."""
        if self.epsilon is None:
            return "no differential privacy: the aggregates are exact"
        amount = f"({self.epsilon:g}, {self.delta:g})" if self.delta else f"{self.epsilon:g}"
        words = f"{amount}-label differential privacy: {ADJACENCY}"
        return words + ("; void, for a seed made the noise" if self.insecure else "")

    @property
    def means(self) -> Reals:
        """The means, whatever was released; (m,) or (m, c)."""
        if self.aggregate == "mean":
            return self.values
        sizes = self.bags.sizes
        found: Reals = self.values / (sizes if self.values.ndim == 1 else sizes[:, None])
        return found

    def by_bag(self) -> dict[Any, Any]:
        """Return the values by the bags' names, or their numbers where they have none."""
        names = self.bags.names or range(self.bags.count)
        return dict(zip(names, self.values.tolist(), strict=True))

    def write(self, path: str | Path, prior: Any = None) -> None:
        """Write a Parquet file: a line for each row in each of its bags.

        Columns are ``row``, ``bag`` (numbers), ``response`` (``response_0``, ... of several
        classes) and, if given, ``prior``; the rest is in the file's metadata.

        Parameters
        ----------
        path : path
        prior : (n,) array, optional
            The probability of each row's label by its features: what an audit compares with.

        Raises
        ------
        UsageError
            If there is not one prior for each row, or the file cannot be written.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        from privagg.report import replacing

        row, column = np.nonzero(self.bags.labels >= 0)
        bag = self.bags.labels[row, column]
        order = np.argsort(bag, kind="stable")
        row, bag = row[order], bag[order]
        table: dict[str, Any] = {"row": row.astype(np.int64), "bag": bag.astype(np.int64)}
        for name, values in self._columns():
            table[name] = values[bag]
        if prior is not None:
            chances = as_array("prior", prior)
            if chances.dtype.kind not in "fiub":
                raise UsageError("prior", describe(chances), "a probability for each row")
            chances = chances.astype(np.float64)
            if chances.shape != (self.bags.rows,) or not ((chances >= 0) & (chances <= 1)).all():
                raise UsageError("prior", f"shape {chances.shape}", "a probability for each row")
            table["prior"] = chances[row]
        settings = {name: getattr(self, name) for name in _FIELDS} | {"version": _VERSION}
        settings["names"] = [_plain(name) for name in self.bags.names]
        written = pa.table(table).replace_schema_metadata({_KEY: json.dumps(settings).encode()})
        with replacing(path) as file:
            pq.write_table(written, file)

    @classmethod
    def read(cls, path: str | Path) -> Released:
        """Read what :meth:`write` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Raises
        ------
        UsageError
            If the file is none, or its parts contradict each other.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not isinstance(path, str | Path):
            raise UsageError("path", describe(path), "a path")
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowInvalid) as error:
            raise _not(path, type(error).__name__) from None
        settings = _settings(path, (table.schema.metadata or {}).get(_KEY))
        classes = settings["classes"]
        wanted = [f"response_{i}" for i in range(classes)] if classes > 2 else ["response"]
        for name in ("row", "bag", *wanted):
            if name not in table.column_names or table.column(name).null_count:
                raise _not(path, f"column {name} missing, or with gaps")
        strange = set(table.column_names) - {"row", "bag", "prior", *wanted}
        if strange:
            raise _not(path, f"a column {min(strange)}")
        row, bag = (_whole(path, name, table.column(name).to_numpy()) for name in ("row", "bag"))
        if not row.size or row.min() < 0 or bag.min() < 0:
            raise _not(path, "no rows, or negative numbers")
        return cls._made(path, settings, row, bag, [table.column(n).to_numpy() for n in wanted])

    @classmethod
    def _made(
        cls,
        path: str | Path,
        settings: dict[str, Any],
        row: NDArray[np.int64],
        bag: NDArray[np.int64],
        columns: list[NDArray[Any]],
    ) -> Released:
        rows, count = int(row.max()) + 1, int(bag.max()) + 1
        if rows > row.size or count > bag.size:
            raise _not(path, "a row or a bag missing")
        names = tuple(settings.pop("names"))
        if names and len(names) != count:
            raise _not(path, f"{len(names)} names for {count} bags")
        values = np.empty((count, len(columns)))
        for number, column in enumerate(columns):
            if column.dtype != np.float64 or not (np.abs(column) <= _LARGEST).all():
                raise _not(path, "responses that are no finite numbers")
            values[bag, number] = column
            if (values[bag, number] != column).any():
                raise _not(path, "two responses for one bag")
        bags = Bags.of_pairs(row, bag, names)
        if not _enough_noise(settings, bags.copies):
            raise _not(path, "less noise than its epsilon takes")
        if len(columns) == 1:
            values = values[:, 0]
        return cls(bags=bags, values=values, **{name: settings[name] for name in _FIELDS})

    def _columns(self) -> list[tuple[str, Reals]]:
        if self.values.ndim == 1:
            return [("response", self.values)]
        return [(f"response_{i}", column) for i, column in enumerate(self.values.T)]

    def __repr__(self) -> str:
        return f"Released({self.bags!r}, {self.mechanism}, {self.guarantee})"


Result = Released
"""The name of what a run ends with in every package of protocols."""


def _settings(path: str | Path, found: bytes | None) -> dict[str, Any]:
    """Return the metadata, checked field by field."""
    if found is None:
        raise _not(path, "no metadata of a release")
    try:
        settings = json.loads(found)
    except (ValueError, RecursionError):
        raise _not(path, "metadata that are no JSON") from None
    if not isinstance(settings, Mapping) or set(settings) != {*_FIELDS, "version", "names"}:
        raise _not(path, "metadata with other fields")
    settings = dict(settings)
    if settings.pop("version") != _VERSION:
        raise _not(path, "another version")
    numbers = ("delta", "delta_realised", "epsilon_clip", "noise_variance", "step", "kappa")
    optional = [name for name in ("epsilon", "low", "high") if settings[name] is not None]
    good = (
        settings["aggregate"] in ("mean", "sum")
        and settings["mechanism"] in MECHANISMS
        and type(settings["classes"]) is int
        and 0 <= settings["classes"] <= 4096
        and settings["classes"] != 1
        and type(settings["insecure"]) is bool
        and isinstance(settings["names"], list)
        and all(type(name) in (str, int, float, bool) for name in settings["names"])
        and len(set(settings["names"])) == len(settings["names"])
        and all(_real(settings[name]) for name in (*numbers, *optional))
        and _consistent(settings)
    )
    if not good:
        raise _not(path, "metadata that are not allowed")
    return settings


def _consistent(settings: dict[str, Any]) -> bool:
    """Return whether numbers are in their ranges, and go with the mechanism."""
    epsilon, delta, kind = settings["epsilon"], settings["delta"], settings["mechanism"]
    low, high = settings["low"], settings["high"]
    good: bool = (
        (low is None) == (high is None)
        and (low is None or low < high)
        and settings["step"] >= 0
        and 0 < settings["kappa"] <= 1
        and 0 <= settings["delta_realised"] <= delta <= 0.1
    )
    if kind == EXACT:
        return good and epsilon is None and settings["noise_variance"] == delta == 0
    return (
        good
        and epsilon is not None
        and 0 <= settings["epsilon_clip"] < epsilon <= 64
        and low is not None
        and settings["noise_variance"] > 0
        and (delta == 0) == (kind == "laplace")
        and (settings["step"] > 0) == (kind in ("laplace", "gaussian"))
    )


def _enough_noise(settings: dict[str, Any], copies: int) -> bool:
    """Return whether a curator's noise is what the stated epsilon takes."""
    step, epsilon = settings["step"], settings["epsilon"]
    if settings["mechanism"] not in ("laplace", "gaussian"):
        return True
    variance, spent = settings["noise_variance"] / step / step, epsilon - settings["epsilon_clip"]
    steps = 1 if settings["classes"] else round((settings["high"] - settings["low"]) / step)
    moved = copies * (2 if settings["classes"] > 2 else 1)
    if not (0 < variance <= _MOST_VARIANCE and 1 <= steps <= 1 << 20):
        return False
    if settings["mechanism"] == "laplace":
        # The variance of discrete Laplace noise of decay s is 1 / (cosh s - 1).
        decay = math.acosh(1 + 1 / variance)
        enough: bool = decay * steps * moved <= spent * (1 + 1e-6)
        return enough
    least: float = analytic_sigma(steps * math.sqrt(moved), spent, settings["delta"]) ** 2
    # Below 1 the variance of discrete noise is less than its parameter.
    return bool(least < 1 or variance >= least * (1 - 1e-5))


def _real(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _LARGEST


def _whole(path: str | Path, name: str, values: NDArray[Any]) -> NDArray[np.int64]:
    if values.dtype.kind not in "iu":
        raise _not(path, f"column {name} of {values.dtype}")
    return values.astype(np.int64)


def _plain(name: Any) -> Any:
    return name if isinstance(name, str | int | float) else str(name)


def _not(path: str | Path, found: str) -> UsageError:
    return UsageError(f"path {Path(path).name}", found, "a file of Released.write")
