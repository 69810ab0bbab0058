"""What a party computes with each of its peers, in batches: agreement, derivation, encryption.

The graph's edges are where the time goes, so that these loops keep nothing per edge but bytes in
arrays: no key object and no cipher object outlives its edge. Each function is the loop over
:mod:`privagg.protocols.secagg.derivations` and :mod:`privagg.keys` that it looks like, with what is
the same for all peers worked out once. The interpreter lock is free while libsodium multiplies, so
that threads which call these functions for different parties keep all cores busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import keys
from privagg.errors import PeerError
from privagg.protocols.secagg import derivations
from privagg.protocols.secagg.params import Params

__all__ = ["Agree", "Pairs", "Strip", "mask_seeds", "open_each", "seal_each"]


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """One party's agreements with its peers: the arguments of :func:`mask_seeds`."""

    private: bytes = field(repr=False)
    publics: NDArray[np.uint8] = field(repr=False)
    context: bytes = field(repr=False)
    roster: bytes = field(repr=False)
    own: int
    peers: NDArray[np.integer[Any]] = field(repr=False)
    length: int
    round: str
    model: bytes = field(default=b"", repr=False)

    def seeds(self) -> NDArray[np.uint8]:
        """Return what :func:`mask_seeds` does."""
        return mask_seeds(
            self.private,
            self.publics,
            context=self.context,
            roster=self.roster,
            own=self.own,
            peers=self.peers,
            length=self.length,
            round=self.round,
            model=self.model,
        )


Agree = Callable[[Iterable[Pairs]], Iterator[NDArray[np.uint8]]]
"""Works out the seeds of several parties, in order, wherever that is done."""

Strip = Callable[
    [Params, NDArray[np.uint8], NDArray[np.int8], Iterable[tuple[int, int]]],
    Iterator[NDArray[Any]],
]
"""Adds up mask streams, wherever that is done: of the round's parameters, seeds and signs as for
:func:`privagg.prg.accumulate`, and ranges of coordinates, the words of each range, in order."""


def mask_seeds(
    private: bytes,
    publics: NDArray[np.uint8],
    *,
    context: bytes,
    roster: bytes,
    own: int,
    peers: NDArray[np.integer[Any]],
    length: int,
    round: str,
    model: bytes = b"",
) -> NDArray[np.uint8]:
    """Agree with each peer and derive the pair's mask seed.

    Parameters
    ----------
    private : bytes
        The own private mask key.
    publics : (m, 32) uint8 array
        The peers' public mask keys.
    context, roster : bytes
        What the derivations are bound to.
    own : int
        The own index.
    peers : (m,) integer array
        The peers' indices.
    length : int
        Bytes of a seed.
    round : str
        The round's name, for errors.
    model : bytes
        Digest of the shared parameters, or empty.

    Returns
    -------
    (m, length) uint8 array

    Raises
    ------
    PeerError
        Naming the peer whose key is a point of low order.
    """
    seeds = [
        keys.derive(secret, salt=context, info=info + model, length=length)
        for secret, info in _agreed(
            private, publics, b"privagg secagg pairwise mask" + roster, own, peers, round
        )
    ]
    return _table(seeds, length)


