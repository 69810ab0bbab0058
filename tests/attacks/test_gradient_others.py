"""Attacks on gradients beside the exact one: by division, the published one, labels."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import network, photographs, seen

from privagg.attacks.gradient import (
    IMAGES,
    PUBLISHED,
    LayerGradient,
    Objective,
    Observation,
    analytic,
    cocktail_party,
    ica,
    labels,
    quality,
)
from privagg.attacks.gradient.cocktail_party import EMBEDDINGS, value_and_gradient
from privagg.attacks.gradient.contrast import student_score, student_score_plain

SHAPE = (3, 32, 32)


def test_one_input_by_division():
    images, tags = photographs(1, 0)
    found = analytic(seen(network(64), images, tags))
    assert found.verified
    assert quality(found.inputs, images).psnr.min() > 120
    two = photographs(2, 0)
    mixed = seen(network(64), *two, batch=1)
    several = analytic(mixed)
    assert not several.verified
    assert any("more than one input" in note for note in several.diagnosis)


def test_neurons_of_one_input_each():
    rng = np.random.default_rng(0)
    inputs = rng.random((3, 20))
    columns = np.zeros((9, 3))
    columns[:4, 0], columns[4:7, 1], columns[7:, 2] = 1.5, [2, 3, -1], [1, 0.5]
    alone = analytic(Observation.from_arrays(columns @ inputs, columns.sum(1), batch=3))
    assert alone.verified
    assert quality(alone.inputs, inputs).psnr.min() > 120
    columns[:2, 1] = 0.3
    some = analytic(Observation.from_arrays(columns @ inputs, columns.sum(1), batch=3))
    assert not some.verified
    assert some.diagnosis


def test_a_mean_is_not_certified_as_an_input():
    images, _ = photographs(5, 0)
    columns = np.outer([1.0, 2.0, -1.0, 0.5], np.ones(5))  # Every neuron weights all alike.
    found = analytic(Observation.from_arrays(columns @ images, columns.sum(1), batch=5))
    assert not found.verified


@pytest.mark.parametrize(("size", "classes"), [(4, 10), (32, 10), (48, 5)])
def test_labels_are_counted(size, classes):
    images, tags = photographs(size, 1)
    tags = tags % classes
    observation = seen(network(256, classes=classes), images, tags)
    found = labels(observation)
    assert found.counts.sum() == size
    assert found.correct(tags) >= 0.9
    assert not found.present[np.bincount(tags, minlength=classes) == 0].all() or size > classes
    simple = labels(observation, method="llg")
    assert simple.counts.sum() == size
    assert (np.bincount(tags, minlength=classes)[simple.present] > 0).all()


def test_labels_of_another_loss_are_doubted():
    images, tags = photographs(16, 0)
    observation = seen(network(128), images, tags)
    head = observation.head
    scaled = LayerGradient(head.weight * 16, head.bias * 16, "head", head.weights, head.biases)
    assert labels(Observation((), 16, scaled)).diagnosis
    ramp = LayerGradient(head.weight, np.abs(head.bias), "head", head.weights, head.biases)
    assert any("cross-entropy" in note for note in labels(Observation((), 16, ramp)).diagnosis)


def test_counts_that_are_not_whole_are_doubted():
    doubted = 0
    for seed in range(4):
        images, tags = photographs(48, seed)
        found = labels(seen(network(64, seed), images, tags))
        off = float(np.abs(found.raw - np.round(found.raw)).max())
        assert any("counts are not whole" in note for note in found.diagnosis) == (off > 0.35)
        doubted += bool(found.diagnosis)
    assert doubted


@pytest.mark.parametrize("terms", [IMAGES, PUBLISHED, EMBEDDINGS, Objective(1, 1, 1, 2, 1, 1)])
def test_gradient_of_the_objective(terms):
    rng = np.random.default_rng(0)
    white = rng.normal(size=(4, 108)).astype(np.float32)
    offsets = rng.normal(size=(4, 1)).astype(np.float32)
    unit = np.linalg.qr(rng.normal(size=(4, 4)))[0] + 0.1 * rng.normal(size=(4, 4))
    _, slope = value_and_gradient(unit, white, offsets, terms, (3, 6, 6))
    for at in np.ndindex(4, 4):
        step = np.zeros((4, 4))
        step[at] = 2e-3
        above = value_and_gradient(unit + step, white, offsets, terms, (3, 6, 6))[0]
        below = value_and_gradient(unit - step, white, offsets, terms, (3, 6, 6))[0]
        assert slope[at] == pytest.approx((above - below) / 4e-3, rel=0.02, abs=0.02)


def test_published_attack_finds_images_and_ours_does_better():
    images, tags = photographs(8, 0)
    observation = seen(network(128), images, tags)
    theirs = cocktail_party(observation, iterations=3000)
    start = cocktail_party(observation, iterations=1)
    good, first = quality(theirs.inputs, images), quality(start.inputs, images)
    assert good.cosine.mean() > first.cosine.mean() + 0.03
    ours = quality(ica(observation).inputs, images)
    assert ours.cosine.mean() > good.cosine.mean()


def test_a_limit_of_seconds_stops_the_published_attack_and_is_said():
    images, tags = photographs(4, 0)
    found = cocktail_party(seen(network(32), images, tags), iterations=10**6, seconds=0.05)
    assert found.details["iterations"] < 10**6
    assert any("its limit is 0.05 CPU seconds" in note for note in found.diagnosis)


def test_kernel_is_its_plain_twin():
    sources = np.random.default_rng(0).standard_cauchy((3, 1100)).astype(np.float32)
    fast, plain = student_score(sources, 0.3), student_score_plain(sources, 0.3)
    np.testing.assert_allclose(fast[0], plain[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(fast[1], plain[1], rtol=1e-3, atol=1e-3)
    assert fast[2] == pytest.approx(plain[2], rel=1e-6)
