"""The algebra of a sensor network's epoch: what members, links and eavesdroppers learn together.

A transcript says which message went where; the roster and the seeds say which linear functional of
readings, coefficients, masks and slices it carries. So every observer holds some functionals, and a
coalition learns what is in their span (:class:`~privagg.attacks.linear_views.Views`). This is the
front door into the linear auditor for :mod:`privagg.protocols.sensor`; it needs no secret.

The algebra sees no arithmetic: over the integers a share is congruent to the reading modulo the
seed, which is no linear functional. `modular` adds just that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from privagg._validate import whole
from privagg.attacks.linear_sensor_cluster import AIR, ClusterReader, Functional, link, plus
from privagg.attacks.linear_views import Views
from privagg.errors import UsageError
from privagg.field import M61, Field
from privagg.protocols.sensor.params import Arithmetic, Protocol
from privagg.protocols.sensor.transcript import Entry, Transcript

__all__ = ["AIR", "SensorViews", "Smallest", "link"]


@dataclass(frozen=True)
class Smallest:
    """The fewest nodes that learn the reading of another.

    Attributes
    ----------
    members : tuple of int
        Such a set; empty if none was found.
    discloses : tuple of int
        Whose readings it learns.
    at_least : int
        No smaller set does.
    exact : bool
        Whether the set is a smallest one, or there is none at all.
    """

    members: tuple[int, ...]
    discloses: tuple[int, ...]
    at_least: int
    exact: bool


class SensorViews:
    """Who holds which functionals after an epoch.

    Parameters
    ----------
    transcript : Transcript
        Of a simulation.
    epoch : int
        Which of its epochs. Each has readings of its own.
    modular : bool
        With ``cpda`` and its variants over the integers: whoever holds a share at a seed above all
        readings takes it modulo the seed and has the reading.

    Attributes
    ----------
    targets : tuple of int
        Nodes whose readings went into something that was sent.

    Raises
    ------
    UsageError
        If there is no such epoch, or nothing was sent in it.

    Examples
    --------
    >>> from privagg.protocols import sensor
    >>> field = sensor.Deployment(nodes=40, area=100, range=60, seed=1)
    >>> run = sensor.simulate(field, protocol="tag", transcript=True)
    >>> views = SensorViews(run.transcript)
    >>> len(views.disclosed([views.transcript.base_station])) > 0
    True
    """

    def __init__(self, transcript: Transcript, epoch: int = 0, *, modular: bool = True) -> None:
        if not isinstance(transcript, Transcript):
            raise UsageError("transcript", type(transcript).__name__, "a sensor Transcript")
        if not isinstance(modular, bool):
            raise UsageError("modular", modular, "True or False")
        self.transcript, self.epoch = transcript, epoch
        self.params = transcript.params
        entries = transcript.of_epoch(epoch)
        self._modular = modular and self.params.arithmetic is Arithmetic.INTEGER
        self._held: dict[Any, list[Functional]] = {}
        self._spoke: set[int] = set()
        self._pools: list[tuple[int, ...]] = []
        reports = [entry for entry in entries if entry.kind == "Report"]
        sums: dict[int, Functional] = {}
        own: dict[int, Functional] = {}
        if self.params.protocol.clustered:
            rosters = {e.cluster: e.data for e in entries if e.kind == "Roster"}
            said: dict[int, list[Entry]] = {}
            for entry in entries:
                if entry.cluster >= 0:
                    said.setdefault(entry.cluster, []).append(entry)
            for head, members in rosters.items():
                sums[head] = ClusterReader(self, head, members, said.get(head, [])).read()
            for entry in reports:
                if entry.data and entry.data[0] in sums:
                    own[entry.sender] = sums[entry.data[0]]
        else:
            own = self._tree(entries, reports)
        self._climb(reports, own)
        self.targets = tuple(sorted(self._spoke))
        if not self.targets:
            raise UsageError("transcript", f"no reading in epoch {epoch}", "one in which some went")
        self._pool(reports, own)

    # What is held.

    def _learn(self, observer: Any, functional: Functional) -> None:
        self._held.setdefault(observer, []).append(functional)

    def _sealed(self, entry: Entry, functional: Functional) -> None:
        """Give a functional to who gets it, and to who has the key of the link."""
        if entry.arrived:
            self._learn(entry.receiver, functional)
        self._learn(link(entry.sender, entry.receiver), functional)

    def _speaks(self, node: int) -> None:
        if node not in self._spoke:
            self._spoke.add(node)
            self._learn(node, {("reading", node): 1})

    def _tree(self, entries: list[Entry], reports: list[Entry]) -> dict[int, Functional]:
        """Read slices and keystreams; return what each node puts into its own report."""
        own: dict[int, Functional] = {}
        kept = self.params.plain_slices and self.transcript.acknowledged
        protocol, station = self.params.protocol, self.transcript.base_station
        if protocol is not Protocol.SMART:
            for entry in reports:
                node = entry.sender
                self._speaks(node)
                own[node] = {("reading", node): 1}
                if protocol is Protocol.CMT:
                    key = ("keystream", node)
                    own[node] = own[node] | {key: 1}
                    for observer in (node, station, link(node, station)):
                        self._learn(observer, {key: 1})
            return own
        for entry in entries:
            if entry.kind != "Slice":
                continue
            self._speaks(entry.sender)
            name = ("slice", entry.sender, entry.receiver)
            self._learn(entry.sender, {name: 1})
            self._sealed(entry, {name: 1})
            mine = own.setdefault(entry.sender, {})
            mine[("reading", entry.sender)] = 1
            if entry.arrived or not kept:
                mine[name] = -1
            if entry.arrived:
                own.setdefault(entry.receiver, {})[name] = 1
        return own

    def _climb(self, reports: list[Entry], own: Mapping[int, Functional]) -> None:
        """Add up reports, the lowest first as they were sent."""
        below: dict[int, Functional] = {}
        for entry in reports:
            total = plus(own.get(entry.sender, {}), below.get(entry.sender, {}))
            if entry.arrived:
                below[entry.receiver] = plus(below.get(entry.receiver, {}), total)
            if total:
                self._sealed(entry, total)

    def _pool(self, reports: list[Entry], own: Mapping[int, Functional]) -> None:
        """Note who could learn something together: for the search of small coalitions."""
        parent = {entry.sender: entry.receiver for entry in reports}
        children: dict[int, list[int]] = {}
        for node, above in parent.items():
            children.setdefault(above, []).append(node)
        if self.params.protocol.clustered:
            for members in self._clusters.values():
                ends = [parent[node] for node in members if own.get(node)]
                self._pools.append(tuple(dict.fromkeys([*members, *ends])))
            return
        station = self.transcript.base_station
        for node in self.targets:
            near = [name for name in own.get(node, {}) if name[0] == "slice"]
            peers = [end for _, *ends in near for end in ends]
            ends = [parent[node]] if node in parent else []
            if self.params.protocol is Protocol.CMT:
                ends.append(station)
            pool = dict.fromkeys([*ends, *children.get(node, []), *peers])
            self._pools.append(tuple(one for one in pool if one != node))

    @property
    def _clusters(self) -> dict[int, tuple[int, ...]]:
        return {
            entry.cluster: entry.data
            for entry in self.transcript.of_epoch(self.epoch)
            if entry.kind == "Roster"
        }

    # What is asked.

    def observers(
        self,
        coalition: Iterable[int] = (),
        links: Iterable[tuple[int, int]] = (),
        eavesdropper: bool = False,
    ) -> tuple[Any, ...]:
        """Return the observers that these are, checked.

        Parameters
        ----------
        coalition : iterable of int
            Nodes; the base station is one.
        links : iterable of pairs of int
            Whose keys are known.
        eavesdropper : bool
            Whether everything in clear is heard.

        Raises
        ------
        UsageError
            If there is no such node.
        """
        station = self.transcript.base_station
        found: list[Any] = [whole("coalition", node, 0, station) for node in coalition]
        for pair in links:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise UsageError("links", pair, "pairs of nodes")
            one, other = (whole("links", node, 0, station) for node in pair)
            if one == other:
                raise UsageError("links", pair, "two different nodes")
            found.append(link(one, other))
        return tuple(dict.fromkeys([*found, *([AIR] if eavesdropper else [])]))

    def views(self, observers: Iterable[Any]) -> Views | None:
        """Return what these observers hold, over the unknowns that it is about; None if nothing.

        Targets are ``("reading", node)``.

        Parameters
        ----------
        observers : iterable of hashable
            Who pool what they see.
        """
        held = [(who, row) for who in observers for row in self._held.get(who, [])]
        names = dict.fromkeys(name for _, row in held for name in row)
        readings = [name for name in names if name[0] == "reading"]
        if not readings:
            return None
        hidden = [name for name in names if name[0] != "reading"]
        made = Views(readings, hidden, field=self._field)
        for who, row in held:
            made.learn(who, row)
        return made

    @property
    def _field(self) -> Field:
        """Return the protocol's field, or one that has none of the integers' relations in it.

        Over the integers or reals the span is over the rationals; modulo this prime it is the same
        but for the unlikely case that the prime divides a minor of the functionals.
        """
        return M61 if self.params.protocol.broken else self.params.field

    def disclosed(
        self,
        coalition: Iterable[int] = (),
        links: Iterable[tuple[int, int]] = (),
        eavesdropper: bool = False,
    ) -> tuple[int, ...]:
        """Return the nodes outside the coalition whose readings it learns; see `observers`.

        Parameters
        ----------
        coalition : iterable of int
            Nodes that pool what they hold.
        links : iterable of (int, int)
            Links whose keys are broken.
        eavesdropper : bool
            Whether the coalition hears all that is sent.
        """
        inside = tuple(coalition)
        who = self.observers(inside, links, eavesdropper)
        return tuple(node for node in self._exposed(who) if node not in inside)

    def _exposed(self, who: tuple[Any, ...]) -> tuple[int, ...]:
        made = self.views(who)
        if made is None:
            return ()
        known = set(made.exposed(who))
        return tuple(node for node in self.targets if ("reading", node) in known)

    def knows(
        self,
        nodes: Iterable[int],
        coalition: Iterable[int] = (),
        links: Iterable[tuple[int, int]] = (),
        eavesdropper: bool = False,
    ) -> bool:
        """Say whether a coalition knows the sum of these nodes' readings.

        Parameters
        ----------
        nodes : iterable of int
            Nodes whose readings are added.
        coalition : iterable of int
            Nodes that pool what they hold.
        links : iterable of (int, int)
            Links whose keys are broken.
        eavesdropper : bool
            Whether the coalition hears all that is sent.
        """
        who = self.observers(coalition, links, eavesdropper)
        made, asked = self.views(who), {("reading", node): 1 for node in nodes}
        if made is None or not set(asked) <= set(made.targets):
            return False
        return made.knows(who, asked)

    def smallest(
        self,
        links: Iterable[tuple[int, int]] = (),
        eavesdropper: bool = False,
        budget: int = 30_000,
    ) -> Smallest:
        """Search the fewest nodes that learn another's reading, beside broken links.

        Looked at are sets of members of one cluster and of who gets its sum; on the tree alone, for
        each node its parent, its children, who has slices of it or gave it some, and with ``cmt``
        the base station. Who colludes from elsewhere adds nothing to that.

        Parameters
        ----------
        links, eavesdropper
            As for :meth:`observers`.
        budget : int
            Most functionals that are looked at, over all sets; the default takes seconds.
        """
        whole("budget", budget, 0, 10**9)
        always = self.observers((), links, eavesdropper)
        most = max(map(len, self._pools), default=0)
        for size in range(most + 1):
            for members in self._sets(size):
                if budget <= 0:
                    return Smallest((), (), size, False)
                budget -= 1 + sum(len(self._held.get(who, ())) for who in (*members, *always))
                found = self._exposed((*members, *always))
                others = tuple(node for node in found if node not in members)
                if others:
                    return Smallest(members, others, size, True)
        return Smallest((), (), most + 1, True)

    def _sets(self, size: int) -> Iterator[tuple[int, ...]]:
        """Yield sets of a size, of small pools first, each once."""
        if size == 0:
            yield ()
            return
        seen: set[tuple[int, ...]] = set()
        for pool in sorted(self._pools, key=len):
            for members in itertools.combinations(sorted(pool), size):
                if members not in seen:
                    seen.add(members)
                    yield members
