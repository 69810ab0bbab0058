"""Keys, seeds and digests: every use has its own, and each depends on all that it is bound to."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest
from parties import Play, complete, drawn, sparse

from privagg import keys
from privagg.protocols.secagg import client_graph, derivations, merkle
from privagg.protocols.secagg.states import Phase

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
    digest = derivations.roster_digest
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
def test_the_root_is_that_of_the_definition_and_every_path_leads_to_it(count):
    """Leaves and nodes hashed under different prefixes, padded with zeros to a power of two."""
    rows = np.random.default_rng(count).integers(0, 256, (count, 64), np.uint8)
    leaves = [merkle.leaf(b"label", row.tobytes()) for row in rows]
    for row, found in zip(rows, leaves, strict=True):
        parts = b"".join(len(p).to_bytes(8, "little") + p for p in (b"label", row.tobytes()))
        assert found == hashlib.sha256(b"\0" + parts).digest()
    level = leaves + [bytes(32)] * (2 ** merkle.depth(count) - count)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=True)
        level = [hashlib.sha256(b"\1" + one + other).digest() for one, other in pairs]
    tree = merkle.Tree(leaves)
    assert tree.root == level[0]
    for place, leaf in enumerate(leaves):
        path = tree.path(place)
        assert len(path) == 32 * merkle.depth(count)
        assert merkle.root_from_path(leaf, place, path) == tree.root
        assert merkle.root_from_path(leaf[::-1], place, path) != tree.root
        if count > 1:
            assert merkle.root_from_path(leaf, place ^ 1, path) != tree.root
            assert merkle.root_from_path(leaf, place, path[::-1]) != tree.root


def key_root(context, members, rows):
    """The tree over the keys, written out: each leaf names the client whose keys they are."""
    leaves = []
    for member in members:
        parts = (b"privagg secagg key", context, int(member).to_bytes(4, "little"), rows[member])
        lead = b"".join(len(part).to_bytes(8, "little") + bytes(part) for part in parts)
        leaves.append(hashlib.sha256(b"\0" + lead).digest())
    return merkle.Tree(leaves).root


def test_the_tree_over_the_keys_depends_on_context_client_and_keys():
    rows = np.random.default_rng(3).integers(0, 256, (6, 64), np.uint8)
    members = np.array([0, 2, 3, 5], np.uint32)
    tree = client_graph.key_tree(CONTEXT, members, rows)
    assert tree.root == key_root(CONTEXT, members, rows)
    moved = rows.copy()
    moved[4] = rows[5]  # the same keys in the same places, another client's
    found = [
        tree.root,
        client_graph.key_tree(bytes(32), members, rows).root,
        client_graph.key_tree(CONTEXT, np.array([0, 2, 3, 4], np.uint32), moved).root,
        client_graph.key_tree(CONTEXT, members[:3], rows).root,
    ]
    assert distinct(found)


@pytest.mark.parametrize("threat", ["semi-honest", "semi-malicious"])
def test_both_sparse_models_bind_their_round_to_the_same_tree(threat):
    params = sparse(8) if threat == "semi-honest" else drawn(8)
    play = Play(params, leaves={3: Phase.ADVERTISE_KEYS})
    play.until(Phase.SHARE_KEYS)
    server, client = play.server, play.clients[0]
    members = [index for index in range(8) if index != 3]
    root = key_root(server._context, members, server._store.keys)
    play.until(Phase.MASKED_INPUT)
    if threat == "semi-honest":
        assert server._roster == client._memory.roster == root
    else:
        memory = client._memory
        assert memory.key_root == root
        expected = client_graph.roster_of(server._context, root, memory.graph_root)
        assert server._roster == memory.roster == expected


def test_what_is_signed_depends_on_every_part_of_it():
    advertise = itertools.product(
        (CONTEXT, bytes(32)), (0, 1, 2**20), (b"c" * 32, b"k" * 32), (b"m" * 32, b"k" * 32)
    )
    found = [derivations.advertise_statement(*case) for case in advertise]
    sets = [np.array(ids, np.uint32) for ids in ([0, 1], [0, 1, 2], [0, 2], [])]
    survivors = itertools.product(
        (CONTEXT, bytes(32)), (ROSTER, bytes(32)), (b"", b"m" * 32, b"n" * 32), sets, sets
    )
    found += [derivations.survivor_statement(*case) for case in survivors]
    assert distinct(found)


def test_the_graph_s_commitments_and_seed_depend_on_every_part_of_them():
    cases = itertools.product((CONTEXT, bytes(32)), (ROSTER, bytes(32)), (0, 1), (b"o" * 16,) * 1)
    found = [derivations.graph_commitment(*case) for case in cases]
    found.append(derivations.graph_commitment(CONTEXT, ROSTER, 0, bytes(16)))
    openings = np.arange(64, dtype=np.uint8).reshape(4, 16)
    seeds = itertools.product((CONTEXT, bytes(32)), (ROSTER, bytes(32)), (openings, openings[::-1]))
    found += [derivations.graph_seed(*case) for case in seeds]
    assert distinct(found)


def test_model_digests_depend_on_order_shapes_dtypes_and_contents():
    one, other = np.zeros((2, 3), np.float32), np.ones(4)
    found = [
        derivations.model_digest(arrays)
        for arrays in (
            [],
            [one],
            [one, other],
            [other, one],
            [one.reshape(3, 2), other],
            [one.astype(np.float64), other],
            [one.view(np.uint32), other],
            [one, np.nextafter(other, 2)],
            [np.zeros((0, 3), np.float32)],
            [np.zeros(0, np.float32), np.zeros(0, np.float32)],
        )
    ]
    assert distinct(found)
    assert {len(value) for value in found} == {32}
    strided = np.arange(12.0).reshape(3, 4)[:, ::2]
    assert derivations.model_digest([strided]) == derivations.model_digest([strided.copy()])


def test_pairwise_masks_depend_on_the_model_and_share_keys_do_not():
    seeds = [
        derivations.pairwise_mask_seed(SECRET, CONTEXT, ROSTER, 0, 1, 32, model)
        for model in (b"", bytes(32), b"m" * 32)
    ]
    assert distinct(seeds)
