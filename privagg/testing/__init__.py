"""Conformance kits: what a mechanism or a protocol is held against, by its authors and by us.

:func:`check_mechanism` holds a mechanism of local differential privacy against the contract of
:mod:`privagg.mechanisms.base`: what it refuses, its exact epsilon, its bias, variance and
intervals, how its states merge. :func:`check_protocol` plays a protocol's parties: order, strict
bytes, dropouts, no I/O; :mod:`privagg.testing.adapters` has ours. :mod:`privagg.testing.secagg`
holds clients and servers of secure aggregation against peers that lie.

A pass says that these checks found nothing, and no more.
"""

from privagg.testing.conformance import Check, Conformance, ConformanceError, Outcome
from privagg.testing.mechanism import MECHANISM_CHECKS, check_mechanism
from privagg.testing.protocol import PROTOCOL_CHECKS, check_protocol
from privagg.testing.protocol_contract import Envelope, Party, Protocol, Run, Sum

__all__ = [
    "MECHANISM_CHECKS",
    "PROTOCOL_CHECKS",
    "Check",
    "Conformance",
    "ConformanceError",
    "Envelope",
    "Outcome",
    "Party",
    "Protocol",
    "Run",
    "Sum",
    "check_mechanism",
    "check_protocol",
]
