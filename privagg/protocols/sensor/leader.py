"""The leader of a cluster: a member that also admits, relays, collects and reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privagg import field as fields
from privagg.entropy import OS, Entropy
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols.sensor import checks, senders, sound
from privagg.protocols.sensor.admission import Admission
from privagg.protocols.sensor.channel import Keyring
from privagg.protocols.sensor.member import Member
from privagg.protocols.sensor.messages import (
    Answer,
    Echo,
    Received,
    Relay,
    Roster,
    SenderSet,
    Shares,
    bitmap,
    flags_of,
)
from privagg.protocols.sensor.params import Params, Protocol
from privagg.protocols.sensor.states import MemberState, Mode, mode
from privagg.protocols.sensor.tree_node import message_of, split

__all__ = ["Leader"]


class Leader(Admission, Member):
    """A leader; a member of its cluster like the others.

    It learns the cluster's sum, and passes it on: whether it tells the truth nobody checks.

    Parameters
    ----------
    params : Params
        The parameters that all parties agreed on.
    keyring : Keyring
        Keys of the node.
    entropy : Entropy
        Where randomness comes from: the operating system, unless it is to be repeatable.
    last_epoch : int
        The last epoch that this node has seen: it takes only later ones.
    """

    def __init__(
        self,
        params: Params,
        keyring: Keyring,
        *,
        entropy: Entropy = OS,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(params, keyring, entropy=entropy, last_epoch=last_epoch)
        self._concluded = -1
        self._bitmaps: dict[int, list[bool]] = {}
        self._answers: dict[int, list[int]] = {}
        self._chosen: tuple[bool, ...] = ()

    @classmethod
    def take_over(cls, member: Member) -> Leader:
        """Return a collector that has a member's memory: the lowest id left, if the leader died.

        Nothing is shared anew: the members' answers are sealed for the successor.

        Raises
        ------
        UsageError
            If the member holds no shares.
        """
        if not isinstance(member, Member):
            raise UsageError("member", type(member).__name__, "sensor.Member")
        successor = cls.__new__(cls)
        successor.__dict__.update(member.__dict__)
        successor._joined = frozenset()
        successor._bitmaps, successor._answers, successor._chosen = {}, {}, ()
        successor._concluded = successor._announced = -1
        return successor

    def share(self, roster: Roster, numbers: Sequence[int], leader: int) -> Shares | None:
        """As :meth:`Member.share`; what was collected in an epoch before, or too late, is dropped.

        Else an answer of an epoch that was given up would be added to the next one's.
        """
        shares = super().share(roster, numbers, leader)
        self._answers, self._bitmaps, self._chosen = {}, {}, ()
        return shares

    def relay(self, bundle: Shares | Echo, origin: int, targets: list[int]) -> Relay:
        """Return what is sent on of a bundle: the items of `targets`, which are out of range.

        The leader cannot read them.

        Parameters
        ----------
        bundle : Shares or Echo
            What the origin sent.
        origin : int
            Whose it is.
        targets : list of int
            Ids of members.

        Raises
        ------
        PeerError
            If the origin is not in the roster, or its bundle has not an item for each other member.
        UsageError
            If a target is not in the roster, or is the origin.
        """
        place, items = self._items_for(bundle.items, origin, targets, bundle.round)
        return Relay(position=place, items=items)

    def note_received(self, message: Received, node: int) -> None:
        """Threshold mode: take a member's list of shares.

        Parameters
        ----------
        message : Received
            What the member sent.
        node : int
            Its id.

        Raises
        ------
        PeerError
            If it does not open, or came before.
        """
        message_of(Received, message)
        if node in self._bitmaps or node not in self._members:
            raise PeerError(node, "received", "a second list, or one from outside the roster")
        octets = checks.opens(self._open(Received, node, message.sealed), node, "received")
        members = len(self._members)
        flags = flags_of(octets.ljust((members + 7) // 8, b"\0"), members)
        if bitmap(flags) != octets:
            raise PeerError(node, "received", f"no list of one bit for each of {members} members")
        self._bitmaps[node] = flags

    def choose_senders(self) -> SenderSet:
        """Threshold mode: choose whose readings the sum is to hold.

        Returns
        -------
        SenderSet

        Raises
        ------
        Abort
            If no t members have the shares of the same t.
        """
        members, drops = self._members, self._params.drops
        m = len(members)
        received = np.zeros((1, m, m), np.bool_)
        for place, node in enumerate(members):
            if node == self.node:
                received[0, place] = [peer in self._held for peer in members]
            elif node in self._bitmaps:
                received[0, place] = self._bitmaps[node]
        chosen, holders = senders.choose(received, drops)
        if not chosen.any():
            raise Abort("too few members have the same shares", int(holders.sum()), m - drops)
        self._chosen = tuple(bool(flag) for flag in chosen[0])
        return SenderSet(senders=self._chosen)

    def collect(self, answer: Answer, node: int) -> None:
        """Take a member's answer.

        Parameters
        ----------
        answer : Answer
            What the member sent.
        node : int
            Its id.

        Raises
        ------
        PeerError
            If it does not open, came before or after the epoch was concluded, or is no field
            element.
        """
        message_of(Answer, answer)
        if self._concluded >= 0 and self._concluded == self._epoch:
            raise PeerError(node, "answer", f"an answer after epoch {self._epoch} was concluded")
        if node in self._answers or node not in self._members or node == self.node:
            raise PeerError(node, "answer", "a second answer, or one from outside the roster")
        octets = checks.opens(self._open(Answer, node, answer.sealed), node, "answer")
        numbers = split(octets, self._params, node, "answer")
        checks.elements_are_canonical(numbers, node, self._params, "answer")
        self._answers[node] = numbers

    def conclude(self) -> tuple[list[int], int]:
        """Compute the cluster's sums, add them to this node's report, and return them with a count.

        Returns
        -------
        sums : list of int
            Signed.
        count : int
            Readings in them.

        Raises
        ------
        Abort
            If too few answers came.
        UsageError
            If this epoch was concluded, or reported, before.
        """
        if self._concluded == self._epoch:
            raise UsageError("epoch", self._epoch, "one that was not concluded yet")
        params, members = self._params, self._members
        answers = dict(self._answers)
        answers[self.node] = self._answer_numbers()
        needed = (
            len(members) if mode(params) is not Mode.THRESHOLD else params.threshold(len(members))
        )
        if len(answers) < needed:
            raise Abort("too few answers", len(answers), needed)
        p = params.field.modulus
        if params.protocol is Protocol.MASK_CLUSTER:
            sums = [sum(column) % p for column in zip(*answers.values(), strict=True)]
        else:
            places = [place for place, node in enumerate(members) if node in answers]
            places = places[: params.threshold(len(members))]
            rows = fields.elements([answers[members[place]] for place in places], params.field)
            found = sound.recover(rows, np.array(places), params.field)
            sums = [int(value) for value in found]
        count = sum(self._senders) if self._senders else len(members)
        self._add_own(sums, count)
        self._state = MemberState.ANSWERED
        self._concluded = self._epoch
        self._answers = {}
        self._bitmaps = {}
        lifted = sound.lift(fields.elements(sums, params.field), params.field)
        return [int(value) for value in lifted], count
