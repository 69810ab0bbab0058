"""Sensor networks: in-network aggregation that hides single readings, and what breaks it.

:func:`simulate`, which is also called :func:`run`, runs one of eight protocols on a radio
network; :class:`Member`, :class:`Leader` and :class:`BaseStation` are the parties of ``cpda-field``
and ``mask-cluster`` for your own transport; the six other protocols have theirs. Three protocols
are kept because papers describe them, and are **insecure**: see :class:`Protocol`.

There is no ``planner``: what an epoch costs depends on who hears whom, so that it is found by
running it on the radio network that is meant, a :class:`Deployment`; :class:`Result` has it.

Source: He et al., "PDA: Privacy-preserving Data Aggregation in Wireless Sensor Networks", INFOCOM
2007 (`cpda`, `smart`); Sen and Maitra, NordSec 2011; Castelluccia, Mykletun and Tsudik, MobiQuitous
2005 (`cmt`).
"""

from privagg.protocols.sensor.base_station import BaseStation
from privagg.protocols.sensor.channel import PoolKeys, PreloadedKeys, UniqueKeys
from privagg.protocols.sensor.energy import MODELS, Energy
from privagg.protocols.sensor.formation import STEPS
from privagg.protocols.sensor.insecure_leader import (
    InsecureEfficientLeader,
    InsecureEfficientMember,
    InsecureLeader,
)
from privagg.protocols.sensor.insecure_member import InsecureMember
from privagg.protocols.sensor.leader import Leader
from privagg.protocols.sensor.member import Member
from privagg.protocols.sensor.params import (
    Arithmetic,
    Deployment,
    Flood,
    Keys,
    Params,
    Protocol,
    Radio,
)
from privagg.protocols.sensor.queries import Query, QueryKind, power_maximum
from privagg.protocols.sensor.result import Result, Step
from privagg.protocols.sensor.rounds import generated_readings, run, simulate
from privagg.protocols.sensor.states import MemberState
from privagg.protocols.sensor.transcript import Entry, Transcript
from privagg.protocols.sensor.tree_cmt import CmtBaseStation, CmtNode
from privagg.protocols.sensor.tree_node import TreeNode
from privagg.protocols.sensor.tree_parties import SmartNode, UnprotectedTagNode

__all__ = [
    "CmtBaseStation",
    "CmtNode",
    "Entry",
    "InsecureEfficientLeader",
    "InsecureEfficientMember",
    "InsecureLeader",
    "InsecureMember",
    "SmartNode",
    "Transcript",
    "UnprotectedTagNode",
    "MODELS",
    "STEPS",
    "Arithmetic",
    "BaseStation",
    "Deployment",
    "Energy",
    "Flood",
    "Keys",
    "Leader",
    "Member",
    "MemberState",
    "Params",
    "PoolKeys",
    "PreloadedKeys",
    "Protocol",
    "Query",
    "QueryKind",
    "Radio",
    "Result",
    "Step",
    "TreeNode",
    "UniqueKeys",
    "generated_readings",
    "power_maximum",
    "run",
    "simulate",
]
