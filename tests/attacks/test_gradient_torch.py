"""Attacks on gradients of torch modules: what is found, and what is said where nothing can be."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import network, photographs

from privagg.attacks.gradient import Observation, ica, invert_features, labels, quality, relu_exact
from privagg.errors import UsageError

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


def two_layers(width=128, *, bias=True):
    return torch.nn.Sequential(
        torch.nn.Linear(3072, width, bias=bias), torch.nn.ReLU(), torch.nn.Linear(width, 10)
    )


def test_module_to_exact_inputs_and_labels():
    images, tags = photographs(12, 0)
    observation = Observation.from_batch(two_layers(), images, tags)
    assert [layer.name for layer in observation.layers] == ["0", "2"]
    assert observation.head.name == "2"
    found = relu_exact(observation)
    assert found.verified
    assert quality(found.inputs, images).psnr.min() >= 100
    assert labels(observation).correct(tags) >= 0.9


def test_numpy_network_has_torch_gradients():
    images, tags = photographs(5, 0)
    drawn, module = network(32), two_layers(32)
    parts = (drawn.weights, drawn.biases, drawn.head, drawn.head_biases)
    with torch.no_grad():
        for parameter, values in zip(module.parameters(), parts, strict=True):
            parameter.copy_(torch.as_tensor(values))
    observation = Observation.from_batch(module, images, tags)
    weight, bias, head, head_bias = drawn.gradients(images, tags)
    for layer, pair in zip(observation.layers, ((weight, bias), (head, head_bias)), strict=True):
        np.testing.assert_allclose(layer.weight, pair[0], rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(layer.bias, pair[1], rtol=1e-3, atol=1e-6)


def test_gradients_as_sequence_and_mapping():
    images, tags = photographs(4, 0)
    module = two_layers(16)
    loss = torch.nn.functional.cross_entropy(module(torch.tensor(images)), torch.tensor(tags))
    loss.backward()
    names = [name for name, _ in module.named_parameters()]
    values = [parameter.grad for parameter in module.parameters()]
    one = Observation.from_module(module, values, batch=4)
    other = Observation.from_module(module, dict(zip(names, values, strict=True)), batch=4)
    assert (one.layers[0].weight == other.layers[0].weight).all()
    for wrong in (values[:-1], {"9.weight": values[0]}, "gradients", 3):
        with pytest.raises(UsageError):
            Observation.from_module(module, wrong)
    with pytest.raises(UsageError, match="Module"):
        Observation.from_module(object(), values)


def test_without_bias_frozen_and_not_finite():
    images, tags = photographs(4, 0)
    bare = Observation.from_batch(two_layers(16, bias=False), images, tags)
    assert any("no bias" in note for note in bare.notes)
    assert not ica(bare).scaled
    module = two_layers(16)
    module[0].requires_grad_(False)
    frozen = Observation.from_batch(module, images, tags)
    assert [layer.name for layer in frozen.layers] == ["2"]
    assert any("not attacked: 0" in note for note in frozen.notes)
    with pytest.raises(UsageError, match="not finite"):
        Observation.from_batch(two_layers(16), images * np.float32(np.nan), tags)
    with pytest.raises(UsageError, match="inputs"):
        Observation.from_batch(two_layers(16), images[:, :5], tags)


def test_model_without_a_linear_layer():
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 10, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    )
    images, tags = photographs(2, 0)
    with pytest.raises(UsageError, match=r"no linear layer.*Conv2d"):
        Observation.from_batch(module, images.reshape(-1, 3, 32, 32), tags)


def test_batch_norm_in_train_mode_is_said():
    images, tags = photographs(6, 0)
    module = torch.nn.Sequential(
        torch.nn.Linear(3072, 64),
        torch.nn.BatchNorm1d(64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 10),
    )
    observation = Observation.from_batch(module, images, tags)
    assert any("BatchNorm in train mode" in note for note in observation.notes)
    found = relu_exact(observation, budget=2)
    assert not found.verified
    assert found.diagnosis
    module.eval()
    assert Observation.from_batch(module, images, tags).notes == ()


def test_update_of_local_steps():
    images, tags = photographs(8, 0)
    module = two_layers(128)
    before = {name: value.detach().clone() for name, value in module.named_parameters()}
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)
    for _ in range(3):
        for part in (slice(0, 4), slice(4, 8)):
            optimiser.zero_grad()
            outputs = module(torch.tensor(images[part]))
            torch.nn.functional.cross_entropy(outputs, torch.tensor(tags[part])).backward()
            optimiser.step()
    after = dict(module.named_parameters())
    update = {name: before[name] - after[name].detach() for name in before}
    with torch.no_grad():
        for name, value in before.items():
            after[name].copy_(value)
    found = ica(Observation.from_module(module, update, batch=8))
    assert quality(found.inputs, images).psnr.mean() > 24


@pytest.mark.parametrize("matching", [0.0, 0.1])
def test_images_from_embeddings(matching):
    images, tags = photographs(3, 0)
    small = images.reshape(-1, 3, 32, 32)[:, :, ::4, ::4].copy()
    features = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten()
    )
    module = torch.nn.Sequential(features, torch.nn.Linear(1024, 64), torch.nn.ReLU())
    module.append(torch.nn.Linear(64, 10))
    observation = Observation.from_batch(module, small, tags)
    recovered = relu_exact(observation, shape=(16, 8, 8))
    with torch.no_grad():
        true = features(torch.tensor(small)).numpy()
    # Small feature maps of three images: enough for signs, order and scale.
    pairs = quality(recovered.inputs, true)
    assert pairs.cosine.min() > 0.8
    names = dict(module.named_parameters())
    seen = {
        name: gradient.numpy()
        for name, gradient in zip(
            names,
            torch.autograd.grad(
                torch.nn.functional.cross_entropy(module(torch.tensor(small)), torch.tensor(tags)),
                list(names.values()),
            ),
            strict=True,
        )
    }
    more = {"model": module, "gradients": seen, "matching": matching} if matching else {}
    found = invert_features(features, true, (3, 8, 8), iterations=150, **more)
    assert quality(found.inputs, small.reshape(3, -1), scaled=False).cosine.min() > 0.8
    if matching:
        with pytest.raises(UsageError, match="matching"):
            invert_features(features, true, (3, 8, 8), iterations=2, matching=1.0)
