"""A Merkle tree over rows: one digest for all, and a short proof that a row is in it.

Leaves and nodes are hashed under different prefixes, as in RFC 6962, section 2.1. The tree is
padded to a power of two with empty leaves, so that every proof has the same length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

__all__ = ["DIGEST_BYTES", "Tree", "depth", "leaf", "root_from_path"]

DIGEST_BYTES = 32
"""Size of a root and of each step of a proof."""

_EMPTY = bytes(DIGEST_BYTES)


def leaf(*parts: bytes) -> bytes:
    """Return the hash of a leaf: `parts`, each preceded by its length."""
    state = hashlib.sha256(b"\0")
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


def depth(count: int) -> int:
    """Return the steps of a proof in a tree of `count` leaves."""
    return max(count - 1, 0).bit_length()


class Tree:
    """All levels of a tree over `leaves`, bottom up.

    Parameters
    ----------
    leaves : sequence of bytes
        At least one hash of 32 bytes, as :func:`leaf` returns them.
    """

    def __init__(self, leaves: Sequence[bytes]) -> None:
        width = 1 << depth(len(leaves))
        level = list(leaves) + [_EMPTY] * (width - len(leaves))
        self._levels = [level]
        while len(level) > 1:
            level = [_node(level[at], level[at + 1]) for at in range(0, len(level), 2)]
            self._levels.append(level)

    @property
    def root(self) -> bytes:
        """The digest over all leaves."""
        return self._levels[-1][0]

    def path(self, place: int) -> bytes:
        """Return the proof for the leaf at `place`: its siblings from the bottom up."""
        steps = []
        for level in self._levels[:-1]:
            steps.append(level[place ^ 1])
            place >>= 1
        return b"".join(steps)


def root_from_path(leaf: bytes, place: int, path: bytes) -> bytes:
    """Return the root that a proof leads to; the leaf is in a tree if it is that tree's root."""
    for at in range(0, len(path), DIGEST_BYTES):
        sibling = path[at : at + DIGEST_BYTES]
        leaf = _node(sibling, leaf) if place & 1 else _node(leaf, sibling)
        place >>= 1
    return leaf


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()
