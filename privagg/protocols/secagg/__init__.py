"""Secure aggregation after Bonawitz et al. (CCS 2017) and Bell et al. (CCS 2020).

N parties hold vectors; a server learns their sum and nothing else of them. See :func:`run` for all
parties in one process, :class:`Client` and :class:`Server` for your own transport, :func:`plan` for
what a round costs.

What it does not stop: a client that sends a wrong vector (poisoning), and what the sum itself says
about its inputs. For the first bound what clients may send; for the second add noise.
"""

from privagg.protocols.secagg.client import Client
from privagg.protocols.secagg.derivations import model_digest
from privagg.protocols.secagg.identity import Directory, Roster, Signer
from privagg.protocols.secagg.messages import decode
from privagg.protocols.secagg.params import Params, Policy
from privagg.protocols.secagg.planner import Plan, expansion_formula, plan
from privagg.protocols.secagg.rebuild import Blame
from privagg.protocols.secagg.result import Result
from privagg.protocols.secagg.rounds import run
from privagg.protocols.secagg.server import Server
from privagg.protocols.secagg.states import ROUNDS, ClientState, Phase, Receipt
from privagg.protocols.secagg.thresholds import Graph, Threat
from privagg.protocols.secagg.transcript import Entry, Transcript
from privagg.protocols.secagg.workers import recommended_workers

__all__ = [
    "ROUNDS",
    "Blame",
    "Client",
    "ClientState",
    "Directory",
    "Entry",
    "Graph",
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
    "decode",
    "expansion_formula",
    "model_digest",
    "plan",
    "recommended_workers",
    "run",
]
