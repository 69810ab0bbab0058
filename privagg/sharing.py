"""Secret sharing in batches: Shamir's threshold scheme and additive sharing.

**Shamir** (A. Shamir, "How to share a secret", CACM 22(11), 1979). A secret of 128 bits is cut into
three limbs of 43, 43 and 42 bits. Each limb is the constant term of its own polynomial of degree
``threshold - 1`` over GF(2**61 - 1), whose other coefficients are uniform; party i receives the
polynomials' values at its point. Any `threshold` shares give the secret back.

Guarantee: the shares of any ``threshold - 1`` parties are uniform and independent of the secret,
whatever their computing power, provided the entropy is uniform and secret. The shares do not say
who made them nor whether they are right: a wrong share gives another secret, or none (see
:meth:`Combiner.combine`); callers that need more must check the secret against something public.

**Additive sharing** modulo 2**bits: all shares are needed, and all but one are independent of the
value.

Nothing here promises constant time, nor that memory is wiped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privagg import field
from privagg._validate import refuse_masked, whole
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.field.backends import backend
from privagg.field.checks import Elements, describe, element_array

__all__ = [
    "LIMBS",
    "SECRET_BYTES",
    "SHARE_BITS",
    "Combiner",
    "combine",
    "combine_additive",
    "split",
    "split_additive",
]

SECRET_BYTES = 16
"""Bytes of one secret."""

LIMBS = 3
"""Field elements that hold one secret, and that make up one share of it."""

SHARE_BITS = LIMBS * field.M61.bits
"""Bits of one party's share of one secret."""

_LIMB_BITS = (43, 43, 42)
_POINT_BITS = 32
_LOW_43 = np.uint64(2**43 - 1)
_LOW_22 = np.uint64(2**22 - 1)
_21, _22, _43 = np.uint64(21), np.uint64(22), np.uint64(43)

Points = NDArray[np.integer] | Sequence[int]
"""Parties' evaluation points: distinct integers from 1 to 2**32 - 1."""


def _point_array(points: object) -> Elements:
    """Return the points as field elements; public values, so messages may show them."""
    allowed = f"distinct integers from 1 to 2**{_POINT_BITS} - 1, in one dimension"
    array = field.elements(points, name="points")
    if array.ndim != 1 or array.size == 0:
        raise UsageError("points", f"shape {array.shape}", allowed)
    low, high = int(array.min()), int(array.max())
    if low == 0:
        raise UsageError("points", 0, allowed, "The polynomial's value at 0 is the secret itself.")
    if high >= 2**_POINT_BITS:
        raise UsageError("points", high, allowed)
    values, counts = np.unique(array, return_counts=True)
    if values.size != array.size:
        raise UsageError("points", f"{int(values[counts > 1][0])} more than once", allowed)
    return array


def _to_limbs(secrets: NDArray[np.uint8]) -> Elements:
    """Cut (m, 16) bytes, read as little-endian 128-bit integers, into (m, 3) limbs."""
    words = np.ascontiguousarray(secrets).view("<u8").astype(np.uint64)
    low, high = words[:, 0], words[:, 1]
    middle = (low >> _43) | ((high & _LOW_22) << _21)
    return np.stack([low & _LOW_43, middle, high >> _22], axis=1)


def _from_limbs(limbs: Elements) -> NDArray[np.uint8]:
    """Undo :func:`_to_limbs`; every limb is in its range."""
    low = limbs[:, 0] | (limbs[:, 1] << _43)  # the upper 22 bits of the middle limb fall off
    high = (limbs[:, 1] >> _21) | (limbs[:, 2] << _22)
    return np.stack([low, high], axis=1).astype("<u8").view(np.uint8)


