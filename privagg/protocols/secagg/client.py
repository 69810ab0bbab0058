"""A client: one method per round of the paper, no I/O.

Bonawitz et al., CCS 2017, figure 4 (complete graph), and Bell et al., CCS 2020, section 3 (sparse
graph), by one implementation: the graph only decides who a client's peers are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import keys
from privagg._validate import refuse_masked
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.protocols.secagg import checks, client_graph, client_work, derivations, layout
from privagg.protocols.secagg.arguments import check_model, check_party
from privagg.protocols.secagg.client_order import OrderedParty
from privagg.protocols.secagg.client_state import ClientMemory, dump, load
from privagg.protocols.secagg.identity import Signer
from privagg.protocols.secagg.messages import (
    AdvertiseKeys,
    ConsistencySignature,
    GraphChallenge,
    GraphCommitment,
    GraphRequest,
    GraphReveal,
    KeyRoster,
    MaskedInput,
    ShareBundle,
    ShareKeys,
    SignatureSet,
    Start,
    SurvivorSet,
    UnmaskShares,
)
from privagg.protocols.secagg.params import Params, Policy
from privagg.protocols.secagg.states import ClientState
from privagg.protocols.secagg.thresholds import Threat

__all__ = ["Client"]


class Client(OrderedParty):
    """One client of one round.

    Guarantee, by ``params.threat``: the server and up to ``policy.max_corrupt`` clients that pool
    all they see learn of this client's input only the sum over one set of at least
    ``policy.min_cohort`` clients that it is in.

    - ``semi-honest``: if they follow the protocol. A server that deviates can replace keys or show
      different survivor sets, and learn more.
    - ``active`` (complete graph): whatever they do, given that the roster's identities are genuine.
      The sum over the honest clients in that set can still be shifted by the corrupt ones.
    - ``semi-malicious`` (sparse graph): whatever they do once the keys have been collected
      honestly. The set's size is the server's word; that at least t of each client's k neighbours
      are in it is checked.

    Computational, under X25519, HKDF-SHA256, AES-128-GCM, Ed25519 and the mask stream; in the
    sparse graph but for ``2**-params.sigma`` per graph drawn (``client_graph.MAX_ATTEMPTS``).

    The methods are called in the order below, each with the server's message. A second call with
    the same message returns the same reply, for transports that lose messages, until
    :meth:`delivered` releases it. A message that fails a check ends the round for this client; one
    that is out of order or of another round changes nothing.

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
        check_party(params, entropy)
        if policy is not None and not isinstance(policy, Policy):
            raise UsageError("policy", type(policy).__name__, "secagg.Policy")
        super().__init__(params)
        self._policy = Policy.of(params) if policy is None else policy
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
        """Round 0: make the key pairs c and s from fresh seeds and advertise the public keys.

        Returns
        -------
        AdvertiseKeys

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
            checks.same_round(start, context[: layout.TAG_BYTES])
            memory.index, memory.context = start.client, context
            memory.cipher_seed = self._entropy.take(derivations.SEED_BYTES)
            memory.mask_seed = self._entropy.take(derivations.SEED_BYTES)
            memory.self_seed = self._entropy.take(derivations.SEED_BYTES)
            cipher_key, mask_key = client_work.public_keys(memory)
            statement = derivations.advertise_statement(context, start.client, cipher_key, mask_key)
            signature = self._sign(statement)
            if roster is not None and params.signed:
                checks.index_is_ours(roster, start.client, statement, signature)
            return self._reply(
                start,
                AdvertiseKeys(
                    tag=self._tag, cipher_key=cipher_key, mask_key=mask_key, signature=signature
                ),
            )

    def commit_graph(self, request: GraphRequest) -> GraphCommitment:
        """Commit-graph (semi-malicious): with the keys fixed, commit to a part of the graph's seed.

        Returns
        -------
        GraphCommitment

        Raises
        ------
        PeerError
            If the root over the keys changes, or the graph is drawn too often.
        Abort
            If the cohort is below the policy's minimum.
        """
        with self._handling(request, GraphRequest, GraphCommitment) as (request, earlier):
            if earlier is not None:
                return earlier
            checks.cohort_is_large_enough(
                int(request.present.sum()), self._policy, self._params, request.round
            )
            commitment = client_graph.commit(self._memory, request, self._entropy)
            return self._reply(
                request,
                GraphCommitment(tag=self._tag, attempt=request.attempt, commitment=commitment),
            )

    def reveal_graph(self, challenge: GraphChallenge) -> GraphReveal:
        """Reveal-graph (semi-malicious): with all commitments fixed, open this client's.

        Returns
        -------
        GraphReveal

        Raises
        ------
        PeerError
            If this client's commitment is left out or others than U1 committed.
        Abort
            If the cohort is below the policy's minimum.
        """
        with self._handling(challenge, GraphChallenge, GraphReveal) as (challenge, earlier):
            if earlier is not None:
                return earlier
            checks.cohort_is_large_enough(
                int(challenge.present.sum()), self._policy, self._params, challenge.round
            )
            opening = client_graph.reveal(self._memory, challenge)
            return self._reply(
                challenge, GraphReveal(tag=self._tag, attempt=challenge.attempt, opening=opening)
            )

    def share_keys(self, roster: KeyRoster) -> ShareKeys:
        """Round 1: check the roster, then share the seeds of s and of the self mask, encrypted.

        Returns
        -------
        ShareKeys

        Raises
        ------
        PeerError
            If the roster repeats a key, has one that is not canonical, of low order or not signed
            by its owner for this round, lists this client wrongly, or shows other neighbours than
            the committed graph.
        Abort
            If the cohort is below the policy's minimum or too few peers could hold shares.
        """
        with self._handling(roster, KeyRoster, ShareKeys) as (roster, earlier):
            if earlier is not None:
                return earlier
            memory, params, policy = self._memory, self._params, self._policy
            own = client_work.public_keys(memory)
            checks.cohort_is_large_enough(roster.cohort, policy, params, roster.round)
            checks.own_keys_are_listed(roster, memory.own_index, own)
            checks.enough_holders(len(roster.members), params, roster.round)
            checks.keys_are_canonical(roster)
            checks.keys_have_full_order(roster)
            checks.keys_are_distinct(roster, own)
            if params.signed and policy.roster is not None:
                checks.keys_are_signed(roster, memory.context, policy.roster)
            if params.threat is Threat.SEMI_MALICIOUS:
                memory.roster = client_graph.verify(memory, params, roster)
            else:
                memory.roster = roster.digest or derivations.roster_digest(
                    memory.context, roster.members, roster.keys
                )
            memory.members = roster.members
            memory.mask_keys = np.ascontiguousarray(roster.keys[:, keys.KEY_BYTES :])
            shares = client_work.split_secrets(
                memory, roster.members, params.threshold, self._entropy
            )
            columns = client_work.encrypt_shares(memory, roster, shares)
            commitment = derivations.commitment(memory.self_seed, memory.context, memory.own_index)
            return self._reply(
                roster, ShareKeys(tag=self._tag, commitment=commitment, ciphertexts=columns)
            )

    def masked_input(
        self,
        bundle: ShareBundle,
        vector: NDArray[Any],
        *,
        weight: int = 1,
        model: bytes = b"",
        out: NDArray[np.uint8] | None = None,
    ) -> MaskedInput:
        """Round 2: decrypt the peers' shares, then send the vector under the self and pair masks.

        A peer whose ciphertext does not open stays in the sum; its share is reported missing.

        Parameters
        ----------
        bundle : ShareBundle
            The ciphertexts that the server relays; they define U2.
        vector : (dim,) array of numbers
            This client's numbers, as ``params.encoding`` declares them.
        weight : int
            This client's weight, 0 to ``max_weight``, where the round is weighted.
        model : bytes
            Digest of the shared parameters that this client was given, 32 bytes
            (:func:`model_digest`), or empty. Clients that were given different ones add masks that
            do not cancel: a server which shows one client another model gets noise.
        out : (MaskedInput.size(params),) uint8 array, optional
            Receives the encoded message, tile by tile, so that neither `vector` nor the message
            need fit in memory: both may be memory maps. After an error its bytes must not be sent.

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
            If the cohort or the holders became too few.
        """
        with self._handling(bundle, ShareBundle, MaskedInput) as (bundle, earlier):
            if earlier is not None:
                return earlier
            params, memory = self._params, self._memory
            refuse_masked("vector", vector)
            try:
                values = np.asarray(vector)
            except ValueError:  # NumPy's for lists of unequal lengths
                raise UsageError("vector", "ragged lists", f"a ({params.dim},) array") from None
            if values.shape != (params.dim,):
                raise UsageError(
                    "vector", f"shape {values.shape}", f"({params.dim},), as params.dim says"
                )
            check_model(model)
            encoded = None
            if out is None:  # else it is encoded as it is written
                encoded = params.encoding.encode(
                    values, weight=weight, clients=params.clients, entropy=self._entropy
                )
            checks.cohort_is_large_enough(bundle.cohort, self._policy, params, bundle.round)
            checks.bitmap_covers_roster(bundle.present, len(memory.members), bundle.round)
            held, opened = client_work.open_shares(memory, bundle)
            holders, own_slot = bundle.present.copy(), memory.own_slot
            if own_slot is not None:
                checks.no_ciphertext_to_self(holders, own_slot)
                holders[own_slot] = opened[own_slot] = True
                held[own_slot] = memory.own_shares
            named = int(bundle.present.sum()) + 1
            checks.cohort_matches_set(bundle.cohort, named, own_slot is not None, bundle.round)
            checks.enough_holders(int(opened.sum()), params, bundle.round)
            checks.threshold_exceeds_equivocation(int(holders.sum()), params, self._policy)
            memory.held, memory.opened, memory.holders = held, opened, holders
            memory.model = model
            masks = client_work.mask_streams(memory, params, bundle.present, model)
            shell = MaskedInput(
                tag=self._tag,
                bits=params.modulus_bits,
                vector=np.zeros(0, params.word),
                signature=self._sign_if(params.views_signed, checks.sharer_statement),
            )
            if encoded is None:
                message, memory.clipped = client_work.write_input(
                    params, values, masks, out, shell, weight=weight, entropy=self._entropy
                )
            else:
                message = client_work.mask_input(params, encoded.words, masks, shell)
                memory.clipped = encoded.clipped
            memory.forget_mask_secrets()
            return self._reply(bundle, message)

    def consistency_check(self, survivors: SurvivorSet) -> ConsistencySignature:
        """Round 3 (where messages are signed): sign what the server shows of who survived.

        Returns
        -------
        ConsistencySignature

        Raises
        ------
        PeerError
            If the set names a peer outside U2 or leaves this client out.
        Abort
            If the cohort is below the policy's minimum or fewer than t could answer.
        """
        with self._handling(survivors, SurvivorSet, ConsistencySignature) as (survivors, earlier):
            if earlier is not None:
                return earlier
            checks.survivors_are_acceptable(survivors, self._memory, self._params, self._policy)
            self._memory.survivors = survivors.survivors
            signature = self._sign_if(True, checks.own_statement)
            return self._reply(survivors, ConsistencySignature(tag=self._tag, signature=signature))

    def unmasking(self, message: SurvivorSet | SignatureSet) -> UnmaskShares:
        """Round 4: one share of each peer: of its self mask if it survived, else of its mask key.

        It is answered for one survivor set only; the same set again gets the same bytes.

        Parameters
        ----------
        message : SurvivorSet or SignatureSet
            The survivor set; where messages are signed, who signed it (complete graph), or which
            neighbours signed that they were told this client survived (sparse graph).

        Returns
        -------
        UnmaskShares

        Raises
        ------
        PeerError
            If the set names a peer outside U2, leaves this client out, or is a second, other one;
            or if a signature is not over the sets that this client saw.
        Abort
            If the cohort is below the policy's minimum, or fewer than t survived or signed.
        """
        signed = self._params.signed or isinstance(message, SignatureSet)
        expected = SignatureSet if signed else SurvivorSet  # what does not fit, the table refuses
        with self._handling(message, expected, UnmaskShares) as (message, earlier):
            if earlier is not None:
                return earlier
            memory = self._memory
            known = np.ones(len(memory.members), np.bool_)
            if isinstance(message, SignatureSet):
                known = checks.signatures_are_acceptable(
                    message, memory, self._params, self._policy
                )
            else:
                checks.survivors_are_acceptable(message, memory, self._params, self._policy)
                memory.survivors = message.survivors
            kind = memory.survivors.astype(np.intp)  # 0: the mask key's seed, 1: the self mask's
            chosen = memory.held[np.arange(len(kind)), kind]
            given = memory.opened & (known | ~memory.survivors)
            chosen[~given] = 0
            holders = memory.holders
            memory.forget_shares()
            return self._reply(
                message,
                UnmaskShares(tag=self._tag, shares=chosen[holders], missing=~given[holders]),
            )

    def dump_state(self) -> bytes:
        """Return the whole state, **secrets included**, so that another process can go on.

        Store it as you would a private key, and delete it after the round. Going on twice from one
        state would answer unmasking twice, which the guarantee does not survive. The identity is
        not in it.
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

    def _sign(self, statement: bytes) -> bytes:
        return b"" if self._identity is None else self._identity.sign(statement)

    def _sign_if(self, needed: bool, statement: Callable[[ClientMemory, Params], bytes]) -> bytes:
        return self._sign(statement(self._memory, self._params)) if needed else b""
