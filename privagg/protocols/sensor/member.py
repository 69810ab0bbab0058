"""A member of a cluster: one method per step, no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from privagg import field as fields
from privagg.entropy import OS, Entropy
from privagg.errors import PeerError
from privagg.protocols.sensor import bundles, checks, sound
from privagg.protocols.sensor.channel import Keyring, MaskStream
from privagg.protocols.sensor.cluster_node import ClusterNode
from privagg.protocols.sensor.messages import (
    Answer,
    Echo,
    Message,
    Received,
    Relay,
    Roster,
    SenderSet,
    Shares,
    bitmap,
)
from privagg.protocols.sensor.params import Params, Protocol
from privagg.protocols.sensor.states import TABLES, MemberState, Mode, mode, next_state
from privagg.protocols.sensor.tree_node import join, message_of, own_numbers, split

__all__ = ["Member"]


class Member(ClusterNode):
    """A member of a cluster under ``cpda-field`` or ``mask-cluster``.

    Guarantee: up to ``params.corrupt`` members of the cluster, its leader included, and everyone
    outside, learn of this member's numbers in an epoch only their sum with those of the other
    honest members of the roster (in threshold mode: over a set of at least t of them), whatever
    they do. This holds for every computing power but for the link keys, which rest on X25519,
    HKDF-SHA256 and AES-128-CCM with the tags' length, and needs unique keys. They can spoil the
    sum, and shift it. What the sum itself says is not hidden: a sum of zeros is zeros.

    Parameters
    ----------
    params : Params
        Of the run.
    keyring : Keyring
        The keys of this node.
    entropy : Entropy
        Of the coefficients.
    last_epoch : int
        After a restart: the last epoch that was begun, from storage that survives. A node that
        forgot it could be made to share a reading twice.

    Raises
    ------
    UsageError
        If the protocol is another.
    """

    protocols: ClassVar[tuple[Protocol, ...]] = (Protocol.CPDA_FIELD, Protocol.MASK_CLUSTER)

    def __init__(
        self,
        params: Params,
        keyring: Keyring,
        *,
        entropy: Entropy = OS,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(params, keyring, entropy=entropy, last_epoch=last_epoch)
        self._table = TABLES[mode(params)]
        self._state = MemberState.IDLE
        self._held: dict[int, list[int]] = {}
        self._masked: list[int] = []
        self._senders: tuple[bool, ...] = ()
        self._agreeing: set[int] = set()
        self._said: dict[int, Received] = {}

    @property
    def state(self) -> MemberState:
        """What this member has done in the epoch."""
        return self._state

    def share(self, roster: Roster, numbers: Sequence[int], leader: int) -> Shares | None:
        """Check the roster, then share this member's numbers among all others.

        With ``mask-cluster`` there is nothing to share: the numbers are masked, and None returned.

        Parameters
        ----------
        roster : Roster
            Of the leader.
        numbers : sequence of int
            What this member adds, signed.
        leader : int
            Who sent the roster.

        Returns
        -------
        Shares or None

        Raises
        ------
        PeerError
            If the roster is of an old epoch, too small, not sorted, without this node or the
            leader, or lists a node with which there is no key.
        UsageError
            If the numbers are not as many as `params` says, or beyond their bound.
        """
        params = self._params
        message_of(Roster, roster)
        following = next_state(self._table, self._state, Roster, leader)
        self._check_roster(roster, leader)
        values = sound.lower(np.array(own_numbers(numbers, params), np.int64), params.field)
        self._enter(roster, leader)
        self._held, self._masked, self._senders = {}, [], ()
        self._agreeing = {self.node}
        self._said = {}
        self._state = following
        if params.protocol is Protocol.MASK_CLUSTER:
            self._masked = self._mask(values)
            return None
        m = len(roster.members)
        shares = sound.shares_of(values, m, params.threshold(m), params.field, self._entropy)
        items = []
        for place, node in enumerate(roster.members):
            part = [int(element) for element in shares[place]]
            if node == self.node:
                self._held[node] = part
            else:
                items.append(self._seal(Shares, node, join(part, params), self._digest))
        return Shares(items=tuple(items))

    def receive(self, shares: Shares, origin: int) -> None:
        """Take this member's share out of another's bundle.

        Parameters
        ----------
        shares : Shares
            What it sent.
        origin : int
            Whose it is.

        Raises
        ------
        PeerError
            If it came before, does not open or is no field element.
        """
        message_of(Shares, shares)
        self._expect(Shares, origin)
        item = bundles.own_item(shares.items, self._members, origin, self.node)
        self._take(origin, self._open(Shares, origin, item))

    def receive_relayed(self, relay: Relay, leader: int) -> None:
        """Take this member's share out of what the leader sends on, by trying what opens.

        Parameters
        ----------
        relay : Relay
            What the leader sent.
        leader : int
            Its id.

        Raises
        ------
        PeerError
            If none of the items is for this member.
        """
        message_of(Relay, relay)
        self._expect(Relay, leader)
        origin = bundles.relayed_origin(relay.position, self._members, self.node, leader)
        kind = Echo if self._state is not MemberState.SHARED else Shares
        associated = self._echo_data(self._senders) if kind is Echo else self._digest
        for item in relay.items:
            plaintext = self._unseal(kind, origin, item, associated)
            if plaintext is not None and kind is Echo:
                self._agreeing.add(origin)
                return
            if plaintext is not None:
                self._take(origin, plaintext)
                return
        if kind is Echo:
            checks.echo_agrees(False, origin, self._leader)
        checks.opens(None, leader, "shares")

    def received(self, collector: int | None = None) -> Received:
        """Threshold mode: say whose shares came; the same again if it was lost.

        What comes later is not said any more: a nonce seals one list.

        Parameters
        ----------
        collector : int, optional
            Who collects; the leader unless it died.

        Returns
        -------
        Received
        """
        target = self._leader if collector is None else collector
        self._expect(Received, target)
        if target not in self._said:
            flags = bitmap([node in self._held for node in self._members])
            sealed = self._seal(Received, target, flags, self._digest)
            self._said[target] = Received(sealed=sealed)
        return self._said[target]

    def confirm(self, message: SenderSet, collector: int | None = None) -> Echo:
        """Threshold mode: accept whose readings the sum is to hold, and tell all others which.

        Parameters
        ----------
        message : SenderSet
            What the leader sent.
        collector : int, optional
            Who collects; the leader unless it died.

        Returns
        -------
        Echo

        Raises
        ------
        PeerError
            If the set has fewer than t members.
        Abort
            If this member lacks the share of one of them: it cannot answer.
        """
        message_of(SenderSet, message)
        who = self._leader if collector is None else collector
        following = next_state(self._table, self._state, SenderSet, who)
        if len(message.senders) != len(self._members):
            raise PeerError(who, "senders", f"flags for {len(message.senders)} members")
        checks.senders_are_enough(message.senders, who, self._params)
        checks.holds_all_shares(message.senders, self._members, self._held)
        self._senders, self._state = message.senders, following
        associated = self._echo_data(message.senders)
        return Echo(
            items=tuple(
                self._seal(Echo, node, b"", associated)
                for node in self._members
                if node != self.node
            )
        )

    def hear_echo(self, echo: Echo, origin: int) -> None:
        """Threshold mode: hear which set another member was told.

        Parameters
        ----------
        echo : Echo
            What the other member sent.
        origin : int
            Whose it is.

        Raises
        ------
        PeerError
            If it was told another one.
        """
        message_of(Echo, echo)
        self._expect(Echo, origin)
        place = self._members.index(origin) if origin in self._members else -1
        if place < 0 or origin == self.node:
            raise PeerError(origin, "echo", "an echo of a node outside the roster")
        checks.one_item_each(echo.items, self._members, origin, "echo")
        own = self._members.index(self.node)
        item = echo.items[own - (own > place)]
        plaintext = self._unseal(Echo, origin, item, self._echo_data(self._senders))
        checks.echo_agrees(plaintext is not None, origin, self._leader)
        self._agreeing.add(origin)

    def answer(self, collector: int | None = None) -> Answer:
        """Give the sum of the shares held, or the masked numbers, to who collects.

        A successor of the leader gets the same numbers: nothing is shared anew.

        Parameters
        ----------
        collector : int, optional
            Who collects; the leader unless it died.

        Raises
        ------
        Abort
            If shares are missing, or too few members agree on whose are to be added.
        PeerError
            If the collector is not in the roster.
        """
        target = self._leader if collector is None else collector
        following = next_state(self._table, self._state, Answer, target)
        if target not in self._members:
            raise PeerError(target, "answer", "a collector outside the roster")
        numbers = self._answer_numbers()
        self._state = following
        return Answer(sealed=self._seal(Answer, target, join(numbers, self._params), self._digest))

    def _answer_numbers(self) -> list[int]:
        if mode(self._params) is Mode.MASKED:
            return self._masked
        senders: Sequence[bool] = [True] * len(self._members)
        if mode(self._params) is Mode.THRESHOLD:
            checks.quorum_is_reached(len(self._agreeing), len(self._members), self._params)
            senders = self._senders
        checks.holds_all_shares(senders, self._members, self._held)
        p = self._params.field.modulus
        parts = [self._held[n] for n, sends in zip(self._members, senders, strict=True) if sends]
        return [sum(column) % p for column in zip(*parts, strict=True)]

    def _mask(self, values: Any) -> list[int]:
        """Add the mask of each member above, subtract that of each below."""
        field = self._params.field
        for node in self._members:
            if node == self.node:
                continue
            key = self._key(node, "roster")
            stream = MaskStream(key, self._epoch, self._digest)
            mask = fields.uniform(stream, (len(values),), field)
            mixed = fields.add if self.node < node else fields.sub
            values = mixed(values, mask, field)
        return [int(value) for value in values]

    def _take(self, origin: int, plaintext: bytes | None) -> None:
        opened = checks.opens(plaintext, origin, "shares")
        checks.first_share_of_origin(self._held, origin)
        numbers = split(opened, self._params, origin, "shares")
        checks.elements_are_canonical(numbers, origin, self._params, "shares")
        self._held[origin] = numbers

    def _expect(self, kind: type[Message], peer: int) -> None:
        self._state = next_state(self._table, self._state, kind, peer)

    def _echo_data(self, senders: Sequence[bool]) -> bytes:
        return self._digest + bitmap(list(senders))
