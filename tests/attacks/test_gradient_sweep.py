"""What moves the result: widths and batches, compression, noise, local steps, large inputs."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import network, photographs, seen

from privagg.attacks.gradient import Observation, factorize, ica, quality, relu_exact
from privagg.bench import attack_inputs

pytestmark = pytest.mark.sweep


@pytest.mark.parametrize(("size", "width"), [(16, 256), (32, 256), (48, 256), (64, 256), (64, 512)])
@pytest.mark.parametrize("seed", range(5))
def test_exact(size, width, seed):
    images, tags = photographs(size, seed)
    found = relu_exact(seen(network(width, seed), images, tags))
    assert found.verified
    assert quality(found.inputs, images).psnr.min() >= 100


def normalised(images):
    """Pixels from -1 to 1, as networks are trained on: what the figures below are for."""
    return (2 * images - 1).astype(np.float32)


def decibels(found, images):
    """Mean absolute PSNR in units of pixels from 0 to 1."""
    return quality((found.inputs + 1) / 2, images).psnr.mean()


def compressed(gradient, kind, rng):
    """Return the gradient as a client sends it, with one scale a neuron."""
    if kind == "fp16":
        return gradient.astype(np.float16).astype(np.float32)
    if kind == "sign":
        return np.sign(gradient) * np.abs(gradient).mean(axis=-1, keepdims=True)
    if kind.startswith("top"):
        share = int(kind.removeprefix("top")) / 100
        least = np.quantile(np.abs(gradient), 1 - share)
        return np.where(np.abs(gradient) >= least, gradient, 0)
    bits = int(kind.removeprefix("int"))
    step = np.abs(gradient).max(axis=-1, keepdims=True) / (2 ** (bits - 1) - 1)
    units = gradient / np.maximum(step, 1e-30)
    return (np.floor(units + rng.random(gradient.shape)) * step).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "least"),
    [
        ("fp16", 26.7),
        ("int16", 26.7),
        ("int8", 26.7),
        ("int4", 25.1),
        ("sign", 19.3),
        ("top50", 25.5),
    ],
)
def test_compression_does_not_hide(kind, least):
    images, tags = photographs(16, 0)
    weight, bias, *_ = network(256).gradients(normalised(images), tags)
    sent = compressed(weight, kind, np.random.default_rng(0))
    assert decibels(ica(Observation.from_arrays(sent, bias, batch=16)), images) >= least


@pytest.mark.parametrize("kind", ["top10", "top1"])
def test_few_of_the_numbers_hide(kind):
    images, tags = photographs(16, 0)
    weight, bias, *_ = network(256).gradients(normalised(images), tags)
    sent = compressed(weight, kind, np.random.default_rng(0))
    assert decibels(ica(Observation.from_arrays(sent, bias, batch=16)), images) < 13


@pytest.mark.parametrize(
    ("size", "sigma", "low", "high"),
    [
        (8, 0, 0.997, 1),
        (8, 1e-4, 0.997, 1),
        (8, 1e-3, 0.993, 1),
        (8, 3e-3, 0.889, 1),
        (8, 1e-2, 0.351, 0.7),
        (8, 0.1, 0, 0.1),
        (32, 1e-3, 0.975, 1),
        (32, 3e-3, 0.838, 1),
        (32, 0.1, 0, 0.1),
    ],
)
def test_noise_hides(size, sigma, low, high):
    """Noise is sigma times the clip on the sum of clipped gradients, as in DP-SGD: three draws."""
    images, tags = photographs(size, 0)
    inputs, model = normalised(images), network(256)
    columns, errors, hidden = model.signals(inputs, tags)
    columns, errors = size * columns, size * errors
    squares = (columns**2).sum(1) * (1 + (inputs**2).sum(1))
    squares += (errors**2).sum(1) * (1 + (hidden**2).sum(1))
    clipped = columns / np.maximum(1, np.sqrt(squares))[:, None]
    cosines = []
    for draw in range(3):
        rng = np.random.default_rng(draw)
        weight = clipped.T @ inputs + rng.normal(0, sigma, (256, 3072))
        bias = clipped.sum(0) + rng.normal(0, sigma, 256)
        observation = Observation.from_arrays(weight, bias, batch=size)
        found = quality(ica(observation).inputs, inputs, scaled=False)
        cosines.append(found.cosine.sum() / size)
        if sigma == 0.1:
            assert factorize(observation.layers[0], size).visible <= 2
    assert low <= np.mean(cosines) <= high


def local_update(images, tags, epochs, local, rate):
    """Return what the server sees of local SGD: weights before less weights after."""
    model, start = network(256), network(256)
    for _ in range(epochs):
        for at in range(0, len(images), local):
            steps = model.gradients(images[at : at + local], tags[at : at + local])
            parts = (model.weights, model.biases, model.head, model.head_biases)
            for part, gradient in zip(parts, steps, strict=True):
                part -= np.float32(rate) * gradient
    return Observation.from_arrays(
        start.weights - model.weights,
        start.biases - model.biases,
        batch=len(images),
        weights=start.weights,
        biases=start.biases,
    )


@pytest.mark.parametrize(("size", "least"), [(16, 27.6), (32, 26.2)])
def test_local_steps_do_not_hide(size, least):
    images, tags = photographs(size, 0)
    found = ica(local_update(images, tags, 5, 4, 0.01))
    assert quality(found.inputs, images).psnr.mean() >= least


def test_one_local_step_is_a_gradient():
    images, tags = photographs(16, 0)
    found = relu_exact(local_update(images, tags, 1, 16, 0.01))
    assert found.verified
    assert quality(found.inputs, images).psnr.min() >= 70


def test_small_local_steps_leave_exact_zeros_and_no_proof():
    images, tags = photographs(16, 0)
    found = relu_exact(local_update(images, tags, 5, 4, 0.001), budget=5)
    assert not found.verified
    assert any("do not fit the ReLU pattern" in note for note in found.diagnosis)
    assert quality(found.inputs, images).psnr.mean() >= 100


@pytest.mark.xfail(strict=True, reason="a quarter of the ReLU patterns change in the 20 steps")
def test_several_local_steps_leave_exact_zeros():
    images, tags = photographs(16, 0)
    found = relu_exact(local_update(images, tags, 5, 4, 0.01), budget=5)
    assert quality(found.inputs, images).psnr.mean() >= 136


def test_large_images_in_bounded_memory():
    images = attack_inputs.large(24)
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(64, 24)).astype(np.float32)
    observation = Observation.from_arrays(columns @ images, columns.sum(1), batch=24)
    assert quality(ica(observation).inputs, images).psnr.mean() >= 20


def test_batch_of_a_thousand():
    images, tags = photographs(1024, 0)
    found = ica(seen(network(1100), images, tags))
    assert len(found) == found.details.get("kept", len(found))
    assert np.isfinite(found.inputs).all()
