"""What an attack gives back: one result type for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Recovery", "Verification"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Verification:
    """What speaks for a recovery without knowing the truth.

    Attributes
    ----------
    agreement : (m,) float array
        For each input: share of neurons whose zero in the recovered column of the mixing matrix is
        what the layer's ReLU does on the recovered input.
    unique : (m,) bool array
        Whether the column's zeros leave no other column, with many rows that say so.
    residual : float
        Norm of what the gradient differs from the one re-simulated with the ReLU pattern of the
        recovered inputs, over the gradient's norm; NaN where it was not simulated.
    floor : float
        The residual that the gradient's own noise (rounding, quantisation) explains.
    exact : bool
        All inputs agree, all columns are unique, and the residual is at the floor.
    """

    agreement: Floats
    unique: NDArray[np.bool_]
    residual: float
    floor: float
    exact: bool


@dataclass(frozen=True)
class Recovery:
    """Inputs that an attack read from what the server saw.

    Attributes
    ----------
    inputs : (m, d) float array
        A recovered input a row, in no order. In the inputs' own units where `scaled`.
    method : str
        Which attack.
    verified : bool
        Whether the attack proved, without the truth, that all of `inputs` are exact.
    scaled : bool
        Whether sign and scale come from the bias gradient; without it they are arbitrary.
    cpu_seconds : float
        Of the process.
    rank : int
        Numerical rank of the weight gradient: how many inputs it can show.
    batch : int, optional
        How many inputs are in the gradient, if the server knows.
    diagnosis : tuple of str
        What limited the attack, in words; empty if nothing did.
    verification : Verification, optional
        The evidence, of attacks that look for it.
    columns : (h, m) float array, optional
        Of the mixing matrix: the gradient of the layer's outputs for each input.
    details : dict
        Figures of the attack itself (filter, signal-to-noise ratio, rounds).
    """

    inputs: Floats
    method: str
    verified: bool = False
    scaled: bool = True
    cpu_seconds: float = 0.0
    rank: int = 0
    batch: int | None = None
    diagnosis: tuple[str, ...] = ()
    verification: Verification | None = None
    columns: Floats | None = field(default=None, repr=False)
    details: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.inputs)
