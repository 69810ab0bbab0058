"""Epochs among real parties of `tag`, `smart` and `cmt`; see :mod:`parties`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.entropy import Entropy
from privagg.errors import Abort
from privagg.protocols.sensor.base_station import BaseStation
from privagg.protocols.sensor.channel import Keyring
from privagg.protocols.sensor.formation import Formation
from privagg.protocols.sensor.keypool import Rings
from privagg.protocols.sensor.messages import Hello, Report
from privagg.protocols.sensor.messages_papers import CmtReport, Slice
from privagg.protocols.sensor.params import Params, Protocol
from privagg.protocols.sensor.parties import Stage, make_keyrings, same
from privagg.protocols.sensor.sums import Batch
from privagg.protocols.sensor.tree_cmt import CmtBaseStation, CmtNode
from privagg.protocols.sensor.tree_parties import SmartNode, UnprotectedTagNode

__all__ = ["TreeCast"]


class TreeCast(Stage):
    """All parties of a network without clusters, with their keys, over several epochs.

    Parameters as for :class:`Cast`.
    """

    def __init__(
        self, formation: Formation, params: Params, entropy: Entropy, rings: Rings | None = None
    ) -> None:
        super().__init__(formation, params)
        made = make_keyrings(formation, entropy, rings)
        self.nodes: list[Any] = [self._make(ring, entropy) for ring in made[:-1]]
        parent = formation.uplink.parent
        on_tree = np.flatnonzero(parent >= 0)
        self.children: dict[int, list[int]] = {}
        for node in on_tree.tolist():
            self.children.setdefault(int(parent[node]), []).append(node)
        self.station: Any
        if params.protocol is Protocol.CMT:
            parents = {int(node): int(parent[node]) for node in on_tree}
            self.station = CmtBaseStation(params, made[-1], parents)
        else:
            self.station = BaseStation(params, made[-1])

    def _make(self, ring: Keyring, entropy: Entropy) -> Any:
        match self.params.protocol:
            case Protocol.TAG:
                return UnprotectedTagNode(self.params, ring)
            case Protocol.SMART:
                return SmartNode(self.params, ring, entropy=entropy)
        return CmtNode(self.params, ring)

    def run(self, made: Batch, at: int, epoch: int, numbers: NDArray[Any]) -> None:
        """Play one epoch and compare it with what the arrays have made of it: as :class:`Cast`."""
        self.sizes.clear()
        hello = self.sent(self.station.query(epoch), Hello, self.station.node)
        formation = self.formation
        parent = formation.uplink.parent
        reached = formation.clusters.flood.reached.copy()
        reached[formation.network.base_station] = False
        step = "shares" if self.params.protocol is Protocol.SMART else "report"
        asked = np.flatnonzero(reached & formation.alive.at(step)).tolist()
        slices: dict[tuple[int, int], Slice] = {}
        for node in asked:
            values, sender = [int(v) for v in numbers[node]], int(parent[node])
            match self.params.protocol:
                case Protocol.TAG:
                    self.nodes[node].hear(hello, values, sender)
                case Protocol.CMT:
                    self.nodes[node].encrypt(hello, values, sender, self.station.node)
                case _:
                    targets = self._targets(made, node)
                    cut = self.nodes[node].cut(hello, values, targets, sender)
                    slices |= {(node, target): part for target, part in cut.items()}
        self._exchange(made, at, slices)
        self._climb(made, at)
        self._compare(made, at)

    def _targets(self, made: Batch, node: int) -> list[int]:
        assert made.sliced is not None
        targets: list[int] = made.sliced.target[made.sliced.origin == node].tolist()
        return targets

    def _exchange(self, made: Batch, at: int, slices: dict[tuple[int, int], Slice]) -> None:
        sliced = made.sliced
        if sliced is None:
            return
        pairs = zip(sliced.origin.tolist(), sliced.target.tolist(), strict=True)
        for number, (origin, target) in enumerate(pairs):
            part = self.sent(slices[origin, target], Slice, origin)
            if sliced.arrived[at, number]:
                self.nodes[target].receive(part, origin)
            elif sliced.kept:
                self.nodes[origin].keep(target)

    def _climb(self, made: Batch, at: int) -> None:
        formation, climb = self.formation, made.climb
        cmt = self.params.protocol is Protocol.CMT
        for level in reversed(formation.uplink.levels):
            for node in level[climb.sent[at, level]].tolist():
                parent = int(formation.uplink.parent[node])
                root = parent == formation.network.base_station
                above = self.station if root else self.nodes[parent]
                if cmt:
                    below = self.children.get(node, [])
                    report = self.nodes[node].report_ciphertexts(parent, below)
                    report = self.sent(report, CmtReport, node)
                else:
                    report = self.sent(self.nodes[node].report(parent), Report, node)
                if climb.arrived[at, node]:
                    (above.add_ciphertexts if cmt else above.add)(report, node)

    def _compare(self, made: Batch, at: int) -> None:
        try:
            total, count = self.station.total()
        except Abort:
            same("whether the sum is none", made.totals[at, 0], None)
            return
        if made.totals[at, 0] is None:
            return  # uniform, and by chance in the range of a sum
        if made.sliced is None or made.sliced.whole(made.climb.reached)[at]:
            # A plain slice that is lost is an error, of a size that each engine draws for itself.
            same("total", total, [int(v) for v in made.totals[at]])
        same("count", count, int(made.covered[at].sum()))
