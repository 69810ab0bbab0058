"""What a server can compute once it has both of a client's secrets, and directories that lie.

The functions know only what crossed the wire and what colluding clients hold; no test looks into
an honest client for its input.
"""

from __future__ import annotations

import numpy as np

from privagg import keys, prg, sharing
from privagg.protocols.secagg import derivations


class Lax:
    """A directory that believes every signature, with the digest of an honest one."""

    def __init__(self, roster):
        self._roster = roster

    def __len__(self):
        return len(self._roster)

    def verify(self, client, message, signature):
        return True

    def digest(self):
        return self._roster.digest()


def combine(shares):
    """Rebuild a secret from {holder: (LIMBS,) share}; None if they give none."""
    points = np.array(sorted(shares), np.uint64) + np.uint64(1)
    table = np.array([shares[holder] for holder in sorted(shares)])[:, np.newaxis]
    secrets, valid = sharing.combine(table, points)
    return secrets[0].tobytes() if valid[0] else None


def unmask(server, victim, masked, self_seed, mask_seed, *, peers, model=b""):
    """Return what `victim` put in: its masked vector less all the masks that it added.

    `peers` are those that it added pairwise masks for.
    """
    params, context = server._params, server._context
    length = prg.seed_bytes(params.prg)
    private, _ = derivations.key_pair(mask_seed, b"mask", context, victim)
    seeds = [derivations.self_mask_seed(self_seed, context, victim, length)]
    signs = [-1]
    for peer in map(int, peers):
        agreed = keys.agree(private, server._store.keys[peer, keys.KEY_BYTES :].tobytes())
        seeds.append(
            derivations.pairwise_mask_seed(
                agreed, context, server._roster, victim, peer, length, model
            )
        )
        signs.append(-1 if victim > peer else 1)
    words = masked.copy()
    table = np.frombuffer(b"".join(seeds), np.uint8).reshape(len(seeds), length)
    prg.accumulate(words, table, np.array(signs, np.int8), suite=params.prg)
    return words & words.dtype.type(2**params.modulus_bits - 1)
