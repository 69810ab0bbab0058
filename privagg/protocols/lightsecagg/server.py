"""The server: collects each round, relays, and unmasks the sum in one shot. No I/O.

J. So et al., LightSecAgg, MLSys 2022 (arXiv:2109.14236).

Per round it takes the clients' messages by :meth:`Server.receive`, in any order and repeated at
will; :meth:`Server.close` ends the round with whoever has answered, and :meth:`Server.message_for`
gives what each client gets next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg import field as fields
from privagg.encoding import Aggregate
from privagg.entropy import OS, Entropy
from privagg.errors import Abort, PeerError, PrivaggError, UsageError
from privagg.protocols._common.collecting import CollectingServer
from privagg.protocols._common.framing import SESSION_BYTES
from privagg.protocols.lightsecagg import derivations
from privagg.protocols.lightsecagg.checks import check_params
from privagg.protocols.lightsecagg.client import check_model
from privagg.protocols.lightsecagg.messages import (
    AdvertiseKeys,
    CodedSum,
    ConsistencySignature,
    KeyRoster,
    MaskedInput,
    Message,
    ShareBundle,
    ShareMasks,
    SignatureSet,
    Start,
    SurvivorSet,
)
from privagg.protocols.lightsecagg.params import Params
from privagg.protocols.lightsecagg.recovery import Blame, recover
from privagg.protocols.lightsecagg.server_blame import blame_of
from privagg.protocols.lightsecagg.server_store import Store
from privagg.protocols.lightsecagg.states import SEQUENCES, SERVER_TABLE, Phase, Receipt
from privagg.protocols.secagg.identity import Directory

__all__ = ["Receipt", "Server"]


class Server(CollectingServer[Phase, Message, Start, Aggregate]):
    """The server of one round.

    It learns the sum over the survivors, who took part, and when; no input. What it is trusted with
    is ``params.threat``; what clients check of it is in
    :mod:`privagg.protocols.lightsecagg.checks`. Memory: the sum, never a vector per client; while
    shares are relayed, all of them (``N (N - 1) ceil(d / (U - T))`` elements, encrypted), and at
    the end a coded sum per answer.

    Parameters
    ----------
    params : Params
        Agreed parameters of the round.
    roster : Directory, optional
        The clients' identities; required where messages are signed.
    session : bytes, optional
        16 bytes that name the session; drawn from `entropy` if left out.
    round_number : int
        Number of the round within the session.
    model : bytes
        Digest of the shared parameters that all clients were given, 32 bytes or empty; only where
        messages are signed.
    entropy : Entropy
        Source of the session, and of the combinations by which answers are checked.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    _params: Params
    _message, _start, _due = Message, Start, SERVER_TABLE

    def __init__(
        self,
        params: Params,
        *,
        roster: Directory | None = None,
        session: bytes | None = None,
        round_number: int = 0,
        model: bytes = b"",
        entropy: Entropy = OS,
    ) -> None:
        check_params(params)
        if not isinstance(entropy, Entropy):
            raise UsageError("entropy", type(entropy).__name__, "an Entropy, such as entropy.OS")
        check_model(model, params)
        if params.signed and not (isinstance(roster, Directory) and len(roster) == params.clients):
            raise UsageError(
                "roster",
                "none" if roster is None else type(roster).__name__,
                f"the identities of {params.clients} clients, where the threat model is "
                f"{params.threat.value}",
            )
        if roster is not None and not isinstance(roster, Directory):
            raise UsageError("roster", type(roster).__name__, "a Roster or a Directory, or None")
        if session is None:
            session = entropy.take(SESSION_BYTES)
        super().__init__(params, SEQUENCES[params.threat], session, round_number)
        self._entropy, self._model = entropy, model
        directory = roster if params.signed else None
        identities = b"" if directory is None else directory.digest()
        self._context = derivations.context(params, session, self._round_number, identities)
        self._store = Store(params, directory)
        self._roster = b""
        self._blame: tuple[Blame, ...] = ()

    @property
    def blame(self) -> tuple[Blame, ...]:
        """Wrong coded sums and missing shares that the round survived, and whose they may be."""
        return self._blame

    def close(self) -> Phase:
        """End the round being collected with those who answered, and go to the next.

        Returns
        -------
        Phase
            What is collected now; after unmasking ``Phase.DONE``: :meth:`result` is ready.

        Raises
        ------
        Abort
            If too few are left to go on. No sum that would reveal anything has been asked for.
        PeerError
            If more coded sums are wrong than can be corrected, a dealer's shares do not open, or no
            inputs have this sum.
        UsageError
            If all weights are zero, so that there is no mean. The round is over then, too.
        """
        phase = self._phase
        if phase in (Phase.DONE, Phase.ABORTED):
            raise UsageError("close", f"a server that is {phase.title}", "an open one")
        try:
            self._enough_are_left(phase)
            if phase is Phase.ADVERTISE_KEYS:
                members = self._members()
                rows = self._store.keys[members]
                self._roster = derivations.roster_digest(self._context, members, rows)
            elif phase is Phase.MASKED_INPUT:
                self._store.ciphertexts = {}
                self._blame = blame_of(self._store.missing, self._params)
            elif phase is Phase.UNMASKING:
                self._recover()
        except PrivaggError:
            self._phase = Phase.ABORTED
            self._store.forget()
            raise
        self._phase = [*self._sequence, Phase.DONE][self._sequence.index(phase) + 1]
        return self._phase

    def message_for(self, client: int) -> Message:
        """Return what `client` gets in the round being collected.

        Raises
        ------
        UsageError
            If the client left in an earlier round, or the round is over.
        """
        client, phase = self._client_of_an_open_round(client), self._phase
        if phase is Phase.ADVERTISE_KEYS:
            return self.start(client)
        members = self._members()
        if phase is Phase.SHARE_MASKS:
            return KeyRoster(
                tag=self._tag,
                members=members,
                keys=self._store.keys[members],
                universe=self._params.clients,
                signatures=self._store.key_signatures[members] if self._params.signed else None,
            )
        if phase is Phase.MASKED_INPUT:
            return self._share_bundle(client, members)
        if phase is Phase.UNMASKING and self._params.signed:
            signers = self._here[Phase.CONSISTENCY_CHECK][members]
            signed = self._store.survivor_signatures[members[signers]]
            return SignatureSet(tag=self._tag, signers=signers, signatures=signed)
        flags = self._here[Phase.MASKED_INPUT][members]
        rows = self._store.input_signatures[members[flags]] if self._params.signed else None
        return SurvivorSet(tag=self._tag, survivors=flags, signatures=rows)

    def _members(self) -> NDArray[np.uint32]:
        """Return the roster: who advertised a key."""
        return np.flatnonzero(self._here[Phase.ADVERTISE_KEYS]).astype(np.uint32)

    def _able(self) -> NDArray[np.bool_]:
        """Return the survivors that hold a coded share of every survivor's mask."""
        survivors = self._here[Phase.MASKED_INPUT]
        return survivors & ~self._store.missing[:, survivors].any(axis=1)

    def _expected(self) -> NDArray[np.bool_]:
        if self._phase is Phase.UNMASKING:
            # Whoever is in the sum may answer, though its signature may have been lost.
            return self._able()
        return super()._expected()

    def _take(self, sender: int, message: Message) -> None:
        store, members = self._store, self._members()
        if isinstance(message, AdvertiseKeys):
            store.take_key(sender, message, self._context)
        elif isinstance(message, ShareMasks):
            store.take_ciphertexts(sender, message, len(members) - 1)
        elif isinstance(message, MaskedInput):
            shared = self._here[Phase.SHARE_MASKS][members]
            own = members == sender
            if len(message.missing) != len(members) or (message.missing & (~shared | own)).any():
                raise PeerError(
                    sender, message.round, "shares called missing that it was never to be given"
                )
            statement = derivations.input_statement(
                self._context, self._roster, self._model, sender
            )
            store.take_input(sender, message, statement, members)
        elif isinstance(message, ConsistencySignature):
            statement = derivations.survivor_statement(
                self._context,
                self._roster,
                self._model,
                members[self._here[Phase.SHARE_MASKS][members]],
                members[self._here[Phase.MASKED_INPUT][members]],
            )
            store.take_signature(sender, message, statement)
        elif isinstance(message, CodedSum):
            store.take_sum(sender, message)

    def _enough_are_left(self, phase: Phase) -> None:
        """Abort unless enough answered: the cohort, and U for the sums that will be needed."""
        params, alive = self._params, int(self._here[phase].sum())
        floor = max(params.min_cohort, params.threshold)
        if phase in (Phase.CONSISTENCY_CHECK, Phase.UNMASKING):
            floor = params.threshold  # the cohort of the sum was fixed in the round before
        if alive < floor:
            raise Abort(f"round {phase.title}: too few clients answered", alive, floor)
        if phase is Phase.MASKED_INPUT and int(self._able().sum()) < params.threshold:
            self._blame = blame_of(self._store.missing, params)
            for one in self._blame:
                if one.dealer is None or one.verdict != "dealer":
                    continue
                raise PeerError(
                    one.dealer,
                    phase.title,
                    "its coded shares did not open at more clients than may be corrupt",
                )
            raise Abort(
                f"round {phase.title}: too few hold a share of every mask",
                int(self._able().sum()),
                params.threshold,
            )

    def _share_bundle(self, client: int, members: NDArray[np.uint32]) -> ShareBundle:
        slot = int(np.searchsorted(members, client))
        present = self._here[Phase.SHARE_MASKS][members]
        present[slot] = False
        senders = [(int(members[at]), int(at)) for at in np.flatnonzero(present)]
        columns = self._store.ciphertexts_for(slot, senders)
        return ShareBundle(tag=self._tag, present=present, ciphertexts=columns)

    def _recover(self) -> None:
        """Decode the sum of the masks, take it off the sum of the masked vectors, and read it."""
        params, store = self._params, self._store
        holders = np.array(sorted(store.sums), np.intp)
        sums = np.stack([store.sums[int(holder)] for holder in holders])
        found = recover(params.code, sums, holders, params.length, self._entropy)
        self._blame += tuple(
            Blame(dealer=None, holder=int(holder), reason="wrong coded sum")
            for holder in holders[found.wrong]
        )
        words = fields.sub(store.total, found.masks, params.field)
        store.forget()
        count = int(self._here[Phase.MASKED_INPUT].sum())
        try:
            self._aggregate = params.encoding.decode(words, count=count)
        except UsageError as error:
            if not words.any():  # nobody's fault: zero is a weight
                raise
            raise PeerError(
                "some client",
                "unmasking",
                f"words outside the encoding, or a wrong coded sum: {error}",
            ) from None
