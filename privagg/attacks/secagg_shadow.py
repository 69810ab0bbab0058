"""One client as the traffic shows it: what it was shown, what it said, what it had to check.

A shadow holds no secret. It runs the client's own checks (:mod:`privagg.protocols.secagg.checks`)
on what the server sent, and the server's on what the client sent, as far as public bytes allow:
only whether a ciphertext opens is known to its receiver alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from privagg import entropy, keys
from privagg.errors import Abort, PeerError
from privagg.protocols.secagg import checks, client_graph, derivations, layout
from privagg.protocols.secagg.client_state import ClientMemory
from privagg.protocols.secagg.identity import Directory
from privagg.protocols.secagg.messages import (
    AdvertiseKeys,
    ConsistencySignature,
    GraphChallenge,
    GraphCommitment,
    GraphRequest,
    GraphReveal,
    KeyRoster,
    MaskedInput,
    Message,
    ShareBundle,
    ShareKeys,
    SignatureSet,
    Start,
    SurvivorSet,
    UnmaskShares,
)
from privagg.protocols.secagg.params import Params, Policy
from privagg.protocols.secagg.thresholds import Threat

__all__ = ["Fault", "Rules", "Shadow"]

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A check that failed: its name in :data:`secagg_findings.DEVIATIONS`, who, and why.

    `fatal` says that what follows cannot be read against it: the sets do not fit together.
    """

    kind: str
    peer: int | str
    reason: str
    fatal: bool = False


