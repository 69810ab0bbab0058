from __future__ import annotations

import copy
import hashlib
import pickle

import cryptography_vectors
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privagg import entropy
from privagg.errors import UsageError
from privagg.keys import KEY_BYTES, SIGNATURE_BYTES, Identity, verify
from privagg.protocols.secagg.identity import Directory, Roster, Signer

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
CASES = 256


def vectors():
    """Yield (secret, public, message, signature) of the reference implementation's test file."""
    with cryptography_vectors.open_vector_file("asymmetric/Ed25519/sign.input", "rb") as file:
        for line in file.read().decode("ascii").splitlines()[:CASES]:
            secret, public, message, signed = (bytes.fromhex(f) for f in line.split(":")[:4])
            yield secret[:32], public, message, signed[:64]


VECTORS = list(vectors())


def identities(count, seed=1):
    source = entropy.from_seed(seed)
    return [Identity.generate(source) for _ in range(count)]


def publics(count, seed=1):
    return [one.public for one in identities(count, seed)]


# Curve arithmetic, the slow way: the oracle for points of low order.


def add(one, two):
    (x1, y1), (x2, y2) = one, two
    k = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + k, -1, P)
    y = (y1 * y2 + x1 * x2) * pow(1 - k, -1, P)
    return x % P, y % P


def times(count, point):
    total = (0, 1)
    for bit in bin(count)[2:]:
        total = add(total, total)
        if bit == "1":
            total = add(total, point)
    return total


def point_at(y):
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    return (x, y) if x * x % P == square else None


def decode(encoded):
    number = int.from_bytes(encoded, "little")
    x, y = point_at(number % 2**255 % P)
    return (x, y) if x & 1 == number >> 255 else (-x % P, y)


def torsion():
    """Return the eight points whose eightfold is the neutral element."""
    found = {(0, 1)}
    y = 2
    while len(found) < 8:
        point = point_at(y)
        if point is not None:
            small = times(L, point)
            found |= {times(k, small) for k in range(8)}
        y += 1
    return found


def low_order_keys():
    """Return every encoding of a point of low order, the non-canonical ones among them."""
    keys = set()
    for x, y in torsion():
        for number in (y, y + P):
            if number < 2**255:
                for sign in {x & 1, 1 if x == 0 else x & 1}:
                    keys.add((number | sign << 255).to_bytes(32, "little"))
    return sorted(keys)


LOW_ORDER = low_order_keys()


