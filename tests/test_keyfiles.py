from __future__ import annotations

import hashlib
import json
import os
import stat
import unicodedata
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from privagg import entropy, keyfiles, keys
from privagg.errors import UsageError
from privagg.keys import Identity

ALICE = Identity.generate(entropy.from_seed(1))
BOB = Identity.generate(entropy.from_seed(2))
SECRET = ALICE.secret_bytes()
GOLDEN = (
    "f1cdceb47c2531ceb3e58efbb725706c5321569a08c2e083"
    "6fa6560b45208d7b8a42fb07299ad065be96490ca72dcce5"
)


def holds_secret(text, identity=ALICE):
    secret = identity.secret_bytes()
    lower = text.lower()
    return any(part in lower for part in (secret.hex(), secret[:8].hex(), repr(secret)[2:-1]))


def refusal(call, *args, **settings):
    """Return the message of the UsageError; nothing that is raised may hold the secret."""
    with pytest.raises(UsageError) as caught:
        call(*args, **settings)
    chain, error = [], caught.value
    while error is not None:
        chain.append(f"{error!r} {error} {error.args}")
        error = error.__cause__ or error.__context__
    assert not any(holds_secret(link) for link in chain)
    return str(caught.value)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "alice.identity"


@pytest.fixture
def altered(path):
    """Write the plain identity's record with some fields changed; None leaves one out."""

    def write(**fields):
        record = {
            "format": "privagg identity 1",
            "public": ALICE.public.hex(),
            "secret": SECRET.hex(),
        } | fields
        path.write_text(json.dumps({k: v for k, v in record.items() if v is not None}))
        return path

    return write


# Round trips


@pytest.mark.parametrize("passphrase", [None, "correct horse"])
def test_an_identity_is_the_same_after_writing_and_reading(path, passphrase):
    keyfiles.write_identity(path, ALICE, passphrase=passphrase)
    again = keyfiles.read_identity(path, passphrase)
    assert again.secret_bytes() == SECRET
    assert keyfiles.read_public(path) == (ALICE.public,)
    assert keyfiles.kind_of(path) == ("identity" if passphrase is None else "encrypted identity")


def test_the_format_is_what_the_documentation_says(path):
    keyfiles.write_identity(path, ALICE)
    assert json.loads(path.read_text()) == {
        "format": "privagg identity 1",
        "public": ALICE.public.hex(),
        "secret": SECRET.hex(),
    }


def test_an_encrypted_file_holds_no_secret_and_differs_each_time(path, tmp_path):
    other = tmp_path / "other"
    for target in (path, other):
        keyfiles.write_identity(target, ALICE, passphrase="p")
    one, two = (json.loads(target.read_text()) for target in (path, other))
    assert not holds_secret(path.read_text())
    assert one["public"] == two["public"] == ALICE.public.hex()
    assert one["salt"] != two["salt"]
    assert one["sealed"] != two["sealed"]


def test_a_file_written_earlier_can_be_read(path):
    # Made with this format's first version; it must stay readable.
    record = {
        "format": "privagg encrypted identity 1",
        "public": ALICE.public.hex(),
        "salt": "000102030405060708090a0b0c0d0e0f",
        "sealed": GOLDEN,
    }
    path.write_text(json.dumps(record))
    assert keyfiles.read_identity(path, "correct horse").secret_bytes() == SECRET


def test_the_golden_file_is_sealed_as_documented():
    key = hashlib.scrypt(
        b"correct horse", salt=bytes(range(16)), n=2**15, r=8, p=3, maxmem=2**26, dklen=16
    )
    associated = keys.digest(b"privagg encrypted identity 1", ALICE.public)
    assert AESGCM(key).encrypt(bytes(12), SECRET, associated).hex() == GOLDEN


def test_a_passphrase_is_the_same_however_it_is_composed(path):
    composed = unicodedata.normalize("NFC", "gr\u00fcn")
    apart = unicodedata.normalize("NFD", composed)
    assert composed != apart
    keyfiles.write_identity(path, ALICE, passphrase=apart)
    assert keyfiles.read_identity(path, composed).public == ALICE.public


# Writing


def test_only_the_owner_can_read_the_file_and_the_folder_is_left_alone(path):
    path.parent.chmod(0o755)
    before = os.umask(0)
    try:
        keyfiles.write_identity(path, ALICE)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    assert not keyfiles.others_can_read(path)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("mode", "exposed"), [(0o640, True), (0o602, True), (0o711, False)])
def test_a_file_that_others_can_read_or_change_is_noticed(path, mode, exposed):
    keyfiles.write_identity(path, ALICE)
    path.chmod(mode)
    assert keyfiles.others_can_read(path) is exposed


