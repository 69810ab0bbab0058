"""Mask streams: a short seed becomes a long vector, added at once into an accumulator.

Pairwise masks of secure aggregation, the coefficients of batched sharing and any other long run of
pseudo-random words come from here. A stream is a key stream of a standard cipher, read as
little-endian words, so that any implementation of the cipher makes the same vector:

``aes-128-ctr``
    AES-128 in counter mode (FIPS 197; NIST SP 800-38A, section 6.5). The seed is the key (16 bytes)
    and the first counter block (16 bytes), which counts as one 128-bit big-endian number.
``chacha20``
    ChaCha20 of RFC 8439, section 2.4. The seed is the key (32 bytes) and the nonce (12 bytes); the
    block counter starts at 0.

Guarantee: the words cannot be told from uniform ones by whoever does not know the seed, if AES-128
(ChaCha20) is a pseudo-random permutation (function) and the key is uniform. AES keys have 128 bits
here; over b blocks a counter-mode stream adds the usual b**2 / 2**129. A key and counter range must
serve one stream only. Nothing here is constant-time beyond what the ciphers are: AES runs on the
processor's instructions or in OpenSSL, ChaCha20 has no table; only lengths and signs steer
branches. Seeds are never part of a message or of a ``repr``; working memory (round keys, key
stream) is not wiped.

Several implementations, called paths, serve a suite: :func:`paths` lists those that this machine
can run. They differ in speed, not in the stream:

=============  =================================================================
``vaes``       AES: compiled, 256-bit AES instructions
``aesni``      AES: compiled, 128-bit AES instructions
``vector512``  ChaCha20: compiled, vectors of 512 bits
``vector256``  ChaCha20: compiled, vectors of 256 bits (any processor)
``openssl``    both: OpenSSL and NumPy, nothing compiled
=============  =================================================================

``PRIVAGG_PRG`` in the environment forces the suite that has a path of that name to take it. Every
path releases the interpreter lock, and a stream can be entered at any word, so that tiles of one
accumulator can be shared out to threads. A compiled path is compiled at its first use and then
kept on disk.

Streams are added to a CUDA array on its device, the same streams. AES looks words up in tables
there: :mod:`privagg._cuda.aes` says what this shows to whoever shares the device.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from privagg._cuda import arrays
from privagg._jit import JIT
from privagg._streams import openssl
from privagg._validate import refuse_masked
from privagg.errors import CapacityError, UsageError

__all__ = ["Suite", "accumulate", "expand", "kernel", "path", "paths", "seed_bytes"]

_Kernel = Callable[[npt.NDArray[Any], npt.NDArray[np.uint8], npt.NDArray[np.int8], int], None]


class Suite(StrEnum):
    """A cipher whose key stream is the mask."""

    AES128_CTR = "aes-128-ctr"
    CHACHA20 = "chacha20"


_SEED_BYTES = {Suite.AES128_CTR: 32, Suite.CHACHA20: 44}

_STREAM_BYTES = {Suite.AES128_CTR: 1 << 64, Suite.CHACHA20: 64 << 32}
"""Where a stream ends: far below the period of AES's counter; at the last block of ChaCha20's."""

_WORDS = (np.dtype(np.uint32), np.dtype(np.uint64))

_FORCE = "PRIVAGG_PRG"

_PORTABLE: dict[Suite, _Kernel] = {
    Suite.AES128_CTR: openssl.accumulate_aes,
    Suite.CHACHA20: openssl.accumulate_chacha20,
}

_PATHS_OF = {
    Suite.AES128_CTR: {"vaes", "aesni", "openssl"},
    Suite.CHACHA20: {"vector512", "vector256", "openssl"},
}

_PATHS = set().union(*_PATHS_OF.values())


def seed_bytes(suite: Suite | str) -> int:
    """Return how many bytes a seed of `suite` has: 32 for AES-128-CTR, 44 for ChaCha20."""
    return _SEED_BYTES[_suite(suite)]


def paths(suite: Suite | str) -> tuple[str, ...]:
    """Return the paths of `suite` that this process can run, the best first."""
    return tuple(_kernels(_suite(suite)))


def path(suite: Suite | str) -> str:
    """Return the path of `suite` that is in use.

    Raises
    ------
    UsageError
        If ``PRIVAGG_PRG`` names a path that this process cannot run.
    """
    return _select(_suite(suite), os.environ.get(_FORCE, ""))[0]


def kernel(suite: Suite | str) -> _Kernel:
    """Return what :func:`accumulate` calls once it has checked its arguments.

    For loops within this package that make many short runs of one stream: nothing is checked here,
    and wrong arguments may crash the process.

    Parameters
    ----------
    suite : Suite or str
        The mask stream.

    Raises
    ------
    UsageError
        If ``PRIVAGG_PRG`` names a path that this process cannot run.
    """
    return _select(_suite(suite), os.environ.get(_FORCE, ""))[1]


def accumulate(
    accumulator: npt.NDArray[Any],
    seeds: npt.NDArray[np.uint8],
    signs: npt.NDArray[np.int8],
    *,
    suite: Suite | str,
    start: int = 0,
) -> None:
    """Add or subtract the streams of many seeds, in place.

    For every j, ``accumulator[j] += sum_i signs[i] * stream_i[start + j]`` modulo 2**32 or 2**64,
    the accumulator's word. Calls for disjoint parts of one accumulator may run in threads.

    Parameters
    ----------
    accumulator : ndarray or CUDA array of uint32 or uint64, shape (d,)
        Contiguous and writable. d may be 0. With a CUDA array the device makes the streams; seeds
        and signs stay NumPy arrays.
    seeds : ndarray of uint8, shape (m, seed_bytes(suite))
        One seed per row. m may be 0.
    signs : ndarray of int8, shape (m,)
        +1 adds a stream, -1 subtracts it.
    suite : Suite or str
        The cipher.
    start : int
        First word of the streams to use, counted in the accumulator's words.

    Raises
    ------
    UsageError
        If an argument is not as described, or ``PRIVAGG_PRG`` names no path of this process.
    CapacityError
        If the streams end before ``start + d`` words: at 2**38 bytes for ChaCha20, whose block
        counter has 32 bits, and at 2**64 bytes for AES-128-CTR.
    """
    chosen = _suite(suite)
    first = _integer("start", start)
    if arrays.is_device_array(accumulator):
        _accumulate_on_device(chosen, accumulator, seeds, signs, first)
        return
    _check_accumulator(accumulator)
    _check_seeds(seeds, signs, _SEED_BYTES[chosen])
    if np.may_share_memory(accumulator, seeds) or np.may_share_memory(accumulator, signs):
        raise UsageError("accumulator", "memory that seeds or signs use", "memory of its own")
    _check_end(chosen, first, len(accumulator), accumulator.dtype.itemsize)
    kernel = _select(chosen, os.environ.get(_FORCE, ""))[1]
    if len(accumulator) and len(seeds):
        kernel(accumulator, _plain(seeds), _plain(signs), first)


def expand(
    seed: bytes,
    count: int,
    *,
    dtype: npt.DTypeLike,
    suite: Suite | str,
    start: int = 0,
) -> npt.NDArray[Any]:
    """Return `count` words of the stream of one seed.

    Parameters
    ----------
    seed : bytes
        As many bytes as :func:`seed_bytes` says.
    count : int
        How many words; 0 or more.
    dtype : dtype
        ``uint32`` or ``uint64``: the word.
    suite : Suite or str
        The cipher.
    start : int
        First word of the stream to return.

    Returns
    -------
    ndarray of `dtype`, shape (count,)

    Raises
    ------
    UsageError
        If an argument is not as described.
    CapacityError
        If the stream ends before ``start + count`` words.
    """
    chosen = _suite(suite)
    needed = _SEED_BYTES[chosen]
    if not isinstance(seed, bytes) or len(seed) != needed:
        found = f"{len(seed)} bytes" if isinstance(seed, bytes) else type(seed).__name__
        raise UsageError("seed", found, f"{needed} bytes for {chosen.value}")
    size, first = _integer("count", count), _integer("start", start)
    try:
        word = np.dtype(dtype)
    except TypeError:
        raise UsageError("dtype", dtype, "uint32 or uint64") from None
    if word not in _WORDS:
        raise UsageError("dtype", str(word), "uint32 or uint64")
    _check_end(chosen, first, size, word.itemsize)
    words: npt.NDArray[Any] = np.zeros(size, dtype=word)
    row = np.frombuffer(seed, dtype=np.uint8).reshape(1, needed)
    accumulate(words, row, np.ones(1, dtype=np.int8), suite=chosen, start=first)
    return words


def _suite(suite: Suite | str) -> Suite:
    try:
        return Suite(suite)
    except ValueError:
        allowed = " or ".join(member.value for member in Suite)
        raise UsageError("suite", suite, allowed) from None


def _integer(argument: str, value: int) -> int:
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise UsageError(argument, value, "an integer from 0")
    return number


def _describe(array: object) -> str:
    """Say what an argument is without its contents, which may be secret."""
    if isinstance(array, np.ndarray):
        return f"{array.dtype} array of shape {array.shape}"
    return type(array).__name__


def _check_accumulator(accumulator: object) -> None:
    allowed = "a 1-D, contiguous, writable array of uint32 or uint64"
    refuse_masked("accumulator", accumulator)
    if (
        not isinstance(accumulator, np.ndarray)
        or accumulator.ndim != 1
        or accumulator.dtype not in _WORDS
    ):
        raise UsageError("accumulator", _describe(accumulator), allowed)
    if not accumulator.flags.carray:
        flaw = "that is read-only, strided or not aligned"
        raise UsageError("accumulator", f"{_describe(accumulator)} {flaw}", allowed)


def _accumulate_on_device(
    suite: Suite, accumulator: Any, seeds: Any, signs: Any, start: int
) -> None:
    allowed = "a 1-D, contiguous CUDA array of uint32 or uint64"
    view = arrays.checked("accumulator", accumulator, allowed)
    if view.dtype not in _WORDS or len(view.shape) != 1:
        found = f"a CUDA array of {view.dtype}, shape {tuple(view.shape)}"
        raise UsageError("accumulator", found, allowed)
    _check_seeds(seeds, signs, _SEED_BYTES[suite])
    _check_end(suite, start, int(view.size), view.dtype.itemsize)
    if not view.size or not len(seeds):
        return
    from privagg._cuda import streams

    add = {
        Suite.AES128_CTR: streams.accumulate_aes,
        Suite.CHACHA20: streams.accumulate_chacha20,
    }[suite]
    with arrays.current(arrays.device_of(view)):
        add(view, seeds, signs, start)


def _check_seeds(seeds: object, signs: object, needed: int) -> None:
    refuse_masked("seeds", seeds)
    refuse_masked("signs", signs)
    if (
        not isinstance(seeds, np.ndarray)
        or seeds.dtype != np.uint8
        or seeds.ndim != 2
        or seeds.shape[1] != needed
    ):
        raise UsageError("seeds", _describe(seeds), f"uint8 array of shape (m, {needed})")
    if (
        not isinstance(signs, np.ndarray)
        or signs.dtype != np.int8
        or signs.shape != (seeds.shape[0],)
    ):
        allowed = f"int8 array of shape ({seeds.shape[0]},), one sign per seed"
        raise UsageError("signs", _describe(signs), allowed)
    wrong = (signs != 1) & (signs != -1)
    if wrong.any():
        at = int(wrong.argmax())
        raise UsageError(f"signs[{at}]", int(signs[at]), "+1 or -1")


def _plain(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array in the one layout that kernels are compiled for: contiguous, writable."""
    return array if array.flags.carray else array.copy()


