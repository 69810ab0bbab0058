from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from privagg import keys
from privagg.protocols import secagg
from privagg.protocols.secagg import messages, transcript_file

KEYS = {
    *("schema_version", "command", "privagg"),
    *(
        "protocol",
        "threat",
        "graph",
        "clients",
        "neighbours",
        "thresholds",
    ),
    *("cohorts", "inputs", "honest_set", "sybils", "coalitions", "smallest_coalition", "exposed"),
    *("chance", "max_exposed", "adaptive", "leak", "deviations", "findings", "messages", "aborted"),
    *("insecure_seed", "limits"),
}
ROUNDS = {
    "semi-honest": ("--corrupt", 0.1),
    "sparse": ("--graph", "sparse"),
    "active": ("--threat", "active"),
    "semi-malicious": ("--threat", "semi-malicious", "--graph", "sparse"),
}


@pytest.fixture
def audit(run, capsys):
    """Run the audit; return its JSON object."""

    def call(*args, code=0):
        found = run("audit", "secagg", *args, "--json", "--quiet")
        out, err = capsys.readouterr()
        assert found == code, err
        return json.loads(out)

    return call


@pytest.fixture
def recorded(simulate, tmp_path):
    """Simulate a round; return the options of its audit."""

    def call(threat, *more):
        record, roster = tmp_path / f"{threat}.jsonl", tmp_path / f"{threat}.json"
        flags = ("--clients", 16, "--dim", 3, "--dropout", 0.1, "--transcript", record)
        signed = threat in ("active", "semi-malicious")
        flags += ("--roster-out", roster) if signed else ()
        simulate(*flags, *ROUNDS[threat], "--transcript-payloads", *more)
        return ("--transcript", record, *(("--roster", roster) if signed else ()))

    return call


@pytest.mark.parametrize("threat", ROUNDS)
def test_an_honest_round_passes(recorded, audit, run, capsys, threat):
    options = recorded(threat)
    data = audit(*options)
    assert set(data) == KEYS
    assert data["findings"] == []
    assert not data["leak"]
    assert data["honest_set"] == data["inputs"] - data["thresholds"]["corrupt"]
    signed = data["sybils"]["signed"]
    assert signed is ("--roster" in options)
    assert data["sybils"]["share_outside"] == (0 if signed else 1)
    assert [size["size"] for size in data["coalitions"]] == list(range(16))
    assert run("audit", "secagg", *options) == 0
    out = capsys.readouterr().out
    assert out.rstrip().endswith("Nobody left the protocol.")


def test_pages_and_plots_are_drawn(recorded, audit, tmp_path):
    page, plot = tmp_path / "a.html", tmp_path / "a.png"
    audit(*recorded("active"), "--report", page, "--plot", plot)
    assert "Smallest honest sum" in page.read_text(encoding="utf-8")
    assert plot.stat().st_size > 1000


def doctor(path, kind, change):
    """Change the messages of a kind in a transcript's file."""
    header, transcript = secagg.Transcript.read(path)
    entries = []
    for entry in transcript:
        if entry.kind == kind.__name__:
            message = kind.decode(entry.payload, header.params, peer="test")
            data = change(entry.receiver, message).encode()
            entry = replace(entry, payload=data, size=len(data), sha256="")
        entries.append(entry)
    with path.open("w", encoding="utf-8") as file:
        record = secagg.Transcript.of(entries)
        record.write(file, transcript_file.header_of(header.params, record, roster=header.roster))


def test_a_deviation_ends_with_4(recorded, audit, run, capsys):
    options = recorded("active", "--dropout", 0)

    def change(client, message):
        signatures = message.signatures.copy()
        signatures[0, 0] ^= client == 3
        return replace(message, signatures=signatures)

    doctor(options[1], messages.SignatureSet, change)
    data = audit(*options, code=4)
    assert {finding["peer"] for finding in data["findings"]} == {"server"}
    assert data["deviations"] == len(data["findings"]) > 0
    assert run("audit", "secagg", *options) == 4
    assert "The protocol was left" in capsys.readouterr().out


def test_a_leak_ends_with_5(recorded, audit, run, capsys):
    options = recorded("sparse")

    def change(client, roster):
        changed = roster.keys.copy()
        for row, member in enumerate(roster.members):
            changed[row, 32:] = np.frombuffer(keys.public_key(bytes([member + 1]) * 32), np.uint8)
        return replace(roster, keys=changed)

    doctor(options[1], messages.KeyRoster, change)
    data = audit(*options, code=5)
    assert data["leak"]
    assert data["smallest_coalition"]["size"] == 0
    assert data["coalitions"][0]["exposed"] == data["inputs"]
    assert run("audit", "secagg", *options) == 5
    assert "LEAK" in capsys.readouterr().out
    assert audit(*options, "--max-exposed", 16, code=4)["leak"] is False


def test_a_roster_of_strangers_makes_all_of_them_the_servers(recorded, audit, tmp_path):
    options = recorded("active")
    other = tmp_path / "other.json"
    kept = secagg.Roster.load(options[3]).identities[:1]
    secagg.Roster(kept).save(other)
    data = audit(*options[:2], "--roster", other, code=5)
    assert len(data["sybils"]["unknown"]) == 15
    assert data["sybils"]["share_outside"] == pytest.approx(15 / 16)
    assert data["smallest_coalition"]["size"] == 0


def test_an_aborted_round_can_be_audited(simulate, audit, tmp_path):
    gone, record = tmp_path / "gone.json", tmp_path / "round.jsonl"
    gone.write_text(json.dumps({"masked-input": list(range(12))}))
    simulate(
        *("--clients", 16, "--dim", 3, "--schedule", gone, "--transcript", record),
        "--transcript-payloads",
        code=3,
    )
    data = audit("--transcript", record)
    assert "too few" in data["aborted"]
    assert data["coalitions"][0]["smallest_sum"] is None
    assert data["findings"] == []


@pytest.mark.parametrize("text", ["", "{}", "x" * 1000, '{"format": "privagg roster 1"}'])
def test_wrong_roster_files_are_refused(recorded, audit, tmp_path, text):
    options, wrong = recorded("active"), tmp_path / "wrong.json"
    wrong.write_text(text)
    data = audit(*options[:2], "--roster", wrong, code=2)
    assert "--roster" in data["error"]["message"] or "roster" in data["error"]["argument"]


def test_wrong_transcripts_are_refused(simulate, audit, tmp_path):
    record = tmp_path / "round.jsonl"
    simulate("--clients", 8, "--dim", 3, "--transcript", record)
    assert "no payload" in audit("--transcript", record, code=2)["error"]["message"]
    record.write_text("garbage\n")
    assert "line 1" in audit("--transcript", record, code=2)["error"]["message"]
    assert audit(code=2)["error"]["exit_code"] == 2


def test_a_roster_is_written_only_where_there_are_identities(simulate, tmp_path):
    path = tmp_path / "roster.json"
    data, _ = simulate("--clients", 8, "--dim", 3, "--roster-out", path, code=2)
    assert "--roster-out" in data["error"]["message"]
    assert not path.exists()


def test_a_seeded_round_is_the_same_with_its_roster(simulate, tmp_path):
    flags = ("--clients", 8, "--dim", 3, "--threat", "active", "--seed", 4)
    one, _ = simulate(*flags)
    path = tmp_path / "roster.json"
    other, _ = simulate(*flags, "--roster-out", path)
    assert one["sum"] == other["sum"]
    assert len(secagg.Roster.load(path)) == 8
