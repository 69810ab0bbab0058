"""A client of an asynchronous session: masks that are dated, and their shares of others.

J. So et al., LightSecAgg, MLSys 2022 (arXiv:2109.14236), on asynchronous federated learning.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from privagg import keys, wire
from privagg._validate import whole
from privagg.entropy import OS, Entropy
from privagg.errors import Abort, PeerError, UsageError
from privagg.field import Elements
from privagg.protocols._common.framing import TAG_BYTES
from privagg.protocols.lightsecagg import checks, client_work, derivations
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
from privagg.protocols.lightsecagg.params import policy_of
from privagg.protocols.secagg import derivations as pairs

__all__ = ["AsyncClient"]

_SERVER = "server"


class AsyncClient:
    """One client over the rounds of a session.

    Guarantee: semi-honest. The server and up to T clients that pool all they see learn of this
    client's inputs only the weighted sums over buffers of inputs of at least ``min_cohort``
    clients. Nothing is signed, and nothing binds a mask to a model: the inputs of one buffer were
    made from different ones.

    A mask serves one input. A coded share enters one sum: a buffer with a share that was given
    before, or that this client does not hold, is refused, so that no two sums overlap. A share that
    is relayed again after it was given is not taken again.

    Parameters
    ----------
    params : AsyncParams
        Agreed parameters.
    entropy : Entropy
        Source of every secret.

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
        self._index: int | None = None
        self._context = self._roster = self._private = b""
        self._members: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._secrets: dict[int, bytes] = {}
        self._masks: dict[int, Elements] = {}
        self._shares: dict[tuple[int, int], Elements] = {}
        self._given: set[tuple[int, int]] = set()
        self._shared, self._answered, self._oldest = -1, -1, 0

    @property
    def index(self) -> int | None:
        """Index of this client in the session, once the server has said it."""
        return self._index

    def advertise_keys(self, start: Start) -> AdvertiseKeys:
        """Begin the session: make the key pair that shares travel under.

        Returns
        -------
        AdvertiseKeys
            To be sent to the server.

        Raises
        ------
        PeerError
            If the server's parameters, those of the buffers among them, are not this client's.
        """
        start = expect(start, Start, self._round, peer=_SERVER)
        if self._index is not None:
            raise PeerError(_SERVER, start.round, "a second start of the session")
        checks.parameters_are_ours(start, self._params)
        self._context = derivations.context(self._params, start.session, start.round_number)
        checks.same_round(start, self._context[:TAG_BYTES])
        seed = self._entropy.take(derivations.SEED_BYTES)
        self._private, public = derivations.cipher_keys(seed, self._context, start.client)
        self._index = start.client
        return AdvertiseKeys(tag=self._tag, cipher_key=public)

    def join(self, roster: KeyRoster) -> None:
        """Take the keys of the session's clients.

        Raises
        ------
        PeerError
            As :meth:`privagg.protocols.lightsecagg.Client.share_masks`.
        Abort
            If the cohort is too small.
        """
        roster = expect(roster, KeyRoster, self._round, peer=_SERVER)
        checks.same_round(roster, self._tag)
        if len(self._members):
            raise PeerError(_SERVER, roster.round, "a second roster of the session")
        own = (keys.public_key(self._private),)
        count = len(roster.members)
        checks.cohort_is_large_enough(count, policy_of(self._round), self._round, roster.round)
        checks.enough_can_answer(count, self._round, roster.round)
        checks.own_keys_are_listed(roster, self._own, own)
        checks.keys_are_canonical(roster)
        checks.keys_have_full_order(roster)
        checks.keys_are_distinct(roster, own)
        self._members = roster.members
        self._roster = derivations.roster_digest(self._context, roster.members, roster.keys)
        self._secrets = {
            int(peer): keys.agree(self._private, key.tobytes())
            for peer, key in zip(roster.members, roster.keys, strict=True)
            if peer != self._own
        }

    def share_mask(self, time: int) -> DatedShares:
        """Draw the mask of round `time`, and seal a coded share for each peer.

        Raises
        ------
        UsageError
            If `time` is not after the last one: a mask is drawn once.
        """
        if isinstance(time, bool) or not isinstance(time, int) or not self._shared < time < 2**32:
            raise UsageError("time", time, f"a round after {self._shared}")
        if not self._secrets:
            raise UsageError("share_mask", "no roster", "a client that has joined")
        params = self._round
        self._masks[time], shares = client_work.draw_mask(params, self._entropy)
        self._shares[self._own, time] = shares[self._own]
        self._shared = time
        rows = [
            keys.encrypt(
                self._pair_keys(peer, time)[0],
                wire.pack_bits(shares[peer], params.bits),
                self._associated(time, self._own, peer),
            )
            for peer in self._secrets
        ]
        columns = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
        return DatedShares(tag=self._tag, time=time, ciphertexts=columns)

    def take_share(self, message: DatedShare) -> bool:
        """Take a peer's coded share; say whether it opened. The first of a date counts.

        One that was given in a sum, or is too old to be asked for, is not taken (again).

        Returns
        -------
        bool
            Whether it opened.

        Raises
        ------
        PeerError
            If the sender is no peer.
        """
        message = expect(message, DatedShare, self._round, peer=_SERVER)
        checks.same_round(message, self._tag)
        sender, time = message.sender, message.time
        if sender not in self._secrets:
            raise PeerError(_SERVER, message.round, f"a share of client {sender}, who is no peer")
        if (sender, time) in self._shares or (sender, time) in self._given:
            return True
        if time < self._oldest:
            return False
        text = keys.decrypt(
            self._pair_keys(sender, time)[1],
            message.ciphertext,
            self._associated(time, sender, self._own),
        )
        row = None if text is None else np.frombuffer(text, np.uint8)
        share = None if row is None else client_work.unpacked(row, self._round)
        if share is None:
            return False
        self._shares[sender, time] = share
        return True

    def masked_input(self, time: int, vector: NDArray[Any]) -> DatedInput:
        """Mask a vector with the mask of round `time`, which is then gone.

        Parameters
        ----------
        time : int
            The round that the mask was made for.
        vector : (dim,) array of numbers
            What is sent under the mask.

        Returns
        -------
        DatedInput

        Raises
        ------
        UsageError
            If there is no such mask (any more), or the vector does not fit the parameters.
        """
        time = whole("time", time, 0, 2**32 - 1)
        if time not in self._masks:
            raise UsageError("time", time, "a round whose mask was shared and not used")
        params = self._round
        words = client_work.encode_input(params, vector, 1, self._entropy).words
        masked = client_work.mask_input(params, words, self._masks.pop(time))
        return DatedInput(tag=self._tag, time=time, bits=params.bits, vector=masked)

    def unmasking(self, request: BufferRequest) -> BufferedSum:
        """Give the weighted sum of the coded shares of a buffer; each share is given once.

        Raises
        ------
        PeerError
            If the buffer is not of a later round than the last, lists an input twice, one from the
            future or one that is too stale, or one whose share this client does not hold or has
            given.
        Abort
            If the inputs are of fewer clients than the cohort's minimum.
        """
        request = expect(request, BufferRequest, self._round, peer=_SERVER)
        checks.same_round(request, self._tag)
        now, params = request.now, self._params
        inputs = list(zip(request.senders.tolist(), request.times.tolist(), strict=True))
        if now <= self._answered:
            raise PeerError(_SERVER, request.round, f"a buffer of round {now} after a later one")
        if len(set(inputs)) != len(inputs):
            raise PeerError(_SERVER, request.round, "an input that is in the buffer twice")
        for sender, time in inputs:
            if not 0 <= now - time <= params.max_staleness:
                raise PeerError(
                    _SERVER,
                    request.round,
                    f"client {sender}'s input of round {time} in the buffer of round {now}",
                )
            if (sender, time) not in self._shares:
                raise PeerError(
                    _SERVER,
                    request.round,
                    f"no share of client {sender}'s mask of round {time}: never opened, or given",
                )
        senders = len({sender for sender, _ in inputs})
        if senders < self._round.min_cohort:
            raise Abort("round unmasking: too few in the buffer", senders, self._round.min_cohort)
        word = self._round.word
        weights = np.array([params.weight(now - time) for _, time in inputs], word)
        rows = np.stack([self._shares.pop(one) for one in inputs])
        self._given.update(inputs)
        self._answered = now
        total = client_work.add_shares(self._round, rows, weights)
        return BufferedSum(tag=self._tag, now=now, bits=self._round.bits, elements=total)

    def forget(self, before: int) -> None:
        """Drop masks and shares of rounds before `before`: too stale to be asked for.

        Shares of those rounds that come later are not taken either.

        Raises
        ------
        UsageError
            If `before` is no whole number.
        """
        self._oldest = max(self._oldest, whole("before", before, -(2**32), 2**32))
        before = self._oldest
        self._given = {one for one in self._given if one[1] >= before}
        self._masks = {time: mask for time, mask in self._masks.items() if time >= before}
        self._shares = {one: share for one, share in self._shares.items() if one[1] >= before}

    def __repr__(self) -> str:
        return f"AsyncClient(index={self._index}, shares={len(self._shares)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client holds secrets and cannot be pickled")

    @property
    def _tag(self) -> bytes:
        return self._context[:TAG_BYTES]

    @property
    def _own(self) -> int:
        if self._index is None:
            raise UsageError("client", "no index yet", "a client that has advertised its keys")
        return self._index

    def _dated(self, time: int) -> bytes:
        return keys.digest(b"privagg lightsecagg date", self._context, time.to_bytes(4, "little"))

    def _pair_keys(self, peer: int, time: int) -> tuple[bytes, bytes]:
        """Return the keys to `peer` and from it for one round's shares: each seals one message."""
        dated = self._dated(time)
        return pairs.share_keys(self._secrets[peer], dated, self._roster, self._own, peer)

    def _associated(self, time: int, sender: int, receiver: int) -> bytes:
        return pairs.associated_data(self._dated(time), self._roster, sender, receiver)
