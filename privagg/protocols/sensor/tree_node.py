"""What every node does on the tree: take its children's sums, add, and report to its parent."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from privagg._validate import whole
from privagg.errors import PeerError, UsageError
from privagg.protocols.sensor import channel, checks
from privagg.protocols.sensor.channel import Keyring
from privagg.protocols.sensor.messages import Message, Report, element_bytes
from privagg.protocols.sensor.params import Arithmetic, Params

__all__ = ["TreeNode"]

_Sent = TypeVar("_Sent", bound=Message)

COUNT_BYTES = 4


class TreeNode:
    """A node on the tree, or a relay that has nothing of its own.

    It reads the sums of its subtree: of whole clusters, never of a single member.

    Parameters
    ----------
    params : Params
        Of the run.
    keyring : Keyring
        The keys of this node.
    last_epoch : int
        After a restart: the last epoch in which it may have reported.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    def __init__(self, params: Params, keyring: Keyring, *, last_epoch: int = -1) -> None:
        if not isinstance(params, Params):
            raise UsageError("params", type(params).__name__, "sensor.Params")
        self._params = params
        if not isinstance(keyring, Keyring):
            raise UsageError("keyring", type(keyring).__name__, "a sensor.Keyring")
        self._keyring = keyring
        self._report_epoch = whole("last_epoch", last_epoch, -1, 2**32 - 1)
        self._reported = False
        self._children: set[int] = set()
        self._numbers: list[Any] = [0] * params.width
        self._count = 0

    @property
    def node(self) -> int:
        """Id of this node."""
        return self._keyring.node

    def begin_reports(self, epoch: int) -> None:
        """Start an epoch's sum at zero.

        Parameters
        ----------
        epoch : int
            Its number.

        Raises
        ------
        UsageError
            If the epoch is not later than the last one, or has more than 32 bits.
        """
        whole("epoch", epoch, 0, 2**32 - 1)
        if epoch <= self._report_epoch:
            raise UsageError("epoch", epoch, f"above {self._report_epoch}, the last one")
        self._report_epoch = epoch
        self._reported = False
        self._children = set()
        self._numbers = [0] * self._params.width
        self._count = 0

    def add(self, report: Report, child: int) -> None:
        """Add what a child reports.

        Parameters
        ----------
        report : Report
            A child's report.
        child : int
            Its id.

        Raises
        ------
        PeerError
            If it does not open, came before, or comes before an epoch was begun or after this
            node's own report.
        UsageError
            If no epoch is open.
        """
        message_of(Report, report)
        whole("child", child, 0, 2**32 - 1)
        if self._report_epoch < 0:
            raise PeerError(child, "report", "a report before this node began an epoch")
        if self._reported or child in self._children:
            raise PeerError(child, "report", "a second report, or one that is too late")
        key = self._key(child, "report")
        plaintext = checks.opens(
            channel.open_(
                key,
                report.sealed,
                b"",
                kind=Report.kind,
                epoch=self._report_epoch,
                sender=child,
                receiver=self.node,
                tag_bytes=self._params.tag_bytes,
            ),
            child,
            "report",
        )
        numbers = split(plaintext[:-COUNT_BYTES], self._params, child, "report")
        if self._params.arithmetic is not Arithmetic.REAL:
            checks.elements_are_canonical(numbers, child, self._params, "report")
        count = int.from_bytes(plaintext[-COUNT_BYTES:], "little")
        if self._count + count > self._params.nodes:
            raise PeerError(child, "report", f"{count} readings where there are too few nodes")
        self._children.add(child)
        self._add_own(numbers, count)

    def _add_own(self, numbers: Sequence[Any], count: int) -> None:
        if self._reported:  # a second report would be sealed under the nonce of the first
            raise UsageError("report", "already made", "a sum that is added before it")
        added = [a + b for a, b in zip(self._numbers, numbers, strict=True)]
        if self._params.arithmetic is not Arithmetic.REAL:
            added = [number % self._params.field.modulus for number in added]
        self._numbers = added
        self._count += count

    def report(self, parent: int) -> Report:
        """Report the sum of this node and its children; the same again if it was lost.

        Parameters
        ----------
        parent : int
            Who gets the report.

        Returns
        -------
        Report

        Raises
        ------
        PeerError
            If there is no key with the parent.
        UsageError
            If no epoch was begun.
        """
        if self._report_epoch < 0:
            raise UsageError("epoch", "none", "one that was begun with begin_reports()")
        self._reported = True
        plaintext = join(self._numbers, self._params) + self._count.to_bytes(COUNT_BYTES, "little")
        sealed = channel.seal(
            self._key(parent, "report"),
            plaintext,
            b"",
            kind=Report.kind,
            epoch=self._report_epoch,
            sender=self.node,
            receiver=parent,
            tag_bytes=self._params.tag_bytes,
        )
        return Report(sealed=sealed)

    def _key(self, peer: int, round: str) -> bytes:
        key = self._keyring.key(whole("node", peer, 0, 2**32 - 1))
        if key is None:
            raise PeerError(peer, round, "no key with this node")
        return key

    def __repr__(self) -> str:
        return f"{type(self).__name__}(node={self.node})"


def message_of(kind: type[_Sent], value: Any) -> _Sent:
    """Return `value` if it is a message of this kind: another is the caller's mistake.

    Raises
    ------
    UsageError
        If it is anything else.
    """
    if not isinstance(value, kind):
        raise UsageError(kind.__name__, type(value).__name__, f"sensor.messages.{kind.__name__}")
    return value


def own_numbers(numbers: Any, params: Params) -> list[int]:
    """Check what a node adds of its own.

    Raises
    ------
    UsageError
        If the numbers are not as many as `params` says, no whole numbers, or beyond their bound.
    """
    if not isinstance(numbers, Sequence | np.ndarray) or isinstance(numbers, str | bytes):
        raise UsageError("numbers", type(numbers).__name__, f"{params.width} whole numbers")
    integers = all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in numbers)
    if not integers or len(numbers) != params.width:
        raise UsageError("numbers", "others", f"{params.width} whole numbers")
    if any(abs(int(number)) > params.bound for number in numbers):
        raise UsageError("numbers", "one beyond the bound", f"within {params.bound} either way")
    return [int(number) for number in numbers]


def join(numbers: Sequence[Any], params: Params) -> bytes:
    """Write field elements, or real numbers, little-endian."""
    if params.arithmetic is Arithmetic.REAL:
        return struct.pack(f"<{len(numbers)}{'d' if params.real_bytes == 8 else 'f'}", *numbers)
    return b"".join(number.to_bytes(element_bytes(params), "little") for number in numbers)


def split(octets: bytes, params: Params, origin: int, round: str) -> list[Any]:
    """Read as many field elements as a query has; whether they are canonical is not checked here.

    Raises
    ------
    PeerError
        If they are more or fewer: a peer that holds a key can seal anything.
    """
    size = element_bytes(params)
    if len(octets) != size * params.width:
        raise PeerError(origin, round, f"{len(octets)} bytes for {params.width} numbers of {size}")
    if params.arithmetic is Arithmetic.REAL:
        real = struct.unpack(f"<{params.width}{'d' if size == 8 else 'f'}", octets)
        if not np.isfinite(real).all():
            raise PeerError(origin, round, "a number that is not finite")
        return list(real)
    return [int.from_bytes(octets[i : i + size], "little") for i in range(0, len(octets), size)]
