"""Sums by additive sharing among several servers, of whom one at least is honest.

Each client cuts its vector into as many parts as there are servers, all but one of them expanded
from a seed, so that it sends one vector and some bytes. Every helper adds up the masks of the
clients in the sum, the leader their masked vectors; the difference is the sum, and nobody has seen
anything else. There are no shares to recover: clients may leave at any time, no server may.

Source: additive sharing with seeds in place of all but one share is that of Prio (Corrigan-Gibbs,
Boneh, "Prio: Private, Robust, and Scalable Computation of Aggregate Statistics", NSDI 2017), here
without its proofs: a client can send any vector.

Guarantee, in the semi-honest model: the leader learns the sum over the clients that it asked to be
in it, and nothing else of their inputs, as long as one helper does not collude with it; helpers,
all of them together, learn which clients take part. Clients that collude with the leader know the
sum of the others, hence ``min_cohort``. Channels must be private and authenticated. A malicious
leader gains nothing from asking helpers for two sets: they answer for one. A malicious helper can
change the sum unnoticed.

There is no ``planner``: a round costs each client its vector and one seed for each helper, and
nothing is chosen by the number of clients.
"""

from privagg.protocols._common.framing import SESSION_BYTES
from privagg.protocols.additive.client import Client
from privagg.protocols.additive.messages import (
    Cohort,
    MaskedInput,
    MaskSum,
    SeedHolders,
    SeedShare,
    decode,
)
from privagg.protocols.additive.params import Params
from privagg.protocols.additive.result import Result
from privagg.protocols.additive.rounds import run
from privagg.protocols.additive.server import Helper, Leader
from privagg.protocols.additive.states import ROUNDS, ClientState, HelperState, LeaderState

__all__ = [
    "ROUNDS",
    "SESSION_BYTES",
    "Client",
    "ClientState",
    "Cohort",
    "Helper",
    "HelperState",
    "Leader",
    "LeaderState",
    "MaskSum",
    "MaskedInput",
    "Params",
    "Result",
    "SeedHolders",
    "SeedShare",
    "decode",
    "run",
]
