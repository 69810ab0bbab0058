"""What a client computes: sharing, encrypting, decrypting and masking, on its memory.

The functions are free of decisions: what may be done when, and what must be checked before, is in
:mod:`privagg.protocols.secagg.client`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import keys, prg, sharing
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols.secagg import derivations, layout, pairing, tiles
from privagg.protocols.secagg.client_state import ClientMemory
from privagg.protocols.secagg.columns import pack_rows, unpack_rows
from privagg.protocols.secagg.messages import KeyRoster, MaskedInput, ShareBundle
from privagg.protocols.secagg.params import Params

__all__ = [
    "encrypt_shares",
    "key_pair",
    "mask_input",
    "mask_streams",
    "open_shares",
    "public_keys",
    "split_secrets",
    "write_input",
]


def key_pair(memory: ClientMemory, purpose: bytes) -> tuple[bytes, bytes]:
    """Return this client's (private, public) X25519 keys for ``b"cipher"`` or ``b"mask"``."""
    seed = memory.cipher_seed if purpose == b"cipher" else memory.mask_seed
    return derivations.key_pair(seed, purpose, memory.context, memory.own_index)


def public_keys(memory: ClientMemory) -> tuple[bytes, bytes]:
    """Return this client's public keys c and s."""
    return key_pair(memory, b"cipher")[1], key_pair(memory, b"mask")[1]


def split_secrets(
    memory: ClientMemory, members: NDArray[np.uint32], threshold: int, entropy: Entropy
) -> NDArray[np.uint64]:
    """Share the seeds of s and b among `members`: (members, 2, LIMBS); points are index + 1."""
    secrets = np.frombuffer(memory.mask_seed + memory.self_seed, np.uint8)
    return sharing.split(
        secrets.reshape(2, sharing.SECRET_BYTES),
        threshold,
        members.astype(np.uint64) + np.uint64(1),
        entropy,
    )


def encrypt_shares(
    memory: ClientMemory, roster: KeyRoster, shares: NDArray[np.uint64]
) -> NDArray[np.uint8]:
    """Encrypt each peer's shares, (peers, CIPHERTEXT_BYTES); keep the keys of the way back.

    Raises
    ------
    PeerError
        If a peer's key is a point of low order.
    """
    index = memory.own_index
    private, _ = key_pair(memory, b"cipher")
    others = roster.members != index
    memory.own_shares = np.zeros((2, sharing.LIMBS), np.uint64)
    if not others.all():
        memory.own_shares = shares[int(np.argmin(others))].copy()
    memory.inward = np.zeros((len(others), keys.AEAD_KEY_BYTES), np.uint8)
    sent, memory.inward[others] = pairing.seal_each(
        private,
        roster.keys[others, : keys.KEY_BYTES],
        pack_rows(shares.reshape(len(others), layout.SHARE_WORDS)[others]),
        context=memory.context,
        roster=memory.roster,
        own=index,
        peers=roster.members[others],
        round=roster.round,
    )
    return sent


def open_shares(
    memory: ClientMemory, bundle: ShareBundle
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Open the peers' ciphertexts.

    Returns
    -------
    held : (members, 2, LIMBS) uint64 array
        The shares held of each member; zero where there is none.
    opened : (members,) bool array
        Whose ciphertext opened for this round, sender and receiver, to reduced field elements.
    """
    index = memory.own_index
    plain = np.zeros((len(memory.members), layout.PLAINTEXT_BYTES), np.uint8)
    opened = np.zeros(len(memory.members), np.bool_)
    plain[bundle.present], opened[bundle.present] = pairing.open_each(
        memory.inward[bundle.present],
        bundle.ciphertexts,
        context=memory.context,
        roster=memory.roster,
        own=index,
        peers=memory.members[bundle.present],
    )
    elements, reduced = unpack_rows(plain)
    held = elements.reshape(len(memory.members), 2, sharing.LIMBS)
    opened &= reduced
    held[~opened] = 0
    return held, opened


def mask_streams(
    memory: ClientMemory, params: Params, present: NDArray[np.bool_], model: bytes
) -> tiles.Masks:
    """Return seeds and signs of PRG(b) and of each pair's stream in U2 (figure 4, round 2)."""
    index = memory.own_index
    private, _ = key_pair(memory, b"mask")
    length = prg.seed_bytes(params.prg)
    peers = memory.members[present]
    pairs = pairing.mask_seeds(
        private,
        memory.mask_keys[present],
        context=memory.context,
        roster=memory.roster,
        own=index,
        peers=peers,
        length=length,
        round="share-keys",
        model=model,
    )
    own = derivations.self_mask_seed(memory.self_seed, memory.context, index, length)
    seeds = np.concatenate([pairs, np.frombuffer(own, np.uint8)[np.newaxis]])
    signs = np.append(np.where(peers < index, 1, -1), 1).astype(np.int8)
    return seeds, signs


def mask_input(
    params: Params, words: NDArray[Any], masks: tiles.Masks, shell: MaskedInput
) -> MaskedInput:
    """Return `shell` with `words` (length,) in it, which are masked in place."""
    prg.accumulate(words, *masks, suite=params.prg)
    words &= words.dtype.type(2**params.modulus_bits - 1)
    return replace(shell, vector=words)


def write_input(
    params: Params,
    values: NDArray[Any],
    masks: tiles.Masks,
    out: NDArray[np.uint8] | None,
    shell: MaskedInput,
    *,
    weight: int,
    entropy: Entropy,
) -> tuple[MaskedInput, int]:
    """Write `shell` and its vector into `out` by tiles; return it, and how much was clipped.

    Raises
    ------
    UsageError
        If `out` is no array of that size, or a value does not fit the encoding.
    """
    size, bits = MaskedInput.size(params), params.modulus_bits
    if (
        not isinstance(out, np.ndarray)
        or out.dtype != np.uint8
        or out.shape != (size,)
        or not out.flags.carray
    ):
        raise UsageError("out", type(out).__name__, f"a writable uint8 array of {size} bytes")
    head = shell.encode()  # all that stands before the vector
    out[: len(head)] = np.frombuffer(head, np.uint8)
    body = out[len(head) :]
    clipped = tiles.write(params, values, masks, body, weight=weight, entropy=entropy)
    vector = tiles.Packed(body, params.length, bits, params.word)
    return replace(shell, vector=vector), clipped