class _Memo:
    """A directory that verifies each signature once, however many clients were shown it."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._known: dict[tuple[int, bytes, bytes], bool] = {}

    def __len__(self) -> int:
        return len(self._directory)

    def verify(self, client: int, message: bytes, signature: bytes) -> bool:
        key = (client, message, signature)
        if key not in self._known:
            self._known[key] = self._directory.verify(client, message, signature)
        return self._known[key]

    def digest(self) -> bytes:
        return self._directory.digest()


class Rules:
    """What every client of the round holds to, and what was already checked for one of them.

    Parameters
    ----------
    params : Params
        The round.
    roster : Directory, optional
        The identities by which messages are signed, where they are.
    model : bytes
        Digest of the shared parameters, or empty.
    """

    def __init__(self, params: Params, roster: Directory | None, model: bytes) -> None:
        self.params = params
        self.directory = _Memo(roster) if params.signed and roster is not None else None
        self.policy = Policy.of(params, self.directory)
        self.identities = b"" if self.directory is None else self.directory.digest()
        self.model = model
        self._rosters: dict[tuple[bytes, int], list[Fault]] = {}

    def keys_of(self, roster: KeyRoster, context: bytes) -> list[Fault]:
        """Return what is wrong with a roster's keys and signatures; one object is judged once.

        Parameters
        ----------
        roster : KeyRoster
            The roster as a client was shown it.
        context : bytes
            The 32 bytes that session, round and parameters give.
        """
        place = (context, id(roster))
        if place not in self._rosters:
            faults = []
            for kind, check, args in (
                ("key-malformed", checks.keys_are_canonical, (roster,)),
                ("key-malformed", checks.keys_have_full_order, (roster,)),
                ("bad-signature", checks.keys_are_signed, (roster, context, self.directory)),
            ):
                if kind != "bad-signature" or self.directory is not None:
                    faults += list(_run(kind, check, *args))
            self._rosters[place] = faults
        return self._rosters[place]


def _run(
    kind: str, check: Callable[..., object], *args: Any, fatal: bool = False
) -> Iterator[Fault]:
    try:
        check(*args)
    except PeerError as error:
        yield Fault(kind=kind, peer=error.peer, reason=error.reason, fatal=fatal)
    except Abort as abort:
        reason = f"{abort.reason}: {abort.alive}, where {abort.needed} are needed"
        yield Fault(kind="cohort-too-small", peer="server", reason=reason, fatal=fatal)


@dataclass
class Shadow:
    """One client; `shown` and `said` hold the messages, `at` their numbers in the transcript.

    The graph may be drawn several times: `draws` has what was shown each time.
    """

    index: int
    rules: Rules
    memory: ClientMemory = field(default_factory=ClientMemory)
    shown: dict[type[Message], Message] = field(default_factory=dict)
    said: dict[type[Message], Message] = field(default_factory=dict)
    at: dict[type[Message], int] = field(default_factory=dict)
    draws: list[GraphRequest | GraphChallenge] = field(default_factory=list)
    lost: bool = False

    def was_shown(self, kind: type[_M]) -> _M | None:
        """Return what the server sent of that kind.

        Parameters
        ----------
        kind : type of Message
            A class of messages.
        """
        message = self.shown.get(kind)
        return message if isinstance(message, kind) else None

    def has_said(self, kind: type[_M]) -> _M | None:
        """Return what the client sent of that kind.

        Parameters
        ----------
        kind : type of Message
            A class of messages.
        """
        message = self.said.get(kind)
        return message if isinstance(message, kind) else None

    @property
    def tag(self) -> bytes:
        """What marks the messages of this client's round; empty before it starts."""
        return self.memory.context[: layout.TAG_BYTES]

    def judge(self, message: Message) -> list[Fault]:
        """Take a message in order; return what is wrong with it.

        After a fatal fault the shadow is `lost`: nothing later can be judged.

        Returns
        -------
        list of Fault
            Empty if the message is as it should be.
        """
        rule = _JUDGES.get(type(message))
        faults = [] if rule is None else list(rule(self, message))
        self.lost = any(fault.fatal for fault in faults)
        return faults

    def _start(self, start: Start) -> Iterator[Fault]:
        params, memory = self.rules.params, self.memory
        yield from _run("different-starts", checks.parameters_are_ours, start, params)
        if start.client != self.index:
            reason = f"the index {start.client} was given to client {self.index}"
            yield Fault(kind="different-starts", peer="server", reason=reason)
        memory.index = self.index
        memory.context = derivations.context(
            params, start.session, start.round_number, self.rules.identities
        )

    def _advertised(self, message: AdvertiseKeys) -> Iterator[Fault]:
        pair = (message.cipher_key, message.mask_key)
        rows = np.frombuffer(b"".join(pair), np.uint8).reshape(2, -1)
        if not keys.canonical_points(rows).all() or any(map(keys.is_low_order, pair)):
            reason = "a public key of low order or not canonically encoded"
            yield Fault(kind="key-malformed", peer=self.index, reason=reason)
        if pair[0] == pair[1]:
            reason = "one public key for both purposes"
            yield Fault(kind="key-repeated", peer=self.index, reason=reason)
        statement = derivations.advertise_statement(self.memory.context, self.index, *pair)
        directory = self.rules.directory
        if directory and not directory.verify(self.index, statement, message.signature):
            reason = "keys that its identity has not signed for this round"
            yield Fault(kind="bad-signature", peer=self.index, reason=reason)

    def _request(self, request: GraphRequest) -> Iterator[Fault]:
        self.draws.append(request)
        count, rules = int(request.present.sum()), self.rules
        sizes = (count, rules.policy, rules.params, request.round)
        yield from _run("cohort-too-small", checks.cohort_is_large_enough, *sizes)
        # The opening that this draws is not the client's: that one comes with its reveal.
        source = entropy.from_seed(0)
        yield from _run("bad-graph", client_graph.commit, self.memory, request, source, fatal=True)

    def _challenge(self, challenge: GraphChallenge) -> Iterator[Fault]:
        self.draws.append(challenge)
        count, rules = int(challenge.present.sum()), self.rules
        sizes = (count, rules.policy, rules.params, challenge.round)
        yield from _run("cohort-too-small", checks.cohort_is_large_enough, *sizes)
        yield from _run("bad-graph", client_graph.reveal, self.memory, challenge, fatal=True)

    def _revealed(self, message: GraphReveal) -> Iterator[Fault]:
        memory = self.memory
        memory.opening = message.opening
        found = derivations.graph_commitment(
            memory.context, memory.key_root, self.index, message.opening
        )
        committed = self.has_said(GraphCommitment)
        if committed is None or committed.commitment != found:
            reason = "an opening that is not what it committed to"
            yield Fault(kind="bad-opening", peer=self.index, reason=reason)

    def _roster(self, roster: KeyRoster) -> Iterator[Fault]:
        params, memory, policy = self.rules.params, self.memory, self.rules.policy
        own = self.has_said(AdvertiseKeys)
        yield from _run(
            "cohort-too-small",
            checks.cohort_is_large_enough,
            *(roster.cohort, policy, params, roster.round),
        )
        count = len(roster.members)
        yield from _run("cohort-too-small", checks.enough_holders, count, params, roster.round)
        if own is not None:
            pair = (own.cipher_key, own.mask_key)
            yield from _run("own-keys", checks.own_keys_are_listed, roster, self.index, pair)
            yield from _run("key-repeated", checks.keys_are_distinct, roster, pair)
        yield from self.rules.keys_of(roster, memory.context)
        if params.threat is Threat.SEMI_MALICIOUS:
            faults = list(_run("bad-graph", client_graph.verify, memory, params, roster))
            yield from faults
            memory.roster = client_graph.roster_of(
                memory.context, memory.key_root, memory.graph_root
            )
        else:
            memory.roster = roster.digest or derivations.roster_digest(
                memory.context, roster.members, roster.keys
            )
        memory.members = roster.members

    def _shared(self, message: ShareKeys) -> Iterator[Fault]:
        peers = int((self.memory.members != self.index).sum())
        if len(message.ciphertexts) != peers:
            reason = f"{len(message.ciphertexts)} ciphertexts for {peers} peers"
            yield Fault(kind="wrong-count", peer=self.index, reason=reason, fatal=True)

    def _bundle(self, bundle: ShareBundle) -> Iterator[Fault]:
        params, memory, policy = self.rules.params, self.memory, self.rules.policy
        round, present, members = bundle.round, bundle.present, len(memory.members)
        sizes = (bundle.cohort, policy, params, round)
        yield from _run("cohort-too-small", checks.cohort_is_large_enough, *sizes)
        covers = (present, members, round)
        if faults := list(_run("bad-set", checks.bitmap_covers_roster, *covers, fatal=True)):
            yield from faults
            return
        holders, own_slot = present.copy(), memory.own_slot
        if own_slot is not None:
            yield from _run("bad-set", checks.no_ciphertext_to_self, holders, own_slot)
            holders[own_slot] = True
        named = int(present.sum()) + 1
        sets = (bundle.cohort, named, own_slot is not None, round)
        yield from _run("bad-set", checks.cohort_matches_set, *sets)
        count = int(holders.sum())
        yield from _run("cohort-too-small", checks.enough_holders, count, params, round)
        memory.holders = holders
        memory.model = self.rules.model

    def _masked(self, message: MaskedInput) -> Iterator[Fault]:
        directory, params = self.rules.directory, self.rules.params
        if directory is None or not params.views_signed:
            return
        statement = checks.sharer_statement(self.memory, params)
        if not directory.verify(self.index, statement, message.signature):
            reason = "a signature that is not over the ciphertexts it was shown"
            yield Fault(kind="bad-signature", peer=self.index, reason=reason)

    def _survivors(self, message: SurvivorSet) -> Iterator[Fault]:
        rules, memory = self.rules, self.memory
        fits = len(message.survivors) == len(memory.members)
        sets = (message, memory, rules.params, rules.policy)
        yield from _run("bad-set", checks.survivors_are_acceptable, *sets, fatal=not fits)
        memory.survivors = message.survivors

    def _checked(self, message: ConsistencySignature) -> Iterator[Fault]:
        directory = self.rules.directory
        if directory and not directory.verify(self.index, self.statement(), message.signature):
            reason = "a signature that is not over the sets (and the model) it was shown"
            yield Fault(kind="bad-signature", peer=self.index, reason=reason)

    def _signatures(self, message: SignatureSet) -> Iterator[Fault]:
        rules, memory = self.rules, self.memory
        if rules.params.views_signed and len(memory.places) != len(memory.members):
            return  # its graph was refused, so that it cannot place itself in the others' views
        sets = (message, memory, rules.params, rules.policy)
        yield from _run("bad-signature", checks.signatures_are_acceptable, *sets)

    def _unmasked(self, message: UnmaskShares) -> Iterator[Fault]:
        expected = int(self.memory.holders.sum())
        if len(message.shares) != expected:
            reason = f"{len(message.shares)} shares for {expected} secrets of its peers"
            yield Fault(kind="wrong-count", peer=self.index, reason=reason, fatal=True)

    def statement(self) -> bytes:
        """Return what this client signs of the sets that it was shown."""
        return checks.own_statement(self.memory, self.rules.params)


_JUDGES: dict[type[Message], Callable[[Shadow, Any], Iterator[Fault]]] = {
    Start: Shadow._start,
    AdvertiseKeys: Shadow._advertised,
    GraphRequest: Shadow._request,
    GraphChallenge: Shadow._challenge,
    GraphReveal: Shadow._revealed,
    KeyRoster: Shadow._roster,
    ShareKeys: Shadow._shared,
    ShareBundle: Shadow._bundle,
    MaskedInput: Shadow._masked,
    SurvivorSet: Shadow._survivors,
    ConsistencySignature: Shadow._checked,
    SignatureSet: Shadow._signatures,
    UnmaskShares: Shadow._unmasked,
}
"""Of each message that can be wrong by itself: who judges it."""
