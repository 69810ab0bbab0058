"""Keys, seeds and digests: every use has its own, and each depends on all that it is bound to."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest
from parties import complete, sparse

from privagg import keys
from privagg.protocols.secagg import derivations

SECRET, CONTEXT, ROSTER = b"s" * 32, b"c" * 32, b"r" * 32


def distinct(values):
    values = list(values)
    return len(set(values)) == len(values)


def test_the_context_depends_on_session_round_and_parameters():
    cases = itertools.product(
        (complete(4), complete(5), sparse(8), complete(4, threshold=3)),
        (bytes(16), bytes(15) + b"\1"),
        (0, 1, 2**32 - 1),
    )
    found = [derivations.context(*case) for case in cases]
    assert distinct(found)
    assert {len(value) for value in found} == {32}


def test_key_pairs_depend_on_seed_purpose_context_and_client():
    cases = itertools.product(
        (bytes(16), b"k" * 16), (b"cipher", b"mask"), (CONTEXT, bytes(32)), (0, 1, 2**20)
    )
    pairs = [derivations.key_pair(*case) for case in cases]
    assert distinct(private for private, _ in pairs)
    assert all(keys.public_key(private) == public for private, public in pairs)


def test_share_keys_are_directional_and_known_to_both_ends():
    """What one end encrypts with is what the other decrypts with, and no key goes both ways."""
    seen = []
    for one, other in ((0, 1), (1, 2), (0, 2), (5, 4)):
        outward, inward = derivations.share_keys(SECRET, CONTEXT, ROSTER, one, other)
        assert derivations.share_keys(SECRET, CONTEXT, ROSTER, other, one) == (inward, outward)
        assert {len(outward), len(inward)} == {keys.AEAD_KEY_BYTES}
        seen += [outward, inward]
    seen += derivations.share_keys(b"S" * 32, CONTEXT, ROSTER, 0, 1)
    seen += derivations.share_keys(SECRET, b"C" * 32, ROSTER, 0, 1)
    seen += derivations.share_keys(SECRET, CONTEXT, b"R" * 32, 0, 1)
    assert distinct(seen)


def test_associated_data_names_round_roster_sender_and_receiver():
    cases = itertools.product((CONTEXT, bytes(32)), (ROSTER, bytes(32)), (0, 1, 2), (0, 1, 2))
    assert distinct(derivations.associated_data(*case) for case in cases)


@pytest.mark.parametrize("length", [32, 44])
def test_mask_seeds_are_the_same_for_both_ends_and_for_no_one_else(length):
    seen = []
    for one, other in ((0, 1), (1, 2), (0, 2)):
        seed = derivations.pairwise_mask_seed(SECRET, CONTEXT, ROSTER, one, other, length)
        again = derivations.pairwise_mask_seed(SECRET, CONTEXT, ROSTER, other, one, length)
        assert seed == again
        assert len(seed) == length
        seen.append(seed)
    seen.append(derivations.pairwise_mask_seed(b"S" * 32, CONTEXT, ROSTER, 0, 1, length))
    seen.append(derivations.pairwise_mask_seed(SECRET, b"C" * 32, ROSTER, 0, 1, length))
    seen.append(derivations.pairwise_mask_seed(SECRET, CONTEXT, b"R" * 32, 0, 1, length))
    seen += [
        derivations.self_mask_seed(seed, context, client, length)
        for seed in (bytes(16), b"b" * 16)
        for context in (CONTEXT, bytes(32))
        for client in (0, 1)
    ]
    assert distinct(seen)
    # The stream's key and its first counter block both come from the derivation.
    assert distinct([seed[:16] for seed in seen] + [seed[16:32] for seed in seen])


def test_commitments_depend_on_seed_context_and_client_and_are_no_other_derivation():
    cases = list(itertools.product((bytes(16), b"b" * 16), (CONTEXT, bytes(32)), (0, 1)))
    found = [derivations.commitment(*case) for case in cases]
    found += [derivations.self_mask_seed(*case, 32) for case in cases]
    assert distinct(found)


def test_roster_digests_depend_on_members_keys_and_context():
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 256, (4, 64), np.uint8)
    members = np.array([0, 2, 3, 5], np.uint32)
    other = rows.copy()
    other[3, 63] ^= 1
    for digest in (derivations.roster_digest, derivations.roster_root):
        found = [
            digest(CONTEXT, members, rows),
            digest(bytes(32), members, rows),
            digest(CONTEXT, members + np.uint32(1), rows),
            digest(CONTEXT, members, other),
            digest(CONTEXT, members, rows[::-1]),
            digest(CONTEXT, members[:3], rows[:3]),
        ]
        assert distinct(found)
        assert {len(value) for value in found} == {32}


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8, 9, 13])
def test_the_root_is_that_of_rfc_6962(count):
    """Section 2.1: split at the largest power of two below the size, recursively."""
    rows = np.random.default_rng(count).integers(0, 256, (count, 64), np.uint8)
    members = np.arange(count, dtype=np.uint32) * 3

    def root(first, last):
        if last - first == 1:
            leaf = CONTEXT + int(members[first]).to_bytes(4, "little") + rows[first].tobytes()
            return hashlib.sha256(b"\0" + leaf).digest()
        half = 1
        while 2 * half < last - first:
            half *= 2
        ends = root(first, first + half) + root(first + half, last)
        return hashlib.sha256(b"\1" + ends).digest()

    assert derivations.roster_root(CONTEXT, members, rows) == root(0, count)