def test_a_file_is_replaced_by_force_only(path):
    keyfiles.write_identity(path, ALICE)
    path.chmod(0o644)
    assert "force" in refusal(keyfiles.write_identity, path, BOB)
    assert keyfiles.read_public(path) == (ALICE.public,)
    keyfiles.write_identity(path, BOB, force=True)
    assert keyfiles.read_public(path) == (BOB.public,)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_links_folders_and_devices_are_not_replaced(path, tmp_path):
    target = tmp_path / "target"
    target.write_text("kept")
    path.symlink_to(target)
    refusal(keyfiles.write_identity, path, ALICE)
    assert "link" in refusal(keyfiles.write_identity, path, ALICE, force=True)
    assert target.read_text() == "kept"
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    refusal(keyfiles.write_identity, path, ALICE)
    refusal(keyfiles.write_identity, tmp_path, ALICE, force=True)
    assert "folder that exists" in refusal(keyfiles.write_identity, tmp_path / "a" / "b", ALICE)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_no_half_of_a_file(path, monkeypatch, force, step):
    if force:
        keyfiles.write_identity(path, BOB)

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), fail)
        with pytest.raises(OSError, match="No space"):
            keyfiles.write_identity(path, ALICE, force=force)
    assert list(path.parent.iterdir()) == ([path] if force else [])
    if force:
        assert keyfiles.read_public(path) == (BOB.public,)


def test_only_an_identity_and_a_text_are_accepted(path):
    assert "Identity" in refusal(keyfiles.write_identity, path, SECRET)
    for passphrase in ("", b"bytes", 5):
        assert "passphrase" in refusal(keyfiles.write_identity, path, ALICE, passphrase=passphrase)
    assert not path.exists()


# Reading what is wrong


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"format": "privagg identity 2"}, ["'privagg identity 2'", "Another version"]),
        ({"format": "something"}, ["'something'", "privagg identity 1"]),
        ({"format": None}, ["no format"]),
        ({"format": 1}, ["no format"]),
        ({"format": "privagg roster 1"}, ["roster"]),
        ({"secret": None}, ["format, public, secret"]),
        ({"public": None}, ["format, public, secret"]),
        ({"more": 1}, ["format, public, secret"]),
        ({"secret": 5}, ["format, public, secret"]),
        ({"secret": SECRET.hex()[:-1]}, ["'secret'", "64 hexadecimal", "63"]),
        ({"secret": SECRET.hex() + "00"}, ["'secret'", "64 hexadecimal", "66"]),
        ({"secret": SECRET.hex()[:-1] + "g"}, ["'secret'", "64 hexadecimal"]),
        ({"secret": SECRET.hex()[:-1] + "\u0661"}, ["'secret'", "64 hexadecimal"]),
        ({"secret": " " + SECRET.hex()[:-1]}, ["'secret'", "64 hexadecimal"]),
        ({"public": ALICE.public.hex()[:-1]}, ["'public'", "64 hexadecimal", "63"]),
        ({"public": "0" * 64}, ["'public'", "prime-order"]),
        ({"public": BOB.public.hex()}, ["not that of the secret"]),
        ({"secret": BOB.secret_bytes().hex()}, ["not that of the secret"]),
    ],
)
def test_a_file_with_a_wrong_field_is_refused(altered, fields, words):
    path = altered(**fields)
    message = refusal(keyfiles.read_identity, path)
    for word in [str(path), *words]:
        assert word in message
    refusal(keyfiles.read_public, path)


def test_a_second_format_does_not_pass_for_the_first(altered):
    path = altered()
    path.write_text(path.read_text()[:-1] + ', "format": "privagg identity 2"}')
    assert "format" in refusal(keyfiles.read_identity, path)


def test_a_file_that_was_cut_short_is_refused_at_every_length(altered):
    path = altered()
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        message = refusal(keyfiles.read_identity, path)
        assert str(path) in message
        if size > 40:
            assert "truncated" in message


@given(st.binary(max_size=300))
def test_other_bytes_end_in_a_usage_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "file"
    path.write_bytes(content)
    refusal(keyfiles.read_identity, path)
    refusal(keyfiles.read_public, path)


