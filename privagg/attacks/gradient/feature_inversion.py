"""From a convolutional network's embeddings back to images: feature inversion.

The inputs of the first linear layer behind convolutions are embeddings; ``ica``, ``relu_exact`` or
``cocktail_party`` recover them. An image is then sought whose embedding points the same way, with
little total variation; with gradient matching, also one whose gradients point the same way as those
that were seen. Kariyappa et al., ICML 2023, section on convolutional networks. Needs ``torch``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.attacks.gradient.recovery import Recovery
from privagg.attacks.gradient.torch_models import require_torch
from privagg.errors import UsageError

__all__ = ["invert_features"]


def invert_features(
    features: Any,
    embeddings: NDArray[np.floating],
    shape: tuple[int, int, int],
    *,
    iterations: int = 1000,
    rate: float = 0.1,
    total_variation: float = 0.1,
    bounds: tuple[float, float] = (0.0, 1.0),
    model: Any = None,
    gradients: Mapping[str, NDArray[np.floating]] | None = None,
    matching: float = 0.0,
    loss: Callable[[Any, Any], Any] | None = None,
    seed: int = 0,
) -> Recovery:
    """Find images with given embeddings.

    Parameters
    ----------
    features : torch.nn.Module
        From images to embeddings, flat; known to the server.
    embeddings : (m, d) float array
        What an attack recovered.
    shape : (channels, height, width)
        Of the images.
    iterations, rate : int, float
        Steps of Adam and its first rate, which falls as a cosine; the paper takes 25,000 and 0.1.
    total_variation : float
        Weight of the images' total variation.
    bounds : (low, high)
        Valid pixels; kept to in every step.
    model : torch.nn.Module, optional
        The whole model, for gradient matching.
    gradients : mapping of str to array, optional
        What the server saw, by the parameters' names, for gradient matching.
    matching : float
        Weight of one minus the cosine of the gradients; 0 is without.
    loss : callable, optional
        Of outputs and soft labels, which are sought too; mean cross-entropy if left out.
    seed : int
        Of the first images.

    Raises
    ------
    UsageError
        If an argument is not as described, or torch is missing.
    """
    torch = require_torch()
    began = time.process_time()
    steps = whole("iterations", iterations, 1, 10**7)
    if matching and (model is None or not gradients):
        raise UsageError("matching", matching, "0 without a model and gradients")
    goal = torch.as_tensor(np.asarray(embeddings, np.float32))
    if goal.ndim != 2 or not bool(torch.isfinite(goal).all()):
        raise UsageError("embeddings", tuple(goal.shape), "finite rows, (m, d)")
    low, high = bounds
    count = len(goal)
    source = torch.Generator().manual_seed(seed)
    images = (torch.rand((count, *shape), generator=source) * (high - low) + low).requires_grad_()
    sought: list[Any] = [images]
    names: list[str] = []
    parameters: list[Any] = []
    if matching:
        known = dict(model.named_parameters())
        names = [name for name in gradients or {} if name in known]
        parameters = [known[name] for name in names]
        with torch.no_grad():
            classes = model(images[:1]).shape[-1]
        guesses = torch.zeros((count, classes)).requires_grad_()
        sought.append(guesses)
    seen = [torch.as_tensor(np.asarray((gradients or {})[name])) for name in names]
    optimiser = torch.optim.Adam(sought, lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    measure = torch.nn.functional.cross_entropy if loss is None else loss
    distance = total = torch.zeros(())
    for _ in range(steps):
        optimiser.zero_grad()
        found = features(images).reshape(count, -1)
        if found.shape != goal.shape:
            raise UsageError("embeddings", tuple(goal.shape), f"as features give: {found.shape}")
        distance = (1 - torch.nn.functional.cosine_similarity(found, goal)).mean()
        variation = images.diff(dim=-1).abs().mean() + images.diff(dim=-2).abs().mean()
        total = distance + total_variation * variation
        if matching:
            value = measure(model(images), torch.softmax(guesses, dim=-1))
            own = torch.autograd.grad(value, parameters, create_graph=True)
            dots = sum((a * b).sum() for a, b in zip(own, seen, strict=True))
            norms = sum((a * a).sum() for a in own) * sum((b * b).sum() for b in seen)
            total = total + matching * (1 - dots / torch.sqrt(norms + 1e-30))
        total.backward(inputs=sought)
        optimiser.step()
        schedule.step()
        with torch.no_grad():
            images.clamp_(low, high)
    return Recovery(
        inputs=images.detach().reshape(count, -1).double().numpy(),
        method="feature_inversion+gm" if matching else "feature_inversion",
        cpu_seconds=time.process_time() - began,
        rank=count,
        batch=count,
        details={"iterations": steps, "embedding_distance": float(distance.detach())},
    )
