"""Batched work with the peers gives what the loops over single derivations give."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

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
