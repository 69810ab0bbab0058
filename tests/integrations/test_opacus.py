"""DP-SGD on clients: the noise's convention, and an account over all rounds."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from privagg.errors import UsageError
from privagg.integrations.torch import Layout, SecureAverager

pytest.importorskip("opacus", reason="the extra 'torch' is not installed")
from privagg.integrations.opacus import BudgetSpent, PrivateClient, Spent, noise_in_sum, total

# Opacus puts hooks on modules whose inputs need no gradient, as the first layer's never do.
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")


def client_of(**more):
    return PrivateClient(**{"noise_multiplier": 1.5, "max_grad_norm": 0.5, "delta": 1e-5} | more)


def prepared(client, model=None, examples=40, batch=10, inputs=None):
    model = nn.Linear(6, 3) if model is None else model
    data = torch.randn(examples, 6) if inputs is None else inputs
    loader = DataLoader(TensorDataset(data, torch.zeros(len(data))), batch_size=batch)
    return client.prepare(model, torch.optim.SGD(model.parameters(), 1.0), loader)


def train(made, steps=None):
    taken = 0
    while steps is None or taken < steps:
        for x, _ in made.loader:
            made.optimizer.zero_grad()
            made.model(x).square().sum().backward()
            made.optimizer.step()
            taken += 1
            if steps is not None and taken == steps:
                break
        if steps is None:
            break
    return taken


def test_the_noise_is_on_the_sum_and_in_units_of_the_clip():
    """Examples without a gradient: what is left of a step is the noise over the mean batch."""
    torch.manual_seed(1)
    client = client_of(noise_multiplier=3.0, max_grad_norm=0.25)
    model = nn.Linear(6, 20000, bias=False)
    with torch.no_grad():
        model.weight.zero_()
    made = prepared(client, model, batch=10)
    train(made, 1)
    step = model.weight.detach()  # learning rate 1, start 0
    assert float(step.std() * 10) == pytest.approx(3.0 * 0.25, rel=0.02)


def test_gradients_of_examples_are_clipped_one_by_one():
    client = client_of(noise_multiplier=1e-6, max_grad_norm=0.5)
    model = nn.Linear(6, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    inputs = torch.eye(6) * 100  # each example's gradient is long and along an axis of its own
    made = prepared(client, model, batch=6, inputs=inputs)
    train(made, 1)  # sample rate 1: all six
    torch.testing.assert_close(
        model.weight.detach(), torch.full((1, 6), 1.0 - 0.5 / 6), atol=1e-4, rtol=0
    )


@pytest.mark.parametrize("accountant", ["rdp", "prv"])
def test_one_account_over_all_rounds(accountant):
    client = client_of(accountant=accountant)
    assert client.spent() == Spent(epsilon=0.0, delta=1e-5, steps=0, accountant=accountant)
    model = nn.Linear(6, 3)
    foreseen = client.check(steps=8, sample_rate=0.25)
    seen = []
    for _ in range(2):
        local = copy.deepcopy(model)  # a round starts from the shared model, with a new optimiser
        assert train(prepared(client, local)) == 4
        seen.append(client.spent())
    assert [one.steps for one in seen] == [4, 8]
    assert 0 < seen[0].epsilon < seen[1].epsilon
    assert seen[1].epsilon == pytest.approx(foreseen.epsilon)
    twin = client_of(accountant=accountant)
    twin.load_state(client.state())
    assert twin.spent() == client.spent()
    assert "8 steps" in str(seen[1])


def test_one_full_step_is_the_gaussian_mechanism():
    """Sensitivity C, noise 1.5 C: the RDP bound must be above the exact curve, and near it."""
    client = client_of(noise_multiplier=1.5)
    found = client.check(steps=1, sample_rate=1.0).epsilon

    def exact(epsilon, sigma=1.5):
        def phi(x):
            return 0.5 * math.erfc(-x / math.sqrt(2))

        half = 1 / (2 * sigma)
        return phi(half - epsilon * sigma) - math.exp(epsilon) * phi(-half - epsilon * sigma)

    assert exact(found) <= 1e-5
    assert exact(found * 0.85) > 1e-5


def test_a_budget_stops_before_it_is_exceeded():
    client = client_of(max_epsilon=3.0)
    assert client.check(steps=4, sample_rate=0.25).epsilon <= 3.0
    with pytest.raises(BudgetSpent, match="budget is 3") as caught:
        client.check(steps=4000, sample_rate=0.25)
    assert caught.value.epsilon > 3.0
    assert client.spent().steps == 0


def test_totals_over_clients():
    one = Spent(epsilon=1.0, delta=1e-6, steps=4, accountant="rdp")
    two = Spent(epsilon=3.0, delta=1e-6, steps=8, accountant="rdp")
    apart, shared = total([one, two]), total([one, two], shared=True)
    assert (apart.epsilon, apart.delta, apart.steps, apart.clients) == (3.0, 1e-6, 8, 2)
    assert (shared.epsilon, shared.delta) == (4.0, 2e-6)
    assert shared.adjacency != apart.adjacency
    for wrong in ([], [1.0], None):
        with pytest.raises(UsageError, match="accounts"):
            total(wrong)
    with pytest.raises(UsageError, match="several adjacencies"):
        total([one, shared])


def test_noise_in_the_sum_of_a_round():
    """Measured: clients without gradients, one step each, aggregated and added up."""
    torch.manual_seed(2)
    model = nn.Linear(6, 2000, bias=False)
    with torch.no_grad():
        model.weight.zero_()
    layout = Layout.of(model)
    averager = SecureAverager.recommend(
        layout, clients=9, clip=2.0, value_bits=24, corrupt=0.0, dropout=0.0
    )
    server, halves = averager.server(model), []
    before = copy.deepcopy(model.state_dict())
    for _ in range(9):
        made = prepared(client_of(noise_multiplier=2.0), copy.deepcopy(model))
        train(made, 1)
        halves.append(averager.client())
        halves[-1].update(before, made.model)  # seen through the wrapper
    while not server.done:
        for index in server.waiting_for():
            server.receive(index, halves[index].answer(server.message_for(index)))
        server.close()
    deviation = float(server.mean()["weight"].std()) * 9 * 10 / 0.5
    assert deviation == pytest.approx(noise_in_sum(2.0, 9), rel=0.03)
    assert noise_in_sum(2.0, 9) == 6.0


@pytest.mark.parametrize(
    "changes",
    [
        *({"noise_multiplier": z} for z in (0, -1, math.inf, math.nan, True, "1", None)),
        {"max_grad_norm": 0.0},
        *({"delta": delta} for delta in (0.0, 1.0, -0.1)),
        {"accountant": "gdp"},
        {"max_epsilon": 0},
        {"secure_mode": 1},
    ],
    ids=str,
)
def test_arguments_are_checked(changes):
    with pytest.raises(UsageError, match=next(iter(changes))):
        client_of(**changes)


def test_models_that_have_no_gradients_of_examples_are_refused():
    client = client_of()
    with pytest.raises(UsageError, match="Group norm"):
        prepared(client, nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)))
    made = prepared(client)
    with pytest.raises(UsageError, match="not wrapped yet"):
        client.prepare(*made)


def test_accounts_that_forget_are_refused():
    client = client_of()
    train(prepared(client), 3)
    state = client.state()
    for wrong in (
        None,
        {},
        state | {"accountant": "prv"},
        state | {"history": []},
        state | {"history": [[1.0, 0.5]]},
        state | {"history": [[0.0, 0.5, 9]]},
    ):
        with pytest.raises(UsageError, match="state"):
            client.load_state(wrong)
    assert client.spent().steps == 3
    with pytest.raises(TypeError):
        pickle.dumps(client)


def test_an_accountant_without_an_answer_is_named():
    client = client_of(noise_multiplier=0.01, accountant="prv")
    with pytest.raises(UsageError, match=r"accountant: found prv.*accountant='rdp'"):
        client.check(steps=1, sample_rate=1.0)
