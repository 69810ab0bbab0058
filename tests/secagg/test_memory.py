"""The server's memory is O(dim + edges): never a vector per client, nor an object per edge."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest
from parties import BOTH, FREE, Play, complete, sparse

from privagg.errors import Abort
from privagg.protocols import secagg
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.states import Phase

DIM = 200_000
VECTOR = 4 * DIM
"""Bytes of one vector of 32-bit words; sixty of them would be 48 MB."""


class Lazy:
    """A sequence of vectors, each made when it is asked for."""

    def __init__(self, clients, dim):
        self._clients, self._dim = clients, dim

    def __len__(self):
        return self._clients

    def __getitem__(self, client):
        return np.full(self._dim, client + 1, np.int64)


def traced(work):
    """Return the peak of what Python and NumPy allocate while `work` runs, and its result."""
    gc.collect()
    tracemalloc.start()
    try:
        result = work()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak, result


@pytest.mark.parametrize("graph", BOTH)
def test_a_whole_run_holds_a_few_vectors(graph):
    """All parties in this process, inputs made one at a time: a few vectors, not n of them."""
    clients = 60 if graph == "sparse" else 30
    params = BOTH[graph](clients, DIM, value_bits=12)
    secagg.run(BOTH[graph](8, DIM), Lazy(8, DIM))  # compile and load what is loaded once
    peak, result = traced(lambda: secagg.run(params, Lazy(clients, DIM)))
    assert result.exact
    assert result.sum[0] == clients * (clients + 1) // 2
    assert peak < 16 * VECTOR


def test_the_server_alone_grows_by_no_vector_per_client():
    """Handed one masked vector after the other, it holds one accumulator."""
    params = sparse(40, DIM)
    play = Play(params, vectors=Lazy(40, DIM)).until(Phase.MASKED_INPUT)
    one = np.ones(DIM, np.uint32)

    def hand_in():
        for index in play.present():
            message = messages.MaskedInput(
                tag=play.server._tag, bits=params.modulus_bits, vector=one
            )
            play.server.receive(index, message)

    peak, _ = traced(hand_in)
    assert peak < VECTOR / 2


def arrays_of(server):
    """Return the bytes of all arrays that a server holds."""
    held = [server._accumulator]
    held += [value for value in vars(server._store).values() if isinstance(value, np.ndarray)]
    held += list(server._here.values())
    held += [value for value in vars(server._topology).values() if isinstance(value, np.ndarray)]
    return sum(array.nbytes for array in held)


@pytest.mark.parametrize(
    "phase",
    [Phase.ADVERTISE_KEYS, Phase.SHARE_KEYS, Phase.MASKED_INPUT, Phase.UNMASKING, Phase.DONE],
    ids=lambda phase: phase.name,
)
def test_what_the_server_holds_is_what_the_plan_says(phase):
    """In arrays only: the objects it refers to do not become more with the edges."""
    sizes = {}
    for neighbours in (2, 10):
        params = sparse(24, 1000, neighbours=neighbours)
        play = Play(params).until(phase)
        bill = secagg.plan(params, units=FREE)
        assert arrays_of(play.server) <= bill.memory_server
        sizes[neighbours] = _objects(play.server)
    assert abs(sizes[10] - sizes[2]) <= 2


def _objects(server):
    """Count the objects in the server's own containers."""
    count = 0
    for value in [*vars(server).values(), *vars(server._store).values()]:
        count += len(value) if isinstance(value, dict | list | set | tuple) else 1
    return count


def test_the_accumulator_is_given_up_with_the_round():
    gone = dict.fromkeys((0, 1, 2), Phase.UNMASKING)
    play = Play(complete(4, DIM), vectors=Lazy(4, DIM), leaves=gone).until(Phase.UNMASKING)
    assert play.server._accumulator.nbytes == VECTOR
    with pytest.raises(Abort, match="too few clients answered"):
        play.step()
    assert play.server._accumulator.nbytes == 0


def test_a_delivered_vector_is_given_up_by_its_client():
    play = Play(complete(4, DIM), vectors=Lazy(4, DIM)).until(Phase.MASKED_INPUT)
    play.exchange()
    client = play.clients[0]
    assert client._memory.reply.vector.nbytes == VECTOR
    before = len(client.dump_state())
    client.delivered()
    assert client._memory.reply is None
    assert len(client.dump_state()) < before - DIM
