"""What a round gives back: the aggregate, who was in it, what it cost, and whether it is right."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.encoding import Aggregate
from privagg.protocols._common.bill import CountedBytes, compare
from privagg.protocols.lightsecagg.params import Params
from privagg.protocols.lightsecagg.recovery import Blame
from privagg.protocols.secagg.result import Truth
from privagg.trees import Structure

__all__ = ["Result"]


@dataclass(frozen=True, kw_only=True)
class Result(CountedBytes):
    """The outcome of one round.

    Attributes
    ----------
    params : Params
        The round.
    sum, mean : array or tree
        Sum over the survivors, weighted if the round is, and their (weighted) mean; of the shape of
        one client's input, as of :class:`privagg.protocols.secagg.Result`.
    count : int
        Survivors in the sum.
    weight_total : int
        Sum of the weights; equals `count` in an unweighted round.
    survivors : dict of round name to tuple of int
        Who answered each round.
    bytes_up, bytes_down : dict of round name to (clients,) int64 array
        Encoded bytes per client.
    seconds : dict of ``"client"`` or ``"server"`` to dict of round name to float
        CPU seconds; the clients' are added up.
    exact : bool
        Whether the sum equals the plain sum: exactly for integers, within `error_bound` for floats.
    max_error, error_bound : float
        Largest difference of one coordinate to the plain sum, and what rounding can add to it.
    clipped : int
        Coordinates outside the clip, over all survivors: known only because this is a simulation.
    blame : tuple of Blame
        What the round got over, and whose it may be.
    model_bound : bool
        Whether clients answered only for those that were given the same model: where messages are
        signed and a digest was given.
    insecure_seed : bool
        The run was seeded: whoever knows the seed knows every secret.
    """

    params: Params
    sum: Any = field(repr=False)
    mean: Any = field(repr=False)
    count: int
    weight_total: int
    survivors: dict[str, tuple[int, ...]] = field(repr=False)
    bytes_up: dict[str, NDArray[np.int64]] = field(repr=False)
    bytes_down: dict[str, NDArray[np.int64]] = field(repr=False)
    seconds: dict[str, dict[str, float]] = field(repr=False)
    exact: bool
    max_error: float
    error_bound: float
    clipped: int
    blame: tuple[Blame, ...]
    model_bound: bool
    insecure_seed: bool

    @classmethod
    def of(
        cls,
        *,
        params: Params,
        aggregate: Aggregate,
        structure: Structure,
        survivors: dict[str, tuple[int, ...]],
        truth: Truth,
        up: dict[str, NDArray[np.int64]],
        down: dict[str, NDArray[np.int64]],
        seconds: dict[str, dict[str, float]],
        blame: tuple[Blame, ...],
        model_bound: bool,
        insecure_seed: bool,
    ) -> Result:
        """Compare the aggregate with the plain sum and put the pieces together.

        Parameters
        ----------
        params : Params
            The parameters that all parties agreed on.
        aggregate : Aggregate
            What the encoding made of the sum.
        structure : Structure
            How the inputs were nested.
        survivors : dict of str to tuple of int
            Per round, who answered.
        truth : Truth
            The plain sum.
        up : dict of str to (clients,) int64 array
            Bytes that each client sent, by round.
        down : dict of str to (clients,) int64 array
            Bytes that each received.
        seconds : dict
            Seconds by party and round.
        blame : tuple of Blame
            What went wrong, and whose it may be.
        model_bound : bool
            Whether signatures bind the inputs to one model.
        insecure_seed : bool
            Whether a seed made the run repeatable.

        Returns
        -------
        Result
        """
        error, bound, right = compare(params.encoding, aggregate, truth)
        return cls(
            params=params,
            sum=structure.unflatten(aggregate.total, widen=True),
            mean=structure.unflatten(aggregate.mean, widen=True),
            count=aggregate.count,
            weight_total=int(aggregate.weight_total),
            survivors=survivors,
            bytes_up=up,
            bytes_down=down,
            seconds=seconds,
            exact=right,
            max_error=error,
            error_bound=bound,
            clipped=truth.clipped,
            blame=blame,
            model_bound=model_bound,
            insecure_seed=insecure_seed,
        )

    @property
    def expansion(self) -> float:
        """Bytes up and down per client over its vector's as it is."""
        return (self.bytes_up_per_client + self.bytes_down_per_client) / self.params.raw_bytes
