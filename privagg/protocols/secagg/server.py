"""The server: collects each round, relays, and unmasks the sum. No I/O.

Bonawitz et al., CCS 2017, figure 4, and Bell et al., CCS 2020. Per round it takes the clients'
messages by :meth:`Server.receive`, in any order and repeated at will; :meth:`Server.close` ends the
round with whoever has answered, and :meth:`Server.message_for` gives what each client gets next.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from privagg import keys, sharing
from privagg.encoding import Aggregate
from privagg.entropy import OS, Entropy
from privagg.errors import Abort, PeerError, PrivaggError, UsageError
from privagg.protocols.secagg import derivations, messages
from privagg.protocols.secagg.messages import (
    AdvertiseKeys,
    KeyRoster,
    MaskedInput,
    Message,
    ShareBundle,
    ShareKeys,
    Start,
    SurvivorSet,
    UnmaskShares,
)
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.states import ROUNDS, SERVER_TABLE, Phase
from privagg.protocols.secagg.thresholds import Graph
from privagg.protocols.secagg.topology import Topology
from privagg.protocols.secagg.unmask import Unmasker

__all__ = ["Receipt", "Server"]


class Receipt(Enum):
    """What became of a message."""

    ACCEPTED = "accepted"
    REPEATED = "repeated: the first one counts"
    LATE = "late: its round is closed, it was not looked at"


class Server:
    """The server of one round.

    It learns the sum over the survivors, who took part, and when; no input. It is trusted to follow
    the protocol (``params.threat``): what clients check of it is in
    :mod:`privagg.protocols.secagg.checks`. Memory: one accumulator of the vector's length, and
    arrays of O(edges) for keys, ciphertexts and shares; never a vector per client.

    Parameters
    ----------
    params : Params
        Agreed parameters of the round.
    session : bytes, optional
        16 bytes that name the session; drawn from `entropy` if left out.
    round_number : int
        Number of the round within the session.
    entropy : Entropy
        Source of the session and of the sparse graph.
    workers : int
        Threads for unmasking. It changes speed only.
    """

    def __init__(
        self,
        params: Params,
        *,
        session: bytes | None = None,
        round_number: int = 0,
        entropy: Entropy = OS,
        workers: int = 1,
    ) -> None:
        if not isinstance(params, Params):
            raise UsageError("params", type(params).__name__, "secagg.Params")
        if not isinstance(entropy, Entropy):
            raise UsageError("entropy", type(entropy).__name__, "an Entropy, such as entropy.OS")
        if session is None:
            session = entropy.take(16)
        if not isinstance(session, bytes) or len(session) != 16:
            raise UsageError("session", type(session).__name__, "16 bytes")
        if isinstance(round_number, bool) or not isinstance(round_number, int):
            raise UsageError("round_number", round_number, "an integer from 0 to 2**32 - 1")
        if not 0 <= round_number < 2**32:
            raise UsageError("round_number", round_number, "0 to 2**32 - 1")
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            raise UsageError("workers", workers, "a whole number from 1")
        self._params = params
        self._session = session
        self._round_number = round_number
        self._workers = workers
        self._context = derivations.context(params, session, round_number)
        clients, slots = params.clients, params.neighbours
        self._topology = Topology(params, entropy)
        self._phase = Phase.ADVERTISE_KEYS
        self._here = {phase: np.zeros(clients, np.bool_) for phase in SERVER_TABLE.values()}
        self._seen_keys: set[bytes] = set()
        self._keys = np.zeros((clients, 64), np.uint8)
        self._commitments = np.zeros((clients, 32), np.uint8)
        self._ciphertexts = np.zeros((clients, slots, messages.CIPHERTEXT_BYTES), np.uint8)
        self._accumulator: NDArray[Any] = np.zeros(params.length, params.word)
        self._shares = np.zeros((0, 0, sharing.LIMBS), np.uint64)
        self._own_shares = np.zeros((0, sharing.LIMBS), np.uint64)
        self._roster = b""
        self._broadcast: KeyRoster | None = None
        self._aggregate: Aggregate | None = None

    @property
    def phase(self) -> Phase:
        """The round being collected."""
        return self._phase

    @property
    def params(self) -> Params:
        """The round's parameters."""
        return self._params

    @property
    def session(self) -> bytes:
        """The 16 bytes that name the session."""
        return self._session

    def alive(self) -> NDArray[np.uint32]:
        """Return the clients that the round being collected expects an answer from, ascending."""
        return np.flatnonzero(self._expected()).astype(np.uint32)

    def survivors(self) -> dict[str, tuple[int, ...]]:
        """Return, per closed round, the clients that answered it (U1, U2, U3 and U5)."""
        return {
            ROUNDS[phase.value]: tuple(map(int, np.flatnonzero(here)))
            for phase, here in self._here.items()
            if phase.value < self._phase.value
        }

    def start(self, client: int) -> Start:
        """Return the invitation of a client, by its index."""
        self._topology.check_index(client)
        return Start(
            tag=self._tag,
            session=self._session,
            round_number=self._round_number,
            client=client,
            params_digest=self._params.digest(),
        )

    def receive(self, sender: int, message: Message) -> Receipt:
        """Take a client's message.

        Parameters
        ----------
        sender : int
            Who sent it, as the transport authenticated it.
        message : Message
            A decoded message.

        Returns
        -------
        Receipt
            Whether it counts: a repeated or late one does not, and is no one's fault.

        Raises
        ------
        PeerError
            If the sender is not expected to send this, or what it sent is malformed.
        """
        due = SERVER_TABLE.get(type(message))
        if due is None:
            raise UsageError(
                "message", type(message).__name__, "a client's message, decoded", "Decode it first."
            )
        if isinstance(sender, bool) or not isinstance(sender, int | np.integer):
            raise UsageError("sender", sender, "a client's index")
        sender = int(sender)
        round = message.round
        if not 0 <= sender < self._params.clients:
            raise PeerError(sender, round, f"there are only {self._params.clients} clients")
        if message.tag != self._tag:
            raise PeerError(
                sender, round, "the message is of another session, round or configuration"
            )
        if self._here[due][sender]:
            return Receipt.REPEATED
        if due.value < self._phase.value:
            return Receipt.LATE
        if due is not self._phase:
            raise PeerError(
                sender,
                round,
                f"{type(message).__name__} while {self._round_name} is being collected",
            )
        if not self._expected()[sender]:
            raise PeerError(sender, round, "this client left in an earlier round")
        if isinstance(message, AdvertiseKeys):
            self._take_keys(sender, message)
        elif isinstance(message, ShareKeys):
            self._take_ciphertexts(sender, message)
        elif isinstance(message, MaskedInput):
            self._accumulator += message.vector
        elif isinstance(message, UnmaskShares):
            self._take_shares(sender, message)
        self._here[due][sender] = True
        return Receipt.ACCEPTED

    def close(self) -> Phase:
        """End the round being collected with those who answered, and go to the next.

        Returns
        -------
        Phase
            What is collected now; after unmasking ``Phase.DONE``: :meth:`result` is ready.

        Raises
        ------
        Abort
            If too few are left to go on. No share that would reveal anything has been asked for.
        PeerError
            If shares do not open a client's commitment or rebuild its advertised key, or no inputs
            have this sum.
        UsageError
            If all weights are zero, so that there is no mean. The round is over then, too.
        """
        if self._phase in (Phase.DONE, Phase.ABORTED):
            raise UsageError("close", f"a server that is {self._phase.name.lower()}", "an open one")
        try:
            self._check_survivors()
            if self._phase is Phase.ADVERTISE_KEYS:
                self._phase = Phase.SHARE_KEYS
                self._fix_roster()
            elif self._phase is Phase.SHARE_KEYS:
                self._phase = Phase.MASKED_INPUT
            elif self._phase is Phase.MASKED_INPUT:
                self._phase = Phase.UNMASKING
                self._ciphertexts = self._ciphertexts[:0]
                clients, slots = self._params.clients, self._params.neighbours
                self._shares = np.zeros((clients, slots, sharing.LIMBS), np.uint64)
                self._own_shares = np.zeros((clients, sharing.LIMBS), np.uint64)
            else:
                self._unmask()
                self._phase = Phase.DONE
        except PrivaggError:
            self._phase = Phase.ABORTED
            self._accumulator = self._accumulator[:0]
            raise
        return self._phase

    def message_for(self, client: int) -> KeyRoster | ShareBundle | SurvivorSet:
        """Return what `client` gets in the round being collected.

        Raises
        ------
        UsageError
            If the client left in an earlier round, or nothing is due.
        """
        self._topology.check_index(client)
        if not self._expected()[client]:
            raise UsageError("client", client, "a client of the round before", "It has left.")
        if self._phase is Phase.SHARE_KEYS:
            return self._key_roster(client)
        if self._phase is Phase.MASKED_INPUT:
            return self._share_bundle(client)
        if self._phase is Phase.UNMASKING:
            here = self._here[Phase.MASKED_INPUT]
            flags = here[self._members(client)]
            return SurvivorSet(tag=self._tag, cohort=int(here.sum()), survivors=flags)
        raise UsageError("message_for", self._round_name, "a round in which the server speaks")

    def result(self) -> Aggregate:
        """Return the aggregate over the survivors of the masked-input round.

        Raises
        ------
        UsageError
            If the round is not over.
        """
        if self._aggregate is None:
            raise UsageError("result", self._round_name, "a round that is done", "Close it first.")
        return self._aggregate

    def __repr__(self) -> str:
        return f"Server(round={self._round_name!r}, clients={self._params.clients})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a server's state is of one round and cannot be pickled")

    @property
    def _tag(self) -> bytes:
        return self._context[: messages.TAG_BYTES]

    @property
    def _round_name(self) -> str:
        return ROUNDS[self._phase.value] if self._phase.value < 5 else self._phase.name.lower()

    def _expected(self) -> NDArray[np.bool_]:
        """Return whose answer counts now: at first everyone's, then that of the round before."""
        earlier = {
            Phase.SHARE_KEYS: Phase.ADVERTISE_KEYS,
            Phase.MASKED_INPUT: Phase.SHARE_KEYS,
            Phase.UNMASKING: Phase.MASKED_INPUT,
        }.get(self._phase)
        if earlier is None:
            open_now = self._phase is Phase.ADVERTISE_KEYS
            return np.full(self._params.clients, open_now, np.bool_)
        return self._here[earlier]

    def _members(self, client: int) -> NDArray[np.uint32]:
        """Return the roster that `client` was shown: U1, or its neighbours in U1."""
        present = self._here[Phase.ADVERTISE_KEYS]
        if self._params.graph is Graph.COMPLETE:
            return np.flatnonzero(present).astype(np.uint32)
        row = self._topology.row(client)
        return row[present[row]]

    def _check_survivors(self) -> None:
        """Abort unless enough are left: the cohort, and t holders for each secret that matters.

        In the sparse graph a secret matters if the sum needs it: the self mask of each survivor,
        and the mask key of each client that left after sharing and has a neighbour in the sum.
        """
        params, here = self._params, self._here[self._phase]
        alive, name = int(here.sum()), self._round_name
        floor = max(params.min_cohort, params.threshold)
        if self._phase is Phase.UNMASKING:
            floor = params.threshold  # the cohort of the sum was fixed in the round before
        if params.graph is Graph.COMPLETE or alive < floor:
            if alive < floor:
                raise Abort(f"round {name}: too few clients answered", alive, floor)
            return
        holders = self._topology.count(here)
        needed = here.copy()
        if self._phase in (Phase.MASKED_INPUT, Phase.UNMASKING):
            in_sum = self._here[Phase.MASKED_INPUT]
            shared = self._here[Phase.SHARE_KEYS]
            needed = in_sum | (shared & (self._topology.count(in_sum) > 0))
        short = needed & (holders < params.threshold)
        if short.any():
            worst = int(np.flatnonzero(short)[np.argmin(holders[short])])
            raise Abort(
                f"round {name}: too few neighbours of client {worst} answered",
                int(holders[worst]),
                params.threshold,
            )

    def _fix_roster(self) -> None:
        members = np.flatnonzero(self._here[Phase.ADVERTISE_KEYS]).astype(np.uint32)
        rows = self._keys[members]
        if self._params.graph is Graph.SPARSE:
            self._roster = derivations.roster_root(self._context, members.tolist(), rows)
            return
        self._roster = derivations.roster_digest(self._context, members, rows)
        self._broadcast = KeyRoster(
            tag=self._tag,
            cohort=len(members),
            members=members,
            keys=rows,
            universe=self._params.clients,
        )

    def _key_roster(self, client: int) -> KeyRoster:
        if self._broadcast is not None:
            return self._broadcast
        members = self._members(client)
        return KeyRoster(
            tag=self._tag,
            cohort=int(self._here[Phase.ADVERTISE_KEYS].sum()),
            members=members,
            keys=self._keys[members],
            universe=0,
            digest=self._roster,
        )

    def _share_bundle(self, client: int) -> ShareBundle:
        shared = self._here[Phase.SHARE_KEYS]
        row, slots = self._topology.row(client), self._topology.slots(client)
        senders = shared[row]
        members = self._members(client)
        return ShareBundle(
            tag=self._tag,
            cohort=int(shared.sum()),
            present=shared[members] & (members != client),
            ciphertexts=self._ciphertexts[row[senders], slots[senders]],
        )

    def _take_keys(self, sender: int, message: AdvertiseKeys) -> None:
        """Refuse keys that would make every other client leave: one client must not end a round."""
        pair = (message.cipher_key, message.mask_key)
        rows = np.frombuffer(b"".join(pair), np.uint8)
        if not keys.canonical_points(rows.reshape(2, -1)).all() or any(
            map(keys.is_low_order, pair)
        ):
            raise PeerError(
                sender, message.round, "a public key of low order or not canonically encoded"
            )
        if pair[0] == pair[1] or not self._seen_keys.isdisjoint(pair):
            raise PeerError(sender, message.round, "a public key that was advertised already")
        self._seen_keys.update(pair)
        self._keys[sender] = rows

    def _take_ciphertexts(self, sender: int, message: ShareKeys) -> None:
        present = self._here[Phase.ADVERTISE_KEYS][self._topology.row(sender)]
        if len(message.ciphertexts) != int(present.sum()):
            raise PeerError(
                sender,
                message.round,
                f"{len(message.ciphertexts)} ciphertexts for {int(present.sum())} peers",
            )
        self._commitments[sender] = np.frombuffer(message.commitment, np.uint8)
        self._ciphertexts[sender, present] = message.ciphertexts

    def _take_shares(self, sender: int, message: UnmaskShares) -> None:
        row = self._topology.row(sender)
        present = self._here[Phase.SHARE_KEYS][row]
        shares = message.shares
        own = self._params.graph is Graph.COMPLETE
        expected = int(present.sum()) + own
        if len(shares) != expected:
            raise PeerError(
                sender, message.round, f"{len(shares)} shares for {expected} secrets of its peers"
            )
        if own:  # its own share stands in the roster's order, between those below and above it
            at = int(present[row < sender].sum())
            self._own_shares[sender] = shares[at]
            shares = np.delete(shares, at, axis=0)
        self._shares[sender, present] = shares

    def _unmask(self) -> None:
        unmasker = Unmasker(
            params=self._params,
            context=self._context,
            roster=self._roster,
            topology=self._topology,
            public_keys=self._keys,
            commitments=self._commitments,
            shares=self._shares,
            own_shares=self._own_shares,
            sharers=self._here[Phase.SHARE_KEYS],
            survivors=self._here[Phase.MASKED_INPUT],
            responders=self._here[Phase.UNMASKING],
            workers=self._workers,
        )
        self._aggregate = unmasker.aggregate(self._accumulator)
