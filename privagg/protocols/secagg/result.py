"""What a round gives back: the aggregate, who was in it, what it cost, and whether it is right."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.encoding import Aggregate
from privagg.protocols._common.bill import CountedBytes, compare
from privagg.protocols.secagg import tiles
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.rebuild import Blame
from privagg.trees import Structure

__all__ = ["Result", "Truth"]


class Truth:
    """The plain sum of what the survivors put in: only a simulation can know it.

    Floats are summed after the clip, in float64, so that what is left to compare is the rounding.

    Parameters
    ----------
    params : Params
        The round.
    total : (dim,) array, optional
        Where to add up: a memory map where vectors are too long for memory; it holds zeros.
    """

    def __init__(self, params: Params, total: NDArray[Any] | None = None) -> None:
        self._clip = params.encoding.clip
        ring = params.encoding.kind == "ring"
        self._half = 1 << (params.encoding.value_bits - 1) if ring else 0
        dtype = np.int64 if self._clip is None else np.float64
        self.total: NDArray[Any] = np.zeros(params.dim, dtype) if total is None else total
        self.weight = 0
        self.clipped = 0

    def add(self, vector: NDArray[Any], weight: int, clipped: int) -> None:
        """Add one client's input, as it was sent."""
        for first, end in tiles.spans(len(self.total)):
            part = vector[first:end]
            values = part.astype(self.total.dtype)
            if self._clip is not None:
                np.clip(values, -self._clip, self._clip, out=values)
            self.total[first:end] += values * weight
            tiles.release(part)
            tiles.release(self.total[first:end])
        self.weight += weight
        self.clipped += clipped

    def error(self, total: NDArray[Any]) -> float:
        """Return the largest absolute difference of one coordinate to `total`."""
        most = 0.0
        for first, end in tiles.spans(len(self.total)):
            ours, theirs = self.total[first:end], total[first:end]
            apart = theirs - ours
            if self._half:  # residues: how far apart on the circle
                apart = (apart + self._half) % (2 * self._half) - self._half
            most = max(most, float(np.abs(apart).max()))
            tiles.release(ours)
            tiles.release(theirs)
        return most


@dataclass(frozen=True, kw_only=True)
class Result(CountedBytes):
    """The outcome of one round.

    Attributes
    ----------
    params : Params
        The round.
    sum, mean : array or tree
        Sum over the survivors, weighted if the round is, and their (weighted) mean; of the shape of
        one client's input. Sums of integers are int64, means of integers float64. Arrays of floats
        keep their dtype, and are rounded to it; where a number does not fit it, as the sum of many
        float16 may not, that array is float64.
    count : int
        Survivors in the sum.
    weight_total : int
        Sum of the weights; equals `count` in an unweighted round.
    survivors : dict of round name to tuple of int
        Who answered each round.
    bytes_up, bytes_down : dict of round name to (clients,) int64 array
        Encoded bytes per client.
    bytes_graph_proof : float
        Of the bytes down of a client that stayed to the end, the mean that proves its neighbours to
        be those of the committed graph (semi-malicious).
    seconds : dict of ``"client"`` or ``"server"`` to dict of round name to float
        CPU seconds; the clients' are added up.
    exact : bool
        Whether the sum equals the plain sum: exactly for integers, within `error_bound` for floats.
    max_error : float
        Largest absolute difference of one coordinate of the sum to the plain sum.
    error_bound : float
        What stochastic rounding can add to one coordinate of the sum; 0 for integers.
    clipped : int
        Coordinates outside the clip, over all survivors: known only because this is a simulation.
    blame : tuple of Blame
        Wrong or missing shares that the round got over, and whose they may be.
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
    bytes_graph_proof: float
    seconds: dict[str, dict[str, float]] = field(repr=False)
    exact: bool
    max_error: float
    error_bound: float
    clipped: int
    blame: tuple[Blame, ...]
    insecure_seed: bool

    @classmethod
    def of(
        cls,
        *,
        params: Params,
        aggregate: Aggregate,
        structure: Structure | None,
        survivors: dict[str, tuple[int, ...]],
        truth: Truth,
        up: dict[str, NDArray[np.int64]],
        down: dict[str, NDArray[np.int64]],
        proofs: dict[int, int],
        seconds: dict[str, dict[str, float]],
        blame: tuple[Blame, ...],
        insecure_seed: bool,
    ) -> Result:
        """Compare the aggregate with the plain sum and put the pieces together.

        Parameters
        ----------
        params : Params
            The parameters that all parties agreed on.
        aggregate : Aggregate
            What the encoding made of the sum.
        structure : Structure, optional
            How the inputs were nested.
        survivors : dict of str to tuple of int
            Per round, who answered.
        truth : Truth
            The plain sum.
        up : dict of str to (clients,) int64 array
            Bytes that each client sent, by round.
        down : dict of str to (clients,) int64 array
            Bytes that each received.
        proofs : dict of int to int
            Bytes of the graph's proof, by client.
        seconds : dict
            Seconds by party and round.
        blame : tuple of Blame
            What went wrong, and whose it may be.
        insecure_seed : bool
            Whether a seed made the run repeatable.

        Returns
        -------
        Result
        """
        error, bound, right = compare(params.encoding, aggregate, truth)
        return cls(
            params=params,
            # The round is over: what does not fit a narrow float is not lost, but given in float64.
            sum=_shaped(structure, aggregate.total),
            mean=_shaped(structure, aggregate.mean),
            count=aggregate.count,
            weight_total=int(aggregate.weight_total),
            survivors=survivors,
            bytes_up=up,
            bytes_down=down,
            bytes_graph_proof=(
                sum(proofs.get(client, 0) for client in survivors["unmasking"])
                / len(survivors["unmasking"])
            ),
            seconds=seconds,
            exact=right,
            max_error=error,
            error_bound=bound,
            clipped=truth.clipped,
            blame=blame,
            insecure_seed=insecure_seed,
        )

    @property
    def expansion(self) -> float:
        """Bytes up and down per client, the graph's proof left out, over its vector's as it is."""
        total = self.bytes_up_per_client + self.bytes_down_per_client
        return (total - self.bytes_graph_proof) / self.params.raw_bytes


def _shaped(structure: Structure | None, vector: NDArray[Any]) -> Any:
    """Return a vector in its structure; as it is where there is none."""
    return vector if structure is None else structure.unflatten(vector, widen=True)
