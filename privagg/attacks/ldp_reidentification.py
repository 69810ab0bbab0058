"""Find a respondent of several surveys in a table of people, from what SMP's reports give away.

An SMP report says which attribute it is about, and lets the attacker guess its value. Over several
surveys the guesses add up to a profile of the pseudonymous respondent, which is compared with
background knowledge: a table of people and their values.

Source: Arcolezi, Gambs, Couchot, Palamidessi, "On the Risks of Collecting Multidimensional Data
Under Local Differential Privacy", PVLDB 2023 (full knowledge, uniform privacy metric: a respondent
reports another attribute in each survey).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg._validate import whole
from privagg.attacks.ldp_arguments import check_seed
from privagg.attacks.ldp_guess import guess
from privagg.errors import UsageError
from privagg.protocols.multidim import Params, Protocol
from privagg.protocols.multidim.respondent import encode

__all__ = ["Reidentification", "reidentify"]


@dataclass(frozen=True)
class Reidentification:
    """How often the attacker finds the respondent among those the profile fits best.

    Attributes
    ----------
    targets, people : int
        Respondents attacked, and people in the background table.
    surveys : int
        How many surveys each answered.
    top : dict of int to float
        For each size of a short list: how often the respondent is on it; people that the profile
        fits equally well are put in random order.
    baseline : dict of int to float
        The same for lists drawn at random.
    epsilon_total : float
        What a respondent has spent over the surveys.
    """

    targets: int
    people: int
    surveys: int
    top: dict[int, float]
    baseline: dict[int, float]
    epsilon_total: float


def reidentify(
    params: Params,
    columns: Mapping[str, Any],
    *,
    surveys: int = 5,
    targets: int = 500,
    lists: Sequence[int] = (1, 10),
    seed: int = 0,
) -> Reidentification:
    """Let people answer several SMP surveys, and look for some of them in the table.

    Parameters
    ----------
    params : Params
        A survey with ``smp``; all surveys have these attributes and this epsilon.
    columns : mapping of str to column
        The table: for each attribute everybody's values.
    surveys : int
        At most as many as there are attributes.
    targets : int
        How many of the people to look for.
    lists : sequence of int
        Sizes of the short lists.
    seed : int
        The experiment is repeatable: it attacks reports that it made itself.

    Returns
    -------
    Reidentification

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    if not isinstance(params, Params) or params.protocol is not Protocol.SMP:
        found = params.protocol.value if isinstance(params, Params) else type(params).__name__
        raise UsageError("params", found, "a survey with smp, whose reports name the attribute")
    count = whole("surveys", surveys, 1, params.d, "A respondent reports each attribute once.")
    table = np.stack(encode(params, columns))
    people = table.shape[1]
    aimed = whole("targets", targets, 1, people)
    if isinstance(lists, str | bytes) or not isinstance(lists, Sequence):
        raise UsageError("lists", type(lists).__name__, "a list of whole numbers")
    sizes = [whole("lists", size, 1, people) for size in lists]
    rng = np.random.default_rng(check_seed(seed))
    source = entropies.from_seed(seed).spawn("re-identification")
    chosen = rng.choice(people, aimed, replace=False)
    order = rng.permuted(np.tile(np.arange(params.d), (aimed, 1)), axis=1)[:, :count]
    # Score: how many of the guesses each person of the table has.
    scores = np.zeros((aimed, people), np.uint16)
    for number, one in enumerate(params.mechanisms):
        who = np.flatnonzero((order == number).any(axis=1))
        if not who.size:
            continue
        own = table[number, chosen[who]]
        reports = one.randomize_codes(own, source.spawn(f"attribute {number}"))
        guesses = guess(one, reports, rng)
        for at, value in zip(who, guesses, strict=True):
            scores[at] += table[number] == value
    ranks = _ranks(scores, chosen, rng)
    return Reidentification(
        targets=aimed,
        people=people,
        surveys=count,
        top={size: float((ranks < size).mean()) for size in sizes},
        baseline={size: size / people for size in sizes},
        epsilon_total=count * params.epsilon_tuple,
    )


def _ranks(
    scores: NDArray[np.uint16], chosen: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return how many people stand before each target, ties in random order."""
    own = scores[np.arange(len(chosen)), chosen]
    better = (scores > own[:, None]).sum(axis=1)
    tied = (scores == own[:, None]).sum(axis=1) - 1
    return np.asarray(better + rng.integers(0, tied + 1), np.int64)
