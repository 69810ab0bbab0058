"""Link keys and what is sealed with them.

AES-CCM (NIST SP 800-38C, the mode of 802.15.4) with tags of 4, 8 or 16 bytes. The nonce is made of
the kind of message, the epoch, sender and receiver, so it never repeats under a key as long as a
node sends one message of a kind to a peer in an epoch, which members hold to. The associated data
is the digest of epoch, leader and roster: what was made for one cluster opens in no other, and a
leader who shows two members different rosters has told them to talk past each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NoReturn, Protocol, runtime_checkable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import AESCCM

from privagg import keys
from privagg._validate import whole
from privagg.errors import PeerError, UsageError
from privagg.protocols.sensor.keypool import Rings

__all__ = [
    "Keyring",
    "MaskStream",
    "PoolKeys",
    "PreloadedKeys",
    "UniqueKeys",
    "open_",
    "roster_digest",
    "seal",
]

_SALT = b"privagg sensor link key 1"


@runtime_checkable
class Keyring(Protocol):
    """The keys that a node shares with others."""

    @property
    def node(self) -> int:
        """Whose."""

    def key(self, peer: int) -> bytes | None:
        """Return the key of 16 bytes shared with `peer`, or None if there is none."""


class UniqueKeys:
    """One key for each pair: X25519 with the peer's pinned public key, then HKDF.

    Parameters
    ----------
    node : int
        Whose.
    private : bytes
        Its X25519 private key.
    directory : mapping of int to bytes
        The public keys of the nodes that there really are, fixed before deployment. A node that is
        not in it does not exist: a leader cannot invent members.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    def __init__(self, node: int, private: bytes, directory: Mapping[int, bytes]) -> None:
        if not isinstance(private, bytes) or len(private) != keys.KEY_BYTES:
            raise UsageError("private", type(private).__name__, f"{keys.KEY_BYTES} bytes")
        _key_table("directory", directory, keys.KEY_BYTES)
        self.node = whole("node", node, 0, 2**32 - 1)
        self._private = private
        self._directory = dict(directory)
        self._keys: dict[int, bytes] = {}

    def key(self, peer: int) -> bytes | None:
        """Return the key shared with `peer`, or None if the directory has no good key of it."""
        if peer == self.node or peer not in self._directory:
            return None
        if peer not in self._keys:
            try:
                secret = keys.agree(self._private, self._directory[peer])
            except keys.LowOrderPointError:
                return None
            pair = b"".join(i.to_bytes(8, "little") for i in sorted((self.node, peer)))
            self._keys[peer] = keys.derive(
                secret, salt=_SALT, info=pair, length=keys.AEAD_KEY_BYTES
            )
        return self._keys[peer]

    def __repr__(self) -> str:
        return f"UniqueKeys(node={self.node})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a keyring is a secret and cannot be pickled")


class PreloadedKeys:
    """Keys that were put into the nodes before deployment, one for each pair.

    Parameters
    ----------
    node : int
        Whose.
    link_keys : mapping of int to bytes
        By peer, 16 uniform bytes each, the same at both ends.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    def __init__(self, node: int, link_keys: Mapping[int, bytes]) -> None:
        _key_table("link_keys", link_keys, keys.AEAD_KEY_BYTES)
        self.node = whole("node", node, 0, 2**32 - 1)
        self._keys = dict(link_keys)

    def key(self, peer: int) -> bytes | None:
        """Return the key shared with `peer`, or None."""
        return None if peer == self.node else self._keys.get(peer)

    def __repr__(self) -> str:
        return f"PreloadedKeys(node={self.node})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a keyring is a secret and cannot be pickled")


def _key_table(name: str, table: Mapping[int, bytes], size: int) -> None:
    """Require keys of `size` bytes by node id: a shorter one would be padded, or read past."""
    if not isinstance(table, Mapping):
        raise UsageError(name, type(table).__name__, "a mapping of node ids to keys")
    for node, key in table.items():
        whole(f"a node of {name}", node, 0, 2**32 - 1)
        if not isinstance(key, bytes) or len(key) != size:
            found = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
            raise UsageError(f"{name}[{node}]", found, f"{size} bytes")


class PoolKeys:
    """Keys from rings of a pool: a model, as everyone whose ring holds a key reads its links.

    Parameters
    ----------
    node : int
        Its id.
    rings : Rings
        Keys of all nodes.
    """

    def __init__(self, node: int, rings: Rings) -> None:
        self.node = node
        self._rings = rings

    def key(self, peer: int) -> bytes | None:
        """Return the key of the lowest number that both rings have, or None.

        Parameters
        ----------
        peer : int
            The other node.
        """
        if peer == self.node or not 0 <= peer < len(self._rings.has):
            return None
        number = self._rings.shared(self.node, peer)
        if number < 0:
            return None
        info = number.to_bytes(8, "little")
        return keys.derive(self._rings.secret, salt=_SALT, info=info, length=keys.AEAD_KEY_BYTES)

    def __repr__(self) -> str:
        return f"PoolKeys(node={self.node})"


class MaskStream:
    """The uniform bytes that two members expand their key to, for one epoch and roster."""

    def __init__(self, key: bytes, epoch: int, digest: bytes) -> None:
        info = b"mask" + epoch.to_bytes(8, "little") + digest
        stream_key = keys.derive(key, salt=_SALT, info=info, length=32)
        self._stream = Cipher(algorithms.ChaCha20(stream_key, bytes(16)), mode=None).encryptor()

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        return self._stream.update(bytes(count))


@lru_cache(maxsize=4096)
def _cipher(key: bytes, tag_bytes: int) -> AESCCM:
    return AESCCM(key, tag_bytes)


def _nonce(kind: int, epoch: int, sender: int, receiver: int) -> bytes:
    return (
        kind.to_bytes(1, "little")
        + epoch.to_bytes(4, "little")
        + sender.to_bytes(4, "little")
        + receiver.to_bytes(4, "little")
    )


def seal(
    key: bytes,
    plaintext: bytes,
    associated: bytes,
    *,
    kind: int,
    epoch: int,
    sender: int,
    receiver: int,
    tag_bytes: int,
) -> bytes:
    """Encrypt and authenticate; returns ciphertext and tag."""
    nonce = _nonce(kind, epoch, sender, receiver)
    return _cipher(key, tag_bytes).encrypt(nonce, plaintext, associated)


def open_(
    key: bytes,
    ciphertext: bytes,
    associated: bytes,
    *,
    kind: int,
    epoch: int,
    sender: int,
    receiver: int,
    tag_bytes: int,
) -> bytes | None:
    """Return the plaintext, or None if the tag does not verify for all that is bound to it."""
    nonce = _nonce(kind, epoch, sender, receiver)
    try:
        return _cipher(key, tag_bytes).decrypt(nonce, ciphertext, associated)
    except InvalidTag:
        return None


def roster_digest(epoch: int, leader: int, members: tuple[int, ...]) -> bytes:
    """Return the digest that everything said in a cluster is bound to.

    Raises
    ------
    PeerError
        If a number does not fit its field.
    """
    if not 0 <= epoch < 2**32 or not all(0 <= node < 2**32 for node in (leader, *members)):
        raise PeerError(leader, "roster", "an epoch or id of more than 32 bits")
    return keys.digest(
        b"privagg sensor roster 1",
        epoch.to_bytes(4, "little"),
        leader.to_bytes(4, "little"),
        b"".join(node.to_bytes(4, "little") for node in members),
    )
