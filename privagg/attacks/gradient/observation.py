"""What the server saw of a linear layer: the gradients of its weight and of its bias.

For a layer ``z = W x + b`` and a batch X of B inputs, a row each,

    dL/dW = A X        dL/db = A 1

where column i of A (h x B) is the gradient of the loss with respect to the layer's outputs for
input i. A local update of several SGD steps has the same form, with other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array, refuse_masked, whole
from privagg.errors import UsageError

__all__ = ["LayerGradient", "Observation", "layer_gradient"]

_MOST = 1 << 30


@dataclass(frozen=True)
class LayerGradient:
    """Gradients of one linear layer, and the weights that the server knows.

    Attributes
    ----------
    weight : (h, d) array of float32 or float64
        Gradient of the weight.
    bias : (h,) array, optional
        Gradient of the bias; None for a layer without one.
    name : str
        The layer.
    weights, biases : (h, d) and (h,) arrays, optional
        The layer's parameters when the gradient was taken.
    """

    weight: NDArray[Any] = field(repr=False)
    bias: NDArray[Any] | None = field(default=None, repr=False)
    name: str = "linear"
    weights: NDArray[Any] | None = field(default=None, repr=False)
    biases: NDArray[Any] | None = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs of the layer."""
        return (int(self.weight.shape[0]), int(self.weight.shape[1]))


def layer_gradient(
    weight: Any,
    bias: Any = None,
    *,
    name: str = "linear",
    weights: Any = None,
    biases: Any = None,
    scale: float = 1.0,
) -> LayerGradient:
    """Check the gradients of a linear layer.

    Parameters
    ----------
    weight : (h, d) array of floats
        Gradient of the weight; a sum, a mean, or a local update's difference of weights.
    bias : (h,) array of floats, optional
        Gradient of the bias.
    name : str
        Shown in reports.
    weights, biases : arrays, optional
        The layer's parameters.
    scale : float
        What both gradients were multiplied by (a loss scale, a learning rate); it cancels in
        everything but re-simulated gradients.

    Returns
    -------
    LayerGradient
        With copies of none of the arrays that are floats already.

    Raises
    ------
    UsageError
        If shapes do not fit, a value is not finite, or a gradient is zero throughout.
    """
    factor = _scale(scale)
    matrix = _floats("weight", weight, 2)
    if not matrix.any():
        raise UsageError(
            "weight",
            "zero throughout",
            "a gradient",
            f"The layer {name} got no gradient: it is frozen, unused, or all its units are dead.",
        )
    h, d = matrix.shape
    vector = None if bias is None else _fits("bias", bias, (h,))
    known = None if weights is None else _fits("weights", weights, (h, d))
    offsets = None if biases is None else _fits("biases", biases, (h,))
    if factor != 1:
        matrix = matrix / factor
        vector = None if vector is None else vector / factor
    return LayerGradient(matrix, vector, name, known, offsets)


def _scale(value: Any) -> float:
    real = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not real or not np.isfinite(value) or value == 0:
        raise UsageError("scale", value, "a finite number other than zero")
    return float(value)


def _floats(name: str, value: Any, dimensions: int) -> NDArray[Any]:
    """Return an array of float32 or float64, all finite."""
    refuse_masked(name, value)
    array = as_array(name, value)
    if array.dtype.kind != "f" or array.ndim != dimensions or not array.size:
        raise UsageError(
            name, f"{array.dtype} of shape {array.shape}", f"floats in {dimensions} dimensions"
        )
    if array.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        array = array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
    bad = int(array.size - np.count_nonzero(np.isfinite(array)))
    if bad:
        raise UsageError(
            name,
            f"{bad} of {array.size} values not finite",
            "finite numbers",
            "The training diverged or a loss overflowed: look at the learning rate.",
        )
    return array


