"""Simulated rounds against stronger threat models, and with somebody lying in them."""

from __future__ import annotations

import json

import pytest
from test_simulate_secagg import KEYS

from privagg.cli import _secagg_misbehave, _secagg_shared
from privagg.protocols import secagg
from privagg.protocols.secagg.states import SEQUENCES
from privagg.testing import secagg as kit

ACTIVE = ("--clients", 8, "--dim", 5, "--threat", "active", "--corrupt", 0.25, "--dropout", 0.25)
SPARSE = (
    *("--clients", 60, "--dim", 5, "--threat", "semi-malicious", "--graph", "sparse"),
    *("--corrupt", 0.05, "--dropout", 0.05),
)
ROUNDS = {"active": ACTIVE, "semi-malicious": SPARSE}


def titles(threat):
    return [phase.title for phase in SEQUENCES[secagg.Threat(threat)]]


# Honest rounds.


@pytest.mark.parametrize("threat", ROUNDS)
def test_a_round_against_a_stronger_threat_model(simulate, run, capsys, threat):
    data, _ = simulate(*ROUNDS[threat])
    assert set(data) == KEYS
    assert data["exact"]
    assert data["blame"] == []
    assert list(data["survivors"]) == titles(threat)
    assert set(data["dropouts"]) == set(secagg.ROUNDS)
    assert f"({threat})" in data["guarantee"]
    assert (data["expansion_graph_proof"] > 0) == (threat == "semi-malicious")
    assert run("simulate", "secagg", *ROUNDS[threat]) == 0
    out = capsys.readouterr().out
    for name in titles(threat):
        assert name in out
    assert ("the proof that its neighbours" in out) == (threat == "semi-malicious")
    assert ("for each of at most 4 graphs drawn" in out) == (threat == "semi-malicious")


@pytest.mark.parametrize("threat", ROUNDS)
def test_a_plan_says_the_bytes_of_these_rounds(simulate, run, capsys, threat):
    settings = [*ROUNDS[threat][:-1], 0]  # nobody leaves
    data, _ = simulate(*settings)
    assert run("plan", "secagg", *settings, "--json", "--no-calibrate") == 0
    plan = json.loads(capsys.readouterr().out)
    shared = set(data) & set(plan) - {"command"}
    assert {"expansion", "expansion_graph_proof", "bytes_up", "bytes_down"} <= shared
    assert {key: data[key] for key in shared} == {key: plan[key] for key in shared}


@pytest.mark.parametrize("threat", ROUNDS)
def test_clients_may_leave_before_any_round(simulate, threat):
    for name in secagg.ROUNDS:
        data, err = simulate(*ROUNDS[threat], "--drop-at", name)
        assert data["exact"]
        assert data["dropouts"][name] == (2 if threat == "active" else 3)
        assert (f"No round {name} against {threat}" in err) == (name not in titles(threat))


def test_blame_is_shown():
    blame = [
        secagg.Blame(dealer=place, holder=1, reason="wrong share", verdict="holder")
        for place in range(2, 14)
    ]
    assert _secagg_shared.blame_rows(blame)[0] == {
        "dealer": 2,
        "holder": 1,
        "reason": "wrong share",
        "verdict": "holder",
    }
    table = _secagg_shared.blame_table(blame)
    assert table.title.endswith("10 of 12")
    assert len(table.rows) == 10


# Identities.


@pytest.fixture
def identities(run, tmp_path, capsys):
    folder, roster = tmp_path / "identities", tmp_path / "roster.json"
    assert run("keys", "new", "client", "--count", 8, "--dir", folder) == 0
    files = sorted(folder.iterdir())
    assert run("keys", "roster", *files, "--out", roster) == 0
    capsys.readouterr()
    return folder, roster


