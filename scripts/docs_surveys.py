"""Blocks of the page on surveys: what epsilons really are, and expected errors."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from docs_tables import table

from privagg import datasets
from privagg.domain import Categorical, Domain
from privagg.protocols import multidim


def survey_of(table_name: str) -> tuple[dict[str, Domain], list[Any]]:
    """Return the categorical attributes of a bundled table, and their frequencies."""
    attributes: dict[str, Domain] = {}
    frequencies = []
    loaded = datasets.load(table_name)
    for name in loaded.column_names:
        column = loaded.column(name).combine_chunks()
        if hasattr(column, "dictionary"):
            attributes[name] = Categorical(column.dictionary.to_pylist())
            counts = np.bincount(column.indices, minlength=len(column.dictionary))
            frequencies.append(counts / len(column))
    return attributes, frequencies


def _quiet(**chosen: Any) -> multidim.Params:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", multidim.PrivacyWarning)
        return multidim.Params(**chosen)


FAKED = [("rs+fd", "grr"), ("rs+fd", "oue-z"), ("rs+fd", "oue-r"), ("rs+fd", "adp")]


def survey_epsilons() -> str:
    """Return what the published epsilon ln 3 of RS+FD really is."""
    rows: list[list[object]] = []
    for name in ("adult", "nursery"):
        attributes, _ = survey_of(name)
        for protocol, oracle in FAKED:
            one = _quiet(
                attributes=attributes,
                epsilon=math.log(3),
                protocol=protocol,
                oracle=oracle,
                calibration="published",
            )
            values = (one.epsilon_published, one.epsilon_attribute, one.epsilon_tuple)
            rows.append([name, f"{protocol}[{oracle}]", *(f"{value:.3f}" for value in values)])
    return table(["table", "survey", "published", "one attribute", "any two tuples"], rows)


def survey_errors() -> str:
    """Return expected errors at equal exact epsilon 1."""
    rows: list[list[object]] = []
    every = [("spl", "adp"), ("smp", "adp"), ("smp", "ss"), *FAKED]
    for name in ("adult", "nursery"):
        attributes, frequencies = survey_of(name)
        users = datasets.info(name).rows
        for protocol, oracle in every:
            row: list[object] = [name, f"{protocol}[{oracle}]"]
            for about in ("tuple", "attribute", "published"):
                one = _quiet(
                    attributes=attributes,
                    epsilon=1.0,
                    protocol=protocol,
                    oracle=oracle,
                    calibration=about,
                )
                row.append(f"{multidim.mse_theory(one, users, frequencies):.2e}")
            rows.append(row)
    return table(["table", "survey", "tuple", "attribute", "published"], rows)
