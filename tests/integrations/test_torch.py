"""Models as vectors and back, and their mean by a real round."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch_models import Net, same

from privagg.errors import UsageError
from privagg.integrations import torch as adapter
from privagg.integrations.torch import Layout, secure_mean, tensors
from privagg.protocols import secagg


def test_a_state_dict_goes_there_and_back():
    state = Net().state_dict()
    layout = Layout.of(state)
    assert layout.kept == ("mask", "norm.num_batches_tracked")
    assert layout.dtype == np.float64
    vector = layout.flatten(state)
    assert layout.size == vector.size == 20 + 4 * 4 + 10 + 6 + 8 + 1
    back = layout.unflatten(vector)
    same(back, {name: state[name] for name in layout.names})
    assert back["head.weight"] is back["embed.weight"]  # tied, sent once


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_float_is_exact(dtype):
    tensor = torch.randn(50, 4).to(dtype)[::3].T
    layout = Layout.of({"x": tensor})
    assert layout.dtype == (np.float64 if dtype == torch.float64 else np.float32)
    same(layout.unflatten(layout.flatten({"x": tensor})), {"x": tensor})


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers_are_exact_and_must_fit(dtype):
    info = torch.iinfo(dtype)
    tensor = torch.tensor([info.min, 0, info.max], dtype=dtype)
    layout = Layout.of({"x": tensor}, kind="integer")
    vector = layout.flatten({"x": tensor})
    assert vector.dtype == np.int64
    same(layout.unflatten(vector), {"x": tensor})
    if dtype != torch.int64:
        with pytest.raises(UsageError, match="does not fit"):
            layout.unflatten(vector + 1)
    with pytest.raises(UsageError, match="array of integers"):
        layout.unflatten(vector.astype(float))


def test_a_narrow_float_does_not_become_infinite():
    layout = Layout.of({"x": torch.ones(2, dtype=torch.float16)})
    with pytest.raises(UsageError, match=r"tensor x: found a number too large"):
        layout.unflatten(np.array([1.0, 70000.0]))


REFUSED = {
    "meta": lambda: torch.empty(3, device="meta"),
    "complex": lambda: torch.zeros(3, dtype=torch.complex64),
    "quantised": lambda: torch._make_per_tensor_quantized_tensor(
        torch.zeros(3, dtype=torch.int8), 0.1, 0
    ),
    "layout": lambda: torch.eye(3).to_sparse(),
    "float8": lambda: torch.zeros(3).to(torch.float8_e4m3fn),
    "lazy": lambda: nn.LazyLinear(3).weight,
}


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("kind", REFUSED)
def test_what_has_no_plain_numbers_is_refused_by_name(kind):
    with pytest.raises(UsageError, match=rf"tensor layer\.odd: found .*{kind}"):
        Layout.of({"fine": torch.zeros(2), "layer.odd": REFUSED[kind]()})


class Sub(torch.Tensor):
    """Somebody's own tensor, which may not mean what its numbers say."""


def test_wrapped_tensors_are_refused():
    with pytest.raises(UsageError, match=r"a Sub; allowed: plain tensors"):
        Layout.of({"x": torch.zeros(3).as_subclass(Sub)})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_are_finite(value):
    state = {"a": torch.zeros(2), "b": torch.tensor([[0.0, 1.0], [value, 2.0]])}
    with pytest.raises(UsageError, match=r"tensor b: found .* at index 2"):
        Layout.of(state).flatten(state)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"a": torch.zeros(2)}, "tensor b: found missing"),
        ({"a": torch.zeros(2), "b": torch.zeros(2)}, "tensor b: found torch.float32 of shape"),
        ({"a": torch.zeros(2).half(), "b": torch.zeros(3)}, "tensor a: found torch.float16"),
        ({"a": [0.0, 0.0], "b": torch.zeros(3)}, "model at a: found list"),
        ({}, "mapping"),
        (None, "mapping"),
    ],
)
def test_another_model_is_refused(other, message):
    layout = Layout.of({"a": torch.zeros(2), "b": torch.zeros(3)})
    with pytest.raises(UsageError, match=message):
        layout.flatten(other)


def test_tied_tensors_that_came_apart_are_refused():
    layout = Layout.of(Net())
    apart = copy.deepcopy(Net().state_dict())
    apart["head.weight"] = apart["embed.weight"].clone()
    layout.flatten(apart)  # the same numbers
    apart["head.weight"] += 1
    with pytest.raises(UsageError, match=r"tensor head\.weight: found other numbers"):
        layout.flatten(apart)


def test_selections():
    net = Net()
    assert set(tensors(net, names="lora_*")) == {"lora_a"}
    trainable = tensors(net, trainable_only=True)
    assert "embed.weight" not in trainable
    assert "norm.running_mean" not in trainable
    assert "norm.weight" in trainable
    assert set(tensors(net, where=lambda name, t: t.dtype == torch.float64)) == {"wide"}
    with pytest.raises(UsageError, match=r"names: found lora_b"):
        tensors(net, names=["lora_a", "lora_b"])
    with pytest.raises(UsageError, match="no tensor that is selected"):
        tensors(net, where=lambda name, t: False)
    with pytest.raises(UsageError, match="others='keep'"):
        Layout.of(net, others="refuse")


