"""Batched work with the peers gives what the loops over single derivations give."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg import keys
from privagg.errors import PeerError
from privagg.protocols.secagg import derivations, pairing

CONTEXT, ROSTER, MODEL = (hashlib.sha256(name).digest() for name in (b"c", b"r", b"m"))
PEERS = np.array([0, 3, 6, 8, 300, 70_000], np.uint32)
OWN = 7


def private_of(client):
    return hashlib.sha256(b"private %d" % client).digest()


def public_rows(peers):
    rows = [np.frombuffer(keys.public_key(private_of(int(peer))), np.uint8) for peer in peers]
    return np.array(rows, np.uint8).reshape(len(peers), keys.KEY_BYTES)


def bound(own, peers):
    return {"context": CONTEXT, "roster": ROSTER, "own": own, "peers": peers}


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=64), st.binary(max_size=80), st.binary(max_size=200), st.integers(1, 130))
def test_derivation_is_hkdf(salt, secret, info, length):
    expected = keys.derive(secret, salt=salt, info=info, length=length)
    derivation = pairing.Derivation(salt)
    for _ in range(2):  # the kept states are not used up
        assert derivation.derive(secret, info, length) == expected


def test_derivation_matches_rfc_5869_case_1():
    salt, info = bytes(range(13)), bytes(range(0xF0, 0xFA))
    expected = (
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    )
    assert pairing.Derivation(salt).derive(b"\x0b" * 22, info, 42).hex() == expected
    extracted = hmac.digest(salt, b"\x0b" * 22, "sha256")
    assert extracted.hex().startswith("077709362c2e32df")


@pytest.mark.parametrize("length", [32, 44])
@pytest.mark.parametrize("model", [b"", MODEL])
@pytest.mark.parametrize("count", [0, 1, len(PEERS)])
def test_mask_seeds_are_those_of_each_pair(length, model, count):
    peers = PEERS[:count]
    found = pairing.mask_seeds(
        private_of(OWN),
        public_rows(peers),
        **bound(OWN, peers),
        length=length,
        round="masked-input",
        model=model,
    )
    assert found.shape == (count, length)
    for row, peer in zip(found, peers.tolist(), strict=True):
        # As the peer works it out: both ends have the same seed.
        secret = keys.agree(private_of(peer), keys.public_key(private_of(OWN)))
        expected = derivations.pairwise_mask_seed(secret, CONTEXT, ROSTER, peer, OWN, length, model)
        assert row.tobytes() == expected


def test_sealed_columns_are_those_of_each_pair():
    plain = np.arange(len(PEERS) * 46, dtype=np.uint8).reshape(len(PEERS), 46)
    sealed, inward = pairing.seal_each(
        private_of(OWN), public_rows(PEERS), plain, **bound(OWN, PEERS), round="share-keys"
    )
    for place, peer in enumerate(PEERS.tolist()):
        secret = keys.agree(private_of(peer), keys.public_key(private_of(OWN)))
        there, back = derivations.share_keys(secret, CONTEXT, ROSTER, OWN, peer)
        associated = derivations.associated_data(CONTEXT, ROSTER, OWN, peer)
        assert sealed[place].tobytes() == keys.encrypt(there, plain[place].tobytes(), associated)
        assert inward[place].tobytes() == back


def test_what_a_peer_sealed_opens_and_nothing_else():
    plain = np.arange(len(PEERS) * 46, dtype=np.uint8).reshape(len(PEERS), 46)
    columns = []
    for place, peer in enumerate(PEERS.tolist()):
        sealed, _ = pairing.seal_each(
            private_of(peer),
            public_rows([OWN]),
            plain[place : place + 1],
            **bound(peer, np.array([OWN], np.uint32)),
            round="share-keys",
        )
        columns.append(sealed[0])
    _, inward = pairing.seal_each(
        private_of(OWN), public_rows(PEERS), plain, **bound(OWN, PEERS), round="share-keys"
    )
    ciphertexts = np.array(columns)
    found, opened = pairing.open_each(inward, ciphertexts, **bound(OWN, PEERS))
    assert opened.all()
    assert np.array_equal(found, plain)
    ciphertexts[2, 0] ^= 1
    found, opened = pairing.open_each(inward, ciphertexts, **bound(OWN, PEERS))
    assert opened.tolist() == [place != 2 for place in range(len(PEERS))]
    assert np.array_equal(found[opened], plain[opened])
    assert not found[2].any()
    _, opened = pairing.open_each(inward, ciphertexts, **bound(OWN + 1, PEERS))
    assert not opened.any()
    swapped = bound(OWN, PEERS) | {"roster": CONTEXT}
    assert not pairing.open_each(inward, ciphertexts, **swapped)[1].any()


@pytest.mark.parametrize("work", ["masks", "seal"])
def test_a_key_of_low_order_names_its_owner(work):
    publics = public_rows(PEERS)
    publics[4] = 0
    plain = np.zeros((len(PEERS), 46), np.uint8)
    shared = bound(OWN, PEERS) | {"round": "share-keys"}
    calls = {
        "masks": lambda: pairing.mask_seeds(private_of(OWN), publics, length=32, **shared),
        "seal": lambda: pairing.seal_each(private_of(OWN), publics, plain, **shared),
    }
    with pytest.raises(PeerError, match="low order") as caught:
        calls[work]()
    assert caught.value.peer == int(PEERS[4])


def test_a_derivation_says_nothing_of_its_salt():
    assert repr(pairing.Derivation(b"salt")) == "Derivation()"
