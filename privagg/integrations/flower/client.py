"""The client side: one mod for both of Flower's models.

Every message of the protocol comes as a message of the type that the app registered (``train`` or
``evaluate``), with a record of ours in it; Flower refuses other types before mods are asked. Each
may run in a new process: between messages the client's state is in ``Context.state``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import cast

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict

from privagg import keyfiles, keys
from privagg.errors import Abort, PeerError, UsageError
from privagg.integrations.flower import contents, setup
from privagg.integrations.flower.ranges import Job, Ranges
from privagg.integrations.flower.settings import threat_of
from privagg.integrations.flower.setup import KEY, REASONS
from privagg.protocols import secagg
from privagg.protocols.secagg import (
    Client,
    Directory,
    Params,
    Policy,
    Roster,
    Signer,
    Threat,
    messages,
)

__all__ = ["IDENTITY_CONFIG", "SecAggMod", "secagg_mod"]

IDENTITY_CONFIG = "privagg-identity"
"""Key of a node's own configuration that names the file with its identity."""

_MOD_FAILED = 6
"""Flower's error code for a mod that cannot go on."""

_log = logging.getLogger("privagg.integrations.flower")

IdentitySource = Signer | Callable[[Context], Signer] | None
CallNext = Callable[[Message, Context], Message]


def secagg_mod(
    ranges: Ranges,
    policy: Policy,
    *,
    identity: IdentitySource = None,
    threat: Threat | str = Threat.ACTIVE,
    out_of_range: str = "refuse",
    plain: Sequence[str] = (),
) -> SecAggMod:
    """Return the mod that answers the protocol's rounds for a Flower client.

    For ``ClientApp(mods=[...])``, of either model. Mods that stand after it run inside, on what the
    client's own function returns; mods before it see masked messages only.

    Guarantee: that of :class:`privagg.protocols.secagg.Client` under `policy` and `threat`. Nothing
    but the protocol's messages leaves the client; errors leave as the class of the failure only.

    Parameters
    ----------
    ranges : Ranges
        The same as the server's.
    policy : Policy
        What this client insists on: the smallest cohort, how many may collude with the server, and
        the pinned roster of all nodes' identities.
    identity : Signer or callable, optional
        This node's identity, or a function from its ``Context`` to it. Left out, it is read from
        the key file that the node's own configuration names as ``privagg-identity``.
    threat : Threat or str
        The weakest threat model that this client takes part in. ``semi-honest`` must be said.
    out_of_range : {"refuse", "clip"}
        What becomes of an update with a coordinate outside its range: this node drops out of the
        round, or the coordinate is clipped (how many were is logged on this node).
    plain : sequence of str
        Message types that are answered without the protocol, **in the clear**, such as ``query``.

    Raises
    ------
    UsageError
        If an argument is none of these, or a roster is missing.
    """
    return SecAggMod(
        ranges,
        policy,
        identity=identity,
        threat=threat,
        out_of_range=out_of_range,
        plain=plain,
    )


