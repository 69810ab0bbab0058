"""Attacks on gradients: what comes back, and that nothing false is certified."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import network, photographs, seen

from privagg.attacks.gradient import (
    LayerGradient,
    Objective,
    Observation,
    analytic,
    cocktail_party,
    factorize,
    ica,
    labels,
    quality,
    relu_exact,
)
from privagg.attacks.gradient.factors import weigh_rows
from privagg.attacks.gradient.observation import layer_gradient
from privagg.errors import UsageError

SHAPE = (3, 32, 32)


@pytest.mark.parametrize(
    ("size", "width", "seed"),
    [(8, 256, 0), (16, 256, 1), pytest.param(32, 256, 2, marks=pytest.mark.sweep)],
)
def test_exact_and_verified(size, width, seed):
    images, tags = photographs(size, seed)
    found = relu_exact(seen(network(width, seed), images, tags))
    assert found.verified
    assert found.verification.exact
    assert found.rank == len(found) == size
    assert quality(found.inputs, images).psnr.min() >= 100


@pytest.mark.sweep
def test_exact_beyond_five_neurons_an_input():
    images, tags = photographs(64, 0)
    found = relu_exact(seen(network(256), images, tags))
    assert found.verified
    assert quality(found.inputs, images).psnr.min() >= 100


def test_scale_of_the_loss_does_not_matter():
    images, tags = photographs(8, 3)
    model = network(128)
    found = relu_exact(seen(model, images, tags, scale=-37.0))
    assert found.verified
    assert quality(found.inputs, images).psnr.min() >= 100


def test_separation_needs_no_activation_and_no_oracle():
    images, _ = photographs(32, 0)
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(64, 32))  # Any layer's signals: only their rank matters.
    observation = Observation.from_arrays(columns @ images, columns.sum(1), batch=32)
    found = ica(observation)
    assert not found.verified
    assert found.details["filter"] == "edges"
    assert quality(found.inputs, images).psnr.mean() >= 24


def test_signs_of_the_numbers_are_enough():
    images, tags = photographs(16, 0)
    inputs = (2 * images - 1).astype(np.float32)
    weight, bias, *_ = network(256).gradients(inputs, tags)
    signs = np.sign(weight) * np.abs(weight).mean(axis=1, keepdims=True)
    found = ica(Observation.from_arrays(signs, bias, batch=16))
    assert any("only signs" in note for note in found.diagnosis)
    assert quality((found.inputs + 1) / 2, images).psnr.mean() >= 19.3
    alone = ica(Observation.from_arrays(np.sign(weight), bias, batch=16))
    assert not alone.scaled
    assert any("one size for all" in note for note in alone.diagnosis)
    assert quality(alone.inputs, inputs, scaled=False).cosine.mean() >= 0.9


def test_rows_of_uneven_noise_are_weighted():
    images, _ = photographs(12, 0)
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(96, 12)) * rng.lognormal(0, 2, (96, 1))
    weight = columns @ images
    noise = 0.05 * np.sqrt(np.mean(weight**2, axis=1, keepdims=True))
    layer = layer_gradient(weight + noise * rng.normal(size=weight.shape), columns.sum(1))
    plain = factorize(layer, 12)
    weighted = weigh_rows(layer, plain, 12)

    def outside(rows):
        """Return what a span leaves of the inputs, relative."""
        basis = np.linalg.qr(rows.T)[0]
        return np.linalg.norm(images.T - basis @ (basis.T @ images.T)) / np.linalg.norm(images)

    assert outside(weighted.rows) < 0.7 * outside(plain.rows)
    even = layer_gradient(weight + 0.01 * rng.normal(size=weight.shape), columns.sum(1))
    kept = factorize(even, 12)
    assert weigh_rows(even, kept, 12) is kept


def test_batch_size_is_read_from_the_singular_values():
    images, tags = photographs(12, 0)
    observation = seen(network(128), images, tags)
    unknown = Observation(observation.layers, None)
    found = relu_exact(unknown)
    assert found.rank == 12
    assert found.verified
    assert any("batch size not given" in note for note in found.diagnosis)


# --- False certificates ---------------------------------------------------------------------------


def adversarial(kind, seed):
    rng = np.random.default_rng(seed)
    images, tags = photographs(12, seed)
    if kind == "same label":
        return images, np.full(12, 3)
    if kind == "near duplicates":
        images = images.copy()
        images[6:] = np.clip(images[:6] + rng.normal(0, 0.01, images[:6].shape), 0, 1)
        tags = tags.copy()
        tags[6:] = tags[:6]
        return images.astype(np.float32), tags
    if kind == "nearer duplicates":
        images = images.copy()
        images[11] = images[10] + np.float32(1e-4) * rng.normal(size=3072).astype(np.float32)
        return images, np.full(12, 1)
    if kind == "correlated":
        mean = images.mean(0)
        return (0.1 * images + 0.9 * mean).astype(np.float32), np.full(12, 5)
    if kind == "noise":
        return rng.random((12, 3072)).astype(np.float32), tags
    base = rng.random((4, 3072))
    mixed = rng.dirichlet(np.ones(4), 12) @ base + rng.normal(0, 1e-3, (12, 3072))
    return mixed.astype(np.float32), np.full(12, 2)


@pytest.mark.parametrize("width", [64, 256])
@pytest.mark.parametrize(
    "kind",
    ["same label", "near duplicates", "nearer duplicates", "correlated", "noise", "convex"],
)
def test_nothing_false_is_certified(kind, width):
    for seed in range(2):
        images, tags = adversarial(kind, seed)
        found = relu_exact(seen(network(width, seed), images, tags), budget=0.5)
        if found.verified:
            # Equal to float32's rounding: the error of an input, not of its picture.
            best = quality(found.inputs, images)
            assert best.psnr.min() >= 80, (kind, seed)
        else:
            assert found.diagnosis


@pytest.mark.parametrize("batch", [12, None])
def test_a_proof_says_that_one_input_may_be_several(batch):
    images, tags = adversarial("nearer duplicates", 0)
    observation = seen(network(256), images, tags)
    found = relu_exact(Observation(observation.layers, batch, observation.head))
    assert found.verified
    assert len(found) == 11
    assert any("may be several" in note for note in found.diagnosis)
    whole = relu_exact(seen(network(256), *photographs(12, 0)))
    assert whole.verified
    assert not any("may be several" in note for note in whole.diagnosis)


def fixed_point(observation, bits, rng):
    """Round as an encoding does, stochastically, and say what that changed."""
    layer = observation.layers[0]
    step = 2 * float(max(np.abs(layer.weight).max(), np.abs(layer.bias).max())) / (2**bits - 1)

    def rounded(part):
        return np.floor(part.astype(np.float64) / step + rng.random(part.shape)) * step

    return Observation.from_arrays(
        rounded(layer.weight).astype(np.float32),
        rounded(layer.bias).astype(np.float32),
        batch=observation.batch,
        weights=layer.weights,
        biases=layer.biases,
        floor=step / np.sqrt(6),
    )


@pytest.mark.parametrize(
    ("kind", "certified"),
    [
        ("same label", True),
        ("nearer duplicates", None),
        ("near duplicates", False),
        ("correlated", False),
        ("noise", None),
        ("convex", False),
    ],
)
def test_with_16_bits_nothing_is_certified_beyond_the_rounding(kind, certified):
    images, tags = adversarial(kind, 1)
    model = network(256, 1)
    observation = fixed_point(seen(model, images, tags), 16, np.random.default_rng(1))
    found = relu_exact(observation, budget=1)
    assert certified in (None, found.verified)
    if not found.verified:
        assert found.diagnosis
        return
    true = ((found.inputs[:, None] - images) ** 2).mean(2)
    match = true.argmin(1)
    assert len(set(match)) == len(found)
    # What the rounding leaves of each input to one who knows the columns.
    columns = model.signals(images, tags)[0].T.astype(np.float64)
    if kind == "nearer duplicates":  # Two inputs are one, up to the rounding.
        assert len(found) == 11
        columns = found.columns
        match = np.arange(11)
    least = observation.floor * np.linalg.norm(np.linalg.pinv(columns), axis=1)
    assert (np.sqrt(true.min(1)) <= 4 * least[match]).all()


def test_noise_beyond_the_rounding_is_not_certified_as_rounding():
    images, tags = photographs(12, 0)
    coarse = fixed_point(seen(network(256), images, tags), 9, np.random.default_rng(0))
    assert not relu_exact(coarse, budget=1).verified
    for bad in (-1.0, np.nan, True):
        with pytest.raises(UsageError, match="floor"):
            Observation.from_arrays(np.ones((2, 3)), floor=bad)


def test_a_wrong_pattern_is_not_certified():
    images, tags = photographs(8, 0)
    model = network(128, 0)
    observation = seen(model, images, tags)
    other = network(128, 1)
    layer = observation.layers[0]
    lied = LayerGradient(layer.weight, layer.bias, "linear", other.weights, other.biases)
    found = relu_exact(Observation((lied,), 8), budget=3)
    assert not found.verified
    assert found.diagnosis


def test_smooth_activation_is_not_certified():
    images, _ = photographs(8, 0)
    model = network(128)
    outputs = images @ model.weights.T + model.biases
    rng = np.random.default_rng(0)
    columns = (rng.normal(size=(8, 10)) @ model.head) * (1 - np.tanh(outputs) ** 2)
    observation = Observation.from_arrays(
        columns.T @ images,
        columns.sum(0),
        batch=8,
        weights=model.weights,
        biases=model.biases,
    )
    found = relu_exact(observation, budget=3)
    assert not found.verified
    assert quality(found.inputs, images).psnr.mean() > 20


# --- Bad input: a diagnosis, never silence --------------------------------------------------------


def test_duplicates_lower_the_rank_and_are_said():
    images, tags = photographs(10, 0)
    images = np.concatenate([images, images[:2]])
    tags = np.concatenate([tags, tags[:2]])
    found = relu_exact(seen(network(256), images, tags))
    assert found.rank == 10
    assert any("rank 10 of a batch of 12" in note for note in found.diagnosis)
    assert quality(found.inputs, images).psnr.min() >= 100


def test_batch_beyond_the_width_is_said():
    images, tags = photographs(24, 0)
    found = ica(seen(network(16), images, tags))
    assert any("exceeds" in note for note in found.diagnosis)
    exact = relu_exact(seen(network(16), images, tags))
    assert not exact.verified
    assert any("too few zeros" in note for note in exact.diagnosis)


def test_dead_neurons_do_not_count_as_room():
    images, tags = photographs(60, 0)
    found = relu_exact(seen(network(64), images, tags))
    assert not found.verified
    assert found.details["rounds"] == 0
    assert any("active neurons: too few zeros" in note for note in found.diagnosis)


def test_without_bias():
    images, tags = photographs(8, 0)
    weight, *_ = network(128).gradients(images, tags)
    observation = Observation.from_arrays(weight, batch=8)
    assert any("no bias" in note for note in observation.notes)
    found = ica(observation)
    assert not found.scaled
    assert any("no bias" in note for note in found.diagnosis)
    assert quality(found.inputs, images, scaled=False).cosine.mean() > 0.95
    for attack in (relu_exact, analytic):
        with pytest.raises(UsageError, match="bias"):
            attack(observation)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite(bad):
    weight = np.ones((4, 6))
    weight[1, 2] = bad
    with pytest.raises(UsageError, match="1 of 24 values not finite"):
        Observation.from_arrays(weight)


@pytest.mark.parametrize(
    ("weight", "bias", "more"),
    [
        (np.zeros((4, 6)), None, {}),
        (np.ones((4, 6), np.int64), None, {}),
        (np.ones(6), None, {}),
        (np.ones((4, 6)), np.ones(5), {}),
        (np.ones((4, 6)), None, {"scale": 0.0}),
        (np.ones((4, 6)), None, {"scale": True}),
        (np.ones((4, 6)), None, {"batch": 0}),
        (np.ones((4, 6)), None, {"batch": 2.0}),
        (np.ones((4, 6)), None, {"weights": np.ones((6, 4))}),
        (np.ma.masked_array(np.ones((4, 6))), None, {}),
    ],
)
def test_arrays_that_do_not_fit(weight, bias, more):
    with pytest.raises(UsageError):
        Observation.from_arrays(weight, bias, **more)


def test_arguments_that_do_not_fit():
    images, tags = photographs(4, 0)
    observation = seen(network(32), images, tags)
    for call in (
        lambda: ica(observation, filter="wavelets"),
        lambda: ica(observation, shape=(3, 32, 31)),
        lambda: ica(observation, layer=1),
        lambda: ica(observation, layer="fc9"),
        lambda: relu_exact(observation, budget=0),
        lambda: cocktail_party(observation, iterations=0),
        lambda: cocktail_party(observation, rate=-1.0),
        lambda: Objective(negentropy=-1.0),
        lambda: labels(observation, method="guess"),
        lambda: labels(Observation(observation.layers, None)),
    ):
        with pytest.raises(UsageError):
            call()


def test_noise_hides_components_and_is_said():
    images, tags = photographs(16, 0)
    model = network(256)
    weight, bias, *_ = model.gradients(images, tags)
    rng = np.random.default_rng(0)
    size = np.linalg.norm(weight)
    noisy = weight + rng.normal(0, 0.003 * size, weight.shape).astype(np.float32)
    observation = Observation.from_arrays(
        noisy, bias, batch=16, weights=model.weights, biases=model.biases
    )
    layer = layer_gradient(noisy, bias)
    assert factorize(layer, 16).visible < 16
    found = relu_exact(observation)
    assert not found.verified
    assert any("noise hides" in note for note in found.diagnosis)
    # Differences lose to white noise first.
    more = weight + rng.normal(0, 0.01 * size, weight.shape).astype(np.float32)
    louder = ica(Observation.from_arrays(more, bias, batch=16)).details
    edges = ica(Observation.from_arrays(more, bias, batch=16), filter="edges").details
    assert louder["filter"] == "raw"
    assert louder["snr"] > 2 * edges["snr"]