def test_given_identities_are_used(simulate, identities):
    folder, roster = identities
    given = ("--roster", roster, "--identities", folder)
    (folder / "more.identity").write_bytes((folder / "client-0.identity").read_bytes())
    (folder / "keys.txt").write_text(secagg.Roster.load(roster).identities[0].hex())
    data, _ = simulate(*ACTIVE, *given)
    assert data["exact"]
    data, _ = simulate(*ACTIVE, *given, "--misbehave", "keys-replaced", code=4)
    assert data["caught_by"]["error"] == "PeerError"


def test_identities_that_do_not_fit_are_refused(refused, identities, run, capsys):
    folder, roster = identities
    both = ("--roster", roster, "--identities", folder)
    assert "--identities" in refused(*ACTIVE, "--roster", roster)
    assert "--roster" in refused(*ACTIVE, "--identities", folder)
    assert "8 identities" in refused(*ACTIVE, *both, "--clients", 9)
    assert "semi-honest" in refused("--clients", 8, "--dim", 5, *both)
    (folder / "client-3.identity").unlink()
    assert "no identity of client 3" in refused(*ACTIVE, *both)
    words = folder.parent / "words"
    words.write_text("a passphrase")
    sealed = folder.parent / "sealed"
    target = folder / "client-3.identity"
    options = ("--passphrase-file", words)
    assert run("keys", "new", "client-3", "--dir", folder, *options) == 0
    assert run("keys", "roster", *sorted(folder.iterdir()), "--out", sealed) == 0
    capsys.readouterr()
    message = refused(*ACTIVE, "--roster", sealed, "--identities", folder)
    assert target.name in message
    assert "encrypted" in message


# Lies.


@pytest.mark.parametrize(
    ("threat", "name", "outcome", "party", "where", "error"),
    [
        ("active", "keys-replaced", "caught", "client 4", "share-keys", "PeerError"),
        ("active", "cohort-of-one", "caught", "client 4", "share-keys", "Abort"),
        ("active", "survivor-equivocation", "caught", "client 4", "unmasking", "PeerError"),
        ("active", "threshold-below-policy", "caught", "client 4", "advertise-keys", "UsageError"),
        (
            "active",
            "client-without-a-signature",
            "refused",
            "server",
            "advertise-keys",
            "PeerError",
        ),
        ("active", "dealer-of-wrong-shares", "ended", "server", "unmasking", "PeerError"),
        ("active", "holder-of-wrong-shares", "blamed", "server", "unmasking", None),
        ("active", "client-that-sends-two-vectors", "ignored", "server", "masked-input", None),
        ("active", "one-ciphertext-replaced", "contained", "client 4", None, None),
        ("semi-malicious", "surrounded-victim", "caught", "client 30", "share-keys", "PeerError"),
        ("semi-malicious", "too-many-draws", "caught", "client 30", "commit-graph", "PeerError"),
    ],
)
def test_a_lie_is_shown_being_caught(simulate, threat, name, outcome, party, where, error):
    data, _ = simulate(*ROUNDS[threat], "--misbehave", name, code=4)
    assert set(data) == KEYS | {"misbehave", "caught_by"}
    assert data["misbehave"]["name"] == name
    assert data["misbehave"]["text"] == kit.BEHAVIOURS[name].text
    caught = data["caught_by"]
    assert (caught["outcome"], caught["party"]) == (outcome, party)
    assert (caught["round"], caught["error"]) == (where, error)
    assert data["sum"] is None
    assert data["clients"] == ROUNDS[threat][1]
    assert bool(data["blame"]) == (outcome == "blamed")
    if party.startswith("client"):
        assert caught["shares_released"] == (0 if outcome == "caught" else 8)
    if outcome in ("refused", "blamed", "ignored"):
        assert data["exact"]


