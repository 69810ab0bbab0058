"""Writes down what a simulation sent: entries of a transcript, from what its arrays say."""

from __future__ import annotations

from typing import Any

import numpy as np

from privagg.errors import UsageError
from privagg.protocols.sensor.epochs import SEED_BYTES, number_bytes, report_bytes
from privagg.protocols.sensor.exchange import bitmap_bytes
from privagg.protocols.sensor.faithful import share_bytes
from privagg.protocols.sensor.formation import (
    HELLO_BYTES,
    JOIN_HEAD,
    ROSTER_HEAD,
    Formation,
    id_bytes,
)
from privagg.protocols.sensor.params import Params, Protocol
from privagg.protocols.sensor.sums import Batch
from privagg.protocols.sensor.transcript import EVERYONE, MAX_ENTRIES, STEP_OF, Entry, sealed

__all__ = ["Recorder"]


class Recorder:
    """Collects entries over formations and epochs.

    Parameters
    ----------
    params : Params
        Of the run.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        self.entries: list[Entry] = []
        self._epoch = 0

    def _add(self, kind: str, sender: Any, receiver: Any, size: Any, **more: Any) -> None:
        if len(self.entries) >= MAX_ENTRIES:
            raise UsageError(
                "transcript",
                f"more than {MAX_ENTRIES} messages",
                "fewer nodes or epochs",
                "Leave the transcript out, or record a part.",
            )
        more.setdefault("arrived", True)
        self.entries.append(
            Entry(
                epoch=self._epoch,
                step=STEP_OF[kind],
                kind=kind,
                sender=int(sender),
                receiver=int(receiver),
                size=int(size),
                sealed=sealed(kind, self.params.protocol),
                **more | {"arrived": bool(more["arrived"])},
            )
        )

    def formed(self, formation: Formation, epoch: int) -> None:
        """Note how the network formed before an epoch."""
        self._epoch = epoch
        params, group = self.params, formation.grouping
        for node in np.flatnonzero(formation.clusters.sent_hello):
            self._add("Hello", node, EVERYONE, HELLO_BYTES, broadcast=True)
        if not params.protocol.clustered:
            return
        extra = 4 if params.protocol is Protocol.CPDA_SEN_EFFICIENT else 0
        for cluster, head in enumerate(group.leader):
            rows = np.arange(group.start[cluster], group.start[cluster + 1])
            names = tuple(int(node) for node in group.node[rows])
            for name in names:
                if name != head:
                    size = JOIN_HEAD + params.tag_bytes
                    self._add("Join", name, head, size, cluster=int(head))
            if not formation.alive.at("roster")[head]:
                continue
            size = ROSTER_HEAD + extra + id_bytes(formation.network.nodes) * len(names)
            for row, name in zip(rows, names, strict=True):
                if name != head:
                    self._add(
                        *("Roster", head, name, size),
                        cluster=int(head),
                        arrived=formation.rostered[row],
                        broadcast=True,
                        data=names,
                    )

    def ran(self, made: Batch, at: int, epoch: int, formation: Formation) -> None:
        """Note an epoch."""
        self._epoch = epoch
        if made.answers is not None:
            _Clusters(self, made, at, formation).note()
        if made.sliced is not None:
            size = number_bytes(self.params) * self.params.width + self.params.tag_bytes
            pairs = zip(made.sliced.origin, made.sliced.target, strict=True)
            for number, (origin, target) in enumerate(pairs):
                self._add("Slice", origin, target, size, arrived=made.sliced.arrived[at, number])
        self._reports(made, at, formation)

    def _reports(self, made: Batch, at: int, formation: Formation) -> None:
        climb, group = made.climb, formation.grouping
        size, ids = report_bytes(self.params), id_bytes(formation.network.nodes)
        cmt = self.params.protocol is Protocol.CMT
        adds: dict[int, int] = {}
        if made.answers is not None:
            for cluster in np.flatnonzero(made.answers.success[at]):
                collector = int(group.node[formation.collector[cluster]])
                adds[collector] = int(group.leader[cluster])
        silent: dict[int, list[int]] = {}
        for level in reversed(formation.uplink.levels):
            for node in level:
                parent = int(formation.uplink.parent[node])
                comes = bool(climb.arrived[at, node])
                listed = tuple(sorted(silent.get(int(node), ())))
                silent.setdefault(parent, []).extend(listed if comes else (int(node),))
                if not climb.sent[at, node]:
                    continue
                own = (adds[int(node)],) if int(node) in adds else ()
                octets = size + (ids * len(listed) if cmt else 0)
                data = listed if cmt else own
                self._add("Report", node, parent, octets, arrived=comes, data=data)


class _Clusters:
    """What was said inside clusters in one epoch."""

    def __init__(self, recorder: Recorder, made: Batch, at: int, formation: Formation) -> None:
        assert made.answers is not None
        self.recorder, self.made, self.at, self.formation = recorder, made, at, formation
        self.params, self.answers = recorder.params, made.answers
        self.group, self.pair = formation.grouping, formation.pair
        alive = formation.alive
        self.sharing = alive.at("shares")[self.group.node] & formation.rostered
        self.answering = alive.at("answers")[self.group.node] & formation.rostered
        self.item, self.answer = share_bytes(self.params, self.group.size)

    def note(self) -> None:
        """Note all clusters."""
        group, at = self.group, self.at
        for cluster in range(group.count):
            rows = np.arange(group.start[cluster], group.start[cluster + 1])
            low, high = np.searchsorted(self.pair.origin, [rows[0], rows[-1] + 1])
            self.rows, self.pairs, self.cluster = rows, np.arange(low, high), cluster
            self.head = int(group.leader[cluster])
            self.collector = int(self.formation.collector[cluster])
            able = self.sharing.copy()
            tried = self.made.tried
            if self.params.protocol.shares:
                if self.answers.seeds.shape[1]:
                    times = 1 if tried is None else int(tried.seeds[at, cluster])
                    for attempt in range(times):
                        self._seeds(attempt)
                    able &= self.pair.all_into(self.answers.seeds[at][None])[0]
                times = 1 if tried is None else int(tried.shares[at, cluster])
                for attempt in range(times):
                    self._pairs("Shares", able, self.answers.shares[at], self._item(), attempt)
            if self.params.drops:
                self._agree()
            self._answers()

    def _item(self) -> int:
        return int(self.item[self.cluster])

    def _add(self, kind: str, sender: int, receiver: int, size: int, **more: Any) -> None:
        node = self.group.node
        self.recorder._add(kind, node[sender], node[receiver], size, cluster=self.head, **more)

    def _pairs(self, kind: str, sends: Any, arrived: Any, size: int, attempt: int = 0) -> None:
        for at in self.pairs:
            origin, target = self.pair.origin[at], self.pair.target[at]
            if sends[origin]:
                relayed = not self.pair.direct[at]
                more = {"arrived": arrived[at], "relayed": relayed, "attempt": attempt}
                self._add(kind, origin, target, size, **more)

    def _seeds(self, attempt: int) -> None:
        assert self.made.drawn is not None
        records = self.made.drawn[self.at, self.cluster]
        for at in self.pairs:
            origin, target = self.pair.origin[at], self.pair.target[at]
            if not self.sharing[origin]:
                continue
            place = int(origin - self.rows[0])
            data = tuple(
                int(record.seeds[attempt][place])
                for record in records
                if attempt < len(record.seeds)
            )
            self._add(
                *("Seed", origin, target, SEED_BYTES * self.params.width),
                arrived=self.answers.seeds[self.at, at],
                relayed=not self.pair.direct[at],
                broadcast=True,
                attempt=attempt,
                data=data,
            )

    def _agree(self) -> None:
        answers, at, tag = self.answers, self.at, self.params.tag_bytes
        bits = int(bitmap_bytes(len(self.rows)))
        if not self.answering[self.collector]:
            return
        for row in self.rows:
            if row != self.collector and self.answering[row]:
                came = answers.bitmaps[at, row]
                self._add("Received", row, self.collector, bits + tag, arrived=came)
        told = self._chosen()
        if not told:
            return
        for row in self.rows:
            if row != self.collector:
                more = {"arrived": answers.sets[at, row], "broadcast": True, "data": told}
                self._add("SenderSet", self.collector, row, bits, **more)
        lacks = self.pair.target[self.pairs][~answers.shares[at, self.pairs] & self._said(told)]
        echoing = np.zeros(len(self.group.node), np.bool_)
        echoing[self.rows] = answers.sets[at, self.rows] & self.answering[self.rows]
        echoing[lacks] = False
        self._pairs("Echo", echoing, answers.echoes[at], tag)

    def _said(self, told: tuple[int, ...]) -> Any:
        return np.isin(self.group.node[self.pair.origin[self.pairs]], told)

    def _chosen(self) -> tuple[int, ...]:
        """Return whose readings the collector chose, whether or not the cluster has a sum."""
        chosen = self.answers.chosen[self.at, self.rows]
        return tuple(int(node) for node in self.group.node[self.rows][chosen])

    def _answers(self) -> None:
        answers, at, formation = self.answers, self.at, self.formation
        size, leader_row = int(self.answer[self.cluster]), self.group.leader_row[self.cluster]
        alive = formation.alive
        moved = leader_row != self.collector and alive.at("answers")[self.head]
        for row in self.rows:
            if not answers.holders[at, row] or not self.answering[row]:
                continue
            if moved and row != leader_row:  # the leader had it, and died before its report
                self._add("Answer", row, leader_row, size)
            if row != self.collector:
                self._add("Answer", row, self.collector, size, arrived=answers.answered[at, row])