def _fits(name: str, value: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    array = _floats(name, value, len(shape))
    if array.shape != shape:
        raise UsageError(name, array.shape, f"the shape {shape}, as the weight's gradient says")
    return array


@dataclass(frozen=True)
class Observation:
    """What the server saw, and what it knows.

    Attributes
    ----------
    layers : tuple of LayerGradient
        The linear layers with a gradient, in the model's order.
    batch : int, optional
        How many inputs the gradient is of, over all clients of a sum.
    head : LayerGradient, optional
        The linear layer that gives the logits, if there is one.
    notes : tuple of str
        What a reader must know: layers that were left out, modes that change the gradient.
    floor : float
        Standard deviation of what a known encoding's rounding changed in an entry of the gradients:
        nothing is exact beyond it. Zero if there was none, or it is not known.
    """

    layers: tuple[LayerGradient, ...]
    batch: int | None = None
    head: LayerGradient | None = None
    notes: tuple[str, ...] = ()
    floor: float = 0.0

    @classmethod
    def from_arrays(
        cls,
        weight: Any,
        bias: Any = None,
        *,
        batch: int | None = None,
        weights: Any = None,
        biases: Any = None,
        scale: float = 1.0,
        name: str = "linear",
        floor: float = 0.0,
    ) -> Observation:
        """Build from the gradients of one layer.

        Parameters
        ----------
        weight, bias, weights, biases, scale, name
            Checked as in :func:`layer_gradient`: float arrays of shapes (h, d) and (h,).
        batch : int, optional
            How many inputs are in them, if the server knows.
        floor : float
            Standard deviation of a known encoding's rounding in an entry.
        """
        layer = layer_gradient(weight, bias, name=name, weights=weights, biases=biases, scale=scale)
        notes = () if bias is not None else (_no_bias(name),)
        return cls((layer,), _batch(batch), None, notes, _floor(floor, scale))

    @classmethod
    def from_module(
        cls,
        module: Any,
        gradients: Any,
        *,
        batch: int | None = None,
        scale: float = 1.0,
        floor: float = 0.0,
    ) -> Observation:
        """Build from a ``torch.nn.Module`` and the gradients of its parameters.

        Parameters
        ----------
        module : torch.nn.Module
            The model as it was when the gradients were taken: the server knows it.
        gradients : sequence or mapping of tensors or arrays
            In the order of ``module.parameters()``, or by the parameters' names; None for a
            parameter without one.
        batch : int, optional
            How many inputs they are of.
        scale : float
            What they were multiplied by.
        floor : float
            As in :class:`Observation`, of the gradients as they are given.

        Raises
        ------
        UsageError
            If the module has no linear layer with a gradient, the gradients do not fit its
            parameters, or one is not finite.
        """
        from privagg.attacks.gradient.torch_models import linear_layers

        found, head, notes = linear_layers(module, gradients, scale)
        return cls(tuple(found), _batch(batch), head, tuple(notes), _floor(floor, scale))

    @classmethod
    def from_batch(
        cls,
        module: Any,
        inputs: Any,
        labels: Any,
        *,
        loss: Callable[[Any, Any], Any] | None = None,
        scale: float = 1.0,
    ) -> Observation:
        """Take the gradients of a batch oneself, as a client would, and keep only what is sent.

        Parameters
        ----------
        module : torch.nn.Module
            The model, in the mode (train or eval) in which clients run it.
        inputs : (B, ...) array or tensor
            The batch.
        labels : (B,) array or tensor
            Its labels.
        loss : callable, optional
            Of outputs and labels; mean cross-entropy if left out.
        scale : float
            What the gradients are multiplied by, unknown to the server.

        Returns
        -------
        Observation
            With the size of the batch.
        """
        from privagg.attacks.gradient.torch_models import gradients_of

        taken = gradients_of(module, inputs, labels, loss, scale)
        return cls.from_module(module, taken, batch=len(inputs))

    def layer(self, which: int | str = 0) -> LayerGradient:
        """Return a layer by its place or name, `which`.

        Raises
        ------
        UsageError
            If there is none such.
        """
        names = [layer.name for layer in self.layers]
        if isinstance(which, str):
            if which not in names:
                raise UsageError("layer", which, " or ".join(names))
            return self.layers[names.index(which)]
        return self.layers[whole("layer", which, 0, len(names) - 1)]


def _batch(value: int | None) -> int | None:
    return None if value is None else whole("batch", value, 1, _MOST)


def _floor(value: Any, scale: float) -> float:
    real = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not real or not 0 <= value < np.inf:
        raise UsageError("floor", value, "a finite number, at least 0")
    return float(value) / abs(scale)


def _no_bias(name: str) -> str:
    return (
        f"The layer {name} has no bias gradient: signs and scales of what is recovered are "
        "arbitrary, and recovery of ReLU patterns is not possible."
    )


def missing_bias(layers: Sequence[LayerGradient]) -> list[str]:
    """Return a note for each layer without a bias gradient."""
    return [_no_bias(layer.name) for layer in layers if layer.bias is None]
