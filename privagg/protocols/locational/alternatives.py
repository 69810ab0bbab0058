"""The same counts by other means: what secure aggregation would give, and whom one would trust.

Under local differential privacy nobody is trusted, and every respondent's noise adds up. Secure
aggregation adds one-hot vectors of cells up under masks: the server sees sums only, if enough
clients are honest, but exact sums, which are not differentially private. Noise that clients add
together is as large as one trusted curator's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.entropy import OS, from_seed
from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols.locational.params import Params
from privagg.protocols.locational.respondent import Held
from privagg.protocols.secagg import private
from privagg.protocols.secagg.calibration import Units

__all__ = [
    "COHORT",
    "DELTA",
    "Alternative",
    "Noisy",
    "alternatives",
    "masked_counts",
    "noisy_counts",
]

COHORT = 100
"""Clients of one round: cohorts' sums add up."""

DELTA = 1e-6
"""What the guarantee of noise that clients add together may be missed by."""

_SPARSE = 300
"""From so many clients on a round's graph is sparse."""


@dataclass(frozen=True, eq=False)
class Noisy:
    """Counts with noise that the clients of one round added together.

    Attributes
    ----------
    counts : (known cells,) float64 array
        Unbiased.
    deviation : float
        The standard deviation of a count, with all clients there.
    epsilon, delta : float
        Central, of the sum: one respondent's items replaced by any others. It holds as long as the
        honest clients that the round insists on are in the sum.
    honest : int
        How many those are.
    sent : int
        Encoded bytes that a client sent.
    """

    counts: NDArray[np.float64]
    deviation: float
    epsilon: float
    delta: float
    honest: int
    sent: int


@dataclass(frozen=True)
class Alternative:
    """One way to the same counts.

    Attributes
    ----------
    name : str
        What it is.
    trust : str
        Who has to be trusted, with what.
    guarantee : str
        What is promised of the counts.
    mse : float
        Expected squared error of a cell's frequency.
    bytes_per_client : float
        What a client sends.
    measured : bool
        Whether the error was measured here, and not forecast.
    """

    name: str
    trust: str
    guarantee: str
    mse: float
    bytes_per_client: float
    measured: bool


