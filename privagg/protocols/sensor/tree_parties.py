"""The nodes of `tag`, `smart` and `cmt`: protocols on the tree alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from privagg import field as fields
from privagg._validate import whole
from privagg.entropy import OS, Entropy
from privagg.errors import PeerError, UsageError
from privagg.protocols.sensor import channel, checks, checks_papers, faithful, sound
from privagg.protocols.sensor.base_station import BaseStation
from privagg.protocols.sensor.channel import Keyring, MaskStream
from privagg.protocols.sensor.formation import id_bytes
from privagg.protocols.sensor.messages import Hello, Message, Report
from privagg.protocols.sensor.messages_papers import CmtReport, Slice
from privagg.protocols.sensor.params import Params, Protocol
from privagg.protocols.sensor.states_papers import PAPER_TABLES, PaperState, follow, step
from privagg.protocols.sensor.tree_node import (
    COUNT_BYTES,
    TreeNode,
    join,
    message_of,
    own_numbers,
    split,
)

__all__ = ["CmtBaseStation", "CmtNode", "SmartNode", "UnprotectedTagNode"]


class _AskedNode(TreeNode):
    """A node that answers the query with its own numbers; the order is a table."""

    protocol: ClassVar[Protocol]

    def __init__(self, params: Params, keyring: Keyring, *, last_epoch: int = -1) -> None:
        super().__init__(params, keyring, last_epoch=last_epoch)
        if params.protocol is not self.protocol:
            raise UsageError("protocol", str(params.protocol), str(self.protocol))
        self._table = PAPER_TABLES[self.protocol]
        self._state = PaperState.IDLE

    @property
    def state(self) -> PaperState:
        """What this node has done in the epoch."""
        return self._state

    def _ask(self, hello: Hello, numbers: Sequence[int], sender: int) -> list[int]:
        """Begin the epoch of a query; return the numbers, checked."""
        message_of(Hello, hello)
        following = follow(self._table, self._state, Hello, sender)
        checks_papers.query_is_new(hello.epoch, self._report_epoch, sender)
        own = own_numbers(numbers, self._params)
        self.begin_reports(hello.epoch)
        self._state = following
        return own

    def _expect(self, kind: type[Message], peer: int) -> None:
        self._state = follow(self._table, self._state, kind, peer)

    def add(self, report: Report, child: int) -> None:
        """Add what a child reports; as :meth:`TreeNode.add`, and refused out of order."""
        message_of(Report, report)
        self._expect(Report, child)
        super().add(report, child)

    def report(self, parent: int) -> Report:
        """Report to the parent; as :meth:`TreeNode.report`."""
        following = step(self._table, self._state, "report")
        made = super().report(parent)
        self._state = following
        return made

    def _elements(self, numbers: Sequence[int]) -> Any:
        return sound.lower(np.array(numbers, np.int64), self._params.field)


class UnprotectedTagNode(_AskedNode):
    """A node of ``tag``: **hides nothing from its parent**, which opens what it sends.

    The sums up a tree of Madden et al. (OSDI 2002), sealed hop by hop.
    """

    protocol = Protocol.TAG

    def hear(self, hello: Hello, numbers: Sequence[int], sender: int) -> None:
        """Hear the query and put this node's own numbers into its report.

        Raises
        ------
        PeerError
            If the query is of an old epoch.
        UsageError
            If the numbers are not as many as `params` says, or beyond their bound.
        """
        own = self._ask(hello, numbers, sender)
        self._add_own(own, 1)


class SmartNode(_AskedNode):
    """A node of ``smart`` (He et al., INFOCOM 2007): slices to neighbours, the sum up the tree.

    Guarantee: with uniform slices, its parent and all but one of the neighbours that hold its
    slices learn sums only. With `plain_slices`, as in the paper, **insecure**: a slice within the
    bound says something of the reading.

    Parameters
    ----------
    params, keyring, last_epoch
        As for :class:`TreeNode`.
    entropy : Entropy
        Of the slices.
    """

    protocol = Protocol.SMART

    def __init__(
        self, params: Params, keyring: Keyring, *, entropy: Entropy = OS, last_epoch: int = -1
    ) -> None:
        super().__init__(params, keyring, last_epoch=last_epoch)
        if not isinstance(entropy, Entropy):
            raise UsageError("entropy", type(entropy).__name__, "an entropy.Entropy")
        self._entropy = entropy
        self._out: dict[int, list[int]] = {}
        self._from: set[int] = set()
        self._inside = False

    def cut(
        self, hello: Hello, numbers: Sequence[int], targets: Sequence[int], sender: int
    ) -> dict[int, Slice]:
        """Hear the query, cut this node's numbers, and return a slice for each target.

        Parameters
        ----------
        hello : Hello
            The query.
        numbers : sequence of int
            What this node adds, signed.
        targets : sequence of int
            Up to J - 1 neighbours. Without any this node stays outside: alone it would send its
            reading to its parent.
        sender : int
            Who forwarded the query.

        Raises
        ------
        PeerError
            If the query is of an old epoch, or there is no key with a target.
        UsageError
            If the numbers or targets do not fit `params`.
        """
        checks_papers.targets_are_other_nodes(targets, self.node, self._params)
        ring = {target: self._key(target, Slice.round) for target in targets}
        kept = self._ask(hello, numbers, sender)
        self._out, self._from, self._inside = {}, set(), bool(targets)
        if not targets:
            return {}
        p = self._params.field.modulus
        slices = {}
        for target, key in ring.items():
            part = self._draw()
            self._out[target] = part
            kept = [(a - b) % p for a, b in zip(kept, part, strict=True)]
            sealed = channel.seal(
                key,
                join(part, self._params),
                b"",
                kind=Slice.kind,
                epoch=self._report_epoch,
                sender=self.node,
                receiver=target,
                tag_bytes=self._params.tag_bytes,
            )
            slices[target] = Slice(sealed=sealed)
        self._add_own(kept, 1)
        return slices

    def _draw(self) -> list[int]:
        params = self._params
        if params.plain_slices:
            drawn = faithful.below(self._entropy, 2 * params.bound + 1, (params.width,))
            return [(int(v) - params.bound) % params.field.modulus for v in drawn]
        return [int(v) for v in fields.uniform(self._entropy, (params.width,), params.field)]

    def keep(self, target: int) -> None:
        """Keep a plain slice that its target did not acknowledge: it goes into the own report.

        A uniform one is not taken back: with fewer out, fewer neighbours and the parent would have
        the reading, and with none the parent alone. The sum of the epoch is lost instead.

        Raises
        ------
        UsageError
            If there is no such slice, it is too late, or slices are uniform.
        """
        following = step(self._table, self._state, "keep")
        if not self._params.plain_slices:
            raise UsageError("plain_slices", False, "True: a uniform slice is not taken back")
        if target not in self._out:
            raise UsageError("target", target, "one with a slice that is not kept yet")
        self._add_own(self._out.pop(target), 0)
        self._state = following

    def receive(self, slice: Slice, origin: int) -> None:
        """Take a neighbour's slice.

        Raises
        ------
        PeerError
            If it came before, does not open, is no field element, or this node stays outside: its
            report would be the slice.
        """
        message_of(Slice, slice)
        following = follow(self._table, self._state, Slice, origin)
        if not self._inside:
            raise PeerError(origin, Slice.round, "a slice for a node that gives none")
        if origin in self._from:
            raise PeerError(origin, Slice.round, "a second slice in one epoch")
        plaintext = checks.opens(
            channel.open_(
                self._key(origin, Slice.round),
                slice.sealed,
                b"",
                kind=Slice.kind,
                epoch=self._report_epoch,
                sender=origin,
                receiver=self.node,
                tag_bytes=self._params.tag_bytes,
            ),
            origin,
            Slice.round,
        )
        numbers = split(plaintext, self._params, origin, Slice.round)
        checks.elements_are_canonical(numbers, origin, self._params, Slice.round)
        self._from.add(origin)
        self._add_own(numbers, 0)
        self._state = following


class CmtNode(_AskedNode):
    """A node of ``cmt`` (Castelluccia, Mykletun and Tsudik, MobiQuitous 2005).

    Guarantee: nodes on the way learn nothing, however many collude, but who holds the base
    station's keys opens a single node's report wherever it gets it.
    """

    protocol = Protocol.CMT

    def __init__(self, params: Params, keyring: Keyring, *, last_epoch: int = -1) -> None:
        super().__init__(params, keyring, last_epoch=last_epoch)
        self._silent: set[int] = set()

    def encrypt(self, hello: Hello, numbers: Sequence[int], sender: int, station: int) -> None:
        """Hear the query and add this node's numbers, under its keystream with the base station.

        Raises
        ------
        PeerError
            If the query is of an old epoch, or there is no key with the base station.
        UsageError
            If the numbers do not fit `params`.
        """
        key = self._key(station, Hello.round)
        own = self._ask(hello, numbers, sender)
        self._silent = set()
        stream = _keystream(key, hello.epoch, self._params)
        hidden = fields.add(self._elements(own), stream, self._params.field)
        self._add_own([int(v) for v in hidden], 1)

    def add_ciphertexts(self, report: CmtReport, child: int) -> None:
        """Add a child's ciphertexts, and take over its list of the silent.

        Raises
        ------
        PeerError
            If it does not open, came before or too late, or lists what are no nodes.
        """
        self._expect(CmtReport, child)
        _take(self, report, child, self._silent)

    def report_ciphertexts(self, parent: int, children: Sequence[int]) -> CmtReport:
        """Report; `children` are those that this node has on the tree, silent or not.

        The same again if it was lost, with the list of the first time: another would be sealed
        under the same nonce.

        Raises
        ------
        PeerError
            If there is no key with the parent.
        UsageError
            If the children are no nodes, or it is too early.
        """
        following = step(self._table, self._state, "report")
        if not isinstance(children, Sequence) or isinstance(children, str | bytes):
            raise UsageError("children", type(children).__name__, "a sequence of nodes")
        for child in children:
            whole("children", child, 0, self._params.nodes - 1)
        if not self._reported:
            self._silent |= set(children) - self._children
        self._reported = True
        ids = id_bytes(self._params.nodes)
        plaintext = join(self._numbers, self._params) + self._count.to_bytes(COUNT_BYTES, "little")
        plaintext += b"".join(node.to_bytes(ids, "little") for node in sorted(self._silent))
        sealed = channel.seal(
            self._key(parent, CmtReport.round),
            plaintext,
            b"",
            kind=CmtReport.kind,
            epoch=self._report_epoch,
            sender=self.node,
            receiver=parent,
            tag_bytes=self._params.tag_bytes,
        )
        self._state = following
        return CmtReport(sealed=sealed)


class CmtBaseStation(BaseStation):
    """The base station of ``cmt``: it takes off the keystreams of all that answered.

    Parameters
    ----------
    params, keyring
        As for :class:`TreeNode`; it needs a key with every node.
    parents : mapping of int to int
        The tree: of every node on it, its parent.
    """

    def __init__(self, params: Params, keyring: Keyring, parents: Mapping[int, int]) -> None:
        super().__init__(params, keyring)
        if params.protocol is not Protocol.CMT:
            raise UsageError("protocol", str(params.protocol), str(Protocol.CMT))
        if not isinstance(parents, Mapping):
            raise UsageError("parents", type(parents).__name__, "a mapping of nodes to parents")
        self._parents = dict(parents)
        self._silent: set[int] = set()

    def query(self, epoch: int) -> Hello:
        """Begin an epoch and return the query to flood."""
        self._silent = set()
        return super().query(epoch)

    def add_ciphertexts(self, report: CmtReport, child: int) -> None:
        """Add a child's ciphertexts; as :meth:`CmtNode.add_ciphertexts`."""
        _take(self, report, child, self._silent)

    def responders(self) -> list[int]:
        """Return who answered: all on the tree but the silent and what is below them."""
        top = {n for n, parent in self._parents.items() if parent == self.node}
        silent = self._silent | (top - self._children)
        answered = []
        for node in sorted(self._parents):
            at, steps = node, 0
            while at in self._parents and at not in silent and steps <= len(self._parents):
                at, steps = self._parents[at], steps + 1
            if at == self.node:
                answered.append(node)
        return answered

    def total(self) -> tuple[list[int], int]:
        """Return the sums, signed, and how many readings are in them.

        Raises
        ------
        PeerError
            If the lists of the silent do not leave as many as the reports count.
        Abort
            If the sums are none of so many readings: a list was wrong.
        """
        params = self._params
        answered = self.responders()
        checks_papers.responders_are_as_many_as_counted(len(answered), self._count, self.node)
        cleared = fields.elements(self._numbers, params.field)
        for node in answered:
            stream = _keystream(self._key(node, "report"), self._report_epoch, params)
            cleared = fields.sub(cleared, stream, params.field)
        sums = [int(value) for value in sound.lift(cleared, params.field)]
        checks_papers.readings_are_in_range(sums, self._count, params)
        return sums, self._count