def split(secrets: NDArray[np.uint8], threshold: int, points: Points, entropy: Entropy) -> Elements:
    """Share m secrets of 16 bytes among n parties (Shamir 1979).

    Any `threshold` shares of a secret determine it; fewer are independent of it.

    Parameters
    ----------
    secrets : ndarray of uint8, shape (m, 16)
        The secrets, one in each row. Rows are shared with independent coefficients.
    threshold : int
        Shares needed to recover, from 2 to n. (With 1 every share would be the secret.)
    points : sequence of int or integer array, shape (n,)
        One point for each party: distinct, from 1 to 2**32 - 1. Points below 2**31 are faster.
    entropy : Entropy
        Source of ``3 * (threshold - 1) * m`` uniform coefficients.

    Returns
    -------
    ndarray of uint64, shape (n, m, 3)
        ``result[i, k]`` is the share of secret k for the party at ``points[i]``: three elements of
        GF(2**61 - 1).

    Raises
    ------
    UsageError
        A wrong type, shape or dtype; a threshold outside the range; a zero, repeated or too large
        point.
    """
    refuse_masked("secrets", secrets)
    if (
        not isinstance(secrets, np.ndarray)
        or secrets.dtype != np.uint8
        or secrets.ndim != 2
        or secrets.shape[1] != SECRET_BYTES
    ):
        raise UsageError(
            "secrets", describe(secrets), f"a uint8 array of shape (m, {SECRET_BYTES})"
        )
    where = _point_array(points)
    if where.size < 2:
        raise UsageError("points", "1 point", "at least 2", "One party alone cannot share.")
    needed = whole(
        "threshold", threshold, 2, where.size, "It lies between 2 and the number of points."
    )
    m = secrets.shape[0]
    coefficients = np.empty((needed, m * LIMBS), dtype=np.uint64)
    coefficients[0] = _to_limbs(secrets).reshape(-1)
    coefficients[1:] = field.uniform(entropy, (needed - 1, m * LIMBS))
    return field.evaluate(coefficients, where).reshape(where.size, m, LIMBS)


class Combiner:
    """Recovers secrets from the shares of one fixed set of parties.

    Lagrange's weights are computed once, in time quadratic in the number of parties; each secret
    then takes one weighted sum.

    Parameters
    ----------
    points : sequence of int or integer array, shape (t,)
        Points of the parties whose shares will be given, in that order; t is at least the threshold
        with which the secrets were split. With fewer, the results have nothing to do with the
        secrets.

    Attributes
    ----------
    points : ndarray of uint64, shape (t,)
        The points.
    weights : ndarray of uint64, shape (t,)
        Lagrange's weights at 0; public.

    Raises
    ------
    UsageError
        Fewer than two points; a zero, repeated, too large or non-integer point.
    """

    def __init__(self, points: Points) -> None:
        self.points = _point_array(points)
        if self.points.size < 2:
            raise UsageError("points", "1 point", "at least 2, as many as the threshold")
        self.weights = field.lagrange_weights_at_zero(self.points)

    def combine(self, shares: Elements) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Recover m secrets.

        Parameters
        ----------
        shares : ndarray of uint64, shape (t, m, 3)
            Row i holds the shares from the party at ``points[i]``.

        Returns
        -------
        secrets : ndarray of uint8, shape (m, 16)
            The secrets; all zero where not valid.
        valid : ndarray of bool, shape (m,)
            False where a limb is out of its range, which cannot happen with right shares. It is no
            proof the other way: a random error in all three elements of a share goes unnoticed with
            probability 2**-55, in one element with up to 2**-18, and a chosen error can always
            turn one secret into another.

        Raises
        ------
        UsageError
            A wrong dtype or shape, or an element that is not below 2**61 - 1.
        """
        checked = element_array("shares", shares, field.M61)
        t = self.points.size
        if checked.ndim != 3 or checked.shape[0] != t or checked.shape[2] != LIMBS:
            raise UsageError(
                "shares",
                describe(checked),
                f"shape ({t}, m, {LIMBS})",
                "One row for each of the points.",
            )
        m = checked.shape[1]
        # The backend itself: field.weighted_sum would read all shares a second time to check them.
        rows = checked.reshape(t, m * LIMBS)
        limbs = backend(field.M61).weighted_sum(self.weights, rows).reshape(m, LIMBS)
        limits = np.array([2**bits for bits in _LIMB_BITS], dtype=np.uint64)
        valid = np.asarray((limbs < limits).all(axis=1))
        return _from_limbs(np.where(valid[:, None], limbs, np.uint64(0))), valid

    def __repr__(self) -> str:
        return f"Combiner({self.points.size} points)"


def combine(shares: Elements, points: Points) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Recover m secrets from the shares of the parties at `points`: a :class:`Combiner` used once.

    Parameters
    ----------
    shares : ndarray of uint64, shape (t, m, 3)
        Row i holds the shares from the party at ``points[i]``.
    points : sequence of int or integer array, shape (t,)
        At least as many as the threshold.

    Returns
    -------
    secrets : ndarray of uint8, shape (m, 16)
        The secrets; all zero where not valid.
    valid : ndarray of bool, shape (m,)
        See :meth:`Combiner.combine`.

    Raises
    ------
    UsageError
        As for :class:`Combiner` and :meth:`Combiner.combine`.
    """
    return Combiner(points).combine(shares)


