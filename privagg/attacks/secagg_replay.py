"""A transcript read again: every message decoded, in order, against the client it concerns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from privagg.attacks.secagg_findings import Finding
from privagg.attacks.secagg_shadow import Fault, Rules, Shadow
from privagg.errors import PeerError, UsageError
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.layout import KINDS, Message
from privagg.protocols.secagg.states import CLIENT_TABLES, SERVER_TABLE, ClientState, next_state
from privagg.protocols.secagg.transcript import Entry, Transcript

__all__ = ["REPLIES", "Record", "replay"]

_BY_NAME: dict[str, type[Message]] = {kind.__name__: kind for kind in KINDS.values()}

_S = ClientState
REPLIES: dict[ClientState, type[Message]] = {
    _S.ADVERTISED: messages.AdvertiseKeys,
    _S.COMMITTED: messages.GraphCommitment,
    _S.REVEALED: messages.GraphReveal,
    _S.SHARED: messages.ShareKeys,
    _S.MASKED: messages.MaskedInput,
    _S.CHECKED: messages.ConsistencySignature,
    _S.UNMASKED: messages.UnmaskShares,
}
"""What a client says in each state; its request has brought it there."""


@dataclass(frozen=True)
class Record:
    """What the replay found.

    Attributes
    ----------
    rules : Rules
        What the round was judged by.
    shadows : dict of int to Shadow
        The clients that occur, by index.
    findings : list of Finding
        What one message shows by itself.
    strangers : tuple of int
        Indices that the parameters do not have.
    """

    rules: Rules
    shadows: dict[int, Shadow]
    findings: list[Finding]
    strangers: tuple[int, ...]

    def have_said(self, kind: type[Message]) -> tuple[int, ...]:
        """Return the clients that sent such a message, ascending.

        Parameters
        ----------
        kind : type of Message
            A class of messages.
        """
        return tuple(i for i, shadow in sorted(self.shadows.items()) if kind in shadow.said)


def replay(transcript: Transcript, rules: Rules) -> Record:
    """Read a transcript with payloads.

    Raises
    ------
    UsageError
        If a message has no payload, or is filed under a name or a round that is not its own.
    """
    reader = _Replay(rules)
    for number, entry in enumerate(transcript, start=1):
        reader.take(number, entry)
    reader.settle()
    return Record(rules, reader.shadows, reader.findings, tuple(sorted(reader.strangers)))


class _Replay:
    """The state of a reading: a shadow per client, and what was found so far."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.table = CLIENT_TABLES[rules.params.threat]
        self.shadows: dict[int, Shadow] = {}
        self.states: dict[int, ClientState] = {}
        self.findings: list[Finding] = []
        self.strangers: set[int] = set()
        self.decoded: dict[tuple[type[Message], bytes], Message] = {}
        self.last_up: dict[int, int] = {}
        self.last_down: dict[int, int] = {}
        self.accepted: set[tuple[int, type[Message], bytes]] = set()
        self.pending: list[tuple[int, int, type[Message] | None, bool]] = []

    def take(self, number: int, entry: Entry) -> None:
        """Read one message."""
        kind, down = self._filed(number, entry), entry.sender == "server"
        client = entry.receiver if down else entry.sender
        if isinstance(client, str):
            raise UsageError(f"message {number}", "from server to server", "a client at one end")
        if client >= self.rules.params.clients:
            self.strangers.add(client)
            who = "server" if down else client
            detail = f"an index of {self.rules.params.clients} or more"
            self._note("unknown-client", who, entry, number, client, detail)
            return
        if (kind in SERVER_TABLE) is down:
            who = "server" if down else client
            self._note("out-of-order", who, entry, number, client, f"a {kind.__name__}")
            return
        shadow = self.shadows.setdefault(client, Shadow(client, self.rules))
        self.states.setdefault(client, ClientState.IDLE)
        data = entry.payload or b""
        if (client, kind, data) in self.accepted:
            return  # a retransmission, which changes nothing
        message = self._decode(kind, data, number, entry, client, down)
        if message is None:
            return
        if (self._down if down else self._up)(shadow, message, number, entry):
            self.accepted.add((client, kind, data))

    def settle(self) -> None:
        """Say of each finding whether it was caught, now that the end is known."""
        for place, client, instead, down in self.pending:
            finding = self.findings[place]
            last = (self.last_up if down else self.last_down).get(client, 0)
            # Whoever takes a message seriously goes on; or there was a good one in its place.
            caught = last <= finding.messages[0] or instead in self.shadows[client].said
            if not down and finding.round == messages.ConsistencySignature.round:
                # Without a signature one may still unmask: it must not count as a signer.
                caught |= not any(_lists(shadow, client) for shadow in self.shadows.values())
            self.findings[place] = replace(finding, caught=caught)

    def _filed(self, number: int, entry: Entry) -> type[Message]:
        """Check the transcript's own words about a message."""
        kind = _BY_NAME.get(entry.kind)
        if kind is None:
            raise UsageError(f"message {number}", entry.kind, "the name of a message")
        if entry.payload is None:
            raise UsageError(
                f"message {number}",
                "no payload",
                "a transcript with payloads",
                "Record it with --transcript-payloads, or Transcript(payloads=True).",
            )
        due = {kind.round}
        if kind is messages.SurvivorSet and self.rules.params.signed:
            due = {"consistency-check"}
        if entry.round not in due:
            raise UsageError(
                f"message {number}", f"a {entry.kind} in {entry.round}", " or ".join(due)
            )
        return kind

    def _decode(
        self, kind: type[Message], data: bytes, number: int, entry: Entry, client: int, down: bool
    ) -> Message | None:
        # One roster goes to all clients of the complete graph: it is read, and judged, once.
        known = self.decoded.get((kind, data)) if down else None
        if known is not None:
            return known
        try:
            message = kind.decode(data, self.rules.params, peer="server" if down else client)
        except PeerError as error:
            detail = f"{kind.__name__}: {error.reason}"
            instead = None if down else kind
            self._note(
                "garbage", error.peer, entry, number, client, detail, down=down, instead=instead
            )
            return None
        if down:
            self.decoded[kind, data] = message
        elif isinstance(message, messages.MaskedInput):
            # Its vector is long and says nothing.
            message = replace(message, vector=np.zeros(0, self.rules.params.word))
        return message

    def _down(self, shadow: Shadow, message: Message, number: int, entry: Entry) -> bool:
        client, kind = shadow.index, type(message)
        self.last_down[client] = number
        if shadow.lost:
            return False
        state = self.states[client]
        try:
            following = next_state(self.table, state, message)
        except PeerError as error:
            self._note("out-of-order", "server", entry, number, client, error.reason, down=True)
            return False
        if kind is messages.GraphRequest and state is ClientState.REVEALED:
            self._draw_again(shadow)
        elif following is state:
            detail = f"a second {kind.__name__} that differs"
            self._note("second-different", "server", entry, number, client, detail, down=True)
            return False
        if kind is not messages.Start and message.tag != shadow.tag:
            detail = f"{kind.__name__} with the tag of another round"
            self._note("other-round", "server", entry, number, client, detail, down=True)
            return False
        self.states[client] = following
        shadow.shown[kind] = message
        shadow.at[kind] = number
        for fault in shadow.judge(message):
            peer = self._culprit(fault, message)
            self._note(fault.kind, peer, entry, number, client, fault.reason, down=True)
        if kind is messages.Start and message.tag != shadow.tag:
            detail = "Start with the tag of another round"
            self._note("other-round", "server", entry, number, client, detail, down=True)
        return True

    def _up(self, shadow: Shadow, message: Message, number: int, entry: Entry) -> bool:
        client, kind = shadow.index, type(message)
        self.last_up[client] = number
        if shadow.lost:
            return False
        finding, detail = "", ""
        if kind in shadow.said:
            finding, detail = "second-different", f"a second {kind.__name__} that differs"
        elif REPLIES.get(self.states[client]) is not kind:
            detail = f"{kind.__name__} of a client that has {self.states[client].value}"
            finding = "out-of-order"
        elif message.tag != shadow.tag:
            finding, detail = "other-round", f"{kind.__name__} with the tag of another round"
        if finding:
            self._note(finding, client, entry, number, client, detail, down=False, instead=kind)
            return False
        shadow.said[kind] = message
        shadow.at[kind] = number
        for fault in shadow.judge(message):
            self._note(fault.kind, fault.peer, entry, number, client, fault.reason, down=False)
        return True

    def _draw_again(self, shadow: Shadow) -> None:
        for kind in (
            messages.GraphCommitment,
            messages.GraphReveal,
            messages.GraphRequest,
            messages.GraphChallenge,
        ):
            shadow.said.pop(kind, None)
            shadow.shown.pop(kind, None)

    def _culprit(self, fault: Fault, message: Message) -> int | str:
        """Blame a client for its keys in a roster only if they are the keys that it sent."""
        if not isinstance(fault.peer, int) or not isinstance(message, messages.KeyRoster):
            return fault.peer
        owner = self.shadows.get(fault.peer)
        sent = None if owner is None else owner.has_said(messages.AdvertiseKeys)
        if sent is None:
            return "server"
        at = int(np.searchsorted(message.members, fault.peer))
        same = message.keys[at].tobytes() == sent.cipher_key + sent.mask_key
        if message.signatures is not None:
            same &= message.signatures[at].tobytes() == sent.signature
        return fault.peer if same else "server"

    def _note(
        self,
        kind: str,
        peer: int | str,
        entry: Entry,
        number: int,
        client: int,
        detail: str,
        *,
        down: bool | None = None,
        instead: type[Message] | None = None,
    ) -> None:
        if down is not None:
            self.pending.append((len(self.findings), client, instead, down))
        self.findings.append(
            Finding(
                kind=kind,
                peer=peer,
                round=entry.round,
                detail=detail,
                clients=(client,),
                seen_by="client" if down else "server",
                messages=(number,),
            )
        )


def _lists(shadow: Shadow, client: int) -> bool:
    """Say whether this client was shown a signature of `client`."""
    shown, members = shadow.was_shown(messages.SignatureSet), shadow.memory.members
    if shown is None or len(shown.signers) != len(members):
        return False
    return client in members[shown.signers]
