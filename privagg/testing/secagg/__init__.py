"""The conformance kit of secure aggregation: a server and clients that lie, one way each.

:func:`check_client` holds any client with the methods of :class:`privagg.protocols.secagg.Client`
against every lie in :data:`BEHAVIOURS` that a server, or a server and clients together, can tell;
:func:`check_server` a server against lying clients. Honest rounds are among them as controls.

What a pass says: each of these lies is refused in time and with the right error, or gains nothing.
It is no proof that there are no others, and says nothing about what messages cannot show: the
quality of randomness, side channels, or what a process writes to disk.
"""

from privagg.testing.secagg import (
    client_keys,
    client_order,
    client_shares,
    controls,
    server_graph,
    server_invitation,
    server_keys,
    server_order,
    server_sharers,
    server_signatures,
    server_survivors,
)
from privagg.testing.secagg.behaviour import BEHAVIOURS, Behaviour, Cohort, Expect, Liar
from privagg.testing.secagg.judge import Finding
from privagg.testing.secagg.kit import (
    Report,
    check_client,
    check_server,
    perform,
    rounds_for,
)
from privagg.testing.secagg.pitfalls import PITFALLS
from privagg.testing.secagg.setting import Setting

__all__ = [
    "BEHAVIOURS",
    "FAMILIES",
    "PITFALLS",
    "Behaviour",
    "Cohort",
    "Expect",
    "Finding",
    "Liar",
    "Report",
    "Setting",
    "check_client",
    "check_server",
    "perform",
    "rounds_for",
]

FAMILIES = (
    server_invitation,
    server_keys,
    server_graph,
    server_sharers,
    server_survivors,
    server_signatures,
    server_order,
    client_keys,
    client_shares,
    client_order,
    controls,
)
"""The modules that fill :data:`BEHAVIOURS`, in the order of the protocol's rounds."""
