"""Blocks of the protocols' pages at a glance: each message, from whom to whom, and its bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from docs_surveys import survey_of
from docs_tables import cell, table
from draw_protocols import flows

from privagg.protocols import lightsecagg, multidim, secagg, sensor
from privagg.protocols.lightsecagg import calibration as lsa_calibration
from privagg.protocols.locational import params as locational
from privagg.protocols.locational.regions import RegionList
from privagg.protocols.locational.values import Boolean
from privagg.protocols.multidim.messages import report_bytes
from privagg.protocols.secagg.calibration import Units
from privagg.protocols.secagg.private import calibrated, private_params
from privagg.protocols.sensor import messages as said
from privagg.protocols.sensor.messages import element_bytes, item_bytes
from privagg.protocols.sensor.messages_papers import CmtReport, Slice

CLIENTS, DIM = 100, 10_000

FREE = Units(**dict.fromkeys((one.name for one in dataclasses.fields(Units)), 0.0))
"""Operations that take no time: plans are asked for bytes only."""

ROWS = (
    "Parties and rounds",
    "Messages",
    "Parameters of the guarantee",
    "Parameters of cost",
    "Costs",
    "Measured",
    "Threat model",
    "Collusion bound",
    "Adjacency",
    "Not promised",
    "Sources",
)
"""What each page's table at a glance says, in this order."""


def _by_message(plans: Mapping[str, Any]) -> str:
    """Return a row for each message of some flows, with its bytes in the plan of each."""
    found: dict[tuple[str, ...], dict[str, int]] = {}
    drawn = {flow.name: flow for flow in flows()}
    for name, plan in plans.items():
        for event in drawn[name].events:
            sides = plan.bytes_up if event.sender == "client" else plan.bytes_down
            key = (event.round, f"`{event.name}`", f"{event.sender} -> {event.receiver}")
            found.setdefault(key, {})[name] = sides[event.round]
    order = max((drawn[name] for name in plans), key=lambda flow: len(flow.events))
    rounds = list(dict.fromkeys(event.round for event in order.events))
    rows: list[list[object]] = [
        [*key, *(cell(sizes[name]) if name in sizes else "" for name in plans)]
        for key, sizes in sorted(found.items(), key=lambda item: _place(rounds, *item[0]))
    ]
    heads = [name.split("-", 1)[1] for name in plans]
    return table(["round", "message", "from, to", *heads], rows)


def _place(rounds: list[str], name: str, _: str, way: str) -> tuple[int, bool]:
    return rounds.index(name), way.startswith("client")


def secagg_messages() -> str:
    """Return the messages of secure aggregation; the semi-malicious graph is sparse."""
    plans = {}
    for threat, graph in (
        ("semi-honest", "complete"),
        ("active", "complete"),
        ("semi-malicious", "sparse"),
    ):
        params = secagg.Params.recommend(
            clients=CLIENTS, dim=DIM, value_bits=16, graph=graph, threat=threat
        )
        plans[f"secagg-{threat}"] = secagg.plan(params, units=FREE)
    return _by_message(plans)


def lsa_messages() -> str:
    """Return the messages of LightSecAgg."""
    plans = {}
    for threat in ("semi-honest", "active"):
        params = lightsecagg.Params.recommend(clients=CLIENTS, dim=DIM, threat=threat)
        plan = lightsecagg.plan(params, units=lsa_calibration.free())
        plans[f"lightsecagg-{threat}"] = plan
    return _by_message(plans)


