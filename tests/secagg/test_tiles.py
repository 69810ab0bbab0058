"""Vectors by tiles give what whole vectors give, from files as from memory."""

from __future__ import annotations

import errno
import mmap
import os
import sys

import numpy as np
import pytest

from privagg import prg, wire
from privagg.entropy import from_seed
from privagg.errors import PeerError, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import messages, tiles
from privagg.protocols.secagg.messages import MaskedInput

TILE = 1 << 10


@pytest.fixture(autouse=True)
def _short_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "TILE", TILE)


def params_of(dim, **more):
    return secagg.Params.recommend(clients=5, dim=dim, dropout=0.2, corrupt=0.2, **more)


def masks_of(params, count=7):
    size = prg.seed_bytes(params.prg)
    seeds = np.frombuffer(from_seed(5).take(count * size), np.uint8).reshape(count, size)
    return seeds, np.array([1, -1, 1, 1, -1, -1, 1], np.int8)


def packed_of(vector, bits):
    data = np.frombuffer(wire.pack_bits(vector, bits), np.uint8)
    return tiles.Packed(data, len(vector), bits, vector.dtype)


DIMS = [1, 7, TILE - 1, TILE, TILE + 1, 3 * TILE, 3 * TILE + 13]


@pytest.mark.parametrize("length", [0, *DIMS])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_spans_cover_each_coordinate_once(length, workers):
    covered = [at for first, end in tiles.spans(length, workers) for at in range(first, end)]
    assert covered == list(range(length))
    assert all(first % 8 == 0 for first, _ in tiles.spans(length, workers))


@pytest.mark.parametrize("bits", [1, 13, 29, 32])
@pytest.mark.parametrize("length", DIMS)
def test_adding_a_packed_vector_is_adding_it(bits, length):
    rng = np.random.default_rng(1)
    vector = rng.integers(0, 2**bits, length, dtype=np.uint32)
    found = rng.integers(0, 2**32, length, dtype=np.uint32)
    expected = found + vector
    packed = packed_of(vector, bits)
    assert len(packed) == length
    assert np.array_equal(np.asarray(packed), vector)
    tiles.add(found, packed)
    assert np.array_equal(found, expected)


def test_a_packed_vector_does_not_show_itself():
    packed = packed_of(np.arange(9, dtype=np.uint32), 4)
    assert repr(packed) == "Packed(9 coordinates of 4 bits)"
    assert packed.nbytes == 5
    with pytest.raises(ValueError, match="copied"):
        np.array(packed, copy=False)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("prg_name", ["aes-128-ctr", "chacha20"])
@pytest.mark.parametrize("value_bits", [16, 31])
@pytest.mark.parametrize("dim", DIMS)
def test_written_by_tiles_is_the_packed_whole(dim, value_bits, prg_name, weighted):
    more = {"weighted": True, "max_weight": 9} if weighted else {}
    params = params_of(dim, value_bits=value_bits, prg=prg_name, **more)
    values = np.random.default_rng(2).integers(0, 2**value_bits, dim)
    weight = 7 if weighted else 1
    masks = masks_of(params)
    words = params.encoding.encode(values, weight=weight, clients=5).words
    prg.accumulate(words, *masks, suite=params.prg)
    words &= params.word.type(2**params.modulus_bits - 1)
    expected = wire.pack_bits(words, params.modulus_bits)
    out = np.full(len(expected), 0xFF, np.uint8)
    done = []
    clipped = tiles.write(
        params,
        values,
        masks,
        out,
        weight=weight,
        entropy=from_seed(1),
        progress=lambda *both: done.append(both),
    )
    assert out.tobytes() == expected
    assert clipped == 0
    assert done[-1] == (params.length, params.length)


def test_a_value_that_does_not_fit_is_found_in_its_tile():
    params = params_of(3 * TILE, value_bits=8)
    values = np.zeros(3 * TILE, np.int64)
    values[2 * TILE + 5] = 256
    out = np.zeros(wire.packed_size(params.length, params.modulus_bits), np.uint8)
    with pytest.raises(UsageError, match=rf"vector\[{2 * TILE}:{3 * TILE}\].*256 at index 5"):
        tiles.write(params, values, masks_of(params), out, weight=1, entropy=from_seed(1))


