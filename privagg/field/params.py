"""Which finite fields and rings there are, and what the rest of the package asks of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from privagg._validate import whole
from privagg.errors import UsageError

__all__ = [
    "F128",
    "FIELDS",
    "GOLDILOCKS",
    "M31",
    "M61",
    "Algebra",
    "Field",
    "Ring",
    "is_made_here",
    "prime_field",
    "ring",
]


@dataclass(frozen=True)
class Field:
    """A prime field: its parameters only, no arithmetic.

    An element is stored as its canonical representative, an integer from 0 to ``modulus - 1``.

    Attributes
    ----------
    name : str
        Short name, unique.
    modulus : int
        The prime.
    bits : int
        Bit length of the modulus; also the width of an element on the wire.
    dtype : numpy.dtype
        Array type that stores elements.
    generator : int
        The smallest generator of the multiplicative group.
    limbs : int
        Machine words of an element. With one, an array has the shape of its elements. With two, the
        last axis has length 2 and holds the low word, then the high one.
    """

    name: str
    modulus: int
    bits: int
    dtype: np.dtype[Any]
    generator: int
    limbs: int = 1

    @property
    def two_adicity(self) -> int:
        """Largest ``k`` such that ``2**k`` divides ``modulus - 1``: NTTs go up to that length."""
        return ((self.modulus - 1) & -(self.modulus - 1)).bit_length() - 1


@dataclass(frozen=True)
class Ring:
    """Integers modulo ``2**bits``: addition and multiplication, but not every element inverts.

    Attributes
    ----------
    name : str
        ``z2_`` and the bits.
    modulus : int
        ``2**bits``.
    bits : int
        1 to 64; also the width of an element on the wire.
    dtype : numpy.dtype
        The smallest unsigned integer that holds an element.
    limbs : int
        1: an array has the shape of its elements.
    """

    name: str
    modulus: int
    bits: int
    dtype: np.dtype[Any]
    limbs: int = 1


Algebra = Field | Ring
"""What sums and products are taken in."""

M31 = Field("m31", 2**31 - 1, 31, np.dtype(np.uint32), generator=7)
"""A Mersenne prime: the fastest products, and sums of 31 bits."""

M61 = Field("m61", 2**61 - 1, 61, np.dtype(np.uint64), generator=37)
"""A Mersenne prime: in 64 bits the largest one; a reduction is a shift and an addition."""

GOLDILOCKS = Field("goldilocks", 2**64 - 2**32 + 1, 64, np.dtype(np.uint64), generator=7)
"""The prime 2**64 - 2**32 + 1, with roots of unity up to order 2**32 (Field64 of VDAF)."""

F128 = Field(
    "f128", 4611686018427387897 * 2**66 + 1, 128, np.dtype(np.uint64), generator=7, limbs=2
)
"""The field of 128 bits of VDAF (Field128), with roots of unity up to order 2**66."""

FIELDS: dict[str, Field] = {field.name: field for field in (M31, M61, GOLDILOCKS, F128)}
"""Every field that has a name of its own; :func:`prime_field` makes others."""

_NAMED = {id(field): field for field in FIELDS.values()}

_WITNESSES = (2, 7, 61)  # Miller-Rabin with these is exact below 4 759 123 141


def _is_prime(n: int) -> bool:
    """Test a number below 2**32 (Jaeschke 1993)."""
    if n in _WITNESSES:
        return True
    if n < 2 or any(n % witness == 0 for witness in _WITNESSES):
        return False
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in _WITNESSES:
        power = pow(witness, odd, n)
        if power in (1, n - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % n
            if power == n - 1:
                break
        else:
            return False
    return True


def _prime_factors(n: int) -> list[int]:
    factors, candidate = [], 2
    while candidate * candidate <= n:
        if n % candidate == 0:
            factors.append(candidate)
            while n % candidate == 0:
                n //= candidate
        candidate += 1
    return [*factors, n] if n > 1 else factors


def _smallest_generator(p: int) -> int:
    orders = [(p - 1) // factor for factor in _prime_factors(p - 1)]
    candidate = 1
    while any(pow(candidate, order, p) == 1 for order in orders):
        candidate += 1
    return candidate


def prime_field(modulus: int) -> Field:
    """Return the field of integers modulo a prime below 2**32.

    Small ones allow proofs by exhaustion; random ones near 2**31 make linear algebra exact with
    a stated probability of error.

    Parameters
    ----------
    modulus : int
        The prime.

    Returns
    -------
    Field
        :data:`M31` for its modulus.

    Raises
    ------
    UsageError
        Not a whole number from 2 to 2**32 - 1, or not prime.
    """
    return _prime_field(whole("modulus", modulus, 2, 2**32 - 1))


@cache
def _prime_field(modulus: int) -> Field:
    if modulus == M31.modulus:
        return M31
    if not _is_prime(modulus):
        raise UsageError("modulus", modulus, "a prime", "Rings modulo 2**b come from field.ring.")
    return Field(
        name=f"p{modulus}",
        modulus=modulus,
        bits=modulus.bit_length(),
        dtype=np.dtype(np.uint32),
        generator=_smallest_generator(modulus),
    )


@cache
def _ring(bits: int) -> Ring:
    size = next(size for size in (8, 16, 32, 64) if bits <= size)
    return Ring(f"z2_{bits}", 2**bits, bits, np.dtype(f"uint{size}"))


def ring(bits: int) -> Ring:
    """Return the ring of integers modulo ``2**bits``.

    Parameters
    ----------
    bits : int
        1 to 64.

    Returns
    -------
    Ring
        With the smallest unsigned dtype that holds an element.

    Raises
    ------
    UsageError
        `bits` is not a whole number from 1 to 64.
    """
    return _ring(whole("bits", bits, 1, 64))


def is_made_here(algebra: Algebra) -> bool:
    """Whether these parameters are those of a field or ring of this module, not put together."""
    if _NAMED.get(id(algebra)) is algebra:  # the quick way, since every call asks
        return True
    numbers = [algebra.modulus, algebra.bits, algebra.limbs]
    numbers += [algebra.generator] if isinstance(algebra, Field) else []
    plain = isinstance(algebra.name, str) and isinstance(algebra.dtype, np.dtype)
    # Before anything is hashed or compared: what is put together can hold any object.
    return plain and all(type(number) is int for number in numbers) and _is_made_here(algebra)


@cache
def _is_made_here(algebra: Algebra) -> bool:
    if isinstance(algebra, Ring):
        return 1 <= algebra.bits <= 64 and algebra == _ring(algebra.bits)
    if algebra.name in FIELDS:
        return algebra == FIELDS[algebra.name]
    return (
        2 <= algebra.modulus < 2**32
        and _is_prime(algebra.modulus)
        and algebra == _prime_field(algebra.modulus)
    )
