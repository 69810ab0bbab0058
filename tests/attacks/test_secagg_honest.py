"""Honest rounds are not blamed, and what is said of them is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rounds import THREATS, audited, edited, honest, identities_of, note, params_of, play

from privagg.attacks.secagg import audit
from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.states import Phase

LEAVES = {
    "nobody": (),
    "before sharing": ((2, Phase.SHARE_KEYS.value),),
    "after sharing": ((2, Phase.MASKED_INPUT.value),),
    "before the end": ((2, Phase.UNMASKING.value),),
    "at once": ((2, Phase.ADVERTISE_KEYS.value),),
}


@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize("leaves", LEAVES)
def test_an_honest_round_passes(threat, leaves):
    params = params_of(threat)
    found = audited(honest(threat, LEAVES[leaves]), params)
    assert found.findings == ()
    assert not found.leak
    inputs = params.clients - (leaves not in ("nobody", "before the end"))
    assert len(found.inputs) == inputs
    assert found.honest_set == inputs - params.corrupt
    assert found.at_bound.smallest == inputs - params.corrupt
    assert found.sizes[0].smallest == inputs


@pytest.mark.parametrize("threat", THREATS)
def test_random_departures_are_nobodys_fault(threat):
    params, rng = params_of(threat), np.random.default_rng(1)
    for seed in range(12):
        who = rng.choice(params.clients, 3, replace=False)
        leaves = {int(c): int(rng.integers(0, 7)) for c in who}
        found = audited(play(params, leaves=leaves, seed=seed), params)
        assert found.findings == (), leaves
        # With too few left there may be no sum; no single input is ever known without a coalition.
        assert found.sizes[0].exposed == 0


@pytest.mark.parametrize("threat", THREATS)
def test_lost_and_repeated_messages_are_nobodys_fault(threat):
    params, rng = params_of(threat), np.random.default_rng(2)

    def twice(index, message):
        return [message, message] if rng.random() < 0.3 else message

    assert audited(play(params, down=twice, up=twice), params).findings == ()

    def losing(index, message):
        lossy = isinstance(message, messages.ShareKeys | messages.MaskedInput)
        return None if lossy and index == 1 else message

    assert audited(play(params, up=losing), params).findings == ()


@pytest.mark.parametrize("in_time", [True, False])
def test_an_input_that_is_left_out_is_noticed_and_blamed_on_nobody(in_time):
    params, held = params_of("semi-honest"), []

    def lose(index, message):
        if isinstance(message, messages.MaskedInput) and index == 1:
            held.append(message)
            return None
        return message

    transcript = play(params, up=lose)
    found = audited(transcript, params)
    assert found.findings == ()
    rounds = [entry.kind for entry in transcript]
    at = rounds.index("MaskedInput") if in_time else len(rounds)
    log = secagg.Transcript(payloads=True)
    note(log, "masked-input", 1, "server", held[0])
    entries = [*transcript]
    own = entries.index(next(e for e in entries if e.kind == "ShareBundle" and e.receiver == 1))
    entries.insert(max(at, own + 1) if in_time else at, *log)
    found = audited(secagg.Transcript.of(entries), params)
    assert [finding.kind for finding in found.findings] == (["left-out"] if in_time else [])
    assert found.deviations == ()
    # The server has this input and the seed of its mask key, but not the other mask.
    assert found.sizes[0].exposed == 0
    assert found.smallest.victim == 1 or len(found.smallest.coalition) == params.threshold


def test_thresholds_and_margins_are_those_in_force():
    for threat in THREATS:
        params, found = params_of(threat), audited(honest(threat), params_of(threat))
        in_force = found.thresholds
        assert (in_force.threshold, in_force.min_cohort) == (params.threshold, params.min_cohort)
        assert in_force.holders == (params.holders, params.holders)
        assert (in_force.margin is None) is not params.signed
    active = audited(honest("active"), params_of("active")).thresholds
    params = params_of("active")
    assert active.margin == 2 * params.threshold - params.clients - params.corrupt > 0


def test_everyone_in_the_roster_is_vouched_for():
    for threat in THREATS:
        params, found = params_of(threat), audited(honest(threat), params_of(threat))
        sybils = found.sybils
        everyone = tuple(range(params.clients))
        assert sybils.cohort == everyone
        assert sybils.vouched == (everyone if params.signed else ())
        assert sybils.unsigned == (() if params.signed else everyone)
        assert sybils.share_outside == (0 if params.signed else 1)
        assert (sybils.missing, sybils.strangers, sybils.outside) == ((), (), ())


def test_a_pinned_roster_names_sybils_and_counts_them_as_the_servers():
    params = params_of("active")
    roster = identities_of(params.clients)[1]
    pinned = secagg.Roster([*roster.identities[3:], b"x" * 32])
    found = audited(honest("active"), params, pinned=pinned)
    assert found.sybils.unknown == found.sybils.outside == (0, 1, 2)
    assert found.sybils.missing == (params.clients - 3,)
    assert found.sybils.share_outside == 3 / params.clients
    assert found.honest_set == params.clients - 3 - params.corrupt
    assert found.sizes[0].smallest == params.clients - 3
    assert len(found.smallest.coalition) == min(params.threshold - 3, params.clients - 3 - 1)
    assert found.findings == ()
    strangers = identities_of(20)[1].identities[params.clients :]
    with_everyone = audited(
        honest("active"), params, pinned=secagg.Roster([*roster.identities, *strangers])
    )
    assert with_everyone.sybils.outside == ()
    assert len(with_everyone.sybils.missing) == len(strangers)


def test_all_but_one_sybil_is_a_leak():
    params = params_of("active")
    pinned = secagg.Roster(identities_of(params.clients)[1].identities[:1])
    found = audited(honest("active"), params, pinned=pinned)
    assert found.leak
    assert found.sizes[0].exposed == 1
    assert found.smallest.coalition == ()
    assert found.smallest.victim == 0


def test_an_aborted_round_reveals_nothing():
    params = params_of("semi-honest")
    gone = {client: Phase.UNMASKING.value for client in range(params.clients - 2)}
    found = audited(play(params, leaves=gone), params)
    assert found.findings == ()
    assert found.sizes[0].smallest is None
    assert not found.leak


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"transcript": "x"}, "transcript"),
        ({"transcript": secagg.Transcript()}, "transcript"),
        ({"params": None}, "params"),
        ({"roster": None}, "roster"),
        ({"roster": identities_of(3)[1]}, "roster"),
        ({"roster": "x"}, "roster"),
        ({"pinned": b"x"}, "pinned"),
        ({"model": b"x"}, "model"),
        ({"max_exposed": -1}, "max_exposed"),
        ({"max_exposed": True}, "max_exposed"),
        ({"seed": 1.5}, "seed"),
    ],
)
def test_wrong_arguments_are_named(changes, argument):
    given = {"transcript": honest("active"), "params": params_of("active")}
    given |= {"roster": identities_of(params_of("active").clients)[1]} | changes
    with pytest.raises(UsageError) as caught:
        audit(given.pop("transcript"), **given)
    assert caught.value.argument == argument


def test_a_transcript_without_payloads_or_filed_wrongly_is_refused():
    params = params_of("semi-honest")
    sizes = secagg.Transcript()
    for entry in honest("semi-honest"):
        sizes.record(
            round=entry.round,
            sender=entry.sender,
            receiver=entry.receiver,
            kind=entry.kind,
            data=entry.payload,
        )
    with pytest.raises(UsageError, match="payload"):
        audited(sizes, params)
    for changes in ({"kind": "Nothing"}, {"round": "unmasking"}, {"receiver": "server"}):
        entries = [*honest("semi-honest")]
        entries[0] = replace(entries[0], **changes)
        with pytest.raises(UsageError, match="message 1"):
            audited(secagg.Transcript.of(entries), params)


def test_edited_without_a_change_is_the_same():
    params = params_of("active")
    same = edited(honest("active"), params, messages.KeyRoster, lambda message: message)
    assert audited(same, params).findings == ()
