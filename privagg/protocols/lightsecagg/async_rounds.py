"""The driver of an asynchronous session: clients that come and go, one buffer after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg.errors import UsageError
from privagg.protocols._common.framing import Framed
from privagg.protocols.lightsecagg import async_messages
from privagg.protocols.lightsecagg.async_client import AsyncClient
from privagg.protocols.lightsecagg.async_params import AsyncParams
from privagg.protocols.lightsecagg.async_server import AsyncServer, BufferResult
from privagg.protocols.lightsecagg.params import Params

__all__ = ["Arrival", "run_async"]


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """An input that reaches the server.

    Attributes
    ----------
    client : int
        Whose it is.
    fetched : int
        The round in which the client fetched the model and shared its mask.
    vector : (dim,) array
        Its numbers.
    """

    client: int
    fetched: int
    vector: NDArray[Any]


def run_async(
    params: AsyncParams,
    arrivals: Sequence[Arrival],
    *,
    answering: Iterable[Iterable[int]] | None = None,
    seed: int | None = None,
) -> list[BufferResult]:
    """Run a session with all its parties in this process; return a result per full buffer.

    Every message is encoded and decoded on its way. Guarantee: that of :class:`AsyncClient`.

    Parameters
    ----------
    params : AsyncParams
        The session.
    arrivals : sequence of Arrival
        In the order in which they reach the server, which starts a round when a buffer is full.
        What is left of the last buffer is not unmasked.
    answering : iterable of iterables of int, optional
        Per buffer the clients that are there to unmask it; by default all.
    seed : int, optional
        Makes the session repeatable and **insecure**; the results say so.

    Raises
    ------
    UsageError
        If an arrival does not fit the parameters.
    PeerError, Abort
        As the parties do: an arrival that is too stale, too few that answer.
    """
    if not isinstance(params, AsyncParams):
        raise UsageError("params", type(params).__name__, "lightsecagg.AsyncParams")
    source, size = entropies.from_seed(seed), params.round.clients

    def carry(message: Framed[Params], peer: int | str) -> Any:
        return async_messages.decode(message.encode(), params.round, peer=peer)

    server = AsyncServer(params, entropy=source.spawn("server"))
    clients = [AsyncClient(params, entropy=source.spawn(f"client/{i}")) for i in range(size)]
    for index, client in enumerate(clients):
        key = client.advertise_keys(carry(server.start(index), "server"))
        server.take_key(index, carry(key, index))
    roster = server.roster()
    for client in clients:
        client.join(carry(roster, "server"))

    def share(index: int, time: int) -> None:
        shares = carry(clients[index].share_mask(time), index)
        for peer, one in server.relay(index, shares).items():
            clients[peer].take_share(carry(one, "server"))

    waiting = sorted({(one.fetched, one.client) for one in arrivals if _fits(one, size)})
    results: list[BufferResult] = []
    present = iter(answering) if answering is not None else None
    for arrival in arrivals:
        # Who has fetched the model by now has shared its mask of that round.
        while waiting and waiting[0][0] <= server.now:
            time, index = waiting.pop(0)
            share(index, time)
        dated = clients[arrival.client].masked_input(arrival.fetched, np.asarray(arrival.vector))
        if not server.take_input(arrival.client, carry(dated, arrival.client)):
            continue
        request = server.request()
        for index in range(size) if present is None else next(present):
            total = clients[index].unmasking(carry(request, "server"))
            server.take_sum(index, carry(total, index))
        results.append(server.unmask())
        for client in clients:
            client.forget(server.now - params.max_staleness)
    return results


def _fits(arrival: Arrival, clients: int) -> bool:
    for name, value, high in (
        ("client", arrival.client, clients),
        ("fetched", arrival.fetched, 2**32),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < high:
            raise UsageError(f"arrivals: {name}", value, f"0 to {high - 1}")
    return True
