"""Bounds from proofs, a lower bound from a test, and servers that change the model."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from privagg.accounting.gaussian import analytic_delta
from privagg.attacks.gradient.bounds import (
    gaussian_epsilon,
    reconstruction_bound,
    shift,
)
from privagg.attacks.gradient.inconsistency import inconsistent_round
from privagg.attacks.gradient.malicious import expected_hits, imprint_score, trap_score
from privagg.attacks.gradient.worst_case import distinguish, epsilon_bound
from privagg.errors import UsageError
from privagg.protocols.secagg import model_digest


@pytest.mark.parametrize(
    ("sigma", "epsilon"),
    [(1e-4, 5.0043e7), (0.01, 5419), (0.1, 91.8), (0.5, 10.0), (1.0, 4.377), (2.0, 1.99)],
)
def test_epsilon_of_one_step(sigma, epsilon):
    found = gaussian_epsilon(shift(sigma), 1e-5)
    assert found == pytest.approx(epsilon, rel=0.01)
    assert analytic_delta(shift(sigma), found) <= 1e-5


def test_shifts_by_adjacency_and_steps():
    assert shift(2.0) == 0.5
    assert shift(2.0, adjacency="replace") == 1.0
    assert shift(2.0, steps=16) == 2.0
    with pytest.raises(UsageError, match="add-remove or replace"):
        shift(2.0, adjacency="swap")
    with pytest.raises(UsageError, match="multiplier"):
        shift(0.0)


def test_reconstruction_bound_is_met_by_the_best_attack():
    """Guess which of two: from the prior 1/2, the best test of two Gaussians meets the bound."""
    sigma = 1.5
    bound = reconstruction_bound(0.5, sigma)
    assert bound == pytest.approx(NormalDist().cdf(1 / sigma))
    assert reconstruction_bound(0.01, 1e6) == pytest.approx(0.01, rel=1e-3)
    assert reconstruction_bound(0.01, 0.1) > 0.99
    assert reconstruction_bound(0.01, 1.0, adjacency="replace") > reconstruction_bound(0.01, 1.0)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_the_canary_proves_most_of_epsilon_and_never_more(adjacency):
    pytest.importorskip("opacus", reason="the extra 'torch' is not installed")
    from privagg.integrations.gradient_canary import worst_case

    found = worst_case(2.0, 0.7, trials=4000, adjacency=adjacency, confidence=0.99)
    true = shift(2.0, adjacency=adjacency)
    epsilon = gaussian_epsilon(true, 1e-5)
    assert 0 < found.epsilon <= epsilon
    assert found.epsilon_gaussian <= epsilon
    assert 0.6 * true < found.shift <= true
    assert found.adjacency == adjacency


def test_without_noise_the_bound_is_the_trials():
    def present(_):
        return np.array([1.0, 0.0])

    def absent(_):
        return np.array([0.0, 0.0])

    found = distinguish(present, absent, np.array([1.0, 0.0]), trials=200)
    assert found.epsilon == pytest.approx(found.ceiling)
    assert (found.true_positive, found.false_positive) == (1.0, 0.0)


def test_equal_inputs_prove_nothing():
    rng = np.random.default_rng(3)
    found = epsilon_bound(rng.normal(size=2000), rng.normal(size=2000), confidence=0.999)
    assert found.epsilon < 0.05
    with pytest.raises(UsageError, match="finite"):
        epsilon_bound(np.array([np.nan] * 4), np.zeros(4))


def test_expected_hits_by_simulation():
    rng = np.random.default_rng(0)
    hits = [np.sum(np.bincount(rng.integers(0, 20, 12), minlength=20) == 1) for _ in range(4000)]
    assert expected_hits(20, 12) == pytest.approx(np.mean(hits), rel=0.03)
    assert expected_hits(1, 1) == 1.0
    assert expected_hits(1, 5) == 0.0


def test_scores_of_usual_and_of_made_weights():
    rng = np.random.default_rng(0)
    usual = rng.uniform(-0.1, 0.1, (64, 300))
    assert imprint_score(usual) < 0.05
    assert abs(trap_score(usual)) < 0.02
    assert imprint_score(np.repeat(usual[:1], 64, axis=0)) == 1.0
    assert trap_score(np.where(usual > 0, 0.8 * usual, usual)) > 0.08


def test_detectors_on_models():
    torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    torch.set_num_threads(1)
    from privagg.attacks.gradient.malicious import detect

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(300, 64), torch.nn.ReLU(), torch.nn.Linear(64, 5))
    assert detect(model) == []
    with torch.no_grad():
        model[0].weight.copy_(torch.randn(300)[None] / 300)
        model[0].bias.copy_(torch.linspace(-1, 1, 64))
    (found,) = detect(model)
    assert (found.layer, found.kind) == ("0", "imprint")
    with torch.no_grad():
        rows = torch.randn(64, 300)
        model[0].weight.copy_(torch.where(rows > 0, 0.8 * rows, rows))
    (found,) = detect(model)
    assert found.kind == "trap"


def test_inconsistent_models_isolate_a_client_unless_the_digest_is_bound():
    rng = np.random.default_rng(1)
    vectors = [rng.normal(size=30), *(np.zeros(30) for _ in range(4))]
    digests = [model_digest([np.ones(2)]), *[model_digest([np.zeros(2)])] * 4]
    free = inconsistent_round(vectors, [b""] * 5, 0)
    assert free.isolates
    bound = inconsistent_round(vectors, digests, 0)
    assert not bound.isolates
    assert bound.error > 1
    honest = inconsistent_round(vectors, digests[:1] * 5, 0)
    assert honest.isolates  # one model for all: the sum is what it is


def test_span_of_tokens():
    torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    torch.set_num_threads(1)
    from privagg.attacks.gradient.observation import layer_gradient
    from privagg.attacks.gradient.span import span_test

    positions, vocabulary, width = 5, 120, 64
    torch.manual_seed(0)
    token, place = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(positions, width)
    norm = torch.nn.LayerNorm(width)
    query, key, value = (torch.nn.Linear(width, width) for _ in range(3))
    out = torch.nn.Linear(width, vocabulary)
    ids = torch.randperm(vocabulary)[:15].reshape(3, positions)
    x = norm(token(ids) + place(torch.arange(positions)))
    mixed = torch.softmax(query(x) @ key(x).transpose(1, 2) / 8, -1) @ value(x)
    goal = ids.roll(-1, 1).reshape(-1)
    torch.nn.functional.cross_entropy(out(mixed).reshape(-1, vocabulary), goal).backward()
    table = norm(token.weight[None] + place.weight[:, None]).detach().numpy()
    gradient = value.weight.grad.numpy()
    found = span_test(layer_gradient(gradient), table, inputs=15)
    true = sorted((p, int(ids[b, p])) for b in range(3) for p in range(positions))
    assert sorted(found.tokens()) == true
    assert found.gap > 100
    noisy = gradient + np.random.default_rng(0).normal(size=gradient.shape).astype(np.float32)
    assert span_test(layer_gradient(noisy), table, inputs=15).diagnosis
    with pytest.raises(UsageError, match="candidates"):
        span_test(layer_gradient(gradient), table[:, :, :5])
    assert math.isfinite(found.gap)
