"""Federated averaging with secure aggregation, beside the plain mean of the same updates.

    pip install 'privagg[torch]'
    python examples/torch_federated.py

Clients hold rows of a bundled table and train a logistic regression each; the server learns the
mean of what they changed, weighted by their numbers of rows, and neither an update nor a number of
rows. Some clients leave in every round. The loop is a plain one; a network would be in `carry`.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import nn

from privagg import datasets
from privagg.integrations.torch import AveragingClient, AveragingServer, Layout, SecureAverager

CLIENTS, ROUNDS, MAX_ROWS = 12, 4, 4000


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    """Return features and labels: who of the census table earns more than 50 000 a year."""
    table = datasets.load("adult")
    columns = []
    for name in ("age", "hours_per_week"):
        values = np.asarray(table[name].to_pylist(), np.float32)
        columns.append((values - values.mean()) / values.std())
    for name in ("sex", "marital_status", "education"):
        words = np.asarray(table[name].to_pylist())
        columns += [(words == word).astype(np.float32) for word in np.unique(words)[:-1]]
    labels = np.asarray([">50K" in str(word) for word in table["income"].to_pylist()], np.float32)
    return torch.from_numpy(np.stack(columns, 1)), torch.from_numpy(labels)


def train(model: nn.Module, features: torch.Tensor, labels: torch.Tensor) -> None:
    """Train a few steps on one client's rows."""
    optimizer = torch.optim.SGD(model.parameters(), 2.0)
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(features)[:, 0], labels)
        loss.backward()
        optimizer.step()


def accuracy(model: nn.Module, features: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the share of rows that the model is right about."""
    with torch.no_grad():
        return float(((model(features)[:, 0] > 0) == (labels > 0.5)).float().mean())


def main() -> dict[str, float]:
    """Train, print the accuracy after each round, and return the last."""
    torch.manual_seed(0)
    features, labels = rows()
    order = torch.randperm(len(labels))
    test, rest = order[:5000], order[5000:]
    bounds = torch.randperm(len(rest) - 1)[: CLIENTS - 1].sort().values + 1
    parts = [part[:MAX_ROWS] for part in rest.tensor_split(bounds)]  # unequal ones

    model = nn.Linear(features.shape[1], 1)
    plain = copy.deepcopy(model)
    averager = SecureAverager.recommend(
        Layout.of(model), clients=CLIENTS, clip=2.0, weighted=True, max_weight=MAX_ROWS, dropout=0.2
    )
    for number in range(ROUNDS):
        gone = {number % CLIENTS, (number + 5) % CLIENTS}
        before = copy.deepcopy(model.state_dict())
        clients, means = {}, []
        for index, part in enumerate(parts):
            local = copy.deepcopy(model)
            train(local, features[part], labels[part])
            clients[index] = averager.client()
            clients[index].update(before, local, weight=len(part))
            twin = copy.deepcopy(plain)
            train(twin, features[part], labels[part])
            if index not in gone:
                means.append((len(part), twin.state_dict()))
        server = averager.server(model, round_number=number)
        carry(server, clients, gone)
        server.apply(model)
        weight = sum(count for count, _ in means)
        plain.load_state_dict(
            {name: sum(n * state[name] for n, state in means) / weight for name in before}
        )
        found = accuracy(model, features[test], labels[test])
        beside = accuracy(plain, features[test], labels[test])
        print(
            f"round {number + 1}: accuracy {found:.4f} by secure mean, {beside:.4f} by plain mean"
        )
    pairs = zip(model.parameters(), plain.parameters(), strict=True)
    furthest = max(float((one - other).detach().abs().max()) for one, other in pairs)
    print(f"largest difference of a parameter: {furthest:.2g}")
    return {"secure": found, "plain": beside, "difference": furthest}


def carry(server: AveragingServer, clients: dict[int, AveragingClient], gone: set[int]) -> None:
    """Carry bytes between the parties; some clients leave before they send their update."""
    while not server.done:
        for index in server.waiting_for():
            if server.party.phase.title == "masked-input" and index in gone:
                continue
            server.receive(index, clients[index].answer(server.message_for(index)))
        server.close()


if __name__ == "__main__":
    main()
