"""An unknown participation log, found again from sums and known counts.

As described by Lam, Wei, Brooks, Reddi and Mitzenmacher (ICML 2021): device analytics tell how
often each client took part within each interval of rounds, not in which. If inputs stay much the
same, the sums of the rounds (vectors) span the column space of the log, so each column is a 0/1
vector that the sums' left null space annihilates and that has the known counts: an integer program
for each client, here by HiGHS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.attacks.linear_solver import Program, require_scipy
from privagg.errors import UsageError

__all__ = ["Reconstruction", "participation_from_counts"]

Floats = NDArray[np.float64]

_ZERO = 1e-8  # singular values below this, over the largest, count as zero without noise
_MOST_ROUNDS = 8192  # a square matrix of them is in memory

_FIT = 1e-5  # by how much an annihilated vector may miss zero


@dataclass(frozen=True)
class Reconstruction:
    """Who took part when, as far as it could be found.

    Attributes
    ----------
    participation : (rounds, clients) int array
        The log; columns of zeros where nothing was found.
    found : (clients,) bool array
        Whether a column was found.
    unique : (clients,) bool array
        Whether it was proved to be the only one that fits.
    residual : (clients,) float array
        Sum of the absolute values that should be zero; infinite where nothing was found.
    null_dimension : int
        Equations that the sums give: rounds less their rank.
    """

    participation: NDArray[np.int64]
    found: NDArray[np.bool_]
    unique: NDArray[np.bool_]
    residual: Floats
    null_dimension: int


def participation_from_counts(
    sums: Any,
    counts: Any,
    interval: int,
    *,
    noisy: bool = False,
    seconds: float = 60.0,
    progress: Callable[[int, int], None] | None = None,
) -> Reconstruction:
    """Find the rounds in which each client took part.

    Parameters
    ----------
    sums : array of float, shape (rounds, dim)
        What at most 8192 rounds gave: unweighted sums of vectors. More coordinates than clients are
        needed.
    counts : array of int, shape (clients, intervals)
        In how many rounds of each interval a client took part.
    interval : int
        Rounds in an interval; the last one may be shorter.
    noisy : bool
        Whether inputs change from round to round, or sums carry noise: then the vector that
        is annihilated best is taken, and the rank is the number of clients.
    seconds : float
        Time limit of one program; there are up to two for each client.
    progress : callable, optional
        Called with the number of clients done, and of all.

    Returns
    -------
    Reconstruction
        For :meth:`privagg.attacks.linear.Log.of_matrix`.

    Raises
    ------
    UsageError
        Arguments that do not fit, or SciPy missing.
    """
    require_scipy()
    vectors, given = _checked(sums, counts)
    rounds, clients = len(vectors), len(given)
    if rounds > _MOST_ROUNDS:
        hint = "Take a part of the rounds: whole intervals."
        raise UsageError("sums", f"{rounds} rounds", f"at most {_MOST_ROUNDS}", hint)
    step = whole("interval", interval, 1, 2**31)
    starts = np.arange(0, rounds, step)
    if given.shape[1] != len(starts):
        raise UsageError(
            "counts",
            f"{given.shape[1]} intervals",
            f"{len(starts)}: {rounds} rounds in intervals of {step}",
        )
    members = (np.arange(rounds) // step == np.arange(len(starts))[:, np.newaxis]).astype(float)
    if (given > members.sum(axis=1)).any() or (given < 0).any():
        raise UsageError("counts", "a count outside its interval", "0 to the rounds in an interval")
    left, singular, _ = np.linalg.svd(vectors, full_matrices=True)
    rank = int(np.sum(singular > _ZERO * max(float(singular[0]), np.finfo(float).tiny)))
    null = left[:, min(rank, clients) if noisy else rank :].T
    log = np.zeros((rounds, clients), np.int64)
    found, unique = np.zeros(clients, np.bool_), np.zeros(clients, np.bool_)
    residual = np.full(clients, np.inf)
    for client in range(clients):
        program = _program(null, members, given[client], noisy, seconds)
        column, objective = _solve(program, null, rounds, noisy)
        if column is not None:
            log[:, client], found[client] = column, True
            residual[client] = float(np.abs(null @ column).sum())
            other = _other(program, column)
            second = other.minimum(objective)
            unique[client] = second.infeasible
            if noisy and second.point is not None:
                unique[client] = second.optimal and second.value > residual[client] + _FIT
        if progress is not None:
            progress(client + 1, clients)
    return Reconstruction(log, found, unique, residual, len(null))


def _checked(sums: Any, counts: Any) -> tuple[Floats, NDArray[np.int64]]:
    try:
        vectors = np.asarray(sums, dtype=np.float64)
        given = np.asarray(counts)
    except (TypeError, ValueError):
        raise UsageError("sums", "no array of numbers", "shape (rounds, dim)") from None
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise UsageError("sums", f"shape {vectors.shape}", "shape (rounds, dim)")
    if not np.isfinite(vectors).all():
        raise UsageError("sums", "NaN or infinity", "finite numbers")
    if given.ndim != 2 or given.dtype.kind not in "iu" or 0 in given.shape:
        raise UsageError("counts", f"{given.dtype} of shape {given.shape}", "(clients, intervals)")
    if vectors.shape[1] < len(given):
        raise UsageError(
            "sums",
            f"{vectors.shape[1]} coordinates",
            f"at least {len(given)}, as many as clients",
            "With fewer, the sums do not span the log's column space.",
        )
    return vectors, given.astype(np.int64)


def _program(
    null: Floats, members: Floats, counts: NDArray[np.int64], noisy: bool, seconds: float
) -> Program:
    """Return the constraints on one column; with noise, one more variable bounds each equation."""
    rounds, equations = members.shape[1], len(null)
    number = counts.astype(np.float64)
    if not noisy:
        fit = np.full(equations, _FIT)
        return Program(
            matrix=np.concatenate([null, members]),
            low=np.concatenate([-fit, number]),
            high=np.concatenate([fit, number]),
            least=np.zeros(rounds),
            most=np.ones(rounds),
            whole=np.ones(rounds, np.bool_),
            seconds=seconds,
        )
    identity = np.eye(equations)
    zero, infinite = np.zeros(equations), np.full(equations, np.inf)
    blank = np.zeros((len(members), equations))
    return Program(
        matrix=np.block([[null, identity], [-null, identity], [members, blank]]),
        low=np.concatenate([zero, zero, number]),
        high=np.concatenate([infinite, infinite, number]),
        least=np.zeros(rounds + equations),
        most=np.concatenate([np.ones(rounds), infinite]),
        whole=np.arange(rounds + equations) < rounds,
        seconds=seconds,
    )


def _solve(
    program: Program, null: Floats, rounds: int, noisy: bool
) -> tuple[NDArray[np.int64] | None, Floats]:
    objective = np.zeros(len(program.least))
    objective[rounds:] = 1.0
    solution = program.minimum(objective)
    if solution.point is None:
        return None, objective
    column = np.round(solution.point[:rounds]).astype(np.int64)
    if not noisy and np.abs(null @ column).max(initial=0.0) > 10 * _FIT:
        return None, objective
    return column, objective


def _other(program: Program, column: NDArray[np.int64]) -> Program:
    """Return the program without this solution: at least two rounds differ."""
    cut = np.zeros((1, len(program.least)))
    cut[0, : len(column)] = 1.0 - 2.0 * column
    return Program(
        matrix=np.concatenate([program.matrix, cut]),
        low=np.append(program.low, 1.0 - float(column.sum())),
        high=np.append(program.high, np.inf),
        least=program.least,
        most=program.most,
        whole=program.whole,
        seconds=program.seconds,
    )