class SecAggMod:
    """What :func:`secagg_mod` returns; see there."""

    def __init__(
        self,
        ranges: Ranges,
        policy: Policy,
        *,
        identity: IdentitySource = None,
        threat: Threat | str = Threat.ACTIVE,
        out_of_range: str = "refuse",
        plain: Sequence[str] = (),
    ) -> None:
        if not isinstance(ranges, Ranges):
            raise UsageError("ranges", type(ranges).__name__, "Ranges")
        if not isinstance(policy, Policy):
            raise UsageError("policy", type(policy).__name__, "secagg.Policy")
        self._threat = threat_of(threat)
        if self._threat is not Threat.SEMI_HONEST and policy.roster is None:
            raise UsageError(
                "policy.roster",
                "none",
                f"the nodes' identities, where the threat model is {self._threat.value}",
                "Or say threat='semi-honest': then the server is trusted to follow the protocol.",
            )
        if out_of_range not in ("refuse", "clip"):
            raise UsageError("out_of_range", out_of_range, "'refuse' or 'clip'")
        if isinstance(plain, str) or not all(isinstance(name, str) for name in plain):
            raise UsageError("plain", plain, "a sequence of message types")
        self._ranges, self._policy, self._identity = ranges, policy, identity
        self._clips, self._plain = out_of_range == "clip", tuple(plain)

    def __call__(self, message: Message, context: Context, call_next: CallNext) -> Message:
        """Answer one of Flower's messages."""
        try:
            return self._answer(message, context, call_next)
        except Exception as error:  # whatever it is, its text must not leave this node
            return Message(Error(_MOD_FAILED, _redacted(error)), reply_to=message)

    def _answer(self, message: Message, context: Context, call_next: CallNext) -> Message:
        kind = message.metadata.message_type
        record = message.content.config_records.get(KEY)
        if record is None:
            if kind in self._plain:
                return call_next(message, context)
            raise PeerError("server", "none", f"a {kind} message outside the protocol")
        category = kind.split(".")[0]
        if category not in ("train", "evaluate"):
            raise PeerError("server", "none", f"the protocol in a {kind} message")
        job = cast(Job, category)
        if "nonce" in record:
            return _reply(message, self._enrol(record, context))
        data = _bytes(record, "data")
        if "setup" in record:
            return _reply(message, self._start(job, _bytes(record, "setup"), data, context))
        stored = context.state.config_records.get(KEY)
        if stored is None:
            raise PeerError("server", "none", "a message of a round that this client is not in")
        told = _bytes(stored, "setup")
        client, params = self._load(job, told, _bytes(stored, "state"), context)
        request = messages.decode(data, params, peer="server")
        tag = _bytes(stored, "tag")
        if request.tag != tag:
            raise PeerError("server", request.round, "a message of another round or session")
        inputs = isinstance(request, messages.ShareBundle)
        if inputs and client.state is not secagg.ClientState.SHARED:
            raise PeerError("server", request.round, "an input is not due: nothing is trained")
        try:
            if isinstance(request, messages.ShareBundle):
                reply = self._masked_input(client, request, message, context, call_next, job, told)
            else:
                reply = _step(client, request, params)
        except Exception:
            if inputs or client.state is secagg.ClientState.ABORTED:
                context.state.pop(KEY, None)  # this node is out of the round
            raise
        if client.state is secagg.ClientState.UNMASKED:
            del context.state[KEY]
        else:
            _store(context, told, tag, client)
        return _reply(message, {"data": reply.encode()})

    def _enrol(self, record: ConfigRecord, context: Context) -> dict[str, bytes | int]:
        """Say, signed, which member of the roster this node is."""
        signer, roster = self._signer(context), self._policy.roster
        if signer is None or roster is None:
            raise PeerError("server", "enrol", "identities, where this client has none")
        nonce = _bytes(record, "nonce")
        place = _place(roster, signer)
        signature = signer.sign(setup.enrol_statement(nonce, place))
        return {"place": place, "signature": signature}

    def _start(self, job: Job, told: bytes, data: bytes, context: Context) -> dict[str, bytes]:
        """Round 0 of a new round; whatever was left of an earlier one is forgotten."""
        if KEY in context.state:
            del context.state[KEY]
        client, params = self._client(job, told, context)
        start = messages.decode(data, params, peer="server")
        reply = _step(client, start, params)
        _store(context, told, start.tag, client)
        return {"data": reply.encode()}

    def _masked_input(
        self,
        client: Client,
        bundle: messages.ShareBundle,
        message: Message,
        context: Context,
        call_next: CallNext,
        job: Job,
        told: bytes,
    ) -> messages.Message:
        """Train or evaluate, and mask what came out. A failure takes this node out of the round."""
        given = contents.without(message.content, KEY)
        legacy = contents.is_legacy(given, job)
        model = contents.model_of(given, job)
        about = message.metadata
        digest = setup.bound_model(
            told, contents.content_digest(given), about.message_type, about.group_id
        )
        message.content = given
        answer = call_next(message, context)
        if answer.has_error():
            raise UsageError("reply", "an error", "a content")
        update = contents.update_of(answer.content, job, self._ranges, legacy=legacy)
        vector = contents.vector_of(update, model, job, self._ranges)
        outside = max(vector.max(), -vector.min()) > 1
        if outside and not self._clips:
            raise UsageError(
                "update",
                "coordinates outside their range",
                "magnitudes up to those in Ranges",
                "Raise clip or the metric's range, on both sides, or say out_of_range='clip'.",
            )
        reply = client.masked_input(bundle, vector, weight=update.weight, model=digest)
        if outside:
            _log.warning("%d of %d coordinates were clipped", client.clipped, len(vector))
        return reply

    def _client(self, job: Job, told: bytes, context: Context) -> tuple[Client, Params]:
        """Return a new client for the round that the server described, if it is acceptable."""
        params, policy, signer = self._terms(job, told, context)
        return Client(params, policy, identity=signer), params

    def _load(self, job: Job, told: bytes, state: bytes, context: Context) -> tuple[Client, Params]:
        """Return the client whose state was stored."""
        params, policy, signer = self._terms(job, told, context)
        return Client.load_state(state, params, policy, identity=signer), params

    def _terms(
        self, job: Job, told: bytes, context: Context
    ) -> tuple[Params, Policy, Signer | None]:
        said, params = setup.read(told)
        roster = setup.accepted(
            said,
            params,
            job=job,
            ranges=self._ranges,
            threat=self._threat,
            roster=self._policy.roster,
        )
        policy = Policy(
            min_cohort=self._policy.min_cohort,
            max_corrupt=self._policy.max_corrupt,
            roster=roster,
        )
        return params, policy, self._signer(context) if params.signed else None

    def _signer(self, context: Context) -> Signer | None:
        source = self._identity
        if source is None:
            path = context.node_config.get(IDENTITY_CONFIG)
            return None if path is None else keyfiles.read_identity(str(path))
        if isinstance(source, Signer):
            return source
        signer = source(context)
        if not isinstance(signer, Signer):
            raise UsageError("identity", type(signer).__name__, "a Signer, for this node")
        return signer


