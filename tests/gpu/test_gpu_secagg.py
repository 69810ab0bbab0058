"""A server whose sum lies on a device gives what one on the host gives."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_tools import SIMULATED, to_device

from privagg import prg, wire
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import device, messages, streaming, tiles
from privagg.protocols.secagg.states import Phase
from privagg.wire import LayoutError

pytestmark = pytest.mark.gpu

DIM = 29 if SIMULATED else 5003
SUITES = ["aes-128-ctr", "chacha20"]

STEPS = {
    messages.Start: secagg.Client.advertise_keys,
    messages.KeyRoster: secagg.Client.share_keys,
    messages.SurvivorSet: secagg.Client.unmasking,
}


def params_of(**more):
    more = {"dropout": 0.25, "corrupt": 0.0} | more
    return secagg.Params.recommend(clients=4, dim=DIM, **more)


def play(params, accumulator, vectors, weights, gone):
    """Play a round up to its sum with the server's vector in `accumulator`."""
    source = from_seed(11)
    kind = np.float64 if params.encoding.clip is not None else np.int64
    server = streaming.StreamingServer(
        params,
        accumulator=accumulator,
        total=np.zeros(params.dim, kind),
        entropy=source.spawn("server"),
        workers=2,
    )
    clients = [secagg.Client(params, entropy=source.spawn(f"{i}")) for i in range(params.clients)]
    while server.phase is not Phase.DONE:
        for index in map(int, server.alive()):
            if index == gone and server.phase is Phase.MASKED_INPUT:
                continue
            message = messages.decode(server.message_for(index).encode(), params, peer="server")
            client = clients[index]
            if isinstance(message, messages.ShareBundle):
                answer = client.masked_input(message, vectors[index], weight=weights[index])
            else:
                answer = STEPS[type(message)](client, message)
            data = memoryview(answer.encode())  # packed vectors stay packed
            client.delivered()
            server.receive(index, messages.decode(data, params, peer=index))
        server.close()
    return server.result()


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("more", [{"clip": 1.0}, {"value_bits": 9}, {"clip": 1.0, "max_weight": 5}])
def test_a_round_with_a_dropout(suite, more):
    weighted = {"weighted": True} if "max_weight" in more else {}
    params = params_of(prg=suite, **more, **weighted)
    rng = np.random.default_rng(3)
    if "clip" in more:
        vectors = [rng.normal(size=DIM) for _ in range(4)]
    else:
        vectors = [rng.integers(0, 512, DIM) for _ in range(4)]
    weights = [1, 2, 5, 4] if weighted else [1] * 4
    host = play(params, np.zeros(params.length, params.word), vectors, weights, gone=1)
    there = to_device(np.full(params.length, 7, params.word))
    found = play(params, there, vectors, weights, gone=1)
    np.testing.assert_array_equal(found.total, host.total)
    assert (found.weight_total, found.count) == (host.weight_total, host.count)
    assert host.count == 3


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("word", [np.uint32, np.uint64])
def test_adding_a_vector(packed, word, monkeypatch):
    monkeypatch.setattr(tiles, "TILE", 16)
    rng = np.random.default_rng(5)
    bits = 13 if packed else 8 * np.dtype(word).itemsize
    vector = rng.integers(0, 2**bits, DIM, dtype=word)
    before = rng.integers(0, np.iinfo(word).max, DIM, dtype=word, endpoint=True)
    there = to_device(before)
    data = np.frombuffer(wire.pack_bits(vector, bits), np.uint8)
    tiles.add(there, tiles.Packed(data, DIM, bits, np.dtype(word)) if packed else vector)
    np.testing.assert_array_equal(there.copy_to_host(), before + vector)


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("each_tile", [8, 16, 10**6])
def test_unmasking_a_packed_sum_by_tiles(suite, each_tile):
    params = params_of(prg=suite, clip=1.0)
    rng = np.random.default_rng(1)
    encoded = [
        params.encoding.encode(rng.normal(size=DIM), clients=4, entropy=from_seed(k)).words
        for k in range(3)
    ]
    clear = np.add.reduce(encoded, dtype=params.word)
    seeds = rng.integers(0, 256, (5, prg.seed_bytes(suite)), dtype=np.uint8)
    signs = np.array([1, -1, -1, 1, -1], np.int8)
    masked = clear.copy()
    prg.accumulate(masked, seeds, -signs, suite=suite)
    masked &= params.word.type(2**params.modulus_bits - 1)
    packed = wire.pack_bits(masked, params.modulus_bits)
    each = params.word.itemsize + -(-params.modulus_bits // 8)
    memory = 2**24 + each_tile * each
    found = device.unmask_sum(params, packed, seeds, signs, count=3, memory=memory)
    expected = params.encoding.decode(clear, count=3)
    np.testing.assert_array_equal(found.total, expected.total)
    array = np.frombuffer(packed, np.uint8)
    again = device.unmask_sum(params, array, seeds, signs, count=3)
    np.testing.assert_array_equal(again.mean, expected.mean)


def test_arguments():
    params = params_of(clip=1.0)
    seeds, signs = np.zeros((1, 32), np.uint8), np.ones(1, np.int8)
    packed = bytes(wire.packed_size(params.length, params.modulus_bits))
    with pytest.raises(UsageError, match="memory"):
        device.unmask_sum(params, packed, seeds, signs, count=3, memory=1000)
    with pytest.raises(LayoutError):
        device.unmask_sum(params, packed + b"\0", seeds, signs, count=3)
    with pytest.raises(UsageError, match="seeds"):
        device.unmask_sum(params, packed, seeds[:, :31], signs, count=3)
    total = np.zeros(params.dim)
    for wrong in (np.zeros(params.length + 1, params.word), np.zeros(params.length, np.float64)):
        with pytest.raises(UsageError, match="accumulator"):
            streaming.StreamingServer(params, accumulator=to_device(wrong), total=total)
    good = to_device(np.zeros(params.length, params.word))
    with pytest.raises(UsageError, match="total"):
        streaming.StreamingServer(params, accumulator=good, total=good)