def _check_end(suite: Suite, start: int, count: int, itemsize: int) -> None:
    limit = _STREAM_BYTES[suite] // itemsize
    if start + count > limit:
        raise CapacityError(
            "start + length",
            f"{start} + {count} words",
            f"up to {limit} words of {itemsize} bytes in a {suite.value} stream",
            "Use another seed for the rest.",
        )


@cache
def _kernels(suite: Suite) -> dict[str, _Kernel]:
    """Map path to kernel for what this process can run, the best first."""
    portable = _PORTABLE[suite]
    if not JIT:
        return {"openssl": portable}
    # Numba takes a while to import: only whoever uses a stream pays.
    from privagg._streams import target

    if not target.compiles():
        return {"openssl": portable}
    present = target.features()
    found: dict[str, _Kernel] = {}
    if suite is Suite.AES128_CTR:
        from privagg._streams import aes

        if {"vaes", "aes", "avx2"} <= present:
            found["vaes"] = aes.accumulate_vaes
        if "aes" in present:
            found["aesni"] = aes.accumulate_aesni
        found["openssl"] = portable
    else:
        from privagg._streams import chacha20

        if {"avx512f", "avx512bw", "avx512vl"} <= present:
            found["vector512"] = chacha20.accumulate_512
        if "avx2" not in present:
            # On narrower vectors the state spills out of the registers and OpenSSL is faster.
            found["openssl"] = portable
        found["vector256"] = chacha20.accumulate_256
        found.setdefault("openssl", portable)
    return found


@cache
def _select(suite: Suite, forced: str) -> tuple[str, _Kernel]:
    """Return the path to use, and its kernel; a path of another suite only forces that one."""
    if forced == "openssl":
        return forced, _PORTABLE[suite]
    available = _kernels(suite)
    best = next(iter(available))
    name = best if not forced or forced in _PATHS - _PATHS_OF[suite] else forced
    if name not in available:
        allowed = f"{', '.join(available)} for {suite.value} in this process"
        raise UsageError(_FORCE, forced, allowed, "Unset it to take the best path.")
    return name, available[name]
