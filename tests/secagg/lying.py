"""A server of a semi-malicious round that tells each client its own story, as well as it can.

It says to each client who shared keys and who survived, and then shows it, of what the others have
signed, whatever makes it answer. The functions count only what the clients give it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from parties import Play, due

from privagg.errors import Abort, PeerError
from privagg.protocols.secagg import checks, layout, messages
from privagg.protocols.secagg.states import Phase


@dataclass
class Lies:
    """Who is kept from whom: by client, the neighbours that it is told less of."""

    hidden: dict[int, set[int]] = field(default_factory=dict)
    """Whose ciphertexts it is not shown (U2)."""
    gone: dict[int, set[int]] = field(default_factory=dict)
    """Whom it is told to have left (U3)."""
    withheld: set[int] = field(default_factory=set)
    """Whose signature over survivors is shown to no one, so that what it signed before counts."""
    colluders: set[int] = field(default_factory=set)
    """Who signs whatever is asked for; its shares of both kinds are the server's."""


class LyingServer:
    """One round from the masked inputs on; `shares[dealer, kind]` are what the server was given."""

    def __init__(self, params, lies, **options):
        self.params, self.lies = params, lies
        self.play = Play(params, **options).until(Phase.MASKED_INPUT)
        clients = range(params.clients)
        self.neighbours = [list(map(int, self.play.server._topology.row(one))) for one in clients]
        self.tag = self.play.server._tag
        self.masked, self.sharers, self.survivors = {}, {}, {}
        self.shares = {(one, kind): {} for one in clients for kind in (0, 1)}
        self.answered = set()

    def shown(self, client):
        """Return whom a client was told to have shared keys."""
        return set(self.neighbours[client]) - self.lies.hidden.get(client, set())

    def told(self, client):
        """Return whom a client is told to have survived."""
        return self.shown(client) - self.lies.gone.get(client, set())

    def flags(self, client, some):
        return np.isin(self.neighbours[client], list(some))

    def view(self, client, some):
        return layout.pack_view(self.flags(client, some), self.params)

    def run(self):
        """Play to the end; clients that refuse are refused by."""
        everyone = range(self.params.clients)
        for one in everyone:
            bundle = due(self.play, one)
            keep = self.flags(one, self.shown(one))
            bundle = replace(bundle, present=keep, ciphertexts=bundle.ciphertexts[keep])
            self.masked[one] = self.said(one, "masked_input", bundle, self.play.vectors[one])
            self.sharers[one] = self.masked[one].signature
        for one in everyone:
            story = messages.SurvivorSet(
                tag=self.tag,
                cohort=self.params.clients,
                survivors=self.flags(one, self.told(one)),
            )
            try:
                self.survivors[one] = self.said(one, "consistency_check", story).signature
            except (Abort, PeerError):
                continue
        for one in set(self.survivors) - self.lies.colluders:
            try:
                answer = self.said(one, "unmasking", self.signatures_for(one))
            except (Abort, PeerError):
                continue
            self.answered.add(one)
            rows = [other for other in self.neighbours[one] if other in self.shown(one)]
            for row, other in enumerate(rows):
                if not answer.missing[row]:
                    self.shares[other, int(other in self.told(one))][one] = answer.shares[row]
        for one in self.lies.colluders:
            held = self.play.clients[one]._memory.held
            for at, other in enumerate(self.neighbours[one]):
                for kind in (0, 1):
                    self.shares[other, kind][one] = held[at, kind]
        return self

    def said(self, client, method, message, *extra):
        data = messages.decode(message.encode(), self.params, peer="server")
        return getattr(self.play.clients[client], method)(data, *extra)

    def signatures_for(self, client):
        """Return all that helps: neighbours that signed that it survived, and others silent."""
        told = self.told(client)
        signers = {
            other
            for other in told & set(self.survivors)
            if other in self.lies.colluders
            or (other not in self.lies.withheld and client in self.told(other))
        }
        return self.signature_set(client, signers, told - signers)

    def signature_set(self, client, signers, silent):
        def rows(some, of):
            found = [of(other) for other in self.neighbours[client] if other in some]
            width = len(found[0]) if found else 0
            return np.frombuffer(b"".join(found), np.uint8).reshape(len(found), width)

        def signed(other):
            if other in self.lies.colluders:
                return self.anything(other, b"survivors")[0]
            return self.survivors[other]

        def view(other):
            if other in self.lies.colluders:
                return self.anything(other, b"survivors")[1]
            return self.view(other, self.told(other))

        return messages.SignatureSet(
            tag=self.tag,
            signers=self.flags(client, signers),
            signatures=rows(signers, signed),
            views=rows(signers, view),
            silent=self.flags(client, silent),
            silent_signatures=rows(silent, lambda other: self.sharers[other]),
            silent_views=rows(silent, lambda other: self.view(other, self.shown(other))),
        )

    def anything(self, client, purpose):
        """Return a colluder's signature and view in which everyone is."""
        view = self.view(client, self.neighbours[client])
        return self.sign(client, purpose, view), view

    def sign(self, client, purpose, view):
        bound = self.play.clients[client]._memory.bound
        statement = checks.derivations.view_statement(purpose, *bound, client, view)
        return self.play.identity_of(client).sign(statement)

    def knows(self, client, kind):
        """Say whether the server can rebuild a client's mask key (0) or self mask (1)."""
        return len(self.shares[client, kind]) >= self.params.threshold

    def stays(self, client):
        """Return the honest neighbours whose masks stay in a client's input."""
        return {
            other for other in self.shown(client) - self.lies.colluders if not self.knows(other, 0)
        }
