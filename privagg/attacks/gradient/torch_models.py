"""What a ``torch.nn.Module`` and its gradients show: its linear layers.

Needs the extra ``torch``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.observation import LayerGradient, layer_gradient, missing_bias
from privagg.errors import UsageError

__all__ = ["embedding", "gradients_of", "linear_layers", "require_torch"]


def require_torch() -> Any:
    """Return torch.

    Raises
    ------
    UsageError
        If it is not installed, naming the extra.
    """
    if importlib.util.find_spec("torch") is None:
        raise UsageError(
            "torch",
            "not installed",
            "the optional package that runs models",
            "Install it: pip install 'privagg[torch]'. Attacks on arrays of gradients need none.",
        )
    import torch

    return torch


def gradients_of(
    module: Any,
    inputs: Any,
    labels: Any,
    loss: Callable[[Any, Any], Any] | None = None,
    scale: float = 1.0,
) -> dict[str, NDArray[Any] | None]:
    """Return the gradients of a loss on a batch, by the names of the module's parameters.

    Parameters
    ----------
    module : torch.nn.Module
        The model; its parameters and mode are left as they are.
    inputs, labels : arrays or tensors
        The batch.
    loss : callable, optional
        Of outputs and labels; mean cross-entropy if left out.
    scale : float
        What the loss is multiplied by.

    Raises
    ------
    UsageError
        If the loss is not finite, or the batch does not fit the model.
    """
    torch = require_torch()
    named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    if not named:
        raise UsageError("module", "no parameter that is trained", "a model with parameters")
    x, y = torch.as_tensor(inputs), torch.as_tensor(labels)
    measure = torch.nn.functional.cross_entropy if loss is None else loss
    try:
        value = measure(module(x), y) * scale
        taken = torch.autograd.grad(value, [p for _, p in named], allow_unused=True)
    except (RuntimeError, ValueError, IndexError) as error:
        raise UsageError(
            "inputs", tuple(x.shape), "a batch that the model and the loss take", str(error)[:200]
        ) from error
    if not bool(torch.isfinite(value).all()):
        raise UsageError("loss", "not finite", "a finite loss", "Look at inputs and labels.")
    return {
        name: None if gradient is None else gradient.detach().cpu().numpy()
        for (name, _), gradient in zip(named, taken, strict=True)
    }


def _named(module: Any, gradients: Any) -> dict[str, NDArray[Any]]:
    """Return arrays by parameter names."""
    names = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    if isinstance(gradients, Mapping):
        unknown = sorted(str(name) for name in set(gradients) - set(names))
        if unknown:
            raise UsageError("gradients", unknown[0], "names of the module's parameters")
        pairs = list(gradients.items())
    else:
        if isinstance(gradients, str | bytes) or not isinstance(gradients, Sequence):
            raise UsageError("gradients", type(gradients).__name__, "a sequence or a mapping")
        if len(gradients) != len(names):
            raise UsageError(
                "gradients", len(gradients), f"one for each of the {len(names)} parameters"
            )
        pairs = list(zip(names, gradients, strict=True))
    return {name: _array(value) for name, value in pairs if value is not None}


def _array(value: Any) -> NDArray[Any]:
    detach = getattr(value, "detach", None)
    return np.asarray(value if detach is None else detach().cpu().numpy())


def linear_layers(
    module: Any, gradients: Any, scale: float = 1.0
) -> tuple[list[LayerGradient], LayerGradient | None, list[str]]:
    """Return the linear layers with a gradient, the last one, and what limits an attack.

    Raises
    ------
    UsageError
        If there is none, or a gradient does not fit.
    """
    torch = require_torch()
    if not isinstance(module, torch.nn.Module):
        raise UsageError("module", type(module).__name__, "a torch.nn.Module")
    arrays = _named(module, gradients)
    notes: list[str] = []
    found: list[LayerGradient] = []
    frozen = []
    for name, part in module.named_modules():
        label = name or "model"
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.training:
            notes.append(
                f"{label} is BatchNorm in train mode: each output depends on the whole batch, so "
                "layers behind it are attacked through mixed inputs, and those in front of it have "
                "columns without exact zeros."
            )
        if not isinstance(part, torch.nn.Linear):
            continue
        prefix = f"{name}." if name else ""
        gradient = arrays.get(prefix + "weight")
        if gradient is None or not np.any(gradient):
            frozen.append(label)
            continue
        bias = None if part.bias is None else arrays.get(prefix + "bias")
        found.append(
            layer_gradient(
                gradient,
                bias,
                name=label,
                weights=_array(part.weight),
                biases=None if part.bias is None else _array(part.bias),
                scale=scale,
            )
        )
    if frozen:
        notes.append(f"No gradient, so not attacked: {', '.join(frozen)}.")
    if not found:
        kinds = sorted({type(part).__name__ for part in module.modules() if part is not module})
        raise UsageError(
            "module",
            f"no linear layer with a gradient among {', '.join(kinds) or 'its parts'}",
            "a model with a torch.nn.Linear that is trained",
            "Separation reads inputs of linear layers; convolutions alone need gradient matching.",
        )
    notes += missing_bias(found)
    head = found[-1] if len(found) > 1 else None
    return found, head, notes


class _Reached(Exception):
    """The layer was reached: what lies behind it need not run."""


def embedding(module: Any, layer: str) -> Callable[[Any], Any]:
    """Return the part of a model in front of a linear layer, as a function of the model's inputs.

    Parameters
    ----------
    module : torch.nn.Module
        Run up to the layer at every call, in its mode.
    layer : str
        The layer's name; a layer that is run several times is taken at its first run.

    Returns
    -------
    callable
        From inputs to what the layer gets, with its graph.

    Raises
    ------
    UsageError
        When called, if the model does not run the layer.
    """
    part = dict(module.named_modules())["" if layer == "model" else layer]

    def features(inputs: Any) -> Any:
        reached: list[Any] = []

        def stop(_module: Any, given: tuple[Any, ...]) -> None:
            reached.append(given[0])
            raise _Reached

        handle = part.register_forward_pre_hook(stop)
        try:
            module(inputs)
        except _Reached:
            return reached[0]
        finally:
            handle.remove()
        raise UsageError("layer", layer, "a layer that the model runs")

    return features
