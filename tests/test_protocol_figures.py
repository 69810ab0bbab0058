"""Each protocol has a page at a glance, and figures that are those of the tables in the code."""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from privagg.protocols import additive, lightsecagg, locational, multidim, secagg, sensor
from privagg.protocols.lightsecagg import states as lsa_states
from privagg.protocols.responses.params import Release
from privagg.protocols.secagg import states as secagg_states
from privagg.protocols.sensor.messages import Answer, Roster
from privagg.protocols.sensor.states import TABLES, MemberState, Mode
from privagg.protocols.sensor.states_papers import PAPER_TABLES

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "scripts"))  # its modules import each other

docs_glance = importlib.import_module("docs_glance")
draw_protocols = importlib.import_module("draw_protocols")
protocol_flows = importlib.import_module("protocol_flows")

FLOWS = {flow.name: flow for flow in draw_protocols.flows()}

# What respondents of single attributes send is on the page of the mechanisms, docs/ldp.md.
PACKAGES = sorted(
    path.name
    for path in (ROOT / "privagg" / "protocols").iterdir()
    if path.is_dir() and not path.name.startswith("_") and path.name != "collection"
)

PARAMETERS = {
    "additive": additive.Params,
    "secagg": secagg.Params,
    "lightsecagg": lightsecagg.Params,
    "sensor": sensor.Params,
    "multidim": multidim.Params,
    "locational": locational.Params,
    "responses": Release,
}


def page(package):
    return (ROOT / "docs" / f"{package}.md").read_text(encoding="utf-8")


def rows_at_a_glance(package):
    found = re.search(r"^## At a glance\n(.*?)^## ", page(package), re.MULTILINE | re.DOTALL)
    assert found, package
    return dict(re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", found[1], re.MULTILINE))


def tables():
    for name, states in (("secagg", secagg_states), ("lightsecagg", lsa_states)):
        for threat, table in states.CLIENT_TABLES.items():
            yield f"{name}-{threat.value}", table
    for mode, table in TABLES.items():
        yield f"sensor-{mode.name.lower()}", table
    for protocol, table in PAPER_TABLES.items():
        yield f"sensor-{protocol.value}", table


TABLE_OF = dict(tables())


@pytest.mark.parametrize("name", FLOWS)
def test_figure_is_that_of_the_code(name):
    path = draw_protocols.IMAGES / f"protocol-{name}.svg"
    assert draw_protocols.stored_digest(path) == FLOWS[name].digest, "run scripts/draw_protocols.py"
    assert path.stat().st_size < 60_000
    text = path.read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert draw_protocols.svg(FLOWS[name]) == text, "run scripts/draw_protocols.py"


def test_check_names_what_is_stale_missing_and_odd(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(draw_protocols, "IMAGES", tmp_path)
    assert draw_protocols.main([]) == 0
    assert draw_protocols.main(["--check"]) == 0
    stale = tmp_path / "protocol-secagg-active.svg"
    stale.write_text(stale.read_text().replace(FLOWS["secagg-active"].digest, "0" * 64))
    (tmp_path / "protocol-multidim.svg").unlink()
    (tmp_path / "protocol-odd.svg").touch()
    assert draw_protocols.main(["--check"]) == 1
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        stale.name,
        "protocol-multidim.svg",
        "protocol-odd.svg",
    ]


@pytest.mark.parametrize("name", TABLE_OF)
def test_every_pair_of_a_table_is_in_its_figure(name):
    """Walk the figure again: it holds the pairs of states that can be reached, and no others."""
    flow = FLOWS[name]
    named = {
        (at.name, kind if isinstance(kind, str) else kind.__name__): after.name
        for (at, kind), after in TABLE_OF[name].items()
    }
    shown = {(move.state, move.by): move.after for move in (*flow.stays, *flow.moves)}
    state = flow.start
    for event in flow.events:
        key = (state, event.by or event.name)
        state = event.after or state
        if key in named:
            shown[key] = state
    drawn = {state for state, _ in flow.states}
    assert shown == {key: after for key, after in named.items() if key[0] in drawn}
    assert {after for (at, _), after in named.items() if at in drawn} <= drawn


def test_all_tables_are_drawn():
    assert set(TABLE_OF) == {name for name, flow in FLOWS.items() if flow.states}


def test_a_changed_table_changes_the_digest_and_a_wrong_course_is_refused():
    order = draw_protocols.CLUSTER
    start = dataclasses.replace(
        FLOWS["sensor-full"], events=(), start="", states=(), stays=(), moves=()
    )
    table = dict(TABLES[Mode.FULL])
    same = protocol_flows.steps_flow(start, table, MemberState, order)
    assert same.digest == FLOWS["sensor-full"].digest
    del table[MemberState.ANSWERED, Answer]  # no second answer
    assert protocol_flows.steps_flow(start, table, MemberState, order).digest != same.digest
    table[MemberState.IDLE, Roster] = MemberState.ANSWERED
    with pytest.raises(ValueError, match="Roster in IDLE: not what the table says"):
        protocol_flows.walked(same, table, MemberState)


def test_an_arrow_needs_a_method_at_either_end():
    order, parties = draw_protocols.PARTIES[0]
    assert protocol_flows.backed(order, parties) == []
    turned = [(receiver, sender, step, sent) for sender, receiver, step, sent in order]
    assert "Hello: member sends none" in protocol_flows.backed(turned, parties)
    assert "Join: member takes none" in protocol_flows.backed(turned, parties)


@pytest.mark.parametrize("package", PACKAGES)
def test_page_at_a_glance(package):
    rows = rows_at_a_glance(package)
    assert tuple(rows) == docs_glance.ROWS
    assert "`privagg " in rows["Measured"]
    named = rows["Parameters of the guarantee"] + rows["Parameters of cost"]
    fields = {field.name for field in dataclasses.fields(PARAMETERS[package]) if field.init}
    assert {field for field in fields if f"`{field}`" not in named} == set()


def test_parameters_are_of_every_package():
    assert sorted(PARAMETERS) == PACKAGES


@pytest.mark.parametrize("name", FLOWS)
def test_figure_is_on_its_page_with_a_text(name):
    package = name.split("-")[0]
    found = re.findall(rf"!\[([^\]]+)\]\(images/protocol-{name}\.svg\)", page(package))
    assert len(found) == 1
    assert len(found[0]) > 40
