"""Each invariant that a client holds, broken by a server that lies, and by parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lsa_parties import Play, active, honest, identity, pinned, respond

from privagg import keys
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols import lightsecagg as lsa
from privagg.protocols.lightsecagg import Phase, messages

WHO = 1


def at(phase, make=active, **options):
    """Return the play in a phase, and what the server has for client `WHO` then."""
    play = Play(make(6, 3, **options)).until(phase)
    return play, play.due(WHO)


def refused(play, message, match, error=PeerError):
    client = play.clients[WHO]
    with pytest.raises(error, match=match) as caught:
        respond(client, message, play.vectors[WHO])
    assert client.state is lsa.ClientState.ABORTED
    with pytest.raises(PeerError, match="the round is over for this client"):
        respond(client, message, play.vectors[WHO])
    return caught.value


def test_parameters_are_ours():
    play, start = at(Phase.ADVERTISE_KEYS)
    refused(play, replace(start, params_digest=bytes(32)), "parameters differ from ours")
    play, start = at(Phase.ADVERTISE_KEYS)
    refused(play, replace(start, client=6), "index 6 where there are 6 clients")


def test_same_round():
    play, start = at(Phase.ADVERTISE_KEYS)
    refused(play, replace(start, session=bytes(16)), "another session")


def test_index_is_ours():
    play, start = at(Phase.ADVERTISE_KEYS)
    refused(play, replace(start, client=2), "index 2 is another identity's in the roster")


def edited(roster, row, key):
    table = roster.keys.copy()
    table[row] = np.frombuffer(key, np.uint8)
    return replace(roster, keys=table)


def test_own_keys_are_listed():
    play, roster = at(Phase.SHARE_MASKS, honest)
    refused(play, edited(roster, WHO, keys.public_key(bytes(32))), "other keys for this client")
    play, roster = at(Phase.SHARE_MASKS, honest)
    others = roster.members != WHO
    refused(
        play,
        replace(roster, members=roster.members[others], keys=roster.keys[others]),
        "this client is not in the roster",
    )


def test_keys_are_canonical_distinct_and_of_full_order():
    play, roster = at(Phase.SHARE_MASKS, honest)
    error = refused(play, edited(roster, 3, b"\xff" * 32), "not canonically encoded")
    assert error.peer == 3
    play, roster = at(Phase.SHARE_MASKS, honest)
    refused(play, edited(roster, 3, roster.keys[2].tobytes()), "a public key appears twice")
    play, roster = at(Phase.SHARE_MASKS, honest)
    error = refused(play, edited(roster, 3, bytes(32)), "a public key that is a point of low order")
    assert error.peer == 3


def test_keys_are_signed():
    play, roster = at(Phase.SHARE_MASKS)
    error = refused(
        play, edited(roster, 3, keys.public_key(bytes(32))), "has not signed for this round"
    )
    assert error.peer == 3
    play, roster = at(Phase.SHARE_MASKS)
    swapped = roster.signatures.copy()
    swapped[[2, 3]] = swapped[[3, 2]]
    refused(play, replace(roster, signatures=swapped), "has not signed for this round")


def fewer(roster, count):
    """Return the roster of `count` members, this client among them."""
    keep = np.arange(count)
    rows = None if roster.signatures is None else roster.signatures[keep]
    return replace(roster, members=roster.members[keep], keys=roster.keys[keep], signatures=rows)


def test_cohort_is_large_enough():
    play, roster = at(Phase.SHARE_MASKS, min_cohort=4)
    refused(play, fewer(roster, 3), "below min_cohort: 3 left, 4 needed", Abort)
    play, survivors = at(Phase.CONSISTENCY_CHECK, min_cohort=5, threshold=4)
    flags = np.array([1, 1, 1, 1, 0, 0], np.bool_)
    short = replace(survivors, survivors=flags, signatures=survivors.signatures[:4])
    refused(play, short, "below min_cohort: 4 left, 5 needed", Abort)


def test_enough_can_answer():
    play, roster = at(Phase.SHARE_MASKS, threshold=5)
    refused(play, fewer(roster, 4), "too few could answer: 4 left, 5 needed", Abort)
    play, survivors = at(Phase.CONSISTENCY_CHECK, threshold=5)
    flags = np.array([1, 1, 1, 1, 0, 0], np.bool_)
    short = replace(survivors, survivors=flags, signatures=survivors.signatures[:4])
    refused(play, short, "too few could answer: 4 left, 5 needed", Abort)


def test_bundles_fit_the_roster_and_leave_this_client_out():
    play, bundle = at(Phase.MASKED_INPUT)
    present = bundle.present.copy()
    present[[WHO, 3]] = True, False
    refused(play, replace(bundle, present=present), "from this client to itself")
    play, bundle = at(Phase.MASKED_INPUT)
    refused(
        play,
        replace(
            bundle, present=np.append(bundle.present, False)[:5], ciphertexts=bundle.ciphertexts[:4]
        ),
        "a bitmap over 5 members",
    )


def test_survivors_within_holders_and_include_self():
    play = Play(active(6, 3), leaves={5: Phase.SHARE_MASKS}).until(Phase.CONSISTENCY_CHECK)
    survivors = play.due(WHO)
    everyone = np.ones(6, np.bool_)
    rows = np.concatenate([survivors.signatures, survivors.signatures[:1]])
    refused(
        play,
        replace(survivors, survivors=everyone, signatures=rows),
        "client 5 is called a survivor but never shared its keys",
    )
    play, survivors = at(Phase.CONSISTENCY_CHECK)
    flags = survivors.survivors.copy()
    flags[WHO] = False
    refused(
        play,
        replace(survivors, survivors=flags, signatures=survivors.signatures[:5]),
        "a sum it is not in",
    )


def test_inputs_are_signed():
    play, survivors = at(Phase.CONSISTENCY_CHECK)
    rows = survivors.signatures.copy()
    rows[3] = rows[2]
    refused(play, replace(survivors, signatures=rows), "client 3 has not signed")


def test_signatures_are_valid_enough_and_of_survivors():
    play, signed = at(Phase.UNMASKING)
    rows = signed.signatures.copy()
    rows[3] = rows[2]
    refused(play, replace(signed, signatures=rows), "signature of client 3 is not over what")
    play, signed = at(Phase.UNMASKING)
    flags = np.array([1, 1, 1, 0, 0, 0], np.bool_)
    few = replace(signed, signers=flags, signatures=signed.signatures[:3])
    refused(play, few, "too few could answer: 3 left, 4 needed", Abort)
    play = Play(active(6, 3), leaves={5: Phase.MASKED_INPUT}).until(Phase.UNMASKING)
    signed = play.due(WHO)
    rows = np.concatenate([signed.signatures, signed.signatures[:1]])
    refused(
        play,
        replace(signed, signers=np.ones(6, np.bool_), signatures=rows),
        "client 5 signed but is no survivor",
    )


def test_shares_are_held():
    play = Play(honest(6, 3)).until(Phase.MASKED_INPUT)
    bundle = play.due(WHO)
    spoiled = bundle.ciphertexts.copy()
    spoiled[0, 0] ^= 1
    sent = respond(play.clients[WHO], replace(bundle, ciphertexts=spoiled), play.vectors[WHO])
    play.deliver(WHO, sent.encode())
    for index in (0, 2, 3, 4, 5):
        play.deliver(index, play.answer(index, play.say(index)))
    play.server.close()
    refused(play, play.due(0), "client 0's share, reported missing")


def test_two_survivor_sets_never_get_two_sums():
    """Whatever a server says: one set is signed by U clients, as 2 U > N + T."""
    params = active(7, 3)
    assert 2 * params.threshold > params.clients + params.privacy
    play = Play(params).until(Phase.CONSISTENCY_CHECK)
    whole = play.due(WHO)
    part = replace(whole, survivors=np.arange(7) < 6, signatures=whole.signatures[:6])
    statements = {}
    for index, shown in enumerate([whole, whole, whole, part, part, part]):
        reply = respond(play.clients[index], shown)
        statements.setdefault(id(shown), []).append((index, reply.signature))
    for shown in (whole, part):
        rows = statements[id(shown)]
        flags = np.zeros(7, np.bool_)
        flags[[index for index, _ in rows]] = True
        table = np.frombuffer(b"".join(row for _, row in rows), np.uint8).reshape(-1, 64)
        signed = messages.SignatureSet(tag=whole.tag, signers=flags, signatures=table)
        for index, _ in rows:
            with pytest.raises(Abort, match="too few could answer: 3 left, 5 needed"):
                respond(play.clients[index], signed)


def test_policy_is_met():
    params = active(6, 3, corrupt=1 / 6, threshold=4, min_cohort=3)
    roster = pinned(6)
    cases = [
        (lsa.Policy(min_cohort=7, max_corrupt=1, roster=roster), "policy.min_cohort"),
        (lsa.Policy(min_cohort=4, max_corrupt=2, roster=roster), "params.corrupt"),
        (lsa.Policy(min_cohort=4, max_corrupt=1, roster=pinned(5)), "policy.roster"),
        (lsa.Policy(min_cohort=4, max_corrupt=1), "policy.roster"),
    ]
    for policy, argument in cases:
        with pytest.raises(UsageError) as caught:
            lsa.Client(params, policy, identity=identity(0))
        assert caught.value.argument == argument
    with pytest.raises(UsageError, match="a Signer where the threat model is active"):
        lsa.Client(params, lsa.policy_of(params, roster))
    with pytest.raises(UsageError, match="None where the threat model is semi-honest"):
        lsa.Client(honest(6, 3), identity=identity(0))
