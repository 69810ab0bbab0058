"""A node in a cluster: what the members of every clustered protocol have in common."""

from __future__ import annotations

from typing import ClassVar

from privagg.entropy import OS, Entropy
from privagg.errors import PeerError, UsageError
from privagg.protocols.sensor import channel, checks
from privagg.protocols.sensor.channel import Keyring
from privagg.protocols.sensor.messages import Hello, Join, Message, Roster
from privagg.protocols.sensor.params import Params, Protocol
from privagg.protocols.sensor.tree_node import TreeNode, message_of

__all__ = ["ClusterNode"]


class ClusterNode(TreeNode):
    """Joins a leader, checks rosters, and seals for the others; subclasses have the steps.

    Parameters
    ----------
    params : Params
        Of the run.
    keyring : Keyring
        The keys of this node.
    entropy : Entropy
        Of what it draws.
    last_epoch : int
        After a restart: the last epoch that was begun, from storage that survives. A node that
        forgot it could be made to share a reading twice.

    Raises
    ------
    UsageError
        If the protocol is none of :attr:`protocols`.
    """

    protocols: ClassVar[tuple[Protocol, ...]] = ()

    def __init__(
        self,
        params: Params,
        keyring: Keyring,
        *,
        entropy: Entropy = OS,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(params, keyring, last_epoch=last_epoch)
        if not isinstance(entropy, Entropy):
            raise UsageError("entropy", type(entropy).__name__, "an entropy.Entropy")
        if params.protocol not in self.protocols:
            raise UsageError("protocol", str(params.protocol), " or ".join(self.protocols))
        self._entropy = entropy
        self._epoch = last_epoch
        self._leader = -1
        self._members: tuple[int, ...] = ()
        self._digest = b""

    @property
    def epoch(self) -> int:
        """The epoch that was begun last; -1 before the first."""
        return self._epoch

    @property
    def members(self) -> tuple[int, ...]:
        """The roster of this epoch."""
        return self._members

    def join(self, hello: Hello, leader: int) -> Join:
        """Join the cluster of a leader whose HELLO was heard.

        Raises
        ------
        PeerError
            If the sender does not lead, there is no key with it, or the epoch is too large.
        """
        message_of(Hello, hello)
        if not hello.leads:
            raise PeerError(leader, "hello", "a HELLO of a node that does not lead")
        if not 0 <= hello.epoch < 2**32:
            raise PeerError(leader, "hello", "an epoch of more than 32 bits")
        tag = self._seal(Join, leader, b"", b"", epoch=hello.epoch)
        return Join(epoch=hello.epoch, tag=tag)

    def _check_roster(self, roster: Roster, leader: int) -> None:
        """Check a roster before anything is done with it."""
        checks.epoch_is_new(roster, leader, self._epoch)
        checks.roster_is_sorted(roster, leader)
        checks.roster_lists(roster, self.node, leader)
        checks.cluster_is_large_enough(roster, leader, self._params)
        checks.everyone_has_a_key(roster, leader, self._keyring)

    def _enter(self, roster: Roster, leader: int) -> None:
        """Begin the epoch of a roster that was checked."""
        self._digest = channel.roster_digest(roster.epoch, leader, roster.members)
        self._epoch, self._leader, self._members = roster.epoch, leader, roster.members

    def _seal(
        self,
        kind: type[Message],
        peer: int,
        plaintext: bytes,
        associated: bytes,
        *,
        epoch: int | None = None,
        attempt: int = 0,
    ) -> bytes:
        return channel.seal(
            self._key(peer, kind.round),
            plaintext,
            associated,
            kind=kind.kind + attempt,
            epoch=self._epoch if epoch is None else epoch,
            sender=self.node,
            receiver=peer,
            tag_bytes=self._params.tag_bytes,
        )

    def _open(self, kind: type[Message], peer: int, sealed: bytes) -> bytes | None:
        return self._unseal(kind, peer, sealed, self._digest)

    def _unseal(
        self, kind: type[Message], peer: int, sealed: bytes, associated: bytes, attempt: int = 0
    ) -> bytes | None:
        if self._epoch < 0:
            raise PeerError(peer, kind.round, f"{kind.__name__} before this node began an epoch")
        return channel.open_(
            self._key(peer, kind.round),
            sealed,
            associated,
            kind=kind.kind + attempt,
            epoch=self._epoch,
            sender=peer,
            receiver=self.node,
            tag_bytes=self._params.tag_bytes,
        )
