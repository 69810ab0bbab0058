"""Exact recovery of a batch in front of a ReLU.

1. :func:`~privagg.attacks.gradient.ica.separate` gives approximate inputs.
2. The known weights predict which neurons are off for each; a column of the mixing matrix that is
   exactly zero there, and determined by that, is found (:mod:`columns`).
3. What is found is taken out: the rows that unmix the other inputs are orthogonal to found columns.
   The smaller problem is separated again, better, and so on until every column is found.
4. The result is checked without the truth (:mod:`certificate`). Only then is it `verified`;
   otherwise it is approximate, whatever was found.

Credit: exact recovery from sparse columns is SPEAR's (NeurIPS 2024) and SPEAR++'s (2025);
verifiable recovery VGIA's (2026).
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.certificate import AGREEMENT, verify
from privagg.attacks.gradient.columns import ColumnSearch
from privagg.attacks.gradient.factors import Factors, factorize
from privagg.attacks.gradient.ica import Separation, scale, separate
from privagg.attacks.gradient.observation import LayerGradient, Observation
from privagg.attacks.gradient.recovery import Floats, Recovery
from privagg.attacks.gradient.unmixing import fast_ica, likelihood_ica, whiten
from privagg.errors import UsageError

__all__ = ["relu_exact"]

_STALLS = 6
"""Rounds without a new column, each from another start, after which the search ends."""

_ROUNDS = 40
"""After which it ends in any case."""

_ALIKE = 1 - 1e-9
"""Cosine from which two columns are one."""


def relu_exact(
    observation: Observation,
    *,
    layer: int | str = 0,
    shape: tuple[int, int, int] | None = None,
    budget: float = 60.0,
    seed: int = 0,
) -> Recovery:
    """Recover a batch of the inputs of a linear layer that a ReLU follows.

    Parameters
    ----------
    observation : Observation
        What the server saw; its layer must have a bias gradient and known weights.
    layer : int or str
        Which of its layers.
    shape : (channels, height, width), optional
        Of the inputs, for the separation.
    budget : float
        CPU seconds after which no further round begins.
    seed : int
        Of the separation.

    Returns
    -------
    Recovery
        `verified` only if all inputs are proved exact, up to the gradient's noise.

    Raises
    ------
    UsageError
        If the layer has no bias gradient or its weights are not known.
    """
    began = time.process_time()
    chosen = observation.layer(layer)
    if chosen.bias is None or chosen.weights is None or chosen.biases is None:
        raise UsageError(
            "observation",
            f"the layer {chosen.name} without " + ("bias" if chosen.bias is None else "weights"),
            "a layer with a bias gradient and known weights and biases",
            "ica needs neither.",
        )
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0:
        raise UsageError("budget", budget, "a number of seconds above 0")
    factors = factorize(chosen, observation.batch, observation.floor)
    first = separate(factors, shape=shape, seed=seed)
    notes = list(factors.diagnosis)
    # Neurons that are off for all inputs have zeros that say nothing.
    live = int(np.count_nonzero(np.any(chosen.weight != 0, axis=1)))
    if factors.visible < factors.rank or factors.rank + 6 >= live:
        notes.append(
            "noise hides components: no column can have exact zeros"
            if factors.visible < factors.rank
            else f"{factors.rank} inputs for {live} active neurons: too few zeros"
        )
        return _approximate(factors, first, observation, notes, began)
    head = observation.head
    next_weights = None
    if head is not None and head.weights is not None and head.shape[1] == chosen.shape[0]:
        next_weights = head.weights.astype(np.float64)
    search = ColumnSearch(factors, next_weights)
    state = _Rounds(factors, chosen, search, first, seed)
    state.run(began + budget)
    return state.result(observation, notes, began)


def _approximate(
    factors: Factors, found: Separation, observation: Observation, notes: list[str], began: float
) -> Recovery:
    return Recovery(
        inputs=found.unmixing @ factors.rows[: len(found.unmixing)],
        method="relu_exact",
        cpu_seconds=time.process_time() - began,
        rank=factors.rank,
        batch=observation.batch,
        diagnosis=tuple(notes),
        details={"filter": found.filter, "snr": found.snr, "found": 0, "rounds": 0},
    )


class _Rounds:
    """Found columns, and what is still mixed."""

    def __init__(
        self,
        factors: Factors,
        layer: LayerGradient,
        search: ColumnSearch,
        first: Separation,
        seed: int,
    ) -> None:
        assert factors.anchor is not None
        assert layer.weights is not None
        assert layer.biases is not None
        self.factors, self.layer, self.search, self.seed = factors, layer, search, seed
        self.anchor = factors.anchor
        self.first = first
        self.unmixing = first.unmixing
        self.directions = _unit(np.linalg.pinv(first.unmixing))
        self.found = np.zeros(factors.rank, np.bool_)
        weights = layer.weights.astype(np.float64)
        # Outputs of the layer on input i are ``predict @ unmixing[i]``.
        self.predict = (factors.rows @ weights.T).T + np.outer(layer.biases, self.anchor)
        self.rounds = 0
        self.complete: tuple[float, Floats] | None = None

    def outputs(self) -> Floats:
        """Return the layer's outputs on the inputs as they are now, shape (r, h)."""
        outputs: Floats = self.unmixing @ self.predict.T
        return outputs

    def run(self, deadline: float) -> None:
        """Find columns until all are found, nothing is gained, or the time is over."""
        stalls = 0
        while stalls < _STALLS and self.rounds < _ROUNDS and time.process_time() < deadline:
            self.rounds += 1
            before = self.found.copy()
            self._look(deadline)
            if self.found.all():
                self._solve()
                agreement = self._agreement()
                wrong = agreement < AGREEMENT
                if not wrong.any():
                    return
                if self.complete is None or agreement.mean() > self.complete[0]:
                    self.complete = (float(agreement.mean()), self.directions.copy())
                elif agreement.mean() >= self.complete[0] - 1e-3:
                    break
                self.found &= ~wrong
                stalls += 1
            elif (self.found == before).all():
                stalls += 1
                self._forget()
            else:
                stalls = 0
            self._separate_again(stalls)
        self._restore()

    def _restore(self) -> None:
        """Go back to the best set of columns that all had their zeros, if some are lost again.

        After several local steps the zeros are exact and the patterns, of the first weights, are
        not: such columns are as good as exact, and not proved.
        """
        if self.complete is not None:
            self.found[:] = True
            self.directions = self.complete[1]
            self._solve()

    def _look(self, deadline: float) -> None:
        outputs = self.outputs()
        order = np.flatnonzero(~self.found)
        for index in order:
            if time.process_time() > deadline:
                return
            column = self.search.find(
                outputs[index], self.directions[:, index], self.unmixing[index]
            )
            if column is None:
                continue
            known = self.directions[:, self.found]
            if known.size and np.abs(known.T @ column.direction).max() > _ALIKE:
                continue
            self.directions[:, index] = column.direction
            self.found[index] = True

    def _agreement(self) -> Floats:
        """Return for each input how far its column's zeros are its pattern."""
        columns = np.abs(self.factors.left @ self.directions)
        lengths = np.linalg.norm(self.directions, axis=0)
        bounds = np.array(
            [
                self.search.tolerance(c / n) * n
                for c, n in zip(self.directions.T, lengths, strict=True)
            ]
        )
        agreement: Floats = np.mean((self.outputs() <= 0) == (columns <= bounds).T, axis=1)
        return agreement

    def _forget(self) -> None:
        """Let go of found columns that do not fit their inputs, now that more is known."""
        wrong = self.found & (self._agreement() < 0.95)
        self.found &= ~wrong

    def _solve(self) -> None:
        """Scale the columns to the bias gradient, and unmix with them."""
        scales, *_ = np.linalg.lstsq(self.directions, self.anchor, rcond=None)
        scales = np.where(np.abs(scales) > 1e-12 * np.abs(scales).max(), scales, 1.0)
        self.directions = self.directions * scales
        try:
            self.unmixing = np.asarray(np.linalg.inv(self.directions), np.float64)
        except np.linalg.LinAlgError:
            self.unmixing = np.asarray(np.linalg.pinv(self.directions), np.float64)

    def _separate_again(self, stalls: int) -> None:
        """Unmix what is left once the found columns are projected out."""
        left = np.flatnonzero(~self.found)
        if not left.size:
            return
        self.directions = _unit(self.directions)
        known = self.directions[:, self.found]
        free = np.eye(self.factors.rank)
        if known.size:
            free = np.linalg.svd(known, full_matrices=True)[0][:, known.shape[1] :]
        # Fewer free dimensions than inputs left, if found columns depend on each other.
        features = free.T.astype(np.float32) @ self.first.features
        matrix, white = whiten(features)
        start = None
        if not stalls:
            start = self.unmixing[left] @ free @ np.linalg.pinv(matrix)
            start = _unit(start.T).T
        count = len(matrix)
        if start is None or start.shape != (count, count) or not np.isfinite(start).all():
            start = np.random.default_rng([self.seed, self.rounds]).normal(size=(count, count))
        rough = fast_ica(white, start, iterations=150 if stalls else 30)
        fine = likelihood_ica(white, rough.matrix)
        rows = fine.matrix @ matrix
        self.unmixing = self.unmixing.copy()
        self.unmixing[left[:count]] = scale(rows @ free.T, self.anchor)
        inverse = free @ np.linalg.pinv(rows)
        self.directions[:, left[:count]] = _unit(inverse)
        # Inputs of found columns change too: they are orthogonal to all other columns.
        if np.linalg.cond(self.directions) < 1e10:
            every = scale(np.asarray(np.linalg.inv(self.directions), np.float64), self.anchor)
            self.unmixing[self.found] = every[self.found]

    def result(self, observation: Observation, notes: list[str], began: float) -> Recovery:
        """Return what was recovered, checked."""
        count = int(self.found.sum())
        self._complete()
        verification = verify(
            self.layer,
            self.factors,
            self.directions,
            self.found,
            self.outputs(),
            self.unmixing,
        )
        if not verification.exact:
            notes.append(_why(verification.agreement, self.found, verification))
        elif observation.batch is None or self.factors.rank < observation.batch:
            whole = "" if observation.batch is None else f" of a batch of {observation.batch}"
            notes.append(
                f"proved: {self.factors.rank} inputs{whole} that can be told apart above the "
                "noise; one of them may be several that are nearly equal"
            )
        return Recovery(
            inputs=self.unmixing @ self.factors.rows,
            method="relu_exact",
            verified=verification.exact,
            cpu_seconds=time.process_time() - began,
            rank=self.factors.rank,
            batch=observation.batch,
            diagnosis=tuple(notes),
            verification=verification,
            columns=self.factors.left @ self.directions,
            details={
                "filter": self.first.filter,
                "snr": self.first.snr,
                "found": count,
                "rounds": self.rounds,
            },
        )

    def _complete(self) -> None:
        """Solve with all columns, found or not, unless they depend on each other."""
        if np.linalg.cond(self.directions) < 1e10:
            self._solve()
        else:
            self.directions = np.asarray(np.linalg.pinv(self.unmixing), np.float64)


def _unit(matrix: NDArray[np.floating]) -> Floats:
    """Return the matrix with columns of unit norm."""
    norms = np.linalg.norm(matrix, axis=0)
    unit: Floats = matrix / np.maximum(norms, np.finfo(np.float64).tiny)
    return unit


def _why(agreement: Floats, found: NDArray[np.bool_], verification: object) -> str:
    """Say why a recovery is not called exact."""
    if not found.all():
        missing = int(np.count_nonzero(~found))
        return f"{missing} of {len(found)} columns not found by their zeros: approximate"
    low = int(np.count_nonzero(agreement < AGREEMENT))
    if low:
        return f"{low} of {len(found)} columns do not fit the ReLU pattern of their input"
    return "columns are not unique, or the re-simulated gradient differs: approximate"
