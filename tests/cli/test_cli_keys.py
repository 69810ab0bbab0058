"""Identities: how they are made and protected, and what is never printed."""

from __future__ import annotations

import base64
import json
import os
import pty
import re
import select
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from nacl.bindings import crypto_core_ed25519_is_valid_point

from privagg import keyfiles
from privagg.cli import keys as commands
from privagg.keys import Identity, verify

DOCS = Path(__file__).parents[2] / "docs" / "keys.md"

pytestmark = pytest.mark.usefixtures("in_a_folder")


@pytest.fixture
def secrets_made(monkeypatch):
    """Collect the secret of every identity that the commands make."""
    made = []
    generate = Identity.generate

    def noted():
        # One secret in sixteen is a good public key, too: a file that holds nothing else is one.
        while crypto_core_ed25519_is_valid_point((identity := generate()).secret_bytes()):
            pass
        made.append(identity)
        return identity

    monkeypatch.setattr(commands.Identity, "generate", noted)
    return made


def spellings(identity):
    secret = identity.secret_bytes()
    return {
        secret.hex(),
        secret.hex().upper(),
        base64.b64encode(secret).decode().rstrip("="),
        repr(secret)[2:-1],
        str(list(secret)),
        str(int.from_bytes(secret, "little")),
        str(int.from_bytes(secret, "big")),
    }


# new


def test_new_writes_an_identity_that_signs(ask):
    code, found, err = ask("keys", "new", "alice")
    assert code == 0
    (one,) = found["identities"]
    assert one["file"] == "alice.identity"
    assert found["encrypted"] is False
    identity = keyfiles.read_identity("alice.identity")
    assert identity.public.hex() == one["public"]
    assert keyfiles.fingerprint(identity.public) == one["fingerprint"]
    assert verify(bytes.fromhex(one["public"]), b"m", identity.sign(b"m"))
    assert stat.S_IMODE(os.stat("alice.identity").st_mode) == 0o600
    assert "Warning: alice.identity is the identity itself" in err


def test_new_prints_the_public_key_and_the_fingerprint(run, capsys):
    assert run("keys", "new", "--out", "a.json") == 0
    out = capsys.readouterr().out
    (public,) = keyfiles.read_public("a.json")
    assert public.hex() in out
    assert keyfiles.fingerprint(public) in out
    assert keyfiles.kind_of("a.json") == "identity"


@pytest.mark.parametrize(
    "target", [["alice"], ["--out", "alice.identity"], ["alice", "--dir", "."]]
)
def test_new_never_replaces_without_force(run, capsys, target):
    assert run("keys", "new", "alice") == 0
    before = Path("alice.identity").read_bytes()
    assert run("keys", "new", *target) == 2
    streams = capsys.readouterr()
    assert "alice.identity: found a file that exists" in streams.err
    assert "--force" in streams.err
    assert Path("alice.identity").read_bytes() == before
    assert run("keys", "new", *target, "--force") == 0
    assert Path("alice.identity").read_bytes() != before
    assert os.listdir() == ["alice.identity"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], ["NAME", "--out FILE"]),
        (["a/b"], ["NAME", "a/b"]),
        (["../a"], ["NAME"]),
        (["--", "-a"], ["NAME"]),
        ([".a"], ["NAME"]),
        (["a\n"], ["NAME"]),
        (["a" * 101], ["NAME", "at most 100"]),
        (["a", "--out", "b"], ["NAME", "--out"]),
        (["--out", "b", "--count", "2"], ["--count", "--out"]),
        (["--out", "b", "--dir", "c"], ["--dir", "--out"]),
        (["--out", "none/b"], ["--out", "folder that exists"]),
        (["a", "--dir", "none/deeper"], ["--dir", "folder that exists"]),
        (["a", "--count", "0"], ["--count"]),
        (["a", "--count", str(2**20 + 1)], ["--count"]),
        (["a", "--count", "x"], ["--count"]),
        (["a", "--passphrase-file", "none"], ["none", "does not exist"]),
        (["a", "--ask-passphrase"], ["--ask-passphrase", "terminal", "--passphrase-file"]),
        (["a", "--passphrase", "Tr0ub4dor"], ["--passphrase"]),
    ],
)
def test_what_new_refuses(run, capsys, args, words):
    assert run("keys", "new", *args) == 2
    streams = capsys.readouterr()
    for word in words:
        assert word in streams.err
    assert streams.out == ""
    assert "Tr0ub4dor" not in streams.err
    assert os.listdir() == []


