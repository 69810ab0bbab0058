"""Keys: X25519, Ed25519, HKDF-SHA256 and AES-128-GCM behind thin, typed functions.

Nothing here is our own cryptography. X25519 comes from libsodium through PyNaCl, which releases the
interpreter lock while it computes; HKDF (RFC 5869) and AES-GCM (NIST SP 800-38D) come from OpenSSL
through `cryptography`. Timing side channels are those of these libraries; the Python around them
promises nothing. Keys are plain ``bytes`` and are not wiped from memory when released.
"""

from __future__ import annotations

import hashlib
from typing import NoReturn

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from nacl.bindings import crypto_scalarmult, crypto_scalarmult_base
from nacl.exceptions import CryptoError
from nacl.signing import SigningKey, VerifyKey
from numpy.typing import NDArray

from privagg.entropy import OS, Entropy
from privagg.errors import UsageError

__all__ = [
    "AEAD_KEY_BYTES",
    "KEY_BYTES",
    "LOW_ORDER_POINTS",
    "SIGNATURE_BYTES",
    "TAG_BYTES",
    "Identity",
    "LowOrderPointError",
    "agree",
    "canonical_points",
    "decrypt",
    "derive",
    "digest",
    "encrypt",
    "is_low_order",
    "public_key",
    "verify",
]

KEY_BYTES = 32
"""Size of an X25519 private or public key."""

SIGNATURE_BYTES = 64
"""Size of an Ed25519 signature."""

AEAD_KEY_BYTES = 16
"""Size of an AES-128-GCM key."""

TAG_BYTES = 16
"""Size of an AES-GCM tag: a ciphertext is so much longer than its plaintext."""

_ANY_PRIVATE = bytes(range(32))
_NONCE = bytes(12)
_SHA256 = hashes.SHA256()
_FIELD_PRIME = (2**255 - 19).to_bytes(32, "little")


LOW_ORDER_POINTS = frozenset(
    bytes.fromhex(point)
    for point in (
        "00" * 32,
        "01" + "00" * 31,
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ec" + "ff" * 30 + "7f",
    )
)
"""The canonical encodings of the X25519 points whose order divides 8, on the curve or its twist."""


class LowOrderPointError(ValueError):
    """The public key lies in the small subgroup: the shared secret would be known to everyone."""


class Identity:
    """An Ed25519 signing key (RFC 8032): who a client is, over many rounds.

    Parameters
    ----------
    seed : bytes
        The private key of 32 bytes, from :meth:`generate` or a key file.

    Raises
    ------
    UsageError
        If `seed` has another size or type.
    """

    def __init__(self, seed: bytes) -> None:
        if not isinstance(seed, bytes) or len(seed) != KEY_BYTES:
            raise UsageError("seed", type(seed).__name__, f"{KEY_BYTES} bytes")
        self._key = SigningKey(seed)

    @classmethod
    def generate(cls, entropy: Entropy = OS) -> Identity:
        """Return a new identity."""
        return cls(entropy.take(KEY_BYTES))

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes: what others pin."""
        return bytes(self._key.verify_key)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of 64 bytes over `message`; it is deterministic."""
        return bytes(self._key.sign(message).signature)

    def secret_bytes(self) -> bytes:
        """Return the private key of 32 bytes, **secret**, for a key file."""
        return bytes(self._key)

    def __repr__(self) -> str:
        return f"Identity(public={self.public.hex()[:16]}...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an identity is a secret and cannot be pickled: use secret_bytes()")


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Say whether `signature` is that of `public` over `message` (Ed25519, RFC 8032)."""
    try:
        VerifyKey(public).verify(message, signature)
    except (CryptoError, ValueError):
        return False
    return True


def digest(*parts: bytes) -> bytes:
    """Return SHA-256 over `parts`, each preceded by its length, so that no two lists collide."""
    state = hashlib.sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


def derive(secret: bytes, *, salt: bytes, info: bytes, length: int) -> bytes:
    """Return `length` bytes of HKDF-SHA256 (RFC 5869) from `secret`, `salt` and `info`.

    The pseudorandom-function security of HMAC-SHA256 carries over: outputs under different `info`
    are independent to anyone who does not know `secret`.
    """
    return HKDF(_SHA256, length, salt, info).derive(secret)


def public_key(private: bytes) -> bytes:
    """Return the X25519 public key (32 bytes, RFC 7748) of a private key of 32 bytes.

    Parameters
    ----------
    private : bytes
        A private key of 32 bytes.
    """
    return bytes(crypto_scalarmult_base(private))


def agree(private: bytes, public: bytes) -> bytes:
    """Return the X25519 shared secret of 32 bytes (RFC 7748, section 6.1).

    Parameters
    ----------
    private : bytes
        A private key of 32 bytes.
    public : bytes
        The other party's public key of 32 bytes.

    Raises
    ------
    LowOrderPointError
        If the shared secret is all zero, as section 6.1 asks to check.
    """
    try:
        return bytes(crypto_scalarmult(private, public))
    except CryptoError:
        raise LowOrderPointError("the public key is a point of low order") from None


def is_low_order(public: bytes) -> bool:
    """Say whether `public` (32 bytes) is a point of low order: everyone knows its secrets."""
    try:
        agree(_ANY_PRIVATE, public)
    except LowOrderPointError:
        return True
    return False


def canonical_points(keys: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Say which rows of `keys` (m, 32) are the canonical encoding of a field element.

    X25519 ignores the top bit and reduces mod 2**255 - 19, so that one point has several encodings;
    a check that keys are distinct is worth something only where each has one.
    """
    top_clear = keys[:, 31] < 0x80
    prime = np.frombuffer(_FIELD_PRIME, dtype=np.uint8)
    # Compare from the most significant byte down: the first byte that differs decides.
    differs = keys[:, ::-1] != prime[::-1]
    first = np.argmax(differs, axis=1)
    rows = np.arange(len(keys))
    below = keys[:, ::-1][rows, first] < prime[::-1][first]
    result: NDArray[np.bool_] = top_clear & differs.any(axis=1) & below
    return result


def encrypt(key: bytes, plaintext: bytes, associated: bytes) -> bytes:
    """Encrypt with AES-128-GCM under an all-zero nonce; returns ciphertext and tag.

    Every `key` must be used for one plaintext only: the fixed nonce is sound for such keys alone.
    Repeating the call with the same arguments returns the same bytes.

    Parameters
    ----------
    key : bytes
        16 bytes.
    plaintext : bytes
        The message, of any length.
    associated : bytes
        Data that is bound to the ciphertext, though not in it.

    Returns
    -------
    bytes
        The ciphertext, and its tag of 16 bytes.
    """
    return AESGCM(key).encrypt(_NONCE, plaintext, associated)


def decrypt(key: bytes, ciphertext: bytes, associated: bytes) -> bytes | None:
    """Return the plaintext, or None if the tag does not verify for this key and associated data.

    Parameters
    ----------
    key : bytes
        16 bytes.
    ciphertext : bytes
        What :func:`encrypt` returned: the tag comes last.
    associated : bytes
        Data that is bound to the ciphertext, though not in it.
    """
    try:
        return AESGCM(key).decrypt(_NONCE, ciphertext, associated)
    except InvalidTag:
        return None
