"""The same work by other means: plain Python, and libraries where they are installed.

Each function returns callables by the name of the contestant. Optional libraries are looked up when
asked for, so that nothing here needs them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from Crypto.Cipher import AES, ChaCha20
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from privagg.prg import Suite

__all__ = [
    "PRIME",
    "Work",
    "combiners",
    "key_streams",
    "optional",
    "python_combine",
    "python_share",
    "python_weights",
    "sharers",
    "streams",
]

Work = Callable[[], object]

PRIME = 2**130 - 5
"""The field that the big-integer contestants share a 128-bit secret in: one element holds it."""


def optional(module: str) -> Any | None:
    """Return a library, or None where it is not installed.

    Parameters
    ----------
    module : str
        Its name.
    """
    return import_module(module) if find_spec(module) is not None else None


def _openssl(suite: Suite, seed: bytes) -> Any:
    if suite is Suite.AES128_CTR:
        return Cipher(algorithms.AES(seed[:16]), modes.CTR(seed[16:])).encryptor()
    return Cipher(algorithms.ChaCha20(seed[:32], bytes(4) + seed[32:]), mode=None).encryptor()


def _cryptodome(suite: Suite, seed: bytes) -> Any:
    if suite is Suite.AES128_CTR:
        start = int.from_bytes(seed[16:], "big")
        return AES.new(seed[:16], AES.MODE_CTR, nonce=b"", initial_value=start)
    return ChaCha20.new(key=seed[:32], nonce=seed[32:])


def key_streams(suite: Suite, seed: bytes, size: int) -> dict[str, Work]:
    """Return makers of `size` bytes of key stream in a buffer that is used again; nothing added.

    Parameters
    ----------
    suite : Suite
        The stream cipher.
    seed : bytes
        16 or 32 bytes, as the suite has it.
    size : int
        How many bytes.
    """
    zeros = bytes(size)
    room = bytearray(size + 64)
    exact = bytearray(size)
    return {
        "cryptography update_into, no addition": lambda: _openssl(suite, seed).update_into(
            zeros, room
        ),
        "pycryptodome, no addition": lambda: _cryptodome(suite, seed).encrypt(zeros, output=exact),
    }


def streams(suite: Suite, seeds: NDArray[np.uint8], accumulator: NDArray[Any]) -> dict[str, Work]:
    """Return adders of the streams of all `seeds`, one cipher object for each, NumPy's addition.

    Parameters
    ----------
    suite : Suite
        The stream cipher.
    seeds : (n, bytes) uint8 array
        A seed in each row.
    accumulator : (length,) uint32 or uint64 array
        What streams are added to.
    """
    size = accumulator.nbytes
    zeros = bytes(size)
    room, exact = bytearray(size + 64), bytearray(size)
    roomy = np.frombuffer(room, accumulator.dtype, len(accumulator))
    tight = np.frombuffer(exact, accumulator.dtype)
    rows = [seed.tobytes() for seed in seeds]

    def with_openssl() -> None:
        for row in rows:
            _openssl(suite, row).update_into(zeros, room)
            np.add(accumulator, roomy, out=accumulator)

    def with_cryptodome() -> None:
        for row in rows:
            _cryptodome(suite, row).encrypt(zeros, output=exact)
            np.add(accumulator, tight, out=accumulator)

    return {
        "cryptography, a cipher object per seed": with_openssl,
        "pycryptodome, a cipher object per seed": with_cryptodome,
    }


def python_share(secret: int, threshold: int, clients: int) -> list[int]:
    """Return the shares of one secret at 1 to `clients`: Horner's rule in Python's integers.

    Parameters
    ----------
    secret : int
        The secret, an element.
    threshold : int
        Shares that rebuild a secret.
    clients : int
        How many clients.
    """
    coefficients = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    shares = []
    for point in range(1, clients + 1):
        value = 0
        for coefficient in coefficients:
            value = (value + coefficient) * point % PRIME
        shares.append((value + secret) % PRIME)
    return shares


def python_weights(points: Sequence[int]) -> list[int]:
    """Return Lagrange's weights at zero in Python's integers.

    Parameters
    ----------
    points : sequence of int
        Where the shares are values.
    """
    weights = []
    for here in points:
        above, below = 1, 1
        for other in points:
            if other != here:
                above = above * other % PRIME
                below = below * (other - here) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return weights


def python_combine(weights: Sequence[int], shares: Sequence[int]) -> int:
    """Return the secret from its shares, given the weights.

    Parameters
    ----------
    weights : sequence of int
        One per share.
    shares : sequence of int
        In the order of the weights.
    """
    return sum(w * s for w, s in zip(weights, shares, strict=True)) % PRIME


def sharers(threshold: int, clients: int) -> dict[str, Work]:
    """Return sharers of one 128-bit secret among `clients`.

    Parameters
    ----------
    threshold : int
        Shares that rebuild a secret.
    clients : int
        How many clients.
    """
    secret = secrets.randbits(128)
    found: dict[str, Work] = {
        "plain Python integers": lambda: python_share(secret, threshold, clients)
    }
    flint = optional("flint")
    if flint is not None:
        field = flint.fmpz_mod_poly_ctx(flint.fmpz_mod_ctx(PRIME))
        points = list(range(1, clients + 1))

        def with_flint() -> object:
            tail = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
            return field([secret, *tail]).multipoint_evaluate(points)

        found["python-flint multipoint_evaluate"] = with_flint
    gmpy2 = optional("gmpy2")
    if gmpy2 is not None:
        prime = gmpy2.mpz(PRIME)

        def with_gmpy2() -> object:
            tail = [gmpy2.mpz(secrets.randbelow(PRIME)) for _ in range(threshold - 1)]
            shares = []
            for point in range(1, clients + 1):
                value = gmpy2.mpz(0)
                for coefficient in tail:
                    value = (value + coefficient) * point % prime
                shares.append((value + secret) % prime)
            return shares

        found["gmpy2 integers"] = with_gmpy2
    return found


def combiners(threshold: int, count: int) -> dict[str, Work]:
    """Return rebuilders of `count` secrets from `threshold` shares each, weights given."""
    points = list(range(1, threshold + 1))
    weights = python_weights(points)
    table = [[secrets.randbelow(PRIME) for _ in points] for _ in range(count)]
    found: dict[str, Work] = {
        "plain Python integers": lambda: [python_combine(weights, row) for row in table]
    }
    flint = optional("flint")
    if flint is not None:
        shares, column = flint.fmpz_mat(table), flint.fmpz_mat([[weight] for weight in weights])
        found["python-flint matrix product"] = lambda: [
            int(value) % PRIME for value in (shares * column).entries()
        ]
    gmpy2 = optional("gmpy2")
    if gmpy2 is not None:
        big = [gmpy2.mpz(weight) for weight in weights]
        rows = [[gmpy2.mpz(value) for value in row] for row in table]
        found["gmpy2 integers"] = lambda: [
            sum(w * s for w, s in zip(big, row, strict=True)) % PRIME for row in rows
        ]
    return found
