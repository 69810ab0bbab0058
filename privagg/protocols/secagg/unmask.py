"""Unmasking: rebuild the secrets that the sum needs, check each, and take its masks off.

Bonawitz et al., CCS 2017, figure 4, round 4. A rebuilt self-mask seed must open the commitment its
owner sent, a rebuilt mask-key seed must give the key its owner advertised: a wrong share ends the
round with an error and never gives a wrong sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privagg import keys, prg, sharing
from privagg.encoding import Aggregate
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols.secagg import derivations
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.thresholds import Graph
from privagg.protocols.secagg.topology import Topology

__all__ = ["Unmasker"]

_A = TypeVar("_A")
_B = TypeVar("_B")


@dataclass(frozen=True, kw_only=True)
class Unmasker:
    """What the server holds when the last round is closed; see :class:`Server`.

    Attributes
    ----------
    public_keys : (clients, 64) uint8 array
        Advertised c and s keys.
    commitments : (clients, 32) uint8 array
        Commitments to the self-mask seeds.
    shares : (clients, k, LIMBS) uint64 array
        Per responder and slot the share it gave of that neighbour's secret.
    own_shares : (clients, LIMBS) uint64 array
        Per responder its share of its own secret (complete graph).
    sharers, survivors, responders : (clients,) bool arrays
        U2, U3 and U5.
    """

    params: Params
    context: bytes
    roster: bytes
    topology: Topology
    public_keys: NDArray[np.uint8] = field(repr=False)
    commitments: NDArray[np.uint8] = field(repr=False)
    shares: NDArray[np.uint64] = field(repr=False)
    own_shares: NDArray[np.uint64] = field(repr=False)
    sharers: NDArray[np.bool_] = field(repr=False)
    survivors: NDArray[np.bool_] = field(repr=False)
    responders: NDArray[np.bool_] = field(repr=False)
    workers: int = 1

    def aggregate(self, accumulator: NDArray[Any]) -> Aggregate:
        """Take the masks off the sum, in place, and decode it.

        Raises
        ------
        PeerError
            As :meth:`remove_masks`, or if no inputs of the survivors have this sum: some client
            sent words outside the encoding, which one cannot be known.
        UsageError
            If all weights are zero, so that there is no mean.
        """
        self.remove_masks(accumulator)
        try:
            return self.params.encoding.decode(accumulator, count=int(self.survivors.sum()))
        except UsageError as error:
            if not accumulator.any():  # nobody's fault: zero is a weight
                raise
            raise PeerError(
                "some client", "unmasking", f"words outside the encoding: {error}"
            ) from None

    def remove_masks(self, accumulator: NDArray[Any]) -> None:
        """Turn the sum of masked vectors into the sum of inputs, in place, mod 2**modulus_bits.

        Raises
        ------
        PeerError
            If a rebuilt secret is not the one its owner committed to or advertised.
        """
        seeds, signs = self.mask_seeds()
        if self.workers == 1 or len(accumulator) < 1024 * self.workers:
            prg.accumulate(accumulator, seeds, signs, suite=self.params.prg)
        else:
            # Counter mode gives random access: each thread takes its own range of coordinates.
            edges = np.linspace(0, len(accumulator), self.workers + 1).astype(int)

            def part(at: int) -> None:
                tile = accumulator[edges[at] : edges[at + 1]]
                prg.accumulate(tile, seeds, signs, suite=self.params.prg, start=int(edges[at]))

            list(self._map(part, list(range(self.workers))))
        accumulator &= accumulator.dtype.type(2**self.params.modulus_bits - 1)

    def mask_seeds(self) -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
        """Return the stream seeds (m, seed_bytes) and signs (m,) that cancel the masks in the sum.

        Minus each survivor's self mask; for each client that left after sharing its keys, the
        pairwise masks its neighbours in the sum added for it, with the opposite sign.
        """
        in_sum = np.flatnonzero(self.survivors)
        touching = self.topology.count(self.survivors) > 0
        gone = np.flatnonzero(self.sharers & ~self.survivors & touching)
        rebuilt = self._rebuild(np.concatenate([in_sum, gone]))
        length = prg.seed_bytes(self.params.prg)

        own = np.empty((len(in_sum), length), np.uint8)
        for place, client in enumerate(map(int, in_sum)):
            seed = rebuilt[place].tobytes()
            found = derivations.commitment(seed, self.context, client)
            if found != self.commitments[client].tobytes():
                raise PeerError(
                    client,
                    "unmasking",
                    "the shares of its self mask do not open its commitment: "
                    "the client that dealt them or one that held them sent a wrong share",
                )
            own[place] = np.frombuffer(
                derivations.self_mask_seed(seed, self.context, client, length), np.uint8
            )
        jobs = list(zip(map(int, gone), rebuilt[len(in_sum) :], strict=True))
        parts = list(self._map(self._pairwise, jobs))
        seeds = np.concatenate([own, *(part[0] for part in parts)])
        signs = np.concatenate([np.full(len(own), -1, np.int8), *(part[1] for part in parts)])
        return seeds, signs

    def _pairwise(
        self, job: tuple[int, NDArray[np.uint8]]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
        """Return seeds and cancelling signs of one gone client's masks with its neighbours."""
        client, seed = job
        private, public = derivations.key_pair(seed.tobytes(), b"mask", self.context, client)
        if public != self.public_keys[client, keys.KEY_BYTES :].tobytes():
            raise PeerError(
                client,
                "unmasking",
                "the shares of its mask key do not rebuild the key it advertised: "
                "the client that dealt them or one that held them sent a wrong share",
            )
        row = self.topology.row(client)
        peers = row[self.survivors[row]]
        length = prg.seed_bytes(self.params.prg)
        seeds = np.empty((len(peers), length), np.uint8)
        for place, peer in enumerate(map(int, peers)):
            secret = keys.agree(private, self.public_keys[peer, keys.KEY_BYTES :].tobytes())
            seeds[place] = np.frombuffer(
                derivations.pairwise_mask_seed(
                    secret, self.context, self.roster, client, peer, length
                ),
                np.uint8,
            )
        # The peer added +stream if its index is the higher one, -stream else.
        return seeds, np.where(peers > client, -1, 1).astype(np.int8)

    def _rebuild(self, clients: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Return the secrets (m, SECRET_BYTES) of `clients`, each from t holders' shares."""
        if self.params.graph is Graph.COMPLETE:
            holders = np.flatnonzero(self.responders)[: self.params.threshold]
            combiner = sharing.Combiner(holders.astype(np.uint64) + np.uint64(1))
            table = np.empty((len(holders), len(clients), sharing.LIMBS), np.uint64)
            for place, holder in enumerate(map(int, holders)):
                everyone = np.insert(self.shares[holder], holder, self.own_shares[holder], axis=0)
                table[place] = everyone[clients]
            secrets, valid = combiner.combine(table)
            if not valid.all():
                self._wrong_share(int(clients[int(np.argmin(valid))]))
            return secrets
        result = np.empty((len(clients), sharing.SECRET_BYTES), np.uint8)
        for place, client in enumerate(map(int, clients)):
            row, slots = self.topology.row(client), self.topology.slots(client)
            here = np.flatnonzero(self.responders[row])[: self.params.threshold]
            if len(here) < self.params.threshold:
                raise Abort(
                    f"round unmasking: too few neighbours of client {client} answered",
                    len(here),
                    self.params.threshold,
                )
            combiner = sharing.Combiner(row[here].astype(np.uint64) + np.uint64(1))
            table = self.shares[row[here], slots[here]][:, np.newaxis]
            secrets, valid = combiner.combine(table)
            if not valid.all():
                self._wrong_share(client)
            result[place] = secrets[0]
        return result

    def _wrong_share(self, client: int) -> None:
        raise PeerError(
            client,
            "unmasking",
            "its shares rebuild no secret: the client that dealt them or one that held them sent "
            "a wrong share",
        )

    def _map(self, work: Callable[[_A], _B], jobs: list[_A]) -> Iterator[_B]:
        if self.workers == 1 or len(jobs) < 2:
            yield from map(work, jobs)
            return
        with ThreadPoolExecutor(self.workers) as pool:
            yield from pool.map(work, jobs)
