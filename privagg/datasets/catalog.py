"""What is bundled: one record per table, readable without opening the tables."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from privagg.errors import UsageError

__all__ = ["Info", "names", "info", "closest"]

_CC_BY = "CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/)"


@dataclass(frozen=True)
class Info:
    """Description of a bundled table.

    Attributes
    ----------
    name : str
        Name to pass to :func:`privagg.datasets.load`.
    title : str
        What the table holds, in one line.
    rows : int
        Number of rows; each row is one person, application or event.
    columns : tuple of str
        Column names, in file order.
    source : str
        Who published the data, and where.
    licence : str
        Terms under which the table is redistributed here.
    """

    name: str
    title: str
    rows: int
    columns: tuple[str, ...]
    source: str
    licence: str


_ALL = (
    Info(
        name="adult",
        title="Census income 1994: persons with work, schooling, family and income class",
        rows=45_222,
        columns=(
            "workclass",
            "education",
            "marital_status",
            "occupation",
            "relationship",
            "race",
            "sex",
            "native_country",
            "income",
            "age",
            "hours_per_week",
        ),
        source="Becker and Kohavi, Adult, UCI Machine Learning Repository, 1996, "
        "https://doi.org/10.24432/C5XW20; rows with an unknown value left out",
        licence=_CC_BY,
    ),
    Info(
        name="income2000",
        title="Weekly income in 2000 by area: persons with state, area, income and schooling",
        rows=29_501,
        columns=("state", "puma", "weekly_income", "education_years"),
        source="US Census Bureau, Census 2000 Public Use Microdata Sample; an extract",
        licence="public domain (work of the United States government)",
    ),
    Info(
        name="nursery",
        title="Nursery school applications: family, housing, health and the ranking given",
        rows=12_960,
        columns=(
            "parents",
            "has_nurs",
            "form",
            "children",
            "housing",
            "finance",
            "social",
            "health",
            "class",
        ),
        source="Rajkovic, Nursery, UCI Machine Learning Repository, 1989, "
        "https://doi.org/10.24432/C5P88W",
        licence=_CC_BY,
    ),
    Info(
        name="stops2017",
        title="Minneapolis police stops of 2017: place, kind, neighbourhood and precinct",
        rows=51_920,
        columns=("latitude", "longitude", "problem", "neighborhood", "precinct"),
        source="City of Minneapolis, Open Minneapolis, Police Stop Data; stops of 2017",
        licence="open data of the City of Minneapolis",
    ),
    Info(
        name="voters2016",
        title="Election study 2016: respondents with state, vote, age, schooling, race and income",
        rows=64_600,
        columns=(
            "state",
            "voted_trump",
            "age",
            "female",
            "college",
            "race",
            "income_bracket",
        ),
        source="Ansolabehere and Schaffner, Cooperative Congressional Election Study 2016: "
        "Common Content, Harvard Dataverse, https://doi.org/10.7910/DVN/GDF6Z0; an extract",
        licence="CC0 1.0 (https://creativecommons.org/publicdomain/zero/1.0/)",
    ),
)
_BY_NAME = {table.name: table for table in _ALL}


def names() -> tuple[str, ...]:
    """Names of the bundled tables, in alphabetical order.

    Returns
    -------
    tuple of str
        What :func:`load` takes.
    """
    return tuple(_BY_NAME)


def info(name: str) -> Info:
    """Describe a bundled table.

    Parameters
    ----------
    name : str
        One of :func:`names`.

    Raises
    ------
    UsageError
        If no such table is bundled; the message lists those that are.
    """
    if not isinstance(name, str) or name not in _BY_NAME:
        raise UsageError("name", name, ", ".join(names()), closest(name, names()))
    return _BY_NAME[name]


def closest(found: object, allowed: tuple[str, ...]) -> str:
    """Suggest the allowed word that looks most like ``found``, or say nothing."""
    if not isinstance(found, str):
        return ""
    by_case = {word.casefold(): word for word in allowed}
    near = difflib.get_close_matches(found.casefold(), list(by_case), n=1, cutoff=0.6)
    return f"Did you mean {by_case[near[0]]}?" if near else ""
