"""What the clients of a simulated round put in, checked and taken one client at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import refuse_masked
from privagg.errors import UsageError
from privagg.protocols.secagg.arguments import is_sequence
from privagg.protocols.secagg.params import Params
from privagg.trees import Structure

__all__ = ["Inputs", "LongInputs"]


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
        self._take_structure()

    def _take_structure(self) -> None:
        """Let the first client's item say what all have."""
        structure = Structure.of(self._vectors[0])
        if structure.size != self._params.dim:
            raise UsageError(
                "vectors",
                f"{structure.size} numbers per client",
                f"params.dim = {self._params.dim}",
            )
        self._structure = structure

    @property
    def structure(self) -> Structure | None:
        """The names, shapes and dtypes of a client's item; None where it is one long vector."""
        return self._structure

    def weight(self, client: int) -> int:
        """Return the client's weight; 1 in an unweighted round."""
        return 1 if self._weights is None else self._weights[client]

    def vector(self, client: int) -> NDArray[Any]:
        """Return the client's numbers as one flat array."""
        try:
            return self._structure.flatten(self._vectors[client])
        except UsageError as error:
            raise UsageError(
                f"vectors[{client}] {error.argument}", error.found, error.allowed, error.hint
            ) from None


class LongInputs(Inputs):
    """Flat vectors that are taken as they are, without a copy: memory maps, most likely."""

    def _take_structure(self) -> None:
        """Look at no item: the first is no smaller than the others."""

    @property
    def structure(self) -> Structure | None:
        """None: the sum is a flat vector, too."""
        return None

    def vector(self, client: int) -> NDArray[Any]:
        """Return the client's vector itself."""
        vector: NDArray[Any] = self._vectors[client]
        where = f"vectors[{client}]"
        refuse_masked(where, vector)
        if not isinstance(vector, np.ndarray):
            raise UsageError(where, type(vector).__name__, f"a ({self._params.dim},) array")
        if vector.shape != (self._params.dim,):
            raise UsageError(where, f"shape {vector.shape}", f"a ({self._params.dim},) array")
        if vector.dtype.kind not in "iuf" or vector.dtype.itemsize > 8:
            allowed = "integers or floats of at most 64 bits"
            raise UsageError(where, f"dtype {vector.dtype}", allowed)
        return vector
