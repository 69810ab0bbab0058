"""The nodes and the base station of `cmt`: ciphertexts that add up on the tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privagg import field as fields
from privagg._validate import whole
from privagg.errors import PeerError, UsageError
from privagg.protocols.sensor import channel, checks, checks_papers, sound
from privagg.protocols.sensor.base_station import BaseStation
from privagg.protocols.sensor.channel import Keyring, MaskStream
from privagg.protocols.sensor.formation import id_bytes
from privagg.protocols.sensor.messages import Hello
from privagg.protocols.sensor.messages_papers import CmtReport
from privagg.protocols.sensor.params import Params, Protocol
from privagg.protocols.sensor.states_papers import step
from privagg.protocols.sensor.tree_asked import AskedNode
from privagg.protocols.sensor.tree_node import (
    COUNT_BYTES,
    join,
    message_of,
    split,
)

__all__ = ["CmtBaseStation", "CmtNode"]


class CmtNode(AskedNode):
    """A node of ``cmt`` (Castelluccia, Mykletun and Tsudik, MobiQuitous 2005).

    Guarantee: nodes on the way learn nothing, however many collude, but who holds the base
    station's keys opens a single node's report wherever it gets it.

    Parameters
    ----------
    params : Params
        The parameters that all parties agreed on.
    keyring : Keyring
        Keys of the node.
    last_epoch : int
        The last epoch that this node has seen: it takes only later ones.
    """

    protocol = Protocol.CMT

    def __init__(self, params: Params, keyring: Keyring, *, last_epoch: int = -1) -> None:
        super().__init__(params, keyring, last_epoch=last_epoch)
        self._silent: set[int] = set()

    def encrypt(self, hello: Hello, numbers: Sequence[int], sender: int, station: int) -> None:
        """Hear the query and add this node's numbers, under its keystream with the base station.

        Parameters
        ----------
        hello : Hello
            The query.
        numbers : sequence of int
            This node's numbers.
        sender : int
            Who sent the query.
        station : int
            The base station's id.

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

        Parameters
        ----------
        report : CmtReport
            A child's report.
        child : int
            Its id.

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

        Parameters
        ----------
        parent : int
            Who gets the report.
        children : sequence of int
            Ids.

        Returns
        -------
        CmtReport

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

    Raises
    ------
    UsageError
        If an argument is not as described.
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
