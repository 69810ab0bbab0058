"""The mean of several models by a secure aggregation round with all its parties here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.integrations._tensors import Layout, Model, load, model_digest
from privagg.protocols import secagg
from privagg.protocols.secagg.arguments import is_sequence

__all__ = ["SecureMean", "secure_mean"]

_INTEGER_BITS = 32
"""Bits of one integer of a buffer."""


@dataclass(frozen=True, kw_only=True)
class SecureMean:
    """The mean of the survivors' models, and what the round cost.

    Attributes
    ----------
    state : dict of str to Tensor
        The mean, in the dtypes, devices and shapes of the first model.
    kept : tuple of str
        Tensors that were not aggregated, and are not in `state`.
    clip : float
        What numbers were clipped to.
    clip_given : bool
        Whether the caller said it; else it is the largest magnitude in the models, which in a
        deployment nobody may look at.
    result : secagg.Result
        The round: bytes, survivors, seconds, blame.
    integers : secagg.Result, optional
        The round of the integer tensors, where there was one.
    """

    state: dict[str, Tensor] = field(repr=False)
    kept: tuple[str, ...]
    clip: float
    clip_given: bool
    result: secagg.Result = field(repr=False)
    integers: secagg.Result | None = field(default=None, repr=False)

    @property
    def survivors(self) -> tuple[int, ...]:
        """Whose models are in the mean."""
        return self.result.survivors["masked-input"]

    @property
    def rounding_bound(self) -> float:
        """How far rounding can move a number of the mean, before it is cast to its dtype.

        The step of the encoding; clipping comes on top (``result.clipped`` counts it).
        """
        encoding = self.result.params.encoding
        return encoding.rounding_bound(1) / encoding.max_weight

    @property
    def bytes_up_per_client(self) -> float:
        """Mean bytes that a client which stayed sent."""
        return sum(one.bytes_up_per_client for one in self._rounds)

    @property
    def bytes_down_per_client(self) -> float:
        """Mean bytes that a client which stayed received."""
        return sum(one.bytes_down_per_client for one in self._rounds)

    @property
    def _rounds(self) -> tuple[secagg.Result, ...]:
        return (self.result,) if self.integers is None else (self.result, self.integers)

    def load_into(self, model: nn.Module) -> None:
        """Copy the mean into a module; what was kept stays the module's own.

        Parameters
        ----------
        model : module or mapping of tensors
            The model.
        """
        load(model, self.state)


class _Vectors(Sequence[NDArray[Any]]):
    """The models' vectors, each made when it is asked for."""

    def __init__(self, layout: Layout, models: Sequence[Model], base: NDArray[Any] | None) -> None:
        self._layout, self._models, self._base = layout, models, base

    def __len__(self) -> int:
        return len(self._models)

    @overload
    def __getitem__(self, client: int) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, client: slice) -> Sequence[NDArray[Any]]: ...
    def __getitem__(self, client: int | slice) -> NDArray[Any] | Sequence[NDArray[Any]]:
        if isinstance(client, slice):
            return [self[place] for place in range(*client.indices(len(self)))]
        try:
            vector = self._layout.flatten(self._models[client])
        except UsageError as error:
            where = f"models[{client}] {error.argument}"
            raise UsageError(where, error.found, error.allowed, error.hint) from None
        return vector if self._base is None else vector - self._base

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[client] for client in range(len(self)))


