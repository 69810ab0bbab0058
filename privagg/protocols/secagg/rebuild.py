"""Rebuilding the clients' secrets from shares, some of which may be missing or wrong.

Each secret is interpolated from t shares and checked against what its owner committed to. Where the
check fails, the surplus shares correct up to (received - t) / 2 wrong ones (Reed-Solomon decoding,
:mod:`privagg.correction`). A share that is corrected, or that its holder reports as missing, is
blamed on "dealer or holder": nobody else can say whether the dealer sent a bad share or the holder
passed on a good one wrongly. Only if more dealers complain of one holder (or the reverse) than may
be corrupt is it certain who it was, given that bound. A wrong share counts for that only where the
corrupt are too few to mislead the decoder: more than (received - t) / 2 of them together can have
honest holders named in their place.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privagg import correction, keys, sharing
from privagg.errors import PeerError
from privagg.protocols.secagg import derivations
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.server_store import Store
from privagg.protocols.secagg.thresholds import Graph
from privagg.protocols.secagg.topology import Topology

__all__ = ["Blame", "Rebuilder"]


@dataclass(frozen=True, kw_only=True)
class Blame:
    """A share that was not what it should be.

    Attributes
    ----------
    dealer, holder : int
        The client whose secret it is a share of, and the one that should have it.
    reason : str
        ``"wrong share"`` or ``"ciphertext does not open"``.
    verdict : str
        ``"dealer or holder"``, or ``"dealer"`` or ``"holder"`` where one side has more such
        partners than may be corrupt.
    """

    dealer: int
    holder: int
    reason: str
    verdict: str = "dealer or holder"


@dataclass(frozen=True, kw_only=True)
class Rebuilder:
    """What the secrets are rebuilt from; see :class:`privagg.protocols.secagg.unmask.Unmasker`."""

    params: Params
    context: bytes
    topology: Topology
    store: Store = field(repr=False)
    survivors: NDArray[np.bool_] = field(repr=False)
    responders: NDArray[np.bool_] = field(repr=False)
    _wrong: set[tuple[int, int]] = field(default_factory=set, repr=False)

    def rebuild(self, clients: NDArray[np.intp]) -> tuple[NDArray[np.uint8], tuple[Blame, ...]]:
        """Return the checked secrets (m, SECRET_BYTES) of `clients`, and what was wrong.

        Raises
        ------
        PeerError
            If a secret cannot be rebuilt from the shares that came.
        """
        secrets = self._first_guess(clients)
        for place, client in enumerate(map(int, clients)):
            if not self._is_right(client, secrets[place].tobytes()):
                secrets[place] = np.frombuffer(self._correct(client), np.uint8)
        return secrets, self._report()

    def _first_guess(self, clients: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Interpolate every secret from t shares, unchecked."""
        if self.params.graph is Graph.COMPLETE and not self.store.missing.any():
            return self._common_guess(clients)
        secrets = np.zeros((len(clients), sharing.SECRET_BYTES), np.uint8)
        for place, client in enumerate(map(int, clients)):
            points, shares, _ = self._shares_of(client)
            t = self.params.threshold
            if len(points) >= t:
                combiner = sharing.Combiner(points[:t])
                secrets[place] = combiner.combine(shares[:t, np.newaxis])[0][0]
        return secrets

    def _common_guess(self, clients: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Interpolate all secrets with one set of weights: everyone holds a share of everyone's."""
        holders = np.flatnonzero(self.responders)[: self.params.threshold]
        combiner = sharing.Combiner(holders.astype(np.uint64) + np.uint64(1))
        table = np.empty((len(holders), len(clients), sharing.LIMBS), np.uint64)
        for place, holder in enumerate(map(int, holders)):
            store = self.store
            everyone = np.insert(store.shares[holder], holder, store.own_shares[holder], axis=0)
            table[place] = everyone[clients]
        return combiner.combine(table)[0]

    def _shares_of(
        self, client: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.intp]]:
        """Return points (m,), shares (m, LIMBS) and holders (m,) of one client's secret."""
        row, slots = self.topology.row(client), self.topology.slots(client)
        here = self.responders[row]
        holders, places = row[here].astype(np.intp), slots[here]
        there = ~self.store.missing[holders, places]
        holders, places = holders[there], places[there]
        shares = self.store.shares[holders, places]
        if self.params.graph is Graph.COMPLETE and self.responders[client]:
            holders = np.append(holders, client)
            shares = np.concatenate([shares, self.store.own_shares[client][np.newaxis]])
        return holders.astype(np.uint64) + np.uint64(1), shares, holders

    def _is_right(self, client: int, secret: bytes) -> bool:
        """Check a secret against the commitment to the self mask, or the advertised mask key."""
        if self.survivors[client]:
            found = derivations.commitment(secret, self.context, client)
            return bool(found == self.store.commitments[client].tobytes())
        _, public = derivations.key_pair(secret, b"mask", self.context, client)
        return bool(public == self.store.keys[client, keys.KEY_BYTES :].tobytes())

    def _correct(self, client: int) -> bytes:
        """Rebuild a secret of which some shares are wrong, and note which."""
        points, shares, holders = self._shares_of(client)
        t = self.params.threshold
        known = {holder for _, holder in self._wrong}
        trusted = np.array([int(holder) not in known for holder in holders], np.bool_)
        if int(trusted.sum()) >= t:
            # Leave out who gave wrong shares before: mostly that is all there is to it.
            chosen = np.flatnonzero(trusted)[:t]
            rows = sharing.combine(shares[chosen][:, np.newaxis], points[chosen])[0]
            guess: bytes = rows[0].tobytes()
            if self._is_right(client, guess):
                self._note_all(client, guess, points, shares, holders)
                return guess
        found = correction.secrets_of(shares, points, t) if len(points) > t else None
        if found is None or not self._is_right(client, found[0]):
            raise PeerError(
                client,
                "unmasking",
                f"its secret cannot be rebuilt: {len(points)} shares with a threshold of {t} "
                f"correct {max((len(points) - t) // 2, 0)} wrong ones; it dealt wrong shares, or "
                "more holders than that sent wrong ones",
            )
        secret, wrong = found
        self._wrong.update((client, int(holder)) for holder in holders[wrong])
        return secret

    def _note_all(
        self,
        client: int,
        secret: bytes,
        points: NDArray[np.uint64],
        shares: NDArray[np.uint64],
        holders: NDArray[np.intp],
    ) -> None:
        """Note whose shares are not of the checked `secret`: another decoding blames the honest."""
        found = correction.secrets_of(shares, points, self.params.threshold)
        if found is not None and found[0] == secret:
            self._wrong.update((client, int(holder)) for holder in holders[found[1]])

    def _report(self) -> tuple[Blame, ...]:
        missing = [
            (int(self.topology.row(holder)[slot]), holder)
            for holder in map(int, np.flatnonzero(self.responders))
            for slot in np.flatnonzero(self.store.missing[holder])
        ]
        pairs = [(pair, "wrong share") for pair in sorted(self._wrong)]
        pairs += [(pair, "ciphertext does not open") for pair in missing]
        sure = {pair for pair, _ in pairs if pair in missing or self._is_located(pair[0])}
        dealers = Counter(dealer for dealer, _ in sure)
        holders = Counter(holder for _, holder in sure)
        return tuple(
            Blame(
                dealer=dealer,
                holder=holder,
                reason=reason,
                verdict=(
                    self._verdict(holders[holder], dealers[dealer])
                    if (dealer, holder) in sure
                    else "dealer or holder"
                ),
            )
            for (dealer, holder), reason in pairs
        )

    def _is_located(self, dealer: int) -> bool:
        """Say whether the corrupt holders are too few to have others named in their place."""
        received = len(self._shares_of(dealer)[0])
        return (received - self.params.threshold) // 2 >= self.params.corrupt

    def _verdict(self, dealers_of_holder: int, holders_of_dealer: int) -> str:
        most = self.params.corrupt
        if dealers_of_holder > most >= holders_of_dealer:
            return "holder"
        if holders_of_dealer > most >= dealers_of_holder:
            return "dealer"
        return "dealer or holder"