def test_new_makes_many_in_the_order_of_their_names(ask):
    code, found, _ = ask("keys", "new", "node", "--count", "11", "--dir", "ids")
    assert code == 0
    files = [one["file"] for one in found["identities"]]
    assert files == sorted(files) == [f"ids/node-{i:02}.identity" for i in range(11)]
    assert sorted(os.listdir("ids")) == [Path(file).name for file in files]
    assert stat.S_IMODE(os.stat("ids").st_mode) == 0o700
    assert len({one["public"] for one in found["identities"]}) == 11
    for one in found["identities"]:
        assert keyfiles.read_identity(one["file"]).public.hex() == one["public"]


def test_a_folder_that_exists_keeps_its_mode(ask):
    os.mkdir("ids")
    os.chmod("ids", 0o755)
    assert ask("keys", "new", "--count", "2", "--dir", "ids")[0] == 0
    assert stat.S_IMODE(os.stat("ids").st_mode) == 0o755


def test_many_are_made_all_or_none(run, capsys, monkeypatch):
    os.mkdir("ids")
    Path("ids/client-2.identity").write_text("kept")
    assert run("keys", "new", "--count", "4", "--dir", "ids") == 2
    assert "client-2.identity" in capsys.readouterr().err
    assert os.listdir("ids") == ["client-2.identity"]
    os.unlink("ids/client-2.identity")
    write = keyfiles.write_identity

    def full(path, *args, **settings):
        if path.name == "client-2.identity":
            raise OSError(28, "No space left on device", str(path))
        write(path, *args, **settings)

    monkeypatch.setattr(keyfiles, "write_identity", full)
    assert run("keys", "new", "--count", "4", "--dir", "ids") == 1
    assert "No space left" in capsys.readouterr().err
    assert os.listdir("ids") == []


def test_permissions_that_are_not_kept_are_told(run, capsys, monkeypatch):
    monkeypatch.setattr(keyfiles, "others_can_read", lambda path: True)
    assert run("keys", "new", "a") == 0
    assert "does not keep permissions" in capsys.readouterr().err


# Passphrases


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_passphrase_from_a_file(ask, end):
    Path("words").write_bytes(b"Tr0ub4dor " + end.encode())
    code, found, err = ask("keys", "new", "a", "--passphrase-file", "words")
    assert (code, found["encrypted"], err) == (0, True, "")
    assert (
        keyfiles.read_identity("a.identity", "Tr0ub4dor ").public.hex()
        == (found["identities"][0]["public"])
    )
    code, shown, err = ask("keys", "show", "a.identity", "--passphrase-file", "words")
    assert (code, shown["kind"], shown["secret_checked"]) == (0, "encrypted identity", True)
    code, shown, err = ask("keys", "show", "a.identity")
    assert (code, shown["secret_checked"]) == (0, False)
    assert shown["public"] == found["identities"][0]["public"]
    Path("words").write_text("Tr0ub4dor")
    code, failed, err = ask("keys", "show", "a.identity", "--passphrase-file", "words")
    assert (code, failed["error"]["argument"]) == (2, "passphrase")
    assert "Tr0ub4dor" not in err + json.dumps(failed)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"x" * 4097])
def test_a_passphrase_file_that_does_not_do(run, capsys, content):
    Path("words").write_bytes(content)
    assert run("keys", "new", "a", "--passphrase-file", "words") == 2
    assert "--passphrase-file: found words" in capsys.readouterr().err
    assert os.listdir() == ["words"]


def test_a_passphrase_is_refused_where_it_opens_nothing(run, capsys):
    Path("words").write_text("Tr0ub4dor")
    run("keys", "new", "a")
    assert run("keys", "show", "a.identity", "--passphrase-file", "words") == 2
    assert "an encrypted identity" in capsys.readouterr().err
    flags = ["--passphrase-file", "words", "--ask-passphrase"]
    assert run("keys", "new", "b", *flags) == 2
    assert "one of the two" in capsys.readouterr().err


