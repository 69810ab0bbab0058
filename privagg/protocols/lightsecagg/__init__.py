"""LightSecAgg after So et al. (MLSys 2022): secure aggregation that unmasks in one shot.

N parties hold vectors; a server learns their sum and nothing else of them. Each client's mask is
coded over all clients; any U of them give the server the sum of the survivors' masks, whatever the
number of clients that left. See :func:`run` for all parties in one process, :class:`Client` and
:class:`Server` for your own transport, :func:`plan` for what a round costs.

It costs its clients more bytes than :mod:`privagg.protocols.secagg` and the server less work:
:func:`compare`. What neither stops is said there.

A :class:`Transcript`, and the identities of clients, are those of :mod:`privagg.protocols.secagg`.
"""

from privagg.protocols.lightsecagg.async_client import AsyncClient
from privagg.protocols.lightsecagg.async_params import AsyncParams
from privagg.protocols.lightsecagg.async_rounds import Arrival, run_async
from privagg.protocols.lightsecagg.async_server import AsyncServer, BufferResult
from privagg.protocols.lightsecagg.client import Client
from privagg.protocols.lightsecagg.coding import MaskCode
from privagg.protocols.lightsecagg.derivations import model_digest
from privagg.protocols.lightsecagg.messages import decode
from privagg.protocols.lightsecagg.params import Params, Policy, Threat, policy_of
from privagg.protocols.lightsecagg.planner import Comparison, Plan, compare, plan
from privagg.protocols.lightsecagg.recovery import Blame
from privagg.protocols.lightsecagg.result import Result
from privagg.protocols.lightsecagg.rounds import run
from privagg.protocols.lightsecagg.server import Server
from privagg.protocols.lightsecagg.states import ROUNDS, ClientState, Phase, Receipt
from privagg.protocols.secagg.identity import Directory, Roster, Signer
from privagg.protocols.secagg.transcript import Entry, Transcript

__all__ = [
    "ROUNDS",
    "Arrival",
    "AsyncClient",
    "AsyncParams",
    "AsyncServer",
    "Blame",
    "BufferResult",
    "Client",
    "ClientState",
    "Comparison",
    "Directory",
    "Entry",
    "MaskCode",
    "Params",
    "Phase",
    "Plan",
    "Policy",
    "Receipt",
    "Result",
    "Roster",
    "Server",
    "Signer",
    "Threat",
    "Transcript",
    "compare",
    "decode",
    "model_digest",
    "plan",
    "policy_of",
    "run",
    "run_async",
]
