"""Models as vectors and back, and their mean by a real round."""

from __future__ import annotations

import copy
import pickle
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn

from privagg import keys
from privagg.errors import Abort, PeerError, UsageError
from privagg.integrations import torch as adapter
from privagg.integrations.torch import Layout, SecureAverager, secure_mean, tensors
from privagg.protocols import secagg


class Net(nn.Module):
    """Every kind of tensor that a state_dict usually has."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(5, 4)
        self.norm = nn.BatchNorm1d(4)
        self.narrow = nn.Linear(4, 2, dtype=torch.bfloat16)
        self.wide = nn.Parameter(torch.randn(3, 2, dtype=torch.float64).T)
        self.lora_a = nn.Parameter(torch.randn(4, 2))
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.tensor(1.5, dtype=torch.float16))
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("none", torch.zeros(0))
        self.embed.weight.requires_grad_(False)


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype
        assert one[name].shape == other[name].shape
        assert one[name].device == other[name].device
        assert torch.equal(one[name], other[name]), name


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


# The two halves of a training loop


def play(server, clients, gone=()):
    """Carry bytes between the parties until the mean is there."""
    while not server.done:
        for index in server.waiting_for():
            if (index, server.party.phase.title) in gone:
                clients.pop(index)
            if index in clients:
                server.receive(index, clients[index].answer(server.message_for(index)))
                clients[index].delivered()
        server.close()


def averager_of(layout, clients=5, **more):
    settings = {"clip": 2.0, "value_bits": 24, "corrupt": 0.0, "dropout": 0.2} | more
    return SecureAverager.recommend(layout, clients=clients, **settings)


@pytest.mark.parametrize("threat", ["semi-honest", "active", "semi-malicious"])
def test_a_round_of_updates(threat):
    size = 8 if threat == "semi-malicious" else 5
    model = Net()
    before = copy.deepcopy(model.state_dict())
    layout = Layout.of(tensors(model, names=["lora_*", "wide", "norm.*"]))
    more, signers = {"threat": threat}, [None] * size
    server_more, policy = {}, None
    if threat == "semi-malicious":
        more |= {"graph": "sparse", "neighbours": 6, "threshold": 4, "sigma": 1, "eta": 1}
    if threat != "semi-honest":
        signers = [keys.Identity.generate() for _ in range(size)]
        roster = secagg.Roster(one.public for one in signers)
        server_more = {"roster": roster}
    averager = averager_of(layout, size, weighted=True, max_weight=70, **more)
    if threat != "semi-honest":
        policy = secagg.Policy.of(averager.params, roster)
    server = averager.server(model, **server_more)
    clients, updates = {}, []
    for index in range(size):
        local = Net(index + 1)
        local.norm.running_mean.fill_(index)
        updates.append(layout.flatten(local).astype(float) - layout.flatten(before))
        clients[index] = averager.client(policy=policy, identity=signers[index])
        clients[index].update(before, local, weight=10 * index)
    play(server, clients, gone={(3, "masked-input")})
    stayed = [index for index in range(size) if index != 3]
    weights = 10.0 * np.array(stayed)
    expected = np.clip(np.array(updates)[stayed], -2, 2).T @ weights / weights.sum()
    bound = averager.params.encoding.step * 1.1
    frozen = {n: t.clone() for n, t in model.state_dict().items() if n not in layout.names}
    start = layout.flatten(model)
    server.apply(model)
    np.testing.assert_allclose(layout.flatten(model), start + expected, atol=bound + 1e-6)
    same({name: model.state_dict()[name] for name in frozen}, frozen)
    for held in (clients[0], server.party):
        with pytest.raises(TypeError):
            pickle.dumps(held)


def test_a_round_of_gradients_makes_the_optimisers_step():
    model = nn.Linear(3, 2)
    layout = Layout.of(model)
    averager = averager_of(layout, 3)
    server = averager.server(model)
    clients, expected = {}, []
    for index in range(3):
        local = copy.deepcopy(model)
        local(torch.full((1, 3), 0.1 * (index + 1))).sum().backward()
        expected.append(local.weight.grad.clone())
        clients[index] = averager.client()
        clients[index].gradient(local)
    play(server, clients)
    before = model.weight.detach().clone()
    server.set_gradients(model)
    torch.optim.SGD(model.parameters(), 1.0).step()
    torch.testing.assert_close(
        model.weight.detach(), before - torch.stack(expected).mean(0), atol=1e-5, rtol=0
    )


def test_gradients_of_a_module_that_learns_in_its_forward_pass():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    layout = Layout.of(tensors(model, trainable_only=True))
    averager = averager_of(layout, 3, clip=20.0)
    server = averager.server(model)
    clients, expected = {}, []
    for index in range(3):
        local = copy.deepcopy(model)
        local(torch.eye(3) * (index + 1)).pow(2).sum().backward()
        expected.append(layout.flatten(adapter.gradients(local)))
        clients[index] = averager.client()
        with pytest.raises(UsageError, match="before: found none, where 1 has changed"):
            clients[index].gradient(local)
        clients[index].gradient(local, before=model.state_dict())
    play(server, clients)
    np.testing.assert_allclose(layout.flatten(server.mean()), np.mean(expected, 0), atol=1e-5)
    model.eval()
    averager.client().gradient(model, missing="zero")


@pytest.mark.parametrize("other", [{"names": "?"}, {"where": lambda name, _: name != "a"}])
def test_parties_that_take_other_tensors_get_no_sum(other):
    """Two of three tensors of one size, or all in another order: the vectors are as long."""
    base = nn.ParameterDict({name: nn.Parameter(torch.zeros(30)) for name in "abc"})
    ours, theirs = tensors(base, where=lambda name, _: name != "c"), tensors(base, **other)
    if len(theirs) == 3:
        ours, theirs = dict(theirs), dict(reversed(theirs.items()))
    averagers = [averager_of(Layout.of(taken), 3) for taken in (ours, ours, theirs)]
    server, clients = averagers[0].server(base), {}
    after = {name: torch.full((30,), 0.1 * place) for place, name in enumerate("abc")}
    for index, averager in enumerate(averagers):
        clients[index] = averager.client()
        clients[index].update(base, after)
    mixed = averagers[0].layout.flatten(after) * 2 + averagers[2].layout.flatten(after)
    with suppress(PeerError):  # noise may also be no sum at all
        play(server, clients)
        found = averagers[0].layout.flatten(server.mean())
        assert np.abs(found - mixed / 3).max() > 0.1


def shown_another_model(**more):
    """One of four clients is given other weights, in a frozen tensor that is not averaged."""
    model = Net()
    layout = Layout.of(tensors(model, names="lora_*"))
    averager = averager_of(layout, 4, dropout=0.0, **more)
    identities = [keys.Identity.generate() for _ in range(4)] if more else [None] * 4
    roster = secagg.Roster(one.public for one in identities) if more else None
    server, clients = averager.server(model, roster=roster), {}
    for index, identity in enumerate(identities):
        before = copy.deepcopy(model.state_dict())
        if index == 2:
            before["embed.weight"][0, 0] += 1
        policy = secagg.Policy.of(averager.params, roster) if more else None
        clients[index] = averager.client(policy=policy, identity=identity)
        after = copy.deepcopy(before)
        after["lora_a"] += 0.25
        clients[index].update(before, after)
    play(server, clients)
    return server.mean()["lora_a"]


def test_masks_of_clients_with_different_models_do_not_cancel():
    with suppress(PeerError):  # noise may also be no sum at all
        assert (shown_another_model() - 0.25).abs().max() > 0.1


def test_signatures_tell_that_models_were_different():
    with pytest.raises(PeerError, match="sign"):
        shown_another_model(threat="active")


def test_too_few_clients_are_an_abort():
    model = nn.Linear(2, 2)
    averager = averager_of(Layout.of(model), 5)
    server, clients = averager.server(model), {}
    for index in range(2):
        clients[index] = averager.client()
        clients[index].gradient(model, missing="zero")
    with pytest.raises(Abort):
        play(server, clients)


def test_misuse_of_the_halves():
    model = nn.Linear(2, 2)
    layout = Layout.of(model)
    averager = averager_of(layout, 3)
    client = averager.client()
    with pytest.raises(UsageError, match="the same memory as after"):
        client.update(model.state_dict(), model)
    client.update(copy.deepcopy(model.state_dict()), model)
    with pytest.raises(UsageError, match="a second one"):
        client.gradient(model, missing="zero")
    with pytest.raises(UsageError, match="result"):
        averager.server(model).mean()
    with pytest.raises(UsageError, match=r"dim=6"):
        SecureAverager(secagg.Params.recommend(clients=3, dim=5, clip=1.0), layout)
    with pytest.raises(UsageError, match="floats"):
        SecureAverager(secagg.Params.recommend(clients=3, dim=6), layout)
    with pytest.raises(UsageError, match="Layout of floats"):
        SecureAverager(averager.params, Layout.of({"x": torch.ones(6).int()}, kind="integer"))
    server, late = averager.server(model), [averager.client() for _ in range(3)]
    with pytest.raises(UsageError, match=r"update: found none"):
        play(server, dict(enumerate(late)))
    reply = averager.client().answer(averager.server(model).message_for(0))
    with pytest.raises(PeerError, match="only clients send"):
        averager.client().answer(reply)
