"""The server of an asynchronous session: fills a buffer with inputs of any round, and unmasks it.

J. So et al., LightSecAgg, MLSys 2022 (arXiv:2109.14236), on asynchronous federated learning
(FedBuff's buffer).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from privagg import field as fields
from privagg._validate import whole
from privagg.encoding import Aggregate
from privagg.entropy import OS, Entropy
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols._common.framing import SESSION_BYTES, TAG_BYTES, Framed
from privagg.protocols.lightsecagg import derivations
from privagg.protocols.lightsecagg.async_messages import (
    BufferedSum,
    BufferRequest,
    DatedInput,
    DatedShare,
    DatedShares,
    expect,
)
from privagg.protocols.lightsecagg.async_params import AsyncParams
from privagg.protocols.lightsecagg.messages import AdvertiseKeys, KeyRoster, Start
from privagg.protocols.lightsecagg.params import Params
from privagg.protocols.lightsecagg.recovery import Blame, recover
from privagg.protocols.lightsecagg.server_store import Store

__all__ = ["AsyncServer", "BufferResult"]

_M = TypeVar("_M", bound=Framed[Params])


@dataclass(frozen=True, kw_only=True)
class BufferResult:
    """The aggregate of one buffer.

    Attributes
    ----------
    aggregate : Aggregate
        The sum of staleness weight times input, and its mean over the weights.
    inputs : tuple of (client, round, weight)
        What is in it.
    now : int
        The round of the buffer.
    blame : tuple of Blame
        Wrong coded sums that were got over.
    model_bound : bool
        False: the inputs were made from the models of different rounds, and nothing binds a mask to
        one. A server that gave a client another model than it says can read more off the sum.
    insecure_seed : bool
        The session was seeded.
    """

    aggregate: Aggregate = field(repr=False)
    inputs: tuple[tuple[int, int, int], ...]
    now: int
    blame: tuple[Blame, ...]
    model_bound: bool = False
    insecure_seed: bool = False


class AsyncServer:
    """The server over the rounds of a session.

    It learns the weighted sums of its buffers, and who sent what when. Memory: one sum, never a
    vector per input; shares are handed on at once.

    Parameters
    ----------
    params : AsyncParams
        Agreed parameters.
    entropy : Entropy
        Source of the session's name, and of the combinations by which answers are checked.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    def __init__(self, params: AsyncParams, *, entropy: Entropy = OS) -> None:
        if not isinstance(params, AsyncParams):
            raise UsageError("params", type(params).__name__, "lightsecagg.AsyncParams")
        if not isinstance(entropy, Entropy):
            raise UsageError("entropy", type(entropy).__name__, "an Entropy, such as entropy.OS")
        self._params, self._round, self._entropy = params, params.round, entropy
        self._session = entropy.take(SESSION_BYTES)
        self._context = derivations.context(params, self._session, 0)
        self._store = Store(self._round, None)
        self._here = np.zeros(self._round.clients, np.bool_)
        self._members: NDArray[np.uint32] | None = None
        self._shared: set[tuple[int, int]] = set()
        self._taken: set[tuple[int, int]] = set()
        self._buffer: list[tuple[int, int, int]] = []
        self._now = 0

    @property
    def now(self) -> int:
        """The round that the buffer is of."""
        return self._now

    @property
    def is_full(self) -> bool:
        """Whether the buffer holds the inputs of one sum."""
        return len(self._buffer) >= self._params.buffer

    def start(self, client: int) -> Start:
        """Return the invitation of a client, by its index.

        Parameters
        ----------
        client : int
            Its index.

        Raises
        ------
        UsageError
            If an argument is not as described.
        """
        return Start(
            tag=self._tag,
            session=self._session,
            round_number=0,
            client=whole("client", client, 0, self._round.clients - 1),
            params_digest=self._params.digest(),
        )

    def take_key(self, sender: int, message: AdvertiseKeys) -> None:
        """Take a client's key.

        Parameters
        ----------
        sender : int
            Who sent it, as the transport authenticated it.
        message : AdvertiseKeys
            The client's key.

        Raises
        ------
        PeerError
            If it is not good or not new.
        """
        sender, message = self._received(sender, message, AdvertiseKeys)
        if self._members is not None or self._here[sender]:
            raise PeerError(sender, message.round, "a key after the session has begun, or a second")
        self._store.take_key(sender, message, self._context)
        self._here[sender] = True

    def roster(self) -> KeyRoster:
        """Close the session's cohort, and return it with its keys.

        Returns
        -------
        KeyRoster

        Raises
        ------
        Abort
            If it is too small.
        """
        count, floor = int(self._here.sum()), max(self._round.threshold, self._round.min_cohort)
        if count < floor:
            raise Abort("round advertise-keys: too few clients answered", count, floor)
        self._members = np.flatnonzero(self._here).astype(np.uint32)
        rows = self._store.keys[self._members]
        return KeyRoster(
            tag=self._tag, members=self._members, keys=rows, universe=self._round.clients
        )

    def relay(self, sender: int, message: DatedShares) -> dict[int, DatedShare]:
        """Return what each peer of `sender` gets of its coded shares.

        Raises
        ------
        PeerError
            If there is not one for each peer, or the mask of that round was shared before.
        """
        sender, message = self._received(sender, message, DatedShares)
        peers = [int(member) for member in self._listed(sender, message.round) if member != sender]
        if len(message.ciphertexts) != len(peers):
            raise PeerError(
                sender,
                message.round,
                f"{len(message.ciphertexts)} ciphertexts for {len(peers)} peers",
            )
        if (sender, message.time) in self._shared:
            raise PeerError(sender, message.round, "shares of this round's mask for a second time")
        self._shared.add((sender, message.time))
        return {
            peer: DatedShare(
                tag=self._tag, time=message.time, sender=sender, ciphertext=row.tobytes()
            )
            for peer, row in zip(peers, message.ciphertexts, strict=True)
        }

    def take_input(self, sender: int, message: DatedInput) -> bool:
        """Add an input to the buffer, with its weight; say whether the buffer is then full.

        Parameters
        ----------
        sender : int
            Who sent it, as the transport authenticated it.
        message : DatedInput
            The masked vector.

        Returns
        -------
        bool
            Whether the buffer is full.

        Raises
        ------
        PeerError
            If its mask was not shared or was used, it is too stale, or from the future; or if it
            is a sender's second in a buffer whose last places inputs of others must take, for
            clients answer for no fewer than ``min_cohort`` of them. It can be in a later buffer.
        UsageError
            If the buffer is full: unmask it first.
        """
        sender, message = self._received(sender, message, DatedInput)
        if self.is_full:
            raise UsageError("take_input", "a full buffer", "one with room", "Unmask it first.")
        time = message.time
        if (sender, time) not in self._shared or (sender, time) in self._taken:
            raise PeerError(
                sender, message.round, f"the mask of round {time} was not shared, or is used"
            )
        if not 0 <= self._now - time <= self._params.max_staleness:
            raise PeerError(
                sender, message.round, f"an input of round {time} where it is {self._now}"
            )
        present = {one for one, _, _ in self._buffer}
        places = self._params.buffer - len(self._buffer)
        if sender in present and places <= self._round.min_cohort - len(present):
            raise PeerError(
                sender, message.round, "a second input where the places left are for other clients"
            )
        weight = self._params.weight(self._now - time)
        of = self._round.field
        factor = np.full(1, weight, self._round.word)
        weighted = fields.weighted_sum(factor, message.vector[np.newaxis], of)
        self._store.total = fields.add(self._store.total, weighted, of)
        self._taken.add((sender, time))
        self._buffer.append((sender, time, weight))
        return self.is_full

    def request(self) -> BufferRequest:
        """Return what the clients are asked for, once the buffer is full.

        Raises
        ------
        UsageError
            If it is not.
        """
        if not self.is_full:
            raise UsageError("request", f"{len(self._buffer)} inputs", f"{self._params.buffer}")
        return BufferRequest(
            tag=self._tag,
            now=self._now,
            senders=np.array([sender for sender, _, _ in self._buffer], np.uint32),
            times=np.array([time for _, time, _ in self._buffer], np.uint32),
        )

    def take_sum(self, sender: int, message: BufferedSum) -> None:
        """Take a client's weighted sum of coded shares.

        Parameters
        ----------
        sender : int
            Who sent it, as the transport authenticated it.
        message : BufferedSum
            The sum.

        Raises
        ------
        PeerError
            If it is of another buffer or no client of the session sent it.
        """
        sender, message = self._received(sender, message, BufferedSum)
        self._listed(sender, message.round)
        if message.now != self._now or not self.is_full:
            raise PeerError(sender, message.round, f"a sum of round {message.now}'s buffer")
        self._store.sums.setdefault(sender, message.elements)

    def unmask(self) -> BufferResult:
        """Decode the weighted sum of the masks, read the buffer's sum, and open the next buffer.

        Raises
        ------
        Abort
            If fewer than U sums have come: wait for more, or :meth:`discard` the buffer.
        PeerError
            If more are wrong than can be corrected: wait for more, or :meth:`discard` the buffer.
            If no inputs have this sum: the buffer is gone then.
        """
        store, params = self._store, self._round
        if len(store.sums) < params.threshold:
            raise Abort("round unmasking: too few sums", len(store.sums), params.threshold)
        holders = np.array(sorted(store.sums), np.intp)
        sums = np.stack([store.sums[int(holder)] for holder in holders])
        found = recover(params.code, sums, holders, params.length, self._entropy)
        words = fields.sub(store.total, found.masks, params.field)
        now, inputs = self._now, self.discard()
        weights = np.full(1, sum(weight for _, _, weight in inputs), words.dtype)
        try:
            aggregate = self._params.summed().decode(
                np.concatenate([words, weights]), count=len(inputs)
            )
        except UsageError as error:
            raise PeerError(
                "some client",
                "unmasking",
                f"words outside the encoding, or a wrong coded sum: {error}",
            ) from None
        return BufferResult(
            aggregate=aggregate,
            inputs=inputs,
            now=now,
            blame=tuple(
                Blame(dealer=None, holder=int(holder), reason="wrong coded sum")
                for holder in holders[found.wrong]
            ),
            insecure_seed=self._entropy.insecure,
        )

    def discard(self) -> tuple[tuple[int, int, int], ...]:
        """Give the buffer up unread, and open the next: its sum cannot be had, or is not wanted.

        So the session goes on where a corrupt dealer's shares did not open, which its holders then
        do not add up, or where sums stay wrong. Masks that were in it are not used again.

        Returns
        -------
        tuple of (client, round, weight)
            The inputs that were in it.
        """
        inputs = tuple(self._buffer)
        self._buffer, self._store.sums = [], {}
        self._store.total = np.zeros(self._round.length, self._round.word)
        self._now += 1
        return inputs

    def __repr__(self) -> str:
        return f"AsyncServer(now={self._now}, buffered={len(self._buffer)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a server's state is of one session and cannot be pickled")

    @property
    def _tag(self) -> bytes:
        return self._context[:TAG_BYTES]

    def _received(self, sender: int, message: _M, kind: type[_M]) -> tuple[int, _M]:
        """Return sender and message, if they are of this session."""
        if isinstance(sender, bool) or not isinstance(sender, int | np.integer):
            raise UsageError("sender", sender, "a client's index")
        sender = int(sender)
        message = expect(message, kind, self._round, peer=sender)
        if not 0 <= sender < self._round.clients or message.tag != self._tag:
            raise PeerError(sender, message.round, "another session, or an unknown client")
        return sender, message

    def _listed(self, sender: int, round: str) -> NDArray[np.uint32]:
        if self._members is None or not self._here[sender]:
            raise PeerError(sender, round, "this client has not joined the session")
        return self._members
