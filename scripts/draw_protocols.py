"""Draw each protocol from the code's own tables: ``docs/images/protocol-NAME.svg``.

With ``--check`` nothing is written: a figure that is missing, or whose digest is not that of the
flow in the code, is named and ends the run with 1.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from protocol_flows import Event, Flow, Step, backed, note_of, rounds_flow, steps_flow
from protocol_svg import svg

from privagg.mechanisms.reports import Reports
from privagg.protocols import sensor
from privagg.protocols.lightsecagg import states as lsa_states
from privagg.protocols.locational.aggregator import Aggregator as RegionAggregator
from privagg.protocols.locational.respondent import Respondent as RegionRespondent
from privagg.protocols.multidim.aggregator import Aggregator as TupleAggregator
from privagg.protocols.multidim.messages import TupleReports
from privagg.protocols.multidim.params import Protocol as Surveys
from privagg.protocols.multidim.respondent import Respondent as TupleRespondent
from privagg.protocols.responses.curator import Curator
from privagg.protocols.responses.result import Released
from privagg.protocols.secagg import states as secagg_states
from privagg.protocols.secagg.params import Params as SecaggParams
from privagg.protocols.sensor import messages as said
from privagg.protocols.sensor import messages_papers as wrote
from privagg.protocols.sensor.states import TABLES, MemberState, Mode
from privagg.protocols.sensor.states_papers import PAPER_TABLES, PaperState
from privagg.report import write_file

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"

Order = tuple[tuple[str, str, Step, type[Any] | None], ...]

_OTHERS = "other members"

CLUSTER: Order = (
    ("leader", "member", said.Hello, said.Hello),
    ("member", "leader", said.Join, said.Join),
    ("leader", "member", said.Roster, None),
    ("member", _OTHERS, said.Shares, None),
    ("leader", "member", said.Relay, None),
    ("member", "leader", said.Received, None),
    ("leader", "member", said.SenderSet, None),
    ("member", _OTHERS, said.Echo, None),
    ("member", "leader", said.Answer, None),
    ("leader", "base station", said.Report, said.Report),
)
"""An epoch of a cluster: ``cpda-field`` and ``mask-cluster``; each takes what its table has."""

PAPER_CLUSTER: Order = (
    ("leader", "member", said.Hello, said.Hello),
    ("member", "leader", said.Join, said.Join),
    ("leader", "member", said.Roster, None),
    ("member", _OTHERS, wrote.Seed, None),
    ("leader", "member", wrote.SeedRelay, None),
    ("member", _OTHERS, "redraw", wrote.Seed),
    ("member", _OTHERS, "share", wrote.PaperShares),
    (_OTHERS, "member", wrote.PaperShares, None),
    ("leader", "member", wrote.PaperRelay, None),
    ("member", _OTHERS, "check", wrote.Redo),
    ("member", "leader", "answer", wrote.Assembled),
    ("leader", "base station", said.Report, said.Report),
)
"""An epoch of a cluster as in the papers: ``cpda`` and ``cpda-sen-checked``."""

EFFICIENT: Order = (
    ("leader", "member", said.Hello, said.Hello),
    ("member", "leader", said.Join, said.Join),
    ("leader", "member", wrote.SeededRoster, None),
    ("member", "leader", wrote.EfficientAnswer, wrote.EfficientAnswer),
    ("leader", "base station", said.Report, said.Report),
)
"""An epoch of ``cpda-sen-efficient``."""

_PARENT, _NEAR = "parent, up to the base station", "children and neighbours"

TREE: Order = (
    (_PARENT, "node", said.Hello, None),
    ("node", _NEAR, wrote.Slice, None),
    ("node", "node", "keep", None),
    (_NEAR, "node", said.Report, None),
    ("node", _PARENT, "report", said.Report),
)
"""An epoch of a tree: ``tag`` and ``smart``."""

CMT: Order = (
    (_PARENT, "node", said.Hello, None),
    (_NEAR, "node", wrote.CmtReport, None),
    ("node", _PARENT, "report", wrote.CmtReport),
)
"""An epoch of ``cmt``."""

_STATION: dict[str, tuple[type[Any], ...]] = {"base station": (sensor.BaseStation,)}
_INSECURE: dict[str, tuple[type[Any], ...]] = {
    "member": (sensor.InsecureMember,),
    _OTHERS: (sensor.InsecureMember,),
    "leader": (sensor.InsecureLeader,),
    **_STATION,
}

PARTIES: tuple[tuple[Order, dict[str, tuple[type[Any], ...]]], ...] = (
    (
        CLUSTER,
        {
            "member": (sensor.Member,),
            _OTHERS: (sensor.Member,),
            "leader": (sensor.Leader,),
            **_STATION,
        },
    ),
    (PAPER_CLUSTER, _INSECURE),
    (
        EFFICIENT,
        {
            "member": (sensor.InsecureEfficientMember,),
            "leader": (sensor.InsecureEfficientLeader,),
            **_STATION,
        },
    ),
    (
        TREE,
        {
            "node": (sensor.UnprotectedTagNode, sensor.SmartNode),
            _NEAR: (sensor.UnprotectedTagNode, sensor.SmartNode),
            _PARENT: (sensor.BaseStation,),
        },
    ),
    (CMT, {"node": (sensor.CmtNode,), _NEAR: (sensor.CmtNode,), _PARENT: (sensor.CmtBaseStation,)}),
)
"""Whose methods must stand behind which arrows."""


def flows() -> list[Flow]:
    """Return what all figures show.

    Raises
    ------
    ValueError
        If an order does not fit its table, or no party's method stands behind an arrow.
    """
    for order, parties in PARTIES:
        if missing := backed(order, parties):
            raise ValueError("; ".join(missing))
    return [*_servers(), *_sensors(), _multidim(), _locational(), _curator(), _secure_release()]


def _servers() -> list[Flow]:
    many = "the sum of the survivors' vectors"
    return [
        rounds_flow(states, threat, f"{name}-{threat.value}", title, many)
        for name, title, states in (
            ("secagg", "Secure aggregation", secagg_states),
            ("lightsecagg", "LightSecAgg", lsa_states),
        )
        for threat in states.CLIENT_TABLES
    ]


def _sensors() -> list[Flow]:
    found = []
    for mode, names in (
        (Mode.MASKED, "mask-cluster"),
        (Mode.FULL, "cpda-field"),
        (Mode.THRESHOLD, "cpda-field with drops"),
    ):
        flow = _cluster(mode.name.lower(), names, mode.value)
        found.append(steps_flow(flow, TABLES[mode], MemberState, CLUSTER))
    for protocol, table in PAPER_TABLES.items():
        name = protocol.value
        if name in ("tag", "smart", "cmt"):
            flow = Flow(
                f"sensor-{name}",
                f"Sensor networks: {name}",
                "one node of the tree",
                ("node", _NEAR, _PARENT),
                (),
                ends="the sum over the tree",
            )
            order, alone = CMT if name == "cmt" else TREE, {"keep": sensor.SmartNode.keep}
            found.append(steps_flow(flow, table, PaperState, order, alone))
        else:
            order = EFFICIENT if name.endswith("efficient") else PAPER_CLUSTER
            flow = _cluster(name, name, "as in the papers; broken, kept to compare")
            found.append(steps_flow(flow, table, PaperState, order))
    return found


def _cluster(name: str, title: str, subtitle: str) -> Flow:
    return Flow(
        f"sensor-{name}",
        f"Sensor networks: {title}",
        f"one epoch of a cluster; {subtitle}",
        ("member", _OTHERS, "leader", "base station"),
        (),
        ends="sums and count",
    )


def _method(role: str, method: Any) -> Event:
    """Return a step of one role: a method, and what it is for."""
    return Event(method.__name__, role, role, method.__name__, note_of(method))


def _sent(maker: Any, sender: str, receiver: str, kind: type[Any]) -> Event:
    """Return an arrow, and hold that the method makes this message."""
    if kind.__name__ not in re.findall(r"\w+", str(maker.__annotations__["return"])):
        raise ValueError(f"{maker.__qualname__} does not return {kind.__name__}")
    return Event(maker.__name__, sender, receiver, kind.__name__, note_of(kind))


def _survey(
    name: str,
    title: str,
    respondent: Any,
    aggregator: Any,
    kind: type[Any],
    ways: tuple[Event, ...] = (),
) -> Flow:
    return Flow(
        name,
        title,
        "one report of each respondent; no round trips",
        ("respondent", "aggregator"),
        (
            _method("respondent", respondent.report),
            *ways,
            _sent(respondent.report, "respondent", "aggregator", kind),
            _method("aggregator", aggregator.receive),
            _method("aggregator", aggregator.merge),
            _method("aggregator", aggregator.estimate),
        ),
        ends="estimates with intervals",
    )


def _multidim() -> Flow:
    title = "Surveys of several attributes"
    text = " ".join((inspect.getdoc(Surveys) or "").split()).replace("``", "`")
    ways = []
    for one in Surveys:
        found = re.search(rf"`{re.escape(one.value)}` (.*?)\.(?: |$)", text)
        if not found:
            raise ValueError(f"{one.value}: the class says nothing of it")
        ways.append(
            Event("report", "respondent", "respondent", f"if {one.value}", found[1].capitalize())
        )
    return _survey("multidim", title, TupleRespondent, TupleAggregator, TupleReports, tuple(ways))


def _locational() -> Flow:
    title = "Statistics by region"
    return _survey("locational", title, RegionRespondent, RegionAggregator, Reports)


def _curator() -> Flow:
    return Flow(
        "responses-curator",
        "Learning from aggregate responses: a curator",
        "whoever holds the responses releases noisy sums of bags, once",
        ("row", "curator", "learner"),
        (
            Event("collect", "row", "curator", "response", "In the clear: the curator is trusted"),
            _method("curator", Curator.release),
            _sent(Curator.release, "curator", "learner", Released),
        ),
        ends="a model of single rows",
    )


def _secure_release() -> Flow:
    threat = SecaggParams.__dataclass_fields__["threat"].default  # what a release takes
    rounds = rounds_flow(secagg_states, threat, "", "", "").events
    roles = {"client": "row of a bag", "server": "server"}
    events = []
    for event in rounds:
        if event.name == "MaskedInput":
            note = "With an epsilon: its part of the noise, before the mask"
            events.append(Event(event.round, roles["client"], roles["client"], "noise", note))
        events.append(
            Event(event.round, roles[event.sender], roles[event.receiver], event.name, event.note)
        )
    events.append(Event("release", "server", "learner", "Released", note_of(Released)))
    return Flow(
        "responses-secure",
        "Learning from aggregate responses: nobody sees a response",
        "for each bag a round of secure aggregation; threat model: " + threat.value,
        (roles["client"], "server", "learner"),
        tuple(events),
        ends="a model of single rows",
    )


def stored_digest(path: Path) -> str:
    """Return the digest that a figure was drawn from; empty if it has none, or is missing."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = re.search(r"flow sha256 ([0-9a-f]{64})", text)
    return found[1] if found else ""


def main(arguments: list[str]) -> int:
    """Draw or check all figures; return the exit code."""
    parser = argparse.ArgumentParser(description="Draw the figures of the protocols.")
    parser.add_argument("--check", action="store_true", help="draw nothing; name what is stale")
    check = parser.parse_args(arguments).check
    drawn = {f"protocol-{flow.name}.svg": flow for flow in flows()}
    stale = [name for name, flow in drawn.items() if stored_digest(IMAGES / name) != flow.digest]
    odd = [path.name for path in IMAGES.glob("protocol-*.svg") if path.name not in drawn]
    if check:
        for name in stale:
            print(f"{name}: stale, run scripts/draw_protocols.py")
        for name in odd:
            print(f"{name}: of no protocol")
        return int(bool(stale or odd))
    for name, flow in drawn.items():
        write_file(IMAGES / name, svg(flow).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
