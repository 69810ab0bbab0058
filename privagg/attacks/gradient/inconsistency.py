"""A server that gives clients different models, through real secure aggregation rounds.

Secure aggregation hides summands if there are several. A server that gives all clients but its
victim a model whose layer is dead (large negative biases: the ReLU is off for every input) gets
zeros from them, and the sum is the victim's gradient: Pasquini, Francati, Ateniese, "Eluding Secure
Aggregation in Federated Learning via Model Inconsistency", CCS 2022.

The defeat is to bind masks to the model's digest: clients that were given other weights add masks
that do not cancel, and the server has noise. The rounds here are real ones, with the digest or
without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg._validate import whole
from privagg.errors import PrivaggError, UsageError
from privagg.protocols import secagg

__all__ = ["Inconsistency", "inconsistent_round"]


@dataclass(frozen=True)
class Inconsistency:
    """What the server had at the end of a round.

    Attributes
    ----------
    seen : (d,) float array, optional
        The sum, if the round ended with one.
    refused : str
        Why it did not; empty if it did.
    error : float
        Norm of its difference to the victim's vector, over the victim's norm; infinite without.
    """

    seen: NDArray[np.float64] | None = field(repr=False)
    refused: str
    error: float

    @property
    def isolates(self) -> bool:
        """Whether the server has the victim's vector, up to one part in a hundred."""
        return self.error < 0.01


def inconsistent_round(
    vectors: Sequence[NDArray[np.floating]],
    digests: Sequence[bytes],
    victim: int,
    *,
    value_bits: int = 24,
    seed: int = 0,
) -> Inconsistency:
    """Play a semi-honest round in which each client binds its masks to the model it was given.

    Parameters
    ----------
    vectors : sequence of n (d,) float arrays
        What each client sends: its gradient of the model that it was given.
    digests : sequence of n bytes
        Digest of that model (:func:`privagg.protocols.secagg.model_digest`), or all empty: then
        nothing is bound.
    victim : int
        Whose vector the server wants; the server takes the victim's digest for its own.
    value_bits : int
        Of the fixed-point encoding.
    seed : int
        The demonstration is repeatable, and its masks insecure.

    Raises
    ------
    UsageError
        If there are too few vectors, or not as many digests.
    """
    count = len(vectors)
    if count < 2 or len(digests) != count:
        raise UsageError("digests", len(digests), f"one for each of 2 or more vectors ({count})")
    target = whole("victim", victim, 0, count - 1)
    wanted = np.asarray(vectors[target], np.float64)
    bound = max(float(np.abs(v).max()) for v in vectors) or 1.0
    params = secagg.Params.recommend(
        clients=count,
        dim=len(wanted),
        value_bits=value_bits,
        clip=bound,
        corrupt=0.0,
        dropout=0.0,
    )
    source = entropies.from_seed(seed)
    server = secagg.Server(params, model=digests[target], entropy=source.spawn("server"))
    clients = [
        secagg.Client(params, entropy=source.spawn(f"client/{index}")) for index in range(count)
    ]
    steps: list[Any] = [
        lambda client, message, index: client.advertise_keys(message),
        lambda client, message, index: client.share_keys(message),
        lambda client, message, index: client.masked_input(
            message, vectors[index], model=digests[index]
        ),
        lambda client, message, index: client.unmasking(message),
    ]
    try:
        for step in steps:
            for index, client in enumerate(clients):
                server.receive(index, step(client, server.message_for(index), index))
            server.close()
        seen = np.asarray(server.result().total, np.float64)
    except PrivaggError as error:
        return Inconsistency(None, str(error), float("inf"))
    size = float(np.linalg.norm(wanted)) or 1.0
    return Inconsistency(seen, "", float(np.linalg.norm(seen - wanted)) / size)
