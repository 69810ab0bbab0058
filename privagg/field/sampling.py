"""Uniform elements of a field or ring from a source of random bytes."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import numpy as np

from privagg.errors import UsageError
from privagg.field.checks import Elements, check_algebra, describe, shape_tuple
from privagg.field.params import M61, Algebra

__all__ = ["ByteSource", "uniform"]


@runtime_checkable
class ByteSource(Protocol):
    """Anything that hands out bytes: an Entropy, a seed stream."""

    def take(self, count: int, /) -> bytes:
        """Return the next `count` bytes."""


def uniform(source: ByteSource, shape: int | tuple[int, ...], field: Algebra = M61) -> Elements:
    """Draw uniform elements: random bits, cut to the modulus' length, rejected if not below.

    The bytes of an element come one after another, little-endian, and the next element follows an
    accepted or a rejected one: the order in which the VDAF draft expands a seed into a vector.

    Parameters
    ----------
    source : Entropy or another object with ``take(count) -> bytes``
        Where the bytes come from: an element's machine words, and as many for each rejection.
    shape : int or tuple of int
        Shape of the elements.
    field : Field or Ring
        What to draw from.

    Returns
    -------
    ndarray of field.dtype
        Exactly uniform, if the bytes of `source` are.

    Raises
    ------
    UsageError
        `source` is none or returned the wrong number of bytes, or `shape` is no shape.
    """
    if not isinstance(source, ByteSource) or isinstance(source, np.ndarray | np.generic):
        raise UsageError("source", describe(source), "an Entropy, such as privagg.entropy.OS")
    check_algebra(field)
    axes = shape_tuple(shape)
    count = math.prod(axes)
    drawn = _accepted(source, count, field)
    while len(drawn) < count:
        drawn = np.concatenate([drawn, _accepted(source, count - len(drawn), field)])
    return drawn.reshape(axes + ((field.limbs,) if field.limbs > 1 else ()))


def _accepted(source: ByteSource, count: int, field: Algebra) -> Elements:
    """Draw `count` integers of as many bits as the modulus has; keep those below, in order."""
    size = field.dtype.itemsize * field.limbs * count
    raw = source.take(size)
    if not isinstance(raw, bytes) or len(raw) != size:
        found = f"{len(raw)} bytes" if isinstance(raw, bytes) else describe(raw)
        raise UsageError("source", found, f"the {size} bytes that were asked for")
    words = np.frombuffer(raw, dtype=field.dtype.newbyteorder("<")).astype(field.dtype)
    words = words.reshape(count, field.limbs)
    words[:, -1] &= field.dtype.type(2 ** (field.bits - 64 * (field.limbs - 1)) - 1)
    if field.modulus == 2**field.bits:
        return np.asarray(words[:, 0])
    high = field.dtype.type(field.modulus >> (64 * (field.limbs - 1)))
    below = words[:, -1] < high
    if field.limbs > 1:
        low = np.uint64(field.modulus & (2**64 - 1))
        below |= (words[:, 1] == high) & (words[:, 0] < low)
        return np.asarray(words[below])
    return np.asarray(words[below, 0])
