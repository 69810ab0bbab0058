"""The conformance kit: the package passes it, and it says what it found."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import lru_cache

import pytest

from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols import secagg
from privagg.testing import secagg as kit
from privagg.testing.secagg import BEHAVIOURS, Expect, Liar
from privagg.testing.secagg.arena import Arena

THREATS = ["semi-honest", "active", "semi-malicious"]


def missed(report):
    return "\n".join(map(str, report.missed))


# The package itself.


@lru_cache
def ours(threat):
    return kit.check_client(threat=threat)


@pytest.mark.parametrize("threat", THREATS)
def test_our_client_passes(threat):
    report = ours(threat)
    assert report.ok, missed(report)
    wanted = {
        one.name
        for one in BEHAVIOURS.values()
        if one.of_server and secagg.Threat(threat) in one.threats
    }
    assert {finding.behaviour.name for finding in report.findings} == wanted
    for finding in report.findings:
        if finding.behaviour.expect is Expect.CAUGHT:
            assert finding.outcome == "caught"
            assert finding.caught_by.startswith("client ")
            assert finding.round == finding.behaviour.round_in(secagg.Threat(threat))


@pytest.mark.parametrize("threat", THREATS)
def test_our_server_passes(threat):
    report = kit.check_server(threat=threat)
    assert report.ok, missed(report)
    assert {finding.behaviour.liar for finding in report.findings} == {Liar.CLIENTS, Liar.NOBODY}
    for finding in report.findings:
        if finding.behaviour.expect is Expect.BLAMED:
            assert finding.blame
        if finding.behaviour.liar is Liar.NOBODY:
            assert not finding.blame or finding.behaviour.name == "garbage-from-one-client"


@pytest.mark.parametrize("threat", THREATS)
def test_a_caught_lie_reveals_no_share(threat):
    """Only where the lie comes after an honest answer has the client given shares, of one kind."""
    after_an_answer = {"both-kinds-of-share", "unmasking-twice"}
    for finding in ours(threat).findings:
        if finding.outcome == "caught" and finding.behaviour.name not in after_an_answer:
            assert finding.shares_released == 0, finding


def test_every_seed_and_larger_rounds_pass():
    params = secagg.Params.recommend(
        clients=30, dim=3, threat="semi-malicious", graph="sparse", corrupt=0.1, sigma=20
    )
    for seed, names in enumerate((["surrounded-victim"], ["sybils-with-one-key"])):
        assert kit.check_client(
            threat="semi-malicious", params=params, behaviours=names, seed=100 * seed
        ).ok
    weighted = secagg.Params.recommend(
        clients=6, dim=3, threat="active", clip=1.5, weighted=True, max_weight=9, dropout=0.0
    )
    assert kit.check_client(threat="active", params=weighted, behaviours=["honest-round"]).ok
    assert kit.check_server(
        threat="active", params=weighted, behaviours=["words-outside-the-encoding"]
    ).ok


# What is asked of the kit.


def test_names_and_threats_are_checked():
    with pytest.raises(UsageError, match="no-such-lie"):
        kit.check_client(threat="active", behaviours=["no-such-lie"])
    with pytest.raises(UsageError, match="keys-replaced"):
        kit.check_client(threat="semi-honest", behaviours=["keys-replaced"])
    with pytest.raises(UsageError, match="holder-of-wrong-shares"):
        kit.check_client(threat="active", behaviours=["holder-of-wrong-shares"])
    (params,) = kit.rounds_for("active")
    with pytest.raises(UsageError, match="params"):
        kit.check_client(threat="semi-honest", params=params)
    setting = kit.Setting(params=params)
    with pytest.raises(UsageError, match="sparse graph"):
        kit.perform(BEHAVIOURS["surrounded-victim"], setting)


def test_what_cannot_be_done_is_said():
    params = secagg.Params.recommend(clients=4, dim=2, threat="active", corrupt=0.0, dropout=0.0)
    with pytest.raises(UsageError, match="5 are needed"):
        kit.perform(BEHAVIOURS["keys-replaced"], kit.Setting(params=params))


def test_the_behaviours_describe_themselves():
    assert len(BEHAVIOURS) >= 100
    for name, one in BEHAVIOURS.items():
        assert name == one.name == name.lower()
        assert len(one.text) > 20
        assert one.text.endswith(".")
        assert one.source
        assert one.threats
        assert one.invariant or one.liar is Liar.NOBODY
        assert all(issubclass(error, PeerError | Abort | UsageError) for error in one.errors)
        assert inspect.getmodule(one.act) in kit.FAMILIES


def test_a_finding_says_who_caught_what_where():
    report = kit.check_client(threat="active", behaviours=["keys-replaced"])
    (finding,) = report.findings
    assert finding.error == "PeerError"
    assert finding.round == "share-keys"
    assert finding.caught_by == "client 4"
    assert isinstance(finding.accused, int)
    assert "identity has not signed" in finding.detail
    assert str(report).startswith("1 of 1 behaviours passed\nok   keys-replaced (active, complete)")


def test_a_seed_repeats_an_arena():
    (params,) = kit.rounds_for("active")
    first, second = (Arena(kit.Setting(params=params, seed=5)) for _ in range(2))
    assert first.due().encode() == second.due().encode()
    assert first.exchange(0).encode() == second.exchange(0).encode()
    other = Arena(kit.Setting(params=params, seed=6))
    assert first.exchange(1).encode() != other.exchange(1).encode()


def test_the_server_of_the_arena_is_honest_until_it_is_told_otherwise():
    for threat in THREATS:
        for params in kit.rounds_for(threat):
            arena = Arena(replace(kit.Setting(params=params), seed=3))
            arena.until(secagg.Phase.DONE)
            assert arena.sum_is_right()
            arena._in[0] = (arena._in[0][0] + 1, 1)
            assert not arena.sum_is_right()
