"""The portable kernels, and the reference for the others: OpenSSL's ciphers, then NumPy's add.

The key stream passes through a small buffer that stays in the second-level cache. Both OpenSSL and
NumPy release the interpreter lock while they work on a chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

__all__ = ["accumulate_aes", "accumulate_chacha20"]

_CHUNK = 1 << 17
"""Bytes of key stream made at a time: a whole number of blocks."""

_ZEROS = bytes(_CHUNK)

_OPEN_AT_ONCE = 64
"""Ciphers kept open while one chunk of the accumulator is in the cache."""

_Open = Callable[[bytes, int], CipherContext]


def _open_aes(seed: bytes, block: int) -> CipherContext:
    """Open AES-128-CTR at a block: the whole counter block is one 128-bit big-endian number."""
    counter = (int.from_bytes(seed[16:], "big") + block) % 2**128
    cipher = Cipher(algorithms.AES(seed[:16]), modes.CTR(counter.to_bytes(16, "big")))
    return cipher.encryptor()


def _open_chacha20(seed: bytes, block: int) -> CipherContext:
    """Open ChaCha20 at a block: a 32-bit little-endian counter, then the nonce of 96 bits."""
    counter = block.to_bytes(4, "little") + seed[32:]
    return Cipher(algorithms.ChaCha20(seed[:32], counter), mode=None).encryptor()


def _accumulate(
    accumulator: npt.NDArray[Any],
    seeds: npt.NDArray[np.uint8],
    signs: npt.NDArray[np.int8],
    start: int,
    open_at: _Open,
    block_bytes: int,
) -> None:
    """Add the streams chunk by chunk, a group of open ciphers for each chunk."""
    itemsize = accumulator.dtype.itemsize
    block, skipped = divmod(start * itemsize, block_bytes)
    # Some versions of `cryptography` ask for a block more room than they write.
    room = bytearray(min(_CHUNK, skipped + len(accumulator) * itemsize) + block_bytes)
    buffer = np.frombuffer(room, dtype=np.uint8)
    word = accumulator.dtype.newbyteorder("<")
    for first in range(0, len(seeds), _OPEN_AT_ONCE):
        group = slice(first, first + _OPEN_AT_ONCE)
        ciphers = [open_at(seed.tobytes(), block) for seed in seeds[group]]
        position, lead = 0, skipped
        while position < len(accumulator):
            made = min(_CHUNK, lead + (len(accumulator) - position) * itemsize)
            words = buffer[lead:made].view(word)
            part = accumulator[position : position + len(words)]
            for cipher, sign in zip(ciphers, signs[group].tolist(), strict=True):
                cipher.update_into(_ZEROS if made == _CHUNK else _ZEROS[:made], room)
                (np.add if sign > 0 else np.subtract)(part, words, out=part)
            position += len(words)
            lead = 0


def accumulate_aes(
    accumulator: npt.NDArray[Any],
    seeds: npt.NDArray[np.uint8],
    signs: npt.NDArray[np.int8],
    start: int,
) -> None:
    """Add AES-128-CTR streams with OpenSSL."""
    _accumulate(accumulator, seeds, signs, start, _open_aes, 16)


def accumulate_chacha20(
    accumulator: npt.NDArray[Any],
    seeds: npt.NDArray[np.uint8],
    signs: npt.NDArray[np.int8],
    start: int,
) -> None:
    """Add ChaCha20 streams with OpenSSL."""
    _accumulate(accumulator, seeds, signs, start, _open_chacha20, 64)
