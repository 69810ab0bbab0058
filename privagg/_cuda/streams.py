"""Mask streams added to a CUDA array: what :func:`privagg.prg.accumulate` does there.

Arguments are checked there. Seeds come from the host, a chunk at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._cuda import arrays
from privagg._cuda.arrays import launch, upload

__all__ = ["AES_THREADS", "accumulate_aes", "accumulate_chacha20", "round_keys"]

_CHUNK = 1 << 16
"""Seeds on the device at once: 15 MB of them and of their round keys."""

AES_THREADS = 32 if arrays.SIMULATED else 256
"""A multiple of the lanes: the table's copies are one for each."""

_WANTED_THREADS = 16 if arrays.SIMULATED else 1 << 18
"""Threads that keep a large device busy; a short vector's seeds are taken in groups."""

_LEAST_GROUP = 2 if arrays.SIMULATED else 32
"""Seeds of a group at least, so that the atomic additions stay few."""


def _height(blocks: int, number: int) -> tuple[int, int]:
    """Return how many groups of seeds there are, and the seeds of each."""
    most = min(-(-number // _LEAST_GROUP), -(-_WANTED_THREADS // blocks), 65_535)
    group = -(-number // max(1, most))
    return -(-number // group), group


def _span(accumulator: Any, start: int, block_bytes: int) -> tuple[int, int, int]:
    """Return the first block of the streams, how many, and the words to skip."""
    size = accumulator.dtype.itemsize
    first, skipped = divmod(start * size, block_bytes)
    blocks = -(-(skipped + int(accumulator.size) * size) // block_bytes)
    return first, blocks, skipped // size


def accumulate_chacha20(
    accumulator: Any, seeds: NDArray[np.uint8], signs: NDArray[np.int8], start: int
) -> None:
    """Add ChaCha20 streams to a CUDA array of uint32 or uint64, on the current device."""
    from privagg._cuda import chacha20

    wide = accumulator.dtype.itemsize == 8
    kernel = chacha20.accumulate_64 if wide else chacha20.accumulate_32
    first, blocks, skipped = _span(accumulator, start, chacha20.BLOCK_BYTES)
    for begin in range(0, len(seeds), _CHUNK):
        part = np.ascontiguousarray(seeds[begin : begin + _CHUNK]).view("<u4").reshape(-1)
        number = part.size // chacha20.SEED_WORDS
        groups, group = _height(blocks, number)
        launch(
            kernel,
            (-(-blocks // arrays.THREADS), groups),
            arrays.THREADS,
            accumulator,
            int(accumulator.size),
            upload(part.astype(np.uint32, copy=False)),
            upload(np.ascontiguousarray(signs[begin : begin + _CHUNK])),
            number,
            group,
            np.uint32(first),
            blocks,
            skipped,
        )
        arrays.free()


def accumulate_aes(
    accumulator: Any, seeds: NDArray[np.uint8], signs: NDArray[np.int8], start: int
) -> None:
    """Add AES-128-CTR streams to a CUDA array of uint32 or uint64, on the current device."""
    from privagg._cuda import aes

    wide = accumulator.dtype.itemsize == 8
    kernel = aes.accumulate_64 if wide else aes.accumulate_32
    first, blocks, skipped = _span(accumulator, start, aes.BLOCK_BYTES)
    table = upload(aes.table())
    for begin in range(0, len(seeds), _CHUNK):
        part = seeds[begin : begin + _CHUNK]
        counters = np.ascontiguousarray(part[:, 16:]).view(">u8").astype(np.uint64)
        groups, group = _height(blocks, len(part))
        launch(
            kernel,
            (-(-blocks // AES_THREADS), groups),
            AES_THREADS,
            accumulator,
            int(accumulator.size),
            table,
            round_keys(part[:, :16], table),
            upload(counters.reshape(-1)),
            upload(np.ascontiguousarray(signs[begin : begin + _CHUNK])),
            len(part),
            group,
            np.uint64(first),
            blocks,
            skipped,
            shared=aes.TABLE_BYTES,
        )
        arrays.free()


def round_keys(keys: NDArray[np.uint8], table: Any) -> Any:
    """Expand keys of 16 or 32 bytes, one a row, on the current device."""
    from privagg._cuda import aes

    number, words = len(keys), keys.shape[1] // 4
    rounds = words + 6
    flat = np.ascontiguousarray(keys).view("<u4").reshape(-1).astype(np.uint32, copy=False)
    out = arrays.empty(number * 4 * (rounds + 1), np.uint32)
    kernel = aes.expand_keys
    launch(kernel, *arrays.grid(number), upload(flat), table, number, words, rounds, out)
    return out
