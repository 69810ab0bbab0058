"""What no client can see alone: messages of one kind that differ from client to client.

Each message is compared with what the others were shown and with what was really sent.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from privagg import keys
from privagg.attacks.secagg_findings import Finding
from privagg.attacks.secagg_replay import Record
from privagg.attacks.secagg_shadow import Shadow
from privagg.protocols.secagg import layout
from privagg.protocols.secagg.messages import (
    AdvertiseKeys,
    ConsistencySignature,
    GraphChallenge,
    GraphRequest,
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
from privagg.protocols.secagg.thresholds import Graph

__all__ = ["Comparison"]

_M = TypeVar("_M", bound=Message)


class Comparison:
    """All clients' messages side by side.

    Attributes
    ----------
    findings : list of Finding
        What differs.
    advertised : (clients, 64) uint8 array
        The keys that each client sent; zero where none.
    has_keys : (clients,) bool array
        Who sent some.
    spoiled : set of (sender, receiver)
        Ciphertexts that did not arrive as they were sent.
    """

    def __init__(self, record: Record) -> None:
        clients = record.rules.params.clients
        self.record = record
        self.findings: list[Finding] = []
        self.spoiled: set[tuple[int, int]] = set()
        self.advertised = np.zeros((clients, layout.BOTH_KEYS), np.uint8)
        self.has_keys = np.zeros(clients, np.bool_)
        for client, shadow in record.shadows.items():
            sent = shadow.has_said(AdvertiseKeys)
            if sent is not None:
                pair = np.frombuffer(sent.cipher_key + sent.mask_key, np.uint8)
                self.advertised[client], self.has_keys[client] = pair, True
        self._repeated_keys()
        self._starts()
        self._graphs()
        self._rosters()
        self._bundles()
        self._survivors()
        self._signatures()

    def keys_replaced(self, shadow: Shadow) -> NDArray[np.bool_]:
        """Return, (members, 2), whose c and s keys this client was shown are not their own."""
        roster = shadow.was_shown(KeyRoster)
        if roster is None:
            return np.zeros((0, 2), np.bool_)
        rows = (len(roster.members), 2, keys.KEY_BYTES)
        own = self.advertised[roster.members].reshape(rows)
        replaced: NDArray[np.bool_] = (roster.keys.reshape(rows) != own).any(axis=2)
        return replaced | ~self.has_keys[roster.members, np.newaxis]

    def _each(self, kind: type[_M]) -> list[tuple[Shadow, _M]]:
        pairs = ((one, one.was_shown(kind)) for _, one in sorted(self.record.shadows.items()))
        return [(shadow, message) for shadow, message in pairs if message is not None]

    def _note(
        self,
        kind: str,
        round: str,
        detail: str,
        clients: Iterable[int],
        of: type[Message],
        caught: bool | None = None,
    ) -> None:
        concerned = tuple(sorted(set(clients)))
        shadows = self.record.shadows
        if caught is None:
            caught = not any(map(self._unmasked, concerned))
        self.findings.append(
            Finding(
                kind=kind,
                peer="server",
                round=round,
                detail=detail,
                clients=concerned,
                caught=caught,
                messages=tuple(sorted(shadows[c].at[of] for c in concerned if of in shadows[c].at)),
            )
        )

    def _unmasked(self, client: int) -> bool:
        """Say whether a client went on to the end, and gave its shares."""
        shadow = self.record.shadows.get(client)
        return shadow is not None and UnmaskShares in shadow.said

    def _differ(
        self, kind: str, round: str, what: str, values: Mapping[int, object], of: type[Message]
    ) -> None:
        """Note the clients that were shown something else than most."""
        counts = Counter(values.values())
        if len(counts) > 1:
            usual = counts.most_common(1)[0][0]
            others = [client for client, value in values.items() if value != usual]
            self._note(kind, round, f"{what}, {len(counts)} of them", others, of)

    def _repeated_keys(self) -> None:
        owners: dict[bytes, list[int]] = defaultdict(list)
        for client in map(int, np.flatnonzero(self.has_keys)):
            for key in {row.tobytes() for row in self.advertised[client].reshape(2, -1)}:
                owners[key].append(client)
        for several in owners.values():
            first, *others = sorted(several, key=lambda c: self.record.shadows[c].at[AdvertiseKeys])
            for other in others:
                detail = f"a public key that client {first} had advertised"
                at = self.record.shadows[other].at[AdvertiseKeys]
                self.findings.append(
                    Finding(
                        kind="key-repeated",
                        peer=other,
                        round=AdvertiseKeys.round,
                        detail=detail,
                        clients=(first, other),
                        seen_by="server",
                        caught=not self._listed(other),
                        messages=(at,),
                    )
                )

    def _listed(self, client: int) -> bool:
        return any(client in roster.members for _, roster in self._each(KeyRoster))

    def _starts(self) -> None:
        values = {
            shadow.index: (start.session, start.round_number, start.params_digest)
            for shadow, start in self._each(Start)
        }
        what = "sessions, round numbers or parameters that differ"
        self._differ("different-starts", Start.round, what, values, Start)

    def _graphs(self) -> None:
        asked: dict[int, dict[int, object]] = defaultdict(dict)
        drawn: dict[int, dict[int, object]] = defaultdict(dict)
        for client, shadow in sorted(self.record.shadows.items()):
            attempt = 0
            for message in shadow.draws:
                if isinstance(message, GraphChallenge):
                    drawn[attempt][client] = (message.root, message.present.tobytes())
                    continue
                attempt = message.attempt
                asked[attempt][client] = (message.key_root, message.present.tobytes())
                silent = np.flatnonzero(message.present & ~self.has_keys)
                if len(silent):
                    detail = f"client {int(silent[0])} is among those with keys and sent none"
                    self._note("invented-client", message.round, detail, [client], GraphRequest)
        for values in asked.values():
            what = "roots over the keys, or cohorts, that differ"
            self._differ("different-graphs", GraphRequest.round, what, values, GraphRequest)
        for values in drawn.values():
            what = "roots over the commitments, or cohorts, that differ"
            self._differ("different-graphs", GraphChallenge.round, what, values, GraphChallenge)

    def _rosters(self) -> None:
        complete = self.record.rules.params.graph is Graph.COMPLETE
        values: dict[int, object] = {}
        shown_to: dict[tuple[str, int], list[int]] = defaultdict(list)
        for shadow, roster in self._each(KeyRoster):
            everything: tuple[object, ...] = (roster.cohort, roster.digest)
            if complete:
                everything += (roster.members.tobytes(), roster.keys.tobytes())
            values[shadow.index] = everything
            replaced = self.keys_replaced(shadow).any(axis=1)
            for member in map(int, roster.members[replaced]):
                kind = "altered-keys" if self.has_keys[member] else "invented-client"
                shown_to[kind, member].append(shadow.index)
            self._inflated(roster.cohort, AdvertiseKeys, shadow.index, roster)
        self._differ("different-rosters", KeyRoster.round, "rosters that differ", values, KeyRoster)
        for (kind, member), clients in shown_to.items():
            detail = f"keys of client {member} that are not its own"
            if kind == "invented-client":
                detail = f"keys of client {member}, which advertised none"
            self._note(kind, KeyRoster.round, detail, clients, KeyRoster)
        if not complete:
            self._one_sided_edges()

    def _one_sided_edges(self) -> None:
        neighbours = {
            shadow.index: set(map(int, roster.members)) for shadow, roster in self._each(KeyRoster)
        }
        for client, row in neighbours.items():
            for other in sorted(row):
                if client not in neighbours.get(other, {client}):
                    detail = f"client {client} has the neighbour {other}, not the reverse"
                    self._note(
                        "one-sided-edge", KeyRoster.round, detail, [client, other], KeyRoster
                    )

    def _inflated(self, cohort: int, kind: type[Message], client: int, message: Message) -> None:
        sent = len(self.record.have_said(kind))
        if cohort > sent:
            detail = f"a cohort of {cohort} where {sent} sent {kind.__name__}"
            self._note("cohort-inflated", message.round, detail, [client], type(message))

    def _bundles(self) -> None:
        told: dict[int, dict[int, object]] = defaultdict(dict)
        cohorts: dict[int, object] = {}
        for shadow, bundle in self._each(ShareBundle):
            members = shadow.memory.members
            if len(bundle.present) != len(members):
                continue
            cohorts[shadow.index] = bundle.cohort
            self._inflated(bundle.cohort, ShareKeys, shadow.index, bundle)
            columns = iter(bundle.ciphertexts)
            for member, present in zip(map(int, members), bundle.present, strict=True):
                if member != shadow.index:
                    told[member][shadow.index] = bool(present)
                if present:
                    self._relayed(member, shadow.index, next(columns).tobytes())
        what = "counts of who shared keys that differ"
        self._differ("different-sharers", ShareBundle.round, what, cohorts, ShareBundle)
        for member, values in told.items():
            what = f"client {member} shared its keys, or did not: answers that differ"
            self._differ("different-sharers", ShareBundle.round, what, values, ShareBundle)

    def _relayed(self, sender: int, receiver: int, ciphertext: bytes) -> None:
        shadow = self.record.shadows.get(sender)
        sent = None if shadow is None else shadow.has_said(ShareKeys)
        if shadow is None or sent is None:
            self.spoiled.add((sender, receiver))
            detail = f"a ciphertext of client {sender}, which sent none"
            self._note("invented-client", ShareBundle.round, detail, [receiver], ShareBundle)
            return
        peers = shadow.memory.members[shadow.memory.members != sender]
        if len(sent.ciphertexts) != len(peers):
            self.spoiled.add((sender, receiver))  # the sender's fault: whose each is, is unknown
            return
        at = np.flatnonzero(peers == receiver)
        if not len(at) or sent.ciphertexts[at[0]].tobytes() != ciphertext:
            self.spoiled.add((sender, receiver))
            detail = f"a ciphertext of client {sender} that it did not send"
            self._note("altered-ciphertext", ShareBundle.round, detail, [receiver], ShareBundle)

    def _survivors(self) -> None:
        told: dict[int, dict[int, object]] = defaultdict(dict)
        cohorts: dict[int, object] = {}
        active = self.record.rules.params.signed
        round = "consistency-check" if active else SurvivorSet.round
        inputs = set(self.record.have_said(MaskedInput))
        held: dict[int, set[int]] = defaultdict(set)
        first = min((s.at[SurvivorSet] for s, _ in self._each(SurvivorSet)), default=0)
        for shadow, message in self._each(SurvivorSet):
            members = shadow.memory.members
            if len(message.survivors) != len(members):
                continue
            cohorts[shadow.index] = message.cohort
            self._inflated(message.cohort, MaskedInput, shadow.index, message)
            for member, alive in zip(map(int, members), message.survivors, strict=True):
                told[member][shadow.index] = bool(alive)
                if alive and member not in inputs:
                    detail = f"client {member} is called a survivor and sent no input"
                    self._note("invented-client", round, detail, [shadow.index], SurvivorSet)
            for member in map(int, members[shadow.memory.holders]):
                held[member].add(shadow.index)
        what = "cohorts of different sizes"
        self._differ("different-survivors", round, what, cohorts, SurvivorSet)
        for member, values in told.items():
            what = f"client {member} survived, or did not: answers that differ"
            self._differ("different-survivors", round, what, values, SurvivorSet)
            asked = {alive for client, alive in values.items() if client in held[member]}
            if len(asked) > 1:
                detail = f"its holders were asked for both kinds of share of client {member}"
                told_it = {client: values[client] for client in held[member]}
                given = {alive for client, alive in told_it.items() if self._unmasked(client)}
                self._note(
                    *("both-kinds", round, detail, held[member], SurvivorSet),
                    caught=len(given) < 2,
                )
            at = self.record.shadows[member].at.get(MaskedInput, first) if member in inputs else 0
            if member in inputs and not any(values.values()) and at < first:
                detail = f"the input of client {member} came in time and is not in the sum"
                self._note("left-out", round, detail, [member], MaskedInput)

    def _signatures(self) -> None:
        values: dict[int, object] = {}
        for shadow, message in self._each(SignatureSet):
            values[shadow.index] = (message.signers.tobytes(), message.signatures.tobytes())
            members = shadow.memory.members
            if len(message.signers) != len(members):
                continue
            signers = map(int, members[message.signers])
            for signer, signature in zip(signers, message.signatures, strict=True):
                owner = self.record.shadows.get(signer)
                sent = None if owner is None else owner.has_said(ConsistencySignature)
                if sent is None or sent.signature != signature.tobytes():
                    detail = f"a signature of client {signer} that it did not send"
                    self._note(
                        "altered-signature", message.round, detail, [shadow.index], SignatureSet
                    )
        if self.record.rules.params.graph is Graph.COMPLETE:  # else each is shown its neighbours'
            what = "sets of signatures that differ"
            self._differ("different-signatures", SignatureSet.round, what, values, SignatureSet)
