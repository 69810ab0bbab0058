"""Audits: duplicates, embeddings and images, weights made to leak, chance, what to do next."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra 'torch' is not installed")
pytest.importorskip("opacus", reason="the extra 'torch' is not installed")
import torch
from torch import nn

from privagg.attacks.gradient import (
    Batch,
    Verdict,
    advise,
    audit,
    psnr_published,
)
from privagg.attacks.gradient.advice import hiding_multiplier, multiplier_for
from privagg.attacks.gradient.bounds import gaussian_epsilon, shift
from privagg.attacks.gradient.chance import chance_published
from privagg.attacks.gradient.torch_models import embedding
from privagg.datasets import load_pictures
from privagg.errors import UsageError
from privagg.integrations.gradient_views import FederatedView

torch.set_num_threads(1)

PICTURES, CLASSES = load_pictures()
SMALL = PICTURES.reshape(47, 3, 8, 4, 8, 4).mean((3, 5))  # 8 x 8


def mlp(width=64, inputs=192):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, 10))


def convolutional(*norm):
    torch.manual_seed(0)
    front = [nn.Conv2d(3, 16, 3, padding=1), *norm, nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*front, nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 10))


def run(model, own, attacks="fast", others=SMALL[20:], more=None, **settings):
    view = FederatedView(model=model, **settings)
    return audit(model, own, view=view, attacks=attacks, others=others, **(more or {}))


@pytest.fixture(scope="module")
def with_duplicates():
    """Two of eight pictures twice, the copies at another client."""
    order = [0, 1, 2, 3, 4, 5, 0, 1]
    own = [Batch(PICTURES[part], CLASSES[part]) for part in (order[:4], order[4:])]
    model = mlp(256, 3072)
    return model, own, run(model, own, others=PICTURES[20:])


@pytest.mark.parametrize("bits", [16, 20, 24, 32])
def test_duplicates_have_the_same_verdicts_through_rounding(with_duplicates, bits):
    model, own, plain = with_duplicates
    assert plain.layers[0].verdict is Verdict.EXACT
    assert "2 are duplicates" in plain.layers[0].reason
    found = run(model, own, others=PICTURES[20:], secagg=True, bits=bits)
    assert [one.verdict for one in found.layers] == [one.verdict for one in plain.layers]
    assert [one.rank for one in found.layers] == [one.rank for one in plain.layers] == [6, 6]
    assert any("rank 6 of a batch of 8" in why for one in found.attacks for why in one.diagnosis)


class Positions(nn.Module):
    """A layer that sees four positions of each example."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.head = nn.Linear(20, 64), nn.Linear(64, 3)

    def forward(self, x):
        return self.head(torch.relu(self.first(x)).mean(1))


def test_a_layer_of_positions_has_so_many_inputs():
    x = (np.random.default_rng(0).random((3, 4, 20)) ** 4).astype(np.float32)
    model, labels = Positions(), np.array([0, 1, 2])
    found = run(model, [Batch(x, labels)], others=None)
    assert [(one.batch, one.rank) for one in found.layers] == [(12, 12), (3, 3)]
    twice = run(model, [Batch(np.concatenate([x[:1], x[:1]]), labels[:2])], others=None)
    assert twice.layers[0].verdict is Verdict.EXACT
    assert "4 are duplicates" in twice.layers[0].reason


def test_images_come_back_through_a_convolution():
    own = [Batch(SMALL[:3], CLASSES[:3])]
    attacks = ("ica", "relu_exact", "feature_inversion", "feature_inversion+gm")
    found = run(convolutional(), own, attacks)
    assert found.layers[0].verdict is Verdict.EXACT  # of embeddings
    plain, matched = found.attacks[-2:]
    assert (plain.name, matched.name) == attacks[2:]
    for one in (plain, matched):
        assert one.on_inputs
        assert one.layer == "inputs"
        assert not one.verified
        assert one.recovered >= 2
        assert one.quality.psnr.mean() > one.chance.mean() + 6
    assert found.best in (plain, matched)
    assert plain.diagnosis == ()  # from embeddings that are proved


def test_feature_inversion_leaves_the_model_as_it_is():
    model = convolutional(nn.BatchNorm2d(16))
    before = model[1].running_mean.clone()
    more = {"iterations": 3}
    own = [Batch(SMALL[:3], CLASSES[:3])]
    found = run(model, own, ("ica", "feature_inversion"), more=more)
    assert torch.equal(model[1].running_mean, before)
    assert any("BatchNorm in train mode" in note for note in found.notes)
    (inverted,) = [one for one in found.attacks if one.name == "feature_inversion"]
    assert inverted.diagnosis == ("from embeddings by ica that are not proved",)
    assert inverted.iterations == 3


def test_feature_inversion_has_nothing_to_do_in_front_of_a_linear_layer():
    found = run(mlp(), [Batch(SMALL[:3], CLASSES[:3])], ("ica", "feature_inversion"))
    assert {one.name for one in found.attacks} == {"ica"}


