"""A model with every kind of tensor, and how two states are compared."""

from __future__ import annotations

import torch
from torch import nn


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
