"""The driver of an asynchronous session: clients that come and go, one buffer after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg._validate import whole
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
    vector: NDArray[Any] = field(repr=False)


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

    checked = [_checked(one, size) for one in _listed("arrivals", arrivals)]
    waiting = sorted({(one.fetched, one.client) for one in checked})
    there = None
    if answering is not None:
        there = [
            sorted({whole("answering", one, 0, size - 1) for one in _listed("answering", some)})
            for some in _listed("answering", answering)
        ]
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

    results: list[BufferResult] = []
    for arrival in checked:
        # Who has fetched the model by now has shared its mask of that round.
        while waiting and waiting[0][0] <= server.now:
            time, index = waiting.pop(0)
            share(index, time)
        if arrival.fetched > server.now:
            raise UsageError(
                "arrivals: fetched",
                arrival.fetched,
                f"the round it arrives in, {server.now}, or before",
            )
        dated = clients[arrival.client].masked_input(arrival.fetched, arrival.vector)
        if not server.take_input(arrival.client, carry(dated, arrival.client)):
            continue
        request = server.request()
        if there is not None and len(results) >= len(there):
            raise UsageError(
                "answering", f"{len(there)} buffers", "the clients of each full buffer"
            )
        for index in range(size) if there is None else there[len(results)]:
            total = clients[index].unmasking(carry(request, "server"))
            server.take_sum(index, carry(total, index))
        results.append(server.unmask())
        for client in clients:
            client.forget(server.now - params.max_staleness)
    return results


def _listed(name: str, values: object) -> list[Any]:
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        raise UsageError(name, type(values).__name__, "a sequence")
    return list(values)


def _checked(arrival: object, clients: int) -> Arrival:
    if not isinstance(arrival, Arrival):
        raise UsageError("arrivals", type(arrival).__name__, "lightsecagg.Arrival objects")
    return Arrival(
        client=whole("arrivals: client", arrival.client, 0, clients - 1),
        fetched=whole("arrivals: fetched", arrival.fetched, 0, 2**32 - 1),
        vector=arrival.vector,
    )