@pytest.mark.parametrize("clip", [None, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_decoding_by_tiles_is_decoding(clip, weighted):
    more = {"weighted": True, "max_weight": 9} if weighted else {}
    params = params_of(2 * TILE + 5, value_bits=12, clip=clip, **more)
    sums = np.random.default_rng(3).integers(0, 3 * 2**12 - 2, params.length).astype(params.word)
    if weighted:
        sums[-1] = 20
    whole = params.encoding.decode(sums.copy(), count=3)
    total = np.empty(params.dim, whole.total.dtype)
    found = tiles.decode(params.encoding, sums, count=3, total=total)
    assert found.total is total
    assert np.array_equal(total, whole.total)
    assert (found.count, found.weight_total) == (whole.count, whole.weight_total)


def resident_pages(path):
    """Return how much of a mapped file this process holds, in kilobytes."""
    with open("/proc/self/smaps", encoding="utf-8") as smaps:
        found, inside = 0, False
        for line in smaps:
            if line[0] in "0123456789abcdef" and "-" in line.split()[0]:
                inside = line.rstrip().endswith(str(path))
            elif inside and line.startswith("Rss:"):
                found += int(line.split()[1])
    return found


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_released_pages_leave_and_lose_nothing(tmp_path, mode):
    pages = 64
    path = tmp_path / "map"
    path.write_bytes(bytes(pages * mmap.PAGESIZE))
    mapped = np.memmap(path, np.uint32, mode)
    mapped[:] = np.arange(len(mapped))
    before = resident_pages(path)
    assert before >= pages * mmap.PAGESIZE // 1024
    tiles.release(np.frombuffer(mapped[10:-10].data, np.uint32))
    after = resident_pages(path)
    assert (after <= 8 * mmap.PAGESIZE // 1024) == (mode == "r+")
    assert np.array_equal(mapped, np.arange(len(mapped)))


def test_memory_that_is_no_file_is_left_alone():
    plain = np.arange(5000)
    tiles.release(plain)
    private = np.frombuffer(mmap.mmap(-1, 1 << 16, mmap.MAP_PRIVATE), np.uint8)
    private[:] = 3
    tiles.release(private)
    assert (private == 3).all()
    assert np.array_equal(plain, np.arange(5000))


def play(params, vectors, out_of, dropped=0):
    """Run a round up to the masked inputs; return server and the messages."""
    server = secagg.Server(params, entropy=from_seed(1).spawn("server"))
    clients = [
        secagg.Client(params, entropy=from_seed(1).spawn(str(i))) for i in range(params.clients)
    ]
    sent = []
    for phase in range(3):
        for index, client in enumerate(clients):
            data = server.message_for(index).encode()
            message = messages.decode(data, params, peer="server")
            if phase == 0:
                reply = client.advertise_keys(message)
            elif phase == 1:
                reply = client.share_keys(message)
            else:
                reply = client.masked_input(message, vectors[index], out=out_of(index))
                sent.append(reply)
            if phase < 2:
                server.receive(index, messages.decode(reply.encode(), params, peer=index))
        if phase < 2:
            server.close()
    return server, clients, sent


def test_a_client_writes_the_very_message_that_it_would_return():
    params = params_of(2 * TILE + 3, value_bits=10)
    vectors = np.random.default_rng(4).integers(0, 2**10, (5, params.dim))
    size = MaskedInput.size(params)
    outs = [np.empty(size, np.uint8) for _ in range(5)]
    _, _, whole = play(params, vectors, lambda index: None)
    _, _, tiled = play(params, vectors, lambda index: outs[index])
    for index in range(5):
        assert outs[index].tobytes() == whole[index].encode() == tiled[index].encode()
        assert isinstance(tiled[index].vector, tiles.Packed)


def test_after_a_failed_write_the_client_goes_on_as_if_it_had_not_been():
    params = params_of(2 * TILE, value_bits=10)
    vectors = np.random.default_rng(8).integers(0, 2**10, (5, params.dim))
    server = secagg.Server(params)
    clients = [secagg.Client(params) for _ in range(5)]
    for phase in ("advertise_keys", "share_keys"):
        for index, client in enumerate(clients):
            data = server.message_for(index).encode()
            reply = getattr(client, phase)(messages.decode(data, params, peer="server"))
            server.receive(index, messages.decode(reply.encode(), params, peer=index))
        server.close()
    bundle = messages.decode(server.message_for(0).encode(), params, peer="server")
    twin = secagg.Client.load_state(clients[0].dump_state(), params)
    bad = vectors[0].copy()
    bad[-1] = -1
    out = np.empty(MaskedInput.size(params), np.uint8)
    with pytest.raises(UsageError, match="-1 at index"):
        clients[0].masked_input(bundle, bad, out=out)
    for wrong in (out[:-1], out.astype(np.int8), bytearray(len(out)), np.empty((1, len(out)))):
        with pytest.raises(UsageError, match=f"a writable uint8 array of {len(out)} bytes"):
            clients[0].masked_input(bundle, vectors[0], out=wrong)
    assert clients[0].state is secagg.ClientState.SHARED
    clients[0].masked_input(bundle, vectors[0], out=out)
    assert clients[0].state is secagg.ClientState.MASKED
    assert out.tobytes() == twin.masked_input(bundle, vectors[0]).encode()
    assert clients[0].dump_state() == twin.dump_state()


def test_a_long_masked_vector_stays_packed_and_is_checked():
    params = params_of(TILE + 1, value_bits=10)
    size = wire.packed_size(params.length, params.modulus_bits)
    head = MaskedInput(tag=bytes(8), bits=params.modulus_bits, vector=np.zeros(0, np.uint32))
    body = bytearray(size)
    message = MaskedInput.decode(head.encode() + bytes(body), params, peer=3)
    assert isinstance(message.vector, tiles.Packed)
    assert message.encode() == head.encode() + bytes(body)
    assert params.length * params.modulus_bits % 8
    body[-1] = 0x80
    with pytest.raises(PeerError, match="zero in the last"):
        MaskedInput.decode(head.encode() + bytes(body), params, peer=3)
    with pytest.raises(PeerError, match="expected"):
        MaskedInput.decode(head.encode() + bytes(body[:-1]), params, peer=3)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts blocks of Linux's files")
def test_a_new_file_has_its_room_and_is_zero(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"what was there before")
    array = tiles.create(path, np.uint32, 100_000)
    assert not array.any()
    array[-1] = 7
    assert np.fromfile(path, np.uint32)[-1] == 7
    assert path.stat().st_blocks * 512 >= array.nbytes == path.stat().st_size


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="no such call here")
def test_a_full_disk_is_an_error_and_a_disk_that_cannot_say_is_none(tmp_path, monkeypatch):
    def answer(number):
        def call(*_):
            raise OSError(number, os.strerror(number))

        return call

    monkeypatch.setattr(os, "posix_fallocate", answer(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left") as caught:
        tiles.create(tmp_path / "full", np.uint8, 9)
    assert caught.value.filename == str(tmp_path / "full")
    monkeypatch.setattr(os, "posix_fallocate", answer(errno.EOPNOTSUPP))
    assert len(tiles.create(tmp_path / "other", np.uint8, 9)) == 9
