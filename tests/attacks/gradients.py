"""Gradients for the tests of attacks on them: small, repeatable, in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from privagg.attacks.gradient import LayerGradient, Observation
from privagg.bench import attack_inputs
from privagg.errors import UsageError


def photographs(size: int, seed: int = 0):
    """Return a batch of images and labels, or skip where no package brings photographs."""
    try:
        return attack_inputs.batch(size, seed)
    except UsageError as error:
        pytest.skip(str(error))


def network(width: int, seed: int = 0, inputs: int = 3072, classes: int = 10):
    return attack_inputs.TwoLayers.drawn(inputs, width, classes, seed)


def seen(model, images, labels, *, batch=None, scale=1.0, head=True):
    """Return what the server sees of a batch."""
    weight, bias, head_weight, head_bias = model.gradients(images, labels)
    first = Observation.from_arrays(
        weight * np.float32(scale),
        bias * np.float32(scale),
        batch=len(images) if batch is None else batch,
        weights=model.weights,
        biases=model.biases,
    )
    last = LayerGradient(head_weight, head_bias, "head", model.head, model.head_biases)
    return Observation(first.layers, first.batch, last if head else None)
