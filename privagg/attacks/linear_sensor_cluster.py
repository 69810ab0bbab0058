"""One cluster's messages of a sensor transcript, read into linear functionals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privagg.errors import UsageError
from privagg.protocols.sensor.faithful import efficient_seed
from privagg.protocols.sensor.params import Protocol
from privagg.protocols.sensor.transcript import Entry

if TYPE_CHECKING:
    from privagg.attacks.linear_sensor import SensorViews

__all__ = ["AIR", "ClusterReader", "Functional", "link", "plus"]

AIR = "air"
"""The observer that hears everything that is sent in clear, and opens nothing."""

Functional = dict[Any, Any]
"""Coefficients by the names of unknowns."""


def link(one: int, other: int) -> tuple[str, int, int]:
    """Name the observer with the key of a link: it reads what either end seals for the other.

    Parameters
    ----------
    one : int
        A node.
    other : int
        Another.

    Returns
    -------
    tuple of str, int, int
        The same whichever end comes first.
    """
    return ("link", min(one, other), max(one, other))


class ClusterReader:
    """One cluster's messages, read into functionals.

    Parameters
    ----------
    views : SensorViews
        Where functionals go.
    head : int
        The cluster's leader.
    members : tuple of int
        Nodes of the cluster, in the roster's order.
    said : list of Entry
        Its messages.
    """

    def __init__(
        self, views: SensorViews, head: int, members: tuple[int, ...], said: list[Entry]
    ) -> None:
        self.views, self.params, self.head, self.members = views, views.params, head, members
        self.said = said
        self.protocol = self.params.protocol
        self.threshold = self.params.threshold(len(members))
        self.seeds: dict[tuple[int, int], int] = {}
        self.told: dict[int, tuple[int, ...]] = {}
        for entry in said:
            if entry.kind == "Seed" and entry.data:
                self.seeds[entry.sender, entry.attempt] = entry.data[0]
            elif entry.kind == "SenderSet":
                self.told[entry.receiver] = entry.data
                self.told.setdefault(entry.sender, entry.data)
        self.tries = max((key[1] for key in self.seeds), default=0)

    def read(self) -> Functional:
        """Give out what was said; return the cluster's sum."""
        last = max((e.attempt for e in self.said if e.kind == "Shares"), default=0)
        for entry in self.said:
            if entry.kind == "Shares":
                self._share(entry)
            elif entry.kind == "Answer":
                self._answer(entry, last)
        collectors = {e.receiver for e in self.said if e.kind == "Answer"}
        told = next((self.told[node] for node in sorted(collectors) if node in self.told), None)
        return {("reading", node): 1 for node in (self.members if told is None else told)}

    def _point(self, node: int) -> int:
        if self.protocol is Protocol.CPDA_FIELD:
            return self.members.index(node) + 1
        if self.protocol is Protocol.CPDA_SEN_EFFICIENT:
            return efficient_seed(self.params, len(self.members))
        if (node, self.tries) not in self.seeds:
            raise UsageError("transcript", f"no seed of node {node}", "the seeds of all members")
        return self.seeds[node, self.tries]

    def _value(self, owner: int, holder: int, attempt: int) -> Functional:
        """Return the share of an owner at a holder's point."""
        value: Functional = {("reading", owner): 1}
        point = self._point(holder)
        for power in range(1, self.threshold):
            value["coefficient", owner, power, attempt] = point**power
        return value

    def _speaks(self, node: int, attempt: int) -> None:
        self.views._speaks(node)
        for power in range(1, self.threshold):
            self.views._learn(node, {("coefficient", node, power, attempt): 1})

    def _share(self, entry: Entry) -> None:
        if not {entry.sender, entry.receiver} <= set(self.members):
            raise UsageError("transcript", f"shares of node {entry.sender}", "of the roster")
        self._speaks(entry.sender, entry.attempt)
        value = self._value(entry.sender, entry.receiver, entry.attempt)
        self.views._sealed(entry, value)
        if self.protocol is not Protocol.CPDA_FIELD:
            self._modulo(entry, self._point(entry.receiver))

    def _modulo(self, entry: Entry, seed: int) -> None:
        """Over the integers a share gives the reading, where the seed is above all readings."""
        if self.views._modular and seed > 2 * self.params.bound:
            self.views._sealed(entry, {("reading", entry.sender): 1})

    def _answer(self, entry: Entry, attempt: int) -> None:
        node, views = entry.sender, self.views
        if self.protocol is Protocol.MASK_CLUSTER:
            views._sealed(entry, self._masked(node))
            return
        if self.protocol is Protocol.CPDA_SEN_EFFICIENT:
            self._speaks(node, 0)
            self._speaks(self.head, 0)
            views._sealed(entry, self._value(node, entry.receiver, 0))
            self._modulo(entry, self._point(entry.receiver))
            return
        total: Functional = {}
        for owner in self.told.get(node, self.members):
            total = plus(total, self._value(owner, node, attempt))
        if self.protocol is Protocol.CPDA_FIELD:
            views._sealed(entry, total)
            return
        for observer in (*self.members, AIR):  # in clear
            views._learn(observer, total)

    def _masked(self, node: int) -> Functional:
        """Return a masked reading, and give its masks to who has the key they are made of."""
        self.views._speaks(node)
        self.views._speaks(self.head)
        value: Functional = {("reading", node): 1}
        for peer in self.members:
            if peer != node:
                name = ("mask", min(node, peer), max(node, peer))
                value[name] = 1 if node < peer else -1
                for observer in (node, peer, link(node, peer)):
                    self.views._learn(observer, {name: 1})
        return value


def plus(one: Functional, other: Functional) -> Functional:
    """Return the sum of two functionals, without what cancels.

    Parameters
    ----------
    one : mapping
        Coefficients by unknown.
    other : mapping
        Coefficients by unknown.
    """
    total = dict(one)
    for name, factor in other.items():
        total[name] = total.get(name, 0) + factor
        if not total[name]:
            del total[name]
    return total
