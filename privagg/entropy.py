"""Where randomness comes from.

Everything that needs randomness takes an :class:`Entropy` as an argument. There are two: the
operating system's, and a seeded stream that makes a run repeatable and is therefore **insecure**:
whoever knows the seed knows every secret. Results of seeded runs carry that word.
"""

from __future__ import annotations

import hashlib
import os
import threading
from numbers import Integral
from typing import NoReturn, Protocol, runtime_checkable

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from privagg.errors import UsageError

__all__ = ["OS", "Entropy", "OsEntropy", "SeededEntropy", "from_seed"]


@runtime_checkable
class Entropy(Protocol):
    """A source of uniform bytes."""

    @property
    def insecure(self) -> bool:
        """Whether the bytes can be recomputed by whoever knows a seed."""

    def take(self, count: int) -> bytes:
        """Return `count` uniform bytes that were never returned before."""

    def spawn(self, label: str) -> Entropy:
        """Return an independent source; where there is a seed, it and `label` determine it."""


class OsEntropy:
    """The operating system's generator (``os.urandom``)."""

    insecure = False

    def take(self, count: int) -> bytes:
        """Return `count` bytes from ``os.urandom``."""
        return os.urandom(count)

    def spawn(self, label: str) -> OsEntropy:
        """Return this source: the system's generator needs no separation.

        Parameters
        ----------
        label : str
            Names the part that uses it.
        """
        return self

    def __repr__(self) -> str:
        return "OsEntropy()"


class SeededEntropy:
    """A repeatable stream, **insecure by design**: ChaCha20 keyed by a seed and a label path.

    The key is SHA-256 of the seed and the path.

    Parameters
    ----------
    seed : int
        Any integer from 0 to 2**64 - 1.
    path : str
        Labels of the ancestors; set by :meth:`spawn`.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    insecure = True

    def __init__(self, seed: int, path: str = "") -> None:
        whole = isinstance(seed, Integral) and not isinstance(seed, bool)  # NumPy's are as good
        if not whole or not 0 <= int(seed) < 2**64:
            raise UsageError("seed", seed, "an integer from 0 to 2**64 - 1")
        self._seed = int(seed)
        self._path = path
        key = hashlib.sha256(
            b"privagg insecure seed\0" + self._seed.to_bytes(8, "big") + path.encode()
        ).digest()
        self._stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
        self._lock = threading.Lock()

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes of the stream."""
        with self._lock:
            return self._stream.update(bytes(count))

    def spawn(self, label: str) -> SeededEntropy:
        """Return the stream of `label` under this one, whatever was taken before."""
        return SeededEntropy(self._seed, f"{self._path}/{len(label)}:{label}")

    def __repr__(self) -> str:
        return "SeededEntropy(insecure)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a seeded stream cannot be pickled: two copies would return the same bytes")


OS = OsEntropy()
"""The operating system's entropy: the default everywhere."""


def from_seed(seed: int | None) -> Entropy:
    """Return the operating system's entropy, or the insecure stream of a given `seed`."""
    return OS if seed is None else SeededEntropy(seed)
