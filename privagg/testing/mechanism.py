"""Hold a mechanism of local differential privacy against the contract of all mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from privagg._validate import whole
from privagg.domain import Domain
from privagg.errors import PrivaggError, UsageError
from privagg.testing import (
    mechanism_aggregation,
    mechanism_arguments,
    mechanism_privacy,
    mechanism_statistics,
)
from privagg.testing.conformance import Conformance, carry_out
from privagg.testing.mechanism_subject import MakeMechanism, Subject

__all__ = ["MECHANISM_CHECKS", "check_mechanism"]

MECHANISM_CHECKS: dict[str, Callable[[Subject], str]] = {
    "bad-domain": mechanism_arguments.refuses_domains,
    "bad-epsilon": mechanism_arguments.refuses_epsilons,
    "out-of-domain": mechanism_arguments.refuses_values,
    "report-shape": mechanism_arguments.reports_have_their_layout,
    "guarantee": mechanism_arguments.guarantee_says_adjacency,
    "description": mechanism_arguments.description_builds_an_equal_one,
    "epsilon-exact": mechanism_privacy.epsilon_by_enumeration,
    "channel": mechanism_privacy.reports_follow_the_channel,
    "epsilon-sampled": mechanism_privacy.epsilon_by_sampling,
    "unbiased": mechanism_statistics.unbiased,
    "variance": mechanism_statistics.variance_is_the_formula,
    "intervals": mechanism_statistics.intervals_cover,
    "merge": mechanism_aggregation.states_merge_in_any_order,
    "merge-refused": mechanism_aggregation.other_states_are_refused,
    "save-load": mechanism_aggregation.states_come_back_whole,
    "encoding": mechanism_aggregation.bytes_are_canonical,
    "global-randomness": mechanism_aggregation.no_global_randomness,
    "seeded-repeat": mechanism_aggregation.seeds_repeat,
    "insecure-mark": mechanism_aggregation.seeded_runs_are_marked,
    "repr": mechanism_aggregation.nothing_shows_values,
}
"""The checks by name, in the order they are made; the docstring of each says what it holds."""


def check_mechanism(
    make: MakeMechanism | Any,
    domain: Domain | None = None,
    epsilon: float | None = None,
    *,
    values: Iterable[Any] | None = None,
    runs: int = 1000,
    alpha: float = 1e-6,
    seed: int = 1,
    variance_is: str = "exact",
    skip: Mapping[str, str] | None = None,
    only: Iterable[str] | None = None,
    raise_on_failure: bool = True,
) -> Conformance:
    """Hold a mechanism against what :mod:`privagg.mechanisms.base` says of all mechanisms.

    What a pass says: the checks of :data:`MECHANISM_CHECKS` found nothing. Where the mechanism has
    ``probabilities()``, its epsilon was enumerated in fractions and its samples compared with that
    table. Where it has none, epsilon was only bounded from below from samples: the kit can refute
    a stated epsilon, but not prove it.

    Parameters
    ----------
    make : callable or mechanism
        ``(domain, epsilon)`` to a mechanism: a class, say. A mechanism itself stands for its class
        with its options.
    domain, epsilon
        What it is built for; those of the mechanism, if `make` is one.
    values : iterable, optional
        Values of the domain that the respondents hold in turn, at least two different ones. The
        domain's ``labels`` unless given, where it has some.
    runs : int
        Simulated collections behind each statistic, from 100. More tell smaller faults: at 1000, a
        variance that is wrong by a quarter.
    alpha : float
        Probability, per check, with which a correct mechanism fails it: by the normal
        approximation of the mean of `runs`, or exactly where the evidence says Clopper-Pearson.
        The draws are seeded, so that a check that passes once does so every time.
    seed : int
        Of all draws.
    variance_is : str
        ``"bound"`` for a mechanism whose ``variance`` is an upper bound.
    skip : mapping of str to str, optional
        Checks that do not apply to this mechanism, each with the reason, for the report.
    only : iterable of str, optional
        The checks to make; all by default.
    raise_on_failure : bool
        Whether failures raise.

    Returns
    -------
    Conformance

    Raises
    ------
    ConformanceError
        An ``AssertionError`` that lists the checks that failed.
    UsageError
        If an argument is not as described, or the mechanism cannot be built at all.
    """
    whole("runs", runs, 100, 10**7)
    if isinstance(alpha, bool) or not isinstance(alpha, float) or not 0 < alpha < 1:
        raise UsageError("alpha", alpha, "a number between 0 and 1, such as 1e-6")
    if variance_is not in ("exact", "bound"):
        raise UsageError("variance_is", variance_is, "exact or bound")
    whole("seed", seed, 0, 2**64 - 1)
    factory, of, at = _factory(make, domain, epsilon)
    subject = Subject(factory, of, at, _values(of, values), runs, alpha, seed, variance_is)
    built = _built(subject)
    checks = {name: _bound(check, subject) for name, check in MECHANISM_CHECKS.items()}
    found = carry_out(
        f"{getattr(built, 'name', type(built).__name__)} (epsilon {at:g})",
        checks,
        skip=skip or {},
        only=only,
        notes=[
            f"A correct mechanism fails a statistical check with probability at most {alpha:g} "
            f"each; {runs} simulated collections, seed {seed}."
        ],
    )
    if raise_on_failure:
        found.raise_for_failures()
    return found


def _bound(check: Callable[[Subject], str], subject: Subject) -> Callable[[], str]:
    return lambda: check(subject)


def _factory(make: Any, domain: Any, epsilon: Any) -> tuple[MakeMechanism, Any, float]:
    if hasattr(make, "randomize") and not isinstance(make, type):
        kind, options = type(make), dict(getattr(make, "options", {}))
        of = make.domain if domain is None else domain
        at = make.epsilon if epsilon is None else epsilon
        return lambda d, e: kind(d, e, **options), of, _number(at)
    if not callable(make):
        raise UsageError("make", type(make).__name__, "a mechanism, or what makes one")
    if domain is None or epsilon is None:
        raise UsageError("domain, epsilon", "nothing", "needed where `make` is no mechanism")
    return make, domain, _number(epsilon)


def _number(epsilon: Any) -> float:
    if isinstance(epsilon, bool) or not isinstance(epsilon, Real):
        raise UsageError("epsilon", epsilon, "a number")
    return float(epsilon)


def _built(subject: Subject) -> Any:
    """Build the mechanism; that it cannot be built at all is the caller's mistake."""
    try:
        built = subject.mechanism
    except PrivaggError:
        raise
    except Exception as error:  # whatever the maker does
        raise UsageError(
            "make", f"{type(error).__name__}: {error}", "what makes a mechanism"
        ) from error
    if not hasattr(built, "randomize"):
        raise UsageError("make", f"what makes {type(built).__name__}", "what makes a mechanism")
    return built


def _values(domain: Any, values: Iterable[Any] | None) -> list[Any]:
    if values is None:
        labels = getattr(domain, "labels", None)
        if labels is None or not len(labels):
            raise UsageError("values", "none", "values of the domain", "It has no labels.")
        # Both ends and some between: one-hot truths of every value would take long.
        places = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), 5)).astype(int))
        values = [labels[place] for place in places]
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise UsageError("values", type(values).__name__, "values of the domain, in a list")
    if not hasattr(domain, "encode"):
        raise UsageError("domain", type(domain).__name__, "a Domain")
    held = list(values)
    different = len(np.unique(domain.encode(held))) if held else 0
    if different < 2:
        raise UsageError("values", f"{different} different ones", "at least two")
    return held
