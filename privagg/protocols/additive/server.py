"""The servers: helpers that add up masks, and a leader that adds up masked vectors."""

from __future__ import annotations

from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from privagg import keys, prg
from privagg._validate import whole
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols._common.order import Receipt
from privagg.protocols.additive import checks
from privagg.protocols.additive.messages import (
    Cohort,
    MaskedInput,
    MaskSum,
    Message,
    SeedHolders,
    SeedShare,
    tag_of,
)
from privagg.protocols.additive.params import SEED_BYTES, Params
from privagg.protocols.additive.states import (
    HELPER_TABLE,
    LEADER_TABLE,
    HelperState,
    LeaderState,
    following,
)

__all__ = ["Helper", "Leader"]

_M = TypeVar("_M", bound=Message)


class _Server:
    """What both kinds of servers have."""

    def __init__(self, params: Params, session: bytes) -> None:
        self._params, self._tag = params, tag_of(params, session)

    def _checked(self, message: _M, kinds: tuple[type[Message], ...], peer: str | int) -> _M:
        """Return the message as it is after it was sent: what is used, whatever was given."""
        if not isinstance(message, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            if isinstance(message, Message):
                raise PeerError(peer, message.round, f"{type(message).__name__}, not {names}")
            raise UsageError("message", type(message).__name__, f"{names}. Decode it first.")
        return message.checked(self._params, peer=peer)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a server holds parts of inputs and cannot be pickled")


class Helper(_Server):
    """A server that holds one seed of each client: 32 bytes each, and the sum of their masks.

    Parameters
    ----------
    params : Params
        What all have agreed on.
    session : bytes
        16 bytes that name the session.
    """

    def __init__(self, params: Params, session: bytes) -> None:
        super().__init__(params, session)
        self._state = HelperState.COLLECTING
        self._seeds = np.zeros((params.clients, SEED_BYTES), np.uint8)
        self._holders = np.zeros(params.clients, np.bool_)
        self._heard = b""
        self._reply: MaskSum | None = None

    @property
    def state(self) -> HelperState:
        """What it has done."""
        return self._state

    def receive(self, client: int, message: SeedShare) -> Receipt:
        """Round 0: take a client's seed.

        Parameters
        ----------
        client : int
            Its index; the transport has to know who sent the message.
        message : SeedShare
            What it sent.

        Returns
        -------
        Receipt
            Accepted, or repeated: a second one that is the same.

        Raises
        ------
        PeerError
            If it is not due, of another session, or a second one that differs: the first counts.
        UsageError
            If `client` is no index, or `message` no decoded message.
        """
        message = self._checked(message, (SeedShare, Cohort), client)
        whole("client", client, 0, self._params.clients - 1)
        following(HELPER_TABLE, self._state, message, client)
        checks.same_session(message, self._tag, client)
        seed = np.frombuffer(message.seed, np.uint8)
        if self._holders[client]:
            if np.array_equal(self._seeds[client], seed):
                return Receipt.REPEATED
            raise PeerError(client, message.round, "a second seed that differs")
        self._seeds[client], self._holders[client] = seed, True
        return Receipt.ACCEPTED

    def holders(self) -> SeedHolders:
        """Return whose seeds are there, which ends round 0: later ones are refused."""
        if self._state is HelperState.COLLECTING:
            self._state = HelperState.REPORTED
        return SeedHolders(tag=self._tag, members=self._holders.copy())

    def sum_masks(self, message: Cohort) -> MaskSum:
        """Round 2: add up the masks of the clients in the sum; for one set only.

        Parameters
        ----------
        message : Cohort
            The clients in the sum.

        Returns
        -------
        MaskSum
            For the leader; the same one again if the same message comes again.

        Raises
        ------
        PeerError
            If the message is not due, names a client without a seed, or is a second, other set.
        Abort
            If fewer than ``min_cohort`` clients are in it.
        """
        message = self._checked(message, (Cohort,), "leader")
        after = following(HELPER_TABLE, self._state, message, "leader")
        checks.same_session(message, self._tag, "leader")
        digest = keys.digest(message.encode())
        if self._reply is not None:
            checks.one_set_only(self._heard, digest, message.round)
            return self._reply
        checks.cohort_within_holders(message.members, self._holders)
        checks.cohort_is_large_enough(message.members, self._params, message.round)
        words = np.zeros(self._params.dim, np.uint64)
        seeds = np.ascontiguousarray(self._seeds[message.members])
        prg.accumulate(words, seeds, np.ones(len(seeds), np.int8), suite=prg.Suite.AES128_CTR)
        words &= np.uint64(2**self._params.bits - 1)
        self._reply = MaskSum(tag=self._tag, bits=self._params.bits, vector=words)
        self._state, self._heard = after, digest
        self._seeds = np.zeros((0, SEED_BYTES), np.uint8)
        return self._reply

    def __repr__(self) -> str:
        return f"Helper(state={self._state.value!r}, clients={int(self._holders.sum())})"


class Leader(_Server):
    """The server that learns the sum. It keeps one vector, and a digest of each message.

    Parameters
    ----------
    params : Params
        What all have agreed on.
    session : bytes
        16 bytes that name the session.
    """

    def __init__(self, params: Params, session: bytes) -> None:
        super().__init__(params, session)
        self._state = LeaderState.SEEDS
        self._holders = np.ones(params.clients, np.bool_)
        self._there = np.zeros(params.clients, np.bool_)
        self._answered = np.zeros(params.helpers, np.bool_)
        self._digests: dict[str | int, bytes] = {}
        self._total = np.zeros(params.dim, np.uint64)

    @property
    def state(self) -> LeaderState:
        """What it is waiting for."""
        return self._state

    def receive(self, peer: int, message: Message) -> Receipt:
        """Take a message of a helper or client, by its index among those.

        Parameters
        ----------
        peer : int
            The helper's or the client's index; the transport has to know who sent the message.
        message : SeedHolders, MaskSum or MaskedInput
            What it sent.

        Returns
        -------
        Receipt
            Accepted, or repeated: a second one that is the same.

        Raises
        ------
        PeerError
            If it is not due, of another session, a second one that differs, or of a client that
            was not asked.
        UsageError
            If `peer` is no index, or `message` no decoded message.
        """
        message = self._checked(message, (SeedHolders, MaskedInput, MaskSum), peer)
        client = isinstance(message, MaskedInput)
        whole("peer", peer, 0, (self._params.clients if client else self._params.helpers) - 1)
        checks.same_session(message, self._tag, peer)
        name, digest = f"{type(message).__name__} {peer}", keys.digest(message.encode())
        if name in self._digests:
            if self._digests[name] != digest:
                raise PeerError(peer, message.round, f"a second {type(message).__name__}")
            return Receipt.REPEATED
        following(LEADER_TABLE, self._state, message, peer)
        if isinstance(message, SeedHolders):
            self._holders &= message.members
            self._answered[peer] = True
        elif isinstance(message, MaskedInput):
            if not self._holders[peer]:
                raise PeerError(peer, message.round, "a masked input that was not asked for")
            self._there[peer] = True
            self._total += message.vector
        elif isinstance(message, MaskSum):
            self._answered[peer] = True
            self._total -= message.vector
        self._digests[name] = digest
        return Receipt.ACCEPTED

    def ask_inputs(self) -> SeedHolders:
        """End round 0: return what each client in the set is asked with.

        Returns
        -------
        SeedHolders
            Whose seeds all helpers have; the same again while inputs are collected.

        Raises
        ------
        Abort
            If a helper has not answered, or too few clients are left.
        UsageError
            If masks were asked for before: that round is closed.
        """
        if self._state is LeaderState.INPUTS:
            return SeedHolders(tag=self._tag, members=self._holders.copy())
        if self._state is not LeaderState.SEEDS:
            raise UsageError("ask_inputs", self._state.value, "before round sum-masks")
        self._all_helpers("share-seeds")
        checks.cohort_is_large_enough(self._holders, self._params, "share-seeds")
        self._state = LeaderState.INPUTS
        self._answered[:] = False
        return SeedHolders(tag=self._tag, members=self._holders.copy())

    def ask_masks(self) -> Cohort:
        """End round 1: return what each helper is asked with.

        Returns
        -------
        Cohort
            Whose masked vectors have arrived; the same again until the end.

        Raises
        ------
        Abort
            If too few clients have answered.
        UsageError
            If inputs were not asked for yet, or the sum is there.
        """
        if self._state not in (LeaderState.INPUTS, LeaderState.MASKS):
            raise UsageError("ask_masks", self._state.value, "between ask_inputs and result")
        checks.cohort_is_large_enough(self._there, self._params, "masked-input")
        self._state = LeaderState.MASKS
        return Cohort(tag=self._tag, members=self._there.copy())

    def result(self) -> NDArray[np.uint64]:
        """End round 2: return the sum.

        Returns
        -------
        (dim,) uint64 array
            Over the clients of :meth:`cohort`, exact.

        Raises
        ------
        Abort
            If a helper has not answered: there are no shares to get over it.
        UsageError
            If it is not the time.
        """
        if self._state not in (LeaderState.MASKS, LeaderState.DONE):
            raise UsageError("result", self._state.value, "after round sum-masks")
        self._all_helpers("sum-masks")
        self._state = LeaderState.DONE
        found: NDArray[np.uint64] = self._total & np.uint64(2**self._params.bits - 1)
        return found

    def cohort(self) -> tuple[int, ...]:
        """Return the clients in the sum."""
        return tuple(map(int, np.flatnonzero(self._there)))

    def _all_helpers(self, round: str) -> None:
        found = int(self._answered.sum())
        if found < self._params.helpers:
            raise Abort(f"round {round}: a helper has not answered", found, self._params.helpers)

    def __repr__(self) -> str:
        return f"Leader(state={self._state.value!r})"
