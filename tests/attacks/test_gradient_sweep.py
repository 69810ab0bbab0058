"""What moves the result: widths and batches, compression, noise, local steps, large inputs."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import network, photographs, seen

from privagg.attacks.gradient import Observation, factorize, ica, quality, relu_exact

pytestmark = pytest.mark.sweep


@pytest.mark.parametrize(("size", "width"), [(16, 256), (32, 256), (48, 256), (64, 256), (64, 512)])
@pytest.mark.parametrize("seed", range(5))
def test_exact(size, width, seed):
    images, tags = photographs(size, seed)
    found = relu_exact(seen(network(width, seed), images, tags))
    assert found.verified
    assert quality(found.inputs, images).psnr.min() >= 100


def compressed(gradient, kind, rng):
    if kind == "sign":
        # One scale a neuron, as quantisers have.
        return np.sign(gradient) * np.abs(gradient).mean(axis=-1, keepdims=True)
    if kind == "fp16":
        return gradient.astype(np.float16).astype(np.float32)
    bits = int(kind.removeprefix("int"))
    step = np.abs(gradient).max(axis=-1, keepdims=True) / (2 ** (bits - 1) - 1)
    return (
        np.floor(gradient / np.maximum(step, 1e-30) + rng.random(gradient.shape)) * step
    ).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "least"), [("fp16", 24), ("int16", 24), ("int8", 24), ("int4", 17), ("sign", 11)]
)
def test_compression_does_not_hide(kind, least):
    rng = np.random.default_rng(0)
    images, tags = photographs(16, 0)
    weight, bias, *_ = network(256).gradients(images, tags)
    observation = Observation.from_arrays(compressed(weight, kind, rng), bias, batch=16)
    assert quality(ica(observation).inputs, images).psnr.mean() >= least


@pytest.mark.parametrize(("sigma", "low", "high"), [(1e-4, 0.95, 1), (1e-3, 0.7, 1), (0.1, 0, 0.2)])
def test_noise_hides(sigma, low, high):
    """Noise is sigma times the clip on the sum of clipped gradients, as in DP-SGD."""
    rng = np.random.default_rng(0)
    images, tags = photographs(8, 0)
    model = network(256)
    columns, errors, hidden = (8 * part for part in model.signals(images, tags))
    squares = (columns**2).sum(1) * (1 + (images**2).sum(1))
    squares += (errors**2).sum(1) * (1 + (hidden**2).sum(1))
    clipped = columns / np.maximum(1, np.sqrt(squares))[:, None]
    weight = clipped.T @ images + rng.normal(0, sigma, (256, 3072))
    bias = clipped.sum(0) + rng.normal(0, sigma, 256)
    observation = Observation.from_arrays(weight, bias, batch=8)
    found = quality(ica(observation).inputs, images, scaled=False).cosine.sum() / 8
    assert low <= found <= high
    if sigma == 0.1:
        assert factorize(observation.layers[0], 8).visible <= 2


def test_local_steps_do_not_hide():
    images, tags = photographs(16, 0)
    model = network(256)
    start = [model.weights.copy(), model.biases.copy()]
    for _ in range(5):
        for at in range(0, 16, 4):
            steps = model.gradients(images[at : at + 4], tags[at : at + 4])
            parts = (model.weights, model.biases, model.head, model.head_biases)
            for part, gradient in zip(parts, steps, strict=True):
                part -= np.float32(0.01) * gradient
    observation = Observation.from_arrays(
        start[0] - model.weights, start[1] - model.biases, batch=16
    )
    assert quality(ica(observation).inputs, images).psnr.mean() >= 24


def test_large_images_in_bounded_memory():
    rng = np.random.default_rng(0)
    images, _ = photographs(24, 0)
    large = np.repeat(np.repeat(images.reshape(-1, 3, 32, 32), 7, 2), 7, 3).reshape(24, -1)
    large += rng.normal(0, 0.02, large.shape).astype(np.float32)
    columns = rng.normal(size=(64, 24)).astype(np.float32)
    observation = Observation.from_arrays(columns @ large, columns.sum(1), batch=24)
    assert quality(ica(observation).inputs, large).psnr.mean() >= 20


def test_batch_of_a_thousand():
    images, tags = photographs(1024, 0)
    found = ica(seen(network(1100), images, tags))
    assert len(found) == found.details.get("kept", len(found))
    assert np.isfinite(found.inputs).all()