def secure_mean(
    models: Sequence[Model],
    *,
    weights: Sequence[int] | None = None,
    max_weight: int | None = None,
    clip: float | None = None,
    value_bits: int = 16,
    base: Model | None = None,
    integers: Literal["mean", "keep", "refuse"] = "mean",
    threat: str = "semi-honest",
    graph: str = "complete",
    corrupt: float = 0.05,
    dropout: float = 0.05,
    dropouts: Mapping[int, str] | None = None,
    seed: int | None = None,
    workers: int = 1,
) -> SecureMean:
    """Return the mean of models, computed by a real secure aggregation round in this process.

    Guarantee: of the round it simulates: the server learns the sum over the survivors, and the sum
    of their weights, under `threat`. Whoever calls this sees every model, as it plays all parties.

    Parameters
    ----------
    models : sequence of n modules or mappings of str to Tensor
        One per client, alike in names, shapes and dtypes; ``tensors(model, ...)`` selects a part,
        LoRA's for example. One is flattened at a time.
    weights : sequence of n ints, optional
        Each client's weight, its number of examples for example: sent under the mask, like the
        numbers.
    max_weight : int, optional
        The largest weight that a client may have; the largest of `weights` if left out.
    clip : float, optional
        Numbers beyond it are clipped (counted in ``result.clipped``); the largest magnitude in the
        models if left out.
    value_bits : int
        Bits of a number: the mean is off by less than ``2 * clip / (2**value_bits - 1)``.
    base : module or mapping, optional
        The shared model that all started from: differences to it are aggregated, which need a
        smaller clip, and masks are bound to its digest.
    integers : {"mean", "keep", "refuse"}
        Integer tensors, such as ``num_batches_tracked``: their sum is exact (a second round, of 32
        bits and signed) and its mean rounded to the nearest integer, halves up; or they are left
        out; or refused. Booleans are left out, or refused.
    threat, graph, corrupt, dropout
        As for :meth:`secagg.Params.recommend`.
    dropouts : mapping of client to round name, optional
        Who leaves before which message.
    seed : int, optional
        Makes the round repeatable and **insecure**.
    workers : int
        As for :func:`secagg.run`.

    Raises
    ------
    UsageError
        If models differ or cannot be aggregated (:meth:`Layout.of`, :meth:`Layout.flatten`), naming
        the model and tensor.
    CapacityError
        If a sum could wrap.
    Abort
        If too few are left.
    """
    if integers not in ("mean", "keep", "refuse"):
        raise UsageError("integers", integers, "'mean', 'keep' or 'refuse'")
    if isinstance(models, nn.Module) or not is_sequence(models) or len(models) < 2:
        raise UsageError("models", type(models).__name__, "a sequence of at least 2 models")
    others: Literal["keep", "refuse"] = "refuse" if integers == "refuse" else "keep"
    layout = Layout.of(models[0], others=others)
    shared = None if base is None else layout.flatten(base)
    vectors = _Vectors(layout, models, shared)
    common: dict[str, Any] = {
        "clients": len(models),
        "threat": threat,
        "graph": graph,
        "corrupt": corrupt,
        "dropout": dropout,
    }
    if weights is not None:
        if not is_sequence(weights) or len(weights) != len(models):
            raise UsageError("weights", type(weights).__name__, f"{len(models)} whole numbers")
        found = [whole(f"weights[{n}]", w, 0, 2**31) for n, w in enumerate(weights)]
        common |= {"weighted": True, "max_weight": max_weight or max(*found, 1)}
    elif max_weight is not None:
        raise UsageError("max_weight", max_weight, "nothing without weights")
    running: dict[str, Any] = {
        "weights": weights,
        "dropouts": dropouts,
        "seed": seed,
        "workers": workers,
        "model": b"" if base is None else model_digest(base),
    }
    bound = clip
    if bound is None:
        bound = max(float(np.abs(vector).max()) for vector in vectors) or 1.0
    params = secagg.Params.recommend(dim=layout.size, value_bits=value_bits, clip=bound, **common)
    result = secagg.run(params, vectors, **running)
    mean = np.asarray(result.mean, np.float64)
    state = layout.unflatten(mean if shared is None else mean + shared)
    kept, exact = layout.kept, None
    if integers == "mean" and any(_is_integer(models[0], name) for name in kept):
        whole_numbers = Layout.of(models[0], kind="integer")
        params = secagg.Params.recommend(
            dim=whole_numbers.size, value_bits=_INTEGER_BITS, signed=True, **common
        )
        exact = secagg.run(params, _Vectors(whole_numbers, models, None), **running)
        count = exact.weight_total
        state |= whole_numbers.unflatten((2 * exact.sum + count) // (2 * count))
        kept = tuple(name for name in kept if name not in state)
    return SecureMean(
        state=state,
        kept=kept,
        clip=float(bound),
        clip_given=clip is not None,
        result=result,
        integers=exact,
    )


def _is_integer(model: Model, name: str) -> bool:
    held = model.state_dict() if isinstance(model, nn.Module) else model
    tensor = held[name]
    return not tensor.is_floating_point() and tensor.dtype != torch.bool
