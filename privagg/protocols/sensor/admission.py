"""What every leader of a cluster does beside being a member: invite, admit, send on."""

from __future__ import annotations

from collections.abc import Sequence

from privagg._validate import whole
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols.sensor import channel, checks
from privagg.protocols.sensor.cluster_node import ClusterNode
from privagg.protocols.sensor.formation import id_bytes
from privagg.protocols.sensor.messages import Hello, Join, Roster
from privagg.protocols.sensor.tree_node import message_of

__all__ = ["Admission"]


class Admission(ClusterNode):
    """The part of a leader that forms the cluster, and picks what it sends on unread."""

    _announced = -1
    _joined: frozenset[int] = frozenset()

    def announce(self, epoch: int, hops: int) -> Hello:
        """Return the query as this leader forwards it; who joined before has to join again.

        Raises
        ------
        UsageError
            If the epoch has more than 32 bits, or the hops more than 16.
        """
        self._announced = whole("epoch", epoch, 0, 2**32 - 1)
        whole("hops", hops, 0, 2**16 - 1)
        self._joined = frozenset()
        return Hello(epoch=epoch, hops=hops, leads=True)

    def admit(self, join: Join, node: int) -> None:
        """Take a node in that proves to hold a key with this leader.

        Raises
        ------
        PeerError
            If the proof fails, or is for another epoch than was announced: who joined once would
            be taken in for ever, dead or not, by whoever kept its message.
        """
        message_of(Join, join)
        if join.epoch != self._announced:
            raise PeerError(node, "join", f"epoch {join.epoch}, which was not announced last")
        plaintext = channel.open_(
            self._key(node, "join"),
            join.tag,
            b"",
            kind=Join.kind,
            epoch=join.epoch,
            sender=node,
            receiver=self.node,
            tag_bytes=self._params.tag_bytes,
        )
        checks.opens(plaintext, node, "join")
        self._joined |= {node}

    def roster(self, epoch: int) -> Roster:
        """Return the roster of an epoch: all that joined, sorted, this leader among them.

        Raises
        ------
        Abort
            If they are too few: they join elsewhere.
        UsageError
            If the epoch has more than 32 bits.
        """
        whole("epoch", epoch, 0, 2**32 - 1)
        members = tuple(sorted(self._joined | {self.node}))
        if len(members) < self._params.min_cluster:
            raise Abort("the cluster is too small", len(members), self._params.min_cluster)
        return Roster(epoch=epoch, members=members, id_size=id_bytes(self._params.nodes))

    def _items_for(
        self, items: tuple[bytes, ...], origin: int, targets: Sequence[int], round: str
    ) -> tuple[int, tuple[bytes, ...]]:
        """Return an origin's position and the items of `targets`, of a bundle of one for each.

        Raises
        ------
        PeerError
            If the origin is not in the roster, or its bundle has not an item for each other member.
        UsageError
            If a target is not in the roster, or is the origin.
        """
        if not isinstance(targets, Sequence):
            raise UsageError("targets", type(targets).__name__, "a sequence of members")
        if whole("origin", origin, 0, 2**32 - 1) not in self._members:
            raise PeerError(origin, "shares", "a bundle of a node outside the roster")
        checks.one_item_each(items, self._members, origin, round)
        place = self._members.index(origin)
        picked = []
        for target in targets:
            if target not in self._members or target == origin:
                raise UsageError("targets", target, "other members of the roster")
            at = self._members.index(target)
            picked.append(items[at - (at > place)])
        return place, tuple(picked)