def test_gradients():
    net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    net[1].weight.requires_grad_(False)
    with pytest.raises(UsageError, match=r"0\.weight: found no gradient"):
        adapter.gradients(net)
    assert not adapter.gradients(net, missing="zero")["0.weight"].any()
    net(torch.ones(1, 3)).sum().backward()
    found = adapter.gradients(net)
    assert set(found) == {"0.weight", "0.bias", "1.bias"}
    assert found["0.bias"] is net[0].bias.grad


def test_the_digest_is_of_everything():
    def digest(change=lambda net: None):
        net = Net()
        with torch.no_grad():
            change(net)
        return adapter.model_digest(net)

    assert len(digest()) == 32
    assert digest() == digest() == adapter.model_digest(Net().state_dict())
    changes = [
        lambda net: net.embed.weight[0, 0].add_(1e-6),  # frozen
        lambda net: net.norm.num_batches_tracked.add_(1),
        lambda net: net.mask.logical_not_(),
        lambda net: net.register_buffer("extra", torch.zeros(1)),
        lambda net: setattr(net, "none", torch.zeros(0, 2)),
        lambda net: setattr(net, "scale", net.scale.float()),
    ]
    assert len({digest(), *map(digest, changes)}) == 7
    for wrong in (None, b"model", "model", {"a": np.zeros(1)}):
        with pytest.raises(UsageError, match=r"arrays: found .*privagg\.integrations\.torch"):
            secagg.model_digest(wrong)


def test_secure_mean_is_the_mean_of_the_survivors():
    models = [Net(seed) for seed in range(6)]
    for number, model in enumerate(models):
        model.norm.num_batches_tracked.fill_(number * number)
    found = secure_mean(
        models, value_bits=24, dropout=0.34, corrupt=0.0, dropouts={2: "masked-input"}, seed=1
    )
    left = [model for number, model in enumerate(models) if number != 2]
    assert found.survivors == (0, 1, 3, 4, 5)
    assert found.kept == ("mask",)
    assert not found.clip_given
    for name, tensor in found.state.items():
        states = [model.state_dict()[name].double() for model in left]
        expected = torch.stack(states).mean(0)
        assert tensor.dtype == models[0].state_dict()[name].dtype
        if tensor.dtype == torch.int64:
            assert tensor == round((0 + 1 + 9 + 16 + 25) / 5)
        else:
            slack = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}.get(tensor.dtype, 1e-7)
            bound = found.rounding_bound + slack * expected.abs()
            assert ((tensor.double() - expected).abs() <= bound).all()
    assert found.result.exact
    assert found.integers.exact
    assert found.bytes_up_per_client > found.result.bytes_up_per_client
    target = Net(9)
    found.load_into(target)
    same({n: target.state_dict()[n] for n in found.state}, found.state)
    assert target.head.weight is target.embed.weight


def test_weights_base_and_clip():
    base = {"w": torch.full((4,), 100.0)}
    models = [{"w": base["w"] + torch.tensor([i, -i, 0.5, 9.0])} for i in range(4)]
    found = secure_mean(models, weights=[0, 1, 2, 3], base=base, clip=4.0, value_bits=20, seed=1)
    step = 8.0 / (2**20 - 1)
    expected = torch.tensor([14 / 6, -14 / 6, 0.5, 4.0]) + 100
    assert (found.state["w"] - expected).abs().max() <= step * 1.1 + 1e-5
    assert found.result.clipped == 4
    assert found.result.weight_total == 6
    assert found.clip_given


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": Net()}, "models: found Net"),
        ({"models": [Net()]}, "at least 2"),
        ({"models": [{"a": torch.ones(2)}, {"a": torch.ones(3)}]}, r"models\[1\] tensor a"),
        ({"models": [{"a": torch.ones(2)}, {"a": torch.ones(2) / 0}]}, r"models\[1\] tensor a"),
        ({"integers": "drop"}, "integers"),
        ({"integers": "refuse"}, r"tensor mask: found torch\.bool"),
        ({"weights": [1, 2]}, "weights"),
        ({"weights": [1, 2, -1]}, r"weights\[2\]"),
        ({"weights": [1, 2, True]}, r"weights\[2\]"),
        ({"max_weight": 4}, "max_weight"),
        ({"clip": 0.0}, "clip"),
    ],
)
def test_what_has_no_mean_is_refused(options, message):
    models = options.pop("models", [Net(0), Net(1), Net(2)])
    with pytest.raises(UsageError, match=message):
        secure_mean(models, **options)


def test_integers_can_be_left_out():
    found = secure_mean([Net(0), Net(1), Net(2)], integers="keep", seed=1)
    assert found.kept == ("mask", "norm.num_batches_tracked")
    assert found.integers is None
    assert not set(found.kept) & set(found.state)
