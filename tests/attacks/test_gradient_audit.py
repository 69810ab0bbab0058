"""Audits: views that are real, verdicts, chance, diagnoses instead of silence."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra 'torch' is not installed")
pytest.importorskip("opacus", reason="the extra 'torch' is not installed")
import torch
from torch import nn

from privagg.attacks.gradient.audit import ATTACKS, audit
from privagg.attacks.gradient.chance import chance_psnr
from privagg.attacks.gradient.verdicts import Verdict
from privagg.attacks.gradient.views import Batch, Seen
from privagg.datasets import load_pictures
from privagg.errors import UsageError
from privagg.integrations.gradient_views import FederatedView, noisy_sum, train

torch.set_num_threads(1)

PICTURES, CLASSES = load_pictures()
SMALL = PICTURES.reshape(47, 3, 8, 4, 8, 4).mean((3, 5))  # 8 x 8


def mlp(width=256, inputs=3072, classes=10, bias=True):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, width, bias=bias), nn.ReLU(), nn.Linear(width, classes)
    )


def batches(clients=1, batch=8, pictures=PICTURES, labels=CLASSES):
    return [
        Batch(pictures[at : at + batch], labels[at : at + batch])
        for at in range(0, clients * batch, batch)
    ]


def small(model, own=None, attacks="fast", others=SMALL[20:], **settings):
    own = batches(pictures=SMALL) if own is None else own
    view = FederatedView(model=model, **settings)
    return audit(model, own, view=view, attacks=attacks, others=others)


@pytest.fixture(scope="module")
def plain():
    model = mlp()
    own = batches(clients=2, batch=8)
    found = audit(model, own, view=FederatedView(model=model), attacks="fast", others=PICTURES[16:])
    return model, own, found


def test_a_fresh_relu_layer_is_read_exactly(plain):
    _, _, found = plain
    first, head = found.layers
    assert found.verdict is first.verdict is Verdict.EXACT
    assert "16 distinct inputs" in first.reason
    assert first.rank == first.visible_rank == 16
    assert 0.4 < first.zero_share < 0.6
    assert head.verdict is Verdict.PARTIAL  # 16 inputs, 10 outputs
    assert found.best.name == "relu_exact"
    assert found.best.quality.psnr.min() > 100
    assert found.why_nothing() == []
    assert found.labels.correct == 1.0
    assert found.epsilon() is None


@pytest.mark.parametrize("bits", [16, 32])
def test_secure_aggregation_does_not_change_the_verdicts(plain, bits):
    model, own, found = plain
    summed = audit(
        model,
        own,
        view=FederatedView(model=model, secagg=True, bits=bits),
        attacks="fast",
        others=PICTURES[16:],
    )
    assert [one.verdict for one in summed.layers] == [one.verdict for one in found.layers]
    assert summed.best.recovered == found.best.recovered == 16
    assert summed.seen.floor > 0
    assert not summed.seen.single
    name = "1.weight"
    error = np.abs(summed.seen.gradients[name] - found.seen.gradients[name])
    assert error.max() < 10 * summed.seen.floor + 1e-9


def test_leaks_need_the_threshold_and_the_chance_line(plain):
    _, _, found = plain
    assert "relu_exact" in [one.name for one in found.leaks(26)]
    assert found.leaks(199) == []
    best = found.best
    high = chance_psnr(best.true, best.true + 1e-9)  # the batch's own copies as "others"
    assert high.min() > 100
    with pytest.raises(UsageError, match="mean or max"):
        found.leaks(26, "median")


def test_what_noise_hides_is_hidden_and_why_is_said():
    found = small(mlp(64, 192), noise=1.0, clip=1.0)
    assert found.verdict is Verdict.HIDDEN
    assert all(one.visible_rank == 0 for one in found.layers)
    assert any("above the noise" in text for text in found.why_nothing())
    assert found.epsilon() == pytest.approx(4.377, abs=0.01)
    assert found.epsilon(1e-5, "replace") > found.epsilon()


def test_noise_is_on_the_sum_as_for_opacus():
    """Examples without a gradient: what is left is noise x clip on the sum, over the batch."""
    model = nn.Linear(200, 100, bias=False)
    x, y = torch.zeros(5, 200), torch.zeros(5, dtype=torch.int64)
    source = torch.Generator().manual_seed(1)
    (got,) = noisy_sum(model, x, y, noise=3.0, clip=0.5, generator=source)
    assert float(got.std()) == pytest.approx(1.5, rel=0.02)
    seen = FederatedView(model=model, noise=3.0, clip=0.5)([Batch(x.numpy(), y.numpy())])
    spread = float(np.std(seen.gradients["weight"]))
    assert spread == pytest.approx(1.5 / 5, rel=0.02)
    assert seen.noise.deviation == pytest.approx(1.5 / 5)
    assert seen.noise.multiplier == 3.0


def test_clipping_bounds_each_example():
    model = mlp(32, 192)
    x, y = torch.as_tensor(SMALL[:4]), torch.as_tensor(CLASSES[:4])
    one = noisy_sum(model, x[:1], y[:1], noise=0.0, clip=0.01)
    assert float(sum((g**2).sum() for g in one)) ** 0.5 == pytest.approx(0.01, rel=1e-3)
    four = noisy_sum(model, x, y, noise=0.0, clip=0.01)
    assert float(sum((g**2).sum() for g in four)) ** 0.5 <= 0.04 * 1.001


def test_local_steps_send_an_update_over_the_rate():
    model = mlp(32, 192)
    own = batches(batch=4, pictures=SMALL)
    once = FederatedView(model=model)(own)
    many = FederatedView(model=model, local_steps=3, rate=1e-4)(own)
    a, b = once.gradients["1.weight"], many.gradients["1.weight"]
    assert np.linalg.norm(b - 3 * a) < 0.05 * np.linalg.norm(b)


@pytest.mark.parametrize("kind", ["fp16", "int8", "sign", "top-0.1"])
def test_compression_changes_what_is_seen(kind):
    own, model = batches(batch=4, pictures=SMALL), mlp(32, 192)
    exact = FederatedView(model=model)(own).gradients["1.weight"]
    seen = FederatedView(model=model, compression=kind)(own)
    got = seen.gradients["1.weight"]
    assert seen.floor > 0
    assert not np.array_equal(got, exact)
    assert np.corrcoef(got.ravel(), exact.ravel())[0, 1] > 0.5
    if kind == "sign":
        assert len(np.unique(np.abs(got[got != 0]))) == 1  # of this tensor


def test_signs_alone_are_still_attacked():
    model = mlp(64, 192)
    found = small(model, batches(batch=4, pictures=SMALL), attacks="ica", compression="sign")
    assert found.layers
    assert found.best is not None


def test_training_makes_gradients_small():
    model = mlp(32, 192)
    later = train(model, SMALL, CLASSES, epochs=30)
    before = FederatedView(model=model)(batches(pictures=SMALL)).gradients["1.weight"]
    after = FederatedView(model=later)(batches(pictures=SMALL)).gradients["1.weight"]
    assert not np.array_equal(next(later.parameters()).detach(), next(model.parameters()).detach())
    assert np.abs(before).sum() > 0
    assert np.abs(after).sum() != pytest.approx(np.abs(before).sum())


def test_without_bias_cosines_count():
    found = small(mlp(64, 192, bias=False))
    assert any("no bias" in text for text in found.notes)
    (ica,) = [one for one in found.attacks if one.name == "ica" and one.on_inputs]
    assert not ica.scaled
    (exact,) = [one for one in found.attacks if one.name == "relu_exact" and one.on_inputs]
    assert "without bias" in exact.diagnosis[0]


def test_without_a_linear_layer_gradient_matching_is_left():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 10, 8), nn.Flatten())
    found = small(model, batches(batch=2, pictures=SMALL), attacks=("ica", "dlg"))
    assert found.layers == ()
    assert any("no linear layer" in text.lower() for text in found.notes)
    assert [one.name for one in found.attacks] == ["dlg"]


def test_batch_norm_in_train_mode_is_said():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(192, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10)
    )
    before = model[2].running_mean.clone()
    found = small(model)
    assert any("BatchNorm in train mode" in text for text in found.notes)
    assert torch.equal(before, model[2].running_mean)
    with pytest.raises(UsageError, match="GroupNorm"):
        small(model, noise=1.0, clip=1.0)


def test_more_inputs_than_outputs_and_classes():
    found = small(mlp(8, 192, classes=3), batches(batch=16, pictures=SMALL, labels=CLASSES % 3))
    assert found.verdict is Verdict.PARTIAL
    assert "too many to separate" in found.layers[0].reason
    assert found.layers[0].ratio == 0.5
    assert sum(found.labels.counts) == 16


def test_an_unknown_loss_scale_changes_labels_not_inputs():
    plain, scaled = small(mlp(64, 192)), small(mlp(64, 192), loss_scale=7.0)
    assert plain.layers[0].verdict is scaled.layers[0].verdict
    assert plain.labels.correct == 1.0
    assert scaled.labels.diagnosis


def test_gradients_that_are_not_finite_are_refused():
    model = mlp(32, 192)
    with torch.no_grad():
        model[1].weight[0, 0] = float("nan")
    with pytest.raises(UsageError, match="not finite"):
        small(model)
    with pytest.raises(UsageError, match="learning rate"):
        Seen(gradients={"w": np.array([[np.nan]])}, batch=1)


def test_duplicates_are_counted_once():
    own = [
        Batch(np.concatenate([SMALL[:4], SMALL[:2]]), np.concatenate([CLASSES[:4], CLASSES[:2]]))
    ]
    found = small(mlp(64, 192), own)
    assert found.layers[0].rank == 4
    assert found.verdict in (Verdict.EXACT, Verdict.RECONSTRUCTABLE)
    assert any("rank 4 of a batch of 6" in text for one in found.attacks for text in one.diagnosis)


@pytest.mark.parametrize("settings", [{}, {"secagg": True, "bits": 16}])
def test_a_rank_deficient_batch_is_said(settings):
    mixed = SMALL[:6].copy()
    mixed[5] = (mixed[0] + mixed[1]) / 2
    own = [Batch(mixed[:3], CLASSES[:3]), Batch(mixed[3:], CLASSES[3:6])]
    found = small(mlp(64, 192), own, **settings)
    assert found.layers[0].rank == 5
    assert found.layers[0].verdict is not Verdict.EXACT
    said = [text for one in found.attacks for text in one.diagnosis]
    assert any("rank 5 of a batch of 6" in text for text in said)


def test_what_does_not_go_together_is_refused():
    model = mlp(8, 192)
    for settings, name in [
        ({"noise": 1.0}, "clip"),
        ({"bits": 16}, "bits"),
        ({"compression": "zip"}, "compression"),
        ({"clip": 1.0, "local_steps": 2}, "local_steps"),
        ({"noise": float("nan"), "clip": 1.0}, "noise"),
    ]:
        with pytest.raises(UsageError) as caught:
            FederatedView(model=model, **settings)
        assert caught.value.argument == name
    with pytest.raises(UsageError, match="at least 2"):
        FederatedView(model=model, secagg=True)(batches(pictures=SMALL))
    with pytest.raises(UsageError, match="all, fast"):
        small(model, attacks="guess")
    assert ATTACKS[0] == "analytic"


def test_a_constant_is_as_good_as_its_contrast():
    flat = np.full((2, 3, 8, 8), 0.5) + 0.01 * np.random.default_rng(0).normal(size=(2, 3, 8, 8))
    line = chance_psnr(flat.reshape(2, -1), np.zeros((0, 192)), shape=(3, 8, 8))
    assert (line > 35).all()
