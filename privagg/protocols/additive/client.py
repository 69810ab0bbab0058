"""A client: seeds to the helpers, then the vector under their masks to the leader."""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from privagg import keys, prg
from privagg._validate import as_array, describe, whole
from privagg.entropy import OS, Entropy
from privagg.errors import PeerError, UsageError
from privagg.protocols._common.framing import DIGEST_BYTES
from privagg.protocols.additive import checks
from privagg.protocols.additive.messages import MaskedInput, SeedHolders, SeedShare, tag_of
from privagg.protocols.additive.params import SEED_BYTES, Params
from privagg.protocols.additive.states import CLIENT_TABLE, ClientState, following

__all__ = ["Client", "add_mask"]


class Client:
    """One client of one session.

    Parameters
    ----------
    params : Params
        What all have agreed on.
    session : bytes
        16 bytes that name the session, never used before with these parties.
    index : int
        Which client this is, from 0.
    entropy : Entropy
        Of its seeds; the operating system's unless given.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    def __init__(
        self, params: Params, session: bytes, index: int, *, entropy: Entropy = OS
    ) -> None:
        self._params, self._tag = params, tag_of(params, session)
        self._index = whole("index", index, 0, params.clients - 1)
        if not isinstance(entropy, Entropy):
            raise UsageError("entropy", type(entropy).__name__, "an Entropy, such as entropy.OS")
        self._entropy = entropy
        self._state = ClientState.IDLE
        self._seeds: tuple[bytes, ...] = ()
        self._heard = b""
        self._reply = b""

    @property
    def index(self) -> int:
        """Which client this is."""
        return self._index

    @property
    def state(self) -> ClientState:
        """What it has done."""
        return self._state

    def share_seeds(self) -> list[SeedShare]:
        """Round 0: draw a seed for each helper; return what each of them gets, in their order.

        Raises
        ------
        UsageError
            If it was called before: a seed masks once.
        """
        if self._state is not ClientState.IDLE:
            raise UsageError("share_seeds", "a second call", "one, in round share-seeds")
        self._seeds = tuple(self._entropy.take(SEED_BYTES) for _ in range(self._params.helpers))
        self._state = ClientState.SHARED
        return [SeedShare(tag=self._tag, seed=seed) for seed in self._seeds]

    def masked_input(self, message: SeedHolders, vector: Any) -> MaskedInput:
        """Round 1: send the vector under all masks, if enough clients are there.

        Parameters
        ----------
        message : SeedHolders
            The clients whose seeds all helpers have.
        vector : (dim,) array of integers
            From 0 to ``2**value_bits - 1``. It is not changed.

        Returns
        -------
        MaskedInput
            For the leader; the same one again if the same message comes again.

        Raises
        ------
        UsageError
            If the vector is not as described; nothing was sent.
        PeerError
            If the message is not due, of another session, or leaves this client out.
        Abort
            If fewer than ``min_cohort`` clients are there.
        """
        if not isinstance(message, SeedHolders):
            raise UsageError("message", type(message).__name__, "SeedHolders")
        message = message.checked(self._params, peer="leader")
        after = following(CLIENT_TABLE, self._state, message, "leader")
        checks.same_session(message, self._tag, "leader")
        digest = keys.digest(message.encode())
        if self._state is ClientState.MASKED:
            checks.one_set_only(self._heard, digest, message.round)
            return MaskedInput.decode(self._reply, self._params, peer=self._index)
        checks.includes_this_client(message.members, self._index)
        checks.cohort_is_large_enough(message.members, self._params, message.round)
        words = self._words(vector)
        for seed in self._seeds:
            add_mask(words, seed)
        words &= np.uint64(2**self._params.bits - 1)
        reply = MaskedInput(tag=self._tag, bits=self._params.bits, vector=words)
        self._state, self._heard, self._seeds = after, digest, ()
        self._reply = reply.encode()
        return reply

    def dump_state(self) -> bytes:
        """Return the whole state, **seeds included**: keep it as a private key, use it once."""
        fields = [self._index, self._state.name, list(self._seeds), self._heard, self._reply]
        return msgspec.msgpack.encode([self._tag, *fields])

    @classmethod
    def load_state(
        cls, data: bytes, params: Params, session: bytes, *, entropy: Entropy = OS
    ) -> Client:
        """Return the client that :meth:`dump_state` wrote.

        Parameters
        ----------
        data : bytes
            What it returned.
        params : Params
            Those of the client.
        session : bytes
            That of the client.
        entropy : Entropy
            Where a client that has made no seeds yet takes them from.

        Raises
        ------
        UsageError
            If `data` is none, or of another session or other parameters.
        """
        kind = tuple[bytes, int, str, list[bytes], bytes, bytes]
        try:
            tag, index, state, seeds, heard, reply = msgspec.msgpack.decode(data, type=kind)
        except (msgspec.MsgspecError, TypeError):
            raise UsageError("data", "other bytes", "what dump_state returned") from None
        client = cls(params, session, index, entropy=entropy)
        expected = params.helpers if state == ClientState.SHARED.name else 0
        if tag != client._tag or state not in ClientState.__members__ or len(seeds) != expected:
            raise UsageError("data", "another state", "one of this session and these parameters")
        if any(len(seed) != SEED_BYTES for seed in seeds):
            raise UsageError("data", "seeds of another size", f"{SEED_BYTES} bytes each")
        if not _consistent(state, heard, reply, params):
            raise UsageError("data", "a reply that is none", "what dump_state returned")
        client._state, client._seeds = ClientState[state], tuple(seeds)
        client._heard, client._reply = heard, reply
        return client

    def _words(self, vector: Any) -> NDArray[np.uint64]:
        array, params = as_array("vector", vector), self._params
        if array.shape != (params.dim,) or array.dtype.kind not in "iu":
            raise UsageError("vector", describe(array), f"({params.dim},) integers")
        if int(array.min()) < 0 or int(array.max()) >= 2**params.value_bits:
            raise UsageError("vector", "a number out of range", f"0 to 2**{params.value_bits} - 1")
        return array.astype(np.uint64)

    def __repr__(self) -> str:
        return f"Client(index={self._index}, state={self._state.value!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client holds secrets and cannot be pickled: use dump_state()")


def _consistent(state: str, heard: bytes, reply: bytes, params: Params) -> bool:
    """Say whether a request and its reply are there if, and only if, the state says so."""
    if state != ClientState.MASKED.name:
        return not heard and not reply
    try:
        MaskedInput.decode(reply, params, peer="data")
    except PeerError:
        return False
    return len(heard) == DIGEST_BYTES


def add_mask(words: NDArray[np.uint64], seed: bytes) -> None:
    """Add the mask of a seed, in place, modulo 2**64: whoever reads it cuts to the modulus."""
    row = np.frombuffer(seed, np.uint8).reshape(1, -1)
    prg.accumulate(words, row, np.ones(1, np.int8), suite=prg.Suite.AES128_CTR)
