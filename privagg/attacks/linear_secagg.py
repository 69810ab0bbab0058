"""The algebra of a secure aggregation round: what the server and colluding clients learn.

An independent second look at :mod:`privagg.attacks.secagg`: there components of a graph are
counted, here unknowns are eliminated. Masked inputs are sums of an input, a self mask and signed
pairwise masks; shares are values of a random polynomial whose constant term is a seed; a seed that
can be computed gives the masks made from it. Made for small cohorts: the unknowns are as many as
inputs, masks and polynomial coefficients.
"""

from __future__ import annotations

from privagg.attacks.linear_views import Views
from privagg.attacks.secagg_compare import Comparison
from privagg.attacks.secagg_exposure import KNOWN, SHARED, Knowledge
from privagg.attacks.secagg_replay import replay
from privagg.attacks.secagg_shadow import Rules
from privagg.errors import UsageError
from privagg.field import M31
from privagg.protocols.secagg.identity import Roster
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.transcript import Transcript

__all__ = ["SERVER", "views_of_round"]

SERVER = "server"
"""The observer that sees all messages; the others are clients' indices."""


def views_of_round(
    transcript: Transcript,
    *,
    params: Params,
    roster: Roster | None = None,
    model: bytes = b"",
) -> Views:
    """Return what the server and each client hold after a round.

    Targets are ``("input", client)`` for the clients whose masked input was sent. The server is
    :data:`SERVER`, clients are their indices.

    Parameters
    ----------
    transcript : Transcript
        With payloads.
    params : Params
        The round's parameters.
    roster : Roster, optional
        The identities by which messages are signed; required where they are.
    model : bytes
        Digest of the shared parameters that the clients were given, or empty.

    Raises
    ------
    UsageError
        As for :func:`privagg.attacks.secagg.audit`; or no masked input was sent.
    """
    record = replay(transcript, Rules(params, roster, model))
    return views_of(Knowledge.of(record, Comparison(record)))


def views_of(known: Knowledge) -> Views:
    """Return the views that shares and masks give; see :func:`views_of_round`."""
    clients = range(known.clients)
    senders = [client for client in clients if known.inputs[client]]
    if not senders:
        raise UsageError("transcript", "no masked input", "a round that got so far")
    pairs = {
        client: [
            (int(known.peer[at]), int(known.state[at]))
            for at in range(known.mask_start[client], known.mask_start[client + 1])
        ]
        for client in clients
    }
    masks = sorted({_mask(c, peer, state) for c in senders for peer, state in pairs[c]}, key=str)
    hidden: list[object] = [("self", client) for client in senders]
    hidden += [("mask", name) for name in masks]
    for kind in ("self seed", "mask seed"):
        hidden += [(kind, client, k) for client in clients for k in range(known.threshold)]
    views = Views([("input", client) for client in senders], hidden, field=M31)
    for client in clients:
        _give_shares(views, known, client)
        if known.inputs[client]:
            views.implies(("self seed", client, 0), [("self", client)])
    for client in senders:
        masked: dict[object, int] = {("input", client): 1, ("self", client): 1}
        for peer, state in pairs[client]:
            name = ("mask", _mask(client, peer, state))
            masked[name] = 1 if client < peer else -1
            # Whoever holds either end's mask key can make the mask.
            views.implies(("mask seed", client, 0), [name])
            views.implies(("mask seed", peer, 0), [name])
            for end in (client, peer):
                views.learn(end, {name: 1})
            if state == KNOWN:
                views.learn(SERVER, {name: 1})
        views.learn(SERVER, masked)
        views.learn(client, {("input", client): 1})
        views.learn(client, {("self", client): 1})
    return views


def _mask(client: int, peer: int, state: int) -> tuple[int, ...]:
    """Return a mask's name: both ends use one where it cancels, else each has its own."""
    return tuple(sorted((client, peer))) if state == SHARED else (client, peer, -1)


def _give_shares(views: Views, known: Knowledge, client: int) -> None:
    """Give the server and the holders the shares of a client's seeds."""
    for kind, count, gives in (
        ("self seed", known.self_known[client], known.gives_self),
        ("mask seed", known.mask_known[client], known.gives_mask),
    ):
        # Shares are points of the polynomial: neither which ones nor the field matters here.
        for index in range(int(count)):
            views.learn(SERVER, _point(kind, client, known.clients + 1 + index, known.threshold))
        for at in range(known.share_start[client], known.share_start[client + 1]):
            if gives[at]:
                holder = int(known.holder[at])
                views.learn(holder, _point(kind, client, 1 + holder, known.threshold))


def _point(kind: str, client: int, x: int, threshold: int) -> dict[object, int]:
    return {(kind, client, k): pow(x, k, M31.modulus) for k in range(threshold)}
