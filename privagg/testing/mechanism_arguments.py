"""Checks of what a mechanism takes, refuses, returns and says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privagg.errors import UsageError
from privagg.testing.conformance import Failed, Skipped
from privagg.testing.mechanism_subject import Subject

__all__ = [
    "description_builds_an_equal_one",
    "guarantee_says_adjacency",
    "refuses_domains",
    "refuses_epsilons",
    "refuses_values",
    "reports_have_their_layout",
]

_NO_EPSILON = (0, -1, math.nan, math.inf, True, "1", None, 10**400)
_NO_DOMAIN = (None, 5, "a", object(), ["a", "b"])
_STRANGERS = ("no such value \0", None, math.nan, 1e300, -1e300, 2**62, -(2**62), 0.12345, object())


def refuses_domains(subject: Subject) -> str:
    """Require a :class:`UsageError` for what is no declared domain."""
    for wrong in _NO_DOMAIN:
        _refused(lambda wrong=wrong: subject.make(wrong, subject.epsilon), f"a domain {wrong!r}")
    return f"{len(_NO_DOMAIN)} objects that are no domain refused"


def refuses_epsilons(subject: Subject) -> str:
    """Require an error that names the argument for an epsilon that is no number above 0."""
    for wrong in _NO_EPSILON:
        error = _refused(
            lambda wrong=wrong: subject.make(subject.domain, wrong), f"epsilon {str(wrong)[:20]}"
        )
        if error.argument != "epsilon":
            raise Failed(f"epsilon {wrong!r} was refused as the argument {error.argument!r}")
    return f"{len(_NO_EPSILON)} values refused: 0, negative, nan, inf, True, a string, None, huge"


def refuses_values(subject: Subject) -> str:
    """Require that the mechanism refuses what the domain refuses, values as well as codes."""
    mechanism, count = subject.mechanism, 0
    for stranger in _STRANGERS:
        try:
            subject.domain.encode([stranger])
        except UsageError:
            values = [subject.values[0], stranger]
            _refused(lambda values=values: mechanism.randomize(values), "a value out of the domain")
            count += 1
    codes = 0
    if hasattr(mechanism, "randomize_codes"):
        size = subject.domain.size
        for wrong in (np.array([0, size]), np.array([-1]), np.array([0.5]), np.array([[0]])):
            _refused(
                lambda wrong=wrong: mechanism.randomize_codes(wrong), "a code out of the domain"
            )
            codes += 1
    _refused(lambda: mechanism.randomize([subject.values[0]], 3), "an entropy 3")
    if not count and not codes:
        raise Skipped("the domain has a code for every value")
    return f"{count} values and {codes} kinds of codes out of the domain refused"


def reports_have_their_layout(subject: Subject) -> str:
    """Require n reports of n values, n from 0, of the types of the layout and below its limits."""
    mechanism = subject.mechanism
    for size in (0, 1, 257):
        values = [subject.values[at % len(subject.values)] for at in range(size)]
        before = list(values)
        reports = mechanism.randomize(values, subject.entropy(f"shape {size}"))
        if values != before:
            raise Failed("the values were changed in place")
        if len(reports) != size:
            raise Failed(f"{size} values gave {len(reports)} reports")
        for array, column in zip(reports.columns, mechanism.layout, strict=True):
            if array.dtype != column.dtype or len(array) != size:
                raise Failed(
                    f"column {column.name}: {array.dtype} of shape {array.shape} where the layout "
                    f"has {column.dtype}, {size} reports"
                )
            limit = column.limit or (0 if column.bitmap else 2**column.bits)
            if limit and array.size and int(array.max()) >= limit:
                raise Failed(f"column {column.name}: {int(array.max())}, not below {limit}")
    return "0, 1 and 257 values: as many reports, of the declared types, below their limits"


def guarantee_says_adjacency(subject: Subject) -> str:
    """Require a guarantee that names its adjacency and epsilon, and epsilon as asked for."""
    mechanism = subject.mechanism
    text = str(mechanism.guarantee)
    if "adjacen" not in text.lower():
        raise Failed(f"no adjacency in: {text}")
    if not 0 < mechanism.epsilon_realised <= mechanism.epsilon:
        raise Failed(
            f"epsilon realised {mechanism.epsilon_realised}, stated {mechanism.epsilon}: the "
            "first must be above 0 and at most the second"
        )
    if mechanism.epsilon != subject.epsilon:
        raise Failed(f"states epsilon {mechanism.epsilon} where {subject.epsilon} was asked for")
    if f"{mechanism.epsilon:.6g}" not in text:
        raise Failed(f"epsilon {mechanism.epsilon:.6g} is not in: {text}")
    return text


def description_builds_an_equal_one(subject: Subject) -> str:
    """Require that ``describe()`` is plain data, equal for equal mechanisms only."""
    from privagg.report import plain

    mechanism, twin = subject.mechanism, subject.make(subject.domain, subject.epsilon)
    other = subject.make(subject.domain, subject.epsilon * 0.75)
    if not hasattr(mechanism, "describe"):
        raise Skipped("no describe()")
    plain(mechanism.describe())
    if (mechanism.describe(), mechanism.digest) != (twin.describe(), twin.digest):
        raise Failed("two mechanisms of the same arguments have different descriptions or digests")
    if other.digest == mechanism.digest:
        raise Failed("a mechanism of another epsilon has the same digest")
    return f"digest {mechanism.digest[:4].hex()}... twice; another one at {other.epsilon:g}"


def _refused(call: Any, what: str) -> UsageError:
    try:
        call()
    except UsageError as error:
        return error
    except Exception as error:  # the contract has one type for this
        raise Failed(f"{what} raised {type(error).__name__}, not UsageError: {error}") from error
    raise Failed(f"{what} was accepted")
