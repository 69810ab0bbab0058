"""Members of `cpda` and `cpda-sen-checked` as their papers describe them: **insecure**.

W. He et al., "PDA", INFOCOM 2007: every member chooses a seed and announces it, shares a polynomial
over the integers or reals, and sends what it holds to the leader in clear. J. Sen and S. Maitra,
NordSec 2011: seeds, and then all that a member holds, have to satisfy the triangle inequalities, or
are drawn again. Whoever holds a share takes it modulo its own seed and has the reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from privagg.entropy import OS, Entropy
from privagg.errors import Abort, CapacityError, PeerError, UsageError
from privagg.protocols.sensor import bundles, checks, checks_papers, faithful
from privagg.protocols.sensor.channel import Keyring
from privagg.protocols.sensor.cluster_node import ClusterNode
from privagg.protocols.sensor.draws import Draws, FreshDraws
from privagg.protocols.sensor.faithful import MAX_TRIES
from privagg.protocols.sensor.messages import Message, Roster
from privagg.protocols.sensor.messages_papers import (
    Assembled,
    PaperRelay,
    PaperShares,
    Redo,
    Seed,
    SeedRelay,
    answer_size,
    read_numbers,
    share_size,
    write_numbers,
)
from privagg.protocols.sensor.params import Arithmetic, Params, Protocol
from privagg.protocols.sensor.states_papers import PAPER_TABLES, PaperState, follow, step
from privagg.protocols.sensor.tree_node import message_of, own_numbers

__all__ = ["InsecureMember"]


class InsecureMember(ClusterNode):
    """A member of ``cpda`` or ``cpda-sen-checked``. **Insecure**: it gives its reading away.

    Guarantee: none. Kept for attacks and comparison.

    Parameters
    ----------
    params, keyring, entropy, last_epoch
        As for :class:`ClusterNode`.
    allow_insecure : bool
        Has to be True.
    draws : Draws, optional
        Where seeds and coefficients come from; from `entropy` if not given.

    Raises
    ------
    UsageError
        If the protocol is another, or insecurity is not allowed.
    """

    protocols: ClassVar[tuple[Protocol, ...]] = (Protocol.CPDA, Protocol.CPDA_SEN_CHECKED)

    def __init__(
        self,
        params: Params,
        keyring: Keyring,
        *,
        allow_insecure: bool = False,
        entropy: Entropy = OS,
        last_epoch: int = -1,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(params, keyring, entropy=entropy, last_epoch=last_epoch)
        checks_papers.insecurity_is_accepted(allow_insecure, params)
        self._table = PAPER_TABLES[params.protocol]
        self._state = PaperState.IDLE
        self._draws: Draws = FreshDraws(params, entropy) if draws is None else draws
        self._values: list[int | float] = []
        self._seeds: dict[int, tuple[int, ...]] = {}
        self._held: dict[int, list[int | float]] = {}
        self._seed_tries = self._attempt = 0

    @property
    def state(self) -> PaperState:
        """What this member has done in the epoch."""
        return self._state

    @property
    def _checked(self) -> bool:
        return self._params.protocol is Protocol.CPDA_SEN_CHECKED

    def announce_seed(self, roster: Roster, numbers: Sequence[float], leader: int) -> Seed:
        """Check the roster, choose a seed for each number, and announce them in clear.

        Parameters
        ----------
        roster : Roster
            Of the leader.
        numbers : sequence of int (float for real arithmetic)
            What this member adds, signed.
        leader : int
            Who sent the roster.

        Raises
        ------
        PeerError
            As :meth:`Member.share`.
        UsageError
            If the numbers do not fit `params`.
        """
        message_of(Roster, roster)
        following = follow(self._table, self._state, Roster, leader)
        self._check_roster(roster, leader)
        values = self._own(numbers)
        self._enter(roster, leader)
        self._values, self._seed_tries, self._attempt = values, 0, 0
        self._state = following
        return self._new_seeds()

    def _own(self, numbers: Sequence[float]) -> list[int | float]:
        if self._params.arithmetic is not Arithmetic.REAL:
            return list(own_numbers(numbers, self._params))
        listed = isinstance(numbers, Sequence | np.ndarray) and not isinstance(numbers, str | bytes)
        real = listed and all(
            isinstance(n, int | float | np.integer | np.floating) and not isinstance(n, bool)
            for n in numbers
        )
        values = [float(number) for number in numbers] if real else []
        if len(values) != self._params.width or not np.isfinite(values).all():
            raise UsageError("numbers", "others", f"{self._params.width} finite numbers")
        return list(values)

    def _new_seeds(self) -> Seed:
        self._held, self._seed_tries = {}, self._seed_tries + 1
        own = self._draws.seeds(len(self._members))
        self._seeds = {self.node: own}
        return Seed(seeds=own)

    def hear_seed(self, seed: Seed, origin: int) -> None:
        """Hear another member's seed.

        Parameters
        ----------
        seed : Seed
            What it announced.
        origin : int
            Whose it is.

        Raises
        ------
        PeerError
            If it came before, or from outside the roster.
        """
        message_of(Seed, seed)
        self._expect(Seed, origin)
        self._note_seed(seed.seeds, origin)

    def _note_seed(self, seeds: tuple[int, ...], origin: int) -> None:
        if origin in self._seeds or origin not in self._members:
            raise PeerError(origin, Seed.round, "a second seed, or one from outside the roster")
        if len(seeds) != self._params.width:
            raise PeerError(origin, Seed.round, f"seeds for {len(seeds)} numbers")
        self._seeds[origin] = tuple(seeds)

    def hear_seeds(self, relay: SeedRelay, leader: int) -> None:
        """Take from what the leader sends on the seeds that were not heard.

        Parameters
        ----------
        relay : SeedRelay
            What the leader sent.
        leader : int
            Its id.

        Raises
        ------
        PeerError
            If one differs from what was heard.
        """
        message_of(SeedRelay, relay)
        self._expect(SeedRelay, leader)
        said = [n for n, flag in zip(self._members, relay.origins, strict=False) if flag]
        if len(relay.origins) != len(self._members) or len(said) != len(relay.seeds):
            raise PeerError(leader, Seed.round, "seeds that fit no roster of this size")
        for node, seeds in zip(said, relay.seeds, strict=True):
            if node not in self._seeds:
                self._note_seed(seeds, node)
            elif self._seeds[node] != seeds:
                raise PeerError(leader, Seed.round, f"another seed of node {node} than it said")

    def seeds_stand(self) -> bool:
        """Say whether the seeds can be used; else all members draw theirs again.

        Raises
        ------
        Abort
            If seeds are missing.
        UsageError
            If no epoch was begun.
        """
        if not self._members:
            raise UsageError("epoch", "none", "one that was begun with announce_seed()")
        checks_papers.every_seed_is_known(self._seeds, self._members)
        distinct = checks_papers.seeds_are_distinct(self._seeds)
        return distinct and (not self._checked or checks_papers.seeds_form_triangles(self._seeds))

    def redraw_seed(self) -> Seed:
        """Forget all seeds and announce a new one: what all members do if the old do not stand.

        Returns
        -------
        Seed

        Raises
        ------
        Abort
            After 20 tries. With ``cpda-sen-checked`` this party has then given up the epoch.
        UsageError
            If the seeds stand.
        """
        following = step(self._table, self._state, "redraw")
        if self.seeds_stand():
            raise UsageError("seeds", "ones that stand", "a redraw where they do not")
        if self._seed_tries == MAX_TRIES:
            if self._checked:
                self._state = step(self._table, self._state, "give up")
            raise Abort("no seeds that stand", self._seed_tries, MAX_TRIES)
        self._state = following
        return self._new_seeds()

    def share(self) -> PaperShares:
        """Share this member's numbers at the seeds of all.

        Returns
        -------
        PaperShares

        Raises
        ------
        Abort
            If seeds are missing.
        UsageError
            If the seeds do not stand.
        CapacityError
            If a real share is too large for its bytes.
        """
        following = step(self._table, self._state, "share")
        if not self.seeds_stand():
            raise UsageError("seeds", "ones that do not stand", "a redraw before anything is sent")
        params, m = self._params, len(self._members)
        parts = self._evaluate(self._draws.coefficients(m))
        octets = (share_size(params, m) - params.tag_bytes) // params.width
        items = []
        self._held = {}
        for node, part in parts.items():
            if node == self.node:
                self._held[node] = part
            else:
                written = write_numbers(part, params, octets)
                sealed = self._seal(PaperShares, node, written, self._digest, attempt=self._attempt)
                items.append(sealed)
        self._state = following
        return PaperShares(items=tuple(items))

    def _evaluate(self, coefficients: Sequence[Sequence[Any]]) -> dict[int, list[int | float]]:
        """Return what each member gets, in the roster's order."""
        real = self._params.arithmetic is Arithmetic.REAL
        kind = np.float64 if real else object
        parts: dict[int, list[int | float]] = {node: [] for node in self._members}
        for column, value in enumerate(self._values):
            seeds = np.array([self._seeds[node][column] for node in self._members], kind)
            drawn = np.array([list(coefficients[column])], kind)
            shares = faithful.share(np.array([value], kind), drawn, seeds)[0]
            if real:
                with np.errstate(over="ignore"):
                    size = np.float64 if self._params.real_bytes == 8 else np.float32
                    shares = shares.astype(size).astype(np.float64)
                if not np.isfinite(shares).all():
                    most = f"what {self._params.real_bytes} bytes hold"
                    raise CapacityError("seed_max", self._params.seed_max, most, "Take a smaller.")
            for node, share in zip(self._members, shares, strict=True):
                parts[node].append(float(share) if real else int(share))
        return parts

    def receive(self, shares: PaperShares, origin: int) -> None:
        """Take this member's share out of another's bundle.

        Parameters
        ----------
        shares : PaperShares
            What it sent.
        origin : int
            Whose it is.

        Raises
        ------
        PeerError
            If it came before or does not open.
        """
        message_of(PaperShares, shares)
        self._expect(PaperShares, origin)
        item = bundles.own_item(shares.items, self._members, origin, self.node)
        self._take(origin, self._opened(origin, item))

    def receive_relayed(self, relay: PaperRelay, leader: int) -> None:
        """Take this member's share out of what the leader sends on, by trying what opens.

        Parameters
        ----------
        relay : PaperRelay
            What the leader sent.
        leader : int
            Its id.

        Raises
        ------
        PeerError
            If none of the items is for this member.
        """
        message_of(PaperRelay, relay)
        self._expect(PaperRelay, leader)
        origin = bundles.relayed_origin(relay.position, self._members, self.node, leader)
        opened = [self._opened(origin, item) for item in relay.items]
        self._take(origin, next((text for text in opened if text is not None), None))

    def _opened(self, origin: int, item: bytes) -> bytes | None:
        return self._unseal(PaperShares, origin, item, self._digest, self._attempt)

    def _take(self, origin: int, plaintext: bytes | None) -> None:
        opened = checks.opens(plaintext, origin, "shares")
        checks.first_share_of_origin(self._held, origin)
        params, m = self._params, len(self._members)
        octets = (share_size(params, m) - params.tag_bytes) // params.width
        if len(opened) != octets * params.width:
            raise PeerError(origin, "shares", f"{len(opened)} bytes for {params.width} numbers")
        numbers = read_numbers(opened, params, octets)
        if params.arithmetic is Arithmetic.REAL and not np.isfinite(numbers).all():
            raise PeerError(origin, "shares", "a number that is not finite")
        self._held[origin] = numbers

    def check(self) -> Redo | None:
        """``cpda-sen-checked``: check what this member holds; a failure is for all to hear.

        Returns
        -------
        Redo or None
            To be sent to all, if the check failed.

        Raises
        ------
        Abort
            If shares are missing.
        """
        self._state = step(self._table, self._state, "check")
        checks.holds_all_shares([True] * len(self._members), self._members, self._held)
        if checks_papers.values_form_triangles(self._held):
            return None
        return Redo(attempt=self._attempt)

    def hear_redo(self, redo: Redo, origin: int) -> None:
        """``cpda-sen-checked``: forget all shares; :meth:`share` then draws again.

        Parameters
        ----------
        redo : Redo
            What the other member sent.
        origin : int
            Whose it is.

        Raises
        ------
        PeerError
            If it speaks of another attempt than the one at hand.
        Abort
            After 20 tries: this party has given up the epoch.
        """
        message_of(Redo, redo)
        following = follow(self._table, self._state, Redo, origin)
        if origin not in self._members or redo.attempt != self._attempt:
            raise PeerError(origin, Redo.round, f"attempt {redo.attempt}; at hand: {self._attempt}")
        self._held, self._state = {}, following
        self._attempt += 1
        if self._attempt == MAX_TRIES:
            self._state = step(self._table, self._state, "give up")
            raise Abort("no shares that pass the check", self._attempt, MAX_TRIES)

    def answer(self) -> Assembled:
        """Give the sum of the shares held, in clear; the same again if it was lost.

        Raises
        ------
        Abort
            If shares are missing, or fail the check.
        """
        following = step(self._table, self._state, "answer")
        numbers = self._answer_numbers()
        self._state = following
        octets = answer_size(self._params, len(self._members)) // self._params.width
        real = self._params.arithmetic is Arithmetic.REAL
        return Assembled(numbers=tuple(numbers), octets=octets, real=real)

    def _answer_numbers(self) -> list[int | float]:
        checks.holds_all_shares([True] * len(self._members), self._members, self._held)
        if self._checked and not checks_papers.values_form_triangles(self._held):
            raise Abort("the shares held fail the check", 0, len(self._members))
        parts = [self._held[node] for node in self._members]
        sums = [sum(column) for column in zip(*parts, strict=True)]
        if self._params.arithmetic is Arithmetic.REAL and self._params.real_bytes == 4:
            with np.errstate(over="ignore"):
                sums = [float(np.float32(total)) for total in sums]
        if not all(np.isfinite(float(total)) for total in sums):
            raise Abort("a sum that overflowed", 0, len(self._members))
        return sums

    def _expect(self, kind: type[Message], peer: int) -> None:
        self._state = follow(self._table, self._state, kind, peer)