def _ring_array(name: str, value: object, bits: int) -> Elements:
    refuse_masked(name, value)
    if not isinstance(value, np.ndarray) or value.dtype != np.uint64:
        raise UsageError(name, describe(value), "a NumPy array of uint64")
    if value.size and int(value.max()) >= 2**bits:
        raise UsageError(
            name,
            f"an element of more than {bits} bits",
            f"elements below 2**{bits}",
            "Reduce before the call, or raise bits; nothing is reduced silently.",
        )
    return value


def split_additive(values: Elements, parties: int, bits: int, entropy: Entropy) -> Elements:
    """Write every value as a sum of random shares modulo 2**bits.

    All shares are needed; any ``parties - 1`` of them are uniform and independent of the values.

    Parameters
    ----------
    values : ndarray of uint64, any shape
        Values below 2**bits.
    parties : int
        Number of shares, 2 or more.
    bits : int
        The modulus is 2**bits; from 1 to 64.
    entropy : Entropy
        Source of the random shares: 8 bytes for each element of all but one.

    Returns
    -------
    ndarray of uint64, shape (parties, *values.shape)
        Row i is for party i.

    Raises
    ------
    UsageError
        A wrong type or dtype, a value that does not fit, `parties` or `bits` outside its range.
    """
    width = whole("bits", bits, 1, 64)
    count = whole("parties", parties, 2, 2**32 - 1)
    checked = _ring_array("values", values, width)
    if not isinstance(entropy, Entropy):
        raise UsageError("entropy", describe(entropy), "an Entropy, such as privagg.entropy.OS")
    mask = np.uint64(2**width - 1)
    raw = entropy.take(8 * (count - 1) * checked.size)
    shares = np.empty((count, *checked.shape), dtype=np.uint64)
    shares[:-1] = np.frombuffer(raw, dtype="<u8").reshape(count - 1, *checked.shape) & mask
    # Sums wrap modulo 2**64, a multiple of the modulus: the mask makes them right.
    shares[-1] = np.subtract(checked, np.add.reduce(shares[:-1], axis=0)) & mask
    return shares


def combine_additive(shares: Elements, bits: int) -> Elements:
    """Sum additive shares modulo 2**bits.

    Parameters
    ----------
    shares : ndarray of uint64, shape (parties, ...)
        All the shares, each element below 2**bits.
    bits : int
        The modulus is 2**bits; from 1 to 64.

    Returns
    -------
    ndarray of uint64, shape shares.shape[1:]
        The values. One missing or wrong share makes them meaningless, and nothing here can tell.

    Raises
    ------
    UsageError
        A wrong type or dtype, fewer than two shares, an element that does not fit in `bits`.
    """
    width = whole("bits", bits, 1, 64)
    checked = _ring_array("shares", shares, width)
    if checked.ndim < 1 or checked.shape[0] < 2:
        raise UsageError("shares", describe(checked), "at least 2 rows, one for each party")
    return np.asarray(np.add.reduce(checked, axis=0) & np.uint64(2**width - 1))
