"""Identities and rosters: what is shown of them, and how a cohort's roster is made."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from privagg import keyfiles, keys
from privagg.keys import Identity
from privagg.protocols.secagg.identity import Roster

pytestmark = pytest.mark.usefixtures("in_a_folder")


@pytest.fixture
def cohort(ask):
    """Make five identities in a folder and return their files and public keys."""
    _, found, _ = ask("keys", "new", "--count", "5", "--dir", "ids")
    return [(one["file"], one["public"]) for one in found["identities"]]


# show


def test_show_warns_of_a_file_that_others_can_read(ask):
    ask("keys", "new", "a")
    code, found, err = ask("keys", "show", "a.identity")
    assert (code, found["exposed"], err) == (0, False, "")
    os.chmod("a.identity", 0o644)
    code, found, err = ask("keys", "show", "a.identity")
    assert (code, found["exposed"]) == (0, True)
    assert "can be read or changed by others" in err


def test_show_tells_the_kinds_apart(ask, cohort):
    Path("list.txt").write_text("\n".join(public for _, public in cohort))
    ask("keys", "roster", "list.txt", "--out", "roster.json")
    assert ask("keys", "show", cohort[0][0])[1]["kind"] == "identity"
    _, listed, _ = ask("keys", "show", "list.txt")
    _, roster, _ = ask("keys", "show", "roster.json")
    assert (listed["kind"], roster["kind"]) == ("public keys", "roster")
    assert listed["identities"] == roster["identities"]
    assert [one["public"] for one in roster["identities"]] == [public for _, public in cohort]
    assert roster["clients"] == 5
    assert roster["digest"] == Roster.load("roster.json").digest().hex()


def test_show_lists_the_first_of_many_and_json_all(run, capsys, ask):
    source = [Identity.generate().public.hex() for _ in range(60)]
    Path("list.txt").write_text("\n".join(source))
    assert run("keys", "show", "list.txt") == 0
    out = capsys.readouterr().out
    assert (source[49] in out, source[50] in out) == (True, False)
    assert "the first 50; --json lists all" in out
    assert len(ask("keys", "show", "list.txt")[1]["identities"]) == 60


def test_the_result_of_show_goes_where_out_says(run, capsys):
    run("keys", "new", "a")
    assert run("keys", "show", "a.identity", "--out", "shown.json") == 0
    assert json.loads(Path("shown.json").read_text())["kind"] == "identity"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["an empty file"]),
        (b"hello", ["line 1", "5 characters"]),
        (b'{"format": "privagg identity 9"}', ["'privagg identity 9'", "Another version"]),
        (b'{"format": "privagg identity 1", "pub', ["truncated"]),
        (b'{"format": "privagg identity 1"; }', ["no JSON"]),
        (b'{"format": "privagg identity 1"}', ["format, public, secret"]),
        (b'{"format": "privagg roster 1", "identities": ["00"]}', ["1 bytes", "32 bytes"]),
        (b'{"format": "privagg roster 1", "identities": ["', ["JSON of the format"]),
        (b'{"a": 1}', ["names no format"]),
    ],
)
def test_what_show_cannot_read(ask, content, words):
    Path("file").write_bytes(content)
    code, found, err = ask("keys", "show", "file")
    assert code == 2
    for word in words:
        assert word in err
        assert word in found["error"]["message"]


def test_show_refuses_a_huge_file(ask):
    with open("file", "wb") as file:
        file.truncate(2**30)
    code, _, err = ask("keys", "show", "file")
    assert code == 2
    assert "1073741824 bytes" in err


# roster


def test_a_roster_lists_its_sources_in_order(ask, cohort):
    files = [file for file, _ in cohort]
    publics = [public for _, public in cohort]
    code, found, err = ask("keys", "roster", *files, "--out", "roster.json")
    assert code == 0
    assert "Wrote roster.json" in err
    roster = Roster.load("roster.json")
    assert [key.hex() for key in roster.identities] == publics
    assert found["digest"] == roster.digest().hex()
    assert (found["clients"], found["file"]) == (5, "roster.json")
    assert keys.digest(b"privagg identities", *map(bytes.fromhex, publics)).hex() == found["digest"]
    _, turned, _ = ask("keys", "roster", *files[::-1], "--out", "turned.json")
    assert turned["digest"] != found["digest"]


def test_identities_lists_and_keys_make_the_same_roster(ask, cohort):
    publics = [public for _, public in cohort]
    Path("list.txt").write_text("\n".join(publics[1:3]) + "\n")
    Path("words").write_text("p")
    code, found, _ = ask(
        *("keys", "roster", publics[0].upper(), "list.txt", cohort[3][0], publics[4]),
        *("--out", "roster.json"),
    )
    assert code == 0
    assert [one["public"] for one in found["identities"]] == publics


def test_an_encrypted_identity_needs_no_passphrase_in_a_roster(ask):
    Path("words").write_text("p")
    _, made, _ = ask("keys", "new", "a", "--passphrase-file", "words")
    _, found, _ = ask("keys", "roster", "a.identity", "--out", "roster.json")
    assert found["identities"][0]["public"] == made["identities"][0]["public"]


def test_the_digest_is_printed_and_the_members_sign_for_it(run, capsys, cohort):
    assert run("keys", "roster", *(file for file, _ in cohort), "--out", "roster.json") == 0
    roster = Roster.load("roster.json")
    assert roster.digest().hex() in capsys.readouterr().out
    for index, (file, _) in enumerate(cohort):
        assert roster.verify(index, b"m", keyfiles.read_identity(file).sign(b"m"))


@pytest.mark.parametrize("way", ["file", "key", "list"])
def test_a_roster_refuses_a_key_that_is_given_twice(ask, cohort, way):
    file, public = cohort[1]
    Path("list.txt").write_text(f"{Identity.generate().public.hex()}\n{public}\n")
    again = {"file": file, "key": public, "list": "list.txt"}[way]
    code, _, err = ask("keys", "roster", cohort[0][0], file, again, "--out", "roster.json")
    assert code == 2
    assert f"the same key as {file}" in err
    assert {"file": file, "key": public[:16], "list": "list.txt, key 2"}[way] in err
    assert not Path("roster.json").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], ["FILE|KEY"]),
        (["a.identity"], ["--out", "nothing"]),
        (["none", "--out", "r"], ["none: found No such file"]),
        (["ab" * 31, "--out", "r"], ["No such file"]),
        (["0" * 64, "--out", "r"], ["key 0000000000000000...", "prime-order"]),
        (["old.json", "--out", "r"], ["old.json: found a roster"]),
        (["a.identity", "--out", "a.identity"], ["--out", "which is no roster"]),
        (["a.identity", "--out", "note.txt"], ["--out", "which is no roster"]),
        (["a.identity", "--out", "none/r"], ["--out", "folder that exists"]),
        ([".", "--out", "r"], ["regular file"]),
    ],
)
def test_what_roster_refuses(run, capsys, args, words):
    run("keys", "new", "a")
    run("keys", "roster", "a.identity", "--out", "old.json")
    Path("note.txt").write_text("kept")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    capsys.readouterr()
    assert run("keys", "roster", *args) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    for word in words:
        assert word in streams.err
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_a_roster_replaces_a_roster(ask, cohort):
    files = [file for file, _ in cohort]
    os.symlink("roster.json", "link.json")
    ask("keys", "roster", *files[:2], "--out", "roster.json")
    code, found, _ = ask("keys", "roster", *files, "--out", "link.json")
    assert code == 0
    assert os.path.islink("link.json")
    assert Roster.load("roster.json").digest().hex() == found["digest"]
    assert sorted(os.listdir()) == ["ids", "link.json", "roster.json"]
