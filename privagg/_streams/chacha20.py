"""ChaCha20 (RFC 8439) on the processor's vectors, fused with the addition.

Every vector holds the same word of the state of several blocks, one block in a lane. After the
rounds the words are put back in the order of the RFC inside registers and added to the accumulator.
The IR names no instruction, so that it compiles for any little-endian processor; it is fast where
a vector fills one register.

One kernel serves two widths: 256 bits, 8 lanes (AVX2), and 512 bits, 16 lanes (AVX-512).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from privagg._jit import kernel
from privagg._streams.vectors import add_words, array_bytes, constant, intrinsic, shuffle, splat

__all__ = ["accumulate_256", "accumulate_512"]

_TILE_BYTES = 1 << 16

_BLOCK_BYTES = 64

_WORD = ir.IntType(32)

_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
"""The words "expa", "nd 3", "2-by", "te k" (RFC 8439, section 2.3)."""


def _rotate(builder: Any, vector: Any, bits: int) -> Any:
    """Rotate every word to the left; LLVM knows the pattern and picks the best instruction."""
    lanes = vector.type.count
    left = builder.shl(vector, constant([bits] * lanes, 32))
    right = builder.lshr(vector, constant([32 - bits] * lanes, 32))
    return builder.or_(left, right)


def _quarter_round(builder: Any, state: list[Any], a: int, b: int, c: int, d: int) -> None:
    """Do a quarter round on four words of the state (RFC 8439, section 2.1)."""
    for into, other, mixed, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[into] = builder.add(state[into], state[other])
        state[mixed] = _rotate(builder, builder.xor(state[mixed], state[into]), bits)


def _initial(builder: Any, seed: Any, block: Any, lanes: int) -> list[Any]:
    """Return the state of `lanes` blocks from number `block` on; `seed` is key and nonce."""
    state = [constant([number] * lanes, 32) for number in _CONSTANTS]
    for index in range(11):
        place = builder.gep(seed, [ir.Constant(_WORD, 4 * index)])
        word = builder.load(builder.bitcast(place, _WORD.as_pointer()), align=1)
        state.append(splat(builder, word, lanes))
    counter = builder.add(splat(builder, block, lanes), constant(range(lanes), 32))
    return [*state[:12], counter, *state[12:]]


def _rounds(builder: Any, state: list[Any]) -> list[Any]:
    """Do the ten double rounds as a loop: unrolled, they take very long to compile."""
    before = builder.block
    body = builder.append_basic_block("double_round")
    after = builder.append_basic_block("rounds_done")
    builder.branch(body)
    builder.position_at_end(body)
    turn = builder.phi(_WORD)
    slots = [builder.phi(vector.type) for vector in state]
    working = list(slots)
    for a, b, c, d in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)):
        _quarter_round(builder, working, a, b, c, d)
    for a, b, c, d in ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
        _quarter_round(builder, working, a, b, c, d)
    following = builder.add(turn, ir.Constant(_WORD, 1))
    turn.add_incoming(ir.Constant(_WORD, 0), before)
    turn.add_incoming(following, body)
    for slot, first, result in zip(slots, state, working, strict=True):
        slot.add_incoming(first, before)
        slot.add_incoming(result, body)
    more = builder.icmp_unsigned("<", following, ir.Constant(_WORD, 10))
    builder.cbranch(more, body, after)
    builder.position_at_end(after)
    return working


def _transpose(builder: Any, state: list[Any], lanes: int) -> list[Any]:
    """Turn sixteen vectors of words into vectors of key stream, in the order of the bytes.

    Within each quarter of four lanes, 4 x 4 words are transposed by two rounds of interleaving.
    Then a quarter holds four successive words of one block, and whole quarters are gathered.
    """
    quarters = range(lanes // 4)

    def words(left: Any, right: Any, picks: tuple[int, ...]) -> Any:
        """Pick words in every quarter: 0 to 3 from the left vector's, 4 to 7 from the right's."""
        inside = [(pick // 4 * lanes + pick % 4) for pick in picks]
        return shuffle(builder, left, right, [4 * q + pick for q in quarters for pick in inside])

    def gather(left: Any, right: Any, picks: tuple[int, ...]) -> Any:
        """Pick whole quarters, numbered through the left vector and then the right one."""
        return shuffle(
            builder, left, right, [4 * pick + word for pick in picks for word in range(4)]
        )

    columns: list[list[Any]] = [[], [], [], []]
    for first in range(0, 16, 4):
        a, b, c, d = state[first : first + 4]
        for half, picks in ((0, (0, 4, 1, 5)), (2, (2, 6, 3, 7))):
            ab, cd = words(a, b, picks), words(c, d, picks)
            columns[half].append(words(ab, cd, (0, 1, 4, 5)))
            columns[half + 1].append(words(ab, cd, (2, 3, 6, 7)))
    # Quarter q of columns[j] now holds words of block 4 * q + j.
    stream: dict[int, list[Any]] = {}
    for index, (a, b, c, d) in enumerate(columns):
        if lanes == 8:
            for q in quarters:
                stream[4 * q + index] = [gather(a, b, (q, q + 2)), gather(c, d, (q, q + 2))]
            continue
        for half, picks in ((0, (0, 1, 4, 5)), (2, (2, 3, 6, 7))):
            ab, cd = gather(a, b, picks), gather(c, d, picks)
            stream[4 * half + index] = [gather(ab, cd, (0, 2, 4, 6))]
            stream[4 * half + 4 + index] = [gather(ab, cd, (1, 3, 5, 7))]
    return [vector for block in sorted(stream) for vector in stream[block]]


def _key_stream(builder: Any, seed: Any, block: Any, lanes: int) -> list[Any]:
    """Return the key stream of `lanes` blocks in order (section 2.4)."""
    state = _initial(builder, seed, block, lanes)
    mixed = _rounds(builder, state)
    # The state is made anew: kept over the rounds it would take registers that they need.
    again = _initial(builder, seed, block, lanes)
    total = [builder.add(left, right) for left, right in zip(mixed, again, strict=True)]
    return _transpose(builder, total, lanes)


@intrinsic
def _add_group(
    typingctx: Any,
    accumulator: Any,
    offset: Any,
    seeds: Any,
    row: Any,
    block: Any,
    negative: Any,
    width: Any,
) -> Any:
    """Add a group of blocks at `offset` of the accumulator."""
    signature = types.void(accumulator, offset, seeds, row, types.uint32, negative, width)

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        accumulator, offset, seeds, row, block, negative, _ = values
        lanes = 8 * signature.args[6].count
        target = array_bytes(context, builder, signature.args[0], accumulator, offset)
        begin = builder.mul(row, ir.Constant(row.type, 44))
        seed = array_bytes(context, builder, signature.args[2], seeds, begin)
        stream = _key_stream(builder, seed, block, lanes)
        add_words(builder, target, stream, signature.args[0].dtype.bitwidth // 8, negative)
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
    """Add the streams. The length of `width` is a vector's lanes / 8, fixed when compiled."""
    per_block = _BLOCK_BYTES // accumulator.itemsize
    blocks = 8 * len(width)
    per_group = blocks * per_block
    tile = _TILE_BYTES // accumulator.itemsize
    count = len(accumulator)
    scratch = np.empty(per_group, accumulator.dtype)
    begin = 0
    # Tiles end where blocks do, so that only the first has a partial block at its head.
    end = min(count, tile - start % per_block)
    while begin < count:
        skipped_at_first = (start + begin) % per_block
        first_block = (start + begin) // per_block
        for row in range(len(seeds)):
            negative = signs[row] < 0
            skipped = skipped_at_first
            block = first_block
            position = begin
            while position < end:
                left = end - position
                if skipped == 0 and left >= per_group:
                    _add_group(accumulator, position, seeds, row, np.uint32(block), negative, width)
                    position += per_group
                else:
                    # Counters past the last block wrap, but their words are never taken.
                    scratch[:] = 0
                    _add_group(scratch, 0, seeds, row, np.uint32(block), negative, width)
                    taken = min(per_group - skipped, left)
                    part = accumulator[position : position + taken]
                    words = scratch[skipped : skipped + taken]
                    for index in range(taken):
                        part[index] += words[index]
                    position += taken
                    skipped = 0
                block += blocks
        begin = end
        end = min(count, begin + tile)


def accumulate_256(
    accumulator: npt.NDArray[Any],
    seeds: npt.NDArray[np.uint8],
    signs: npt.NDArray[np.int8],
    start: int,
) -> None:
    """Add ChaCha20 streams, eight blocks at a time, in vectors of 256 bits."""
    _accumulate(accumulator, seeds, signs, start, (0,))


def accumulate_512(
    accumulator: npt.NDArray[Any],
    seeds: npt.NDArray[np.uint8],
    signs: npt.NDArray[np.int8],
    start: int,
) -> None:
    """Add ChaCha20 streams, sixteen blocks at a time, in vectors of 512 bits."""
    _accumulate(accumulator, seeds, signs, start, (0, 0))