def test_embedding_is_what_the_layer_gets():
    model, x = convolutional(), torch.as_tensor(SMALL[:2])
    assert torch.equal(embedding(model, "3")(x), model[:3](x))
    assert not model[3]._forward_pre_hooks
    model.add_module("unused", nn.Linear(2, 2))
    model.forward = lambda inputs: inputs
    with pytest.raises(UsageError, match="runs"):
        embedding(model, "unused")(x)


def test_weights_made_to_leak_are_in_the_audit():
    model = mlp()
    own = [Batch(SMALL[:3], CLASSES[:3])]
    assert run(model, own, "analytic").suspicions == ()
    with torch.no_grad():
        model[1].weight.copy_(torch.randn(192)[None] / 192)
        model[1].bias.copy_(torch.linspace(-0.2, 0.2, 64))
    found = run(model, own, "analytic")
    (one,) = found.suspicions
    assert (one.layer, one.kind) == ("1", "imprint")
    assert "do not train" in advise(found)[0].change


def test_a_perceptual_distance_is_taken_and_checked():
    asked = []

    def distance(recovered, true):
        asked.append((recovered.shape, true.shape))
        return np.abs(recovered - true).mean(axis=(1, 2, 3))

    own = [Batch(SMALL[:3], CLASSES[:3])]
    found = run(mlp(), own, "relu_exact", more={"perceptual": distance})
    first, second = found.attacks
    assert asked == [((3, 3, 8, 8), (3, 3, 8, 8))]  # of images alone
    assert second.quality.perceptual is None
    assert first.quality.perceptual.shape == (3,)
    assert (first.quality.perceptual < 1e-3).all() == first.verified
    for wrong in (lambda a, b: 0.5, lambda a, b: np.full(len(a), np.nan)):
        with pytest.raises(UsageError, match="perceptual"):
            run(mlp(), own, "relu_exact", more={"perceptual": wrong})


def test_a_leak_needs_six_decibels_above_chance():
    found = run(mlp(), [Batch(SMALL[:3], CLASSES[:3])], "relu_exact")
    best = found.best
    level = float(best.quality.psnr.mean())
    assert found.leaks(26)

    def with_chance(line):
        one = dataclasses.replace(best, chance=np.full(best.batch, line))
        return dataclasses.replace(found, attacks=(one,))

    assert with_chance(level - 6.1).leaks(26)
    assert not with_chance(level - 5.9).leaks(26)
    assert not with_chance(0.0).leaks(level + 1)


def test_the_oracle_helps_chance_too():
    true = SMALL[:4].reshape(4, -1).astype(float)
    line = chance_published(true, true[::-1] * 0.25 + 0.1)  # the same pictures, paler
    np.testing.assert_allclose(line, psnr_published(true * 0.25 + 0.1, true))
    assert np.isneginf(chance_published(true[:1], np.zeros((0, 192)))).all()


def test_the_advised_noise_hides_every_component():
    model, own = mlp(), [Batch(SMALL[:4], CLASSES[:4]), Batch(SMALL[4:8], CLASSES[4:8])]
    plain = run(model, own)
    said = advise(plain)
    noise = said[0].noise
    assert noise >= max(hiding_multiplier(one.shape, 8, 2) for one in plain.layers)
    hidden = run(model, own, noise=noise, clip=1.0)
    assert hidden.verdict is Verdict.HIDDEN
    assert [one.visible_rank for one in hidden.layers] == [0, 0]
    seen = run(model, own, noise=noise / 100, clip=1.0)
    assert any(one.visible_rank for one in seen.layers)
    # What is left to say of the hidden one is epsilon, where it is above what is aimed at.
    (more,) = [one for one in advise(hidden) if one.noise]
    assert more.noise > noise
    assert "epsilon 1 " in more.effect


def test_the_advised_cohort_outnumbers_the_layer():
    model, own = mlp(8), [Batch(SMALL[:2], CLASSES[:2])]
    plain = run(model, own)
    (more,) = [one for one in advise(plain) if one.clients]
    assert more.clients == 6  # of two inputs each, for 8 and for 10 outputs
    many = [Batch(SMALL[n : n + 2], CLASSES[n : n + 2]) for n in range(0, 12, 2)]
    crowded = run(model, many)
    assert "too many to separate" in crowded.layers[0].reason
    assert any(one.change.startswith("secure aggregation") for one in advise(crowded))
    assert not any(one.clients for one in advise(crowded))


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_multiplier_is_the_least(epsilon):
    found = multiplier_for(epsilon, 1e-5)
    assert gaussian_epsilon(shift(found), 1e-5) <= epsilon
    assert gaussian_epsilon(shift(found * 0.999), 1e-5) > epsilon
    with pytest.raises(UsageError, match="epsilon"):
        multiplier_for(0.0, 1e-5)


def test_the_names_need_no_torch():
    code = (
        "import sys; import privagg.attacks.gradient as g; g.audit, g.View, g.Verdict, g.advise; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
