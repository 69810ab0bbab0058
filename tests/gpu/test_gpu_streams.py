"""Streams, bit-packed vectors and levels on a device are those of the host, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from gpu_tools import LENGTH, SIMULATED, same, to_device

from privagg import prg, wire
from privagg._cuda import aes
from privagg.encoding import Encoding
from privagg.entropy import from_seed
from privagg.errors import CapacityError, UsageError
from privagg.prg import Suite
from privagg.wire import LayoutError

pytestmark = pytest.mark.gpu

WORDS = [np.uint32, np.uint64]


def key_stream(suite: Suite, seed: bytes, first: int, count: int) -> bytes:
    """Return bytes of a stream as the library makes them; the counter is ours."""
    size = 16 if suite is Suite.AES128_CTR else 64
    block, skipped = divmod(first, size)
    if suite is Suite.AES128_CTR:
        counter = (int.from_bytes(seed[16:], "big") + block) % 2**128
        cipher = Cipher(algorithms.AES(seed[:16]), modes.CTR(counter.to_bytes(16, "big")))
    else:
        nonce = block.to_bytes(4, "little") + seed[32:]
        cipher = Cipher(algorithms.ChaCha20(seed[:32], nonce), None)
    return cipher.encryptor().update(bytes(skipped + count))[skipped:]


@pytest.mark.parametrize("suite", Suite)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    ("length", "count", "start"),
    [(1, 1, 0), (LENGTH, 5, 0), (20, 3, 13), (16, 2, 2**33 - 7), (5, 0, 0), (0, 2, 0)],
)
def test_streams_are_added_and_subtracted(suite, word, length, count, start):
    if suite is Suite.CHACHA20:
        start = min(start, 2**32)
    rng = np.random.default_rng(length)
    accumulator = rng.integers(0, np.iinfo(word).max, length, dtype=word, endpoint=True)
    seeds = rng.integers(0, 256, (count, prg.seed_bytes(suite)), dtype=np.uint8)
    if suite is Suite.AES128_CTR:
        seeds[::2, 17:] = 255  # the counter carries from word to word
    signs = np.array([1, -1, -1, 1, 1], np.int8)[:count]
    expected = accumulator.copy()
    for seed, sign in zip(seeds, signs, strict=True):
        size = expected.itemsize
        octets = key_stream(suite, seed.tobytes(), start * size, length * size)
        stream = np.frombuffer(octets, np.dtype(word).newbyteorder("<"))
        expected = expected + stream if sign > 0 else expected - stream
    found = to_device(accumulator)
    prg.accumulate(found, seeds, signs, suite=suite, start=start)
    same(found, expected)


@pytest.mark.parametrize("suite", Suite)
def test_long_and_many(suite):
    """More seeds than a group has, several groups, read-only and strided seeds."""
    count, length = (7, 70) if SIMULATED else (1000, 3000)
    rng = np.random.default_rng(1)
    seeds = rng.integers(0, 256, (2 * count, prg.seed_bytes(suite)), dtype=np.uint8)[::2]
    signs = rng.choice(np.array([1, -1], np.int8), count)
    seeds.setflags(write=False)
    expected = np.zeros(length, np.uint32)
    prg.accumulate(expected, seeds, signs, suite=suite, start=3)
    found = to_device(np.zeros(length, np.uint32))
    prg.accumulate(found, seeds, signs, suite=suite, start=3)
    same(found, expected)


def test_the_table_is_that_of_the_standard():
    """FIPS 197: S(0) = 63, S(53) = ed, and the S-box is a permutation."""
    box = (aes.table() >> np.uint32(8)) & np.uint32(255)
    assert (box[0], box[0x53], sorted(box.tolist())) == (0x63, 0xED, list(range(256)))


def test_arguments_of_the_streams():
    seeds, signs = np.zeros((1, 44), np.uint8), np.ones(1, np.int8)
    good = to_device(np.zeros(8, np.uint32))
    for name, accumulator in {
        "int32": to_device(np.zeros(8, np.int32)),
        "shape (2, 4)": to_device(np.zeros((2, 4), np.uint32)),
        "strided": to_device(np.zeros(8, np.uint32))[::2],
    }.items():
        with pytest.raises(UsageError, match="accumulator") as found:
            prg.accumulate(accumulator, seeds, signs, suite="chacha20")
        assert name in str(found.value)
    with pytest.raises(UsageError, match="seeds"):
        prg.accumulate(good, to_device(seeds), signs, suite="chacha20")
    with pytest.raises(UsageError, match="signs"):
        prg.accumulate(good, seeds, np.zeros(1, np.int8), suite="chacha20")
    with pytest.raises(CapacityError):
        prg.accumulate(good, seeds, signs, suite="chacha20", start=2**36)
    with pytest.raises(UsageError, match="accumulator"):
        prg.accumulate(np.zeros(8, np.float32), seeds, signs, suite="chacha20")


@pytest.mark.parametrize("bits", [1, 7, 8, 22, 31, 32, 33, 57, 58, 63, 64])
@pytest.mark.parametrize("length", [0, 1, LENGTH])
def test_unpacking(bits, length):
    rng = np.random.default_rng(bits)
    values = rng.integers(0, 2**64, length, dtype=np.uint64) >> np.uint64(64 - bits)
    packed = to_device(np.frombuffer(wire.pack_bits(values, bits), np.uint8))
    same(wire.unpack_bits(packed, length, bits), values)
    if bits <= 32:
        found = wire.unpack_bits(packed, length, bits, np.uint32)
        same(found, values.astype(np.uint32))


def test_packed_vectors_that_are_none():
    packed = np.frombuffer(wire.pack_bits(np.arange(5, dtype=np.uint32), 7), np.uint8)
    with pytest.raises(LayoutError, match="5 bytes"):
        wire.unpack_bits(to_device(packed[:-1].copy()), 5, 7)
    padded = packed.copy()
    padded[-1] |= 0x80
    with pytest.raises(LayoutError, match="last"):
        wire.unpack_bits(to_device(padded), 5, 7)
    with pytest.raises(UsageError, match="buffer"):
        wire.unpack_bits(to_device(packed.astype(np.uint32)), 5, 7)


@pytest.mark.parametrize("value_bits", [1, 8, 22, 32])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("weight", [None, 3])
def test_floats_are_rounded_as_on_the_host(value_bits, dtype, weight):
    more = {} if weight is None else {"weighted": True, "max_weight": 4}
    encoding = Encoding(kind="float", value_bits=value_bits, clip=1.5, **more)
    vector = np.random.default_rng(value_bits).normal(size=LENGTH) * 2
    vector[:7] = [1.5, -1.5, 0.0, 1.5 - 1e-7, -1e-300, 5e7, -9.0]
    vector = np.clip(vector, -30000, 30000).astype(dtype)
    settings = {"weight": weight or 1, "clients": 9}
    expected = encoding.encode(vector, entropy=from_seed(4), **settings)
    found = encoding.encode(to_device(vector), entropy=from_seed(4), **settings)
    same(found.words, expected.words)
    assert found.clipped == expected.clipped > 0


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint32])
def test_integers_are_encoded_as_on_the_host(dtype):
    encoding = Encoding(kind="integer", value_bits=8, signed=dtype != np.uint32)
    vector = np.arange(LENGTH) % 128
    if encoding.signed:
        vector[::3] -= 128
    vector = vector.astype(dtype)
    found = encoding.encode(to_device(vector), clients=3)
    same(found.words, encoding.encode(vector, clients=3).words)


def test_numbers_that_cannot_be_encoded():
    real = Encoding(kind="float", value_bits=8, clip=1.0)
    for odd in (np.nan, np.inf, -np.inf):
        vector = np.array([0.5, odd, odd])
        with pytest.raises(UsageError, match="at index 1"):
            real.encode(to_device(vector), clients=2)
    whole = Encoding(kind="integer", value_bits=8)
    for odd in (-1, 256, 2**62):
        with pytest.raises(UsageError, match=f"{odd} at index 2"):
            whole.encode(to_device(np.array([0, 255, odd])), clients=2)
    for vector in (
        np.zeros(3, np.float32),
        np.zeros(3, np.uint64),
        np.zeros((1, 3), np.int64),
        np.zeros(0, np.int64),
        np.zeros(3, np.bool_),
    ):
        with pytest.raises(UsageError, match="vector"):
            whole.encode(to_device(vector), clients=2)
    with pytest.raises(UsageError, match="vector"):
        real.encode(to_device(np.zeros(3, np.float16)), clients=2)
    with pytest.raises(UsageError, match="entropy"):
        real.encode(to_device(np.zeros(3)), clients=2, entropy=3)