def _step(client: Client, request: messages.Message, params: Params) -> messages.Message:
    """Hand the client a message of any round but the masked input's."""
    match request:
        case messages.Start():
            return client.advertise_keys(request)
        case messages.GraphRequest():
            return client.commit_graph(request)
        case messages.GraphChallenge():
            return client.reveal_graph(request)
        case messages.KeyRoster():
            return client.share_keys(request)
        case messages.SurvivorSet() if params.signed:
            return client.consistency_check(request)
        case messages.SurvivorSet() | messages.SignatureSet():
            return client.unmasking(request)
    raise PeerError("server", request.round, f"{type(request).__name__} is a client's message")


def _place(roster: Directory, signer: Signer) -> int:
    """Return where the roster has this identity."""
    if isinstance(roster, Roster) and isinstance(signer, keys.Identity):
        if signer.public in roster.identities:
            return roster.identities.index(signer.public)
        raise UsageError("identity", "none of the roster's", "an identity that the roster lists")
    probe = b"privagg flower place"
    signature = signer.sign(probe)
    for place in range(len(roster)):
        if roster.verify(place, probe, signature):
            return place
    raise UsageError("identity", "none of the roster's", "an identity that the roster lists")


def _store(context: Context, told: bytes, tag: bytes, client: Client) -> None:
    """Write the client's state where Flower keeps it; the reply itself, a whole vector, is not."""
    client.delivered()
    context.state[KEY] = ConfigRecord({"setup": told, "tag": tag, "state": client.dump_state()})


def _reply(message: Message, fields: dict[str, bytes] | dict[str, bytes | int]) -> Message:
    return Message(RecordDict({KEY: ConfigRecord(dict(fields.items()))}), reply_to=message)


def _bytes(record: ConfigRecord, name: str) -> bytes:
    value = record.get(name)
    if not isinstance(value, bytes):
        raise PeerError("server", "none", f"no bytes {name!r} in the protocol's record")
    return value


def _redacted(error: Exception) -> str:
    """Return the class of a failure; what this node may know of it goes to its own log."""
    if isinstance(error, PeerError):
        _log.warning("refused: %s", error)
        return REASONS["refused"]
    if isinstance(error, Abort):
        _log.warning("aborted: %s", error)
        return REASONS["aborted"]
    if isinstance(error, UsageError):
        # What was found may be a number of the update.
        _log.error("%s: allowed: %s. %s", error.argument, error.allowed, error.hint)
        return REASONS["unfit"]
    _log.error("%s in the client's own code", type(error).__name__)
    _log.debug("its traceback", exc_info=error)
    return REASONS["failed"]