BASE = decode((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


# Signatures


def test_there_are_enough_vectors():
    assert len(VECTORS) == CASES >= 200
    assert {len(message) for _, _, message, _ in VECTORS} >= set(range(200))


@pytest.mark.parametrize("start", range(0, CASES, 64))
def test_signatures_are_those_of_the_reference(start):
    for secret, public, message, signature in VECTORS[start : start + 64]:
        identity = Identity(secret)
        assert identity.public == public
        assert identity.sign(message) == signature
        assert identity.secret_bytes() == secret
        assert verify(public, message, signature)


def test_the_first_vector_is_that_of_the_rfc():
    # RFC 8032, section 7.1, TEST 1: the empty message.
    identity = Identity(
        bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    )
    public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert identity.public.hex() == public
    assert identity.sign(b"").hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )


@pytest.mark.parametrize("case", [1, 2, 77, 200])
def test_another_message_key_or_signature_is_refused(case):
    _, public, message, signature = VECTORS[case]
    assert not verify(public, message + b"\0", signature)
    assert not verify(public, message[:-1], signature)
    assert not verify(public, b"", signature)
    assert not verify(VECTORS[case + 1][1], message, signature)
    assert not verify(public, message, VECTORS[case + 1][3])


@given(st.integers(0, 8 * SIGNATURE_BYTES - 1), st.integers(0, CASES - 1))
def test_every_bit_of_a_signature_counts(bit, case):
    _, public, message, signature = VECTORS[case]
    flipped = (int.from_bytes(signature, "little") ^ 1 << bit).to_bytes(64, "little")
    assert not verify(public, message, flipped)


@given(st.integers(0, 8 * KEY_BYTES - 1), st.integers(0, CASES - 1))
def test_every_bit_of_a_public_key_counts(bit, case):
    _, public, message, signature = VECTORS[case]
    flipped = (int.from_bytes(public, "little") ^ 1 << bit).to_bytes(32, "little")
    assert not verify(flipped, message, signature)


@pytest.mark.parametrize("case", range(0, CASES, 32))
def test_signatures_are_not_malleable(case):
    # Section 5.1.7: S must be below the group's order, or S + L would be a second signature.
    _, public, message, signature = VECTORS[case]
    response = int.from_bytes(signature[32:], "little")
    for more in range(1, (2**256 - response) // L):
        other = signature[:32] + (response + more * L).to_bytes(32, "little")
        assert not verify(public, message, other)


@pytest.mark.parametrize("size", [0, 1, 31, 33, 63, 65, 96, 128])
def test_wrong_sizes_are_refused(size):
    _, public, message, signature = VECTORS[3]
    assert not verify(public, message, (signature * 2)[:size])
    assert not verify((public * 4)[:size], message, signature)
    with pytest.raises(UsageError, match="32 bytes"):
        Identity(bytes(size))


@pytest.mark.parametrize("seed", [None, "a" * 32, bytearray(32), 32, True])
def test_a_secret_of_another_type_is_refused(seed):
    with pytest.raises(UsageError, match="32 bytes") as caught:
        Identity(seed)
    assert "aaaa" not in str(caught.value)


# Points of low order


def test_the_oracle_finds_the_points_of_low_order():
    assert len(torsion()) == 8
    # Eight points; x = 0 has a second sign, and y = 0 and y = 1 a second number below 2**255.
    assert len(LOW_ORDER) == 14
    assert {times(8, point) for point in torsion()} == {(0, 1)}


def equation_holds(public, message, signature):
    """Section 5.1.7's S*B == R + h*A alone, without a check of the key."""
    response = int.from_bytes(signature[32:], "little")
    hashed = hashlib.sha512(signature[:32] + public + message).digest()
    challenge = int.from_bytes(hashed, "little") % L
    right = add(decode(signature[:32]), times(challenge, decode(public)))
    return times(response, BASE) == right


def test_the_oracle_agrees_with_the_vectors():
    _, public, message, signature = VECTORS[5]
    assert equation_holds(public, message, signature)
    assert not equation_holds(public, message + b"x", signature)


@pytest.mark.parametrize("key", LOW_ORDER, ids=bytes.hex)
def test_a_point_of_low_order_verifies_nothing(key):
    # S*B as the commitment to S satisfies the equation whenever the challenge is a multiple of the
    # key's order: for the neutral element always, for the others every second to eighth message.
    x, y = times(12345, BASE)
    forged = (y | (x & 1) << 255).to_bytes(32, "little") + (12345).to_bytes(32, "little")
    messages = [bytes([i]) for i in range(64)]
    fitting = [message for message in messages if equation_holds(key, message, forged)]
    assert fitting
    assert not any(verify(key, message, forged) for message in messages)


@pytest.mark.parametrize("key", LOW_ORDER, ids=bytes.hex)
def test_a_roster_refuses_a_point_of_low_order(key):
    with pytest.raises(UsageError, match=r"roster\[1\].*low order"):
        Roster([*publics(1), key])


def test_no_other_key_is_taken_for_one_of_low_order():
    near = [bytes([b]) + bytes(31) for b in range(2, 30)]
    assert len(Roster([*publics(300, seed=2), *near])) == 328


# Rosters


def test_a_roster_verifies_by_index():
    group = identities(3)
    roster = Roster(one.public for one in group)
    assert isinstance(roster, Directory)
    assert isinstance(group[0], Signer)
    for place, one in enumerate(group):
        signature = one.sign(b"message")
        assert [roster.verify(i, b"message", signature) for i in range(3)] == [
            i == place for i in range(3)
        ]
        assert not roster.verify(place, b"other", signature)
    signature = group[2].sign(b"message")
    assert not roster.verify(-1, b"message", signature)
    assert not roster.verify(3, b"message", signature)


@pytest.mark.parametrize("bad", [b"", bytes(31), bytes(33), "a" * 32, bytearray(32), None, 5])
def test_a_roster_refuses_what_is_no_key(bad):
    with pytest.raises(UsageError, match=r"roster\[2\].*32 bytes"):
        Roster([*publics(2), bad])


def test_a_roster_refuses_a_key_that_is_listed_twice():
    first, second = publics(2)
    with pytest.raises(UsageError, match=r"roster\[2\].*distinct"):
        Roster([first, second, first])


def test_the_digest_tells_order_number_and_every_key():
    keys = publics(4)
    digests = {
        Roster(listed).digest()
        for listed in (
            keys,
            keys[::-1],
            [keys[1], keys[0], *keys[2:]],
            keys[:3],
            [],
            publics(4, seed=9),
        )
    }
    assert len(digests) == 6
    assert {len(digest) for digest in digests} == {32}
    assert Roster(keys).digest() == Roster(tuple(keys)).digest()


@given(st.integers(0, 20), st.integers(0, 1000))
def test_a_roster_is_the_same_after_saving_and_loading(tmp_path_factory, count, seed):
    path = tmp_path_factory.mktemp("rosters") / "roster.json"
    roster = Roster(publics(count, seed))
    roster.save(path)
    again = Roster.load(path)
    assert again.identities == roster.identities
    assert again.digest() == roster.digest()
    first = path.read_bytes()
    again.save(path)
    assert path.read_bytes() == first


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b'{"format": "privagg roster 1"}',
        b'{"format": "privagg roster 1", "identities": ["zz"]}',
        b'{"format": "privagg roster 1", "identities": ["00"]}',
        b'{"format": "privagg roster 1", "identities": [7]}',
        b'{"format": "privagg roster 1", "identities": [], "more": 1}',
        b'{"format": "privagg roster 2", "identities": []}',
        b'{"format": "privagg roster 1", "identities": [' + b"[" * 100_000,
        b'{"format": "privagg roster 1", "identities": ["' + b"0" * 64 + b'"]}',
        b'{"format": "privagg roster 1", "identities": ["\xff"]}',
    ],
)
def test_a_file_that_is_no_roster_is_refused(tmp_path, content):
    path = tmp_path / "roster.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="roster"):
        Roster.load(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"none\.json"):
        Roster.load(tmp_path / "none.json")


def test_a_changed_key_in_the_file_changes_the_digest(tmp_path):
    path = tmp_path / "roster.json"
    first, second = publics(2)
    roster = Roster([first])
    roster.save(path)
    path.write_text(path.read_text().replace(first.hex(), second.hex()))
    assert Roster.load(path).digest() != roster.digest()


# Secrets


def test_nothing_shows_or_copies_a_secret():
    identity = identities(1)[0]
    secret = identity.secret_bytes()
    for text in (repr(identity), str(identity), f"{identity}", f"{[identity]}"):
        assert secret.hex() not in text
        assert repr(secret)[2:-1] not in text
        assert identity.public.hex()[:16] in text
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="secret") as caught:
            copied(identity)
        assert secret.hex() not in str(caught.value)


def test_identities_come_from_the_entropy_that_is_given():
    assert identities(1)[0].public == identities(1)[0].public
    assert len({Identity.generate().public for _ in range(20)}) == 20


def test_a_roster_shows_its_digest_and_can_be_pickled():
    roster = Roster(publics(2))
    assert roster.digest().hex()[:16] in repr(roster)
    assert pickle.loads(pickle.dumps(roster)).digest() == roster.digest()
