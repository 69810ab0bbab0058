"""Layouts are canonical: what is read is written back byte for byte, and nothing else is read."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privagg import _packing, wire
from privagg.errors import PeerError, UsageError
from privagg.wire import LayoutError, Reader, Writer


def reader(data: bytes) -> Reader:
    return Reader(data, peer=7, round="upload")


def draw(seed: int, count: int, bits: int, dtype: type) -> np.ndarray:
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**64, count, dtype=np.uint64) >> np.uint64(64 - bits)
    return words.astype(dtype)


def by_big_integer(values: np.ndarray, bits: int) -> bytes:
    """The definition: one big little-endian integer."""
    total = sum(int(value) << (i * bits) for i, value in enumerate(values))
    return total.to_bytes((len(values) * bits + 7) // 8, "little")


@pytest.mark.parametrize(
    ("bits", "dtype"),
    [(bits, np.uint32) for bits in range(1, 33)] + [(bits, np.uint64) for bits in range(1, 65)],
)
def test_pack_is_the_definition_at_every_width(bits, dtype):
    for count in (0, 1, 2, 3, 7, 8, 9, 10, 11, 63, 64, 65, 257):
        values = draw(bits * 1000 + count, count, bits, dtype)
        if count:
            values[-1] = 2**bits - 1
        packed = wire.pack_bits(values, bits)
        assert packed == by_big_integer(values, bits)
        assert len(packed) == wire.packed_size(count, bits)
        found = wire.unpack_bits(packed, count, bits, dtype)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, values)


@given(bits=st.integers(1, 64), data=st.data())
def test_round_trip(bits, data):
    top = 2**bits - 1
    values = data.draw(st.lists(st.integers(0, top) | st.sampled_from([0, top]), max_size=100))
    array = np.array(values, np.uint64)
    packed = wire.pack_bits(array, bits)
    assert packed == by_big_integer(array, bits)
    np.testing.assert_array_equal(wire.unpack_bits(packed, len(values), bits), array)


@pytest.mark.parametrize("bits", [1, 7, 8, 26, 31, 32, 33, 57, 58, 63, 64])
def test_kernels_equal_the_plain_path(bits):
    dtype = np.uint32 if bits <= 32 else np.uint64
    # Longer than the plain path's chunk, and not a multiple of it.
    values = draw(bits, 2 * _packing._CHUNK + 13, bits, dtype)
    plain = _packing.pack_plain(values, bits)
    assert wire.pack_bits(values, bits) == plain.tobytes()
    np.testing.assert_array_equal(wire.unpack_bits(plain.tobytes(), values.size, bits), values)
    np.testing.assert_array_equal(
        _packing.unpack_plain(plain, values.size, bits, np.dtype(dtype)), values
    )


def test_without_jit_the_bytes_are_the_same():
    program = (
        "import sys; import numpy as np; from privagg import _jit, wire; assert not _jit.JIT;"
        "v = np.arange(5000, dtype=np.uint32) * np.uint32(13001);"
        "b = wire.pack_bits(v, 26); assert (wire.unpack_bits(b, 5000, 26, np.uint32) == v).all();"
        "assert 'numba' not in sys.modules; sys.stdout.buffer.write(b)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PRIVAGG_JIT": "0"},
        check=True,
        capture_output=True,
    )
    values = np.arange(5000, dtype=np.uint32) * np.uint32(13001)
    assert ran.stdout == wire.pack_bits(values, 26)


def test_pack_takes_strided_and_read_only_arrays():
    values = draw(1, 100, 20, np.uint32)
    strided = values[::3]
    frozen = strided.copy()
    frozen.flags.writeable = False
    assert wire.pack_bits(strided, 20) == wire.pack_bits(frozen, 20) == by_big_integer(strided, 20)
    assert frozen.flags.writeable is False
    assert strided.flags.writeable is True


@pytest.mark.parametrize("bits", [1, 26, 31, 40, 63])
def test_a_value_that_does_not_fit_is_located_and_kept_secret(bits):
    values = np.zeros(50, np.uint64)
    values[37] = 2**bits + 2**bits // 3
    with pytest.raises(UsageError, match=f"{bits + 1} bits at index 37") as caught:
        wire.pack_bits(values, bits)
    assert caught.value.found == f"an integer of {bits + 1} bits at index 37"


def test_pack_of_a_32_bit_array_in_more_bits():
    values = np.array([2**32 - 1, 5], np.uint32)
    assert wire.pack_bits(values, 40) == by_big_integer(values, 40)


@pytest.mark.parametrize(
    "values",
    [
        [1, 2],
        np.zeros(3),
        np.zeros(3, np.int64),
        np.zeros(3, np.uint16),
        np.zeros((2, 2), np.uint32),
        np.zeros(3, ">u4"),
        None,
    ],
)
def test_pack_refuses_other_arrays(values):
    with pytest.raises(UsageError, match="values"):
        wire.pack_bits(values, 8)


@pytest.mark.parametrize("bits", [0, 65, -1, True, 8.0, "8", None])
def test_a_width_out_of_range_is_refused(bits):
    for call in (
        lambda: wire.pack_bits(np.zeros(3, np.uint32), bits),
        lambda: wire.unpack_bits(b"", 0, bits),
        lambda: wire.packed_size(3, bits),
        lambda: reader(b"abc").packed(1, bits),
    ):
        with pytest.raises(UsageError, match="bits"):
            call()


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, float, ">u8", "nonsense", object, None])
def test_a_dtype_that_is_no_word_is_refused(dtype):
    with pytest.raises(UsageError, match="dtype"):
        wire.unpack_bits(b"\0", 1, 8, dtype)


def test_a_dtype_too_narrow_is_refused():
    with pytest.raises(UsageError, match="uint64, as values have 33 bits"):
        wire.unpack_bits(bytes(5), 1, 33, np.uint32)


def test_unpack_refuses_other_sizes_and_padding():
    packed = wire.pack_bits(np.array([5, 6, 7], np.uint32), 3)
    for wrong in (packed[:-1], packed + b"\0", b""):
        with pytest.raises(LayoutError, match=f"expected 2 bytes .* found {len(wrong)}"):
            wire.unpack_bits(wrong, 3, 3)
    for bit in range(1, 8):
        bad = bytes([packed[0], packed[1] | 1 << bit])
        with pytest.raises(LayoutError, match="last 7 bits"):
            wire.unpack_bits(bad, 3, 3)


def full_message() -> tuple[bytes, np.ndarray, np.ndarray, np.ndarray]:
    flags = np.array([True, False, True] * 7)
    rows = np.arange(12, dtype=np.uint8).reshape(3, 4)
    words = draw(3, 100, 26, np.uint32)
    writer = Writer().u8(255).u16(2**16 - 1).u32(2**32 - 1).u64(2**64 - 1)
    writer.raw(b"key").bitmap(flags).raw_array(rows).packed(words, 26)
    return writer.getvalue(), flags, rows, words


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_what_is_written_is_read(kind):
    message, flags, rows, words = full_message()
    source = reader(kind(message))
    assert source.remaining == len(message)
    assert [source.u8(), source.u16()] == [255, 2**16 - 1]
    assert [source.u32(), source.u64()] == [2**32 - 1, 2**64 - 1]
    assert source.raw(3) == b"key"
    read_flags = source.bitmap(21)
    assert read_flags.dtype == np.bool_
    np.testing.assert_array_equal(read_flags, flags)
    np.testing.assert_array_equal(source.raw_array(3, 4), rows)
    read_words = source.packed(100, 26, np.uint32)
    assert read_words.dtype == np.uint32
    np.testing.assert_array_equal(read_words, words)
    assert source.remaining == 0
    source.end()


def read_all(data: bytes) -> bytes:
    source = reader(data)
    writer = Writer().u8(source.u8()).u16(source.u16()).u32(source.u32()).u64(source.u64())
    writer.raw(source.raw(3)).bitmap(source.bitmap(21)).raw_array(source.raw_array(3, 4))
    writer.packed(source.packed(100, 26, np.uint32), 26)
    source.end()
    return writer.getvalue()


@given(st.integers(0), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_read_as_another_message(position, flip):
    message = bytearray(full_message()[0])
    message[position % len(message)] ^= flip
    try:
        again = read_all(bytes(message))
    except PeerError:
        return
    assert again == bytes(message)


@given(st.binary(max_size=400))
def test_any_bytes_are_refused_or_canonical(data):
    try:
        again = read_all(data)
    except PeerError:
        return
    assert again == data


def test_every_shorter_or_longer_message_is_refused():
    message = full_message()[0]
    assert read_all(message) == message
    for size in range(len(message)):
        with pytest.raises(PeerError, match="expected"):
            read_all(message[:size])
    with pytest.raises(PeerError, match=r"expected the message to end after .* found 1 more"):
        read_all(message + b"\0")


def test_layout_is_little_endian():
    assert Writer().u8(1).u16(2).u32(3).u64(4).getvalue() == bytes.fromhex(
        "01 0200 03000000 0400000000000000"
    )
    assert Writer().bitmap(np.array([True, False, False, False, True])).getvalue() == b"\x11"
    assert Writer().packed(np.array([1, 2, 3], np.uint32), 12).getvalue() == bytes.fromhex(
        "0120000300"
    )


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (lambda r: r.u8(), r"expected 1 bytes \(u8\) at byte 2, found 0"),
        (lambda r: r.u64(), r"expected 8 bytes \(u64\) at byte 2, found 0"),
        (lambda r: r.raw(5), "expected 5 bytes at byte 2, found 0"),
        (lambda r: r.bitmap(9), r"expected 2 bytes \(a bitmap of 9\)"),
        (lambda r: r.packed(10**15, 26), "1000000000000000 values of 26 bits"),
        (lambda r: r.raw_array(2**60, 2**60), "rows of"),
        (lambda r: r.bitmap(2**64), "a bitmap of"),
    ],
)
def test_failures_name_peer_round_expected_and_found(read, reason):
    source = reader(b"ab")
    source.raw(2)
    with pytest.raises(PeerError, match=reason) as caught:
        read(source)
    assert (caught.value.peer, caught.value.round) == (7, "upload")
    assert caught.value.__cause__ is None


def test_padding_of_a_bitmap_and_of_a_vector():
    with pytest.raises(PeerError, match="bitmap ending at byte 1: expected zero in the last 3"):
        reader(b"\x3f").bitmap(5)
    with pytest.raises(PeerError, match="packed vector ending at byte 1: expected zero"):
        reader(b"\x3f").packed(1, 5, np.uint32)


def test_empty_fields_take_no_bytes():
    writer = Writer().raw(b"").bitmap(np.zeros(0, bool)).packed(np.zeros(0, np.uint32), 26)
    assert writer.raw_array(np.zeros((0, 32), np.uint8)).getvalue() == b""
    source = reader(b"")
    assert source.raw(0) == b""
    assert source.bitmap(0).shape == (0,)
    assert source.packed(0, 26).shape == (0,)
    assert source.raw_array(0, 32).shape == (0, 32)
    source.end()


def test_arrays_read_do_not_alias_the_message():
    message = bytearray(Writer().raw_array(np.ones((2, 3), np.uint8)).getvalue())
    rows = reader(message).raw_array(2, 3)
    message[0] = 9
    assert rows.flags.writeable
    assert rows[0, 0] == 1
    data = bytearray(b"abc")
    writer = Writer().raw(data)
    data[0] = 0
    assert writer.getvalue() == b"abc"


def test_fail_names_the_sender():
    with pytest.raises(PeerError, match="client 7, round upload: version 3"):
        reader(b"").fail("version 3")


@pytest.mark.parametrize("data", ["text", None, 3, [1], np.zeros(3, np.uint8)])
def test_only_bytes_are_read(data):
    with pytest.raises(UsageError, match="data"):
        Reader(data, peer="server", round="keys")


def test_views_of_other_shapes():
    with pytest.raises(UsageError, match="strided"):
        reader(memoryview(b"abcdef")[::2])
    words = np.array([1, 2], "<u4")
    source = reader(memoryview(words))
    assert source.remaining == 8
    assert [source.u32(), source.u32()] == [1, 2]


@pytest.mark.parametrize(("field", "bits"), [("u8", 8), ("u16", 16), ("u32", 32), ("u64", 64)])
def test_integers_out_of_range_are_refused(field, bits):
    for value in (-1, 2**bits, True, 1.0, "1", None):
        with pytest.raises(UsageError, match=rf"0 to 2\*\*{bits} - 1"):
            getattr(Writer(), field)(value)
    assert getattr(Writer(), field)(np.int64(5)).getvalue() == (5).to_bytes(bits // 8, "little")


@pytest.mark.parametrize("count", [-1, True, 1.5, None])
def test_counts_that_are_none(count):
    source = reader(bytes(100))
    for call in (
        source.raw,
        source.bitmap,
        lambda n: source.packed(n, 8),
        lambda n: source.raw_array(n, 4),
        wire.bitmap_size,
    ):
        with pytest.raises(UsageError, match="count"):
            call(count)
    assert source.remaining == 100


def test_writer_refuses_other_arrays():
    with pytest.raises(UsageError, match="flags"):
        Writer().bitmap(np.zeros(3, np.uint8))
    with pytest.raises(UsageError, match="rows"):
        Writer().raw_array(np.zeros(3, np.uint8))
    with pytest.raises(UsageError, match="data"):
        Writer().raw("text")


def test_repr_shows_sizes_and_no_content():
    message = Writer().raw(b"secret")
    assert repr(message) == "Writer(6 bytes)"
    assert "secret" not in repr(reader(message.getvalue()))
