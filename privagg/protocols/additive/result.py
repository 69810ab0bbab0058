"""What a run ends with."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Result"]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run ended with.

    Attributes
    ----------
    sum : (dim,) uint64 array
        Over the clients in the cohort.
    cohort : tuple of int
        Who is in it.
    sent : dict of str to int
        Bytes that all parties of a role have sent.
    insecure : bool
        Whether the run was seeded.
    """

    sum: NDArray[np.uint64] = field(repr=False)
    cohort: tuple[int, ...]
    sent: dict[str, int]
    insecure: bool
