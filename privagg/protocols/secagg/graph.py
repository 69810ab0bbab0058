"""Who is whose neighbour: a randomly relabelled ring, or everyone.

The sparse graph is a Harary graph, in which each of ``n`` places on a ring is joined to the
``k / 2`` nearest ones on either side, with the clients put on the places at random (Bell et al.,
CCS 2020, section 3). It takes the fewest edges for its connectivity: only two separate runs of
``k / 2`` bad places cut it.

Threat model: **semi-honest**. The server draws the seed, so a server that cheats could place the
corrupt clients around a victim. Against a semi-malicious server the seed must come from randomness
to which the clients committed before anyone knew it; that is up to whoever passes the seed.
Whoever knows the seed knows the graph. It is no secret from the server.
"""

from __future__ import annotations

import hashlib

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from privagg._jit import JIT, kernel
from privagg._shuffle import shuffle
from privagg._validate import whole
from privagg.errors import UsageError

__all__ = ["Neighbourhoods", "build", "permutation", "position", "reverse_positions"]

Ids = NDArray[np.int32]
MAX_CLIENTS = 2**30
_LABEL = b"privagg secagg graph permutation v1\0"


class Neighbourhoods:
    """The graph as a client or the server asks for it; the complete one is never written out.

    Make it with :meth:`complete` or :meth:`sparse`.

    Attributes
    ----------
    clients : int
        Number of clients.
    size : int
        Neighbours of each client, itself not counted.
    rows : (clients, size) int32 array or None
        Sorted neighbours of each client, read-only; None for the complete graph.
    """

    __slots__ = ("clients", "rows", "size")

    def __init__(self, clients: int, rows: Ids | None) -> None:
        self.clients = whole("clients", clients, 2, MAX_CLIENTS)
        self.rows = rows
        self.size = self.clients - 1
        if rows is not None:
            _check_rows(rows)
            if len(rows) != self.clients:
                raise UsageError("rows", f"{len(rows)} rows", f"one for each of {clients} clients")
            self.size = rows.shape[1]

    @classmethod
    def complete(cls, clients: int) -> Neighbourhoods:
        """Everyone is everyone's neighbour. Raises UsageError."""
        return cls(clients, None)

    @classmethod
    def sparse(cls, clients: int, neighbours: int, seed: bytes) -> Neighbourhoods:
        """Return the graph of :func:`build`, which see for parameters and errors."""
        rows = build(clients, neighbours, seed)
        rows.flags.writeable = False
        return cls(clients, rows)

    def of(self, client: int) -> Ids:
        """Return the sorted neighbours of `client`, int32 of shape ``(size,)``."""
        i = whole("client", client, 0, self.clients - 1)
        if self.rows is not None:
            row: Ids = self.rows[i]
            return row
        everyone = np.arange(self.size, dtype=np.int32)
        everyone[i:] += 1
        return everyone

    def position(self, of: NDArray[np.integer], at: NDArray[np.integer]) -> Ids:
        """Return the index of client ``of[m]`` among the neighbours of ``at[m]``, for each m.

        Raises UsageError where they are no neighbours.
        """
        if self.rows is not None:
            return position(self.rows, of, at)
        who = _ids("of", of, self.clients)
        where = _ids("at", at, self.clients)
        _check_pairs(who, where, who != where)
        places: Ids = (who - (who > where)).astype(np.int32)
        return places

    def __repr__(self) -> str:
        kind = "complete" if self.rows is None else "sparse"
        return f"Neighbourhoods({kind}, clients={self.clients}, size={self.size})"


