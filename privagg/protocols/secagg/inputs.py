"""What the clients of a simulated round put in, checked and taken one client at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from privagg.errors import UsageError
from privagg.protocols.secagg.arguments import is_sequence
from privagg.protocols.secagg.params import Params
from privagg.trees import Structure

__all__ = ["Inputs"]


class Inputs:
    """The clients' vectors and weights, checked one client at a time."""

    def __init__(
        self,
        params: Params,
        vectors: Sequence[Any] | NDArray[Any],
        weights: Sequence[int] | None,
    ) -> None:
        if not is_sequence(vectors):
            raise UsageError(
                "vectors", type(vectors).__name__, "a sequence with an item per client"
            )
        if len(vectors) != params.clients:
            raise UsageError(
                "vectors", f"{len(vectors)} items", f"one for each of {params.clients} clients"
            )
        if weights is not None and not is_sequence(weights):
            raise UsageError("weights", type(weights).__name__, "a sequence with an int per client")
        if (weights is not None) != params.encoding.weighted:
            raise UsageError(
                "weights",
                "none" if weights is None else f"{len(weights)} weights",
                "weights exactly when the parameters are weighted",
                "Pass weighted=True and max_weight to Params.recommend."
                if weights is not None
                else "",
            )
        if weights is not None and len(weights) != params.clients:
            raise UsageError("weights", f"{len(weights)} weights", f"{params.clients} weights")
        self._params = params
        self._vectors = vectors
        self._weights = weights
        self.structure = Structure.of(vectors[0])
        if self.structure.size != params.dim:
            raise UsageError(
                "vectors", f"{self.structure.size} numbers per client", f"params.dim = {params.dim}"
            )

    def weight(self, client: int) -> int:
        """Return the client's weight; 1 in an unweighted round."""
        return 1 if self._weights is None else self._weights[client]

    def vector(self, client: int) -> NDArray[Any]:
        """Return the client's numbers as one flat array."""
        try:
            return self.structure.flatten(self._vectors[client])
        except UsageError as error:
            raise UsageError(
                f"vectors[{client}] {error.argument}", error.found, error.allowed, error.hint
            ) from None
