"""AES-128-CTR on the processor's AES instructions, fused with the addition.

The key stream never touches memory: vectors of blocks are encrypted in registers and added to the
accumulator, eight vectors at a time to hide the latency of a round. The accumulator is walked in
tiles that stay in the cache while the streams of all seeds are added.

One kernel serves two widths: 128-bit vectors (AES-NI) and 256-bit vectors of two blocks (VAES).
See :mod:`privagg._streams.target` for what must be checked before it is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from privagg._jit import kernel
from privagg._streams.vectors import (
    add_words,
    array_bytes,
    constant,
    declare,
    intrinsic,
    shuffle,
)

__all__ = ["accumulate_aesni", "accumulate_vaes"]

_VECTORS = 8
"""Vectors in flight: two rounds a cycle at a latency of three to five cycles."""

_TILE_BYTES = 1 << 16

_ROUNDS = 10

_BYTE = ir.IntType(8)
_INT64 = ir.IntType(64)
_INT128 = ir.IntType(128)


def _blocks(width: int) -> ir.VectorType:
    """Return the type of a vector of `width` blocks."""
    return ir.VectorType(_INT64, 2 * width)


def _instruction(builder: Any, name: str, width: int) -> Any:
    """Declare an AES round for vectors of `width` blocks."""
    kind = _blocks(width)
    suffix = "" if width == 1 else f".{128 * width}"
    return declare(builder, f"llvm.x86.aesni.{name}{suffix}", kind, [kind, kind])


def _encrypt(builder: Any, keys: Any, counters: list[Any], width: int) -> list[Any]:
    """Encrypt vectors of counter blocks under the round keys at `keys`."""
    middle = _instruction(builder, "aesenc", width)
    last = _instruction(builder, "aesenclast", width)
    for step in range(_ROUNDS + 1):
        place = builder.gep(keys, [ir.Constant(ir.IntType(32), 16 * step)])
        key = builder.load(builder.bitcast(place, _blocks(1).as_pointer()), align=8)
        wide = shuffle(builder, key, key, [0, 1] * width)
        if step == 0:
            counters = [builder.xor(counter, wide) for counter in counters]
        else:
            turn = middle if step < _ROUNDS else last
            counters = [builder.call(turn, [counter, wide]) for counter in counters]
    return counters


@intrinsic
def _expand_key(typingctx: Any, seeds: Any, row: Any, keys: Any) -> Any:
    """Write the eleven round keys of the seed in a row (FIPS 197, section 5.2).

    The last round of the cipher does SubBytes. With four equal columns its ShiftRows moves
    nothing, so it yields SubWord, and its key adds the round constant.
    """
    signature = types.void(seeds, row, keys)

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        seeds, row, keys = values
        step = ir.Constant(row.type, 32)
        seed = array_bytes(context, builder, signature.args[0], seeds, builder.mul(row, step))
        zero = ir.Constant(row.type, 0)
        place = array_bytes(context, builder, signature.args[2], keys, zero)
        last = _instruction(builder, "aesenclast", 1)
        word = ir.VectorType(ir.IntType(32), 4)
        octets = ir.VectorType(_BYTE, 16)
        none = ir.Constant(octets, [0] * 16)
        key = builder.load(builder.bitcast(seed, word.as_pointer()), align=1)
        constant_of_round = 1
        for index in range(_ROUNDS + 1):
            target = builder.gep(place, [ir.Constant(ir.IntType(32), 16 * index)])
            builder.store(key, builder.bitcast(target, word.as_pointer()), align=8)
            if index == _ROUNDS:
                break
            bytes_ = builder.bitcast(key, octets)
            rotated = shuffle(builder, bytes_, bytes_, [13, 14, 15, 12] * 4)
            added = builder.bitcast(constant([constant_of_round] * 4, 32), _blocks(1))
            mixed = builder.call(last, [builder.bitcast(rotated, _blocks(1)), added])
            # Word j of the next key is the sum of words 0 to j of this one, and `mixed`.
            for shift in (4, 8):
                picks = [*range(16, 16 + shift), *range(16 - shift)]
                moved = shuffle(builder, builder.bitcast(key, octets), none, picks)
                key = builder.xor(key, builder.bitcast(moved, word))
            key = builder.xor(key, builder.bitcast(mixed, word))
            constant_of_round = (constant_of_round << 1) ^ (0x11B if constant_of_round > 127 else 0)
        return context.get_dummy_value()

    return signature, write


@intrinsic
def _add_group(
    typingctx: Any,
    accumulator: Any,
    offset: Any,
    keys: Any,
    high: Any,
    low: Any,
    negative: Any,
    width: Any,
) -> Any:
    """Add a group of whole blocks at `offset`; the low half of the counter must not overflow."""
    signature = types.void(accumulator, offset, keys, high, low, negative, width)

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        accumulator, offset, keys, high, low, negative, _ = values
        lanes = signature.args[6].count
        target = array_bytes(context, builder, signature.args[0], accumulator, offset)
        key = array_bytes(context, builder, signature.args[2], keys, ir.Constant(offset.type, 0))
        both = ir.Constant(_blocks(1), ir.Undefined)
        for index, half in enumerate((low, high)):
            both = builder.insert_element(both, half, ir.Constant(ir.IntType(32), index))
        base = shuffle(builder, both, both, [0, 1] * lanes)
        reverse = [16 * lane + 15 - byte for lane in range(lanes) for byte in range(16)]
        counters = []
        for index in range(_VECTORS):
            steps = [step for lane in range(lanes) for step in (index * lanes + lane, 0)]
            number = builder.add(base, constant(steps, 64))
            octets = builder.bitcast(number, ir.VectorType(_BYTE, 16 * lanes))
            octets = shuffle(builder, octets, octets, reverse)
            counters.append(builder.bitcast(octets, _blocks(lanes)))
        stream = _encrypt(builder, key, counters, lanes)
        add_words(builder, target, stream, signature.args[0].dtype.bitwidth // 8, negative)
        return context.get_dummy_value()

    return signature, write


@intrinsic
def _write_group(typingctx: Any, scratch: Any, keys: Any, high: Any, low: Any, width: Any) -> Any:
    """Write the key stream of one group of blocks; the counter may wrap anywhere."""
    signature = types.void(scratch, keys, high, low, width)

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        scratch, keys, high, low, _ = values
        lanes = signature.args[4].count
        zero = ir.Constant(ir.IntType(64), 0)
        target = array_bytes(context, builder, signature.args[0], scratch, zero)
        key = array_bytes(context, builder, signature.args[1], keys, zero)
        number = builder.shl(builder.zext(high, _INT128), ir.Constant(_INT128, 64))
        number = builder.or_(number, builder.zext(low, _INT128))
        counters = []
        for index in range(_VECTORS):
            vector = ir.Constant(ir.VectorType(_INT128, lanes), ir.Undefined)
            for lane in range(lanes):
                step = ir.Constant(_INT128, index * lanes + lane)
                block = builder.bswap(builder.add(number, step))
                vector = builder.insert_element(vector, block, ir.Constant(ir.IntType(32), lane))
            counters.append(builder.bitcast(vector, _blocks(lanes)))
        for index, vector in enumerate(_encrypt(builder, key, counters, lanes)):
            place = builder.gep(target, [ir.Constant(ir.IntType(32), 16 * lanes * index)])
            builder.store(vector, builder.bitcast(place, vector.type.as_pointer()), align=8)
        return context.get_dummy_value()

    return signature, write


@kernel
def _accumulate(
    accumulator: npt.NDArray[Any],
    seeds: npt.NDArray[np.uint8],
    signs: npt.NDArray[np.int8],
    start: int,
    width: tuple[int, ...],
) -> None:
    """Add the streams. The length of `width` is the blocks in a vector, fixed when compiled."""
    per_block = 16 // accumulator.itemsize
    blocks = _VECTORS * len(width)
    per_group = blocks * per_block
    tile = _TILE_BYTES // accumulator.itemsize
    count = len(accumulator)
    keys = np.empty(2 * (_ROUNDS + 1), np.uint64)
    scratch = np.empty(per_group, accumulator.dtype)
    carry_from = np.uint64(2**64 - 1) - np.uint64(blocks - 1)
    step = np.uint64(blocks)
    begin = 0
    # Tiles end where blocks do, so that only the first has a partial block at its head.
    end = min(count, tile - start % per_block)
    while begin < count:
        skipped_at_first = (start + begin) % per_block
        block = np.uint64((start + begin) // per_block)
        for row in range(len(seeds)):
            _expand_key(seeds, row, keys)
            negative = signs[row] < 0
            high = np.uint64(0)
            low = np.uint64(0)
            for byte in range(16, 24):
                high = (high << np.uint64(8)) | np.uint64(seeds[row, byte])
                low = (low << np.uint64(8)) | np.uint64(seeds[row, byte + 8])
            low += block
            if low < block:
                high += np.uint64(1)
            skipped = skipped_at_first
            position = begin
            while position < end:
                left = end - position
                if skipped == 0 and left >= per_group and low <= carry_from:
                    _add_group(accumulator, position, keys, high, low, negative, width)
                    position += per_group
                else:
                    _write_group(scratch, keys, high, low, width)
                    taken = min(per_group - skipped, left)
                    part = accumulator[position : position + taken]
                    words = scratch[skipped : skipped + taken]
                    if negative:
                        for index in range(taken):
                            part[index] -= words[index]
                    else:
                        for index in range(taken):
                            part[index] += words[index]
                    position += taken
                    skipped = 0
                low += step
                if low < step:
                    high += np.uint64(1)
        begin = end
        end = min(count, begin + tile)


def accumulate_aesni(
    accumulator: npt.NDArray[Any],
    seeds: npt.NDArray[np.uint8],
    signs: npt.NDArray[np.int8],
    start: int,
) -> None:
    """Add AES-128-CTR streams with AES-NI, one block in a vector."""
    _accumulate(accumulator, seeds, signs, start, (0,))


def accumulate_vaes(
    accumulator: npt.NDArray[Any],
    seeds: npt.NDArray[np.uint8],
    signs: npt.NDArray[np.int8],
    start: int,
) -> None:
    """Add AES-128-CTR streams with VAES, two blocks in a vector."""
    _accumulate(accumulator, seeds, signs, start, (0, 0))
