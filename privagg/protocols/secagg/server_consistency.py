"""The server's part in the consistency check: what clients sign, and what they are shown of it.

In the complete graph every client signs the same sets and is shown every signature. In the sparse
graph each signs its view of its neighbours and is shown its neighbours' views. See
:mod:`privagg.protocols.secagg.checks` for what the clients check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privagg.protocols.secagg import derivations, layout
from privagg.protocols.secagg.messages import SignatureSet
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.thresholds import Graph

__all__ = ["Consistency"]


@dataclass(frozen=True, kw_only=True)
class Consistency:
    """What the server knows of survivors and signatures.

    Attributes
    ----------
    bound : tuple of bytes
        Context, roster digest and model digest that every statement is bound to.
    shared, in_sum, signed : (clients,) bool arrays
        U2, U3 and U4.
    signatures : (clients, 64) uint8 array
        The signatures that came.
    members : callable
        The roster that a client was shown, by its index.
    """

    params: Params
    bound: tuple[bytes, bytes, bytes] = field(repr=False)
    shared: NDArray[np.bool_]
    in_sum: NDArray[np.bool_]
    signed: NDArray[np.bool_]
    signatures: NDArray[np.uint8] = field(repr=False)
    members: Callable[[int], NDArray[np.uint32]]

    def statement(self, client: int) -> bytes:
        """Return what `client` has to sign of the survivor set it was shown."""
        if self.params.graph is Graph.SPARSE:
            return derivations.view_statement(*self.bound, client, self._view(client))
        sets = (np.flatnonzero(flags).astype(np.uint32) for flags in (self.shared, self.in_sum))
        return derivations.survivor_statement(*self.bound, *sets)

    def signature_set(self, client: int, tag: bytes) -> SignatureSet:
        """Return who signed among those `client` was shown, and what if it differs."""
        members = self.members(client)
        signers = members[self.signed[members]]
        views = None
        if self.params.graph is Graph.SPARSE:
            rows = b"".join(self._view(int(signer)) for signer in signers)
            views = np.frombuffer(rows, np.uint8).reshape(len(signers), -1)
        return SignatureSet(
            tag=tag,
            signers=self.signed[members],
            signatures=self.signatures[signers],
            views=views,
        )

    def _view(self, client: int) -> bytes:
        return layout.pack_view(self.in_sum[self.members(client)], self.params)
