"""The table, the model and its training: nothing here knows of federation but the shards."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privagg import datasets

__all__ = ["Shard", "accuracy", "held_out", "initial", "shard", "train"]

LABEL = "income"
HELD_OUT = 9000
"""Rows that no node has: the server measures accuracy on them."""

STEPS, LEARNING_RATE = 20, 0.5

Shard = tuple[NDArray[np.float32], NDArray[np.float32]]
Model = dict[str, NDArray[np.float32]]


@lru_cache(maxsize=1)
def _table() -> Shard:
    """Return the features, one-hot and standardised, and the labels, in a fixed random order."""
    table = datasets.load("adult")
    parts = []
    for name in table.column_names:
        if name == LABEL:
            continue
        column = table[name].combine_chunks()
        if pa.types.is_dictionary(column.type):
            codes = column.indices.to_numpy()
            parts.append(np.eye(len(column.dictionary), dtype=np.float32)[codes])
        else:
            values = column.to_numpy().astype(np.float32)
            parts.append(((values - values.mean()) / values.std())[:, None])
    labels = table[LABEL].combine_chunks()
    rich = labels.indices.to_numpy() == labels.dictionary.to_pylist().index(">50K")
    order = np.random.default_rng(1).permutation(len(rich))
    return np.concatenate(parts, axis=1)[order], rich.astype(np.float32)[order]


def shard(node: int, nodes: int) -> Shard:
    """Return the rows of one node; shards are of different sizes."""
    features, labels = _table()
    ends = HELD_OUT + np.cumsum(np.arange(nodes + 1)) * (len(labels) - HELD_OUT) // (
        nodes * (nodes + 1) // 2
    )
    rows = slice(int(ends[node]), int(ends[node + 1]))
    return features[rows], labels[rows]


def held_out() -> Shard:
    """Return the rows that no node has."""
    features, labels = _table()
    return features[:HELD_OUT], labels[:HELD_OUT]


def initial() -> Model:
    """Return the model that training starts from."""
    width = _table()[0].shape[1]
    return {"weight": np.zeros(width, np.float32), "bias": np.zeros(1, np.float32)}


def train(model: Model, data: Shard) -> tuple[Model, float]:
    """Return the model after some steps of gradient descent on the node's rows, and its loss."""
    features, labels = data
    weight, bias = model["weight"].copy(), model["bias"].copy()
    for _ in range(STEPS):
        error = _probability(features, weight, bias) - labels
        weight -= LEARNING_RATE * (features.T @ error) / len(labels)
        bias -= LEARNING_RATE * error.mean()
    chance = np.clip(_probability(features, weight, bias), 1e-7, 1 - 1e-7)
    loss = -np.mean(labels * np.log(chance) + (1 - labels) * np.log(1 - chance))
    return {"weight": weight, "bias": bias}, float(loss)


def accuracy(model: Model, data: Shard) -> float:
    """Return the share of rows whose label the model says."""
    features, labels = data
    said = _probability(features, model["weight"], model["bias"]) > 0.5
    return float(np.mean(said == (labels > 0.5)))


def _probability(
    features: NDArray[np.float32], weight: NDArray[np.float32], bias: NDArray[np.float32]
) -> NDArray[np.float32]:
    return np.asarray(1 / (1 + np.exp(-(features @ weight + bias))), np.float32)
