"""The nodes of `tag` and `smart`: protocols on the tree alone."""

from __future__ import annotations

from collections.abc import Sequence

from privagg import field as fields
from privagg.entropy import OS, Entropy
from privagg.errors import PeerError, UsageError
from privagg.protocols.sensor import channel, checks, checks_papers, faithful
from privagg.protocols.sensor.channel import Keyring
from privagg.protocols.sensor.messages import Hello
from privagg.protocols.sensor.messages_papers import Slice
from privagg.protocols.sensor.params import Params, Protocol
from privagg.protocols.sensor.states_papers import follow, step
from privagg.protocols.sensor.tree_asked import AskedNode
from privagg.protocols.sensor.tree_node import (
    join,
    message_of,
    split,
)

__all__ = ["SmartNode", "UnprotectedTagNode"]


class UnprotectedTagNode(AskedNode):
    """A node of ``tag``: **hides nothing from its parent**, which opens what it sends.

    The sums up a tree of Madden et al. (OSDI 2002), sealed hop by hop.
    """

    protocol = Protocol.TAG

    def hear(self, hello: Hello, numbers: Sequence[int], sender: int) -> None:
        """Hear the query and put this node's own numbers into its report.

        Parameters
        ----------
        hello : Hello
            The query.
        numbers : sequence of int
            This node's numbers.
        sender : int
            Who sent the query.

        Raises
        ------
        PeerError
            If the query is of an old epoch.
        UsageError
            If the numbers are not as many as `params` says, or beyond their bound.
        """
        own = self._ask(hello, numbers, sender)
        self._add_own(own, 1)


class SmartNode(AskedNode):
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

    Raises
    ------
    UsageError
        If an argument is not as described.
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

        Returns
        -------
        dict of int to Slice
            By target.

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

        Parameters
        ----------
        target : int
            Who it was for.

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

        Parameters
        ----------
        slice : Slice
            What the neighbour sent.
        origin : int
            Whose it is.

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