@given(st.data())
def test_an_altered_file_ends_in_a_usage_error_or_in_the_same_identity(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("altered") / "file"
    keyfiles.write_identity(path, ALICE)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        found = keyfiles.read_identity(path)
    except UsageError:
        refusal(keyfiles.read_identity, path)
    else:
        assert found.secret_bytes() == SECRET


def test_deep_nesting_is_refused(altered):
    path = altered()
    path.write_text('{"format": "privagg identity 1", "secret": ' + "[" * 4000)
    refusal(keyfiles.read_identity, path)


def test_files_that_are_too_large_are_not_read(path):
    with path.open("wb") as file:
        file.write(b'{"format": "privagg identity 1", "public": "')
        file.truncate(5000)
    assert "at most 4096 bytes" in refusal(keyfiles.read_identity, path)
    with path.open("wb") as file:
        file.truncate(keyfiles.MAX_FILE_BYTES + 1)
    for call in (keyfiles.kind_of, keyfiles.read_public, keyfiles.read_identity):
        assert f"at most {keyfiles.MAX_FILE_BYTES} bytes" in refusal(call, path)


def test_what_is_no_file_is_refused(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe, "/dev/zero"):
        assert "regular file" in refusal(keyfiles.read_identity, path)
    assert "No such file" in refusal(keyfiles.read_identity, tmp_path / "none")


def test_passphrases_that_do_not_fit(path, altered):
    keyfiles.write_identity(path, ALICE, passphrase="right")
    assert "the one" in refusal(keyfiles.read_identity, path)
    message = refusal(keyfiles.read_identity, path, "wrong-Word")
    assert "does not open" in message
    assert "wrong-Word" not in message
    message = refusal(keyfiles.read_identity, altered(), "unused-Word")
    assert "not encrypted" in message
    assert "unused-Word" not in message


@pytest.mark.parametrize("field", ["public", "salt", "sealed"])
def test_an_encrypted_file_that_was_altered_is_refused(path, field):
    keyfiles.write_identity(path, ALICE, passphrase="right")
    record = json.loads(path.read_text())
    other = BOB.public.hex() if field == "public" else f"{int(record[field][0], 16) ^ 1:x}"
    path.write_text(json.dumps(record | {field: other + record[field][len(other) :]}))
    assert "does not open" in refusal(keyfiles.read_identity, path, "right")
    path.write_text(json.dumps(record | {field: record[field][2:]}))
    assert field in refusal(keyfiles.read_public, path)


# Public keys


def test_a_list_of_public_keys_is_read_in_its_order(tmp_path):
    path = tmp_path / "keys.txt"
    path.write_text(f"{BOB.public.hex()}\n\n  {ALICE.public.hex().upper()}\r\n")
    assert keyfiles.kind_of(path) == "public keys"
    assert keyfiles.read_public(path) == (BOB.public, ALICE.public)
    assert "identity file" in refusal(keyfiles.read_identity, path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f"{BOB.public.hex()}\n{ALICE.public.hex()[1:]}\n", ["line 2", "63 characters"]),
        (f"{BOB.public.hex()}\nhello\n", ["line 2", "5 characters"]),
        ("\n\n", ["neither"]),
        ("\u00e9" * 64, ["neither"]),
        ("g" * 64, ["line 1", "not all hexadecimal"]),
        ("0" * 63 + "1", ["line 1", "prime-order"]),
    ],
)
def test_what_is_no_list_of_public_keys_is_refused(tmp_path, content, words):
    path = tmp_path / "keys.txt"
    path.write_text(content, encoding="utf-8")
    message = refusal(keyfiles.read_public, path)
    for word in [str(path), *words]:
        assert word in message


def test_a_secret_that_is_taken_for_a_public_key_is_not_repeated(tmp_path):
    path = tmp_path / "keys.txt"
    refused = 0
    for seed in range(40):
        identity = Identity.generate(entropy.from_seed(seed))
        path.write_text(identity.secret_bytes().hex())
        try:
            keyfiles.read_public(path)
        except UsageError:
            refused += 1
            assert not holds_secret(refusal(keyfiles.read_public, path), identity)
    assert refused > 20


def test_most_misspelt_keys_are_noticed():
    text = ALICE.public.hex()
    refused = 0
    for place in range(64):
        wrong = f"{int(text[place], 16) ^ 5:x}"
        try:
            keyfiles.parse_public(text[:place] + wrong + text[place + 1 :], "key")
        except UsageError:
            refused += 1
    # One in 16 is a key by chance: 60 of 64 expected, and these 64 are always the same.
    assert refused >= 55


def test_a_point_outside_the_prime_order_group_is_no_key():
    # The sum of a key and the point of order 2: (x, y) -> (-x, -y).
    number = int.from_bytes(ALICE.public, "little")
    y = (2**255 - 19 - number % 2**255) | (number >> 255 ^ 1) << 255
    assert "prime-order" in refusal(keyfiles.parse_public, y.to_bytes(32, "little").hex(), "key")


def test_fingerprints_are_short_stable_and_distinct():
    assert keyfiles.fingerprint(ALICE.public) == "4baf 6835 7a9d b78b b768 e553 03ef 0407"
    prints = {
        keyfiles.fingerprint(Identity.generate(entropy.from_seed(i)).public) for i in range(50)
    }
    assert len(prints) == 50
    assert {len(text) for text in prints} == {39}
