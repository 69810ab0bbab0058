"""Keys: known answers of the standards, and the points that must be refused."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import cryptography_vectors
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg import keys

VECTORS = Path(cryptography_vectors.__file__).parent
P = 2**255 - 19
BASE_POINT = (9).to_bytes(32, "little")

LOW_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    P - 1,
]
"""The u-coordinates, mod p, of the points of order 1, 2, 4 and 8 on the curve and its twist."""


def little(number: int) -> bytes:
    return number.to_bytes(32, "little")


def records(path: str) -> list[dict[str, str]]:
    """Read a vector file of ``NAME = value`` lines, a record from each ``COUNT`` on."""
    found: list[dict[str, str]] = []
    for line in (VECTORS / path).read_text().splitlines():
        match = re.fullmatch(r"(\w+)\s*=\s*(\S*)\s*", line)
        if match and match[1].upper() == "COUNT":
            found.append({})
        elif match and found:
            found[-1][match[1].lower()] = match[2]
        elif line.strip() == "FAIL":
            found[-1]["fail"] = line
    return found


def gcm_records(name: str) -> list[dict[str, str]]:
    """Read the NIST vectors of one file that have a nonce of 96 bits and a tag of 128."""
    text = (VECTORS / "ciphers/AES/GCM" / name).read_text()
    sections = re.split(r"(?=\[Keylen)", text)
    chosen = [part for part in sections if "[IVlen = 96]" in part and "[Taglen = 128]" in part]
    found = []
    for block in re.split(r"\n\s*\n", "\n".join(chosen)):
        fields = dict(re.findall(r"^(\w+) = (\w*)", block, re.MULTILINE))
        if "Count" in fields:
            found.append({key.lower(): value for key, value in fields.items()})
            if "FAIL" in block:
                found[-1]["fail"] = "yes"
    return found


X25519 = records("asymmetric/X25519/rfc7748.txt")
HKDF = records("KDF/rfc-5869-HKDF-SHA256.txt")


def test_the_vector_files_were_read():
    assert len(X25519) >= 3
    assert len(HKDF) == 3
    assert len(gcm_records("gcmEncryptExtIV128.rsp")) > 300
    assert sum("fail" in record for record in gcm_records("gcmDecrypt128.rsp")) > 100


@pytest.mark.parametrize("vector", X25519, ids=lambda vector: vector["output_u"][:8])
def test_x25519_of_rfc_7748(vector):
    scalar, u = bytes.fromhex(vector["input_scalar"]), bytes.fromhex(vector["input_u"])
    assert keys.agree(scalar, u).hex() == vector["output_u"]
    if u == BASE_POINT:
        assert keys.public_key(scalar).hex() == vector["output_u"]


def test_x25519_iterated_a_thousand_times_as_in_rfc_7748():
    scalar, u = BASE_POINT, BASE_POINT
    for _ in range(1000):
        scalar, u = keys.agree(scalar, u), scalar
    assert scalar.hex() == "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"


def test_x25519_agreement_is_the_same_from_both_sides():
    rng = np.random.default_rng(1)
    for _ in range(20):
        one, other = rng.bytes(32), rng.bytes(32)
        shared = keys.agree(one, keys.public_key(other))
        assert shared == keys.agree(other, keys.public_key(one))
        assert keys.public_key(one) == keys.agree(one, BASE_POINT)


@pytest.mark.parametrize("vector", HKDF, ids=["A.1", "A.2", "A.3"])
def test_hkdf_sha256_of_rfc_5869(vector):
    found = keys.derive(
        bytes.fromhex(vector["ikm"]),
        salt=bytes.fromhex(vector["salt"]),
        info=bytes.fromhex(vector["info"]),
        length=int(vector["l"]),
    )
    assert found.hex() == vector["okm"]


def test_aes_128_gcm_under_the_zero_nonce_of_the_specification():
    """Test cases 1 and 2 of McGrew and Viega's specification of GCM: key and nonce are zero."""
    key = bytes(16)
    assert keys.encrypt(key, b"", b"").hex() == "58e2fccefa7e3061367f1d57a4e7455a"
    assert keys.encrypt(key, bytes(16), b"").hex() == (
        "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf"
    )


def test_aes_128_gcm_encrypts_the_nist_vectors(monkeypatch):
    """They have other nonces than the module's one, which is therefore exchanged here."""
    for vector in gcm_records("gcmEncryptExtIV128.rsp"):
        monkeypatch.setattr(keys, "_NONCE", bytes.fromhex(vector["iv"]))
        key, associated = bytes.fromhex(vector["key"]), bytes.fromhex(vector["aad"])
        found = keys.encrypt(key, bytes.fromhex(vector["pt"]), associated)
        assert found.hex() == vector["ct"] + vector["tag"]
        assert keys.decrypt(key, found, associated) == bytes.fromhex(vector["pt"])


