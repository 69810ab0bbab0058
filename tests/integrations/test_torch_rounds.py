"""The two halves of a training loop: updates and gradients by a real round."""

from __future__ import annotations

import copy
import pickle
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn
from torch_models import Net, same

from privagg import keys
from privagg.errors import Abort, PeerError, UsageError
from privagg.integrations import torch as adapter
from privagg.integrations.torch import Layout, SecureAverager, tensors
from privagg.protocols import secagg


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