def seal_each(
    private: bytes,
    publics: NDArray[np.uint8],
    plaintexts: NDArray[np.uint8],
    *,
    context: bytes,
    roster: bytes,
    own: int,
    peers: NDArray[np.integer[Any]],
    round: str,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Agree with each peer and encrypt its plaintext for it.

    Parameters
    ----------
    private : bytes
        The own private cipher key.
    publics : (m, 32) uint8 array
        The peers' public cipher keys.
    plaintexts : (m, size) uint8 array
        One for each peer.
    context, roster, own, peers, round
        As for :func:`mask_seeds`.

    Returns
    -------
    ciphertexts : (m, size + TAG_BYTES) uint8 array
        For each peer, under the key of the way there.
    inward : (m, AEAD_KEY_BYTES) uint8 array
        The keys of the way back.

    Raises
    ------
    PeerError
        Naming the peer whose key is a point of low order.
    """
    both = 2 * keys.AEAD_KEY_BYTES
    lead = _associated_lead(context, roster)
    me = own.to_bytes(4, "little")
    size = plaintexts.shape[1]
    plain, names = plaintexts.tobytes(), peers.astype("<u4").tobytes()
    sealed, inward = [], []
    agreed = _agreed(private, publics, b"privagg secagg share keys" + roster, own, peers, round)
    for place, ((secret, info), upward) in enumerate(
        zip(agreed, (own < peers).tolist(), strict=True)
    ):
        pair = keys.derive(secret, salt=context, info=info, length=both)
        there, back = pair[: keys.AEAD_KEY_BYTES], pair[keys.AEAD_KEY_BYTES :]
        if not upward:
            there, back = back, there
        associated = lead + me + names[4 * place : 4 * place + 4]
        sealed.append(keys.encrypt(there, plain[size * place : size * (place + 1)], associated))
        inward.append(back)
    return _table(sealed, size + keys.TAG_BYTES), _table(inward, keys.AEAD_KEY_BYTES)


def open_each(
    inward: NDArray[np.uint8],
    ciphertexts: NDArray[np.uint8],
    *,
    context: bytes,
    roster: bytes,
    own: int,
    peers: NDArray[np.integer[Any]],
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Decrypt what each peer sealed for us.

    Parameters
    ----------
    inward : (m, AEAD_KEY_BYTES) uint8 array
        The keys that :func:`seal_each` returned, of these peers.
    ciphertexts : (m, size) uint8 array
        One from each peer.
    context, roster, own, peers
        As for :func:`mask_seeds`.

    Returns
    -------
    plaintexts : (m, size - TAG_BYTES) uint8 array
        Zero where not opened.
    opened : (m,) bool array
        Whose ciphertext opened for this round, sender and receiver.
    """
    lead = _associated_lead(context, roster)
    me = own.to_bytes(4, "little")
    size = ciphertexts.shape[1]
    sealed, names = ciphertexts.tobytes(), peers.astype("<u4").tobytes()
    secrets = inward.tobytes()
    nothing = bytes(size - keys.TAG_BYTES)
    plain, opened = [], np.zeros(len(ciphertexts), np.bool_)
    for place in range(len(ciphertexts)):
        text = keys.decrypt(
            secrets[keys.AEAD_KEY_BYTES * place : keys.AEAD_KEY_BYTES * (place + 1)],
            sealed[size * place : size * (place + 1)],
            lead + names[4 * place : 4 * place + 4] + me,
        )
        opened[place] = text is not None
        plain.append(nothing if text is None else text)
    return _table(plain, len(nothing)), opened


def _agreed(
    private: bytes,
    publics: NDArray[np.uint8],
    label: bytes,
    own: int,
    peers: NDArray[np.integer[Any]],
    round: str,
) -> Iterator[tuple[bytes, bytes]]:
    """Yield for each peer the shared secret and the derivation's info: label, lower id, higher."""
    me = own.to_bytes(4, "little")
    points, names = publics.tobytes(), peers.astype("<u4").tobytes()
    for place, higher in enumerate((peers > own).tolist()):
        name = names[4 * place : 4 * place + 4]
        try:
            secret = keys.agree(
                private, points[keys.KEY_BYTES * place : keys.KEY_BYTES * (place + 1)]
            )
        except keys.LowOrderPointError:
            raise PeerError(
                int(peers[place]), round, "its public key is a point of low order"
            ) from None
        yield secret, label + (me + name if higher else name + me)


def _associated_lead(context: bytes, roster: bytes) -> bytes:
    """Return the part of the associated data that all pairs share."""
    return derivations.associated_data(context, roster, 0, 0)[:-8]


def _table(rows: list[bytes], width: int) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), width).copy()