def test_aes_128_gcm_decrypts_the_nist_vectors_and_refuses_the_forged(monkeypatch):
    for vector in gcm_records("gcmDecrypt128.rsp"):
        monkeypatch.setattr(keys, "_NONCE", bytes.fromhex(vector["iv"]))
        found = keys.decrypt(
            bytes.fromhex(vector["key"]),
            bytes.fromhex(vector["ct"] + vector["tag"]),
            bytes.fromhex(vector["aad"]),
        )
        assert found == (None if "fail" in vector else bytes.fromhex(vector["pt"]))


def test_decrypt_refuses_every_changed_bit_key_and_associated_data():
    key, text, associated = bytes(range(16)), b"share", b"from 1 to 2"
    sealed = keys.encrypt(key, text, associated)
    assert sealed == keys.encrypt(key, text, associated)
    assert len(sealed) == len(text) + keys.TAG_BYTES
    for bit in range(8 * len(sealed)):
        forged = bytearray(sealed)
        forged[bit // 8] ^= 1 << bit % 8
        assert keys.decrypt(key, bytes(forged), associated) is None
    for length in range(len(sealed)):
        assert keys.decrypt(key, sealed[:length], associated) is None
    assert keys.decrypt(bytes(16), sealed, associated) is None
    assert keys.decrypt(key, sealed, b"from 2 to 1") is None


@pytest.mark.parametrize("u", [*LOW_ORDER, P, P + 1], ids=hex)
@pytest.mark.parametrize("top", [0, 2**255], ids=["", "top bit"])
def test_points_of_low_order_are_refused(u, top):
    """All seven encodings below 2**255, with the ignored top bit clear and set."""
    point = little(u | top)
    assert keys.is_low_order(point)
    for private in (bytes(32), bytes(range(32)), b"\xff" * 32):
        with pytest.raises(keys.LowOrderPointError):
            keys.agree(private, point)


def test_the_list_of_low_order_points_is_complete_and_canonical():
    assert {little(u) for u in LOW_ORDER} == keys.LOW_ORDER_POINTS
    rows = np.frombuffer(b"".join(sorted(keys.LOW_ORDER_POINTS)), np.uint8).reshape(-1, 32)
    assert keys.canonical_points(rows).all()
    # Three doublings give infinity exactly where the order divides 8.
    for u in LOW_ORDER:
        assert _times_eight_is_infinity(u)
    for u in (2, 3, 9, P - 2, *(value + 1 for value in LOW_ORDER[2:4])):
        assert not _times_eight_is_infinity(u)
        assert not keys.is_low_order(little(u))


def _times_eight_is_infinity(u: int) -> bool:
    """Double u three times by the formula of RFC 7748 in projective coordinates (X : Z)."""
    x, z = u, 1
    for _ in range(3):
        plus, minus = (x + z) ** 2 % P, (x - z) ** 2 % P
        difference = (plus - minus) % P
        x, z = plus * minus % P, difference * (plus + 121665 * difference) % P
    return z == 0


EDGES = {
    0: True,
    1: True,
    P - 1: True,
    P: False,
    P + 1: False,
    2**255 - 1: False,
    2**255: False,
    2**255 + 1: False,
    2**256 - 1: False,
    P - 256: True,
    P - 2**248: True,
    2**254: True,
}


def test_canonical_points_at_the_edges():
    rows = np.frombuffer(b"".join(map(little, EDGES)), np.uint8).reshape(-1, 32)
    assert keys.canonical_points(rows).tolist() == list(EDGES.values())
    for row, expected in zip(rows, EDGES.values(), strict=True):
        assert keys.canonical_points(row[np.newaxis]).tolist() == [expected]
    assert keys.canonical_points(rows[:0]).tolist() == []


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.one_of(
        st.integers(0, 2**256 - 1),
        st.integers(-300, 300).map(lambda step: P + step),
        st.integers(-300, 300).map(lambda step: 2**255 + step),
    )
)
def test_canonical_points_are_the_numbers_below_p(u):
    row = np.frombuffer(little(u), np.uint8)[np.newaxis]
    assert keys.canonical_points(row).tolist() == [u < P]


def test_digest_keeps_lists_apart():
    parts = (b"", b"a", b"ab", b"b", b"\0")
    lists = [pair for size in range(4) for pair in itertools.product(parts, repeat=size)]
    assert len({keys.digest(*pair) for pair in lists}) == len(lists)


def test_derivations_depend_on_every_argument():
    start = {"secret": b"k" * 16, "salt": b"s" * 32, "info": b"i", "length": 32}
    others = [{"secret": b"K" * 16}, {"salt": b"S" * 32}, {"info": b"j"}]
    found = {
        keys.derive(
            fields["secret"], salt=fields["salt"], info=fields["info"], length=fields["length"]
        )
        for fields in (start, *(start | other for other in others))
    }
    assert len(found) == 4
