"""A client: one method per round of the paper, no I/O.

Bonawitz et al., CCS 2017, figure 4 (complete graph), and Bell et al., CCS 2020, section 3 (sparse
graph), by one implementation: the graph only decides who a client's peers are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from privagg import keys, prg, sharing
from privagg.entropy import OS, Entropy
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols.secagg import checks, derivations, messages
from privagg.protocols.secagg.client_state import ClientMemory, dump, load
from privagg.protocols.secagg.columns import pack_rows, unpack_rows
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
from privagg.protocols.secagg.params import Params, Policy
from privagg.protocols.secagg.states import CLIENT_TABLES, ClientState, next_state

__all__ = ["Client"]

_M = TypeVar("_M", bound=Message)


class Client:
    """One client of one round.

    Guarantee (semi-honest): the server and up to ``policy.max_corrupt`` clients that pool all they
    see learn of this client's input only the sum over a survivor set of at least
    ``policy.min_cohort`` clients (computational, under X25519, HKDF-SHA256, AES-128-GCM and the
    mask stream; in the sparse graph but for ``2**-params.sigma``). It does not hold against a
    server that deviates: such a server can replace keys or show different survivor sets.

    The methods are called in the order below, each with the server's message. A second call with
    the same message returns the same reply, for transports that lose messages, until
    :meth:`delivered` releases it. A message that fails a check ends the round for this client; one
    that is out of order or of another round changes nothing.

    Parameters
    ----------
    params : Params
        Agreed parameters of the round.
    policy : Policy, optional
        What this client insists on; by default what `params` promises.
    entropy : Entropy
        Source of every secret; the operating system's by default.

    Raises
    ------
    UsageError
        If `params` do not meet `policy`.
    """

    def __init__(
        self, params: Params, policy: Policy | None = None, *, entropy: Entropy = OS
    ) -> None:
        if not isinstance(params, Params):
            raise UsageError("params", type(params).__name__, "secagg.Params")
        if policy is not None and not isinstance(policy, Policy):
            raise UsageError("policy", type(policy).__name__, "secagg.Policy")
        if not isinstance(entropy, Entropy):
            raise UsageError("entropy", type(entropy).__name__, "an Entropy, such as entropy.OS")
        self._params = params
        self._policy = Policy.of(params) if policy is None else policy
        checks.policy_is_met(params, self._policy)
        self._entropy = entropy
        self._memory = ClientMemory()

    @property
    def state(self) -> ClientState:
        """What this client has done so far."""
        return self._memory.state

    @property
    def index(self) -> int | None:
        """Index of this client in the round, once the server has said it."""
        return self._memory.index

    @property
    def clipped(self) -> int:
        """How many coordinates of the own input lay outside the clip; never sent to anyone."""
        return self._memory.clipped

    def advertise_keys(self, start: Start) -> AdvertiseKeys:
        """Round 0: make the key pairs c and s from fresh seeds and advertise the public keys.

        Raises
        ------
        PeerError
            If the server's parameters are not this client's, or a round has begun already.
        """
        with self._handling(start, Start, AdvertiseKeys) as earlier:
            if earlier is not None:
                return earlier
            memory = self._memory
            if start.params_digest != self._params.digest():
                raise PeerError("server", start.round, "the server's parameters differ from ours")
            if start.client >= self._params.clients:
                raise PeerError(
                    "server",
                    start.round,
                    f"index {start.client} for this client; there are {self._params.clients}",
                )
            context = derivations.context(self._params, start.session, start.round_number)
            if start.tag != context[: messages.TAG_BYTES]:
                raise PeerError("server", start.round, "the tag does not belong to the session")
            memory.index = start.client
            memory.context = context
            memory.cipher_seed = self._entropy.take(derivations.SEED_BYTES)
            memory.mask_seed = self._entropy.take(derivations.SEED_BYTES)
            memory.self_seed = self._entropy.take(derivations.SEED_BYTES)
            _, cipher_key = self._key_pair(memory.cipher_seed, b"cipher")
            _, mask_key = self._key_pair(memory.mask_seed, b"mask")
            return self._reply(
                start, AdvertiseKeys(tag=self._tag, cipher_key=cipher_key, mask_key=mask_key)
            )

    def share_keys(self, roster: KeyRoster) -> ShareKeys:
        """Round 1: check the roster, then share the seeds of s and of the self mask, encrypted.

        Raises
        ------
        PeerError
            If the roster repeats a key, has one that is not canonical or of low order, lists this
            client wrongly, or is of another round.
        Abort
            If the cohort is below the policy's minimum or too few peers could hold shares.
        """
        with self._handling(roster, KeyRoster, ShareKeys) as earlier:
            if earlier is not None:
                return earlier
            memory, index = self._memory, self._own_index
            private, cipher_key = self._key_pair(memory.cipher_seed, b"cipher")
            _, mask_key = self._key_pair(memory.mask_seed, b"mask")
            own = (cipher_key, mask_key)
            checks.cohort_is_large_enough(roster.cohort, self._policy, self._params, roster.round)
            checks.own_keys_are_listed(roster, index, own)
            checks.enough_holders(len(roster.members), self._params, roster.round)
            checks.keys_are_canonical(roster)
            checks.keys_have_full_order(roster)
            checks.keys_are_distinct(roster, own)
            memory.members = roster.members
            memory.mask_keys = np.ascontiguousarray(roster.keys[:, keys.KEY_BYTES :])
            memory.roster = roster.digest or derivations.roster_digest(
                memory.context, roster.members, roster.keys
            )
            shares = self._split(roster.members)
            columns = self._encrypt(private, roster, shares)
            commitment = derivations.commitment(memory.self_seed, memory.context, index)
            return self._reply(
                roster, ShareKeys(tag=self._tag, commitment=commitment, ciphertexts=columns)
            )

    def masked_input(
        self, bundle: ShareBundle, vector: NDArray[Any], *, weight: int = 1
    ) -> MaskedInput:
        """Round 2: decrypt the peers' shares, then send the vector under the self and pair masks.

        Parameters
        ----------
        bundle : ShareBundle
            The ciphertexts that the server relays; they define U2.
        vector : (dim,) array
            This client's numbers, as ``params.encoding`` declares them.
        weight : int
            This client's weight, 0 to ``max_weight``, where the round is weighted.

        Raises
        ------
        UsageError
            If the vector does not fit the parameters; the round goes on, nothing was sent.
        PeerError
            If a ciphertext does not open for this round, sender and receiver.
        Abort
            If the cohort or the holders became too few.
        """
        with self._handling(bundle, ShareBundle, MaskedInput) as earlier:
            if earlier is not None:
                return earlier
            params, memory = self._params, self._memory
            try:
                values = np.asarray(vector)
            except ValueError:  # NumPy's for lists of unequal lengths
                raise UsageError("vector", "ragged lists", f"a ({params.dim},) array") from None
            if values.shape != (params.dim,):
                raise UsageError(
                    "vector", f"shape {values.shape}", f"({params.dim},), as params.dim says"
                )
            encoded = params.encoding.encode(
                values, weight=weight, clients=params.clients, entropy=self._entropy
            )
            checks.cohort_is_large_enough(bundle.cohort, self._policy, params, bundle.round)
            checks.bitmap_covers_roster(bundle.present, len(memory.members), bundle.round)
            holders = bundle.present.copy()
            own_slot = self._own_slot
            if own_slot is not None:
                if holders[own_slot]:
                    raise PeerError(
                        "server", bundle.round, "a ciphertext from this client to itself"
                    )
                holders[own_slot] = True
            named = int(bundle.present.sum()) + 1
            checks.cohort_matches_set(bundle.cohort, named, own_slot is not None, bundle.round)
            checks.enough_holders(int(holders.sum()), params, bundle.round)
            memory.held = self._decrypt(bundle)
            memory.holders = holders
            words = encoded.words
            self._add_masks(words, bundle.present)
            words &= words.dtype.type(2**params.modulus_bits - 1)
            memory.clipped = encoded.clipped
            memory.forget_mask_secrets()
            return self._reply(
                bundle, MaskedInput(tag=self._tag, bits=params.modulus_bits, vector=words)
            )

    def unmasking(self, survivors: SurvivorSet) -> UnmaskShares:
        """Round 4: one share of each peer: of its self mask if it survived, else of its mask key.

        It is answered for one survivor set only; the same set again gets the same bytes.

        Raises
        ------
        PeerError
            If the set names a peer outside U2, leaves this client out, or is a second, other one.
        Abort
            If the cohort is below the policy's minimum or fewer than t could answer.
        """
        with self._handling(survivors, SurvivorSet, UnmaskShares) as earlier:
            if earlier is not None:
                return earlier
            params, memory = self._params, self._memory
            checks.cohort_is_large_enough(survivors.cohort, self._policy, params, survivors.round)
            flags = survivors.survivors
            checks.bitmap_covers_roster(flags, len(memory.members), survivors.round)
            checks.survivors_within_holders(flags, memory.holders, memory.members)
            own_slot = self._own_slot
            checks.survivors_include_self(flags, own_slot)
            named = int(flags.sum()) + (own_slot is None)
            checks.cohort_matches_set(
                survivors.cohort, named, own_slot is not None, survivors.round
            )
            checks.enough_holders(int(flags.sum()), params, survivors.round)
            kind = flags.astype(np.intp)  # 0: share of the mask key's seed, 1: of the self mask's
            chosen = memory.held[np.arange(len(flags)), kind][memory.holders]
            return self._reply(survivors, UnmaskShares(tag=self._tag, shares=chosen))

    def delivered(self) -> None:
        """Release the last reply: the transport says that the server has it.

        A vector's memory is held no longer than needed. A later request for the same reply is an
        error.
        """
        self._memory.reply = None

    def dump_state(self) -> bytes:
        """Return the whole state, **secrets included**, so that another process can go on.

        Store it as you would a private key, and delete it after the round. Going on twice from one
        state would answer unmasking twice, which the guarantee does not survive.
        """
        return dump(self._memory, self._params)

    @classmethod
    def load_state(
        cls, state: bytes, params: Params, policy: Policy | None = None, *, entropy: Entropy = OS
    ) -> Client:
        """Return the client that :meth:`dump_state` wrote.

        Raises
        ------
        UsageError
            If `state` is not such bytes, or of other parameters or another version.
        """
        client = cls(params, policy, entropy=entropy)
        client._memory = load(state, params)
        return client

    def __repr__(self) -> str:
        return f"Client(index={self.index}, state={self.state.value!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client holds secrets and cannot be pickled: use dump_state()")

    # What follows computes; what precedes decides.

    @property
    def _tag(self) -> bytes:
        return self._memory.context[: messages.TAG_BYTES]

    @property
    def _own_index(self) -> int:
        index = self._memory.index
        if index is None:
            raise UsageError("client", "no index yet", "a client that has advertised its keys")
        return index

    @property
    def _own_slot(self) -> int | None:
        """Position of this client among the members; None in the sparse graph."""
        at = np.flatnonzero(self._memory.members == self._own_index)
        return int(at[0]) if len(at) else None

    def _key_pair(self, seed: bytes, purpose: bytes) -> tuple[bytes, bytes]:
        return derivations.key_pair(seed, purpose, self._memory.context, self._own_index)

    def _split(self, members: NDArray[np.uint32]) -> NDArray[np.uint64]:
        """Share both seeds among the members: (members, 2, LIMBS); the points are index + 1."""
        secrets = np.frombuffer(self._memory.mask_seed + self._memory.self_seed, np.uint8)
        return sharing.split(
            secrets.reshape(2, sharing.SECRET_BYTES),
            self._params.threshold,
            members.astype(np.uint64) + np.uint64(1),
            self._entropy,
        )

    def _encrypt(
        self, private: bytes, roster: KeyRoster, shares: NDArray[np.uint64]
    ) -> NDArray[np.uint8]:
        """Encrypt each peer's shares; keep the keys of the way back and the own shares."""
        memory, index = self._memory, self._own_index
        peers = [int(member) for member in roster.members]
        columns = np.empty((len(peers), messages.CIPHERTEXT_BYTES), np.uint8)
        memory.inward = np.zeros((len(peers), keys.AEAD_KEY_BYTES), np.uint8)
        memory.own_shares = np.zeros((2, sharing.LIMBS), np.uint64)
        packed = pack_rows(shares.reshape(len(peers), messages.SHARE_WORDS))
        for slot, peer in enumerate(peers):
            if peer == index:
                memory.own_shares = shares[slot].copy()
                continue
            secret = self._agree(private, roster.keys[slot, : keys.KEY_BYTES].tobytes(), peer)
            outward, inward = derivations.share_keys(
                secret, memory.context, memory.roster, index, peer
            )
            associated = derivations.associated_data(memory.context, memory.roster, index, peer)
            columns[slot] = np.frombuffer(
                keys.encrypt(outward, packed[slot].tobytes(), associated), np.uint8
            )
            memory.inward[slot] = np.frombuffer(inward, np.uint8)
        sent: NDArray[np.uint8] = columns[roster.members != index]
        return sent

    def _decrypt(self, bundle: ShareBundle) -> NDArray[np.uint64]:
        """Open the peers' ciphertexts: shares held of each member, (members, 2, LIMBS)."""
        memory, index = self._memory, self._own_index
        plain = np.zeros((len(memory.members), messages.PLAINTEXT_BYTES), np.uint8)
        for column, slot in enumerate(np.flatnonzero(bundle.present)):
            peer = int(memory.members[slot])
            associated = derivations.associated_data(memory.context, memory.roster, peer, index)
            opened = keys.decrypt(
                memory.inward[slot].tobytes(), bundle.ciphertexts[column].tobytes(), associated
            )
            if opened is None:
                raise PeerError(
                    peer,
                    bundle.round,
                    "its ciphertext does not open for this round, sender and receiver",
                )
            plain[slot] = np.frombuffer(opened, np.uint8)
        held = unpack_rows(plain, memory.members, bundle.round)
        shaped = held.reshape(len(memory.members), 2, sharing.LIMBS)
        if self._own_slot is not None:
            shaped[self._own_slot] = memory.own_shares
        return shaped

    def _add_masks(self, words: NDArray[Any], present: NDArray[np.bool_]) -> None:
        """Add PRG(b) and, per peer in U2, plus or minus the pair's stream (figure 4, round 2)."""
        memory, index, params = self._memory, self._own_index, self._params
        private, _ = self._key_pair(memory.mask_seed, b"mask")
        length = prg.seed_bytes(params.prg)
        slots = np.flatnonzero(present)
        seeds = np.empty((len(slots) + 1, length), np.uint8)
        signs = np.ones(len(slots) + 1, np.int8)
        for row, slot in enumerate(slots):
            peer = int(memory.members[slot])
            secret = self._agree(private, memory.mask_keys[slot].tobytes(), peer)
            seed = derivations.pairwise_mask_seed(
                secret, memory.context, memory.roster, index, peer, length
            )
            seeds[row] = np.frombuffer(seed, np.uint8)
            signs[row] = 1 if index > peer else -1
        own = derivations.self_mask_seed(memory.self_seed, memory.context, index, length)
        seeds[-1] = np.frombuffer(own, np.uint8)
        prg.accumulate(words, seeds, signs, suite=params.prg)

    def _agree(self, private: bytes, public: bytes, peer: int) -> bytes:
        try:
            return keys.agree(private, public)
        except keys.LowOrderPointError:
            raise PeerError(peer, "share-keys", "its public key is a point of low order") from None

    def _reply(self, received: Message, reply: _M) -> _M:
        self._memory.received = keys.digest(received.encode())
        self._memory.reply = reply
        return reply

    @contextmanager
    def _handling(
        self, message: Message, expected: type[Message], answer: type[_M]
    ) -> Iterator[_M | None]:
        """Hold the table: yield an earlier reply to repeat, or None; then move, or abort."""
        if not isinstance(message, expected):
            raise UsageError("message", type(message).__name__, expected.__name__)
        memory = self._memory
        following = next_state(CLIENT_TABLES[self._params.threat], memory.state, message)
        if not isinstance(message, Start):
            checks.same_round(message, self._tag)
        if following is memory.state:
            yield self._repeat(message, answer)
            return
        try:
            yield None
        except (PeerError, Abort):
            self._memory = ClientMemory.aborted(memory.index)
            raise
        memory.state = following

    def _repeat(self, message: Message, answer: type[_M]) -> _M:
        memory = self._memory
        if keys.digest(message.encode()) != memory.received:
            raise PeerError(
                "server", message.round, f"a second {type(message).__name__} that differs"
            )
        if not isinstance(memory.reply, answer):
            raise PeerError("server", message.round, "a reply that was already delivered")
        return memory.reply