def test_for_people_a_lie_is_told_in_words(run, capsys):
    assert run("simulate", "secagg", *ACTIVE, "--misbehave", "keys-replaced", "--seed", 3) == 4
    out = capsys.readouterr().out
    for words in (
        "keys-replaced",
        "the man in the middle",
        "client 4",
        "share-keys",
        "PeerError",
        "nothing: no share, and no input without its masks",
        "Caught. Noticed by client 4 in round share-keys.",
        "Seeded, so insecure",
    ):
        assert words in out
    assert run("simulate", "secagg", *ACTIVE, "--misbehave", "holder-of-wrong-shares") == 4
    out = capsys.readouterr().out
    assert "Shares that were not what they should be" in out
    assert "Blamed; the sum is right." in out


def test_an_honest_round_of_the_kit_ends_well(simulate):
    data, _ = simulate(*ACTIVE, "--misbehave", "honest-round-with-dropouts")
    assert data["exact"]
    assert data["caught_by"] is None


def test_a_lie_that_nobody_notices_ends_with_5(simulate, run, capsys, monkeypatch):
    from privagg.protocols.secagg import checks

    monkeypatch.setattr(checks, "keys_are_signed", lambda *args: None)
    data, _ = simulate(*ACTIVE, "--misbehave", "keys-replaced", code=5)
    assert data["caught_by"] is None
    assert run("simulate", "secagg", *ACTIVE, "--misbehave", "keys-replaced") == 5
    assert "NOT CAUGHT: this is a fault in privagg" in capsys.readouterr().out


def test_inputs_of_every_kind_can_be_lied_about(simulate, tmp_path):
    weighted = (*ACTIVE, "--clip", 2.5, "--max-weight", 7)
    for name in ("words-outside-the-encoding", "keys-replaced", "dealer-of-one-wrong-share"):
        data, _ = simulate(*weighted, "--misbehave", name, code=4)
        assert data["clip"] == 2.5
    table = ("--data", "adult", "--column", "sex", "--clients", 6, "--threat", "active")
    simulate(*table, "--misbehave", "survivors-below-threshold", code=4)


def test_the_names_can_be_listed(simulate, run, capsys):
    data, _ = simulate("--misbehave", "list")
    assert {one["name"] for one in data["behaviours"]} == set(kit.BEHAVIOURS)
    assert run("simulate", "secagg", "--misbehave", "list", "--threat", "active") == 0
    out = capsys.readouterr().out
    assert "survivor-equivocation" in out
    assert "surrounded-victim" not in out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--misbehave", "key-replaced"), "keys-replaced"),
        (("--misbehave", "SYBILS"), "sybils-with-one-key"),
        (("--misbehave", "xyzzy"), "--misbehave list"),
        (("--misbehave", "surrounded-victim"), "semi-malicious"),
        (("--misbehave", "keys-replaced", "--drop-at", "unmasking"), "--drop-at"),
        (("--misbehave", "keys-replaced", "--transcript", "t.jsonl"), "--transcript"),
        (("--misbehave", "keys-replaced", "--clients", 4, "--corrupt", 0), "5 are needed"),
    ],
)
def test_lies_that_cannot_be_told_are_refused(refused, args, words):
    message = refused(*ACTIVE, *args)
    assert words in message
    assert "--misbehave" in message or words.startswith("--")


CLIENTS = ["keys-replaced", "one-ciphertext-replaced", "honest-round"]
SERVERS = [
    "client-with-another-model",
    "client-without-a-signature",
    "holder-of-wrong-shares",
    "client-that-sends-two-vectors",
    "dealer-of-wrong-shares",
]


def test_every_outcome_has_its_words():
    assert set(_secagg_misbehave.__all__) == {"catalogue", "exit_code", "named", "play", "report"}
    (params,) = kit.rounds_for("active")
    passing = [
        *kit.check_client(threat="active", params=params, behaviours=CLIENTS).findings,
        *kit.check_server(threat="active", params=params, behaviours=SERVERS).findings,
    ]
    assert len({finding.outcome for finding in passing}) == 7
    for finding in passing:
        words = _secagg_misbehave._verdict(finding)
        assert words.endswith(".")
        assert "fault" not in words
