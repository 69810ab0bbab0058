"""The same counts by other means: what secure aggregation would give, and whom one would trust.

Under local differential privacy nobody is trusted, and every respondent's noise adds up. Secure
aggregation adds one-hot vectors of cells up under masks: the server sees sums only, if enough
clients are honest, but exact sums, which are not differentially private. Noise that clients add
together is as large as one trusted curator's.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols.locational.params import Params
from privagg.protocols.locational.respondent import Held
from privagg.protocols.secagg.calibration import Units

__all__ = ["COHORT", "Alternative", "alternatives", "masked_counts"]

COHORT = 100
"""Clients of one round: cohorts' sums add up."""


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
        vectors = np.zeros((part.size, cells), np.int64)
        rows, items = np.nonzero(held.codes[part] >= 0)
        vectors[rows, held.codes[part][rows, items]] = 1
        own = secagg.Params.recommend(clients=part.size, dim=cells, value_bits=1)
        result = secagg.run(own, vectors, seed=None if seed is None else seed + number)
        total += np.asarray(result.sum, np.int64)
        sent = max(sent, _bytes_up(own))
    return total[: params.cells.known], sent


def alternatives(
    params: Params, users: int, local_mse: float, *, sent: int | None = None
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
    # One respondent's items move to others: 2 items of a count change by 1 each, Laplace noise.
    spread = discrete_laplace_variance(params.epsilon / (2 * params.items))
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
        Alternative(
            "secure aggregation, noise added together",
            f"{honest}, and that as many add their part of the noise",
            f"epsilon {params.epsilon:.4g}, of the counts",
            spread / users**2,
            bytes_up,
            False,
        ),
    ]


def _bytes_up(params: secagg.Params) -> int:
    nothing = {one.name: 0.0 for one in fields(Units)}
    return sum(secagg.plan(params, units=Units(**nothing)).bytes_up.values())


def discrete_laplace_variance(epsilon: float) -> float:
    """Return the variance of integer noise with P(j) proportional to e**(-epsilon |j|)."""
    ratio = np.exp(-epsilon)
    return float(2 * ratio / (1 - ratio) ** 2)
