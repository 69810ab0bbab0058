"""The extra ``torch``: a mean of models, and one private step through Opacus."""

import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from privagg.integrations.opacus import PrivateClient
from privagg.integrations.torch import secure_mean

found = secure_mean([nn.Linear(4, 2) for _ in range(4)], value_bits=20)
assert found.result.exact

data = TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,)))
private = PrivateClient(noise_multiplier=1.2, max_grad_norm=1.0, delta=1e-3, max_epsilon=8.0)
model = nn.Linear(4, 2)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of hooks on a first layer
    made = private.prepare(
        model, torch.optim.SGD(model.parameters(), 0.1), DataLoader(data, batch_size=16)
    )
    for x, y in made.loader:
        made.optimizer.zero_grad()
        nn.functional.cross_entropy(made.model(x), y).backward()
        made.optimizer.step()
print(f"mean of {found.result.count} models; epsilon spent {private.spent().epsilon:.2f}")