def _keystream(key: bytes, epoch: int, params: Params) -> Any:
    stream = MaskStream(key, epoch, b"privagg sensor cmt 1")
    return fields.uniform(stream, (params.width,), params.field)


def _take(node: CmtNode | CmtBaseStation, report: CmtReport, child: int, silent: set[int]) -> None:
    message_of(CmtReport, report)
    whole("child", child, 0, 2**32 - 1)
    params = node._params
    if node._report_epoch < 0:
        raise PeerError(child, CmtReport.round, "a report before this node began an epoch")
    if node._reported or child in node._children:
        raise PeerError(child, CmtReport.round, "a second report, or one that is too late")
    plaintext = checks.opens(
        channel.open_(
            node._key(child, CmtReport.round),
            report.sealed,
            b"",
            kind=CmtReport.kind,
            epoch=node._report_epoch,
            sender=child,
            receiver=node.node,
            tag_bytes=params.tag_bytes,
        ),
        child,
        CmtReport.round,
    )
    ids = id_bytes(params.nodes)
    head = len(join(node._numbers, params))
    if (len(plaintext) - head - COUNT_BYTES) % ids or len(plaintext) < head + COUNT_BYTES:
        raise PeerError(child, CmtReport.round, "a report of another length")
    numbers = split(plaintext[:head], params, child, CmtReport.round)
    checks.elements_are_canonical(numbers, child, params, CmtReport.round)
    count = int.from_bytes(plaintext[head : head + COUNT_BYTES], "little")
    if node._count + count > params.nodes:
        raise PeerError(child, "report", f"{count} readings where there are too few nodes")
    rest = plaintext[head + COUNT_BYTES :]
    listed = [int.from_bytes(rest[at : at + ids], "little") for at in range(0, len(rest), ids)]
    checks_papers.silent_nodes_are_below(listed, params, child)
    silent.update(listed)
    node._children.add(child)
    node._add_own(numbers, count)
