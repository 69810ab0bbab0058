"""A client: one method per round of the paper, no I/O.

J. So et al., LightSecAgg, MLSys 2022 (arXiv:2109.14236).

Its shares travel encrypted from client to client, and where the server may lie the clients agree on
who survived before they answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.protocols._common import order
from privagg.protocols._common.framing import TAG_BYTES, Framed
from privagg.protocols.lightsecagg import checks, client_work, derivations
from privagg.protocols.lightsecagg.client_state import ClientMemory, dump, load
from privagg.protocols.lightsecagg.messages import (
    AdvertiseKeys,
    CodedSum,
    ConsistencySignature,
    KeyRoster,
    MaskedInput,
    ShareBundle,
    ShareMasks,
    SignatureSet,
    Start,
    SurvivorSet,
)
from privagg.protocols.lightsecagg.params import Params, Policy, policy_of
from privagg.protocols.lightsecagg.states import CLIENT_TABLES, ClientState
from privagg.protocols.secagg.identity import Signer

__all__ = ["Client", "check_model"]


class Client(order.OrderedParty[ClientMemory]):
    """One client of one round.

    Guarantee, by ``params.threat``: the server and up to T clients that pool all they see learn of
    this client's input only the sum over one set of at least ``policy.min_cohort`` clients that it
    is in.

    - ``semi-honest``: if they follow the protocol. A server that deviates can replace keys or show
      different survivor sets, and learn more.
    - ``active``: whatever they do, given that the roster's identities are genuine. The sum over the
      honest clients in that set can still be shifted by the corrupt ones.

    T coded shares of a mask are independent of it (no assumption beyond the generator's); what the
    server sees of the others is encrypted: X25519, HKDF-SHA256, AES-128-GCM, and Ed25519 where
    messages are signed.

    The methods are called in the order below, each with the server's message. A second call with
    the same message returns the same reply until :meth:`delivered` releases it. A message that
    fails a check ends the round for this client; one that is out of order or of another round
    changes nothing.

    Parameters
    ----------
    params : Params
        Agreed parameters of the round.
    policy : Policy, optional
        What this client insists on; by default what `params` promises. Required, with a roster,
        where messages are signed.
    identity : Signer, optional
        This client's identity; required where messages are signed.
    entropy : Entropy
        Source of every secret; the operating system's by default.

    Raises
    ------
    UsageError
        If `params` do not meet `policy`, or an identity is missing or superfluous.
    """

    def __init__(
        self,
        params: Params,
        policy: Policy | None = None,
        *,
        identity: Signer | None = None,
        entropy: Entropy = OS,
    ) -> None:
        checks.check_params(params)
        if not isinstance(entropy, Entropy):
            raise UsageError("entropy", type(entropy).__name__, "an Entropy, such as entropy.OS")
        if policy is not None and not isinstance(policy, Policy):
            raise UsageError("policy", type(policy).__name__, "lightsecagg.Policy")
        super().__init__(params, ClientMemory())
        self._params = params
        self._policy = policy_of(params) if policy is None else policy
        checks.policy_is_met(params, self._policy)
        if not isinstance(identity, Signer) if params.signed else identity is not None:
            raise UsageError(
                "identity",
                type(identity).__name__,
                f"{'a Signer' if params.signed else 'None'} where the threat model is "
                f"{params.threat.value}",
                "Make one with `privagg keys new`." if params.signed else "",
            )
        self._identity = identity
        self._entropy = entropy

    @property
    def state(self) -> ClientState:
        """What this client has done so far."""
        return self._memory.state

    def advertise_keys(self, start: Start) -> AdvertiseKeys:
        """Round 0: make the key pair from a fresh seed and advertise the public key.

        Returns
        -------
        AdvertiseKeys
            To be sent to the server.

        Raises
        ------
        PeerError
            If the server's parameters or identities are not this client's, or the index it gives is
            not where the roster has this client's identity.
        """
        with self._handling(start, Start, AdvertiseKeys) as (start, earlier):
            if earlier is not None:
                return earlier
            memory, params, roster = self._memory, self._params, self._policy.roster
            checks.parameters_are_ours(start, params)
            identities = b"" if roster is None or not params.signed else roster.digest()
            context = derivations.context(params, start.session, start.round_number, identities)
            checks.same_round(start, context[:TAG_BYTES])
            memory.index, memory.context = start.client, context
            memory.cipher_seed = self._entropy.take(derivations.SEED_BYTES)
            _, key = derivations.cipher_keys(memory.cipher_seed, context, start.client)
            statement = derivations.advertise_statement(context, start.client, key)
            signature = self._sign(statement)
            if roster is not None and params.signed:
                checks.index_is_ours(roster, start.client, statement, signature)
            return self._reply(
                start, AdvertiseKeys(tag=self._tag, cipher_key=key, signature=signature)
            )

    def share_masks(self, roster: KeyRoster) -> ShareMasks:
        """Round 1: check the roster, draw a mask, encode it, and send each peer its coded share.

        Returns
        -------
        ShareMasks
            To be sent to the server.

        Raises
        ------
        PeerError
            If the roster repeats a key, has one that is not canonical, of low order or not signed
            by its owner for this round, or lists this client wrongly.
        Abort
            If the cohort is below the policy's minimum, or fewer than U could answer.
        """
        with self._handling(roster, KeyRoster, ShareMasks) as (roster, earlier):
            if earlier is not None:
                return earlier
            memory, params, policy = self._memory, self._params, self._policy
            _, own = derivations.cipher_keys(memory.cipher_seed, memory.context, memory.own_index)
            checks.cohort_is_large_enough(len(roster.members), policy, params, roster.round)
            checks.enough_can_answer(len(roster.members), params, roster.round)
            checks.own_keys_are_listed(roster, memory.own_index, (own,))
            checks.keys_are_canonical(roster)
            checks.keys_have_full_order(roster)
            checks.keys_are_distinct(roster, (own,))
            if params.signed and policy.roster is not None:
                checks.keys_are_signed(roster, memory.context, policy.roster)
            memory.members = roster.members
            memory.roster = derivations.roster_digest(memory.context, roster.members, roster.keys)
            memory.mask, shares = client_work.draw_mask(params, self._entropy)
            columns = client_work.seal_shares(memory, params, roster, shares)
            memory.held = np.zeros((len(roster.members), params.piece), params.word)
            memory.held[memory.own_slot] = shares[memory.own_index]
            return self._reply(roster, ShareMasks(tag=self._tag, ciphertexts=columns))

    def masked_input(
        self,
        bundle: ShareBundle,
        vector: NDArray[Any],
        *,
        weight: int = 1,
        model: bytes = b"",
    ) -> MaskedInput:
        """Round 2: decrypt the peers' coded shares, then send the vector under the mask.

        A peer whose share does not open is named to the server; this client cannot answer for a sum
        that it is in.

        Parameters
        ----------
        bundle : ShareBundle
            The coded shares that the server relays.
        vector : (dim,) array of numbers
            This client's numbers, as ``params.encoding`` declares them.
        weight : int
            This client's weight, 0 to ``max_weight``, where the round is weighted.
        model : bytes
            Digest of the shared parameters that this client was given, 32 bytes
            (:func:`model_digest`), or empty. Only where messages are signed: this client then
            answers only for survivors that have signed the same.

        Returns
        -------
        MaskedInput

        Raises
        ------
        UsageError
            If the vector does not fit the parameters; the round goes on, nothing was sent.
        PeerError
            If the bundle contradicts the roster.
        Abort
            If the cohort became too small, or fewer than U could answer.
        """
        with self._handling(bundle, ShareBundle, MaskedInput) as (bundle, earlier):
            if earlier is not None:
                return earlier
            params, memory = self._params, self._memory
            check_model(model, params)
            words = self._encoded(vector, weight)
            checks.bitmap_covers_roster(bundle.present, len(memory.members), bundle.round)
            checks.no_ciphertext_to_self(bundle.present, memory.own_slot)
            sharers = int(bundle.present.sum()) + 1
            checks.cohort_is_large_enough(sharers, self._policy, params, bundle.round)
            checks.enough_can_answer(sharers, params, bundle.round)
            held, opened = client_work.open_shares(memory, params, bundle)
            own, holders = memory.own_slot, bundle.present.copy()
            held[own], holders[own], opened[own] = memory.held[own], True, True
            memory.held, memory.opened, memory.holders = held, opened, holders
            memory.model = model
            masked = client_work.mask_input(params, words, memory.mask)
            memory.forget_mask()
            statement = derivations.input_statement(
                memory.context, memory.roster, model, memory.own_index
            )
            return self._reply(
                bundle,
                MaskedInput(
                    tag=self._tag,
                    bits=params.bits,
                    missing=holders & ~opened,
                    vector=masked,
                    signature=self._sign(statement),
                ),
            )

    def consistency_check(self, survivors: SurvivorSet) -> ConsistencySignature:
        """Round 3 (where messages are signed): sign what the server shows of who survived.

        Returns
        -------
        ConsistencySignature
            To be sent to the server.

        Raises
        ------
        PeerError
            If the set names a peer that shared no mask or did not sign for this model, or leaves
            this client out.
        Abort
            If the cohort is below the policy's minimum, or fewer than U could answer.
        """
        with self._handling(survivors, SurvivorSet, ConsistencySignature) as (survivors, earlier):
            if earlier is not None:
                return earlier
            memory = self._memory
            checks.survivors_are_acceptable(survivors, memory, self._params, self._policy)
            memory.survivors = survivors.survivors
            signature = self._sign(checks.own_statement(memory))
            return self._reply(survivors, ConsistencySignature(tag=self._tag, signature=signature))

    def unmasking(self, message: SurvivorSet | SignatureSet) -> CodedSum:
        """Round 4: the sum of the coded shares of the survivors' masks.

        It is given for one survivor set only; the same set again gets the same bytes.

        Parameters
        ----------
        message : SurvivorSet or SignatureSet
            The survivor set; where messages are signed, who signed it.

        Returns
        -------
        CodedSum

        Raises
        ------
        PeerError
            If the set names a peer that shared no mask, or whose share this client reported
            missing, leaves this client out, or is a second, other one; or if a signature is not
            over the set that this client saw.
        Abort
            If the cohort is below the policy's minimum, or fewer than U survived or signed.
        """
        signed = self._params.signed or isinstance(message, SignatureSet)
        expected = SignatureSet if signed else SurvivorSet  # what does not fit, the table refuses
        with self._handling(message, expected, CodedSum) as (message, earlier):
            if earlier is not None:
                return earlier
            memory, params = self._memory, self._params
            if isinstance(message, SignatureSet):
                checks.signatures_are_acceptable(message, memory, params, self._policy)
            else:
                checks.survivors_are_acceptable(message, memory, params, self._policy)
                memory.survivors = message.survivors
            checks.shares_are_held(memory)
            total = client_work.add_shares(params, memory.held[memory.survivors])
            memory.forget_shares()
            return self._reply(message, CodedSum(tag=self._tag, bits=params.bits, elements=total))

    def dump_state(self) -> bytes:
        """Return the whole state, **secrets included**, so that another process can go on.

        Store it as you would a private key, and delete it after the round. Going on twice from one
        state would use a mask twice, or answer unmasking twice, which the guarantee does not
        survive. The identity is not in it.
        """
        return dump(self._memory, self._params)

    @classmethod
    def load_state(
        cls,
        state: bytes,
        params: Params,
        policy: Policy | None = None,
        *,
        identity: Signer | None = None,
        entropy: Entropy = OS,
    ) -> Client:
        """Return the client that :meth:`dump_state` wrote.

        Raises
        ------
        UsageError
            If `state` is not such bytes, or of other parameters or another version.
        """
        client = cls(params, policy, identity=identity, entropy=entropy)
        client._memory = load(state, params)
        return client

    def _next(self, message: Framed[Any]) -> ClientState:
        return order.following(CLIENT_TABLES[self._params.threat], self._memory.state, message)

    def _encoded(self, vector: NDArray[Any], weight: int) -> NDArray[Any]:
        """Encode the input, in the encoding's words, and note how much was clipped."""
        encoded = client_work.encode_input(self._params, vector, weight, self._entropy)
        self._memory.clipped = encoded.clipped
        return encoded.words

    def _sign(self, statement: bytes) -> bytes:
        return b"" if self._identity is None else self._identity.sign(statement)


def check_model(model: bytes, params: Params) -> None:
    """Require the digest of a model where messages are signed, or nothing.

    Raises
    ------
    UsageError
        If it is neither, or nothing is signed: then nothing binds a mask to a model.
    """
    if not isinstance(model, bytes) or len(model) not in (0, 32):
        raise UsageError("model", type(model).__name__, "32 bytes, or none")
    if model and not params.signed:
        raise UsageError(
            "model",
            "a digest",
            "none where nothing is signed: it would bind nothing",
            "Choose threat='active', in which clients compare what they were given.",
        )
