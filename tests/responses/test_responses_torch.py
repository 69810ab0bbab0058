"""Networks trained on bags: the losses against NumPy's, and digits."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.integrations.torch_responses import AggregateModule, aggregate_loss, bag_log_means
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.losses import Categorical, Grouped, interpolated
from privagg.protocols.responses.targets import easy_targets


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("loss", "rho", "at"), [("bag", 0.5, 0.0), ("instance", 0.5, 1.0), ("interpolate", 0.3, 0.3)]
)
def test_losses_and_gradients_are_numpys(rng, loss, rho, at):
    bags = Bags.given(np.repeat(range(4), [1, 3, 5, 2]))
    z, shares = rng.normal(size=(11, 3)), rng.dirichlet(np.ones(3), size=4)
    logits = torch.tensor(z, requires_grad=True)
    bag = torch.from_numpy(bags.labels[:, 0].astype(np.int64))
    value = aggregate_loss(logits, bag, torch.tensor(shares), loss=loss, rho=rho)
    value.backward()
    expected, gradient = interpolated(Categorical(), Grouped(bags), shares, z, at)
    assert value.item() == pytest.approx(expected)
    assert np.allclose(logits.grad.numpy(), gradient)


def test_easyllp_is_the_cross_entropy_with_debiased_targets(rng):
    bags = Bags.given(np.repeat(range(4), [1, 3, 5, 2]))
    z, shares, prior = rng.normal(size=(11, 2)), rng.dirichlet(np.ones(2), size=4), [0.3, 0.7]
    bag = torch.from_numpy(bags.labels[:, 0].astype(np.int64))
    value = aggregate_loss(
        torch.tensor(z), bag, torch.tensor(shares), loss="easyllp", prior=torch.tensor(prior)
    )
    targets = easy_targets(shares, bags.sizes, np.array(prior))[bags.labels[:, 0]]
    expected, _ = Categorical().instance(targets, z, Categorical().mean(z))
    assert value.item() == pytest.approx(expected.mean())


def test_mean_probabilities_do_not_underflow():
    rows = torch.log_softmax(torch.tensor([[2000.0, 0.0], [2010.0, 0.0]], dtype=torch.float64), 1)
    rows.requires_grad_()
    found = bag_log_means(rows, torch.zeros(2, dtype=torch.int64), torch.tensor([2]))
    assert found[0, 1].item() == pytest.approx(-2000 - np.log(2) + np.log1p(np.exp(-10)))
    found.sum().backward()
    assert torch.isfinite(rows.grad).all()


def network(width=64, outputs=1):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, outputs)
    )


def digits(size, seed, classes=2):
    x, y = load_digits(return_X_y=True)
    x, y = (x / 16).astype(np.float32), y % classes
    a, b, ya, yb = train_test_split(x, y, test_size=0.3, stratify=y, random_state=seed)
    return a, b, ya, yb, Bags.random(len(a), size, from_seed(seed))


def test_odd_digits_are_learnt_from_shares_of_bags_of_5():
    """The sweep below has what more epochs and a wider network reach."""
    a, b, ya, yb, bags = digits(5, 0)
    model = AggregateModule(network(128)).fit(
        a, bags, bags.means(ya), epochs=20, weight_decay=0.1, seed=0
    )
    assert (model.predict(b) == yb).mean() > 0.89
    assert model.predict_proba(b).shape == (len(b), 2)


@pytest.mark.sweep
def test_digits_reach_what_is_documented():
    scores = []
    for seed in range(4):
        a, b, ya, yb, bags = digits(5, seed)
        model = AggregateModule(network(256))
        model.fit(a, bags, bags.means(ya), weight_decay=0.1, seed=seed)
        scores.append((model.predict(b) == yb).mean())
    assert np.mean(scores) >= 0.975


def test_three_classes_from_counts_and_names():
    a, b, ya, yb, bags = digits(4, 1, classes=3)
    counts = dict(enumerate(bags.sums(np.eye(3)[ya]).tolist()))
    model = AggregateModule(network(64, 3), loss="interpolate", rho=0.1)
    model.fit(a, bags, counts, aggregate="sum", epochs=20, seed=0)
    assert (model.predict(b) == yb).mean() > 0.85


def test_what_cannot_be_trained_is_refused(rng):
    x, bags = rng.normal(size=(8, 64)).astype(np.float32), Bags.random(8, 2, from_seed(1))
    wrong = {
        "outside": (AggregateModule(network()), np.full(4, 1.5), {}),
        "add up": (AggregateModule(network(8, 3)), np.full((4, 3), 0.5), {}),
        "lower bound": (
            AggregateModule(network(), loss="easyllp"),
            np.ones(4),
            {"weight_decay": 0},
        ),
        "epochs": (AggregateModule(network()), np.ones(4), {"epochs": 0}),
        "prior": (AggregateModule(network(), loss="easyllp", prior=[1.0]), np.ones(4), {}),
        "logits": (AggregateModule(network(8, 3)), np.ones(4), {}),
    }
    for reason, (model, responses, settings) in wrong.items():
        with pytest.raises(UsageError, match=reason):
            model.fit(x, bags, responses, **settings)
    for settings in ({"loss": "other"}, {"rho": -1.0}):
        with pytest.raises(UsageError):
            AggregateModule(network(), **settings)
    AggregateModule(network(), loss="easyllp").fit(x, bags, np.full(4, 1.5), epochs=1)