def test_a_passphrase_in_the_environment_is_never_repeated(run, capsys, monkeypatch):
    monkeypatch.setenv("PRIVAGG_KEYS_NEW_ASK_PASSPHRASE", "Tr0ub4dor")
    assert run("keys", "new", "a") == 0
    streams = capsys.readouterr()
    assert "Tr0ub4dor" not in streams.out + streams.err


def type_at_the_prompt(args, answers):
    """Run a command line on a terminal of its own; return its exit code and what it showed."""
    control, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "privagg", *args],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(DOCS.parents[1]), "TERM": "dumb"},
    )
    os.close(terminal)
    shown, waiting = b"", list(answers)
    while True:
        ready, _, _ = select.select([control], [], [], 60)
        assert ready, shown
        try:
            piece = os.read(control, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
        # One answer for each question: typed ahead, it would be shown before the prompt hides it.
        if waiting and shown.count(b": ") > len(answers) - len(waiting):
            os.write(control, waiting.pop(0).encode() + b"\n")
    os.close(control)
    return process.wait(60), shown.decode()


def test_a_passphrase_is_asked_for_twice_and_not_shown():
    code, shown = type_at_the_prompt(
        ["keys", "new", "a", "--ask-passphrase"], ["Tr0ub4dor", "Tr0ub4dor"]
    )
    assert code == 0, shown
    assert "Tr0ub4dor" not in shown
    assert "Passphrase" in shown
    assert keyfiles.read_identity("a.identity", "Tr0ub4dor").public.hex() in shown


# Secrets


def test_no_command_ever_prints_a_secret(run, capsys, monkeypatch, secrets_made):
    monkeypatch.setenv("PRIVAGG_TRACEBACK", "1")
    Path("words").write_text("Tr0ub4dor")
    lines = [
        "new a",
        "new a --json",
        "new a --force",
        "new b --out b --json",
        "new --out b",
        "new c --passphrase-file words --json",
        "new --count 3 --dir ids --json",
        "show a.identity",
        "show a.identity --json",
        "show c.identity --passphrase-file words",
        "show c.identity --passphrase-file a.identity",
        "show a.identity --passphrase-file a.identity",
        "show a.identity --config a.identity",
        "roster a.identity c.identity --out r",
        "roster a.identity a.identity --out r",
        "roster a.identity --out a.identity --json",
        "roster a.identity --config a.identity",
    ]
    codes = [run("keys", *shlex.split(line)) for line in lines]
    assert 0 in codes
    assert 2 in codes
    whole = Path("a.identity").read_text()
    secret = secrets_made[1].secret_bytes().hex()
    assert secret in whole
    broken = [
        whole[:-3],
        whole[:-4] + '0"}',
        whole.replace('"secret"', '"secrets"'),
        whole.replace('"secret"', f'"{secret}"'),
        whole.replace("identity 1", "identity 2"),
        whole.replace("identity 1", secret[:40]),
        whole.replace(": ", "; "),
        whole.replace(secret, secret[::-1]),
        whole.replace(secret, secret[1:] + "g"),
        f"{secret}\n",
        f"{secret}{secret}\n",
        f"public: {secret}\n",
    ]
    for content in broken:
        Path("broken").write_text(content)
        for line in ("show broken", "show broken --json", "roster broken --out r2"):
            run("keys", *shlex.split(line))
    streams = capsys.readouterr()
    shown = streams.out + streams.err
    assert len(secrets_made) == 7
    for identity in secrets_made:
        assert identity.public.hex() in shown or identity is secrets_made[-1]
        for spelling in spellings(identity):
            assert spelling not in shown
    assert "Tr0ub4dor" not in shown


# The page


def command_lines():
    text = DOCS.read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("privagg ")]


def test_the_command_lines_of_the_page_work(run, capsys):
    Path("passphrase.txt").write_text("words")
    lines = command_lines()
    assert len(lines) >= 5
    for line in lines:
        words = []
        for word in shlex.split(line, comments=True)[1:]:
            words += sorted(map(str, Path().glob(word))) if "*" in word else [word]
        assert run(*words) == 0, (line, capsys.readouterr().err)
