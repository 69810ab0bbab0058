"""Every deviation is found, named, and blamed on whom it must be."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rounds import audited, edited, honest, identities_of, kinds, note, of_kind, params_of, play

from privagg import keys
from privagg.attacks.secagg_findings import DEVIATIONS, NOTICES
from privagg.protocols import secagg
from privagg.protocols.secagg import messages

M = messages


FROM_SERVER = {
    *(M.Start, M.GraphRequest, M.GraphChallenge, M.KeyRoster, M.ShareBundle, M.SurvivorSet),
    M.SignatureSet,
}


def flipped(flags, at):
    """Return a bitmap with one bit turned over."""
    changed = flags.copy()
    changed[at] = not changed[at]
    return changed


def without(roster, member):
    """Return a roster of the complete graph without one member."""
    keep = roster.members != member
    return replace(
        roster,
        cohort=roster.cohort - 1,
        members=roster.members[keep],
        keys=roster.keys[keep],
        signatures=None if roster.signatures is None else roster.signatures[keep],
    )


def with_key(roster, row, key=None):
    """Return a roster with another key in a row."""
    changed = roster.keys.copy()
    changed[row, :32] = np.frombuffer(key or keys.public_key(bytes(range(32))), np.uint8)
    return replace(roster, keys=changed)


def spoil(rows):
    changed = rows.copy()
    changed[0, 0] ^= 1
    return changed


def wrong_shares(message):
    shares = message.shares.copy()
    shares[:, 0] ^= np.uint64(1)
    return replace(message, shares=shares)


def missing_share(message):
    shares, missing = message.shares.copy(), message.missing.copy()
    shares[0], missing[0] = 0, True
    return replace(message, shares=shares, missing=missing)


def cut(message):
    return message.encode()[:-1]


def other_session(start):
    return replace(start, session=b"another session!")


# Threat, message, the client concerned, the change, what is found, the peer.
EDITS = {
    "cut input": ("semi-honest", M.MaskedInput, 3, cut, "garbage", 3),
    "input too long": (
        *("semi-honest", M.MaskedInput, 3, lambda m: m.encode() + b"x", "garbage", 3),
    ),
    "empty input": ("semi-honest", M.MaskedInput, 3, lambda m: b"", "garbage", 3),
    "cut roster": ("active", M.KeyRoster, 3, cut, "garbage", "server"),
    "wrong version": (
        *("active", M.KeyRoster, 3, lambda m: b"\7" + m.encode()[1:], "garbage", "server"),
    ),
    "other tag": (
        *("semi-honest", M.MaskedInput, 3, lambda m: replace(m, tag=b"12345678")),
        *("other-round", 3),
    ),
    "other tag of the server": (
        *("semi-honest", M.SurvivorSet, 3, lambda m: replace(m, tag=b"12345678")),
        *("other-round", "server"),
    ),
    "two survivor sets": (
        *("semi-honest", M.SurvivorSet, 3),
        lambda m: [m, replace(m, survivors=flipped(m.survivors, 0), cohort=m.cohort - 1)],
        *("second-different", "server"),
    ),
    "keys advertised twice": (
        *("semi-honest", M.AdvertiseKeys, 3),
        lambda m: [m, replace(m, mask_key=keys.public_key(bytes(range(32))))],
        *("second-different", 3),
    ),
    "unmasking answered twice": (
        *("semi-honest", M.UnmaskShares, 3, lambda m: [m, wrong_shares(m)]),
        *("second-different", 3),
    ),
    "no request": ("semi-honest", M.ShareBundle, 3, lambda m: None, "out-of-order", "server"),
    "no invitation": ("semi-honest", M.Start, 3, lambda m: None, "out-of-order", 3),
    "other session": ("active", M.Start, 3, other_session, "different-starts", "server"),
    "other index": (
        *("active", M.Start, 3, lambda m: replace(m, client=4), "different-starts", "server"),
    ),
    "other parameters": (
        *("active", M.Start, 3, lambda m: replace(m, params_digest=bytes(32))),
        *("different-starts", "server"),
    ),
    "other key root": (
        *("semi-malicious", M.GraphRequest, 3, lambda m: replace(m, key_root=bytes(32))),
        *("different-graphs", "server"),
    ),
    "other graph root": (
        *("semi-malicious", M.GraphChallenge, 3, lambda m: replace(m, root=bytes(32))),
        *("different-graphs", "server"),
    ),
    "other neighbours": (
        *("semi-malicious", M.GraphChallenge, 3, lambda m: replace(m, root=bytes(32))),
        *("bad-graph", "server"),
    ),
    "client left out of the graph": (
        *("semi-malicious", M.GraphChallenge, 3),
        lambda m: replace(m, present=flipped(m.present, 3)),
        *("bad-graph", "server"),
    ),
    "other opening": (
        *("semi-malicious", M.GraphReveal, 3, lambda m: replace(m, opening=bytes(16))),
        *("bad-opening", 3),
    ),
    "shorter roster": (
        *("semi-honest", M.KeyRoster, 3, lambda m: without(m, 5), "different-rosters", "server"),
    ),
    "other sparse digest": (
        *("sparse", M.KeyRoster, 3, lambda m: replace(m, digest=bytes(32))),
        *("different-rosters", "server"),
    ),
    "other key": (
        "semi-honest",
        M.KeyRoster,
        3,
        lambda m: with_key(m, 5),
        "altered-keys",
        "server",
    ),
    "other key, sparse": (
        *("sparse", M.KeyRoster, 3, lambda m: with_key(m, 2), "altered-keys", "server"),
    ),
    "other key, unsigned": (
        *("active", M.KeyRoster, 3, lambda m: with_key(m, 5), "bad-signature", "server"),
    ),
    "key of nobody": (
        "semi-honest",
        M.AdvertiseKeys,
        5,
        lambda m: None,
        "invented-client",
        "server",
    ),
    "left out of its roster": (
        *("semi-honest", M.KeyRoster, 3, lambda m: without(m, 3), "own-keys", "server"),
    ),
    "own key replaced": (
        *("semi-honest", M.KeyRoster, 3, lambda m: with_key(m, 3), "own-keys", "server"),
    ),
    "key twice in a roster": (
        *("semi-honest", M.KeyRoster, 3),
        lambda m: with_key(m, 5, m.keys[6, :32].tobytes()),
        *("key-repeated", "server"),
    ),
    "key of low order": (
        *("semi-honest", M.AdvertiseKeys, 3, lambda m: replace(m, mask_key=bytes(32))),
        *("key-malformed", 3),
    ),
    "one key for both": (
        *("semi-honest", M.AdvertiseKeys, 3, lambda m: replace(m, mask_key=m.cipher_key)),
        *("key-repeated", 3),
    ),
    "neighbour dropped": (
        *("sparse", M.KeyRoster, 3),
        lambda m: replace(m, members=m.members[1:], keys=m.keys[1:]),
        *("one-sided-edge", "server"),
    ),
    "inflated cohort": (
        *("sparse", M.SurvivorSet, None, lambda m: replace(m, cohort=m.cohort + 9)),
        *("cohort-inflated", "server"),
    ),
    "inflated sharers": (
        *("sparse", M.ShareBundle, None, lambda m: replace(m, cohort=m.cohort + 9)),
        *("cohort-inflated", "server"),
    ),
    "too few survivors": (
        *("sparse", M.SurvivorSet, 3),
        lambda m: replace(m, survivors=m.survivors & (np.arange(len(m.survivors)) < 1)),
        *("cohort-too-small", "server"),
    ),
    "cohort below its minimum": (
        *("sparse", M.SurvivorSet, 3, lambda m: replace(m, cohort=2)),
        *("cohort-too-small", "server"),
    ),
    "too few sharers": (
        *("sparse", M.ShareBundle, 3),
        lambda m: replace(m, present=m.present & False, ciphertexts=m.ciphertexts[:0]),
        *("cohort-too-small", "server"),
    ),
    "other sharers": (
        *("sparse", M.ShareBundle, 3),
        lambda m: replace(m, present=flipped(m.present, 0), ciphertexts=m.ciphertexts[1:]),
        *("different-sharers", "server"),
    ),
    "survivor set without its reader": (
        *("semi-honest", M.SurvivorSet, 3),
        lambda m: replace(m, survivors=flipped(m.survivors, 3), cohort=m.cohort - 1),
        *("bad-set", "server"),
    ),
    "survivor set of another length": (
        *("semi-honest", M.SurvivorSet, 3, lambda m: replace(m, survivors=m.survivors[:-1])),
        *("bad-set", "server"),
    ),
    "other survivors": (
        *("semi-honest", M.SurvivorSet, 3),
        lambda m: replace(m, survivors=flipped(m.survivors, 0), cohort=m.cohort - 1),
        *("different-survivors", "server"),
    ),
    "both kinds of share": (
        *("sparse", M.SurvivorSet, 3),
        lambda m: replace(m, survivors=flipped(m.survivors, 0)),
        *("both-kinds", "server"),
    ),
    "survivor without input": (
        *("semi-honest", M.MaskedInput, 3, lambda m: None, "invented-client", "server"),
    ),
    "ciphertext of nobody": (
        *("semi-honest", M.ShareKeys, 3, lambda m: None, "invented-client", "server"),
    ),
    "key root over nobody": (
        *("semi-malicious", M.AdvertiseKeys, 3, lambda m: None, "invented-client", "server"),
    ),
    "spoiled ciphertext": (
        *("semi-honest", M.ShareBundle, 3),
        lambda m: replace(m, ciphertexts=spoil(m.ciphertexts)),
        *("altered-ciphertext", "server"),
    ),
    "spoiled signature": (
        *("active", M.SignatureSet, None, lambda m: replace(m, signatures=spoil(m.signatures))),
        *("altered-signature", "server"),
    ),
    "fewer signatures": (
        *("active", M.SignatureSet, 3),
        lambda m: replace(m, signers=flipped(m.signers, 0), signatures=m.signatures[1:]),
        *("different-signatures", "server"),
    ),
    "keys unsigned": (
        *("active", M.AdvertiseKeys, 3, lambda m: replace(m, signature=bytes(64))),
        *("bad-signature", 3),
    ),
    "survivors unsigned": (
        *("active", M.ConsistencySignature, 3, lambda m: replace(m, signature=bytes(64))),
        *("bad-signature", 3),
    ),
    "one ciphertext less": (
        *("semi-honest", M.ShareKeys, 3, lambda m: replace(m, ciphertexts=m.ciphertexts[1:])),
        *("wrong-count", 3),
    ),
    "one share less": (
        *("semi-honest", M.UnmaskShares, 3),
        lambda m: replace(m, shares=m.shares[1:], missing=m.missing[1:]),
        *("wrong-count", 3),
    ),
    "wrong shares": (
        *("semi-honest", M.UnmaskShares, 3, wrong_shares, "wrong-share", "dealer or holder"),
    ),
    "share missing": (
        *("semi-honest", M.UnmaskShares, 3, missing_share),
        *("unopened-ciphertext", "dealer or holder"),
    ),
    "all shares wrong": (
        *("active", M.UnmaskShares, None, wrong_shares, "unrebuildable", "dealer or holder"),
    ),
    "garbled commitment": (
        *("active", M.ShareKeys, 3, lambda m: replace(m, commitment=bytes(32))),
        *("unrebuildable", "dealer or holder"),
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_doctored_transcript_is_found_out(name):
    threat, kind, client, change, expected, peer = EDITS[name]
    params = params_of(threat)
    transcript = edited(honest(threat), params, kind, change, client=client)
    found = audited(transcript, params)
    assert expected in kinds(found)
    assert peer in {finding.peer for finding in of_kind(found, expected)}
    if client is not None and peer != "dealer or holder":
        assert any(client in finding.clients for finding in found.deviations)


def hook(kind, change, client):
    """Return a network that applies a change to messages of a kind."""

    def through(index, message):
        hit = isinstance(message, kind) and client in (None, index)
        return change(message) if hit else message

    return through


SERVER_CHEATS = [
    name
    for name, case in EDITS.items()
    if case[5] == "server" and case[1] in FROM_SERVER and case[4] not in ("garbage", "out-of-order")
]
CLIENT_CHEATS = [
    name for name, case in EDITS.items() if case[5] != "server" and case[1] not in FROM_SERVER
]


@pytest.mark.parametrize("name", SERVER_CHEATS)
def test_a_server_that_cheats_is_blamed_alone(name):
    threat, kind, client, change, expected, _ = EDITS[name]
    params = params_of(threat)
    found = audited(play(params, down=hook(kind, change, client)), params)
    assert {finding.peer for finding in found.deviations} == {"server"}
    assert expected in kinds(found)


@pytest.mark.parametrize("name", CLIENT_CHEATS)
def test_a_client_that_cheats_is_blamed_alone(name):
    threat, kind, client, change, expected, peer = EDITS[name]
    params = params_of(threat)
    found = audited(play(params, up=hook(kind, change, client)), params)
    assert expected in kinds(found)
    assert {finding.peer for finding in found.deviations} <= {peer, client}
    assert all(finding.caught is not False for finding in found.deviations if client is not None)


def test_every_kind_of_deviation_has_its_test():
    live = {"unknown-client"}
    assert {case[4] for case in EDITS.values()} | live == set(DEVIATIONS)


def test_the_page_lists_every_kind():
    page = Path(__file__).parents[2] / "docs" / "audit-secagg.md"
    rows = re.findall(r"^\| `([\w-]+)` \| (.+) \|$", page.read_text(encoding="utf-8"), re.M)
    assert dict(rows) == DEVIATIONS | NOTICES


def test_indices_beyond_the_cohort_are_strangers():
    params = params_of("active")
    log = secagg.Transcript(payloads=True)
    first = next(entry for entry in honest("active") if entry.kind == "AdvertiseKeys")
    message = M.AdvertiseKeys.decode(first.payload, params, peer=0)
    note(log, "advertise-keys", 99, "server", message)
    found = audited(secagg.Transcript.of([*honest("active"), *log]), params)
    assert found.sybils.strangers == (99,)
    (finding,) = of_kind(found, "unknown-client")
    assert finding.peer == 99


def test_a_key_advertised_by_two_is_blamed_on_the_second():
    params = params_of("semi-honest")
    first = next(e for e in honest("semi-honest") if e.kind == "AdvertiseKeys")
    stolen = M.AdvertiseKeys.decode(first.payload, params, peer=0)
    transcript = edited(honest("semi-honest"), params, M.AdvertiseKeys, lambda m: stolen, client=5)
    found = audited(transcript, params)
    twice = of_kind(found, "key-repeated")
    assert {finding.peer for finding in twice if finding.round == "advertise-keys"} == {5}


def test_keys_signed_by_another_identity_say_whose():
    params = params_of("active")
    identities, _ = identities_of(params.clients)
    transcript = honest("active")
    start = next(entry for entry in transcript if entry.kind == "Start")
    start = M.Start.decode(start.payload, params, peer="server")
    context = secagg.derivations.context(
        params, start.session, start.round_number, identities_of(params.clients)[1].digest()
    )

    def resigned(message):
        statement = secagg.derivations.advertise_statement(
            context, 3, message.cipher_key, message.mask_key
        )
        return replace(message, signature=identities[6].sign(statement))

    found = audited(edited(transcript, params, M.AdvertiseKeys, resigned, client=3), params)
    assert found.sybils.forged == (3,)
    assert found.sybils.signed_by_another == {3: 6}
    assert found.sybils.share_outside == 1 / params.clients
