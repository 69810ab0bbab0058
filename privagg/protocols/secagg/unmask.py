"""Unmasking: rebuild the secrets that the sum needs, check each, and take its masks off.

Bonawitz et al., CCS 2017, figure 4, round 4. A rebuilt self-mask seed must open the commitment its
owner sent, a rebuilt mask-key seed must give the key its owner advertised: a wrong share never
gives a wrong sum. What fails is corrected where there are surplus shares
(:mod:`privagg.protocols.secagg.rebuild`), and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privagg import keys, prg
from privagg._cuda.arrays import is_device_array
from privagg.encoding import Aggregate
from privagg.errors import PeerError, UsageError
from privagg.protocols.secagg import derivations, tiles
from privagg.protocols.secagg.pairing import Agree, Pairs, Strip
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.rebuild import Blame, Rebuilder
from privagg.protocols.secagg.server_store import Store
from privagg.protocols.secagg.topology import Topology

__all__ = ["Blame", "Unmasker"]

_A = TypeVar("_A")
_B = TypeVar("_B")


@dataclass(frozen=True, kw_only=True)
class Unmasker:
    """What the server holds when the last round is closed; see :class:`Server`.

    Attributes
    ----------
    store : Store
        Keys, commitments and shares.
    sharers, survivors, responders : (clients,) bool arrays
        U2, U3 and U5.
    workers : int
        Threads.
    agree : callable, optional
        Works out the pairs' seeds, instead of these threads.
    strip : callable, optional
        Adds up the masks of ranges of coordinates, instead of these threads.
    total : (dim,) array, optional
        Receives the sum by tiles; else it is decoded at once.
    progress : callable, optional
        Called with the tiles done and to do.
    """

    params: Params
    context: bytes
    roster: bytes
    model: bytes
    topology: Topology
    store: Store = field(repr=False)
    sharers: NDArray[np.bool_] = field(repr=False)
    survivors: NDArray[np.bool_] = field(repr=False)
    responders: NDArray[np.bool_] = field(repr=False)
    workers: int = 1
    agree: Agree | None = field(default=None, repr=False)
    strip: Strip | None = field(default=None, repr=False)
    total: NDArray[Any] | None = None
    progress: tiles.Progress | None = None

    def aggregate(self, accumulator: NDArray[Any]) -> tuple[Aggregate, tuple[Blame, ...]]:
        """Take the masks off the sum, in place, and decode it.

        Raises
        ------
        PeerError
            As :meth:`remove_masks`, or if no inputs of the survivors have this sum: some client
            sent words outside the encoding (or was shown another model), which cannot be known.
        UsageError
            If all weights are zero, so that there is no mean.
        """
        blame = self.remove_masks(accumulator)
        try:
            count, encoding = int(self.survivors.sum()), self.params.encoding
            if self.total is not None:
                total = tiles.decode(encoding, accumulator, count=count, total=self.total)
            else:
                total = encoding.decode(accumulator, count=count)
        except UsageError as error:
            if not tiles.on_host(accumulator).any():  # nobody's fault: zero is a weight
                raise
            raise PeerError(
                "some client", "unmasking", f"words outside the encoding: {error}"
            ) from None
        return total, blame

    def remove_masks(self, accumulator: NDArray[Any]) -> tuple[Blame, ...]:
        """Turn the sum of masked vectors into the sum of inputs, in place, mod 2**modulus_bits.

        Returns
        -------
        tuple of Blame
            Wrong and missing shares that were got over.

        Raises
        ------
        PeerError
            If a secret that the sum needs cannot be rebuilt.
        """
        seeds, signs, blame = self.mask_seeds()
        # Counter mode gives random access: each thread takes tiles as it gets to them.
        jobs = list(tiles.spans(len(accumulator), self.workers))
        if is_device_array(accumulator):  # its threads share the vector out themselves
            jobs = [(0, len(accumulator))]

        def part(span: tuple[int, int]) -> None:
            tiles.unmask(self.params, accumulator, (seeds, signs), span)

        def add(span: tuple[int, int], words: NDArray[Any]) -> None:
            tiles.add_reduced(self.params, accumulator, words, span)

        steps = self._map(part, jobs)
        if self.strip is not None and not is_device_array(accumulator):
            steps = map(add, jobs, self.strip(self.params, seeds, signs, jobs))
        for done, _ in enumerate(steps, start=1):
            if self.progress is not None:
                self.progress(done, len(jobs))
        return blame

    def mask_seeds(self) -> tuple[NDArray[np.uint8], NDArray[np.int8], tuple[Blame, ...]]:
        """Return the stream seeds (m, seed_bytes) and signs (m,) that cancel the masks in the sum.

        Minus each survivor's self mask; for each client that left after sharing its keys, the
        pairwise masks its neighbours in the sum added for it, with the opposite sign.
        """
        in_sum = np.flatnonzero(self.survivors)
        touching = self.topology.count(self.survivors) > 0
        gone = np.flatnonzero(self.sharers & ~self.survivors & touching)
        rebuilder = Rebuilder(
            params=self.params,
            context=self.context,
            topology=self.topology,
            store=self.store,
            survivors=self.survivors,
            responders=self.responders,
        )
        rebuilt, blame = rebuilder.rebuild(np.concatenate([in_sum, gone]))
        length = prg.seed_bytes(self.params.prg)
        own = np.empty((len(in_sum), length), np.uint8)
        for place, client in enumerate(map(int, in_sum)):
            seed = rebuilt[place].tobytes()
            own[place] = np.frombuffer(
                derivations.self_mask_seed(seed, self.context, client, length), np.uint8
            )
        secrets = zip(map(int, gone), rebuilt[len(in_sum) :], strict=True)
        pairs = [self._pairs(client, secret) for client, secret in secrets]
        agree = self.agree or (lambda several: self._map(Pairs.seeds, list(several)))
        seeds = np.concatenate([own, *agree(pairs)])
        # The peer added +stream if its index is the higher one, -stream else.
        signs = [np.where(one.peers > one.own, -1, 1).astype(np.int8) for one in pairs]
        return seeds, np.concatenate([np.full(len(own), -1, np.int8), *signs]), blame

    def _pairs(self, client: int, seed: NDArray[np.uint8]) -> Pairs:
        """Return what gives the masks that a gone client's neighbours in the sum share with it."""
        private, _ = derivations.key_pair(seed.tobytes(), b"mask", self.context, client)
        row = self.topology.row(client)
        peers = row[self.survivors[row]]
        return Pairs(
            private=private,
            publics=self.store.keys[peers, keys.KEY_BYTES :],
            context=self.context,
            roster=self.roster,
            own=client,
            peers=peers,
            length=prg.seed_bytes(self.params.prg),
            round="unmasking",
            model=self.model,
        )

    def _map(self, work: Callable[[_A], _B], jobs: list[_A]) -> Iterator[_B]:
        if self.workers == 1 or len(jobs) < 2:
            yield from map(work, jobs)
            return
        with ThreadPoolExecutor(self.workers) as pool:
            yield from pool.map(work, jobs)