def sensor_messages(members: int = 5) -> str:
    """Return the messages of the protocols that hold, and how long each is in a cluster of five."""
    params = sensor.Params.recommend("cpda-field", nodes=100, bound=1000)
    item = bytes(item_bytes(params))
    tag = bytes(params.tag_bytes)
    others = (item,) * (members - 1)
    counted = bytes(element_bytes(params) * params.width + 4 + params.tag_bytes)
    samples: list[said.Message] = [
        said.Hello(epoch=1, hops=1, leads=True),
        said.Join(epoch=1, tag=tag),
        said.Roster(epoch=1, members=tuple(range(members)), id_size=2),
        said.Shares(items=others),
        said.Relay(position=0, items=(item,)),
        said.Received(sealed=bytes((members + 7) // 8) + tag),
        said.SenderSet(senders=(True,) * members),
        said.Echo(items=(tag,) * (members - 1)),
        said.Answer(sealed=item),
        Slice(sealed=item),
        said.Report(sealed=counted),
    ]
    sizes = {type(one).__name__: len(one.encode()) for one in samples}
    said_by: dict[tuple[str, str], dict[str, None]] = {}
    for flow in flows():
        if flow.name not in ("sensor-masked", "sensor-full", "sensor-threshold", "sensor-smart"):
            continue
        for event in flow.events:
            way = f"{event.sender} -> {event.receiver}".replace(", up to the base station", "")
            way = "each to each other" if event.both else way
            by = said_by.setdefault((event.name, way), {})
            by[flow.name.split("-", 1)[1]] = None
    rows: list[list[object]] = []
    for name, size in sizes.items():
        ways = [(way, by) for (one, way), by in said_by.items() if one == name]
        text = "; ".join(f"{way} ({', '.join(by)})" for way, by in ways)
        rows.append([f"`{name}`", text, size])
    rows.append([f"`{CmtReport.__name__}`", "node -> parent (cmt)", "with the list of the silent"])
    return table(["message", "from, to (in the figures of)", f"bytes, m = {members}"], rows)


def multidim_messages() -> str:
    """Return what one respondent sends, on the bundled tables at epsilon 1."""
    rows: list[list[object]] = []
    for protocol, oracle in (
        ("spl", "adp"),
        ("smp", "adp"),
        ("smp", "ss"),
        ("rs+fd", "grr"),
        ("rs+fd", "oue-z"),
    ):
        row: list[object] = ["`TupleReports`", "respondent -> aggregator", f"{protocol}[{oracle}]"]
        for name in ("adult", "nursery"):
            attributes, _ = survey_of(name)
            params = multidim.Params(
                attributes=attributes,
                epsilon=1.0,
                protocol=multidim.Protocol(protocol),
                oracle=oracle,
            )
            row.append(f"{report_bytes(params):.4g}")
        rows.append(row)
    return table(["message", "from, to", "survey", "bytes, adult", "bytes, nursery"], rows)


def locational_messages() -> str:
    """Return what one respondent sends, of 50 regions and a yes or no, at epsilon 1."""
    rows: list[list[object]] = []
    regions = RegionList([f"region {number}" for number in range(50)])
    for mechanism in ("grr", "ss", "oue", "olh", "pgr", "hr", "gaussian"):
        params = locational.Params(
            regions=regions, value=Boolean(), epsilon=1.0, mechanism=mechanism
        )
        way = "respondent -> aggregator"
        rows.append(["`Reports`", way, f"`{mechanism}`", f"{params.report_bytes:.4g}"])
    return table(["message", "from, to", "mechanism", "bytes"], rows)


def responses_messages(rows: int = 10) -> str:
    """Return the bytes of one row of a bag of ten, whose response is one number."""
    params = secagg.Params.recommend(clients=rows, dim=1, corrupt=0.0, dropout=0.0)
    noise = calibrated(params, clip=1.0, epsilon=1.0, delta=1e-6, rounds=1, adjacency="replace")
    plan = secagg.plan(private_params(noise, params), units=FREE)
    drawn = next(flow for flow in flows() if flow.name == "responses-secure")
    lines: list[list[object]] = []
    for event in drawn.events:
        if event.sender == event.receiver:
            continue
        sides = plan.bytes_down if event.sender == "server" else plan.bytes_up
        size = cell(sides[event.round]) if event.round in sides else "a row for each bag"
        lines.append([event.round, f"`{event.name}`", f"{event.sender} -> {event.receiver}", size])
    return table(["round", "message", "from, to", f"bytes, {rows} rows in the bag"], lines)


BLOCKS: dict[str, Callable[[], str]] = {
    "secagg-messages": secagg_messages,
    "lsa-messages": lsa_messages,
    "sensor-messages": sensor_messages,
    "multidim-messages": multidim_messages,
    "locational-messages": locational_messages,
    "responses-messages": responses_messages,
}
"""The blocks, by their name in the pages."""
