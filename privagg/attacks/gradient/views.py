"""What the server sees, as data: gradients of a sum, and what was done to them on the way.

A *view* is a callable from the clients' batches to a :class:`Seen`. Any will do: one that replays a
log, one that talks to a deployment. :mod:`privagg.integrations.gradient_views` makes views that run
the real thing: secure aggregation rounds, DP-SGD by Opacus, local SGD, compression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.errors import UsageError

__all__ = ["Batch", "Noise", "Seen", "View"]


@dataclass(frozen=True)
class Batch:
    """One client's examples.

    Attributes
    ----------
    inputs : (b, ...) float array
        As the model takes them.
    labels : (b,) array
        As the loss takes them.

    Raises
    ------
    UsageError
        If there is no example, or not a label for each.
    """

    inputs: NDArray[Any] = field(repr=False)
    labels: NDArray[Any] = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels) or not len(self.inputs):
            raise UsageError(
                "batch",
                f"{len(self.inputs)} inputs and {len(self.labels)} labels",
                "a label for each of at least one input",
            )

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Noise of DP-SGD, as an accountant needs it.

    Attributes
    ----------
    multiplier : float
        Standard deviation of the noise on the **sum** of clipped gradients of single examples, over
        `clip` (Opacus' convention). One client's own: what the others add helps only if they are
        honest, and is in `deviation` alone.
    clip : float
        Bound of the L2 norm of each example's gradient.
    steps : int
        Releases of such a sum in what the server sees: one for a gradient.
    deviation : float
        Standard deviation of an entry of the gradients as the server sees them.
    """

    multiplier: float
    clip: float
    steps: int = 1
    deviation: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the server saw.

    Attributes
    ----------
    gradients : mapping of str to array
        By the names of the model's parameters: a mean over all examples, or a local update over
        the learning rate.
    batch : int
        How many examples are in it, over all clients: the server knows cohort and batch size.
    clients : int
        How many clients are in the sum.
    floor : float
        Root mean square of what rounding changed in an entry: fixed point, or compression. What is
        called exact is exact up to this.
    rounding : float
        The part of it that is a known encoding's, the same in every entry: fixed point.
    noise : Noise, optional
        If noise was added for privacy.
    ledger : tuple of (str, str)
        Who sees what: a line each, for the report.
    single : bool
        Whether the server sees each client's gradient, and not only the sum.

    Raises
    ------
    UsageError
        If a number is out of its range.
    """

    gradients: Mapping[str, NDArray[Any]] = field(repr=False)
    batch: int
    clients: int = 1
    floor: float = 0.0
    rounding: float = 0.0
    noise: Noise | None = None
    ledger: tuple[tuple[str, str], ...] = ()
    single: bool = False

    def __post_init__(self) -> None:
        whole("batch", self.batch, 1, 1 << 30)
        whole("clients", self.clients, 1, 1 << 30)
        for name, gradient in self.gradients.items():
            values = np.asarray(gradient)
            bad = int(values.size - np.count_nonzero(np.isfinite(values)))
            if bad:
                raise UsageError(
                    f"gradients[{name!r}]",
                    f"{bad} of {values.size} values not finite",
                    "finite numbers",
                    "The training diverged or a loss overflowed: look at the learning rate and at "
                    "the inputs' scale.",
                )


View: TypeAlias = Callable[[Sequence[Batch]], Seen]
"""From the batches of the clients to what the server sees."""