def masked_counts(
    params: Params, held: Held, *, seed: int | None = None
) -> tuple[NDArray[np.int64], int]:
    """Count cells by rounds of secure aggregation, semi-honest, and return what a client sent.

    Parameters
    ----------
    params : Params
        The survey; only its cells count.
    held : Held
        What respondents hold, 6 or more.
    seed : int, optional
        Makes the rounds repeatable, and insecure.

    Returns
    -------
    counts : (known cells,) int64 array
        Exact.
    bytes_per_client : int
        Encoded bytes, of a client in the largest cohort.

    Raises
    ------
    UsageError
        If there are too few respondents.
    """
    users, cells = len(held), params.cells.size
    whole("users", users, 6, 2**31)
    rounds = max(1, users // COHORT)
    total = np.zeros(cells, np.int64)
    sent = 0
    for number, part in enumerate(np.array_split(np.arange(users), rounds)):
        vectors = _one_hot(held.codes[part], cells)
        own = secagg.Params.recommend(clients=part.size, dim=cells, value_bits=1)
        result = secagg.run(own, vectors, seed=None if seed is None else seed + number)
        total += np.asarray(result.sum, np.int64)
        sent = max(sent, _bytes_up(own))
    return total[: params.cells.known], sent


def noisy_counts(params: Params, held: Held, *, seed: int | None = None) -> Noisy:
    """Count cells by one round of secure aggregation with distributed discrete Gaussian noise.

    Parameters
    ----------
    params : Params
        The survey; its cells and its epsilon count.
    held : Held
        What respondents hold, 6 or more.
    seed : int, optional
        Makes round and noise repeatable, and insecure.

    Raises
    ------
    UsageError
        If there are too few respondents.
    """
    users, cells = len(held), params.cells.size
    whole("users", users, 6, 2**20)
    graph = "sparse" if users >= _SPARSE else "complete"
    own = secagg.Params.recommend(clients=users, dim=cells, value_bits=1, graph=graph)
    mechanism = private.calibrated(
        own,
        epsilon=params.epsilon,
        delta=DELTA,
        clip=math.sqrt(params.items),
        adjacency="replace",
    )
    found = private.run_private(
        own,
        mechanism,
        list(_one_hot(held.codes, cells).astype(np.float64)),
        entropy=OS if seed is None else from_seed(seed),
        seed=seed,
    )
    return Noisy(
        np.asarray(found.sum, np.float64)[: params.cells.known],
        float(mechanism.deviation(users)),
        params.epsilon,
        DELTA,
        mechanism.honest,
        _bytes_up(found.result.params),
    )


def _one_hot(codes: NDArray[np.int64], cells: int) -> NDArray[np.int64]:
    """Return a row for each respondent, with 1 at each cell held."""
    vectors = np.zeros((len(codes), cells), np.int64)
    rows, items = np.nonzero(codes >= 0)
    vectors[rows, codes[rows, items]] = 1
    return vectors


def alternatives(
    params: Params,
    users: int,
    local_mse: float,
    *,
    sent: int | None = None,
    noisy: Sequence[Noisy] = (),
    noisy_mse: float = math.nan,
) -> list[Alternative]:
    """Return the local survey, and what secure aggregation would give, side by side.

    Parameters
    ----------
    params : Params
        The survey.
    users : int
        Respondents.
    local_mse : float
        Expected squared error of the survey's raw frequencies.
    sent : int, optional
        Bytes that a client was measured to send, of exact counts that were measured too.
    noisy : sequence of Noisy
        Rounds with distributed noise that were run over disjoint parts of the respondents.
    noisy_mse : float
        The mean squared error of a frequency that they had.

    Raises
    ------
    UsageError
        If a number is out of range.
    """
    whole("users", users, 1, 2**38)
    if params.notion != "local":
        raise UsageError("notion", params.notion, "local, to compare with")
    if params.oracle == "gaussian":
        raise UsageError("mechanism", params.oracle, "one without delta, to compare with")
    if sent is None:
        size = max(6, min(users, COHORT))
        own = secagg.Params.recommend(clients=size, dim=params.cells.size, value_bits=1)
        bytes_up = float(_bytes_up(own))
    else:
        bytes_up = float(sent)
    honest = "that a share of the clients (95 % as planned) does not collude with the server"
    return [
        Alternative(
            "local differential privacy",
            "nobody",
            f"epsilon {params.epsilon_realised:.4g}, local",
            local_mse,
            params.report_bytes,
            False,
        ),
        Alternative(
            "secure aggregation, exact",
            honest,
            "sums of cohorts only, but exact: no differential privacy",
            0.0,
            bytes_up,
            sent is not None,
        ),
        _together(params, users, honest, bytes_up, noisy, noisy_mse),
    ]


def _together(
    params: Params,
    users: int,
    honest: str,
    bytes_up: float,
    noisy: Sequence[Noisy],
    noisy_mse: float,
) -> Alternative:
    """Return the row of noise that clients add together: measured, or forecast."""
    name = "secure aggregation, noise added together"
    if noisy:
        least = min(one.honest for one in noisy)
        return Alternative(
            name,
            f"{honest}, and that {least} honest ones add their part of the noise",
            f"epsilon {params.epsilon:.4g} at delta {DELTA:g}, of the counts",
            noisy_mse,
            float(max(one.sent for one in noisy)),
            True,
        )
    # One respondent's items move to others: 2 items of a count change by 1 each, Laplace noise.
    spread = discrete_laplace_variance(params.epsilon / (2 * params.items))
    return Alternative(
        name,
        f"{honest}, and that as many add their part of the noise",
        f"epsilon {params.epsilon:.4g}, of the counts",
        spread / users**2,
        bytes_up,
        False,
    )


def _bytes_up(params: secagg.Params) -> int:
    nothing = {one.name: 0.0 for one in fields(Units)}
    return sum(secagg.plan(params, units=Units(**nothing)).bytes_up.values())


def discrete_laplace_variance(epsilon: float) -> float:
    """Return the variance of integer noise with P(j) proportional to e**(-epsilon |j|)."""
    ratio = np.exp(-epsilon)
    return float(2 * ratio / (1 - ratio) ** 2)
