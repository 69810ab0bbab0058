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
    signatures, sharer_signatures : (clients, 64) uint8 array
        The signatures that came, over survivors and over sharers.
    members : callable
        The roster that a client was shown, by its index.
    """

    params: Params
    bound: tuple[bytes, bytes, bytes] = field(repr=False)
    shared: NDArray[np.bool_]
    in_sum: NDArray[np.bool_]
    signed: NDArray[np.bool_]
    signatures: NDArray[np.uint8] = field(repr=False)
    sharer_signatures: NDArray[np.uint8] = field(repr=False)
    members: Callable[[int], NDArray[np.uint32]]

    def statement(self, client: int) -> bytes:
        """Return what `client` has to sign of the survivor set it was shown."""
        if self.params.graph is Graph.SPARSE:
            view = self._view(client, self.in_sum)
            return derivations.view_statement(b"survivors", *self.bound, client, view)
        sets = (np.flatnonzero(flags).astype(np.uint32) for flags in (self.shared, self.in_sum))
        return derivations.survivor_statement(*self.bound, *sets)

    def signature_set(self, client: int, tag: bytes) -> SignatureSet:
        """Return who signed among those `client` was shown, and what if it differs."""
        members = self.members(client)
        signers = members[self.signed[members]]
        flags, signatures = self.signed[members], self.signatures[signers]
        if self.params.graph is not Graph.SPARSE:
            return SignatureSet(tag=tag, signers=flags, signatures=signatures)
        silent = self.in_sum[members] & ~flags
        return SignatureSet(
            tag=tag,
            signers=flags,
            signatures=signatures,
            views=self._views(signers, self.in_sum),
            silent=silent,
            silent_signatures=self.sharer_signatures[members[silent]],
            silent_views=self._views(members[silent], self.shared),
        )

    def sharer_statement(self, client: int) -> bytes:
        """Return what `client` signs with its masked input: whose ciphertexts it was shown."""
        view = self._view(client, self.shared)
        return derivations.view_statement(b"sharers", *self.bound, client, view)

    def _views(self, clients: NDArray[np.uint32], flags: NDArray[np.bool_]) -> NDArray[np.uint8]:
        rows = b"".join(self._view(int(client), flags) for client in clients)
        return np.frombuffer(rows, np.uint8).reshape(-1, layout.view_bytes(self.params))

    def _view(self, client: int, flags: NDArray[np.bool_]) -> bytes:
        return layout.pack_view(flags[self.members(client)], self.params)
