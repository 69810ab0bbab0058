"""Leaders of `cpda` and `cpda-sen-checked`, and the whole of `cpda-sen-efficient`: **insecure**."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from privagg._validate import whole
from privagg.entropy import OS, Entropy
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols.sensor import checks, checks_papers, faithful
from privagg.protocols.sensor.admission import Admission
from privagg.protocols.sensor.channel import Keyring
from privagg.protocols.sensor.cluster_node import ClusterNode
from privagg.protocols.sensor.insecure_member import InsecureMember
from privagg.protocols.sensor.messages import Roster
from privagg.protocols.sensor.messages_papers import (
    Assembled,
    EfficientAnswer,
    PaperRelay,
    PaperShares,
    SeededRoster,
    SeedRelay,
    read_numbers,
    share_size,
    write_numbers,
)
from privagg.protocols.sensor.params import Arithmetic, Params, Protocol
from privagg.protocols.sensor.states_papers import PAPER_TABLES, PaperState, follow
from privagg.protocols.sensor.tree_node import message_of, own_numbers

__all__ = ["InsecureEfficientLeader", "InsecureEfficientMember", "InsecureLeader"]


class _Collecting(Admission):
    """What leaders of all three keep of an epoch."""

    _concluded = -1

    def _own_numbers(self) -> list[Any]:
        raise NotImplementedError

    def _begin_collecting(self) -> None:
        self._answers: dict[int, list[Any]] = {}

    def _note_answer(self, numbers: Sequence[Any], node: int) -> None:
        whole("node", node, 0, 2**32 - 1)
        if self._concluded == self._epoch:
            raise PeerError(node, "answer", f"an answer after epoch {self._epoch} was concluded")
        if node in self._answers or node not in self._members or node == self.node:
            raise PeerError(node, "answer", "a second answer, or one from outside the roster")
        self._answers[node] = list(numbers)

    def _all_answers(self) -> dict[int, list[Any]]:
        if self._epoch < 0 or self._concluded == self._epoch:
            raise UsageError("epoch", self._epoch, "one that was begun, and not concluded yet")
        if len(self._answers) < len(self._members) - 1:
            raise Abort("too few answers", len(self._answers) + 1, len(self._members))
        return self._answers | {self.node: self._own_numbers()}

    def _conclude(self, sums: list[Any]) -> tuple[list[Any], int]:
        count = len(self._members)
        self._add_own(sums, count)
        self._concluded = self._epoch
        return sums, count


class InsecureLeader(_Collecting, InsecureMember):
    """A leader of ``cpda`` or ``cpda-sen-checked``: a member that relays, collects and solves."""

    def announce_seed(self, roster: Roster, numbers: Sequence[float], leader: int) -> Any:
        """Announce a seed; as :meth:`InsecureMember.announce_seed`. Old answers are dropped."""
        made = super().announce_seed(roster, numbers, leader)
        self._begin_collecting()
        return made

    def relay_seeds(self, origins: Sequence[int]) -> SeedRelay:
        """Return the seeds of members that some other does not hear, as far as they are known.

        Parameters
        ----------
        origins : sequence of int
            Ids of members.

        Raises
        ------
        UsageError
            If one is not in the roster.
        """
        if not isinstance(origins, Sequence):
            raise UsageError("origins", type(origins).__name__, "a sequence of members")
        for node in origins:
            if node not in self._members:
                raise UsageError("origins", node, "members of the roster")
        said = [node for node in self._members if node in origins and node in self._seeds]
        flags = tuple(node in said for node in self._members)
        return SeedRelay(origins=flags, seeds=tuple(self._seeds[node] for node in said))

    def relay(self, bundle: PaperShares, origin: int, targets: list[int]) -> PaperRelay:
        """Return what is sent on of a bundle: the items of `targets`, which are out of range.

        Parameters
        ----------
        bundle : PaperShares
            What the origin sent.
        origin : int
            Whose it is.
        targets : list of int
            Ids of members.

        Raises
        ------
        PeerError
            If the origin is not in the roster, or its bundle has not an item for each other member.
        UsageError
            If a target is not in the roster, or is the origin.
        """
        message_of(PaperShares, bundle)
        place, items = self._items_for(bundle.items, origin, targets, bundle.round)
        return PaperRelay(position=place, items=items)

    def collect(self, answer: Assembled, node: int) -> None:
        """Take what a member holds.

        Parameters
        ----------
        answer : Assembled
            What the member sent.
        node : int
            Its id.

        Raises
        ------
        PeerError
            If it came before, after the epoch was concluded, or has another number of numbers.
        """
        message_of(Assembled, answer)
        if len(answer.numbers) != self._params.width:
            raise PeerError(node, "answer", f"{len(answer.numbers)} numbers")
        self._note_answer(answer.numbers, node)

    def _own_numbers(self) -> list[Any]:
        return self._answer_numbers()

    def conclude(self) -> tuple[list[Any], int]:
        """Solve for the cluster's sums, add them to the report, return them with the count.

        Returns
        -------
        tuple of list and int
            A sum for each number, and how many readings are in it.

        Raises
        ------
        Abort
            If answers are missing, or a real sum is no number.
        UsageError
            If this epoch was concluded, or reported, before.
        PeerError
            If the answers are of no polynomials over the integers.
        """
        answers = self._all_answers()
        real = self._params.arithmetic is Arithmetic.REAL
        kind = np.float64 if real else object
        sums: list[Any] = []
        for column in range(self._params.width):
            assembled = np.array([answers[node][column] for node in self._members], kind)
            seeds = np.array([self._seeds[node][column] for node in self._members], kind)
            with np.errstate(over="ignore", invalid="ignore"):
                total = faithful.lagrange_sum(assembled[None], seeds[None])[0]
            sums.append(float(total) if real else int(total))
        if real and not np.isfinite(sums).all():
            raise Abort("a sum that overflowed", 0, len(self._members))
        if not real:
            most = len(self._members) * self._params.bound
            if any(abs(total) > most for total in sums):
                raise PeerError(self.node, "answer", "answers that give a sum beyond the bound")
        made = self._conclude(sums)
        self._state = PaperState.ANSWERED
        return made


class InsecureEfficientMember(ClusterNode):
    """A member of ``cpda-sen-efficient``. **Insecure by design**: its leader decodes its reading.

    Guarantee: none against the leader. J. Sen and S. Maitra, NordSec 2011, the first change.

    Parameters
    ----------
    params, keyring, entropy, last_epoch
        As for :class:`ClusterNode`.
    allow_insecure : bool
        Has to be True.
    """

    protocols: ClassVar[tuple[Protocol, ...]] = (Protocol.CPDA_SEN_EFFICIENT,)

    def __init__(
        self,
        params: Params,
        keyring: Keyring,
        *,
        allow_insecure: bool = False,
        entropy: Entropy = OS,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(params, keyring, entropy=entropy, last_epoch=last_epoch)
        checks_papers.insecurity_is_accepted(allow_insecure, params)
        self._table = PAPER_TABLES[params.protocol]
        self._state = PaperState.IDLE
        self._share: list[int] = []

    @property
    def state(self) -> PaperState:
        """What this member has done in the epoch."""
        return self._state

    def answer(self, roster: SeededRoster, numbers: Sequence[int], leader: int) -> EfficientAnswer:
        """Check the roster and send the leader its share at the leader's seed.

        Raises
        ------
        PeerError
            As :meth:`Member.share`; or the seed is not the one that separates the digits.
        UsageError
            If the numbers do not fit `params`.
        """
        message_of(SeededRoster, roster)
        self._prepare(roster, numbers, leader)
        params, m = self._params, len(self._members)
        octets = (share_size(params, m) - params.tag_bytes) // params.width
        written = write_numbers(self._share, params, octets)
        return EfficientAnswer(sealed=self._seal(EfficientAnswer, leader, written, self._digest))

    def _prepare(self, roster: SeededRoster, numbers: Sequence[int], leader: int) -> None:
        params = self._params
        following = follow(self._table, self._state, SeededRoster, leader)
        plain = Roster(epoch=roster.epoch, members=roster.members, id_size=roster.id_size)
        self._check_roster(plain, leader)
        m = len(roster.members)
        seed = faithful.efficient_seed(params, m)
        if roster.exponent != seed.bit_length() - 1:
            raise PeerError(leader, "roster", "a seed that does not separate the digits")
        values = own_numbers(numbers, params)
        self._enter(plain, leader)
        shifted = np.array([value + params.bound for value in values], object)
        shape = (params.width, m - 1)
        drawn = faithful.below(self._entropy, params.coefficient_max + 1, shape)
        shares = faithful.share(shifted, drawn, np.array([seed], object))
        self._share = [int(value) for value in shares[:, 0]]
        self._state = following


class InsecureEfficientLeader(_Collecting, InsecureEfficientMember):
    """A leader of ``cpda-sen-efficient``: reads the sum off its digits, as it could each share."""

    def seeded_roster(self, epoch: int) -> SeededRoster:
        """Return the roster with the seed; as :meth:`Admission.roster`."""
        plain = self.roster(epoch)
        seed = faithful.efficient_seed(self._params, len(plain.members))
        return SeededRoster(
            epoch=epoch,
            members=plain.members,
            id_size=plain.id_size,
            exponent=seed.bit_length() - 1,
        )

    def begin(self, roster: SeededRoster, numbers: Sequence[int]) -> None:
        """Make this leader's own share; as :meth:`InsecureEfficientMember.answer`."""
        message_of(SeededRoster, roster)
        self._prepare(roster, numbers, self.node)
        self._begin_collecting()

    def collect(self, answer: EfficientAnswer, node: int) -> None:
        """Take a member's share.

        Parameters
        ----------
        answer : EfficientAnswer
            What the member sent.
        node : int
            Its id.

        Raises
        ------
        PeerError
            If it does not open, came before, or after the epoch was concluded.
        """
        message_of(EfficientAnswer, answer)
        opened = checks.opens(
            self._unseal(EfficientAnswer, node, answer.sealed, self._digest), node, "answer"
        )
        params, m = self._params, len(self._members)
        octets = (share_size(params, m) - params.tag_bytes) // params.width
        if len(opened) != octets * params.width:
            raise PeerError(node, "answer", f"{len(opened)} bytes for {params.width} numbers")
        self._note_answer(read_numbers(opened, params, octets), node)

    def _own_numbers(self) -> list[Any]:
        return self._share

    def conclude(self) -> tuple[list[int], int]:
        """Read the sums off the digits, add them to the report, return them with the count.

        Raises
        ------
        Abort
            If answers are missing.
        UsageError
            If this epoch was concluded, or reported, before.
        """
        answers, m = self._all_answers(), len(self._members)
        seed = faithful.efficient_seed(self._params, m)
        totals = [sum(column) for column in zip(*answers.values(), strict=True)]
        return self._conclude([total % seed - m * self._params.bound for total in totals])
