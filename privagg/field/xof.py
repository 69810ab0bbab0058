"""Seed streams of the VDAF draft: XofTurboShake128.

An extendable output function turns a seed, a domain separation tag and a binder into bytes without
end. :func:`privagg.field.uniform` draws elements from it in the draft's order, so that a vector
here is the vector of any implementation of draft-irtf-cfrg-vdaf ("Extendable Output Functions",
XofTurboShake128), which stands on TurboSHAKE128 (RFC 9861).

Guarantee: whoever does not know the seed cannot tell the stream from uniform bytes, if
TurboSHAKE128 is as good as a random function. Streams of unlike tags or binders are independent.
"""

from __future__ import annotations

from Crypto.Hash import TurboSHAKE128

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.field.checks import Elements, describe
from privagg.field.params import Algebra
from privagg.field.sampling import uniform

__all__ = ["SEED_SIZE", "XofTurboShake128", "derive_seed", "expand_into_vec"]

SEED_SIZE = 32
"""Bytes of the seeds that :func:`derive_seed` makes."""

_DOMAIN = 1  # the draft's domain byte of XofTurboShake128
_LONGEST_TAG = 2**16 - 1  # its length is written in two bytes, the seed's in one
_LONGEST_SEED = 2**8 - 1
_PIECE = 2**26  # bytes asked of the hash at once


class XofTurboShake128:
    """A stream of bytes from a seed: ``TurboSHAKE128(tag, seed, binder)`` of the VDAF draft.

    A source for :func:`privagg.field.uniform`: ``uniform(xof, n, field)`` is the draft's
    ``next_vec(field, n)``. No method shows the seed.

    Parameters
    ----------
    seed : bytes
        Secret; at most 255 bytes, 32 in the VDAFs of the draft.
    dst : bytes
        Domain separation tag, public; at most 65535 bytes.
    binder : bytes
        What else the stream shall depend on; any length.

    Raises
    ------
    UsageError
        Something that is not bytes, or too long.
    """

    def __init__(self, seed: bytes, dst: bytes, binder: bytes) -> None:
        for name, value, longest in (
            ("seed", seed, _LONGEST_SEED),
            ("dst", dst, _LONGEST_TAG),
            ("binder", binder, None),
        ):
            if not isinstance(value, bytes):
                raise UsageError(name, describe(value), "bytes")
            if longest is not None and len(value) > longest:
                raise UsageError(name, f"{len(value)} bytes", f"at most {longest} bytes")
        self._hash = TurboSHAKE128.new(domain=_DOMAIN)
        self._hash.update(len(dst).to_bytes(2, "little") + dst)
        self._hash.update(len(seed).to_bytes(1, "little") + seed)
        self._hash.update(binder)

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes.

        Raises
        ------
        UsageError
            `count` is no whole number of 0 or more.
        """
        left = whole("count", count, 0, 2**62)
        pieces = []
        while left:
            pieces.append(self._hash.read(min(left, _PIECE)))
            left -= len(pieces[-1])
        return b"".join(pieces)

    def __repr__(self) -> str:
        return "XofTurboShake128()"

    def __reduce__(self) -> str:
        raise TypeError("a seed stream is secret and cannot be pickled")


def derive_seed(seed: bytes, dst: bytes, binder: bytes) -> bytes:
    """Return a new seed: the stream's first :data:`SEED_SIZE` bytes; errors as for the stream."""
    return XofTurboShake128(seed, dst, binder).take(SEED_SIZE)


def expand_into_vec(
    seed: bytes, dst: bytes, binder: bytes, length: int, field: Algebra
) -> Elements:
    """Return the first elements of a seed's stream.

    Parameters
    ----------
    seed, dst, binder : bytes
        As for :class:`XofTurboShake128`.
    length : int
        How many elements.
    field : Field or Ring
        What they belong to.

    Returns
    -------
    ndarray of field.dtype, shape (length,)
        The draft's ``Xof.expand_into_vec``.

    Raises
    ------
    UsageError
        As for the stream; `length` is no whole number of 0 or more, `field` no field or ring.
    """
    count = whole("length", length, 0, 2**62)
    return uniform(XofTurboShake128(seed, dst, binder), count, field)
