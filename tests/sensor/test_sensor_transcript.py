"""A sensor transcript: what it says, and the file that says it."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from privagg.errors import UsageError
from privagg.protocols import sensor
from privagg.protocols.sensor import Deployment, Protocol, Radio, engines
from privagg.protocols.sensor.transcript import Entry, Transcript

PLAYED = {
    "PaperShares": "Shares",
    "Assembled": "Answer",
    "EfficientAnswer": "Answer",
    "CmtReport": "Report",
    "SeededRoster": "Roster",
}


def run(protocol, seed=5, nodes=40, **changes):
    return sensor.simulate(
        Deployment(nodes=nodes, area=100, range=40, seed=seed),
        protocol=protocol,
        allow_insecure=True,
        transcript=True,
        **changes,
    )


@pytest.mark.parametrize(
    ("protocol", "changes"),
    [(p, {}) for p in Protocol] + [("cpda-field", {"drops": 1}), ("smart", {"slices": 3})],
    ids=str,
)
def test_sizes_are_those_of_the_messages_that_parties_encode(protocol, changes, monkeypatch):
    casts = []
    made = engines.cast
    monkeypatch.setattr(engines, "cast", lambda *a: casts.append(made(*a)) or casts[-1])
    transcript = run(protocol, engine="parties", **changes).transcript
    said, seen = Counter(), set()
    for entry in transcript:
        name = (entry.kind, entry.sender, entry.attempt)
        if entry.kind in ("Hello", "Join") or (entry.broadcast and name in seen):
            continue
        seen.add(name)
        said[entry.kind, entry.sender] += entry.size
    played = Counter()
    for (kind, sender), octets in casts[0].sizes.items():
        if kind not in ("Hello", "Join", "Relay", "PaperRelay", "SeedRelay", "Redo"):
            played[PLAYED.get(kind, kind), sender] += octets
    assert played == said


@pytest.mark.parametrize("protocol", Protocol)
def test_a_file_comes_back_and_holds_no_secret(protocol, tmp_path):
    path = tmp_path / "net.jsonl"
    result = run(protocol, radio=Radio(loss=0.1), epochs=2, deaths={3: (1, "shares")})
    result.transcript.write(path)
    assert Transcript.read(path) == result.transcript
    head = json.loads(path.read_text().splitlines()[0])
    assert head["holds"].startswith("simulation truth")
    allowed = {"Roster", "SenderSet", "Seed", "Report"}
    assert all(not entry.data or entry.kind in allowed for entry in result.transcript)
    assert len(result.transcript.of_epoch(1)) > 0
    assert sensor.simulate(result.deployment, protocol="tag").transcript is None


def test_both_engines_write_the_same():
    """What depends on no secret: all but the seeds."""
    for protocol in ("cpda-field", "mask-cluster", "tag", "smart"):
        assert run(protocol).transcript == run(protocol, engine="parties").transcript


def test_what_went_into_the_sum_is_what_the_reports_say():
    result = run("cpda-field", radio=Radio(loss=0.2), seed=6)
    entries = result.transcript.of_epoch(0)
    rosters = {e.cluster: e.data for e in entries if e.kind == "Roster"}
    above = {e.sender: e.receiver for e in entries if e.kind == "Report" and e.arrived}
    covered = set()
    for entry in entries:
        if entry.kind == "Report" and entry.data:
            at = entry.sender
            while at in above:
                at = above[at]
            if at == result.transcript.base_station:
                covered |= set(rosters[entry.data[0]])
    assert covered == set(result.covered[0].nonzero()[0].tolist())


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    path = tmp_path_factory.mktemp("net") / "net.jsonl"
    run("cpda-field", nodes=20).transcript.write(path)
    return path.read_text().splitlines()


@pytest.mark.parametrize(
    ("line", "change"),
    [
        (0, {"format": "privagg secagg transcript 1"}),
        (0, {"schema_version": 2}),
        (0, {"holds": "nothing"}),
        (0, {"messages": 1}),
        (0, {"messages": 10**6}),
        (0, {"messages": -1}),
        (0, {"base_station": 7}),
        (0, {"epochs": 0}),
        (0, {"more": 1}),
        (-1, {"kind": "Shares"}),
        (-1, {"sealed": False}),
        (-1, {"sender": 99}),
        (-1, {"receiver": -1}),
        (-1, {"cluster": 1}),
        (-1, {"epoch": 1}),
        (-1, {"size": -1}),
        (-1, {"size": True}),
        (-1, {"data": [3, 3]}),
        (-1, {"data": [10**6]}),
        (-1, {"arrived": 1}),
        (-1, {"secret": 1}),
    ],
    ids=str,
)
def test_a_file_that_was_changed_is_refused_by_its_line(lines, line, change, tmp_path):
    path = tmp_path / "net.jsonl"
    changed = list(lines)
    changed[line] = json.dumps(json.loads(changed[line]) | change)
    path.write_text("\n".join(changed) + "\n")
    with pytest.raises(UsageError, match=r"net\.jsonl, line \d+"):
        Transcript.read(path)


def test_a_file_that_is_cut_or_missing_is_refused(lines, tmp_path):
    path = tmp_path / "net.jsonl"
    for text in ("", "\n".join(lines[:-1]) + "\n", "\n".join(lines), "[]\n", "\xff\n" * 3):
        path.write_text(text)
        with pytest.raises(UsageError):
            Transcript.read(path)
    with pytest.raises(UsageError, match="readable"):
        Transcript.read(tmp_path / "none")
    params = json.loads(lines[0])
    params["params"]["min_cluster"] = 2
    path.write_text(json.dumps(params) + "\n")
    with pytest.raises(UsageError, match="params, min_cluster"):
        Transcript.read(path)


def test_epochs_and_arguments():
    transcript = run("tag", nodes=20).transcript
    for epoch in (1, -1, True, "0"):
        with pytest.raises(UsageError, match="epoch"):
            transcript.of_epoch(epoch)
    with pytest.raises(UsageError, match="transcript"):
        sensor.simulate(Deployment(nodes=5, area=10, range=9, seed=1), transcript=1)
    assert isinstance(transcript.entries[0], Entry)
