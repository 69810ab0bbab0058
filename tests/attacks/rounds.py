"""Rounds with all parties, recorded as an observer of all traffic would, and parties that cheat."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import lru_cache

import numpy as np

from privagg import entropy, keys
from privagg.attacks.secagg import audit
from privagg.errors import Abort, PeerError
from privagg.protocols import secagg
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.layout import KINDS
from privagg.protocols.secagg.states import Phase

BY_NAME = {kind.__name__: kind for kind in KINDS.values()}
TINY = {"sigma": 1, "eta": 1}


@lru_cache
def params_of(name, **changes):
    """Return parameters for `semi-honest`, `sparse`, `active` or `semi-malicious`."""
    chosen = {"clients": 8, "dim": 3, "corrupt": 0.125, "dropout": 0.125, "min_cohort": 4}
    if name == "sparse":
        chosen |= {"graph": "sparse", "clients": 12, "corrupt": 0.09, "neighbours": 6} | TINY
        chosen |= {"threshold": 3}
    elif name == "semi-malicious":
        chosen |= {"graph": "sparse", "threat": name, "clients": 12, "corrupt": 0.09}
        chosen |= {"neighbours": 6, "threshold": 4} | TINY
    else:
        chosen |= {"threat": name}
    if name == "semi-honest":
        chosen |= {"threshold": 4}
    return secagg.Params.recommend(**chosen | changes)


THREATS = ("semi-honest", "sparse", "active", "semi-malicious")


@lru_cache
def identities_of(clients):
    """Return seeded identities and their roster."""
    source = entropy.from_seed(5)
    made = [keys.Identity.generate(source.spawn(f"{index}")) for index in range(clients)]
    return made, secagg.Roster(identity.public for identity in made)


def respond(client, message, vector):
    """Call the client's method for a message of the server."""
    methods = {
        messages.Start: client.advertise_keys,
        messages.GraphRequest: client.commit_graph,
        messages.GraphChallenge: client.reveal_graph,
        messages.KeyRoster: client.share_keys,
        messages.ShareBundle: lambda bundle: client.masked_input(bundle, vector),
        messages.SignatureSet: client.unmasking,
    }
    if isinstance(message, messages.SurvivorSet):
        signed = client._params.signed
        return (client.consistency_check if signed else client.unmasking)(message)
    return methods[type(message)](message)


def play(params, *, down=None, up=None, leaves=None, seed=3):
    """Run a round over a network that a cheat may stand in, and return its transcript.

    `down` and `up` take (client, message) and return what is sent instead, None for nothing, or a
    list of messages. A client that refuses a message is gone. `leaves` maps a client to the phase
    before whose message it is gone.
    """
    identities, roster = identities_of(params.clients) if params.signed else (None, None)
    source = entropy.from_seed(seed)
    server = secagg.Server(params, roster=roster, entropy=source.spawn("server"))
    policy = secagg.Policy.of(params, roster)
    clients = [
        secagg.Client(
            params,
            policy,
            identity=None if identities is None else identities[index],
            entropy=source.spawn(f"client/{index}"),
        )
        for index in range(params.clients)
    ]
    vectors = np.random.default_rng(seed).integers(0, 100, (params.clients, params.dim))
    transcript, gone = secagg.Transcript(payloads=True), set()
    while server.phase is not Phase.DONE:
        name = server.phase.title
        for index in map(int, server.alive()):
            if index in gone or (leaves or {}).get(index, 99) <= server.phase.value:
                continue
            message = server.message_for(index)
            for sent in _through(down, index, message):
                note(transcript, name, "server", index, sent)
                try:
                    reply = respond(clients[index], sent, vectors[index])
                except (PeerError, Abort):
                    gone.add(index)
                    continue
                for said in _through(up, index, reply):
                    kind = type(reply).__name__
                    if isinstance(said, bytes):  # the transport refuses what does not decode
                        ends = {"sender": index, "receiver": "server"}
                        transcript.record(round=name, **ends, kind=kind, data=said)
                        continue
                    note(transcript, name, index, "server", said)
                    with contextlib.suppress(PeerError):
                        server.receive(index, said)
        try:
            server.close()
        except (Abort, PeerError):
            break
    return transcript


def _through(hook, index, message):
    found = message if hook is None else hook(index, message)
    if found is None:
        return []
    return found if isinstance(found, list) else [found]


def note(transcript, name, sender, receiver, message):
    """Record a message."""
    transcript.record(
        round=name,
        sender=sender,
        receiver=receiver,
        kind=type(message).__name__,
        data=message.encode(),
    )


@lru_cache
def honest(name, leaves=(), seed=3):
    """Return the transcript of an honest round; `leaves` are (client, phase value)."""
    return play(params_of(name), leaves=dict(leaves), seed=seed)


def edited(transcript, params, kind, change, *, client=None):
    """Return a transcript in which `change` was applied to messages of a kind.

    It takes a decoded message and returns another, bytes, None (left out) or a list of messages.
    """
    entries = []
    for entry in transcript:
        ends = (entry.sender, entry.receiver)
        if entry.kind != kind.__name__ or (client is not None and client not in ends):
            entries.append(entry)
            continue
        found = change(kind.decode(entry.payload, params, peer="test"))
        for one in found if isinstance(found, list) else [found]:
            if one is not None:
                data = one if isinstance(one, bytes) else one.encode()
                entries.append(replace(entry, payload=data, size=len(data), sha256=""))
    return secagg.Transcript.of(entries)


def audited(transcript, params, **options):
    """Audit with the identities of :func:`identities_of`."""
    roster = identities_of(params.clients)[1] if params.signed else None
    return audit(transcript, params=params, **{"roster": roster} | options)


def kinds(found):
    """Return the kinds of deviations that an audit found."""
    return {finding.kind for finding in found.deviations}


def of_kind(found, kind):
    """Return the findings of one kind."""
    return [finding for finding in found.findings if finding.kind == kind]