def build(clients: int, neighbours: int, seed: bytes) -> Ids:
    """Return the randomly relabelled ring in which everyone has `neighbours` neighbours.

    Parameters
    ----------
    clients : int
        From 3 to 2**30.
    neighbours : int
        Even, from 2 to ``clients - 1``.
    seed : bytes
        16 or 32 uniform bytes. They determine who sits where.

    Returns
    -------
    (clients, neighbours) int32 array
        Row ``i`` holds the sorted neighbours of client ``i``. ``j`` is in row ``i`` exactly if
        ``i`` is in row ``j``, and never in its own.

    Raises
    ------
    UsageError
        If an argument is not allowed.
    """
    n = whole("clients", clients, 3, MAX_CLIENTS)
    k = whole("neighbours", neighbours, 2, n - 1)
    if k % 2:
        raise UsageError("neighbours", k, "an even number", f"Use {k + 1 if k + 1 < n else k - 1}.")
    ring = permutation(n, seed)
    rows = np.empty((n, k), dtype=np.int32)
    for step in range(1, k // 2 + 1):
        rows[ring, 2 * step - 2] = np.roll(ring, step)
        rows[ring, 2 * step - 1] = np.roll(ring, -step)
    rows.sort(axis=1)
    return rows


def permutation(clients: int, seed: bytes) -> Ids:
    """Return a uniform permutation of ``0 .. clients - 1``, determined by `seed`.

    The shuffle of Fisher and Yates, over 32-bit little-endian words of the ChaCha20 stream whose
    key is SHA-256 of a label and the seed. To choose among ``m`` values, words from
    ``2**32 - 2**32 % m`` on are thrown away, so that no value is favoured.

    Parameters
    ----------
    clients : int
        From 1 to 2**30.
    seed : bytes
        16 or 32 bytes.

    Raises
    ------
    UsageError
        If an argument is not allowed.
    """
    n = whole("clients", clients, 1, MAX_CLIENTS)
    if not isinstance(seed, bytes) or len(seed) not in (16, 32):
        found = f"{len(seed)} bytes" if isinstance(seed, bytes) else type(seed).__name__
        raise UsageError("seed", found, "16 or 32 bytes")
    key = hashlib.sha256(_LABEL + seed).digest()
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    order = np.arange(n, dtype=np.int32)
    shuffle(order, lambda count: _words(stream.update(bytes(4 * count))))
    return order


def _words(stream: bytes) -> NDArray[np.uint32]:
    return np.frombuffer(stream, dtype="<u4").astype(np.uint32, copy=False)


def position(rows: Ids, of: NDArray[np.integer], at: NDArray[np.integer]) -> Ids:
    """Return the index of client ``of[m]`` in row ``at[m]`` of a sparse graph, for each ``m``.

    Parameters
    ----------
    rows : (n, k) int32 array
        As from :func:`build`.
    of, at : integer arrays of the same shape ``(m,)``
        Clients.

    Returns
    -------
    (m,) int32 array

    Raises
    ------
    UsageError
        If an argument is not allowed or some pair are no neighbours.
    """
    _check_rows(rows)
    who = _ids("of", of, len(rows))
    where = _ids("at", at, len(rows))
    _check_pairs(who, where, None)
    low = np.zeros(who.shape, dtype=np.int64)
    high = np.full(who.shape, rows.shape[1], dtype=np.int64)
    for _ in range(rows.shape[1].bit_length()):
        # A binary search in all rows at once. A finished one compares in bounds and stays put.
        middle = np.minimum((low + high) // 2, rows.shape[1] - 1)
        right = (rows[where, middle] < who) & (low < high)
        high = np.where(right | (low >= high), high, middle)
        low = np.where(right, middle + 1, low)
    at_low = np.minimum(low, rows.shape[1] - 1)
    _check_pairs(who, where, rows[where, at_low] == who)
    places: Ids = at_low.astype(np.int32)
    return places


def reverse_positions(rows: Ids) -> Ids:
    """Return for every edge its place in the other end's row.

    Parameters
    ----------
    rows : (n, k) int32 array
        Sorted neighbours, as from :func:`build`.

    Returns
    -------
    (n, k) int32 array
        ``r`` with ``rows[rows[i, s], r[i, s]] == i`` for every client ``i`` and slot ``s``.

    Raises
    ------
    UsageError
        If `rows` is no symmetric graph with sorted rows.
    """
    _check_rows(rows)
    n, k = rows.shape
    if rows.min() < 0 or rows.max() >= n or not (rows[:, 1:] > rows[:, :-1]).all():
        raise UsageError(
            "rows", f"shape {rows.shape}", "rows of sorted clients, none of them twice"
        )
    out = np.empty((n, k), dtype=np.int32)
    symmetric = (_reverse_kernel if JIT else _reverse_plain)(np.ascontiguousarray(rows), out)
    if not symmetric:
        raise UsageError("rows", f"shape {rows.shape}", "a symmetric graph", "Use `build`.")
    return out


def _reverse_plain(rows: Ids, out: Ids) -> bool:
    """Fill `out`; return whether the graph is symmetric.

    A stable sort of all edges (i, j) by j lists them as (j, i) in the order of the rows: edge
    number ``m`` of that list is the reverse of the row-major edge number ``m``.
    """
    n, k = rows.shape
    order = np.argsort(rows.ravel(), kind="stable")
    out.ravel()[order] = np.arange(n * k) % k
    back = rows.ravel() == order // k
    ends = rows.ravel()[order] == np.repeat(np.arange(n), k)
    return bool(back.all() and ends.all())


@kernel
def _reverse_kernel(rows: Ids, out: Ids) -> bool:
    # Clients come in rising order, so the next free place in row j is where i must stand.
    n, k = rows.shape
    used = np.zeros(n, dtype=np.int32)
    for i in range(n):
        for s in range(k):
            j = rows[i, s]
            place = used[j]
            if place >= k or rows[j, place] != i:
                return False
            out[i, s] = place
            used[j] = place + 1
    return True


def _check_rows(rows: object) -> None:
    fits = isinstance(rows, np.ndarray) and rows.dtype == np.int32 and rows.ndim == 2
    if not isinstance(rows, np.ndarray) or not fits or rows.size == 0:
        shape = (
            f"{rows.dtype} {rows.shape}" if isinstance(rows, np.ndarray) else type(rows).__name__
        )
        raise UsageError("rows", shape, "an int32 array of shape (clients, neighbours)")


def _ids(name: str, values: NDArray[np.integer], clients: int) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise UsageError(name, f"{array.dtype} {array.shape}", "an integer array of one dimension")
    if array.size and (array.min() < 0 or array.max() >= clients):
        worst = int(array.min()) if array.min() < 0 else int(array.max())
        raise UsageError(name, worst, f"clients from 0 to {clients - 1}")
    return array.astype(np.int64)


def _check_pairs(
    who: NDArray[np.int64], where: NDArray[np.int64], joined: NDArray[np.bool_] | None
) -> None:
    if who.shape != where.shape:
        raise UsageError("at", f"shape {where.shape}", f"as many as in `of`: {who.size}")
    if joined is not None and not joined.all():
        bad = int(np.flatnonzero(~joined)[0])
        raise UsageError("of", int(who[bad]), f"a neighbour of client {int(where[bad])}")
