"""A transcript's file is read strictly: what is wrong is named with its line, whatever it is."""

from __future__ import annotations

import json

import numpy as np
import pytest
from rounds import THREATS, audited, honest, identities_of, params_of

from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import messages, transcript_file
from privagg.protocols.secagg.layout import KINDS


def write(path, threat, **options):
    """Write an honest round's transcript and return the file's lines."""
    params, transcript = params_of(threat), honest(threat)
    roster = identities_of(params.clients)[1] if params.signed else None
    header = transcript_file.header_of(params, transcript, roster=roster, **options)
    with path.open("w", encoding="utf-8") as file:
        transcript.write(file, header)
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


@pytest.mark.parametrize("threat", THREATS)
def test_what_was_written_is_read(tmp_path, threat):
    path = tmp_path / "round.jsonl"
    write(path, threat, model=b"m" * 32, insecure_seed=True, aborted="why")
    header, transcript = secagg.Transcript.read(path)
    assert header.params == params_of(threat)
    assert header.params.digest() == params_of(threat).digest()
    assert (header.roster is None) is not params_of(threat).signed
    assert (header.model, header.aborted) == (b"m" * 32, "why")
    assert header.insecure_seed
    assert [*transcript] == [*honest(threat)]


@pytest.mark.parametrize(
    "changes",
    [
        {"dropout": 0},
        {"dropout": 0.123456789012345},
        {"clip": 0.1, "weighted": True, "max_weight": 7},
        {"signed": True, "prg": "chacha20"},
    ],
)
def test_parameters_keep_their_digest(tmp_path, changes):
    params = params_of("semi-honest", **changes)
    path = tmp_path / "round.jsonl"
    with path.open("w", encoding="utf-8") as file:
        empty = secagg.Transcript()
        empty.write(file, transcript_file.header_of(params, empty))
    assert secagg.Transcript.read(path)[0].params.digest() == params.digest()


@pytest.mark.parametrize("threat", THREATS)
def test_no_message_is_longer_than_the_largest(threat):
    params = params_of(threat)
    most = transcript_file.largest_message(params)
    assert most >= max(entry.size for entry in honest(threat))
    assert {entry.kind for entry in honest(threat)} <= {kind.__name__ for kind in KINDS.values()}


def changed(line, **changes):
    record = json.loads(line)
    for name, value in changes.items():
        if value is ...:
            del record[name]
        else:
            record[name] = value
    return json.dumps(record) + "\n"


def in_params(line, **changes):
    record = json.loads(line)
    return changed(line, params=record["params"] | changes)


HEADERS = {
    "empty": lambda line: "\n",
    "no json": lambda line: "x" + line,
    "a list": lambda line: "[1]\n",
    "nested": lambda line: "[" * 100_000 + "\n",
    "nothing but a number": lambda line: "1\n",
    "another format": lambda line: changed(line, format="privagg secagg transcript 2"),
    "no format": lambda line: changed(line, format=...),
    "another field": lambda line: changed(line, more=1),
    "no parameters": lambda line: changed(line, params=...),
    "other parameters": lambda line: in_params(line, min_cohort=5),
    "text for a number": lambda line: in_params(line, clients="8"),
    "a bool for a number": lambda line: in_params(line, clients=True),
    "a parameter too many": lambda line: in_params(line, extra=1),
    "insecure parameters": lambda line: in_params(line, threshold=1),
    "an unknown threat": lambda line: in_params(line, threat="none"),
    "other clients": lambda line: changed(line, clients=9),
    "another digest": lambda line: changed(line, params_digest="00" * 32),
    "another protocol": lambda line: changed(line, protocol="other"),
    "too few identities": lambda line: changed(line, identities=["00" * 32]),
    "identities twice": lambda line: changed(line, identities=["00" * 32] * 8),
    "short identities": lambda line: changed(line, identities=["00"] * 8),
    "identities that are no hexadecimal": lambda line: changed(line, identities=["zz" * 32] * 8),
    "a short model": lambda line: changed(line, model="00"),
    "messages below zero": lambda line: changed(line, messages=-1),
    "a huge cohort": lambda line: in_params(line, clients=2**40),
    "a modulus too large": lambda line: in_params(
        line, encoding=json.loads(line)["params"]["encoding"] | {"value_bits": 99}
    ),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_wrong_header_is_named(tmp_path, name):
    path = tmp_path / "round.jsonl"
    first, *rest = write(path, "active")
    path.write_text(HEADERS[name](first) + "".join(rest), encoding="utf-8")
    with pytest.raises(UsageError, match=r"round\.jsonl, line 1"):
        secagg.Transcript.read(path)


LINES = {
    "no json": lambda line: "{\n",
    "a list": lambda line: "[1]\n",
    "another round": lambda line: changed(line, round="elsewhere"),
    "another kind": lambda line: changed(line, kind="Other"),
    "another field": lambda line: changed(line, more=1),
    "no sender": lambda line: changed(line, sender=...),
    "two servers": lambda line: changed(line, sender="server", receiver="server"),
    "no server": lambda line: changed(line, sender=1, receiver=2),
    "another name": lambda line: changed(line, sender="mallory"),
    "a client below zero": lambda line: changed(line, sender=-1, receiver="server"),
    "a client beyond 32 bits": lambda line: changed(line, sender=2**32, receiver="server"),
    "another size": lambda line: changed(line, size=1),
    "a size below zero": lambda line: changed(line, size=-1, payload=None),
    "another digest": lambda line: changed(line, sha256="0" * 64),
    "a short digest": lambda line: changed(line, sha256="0" * 63),
    "no base64": lambda line: changed(line, payload="!!!"),
    "another payload": lambda line: changed(line, payload="AAAA"),
    "a long line": lambda line: line[:-1] + " " * 100_000 + "\n",
    "invalid unicode": lambda line: line.replace("server", "\udcff"),
}


@pytest.mark.parametrize("name", LINES)
def test_a_wrong_line_is_named(tmp_path, name):
    path = tmp_path / "round.jsonl"
    lines = write(path, "semi-honest")
    lines[4] = LINES[name](lines[4])
    path.write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
    with pytest.raises(UsageError, match=r"round\.jsonl, line 5"):
        secagg.Transcript.read(path)


def test_a_cut_or_longer_file_is_named(tmp_path):
    path = tmp_path / "round.jsonl"
    lines = write(path, "semi-honest")
    path.write_text("".join(lines[:-1]), encoding="utf-8")
    with pytest.raises(UsageError, match=f"line {len(lines)}.*the end of the file"):
        secagg.Transcript.read(path)
    path.write_text("".join(lines)[:-5], encoding="utf-8")
    with pytest.raises(UsageError, match=f"line {len(lines)}.*without its end"):
        secagg.Transcript.read(path)
    path.write_text("".join([*lines, lines[-1]]), encoding="utf-8")
    with pytest.raises(UsageError, match=f"line {len(lines) + 1}"):
        secagg.Transcript.read(path)
    path.write_bytes(b"")
    with pytest.raises(UsageError, match="line 1"):
        secagg.Transcript.read(path)


def test_a_file_that_is_too_large_or_absent_is_refused(tmp_path):
    path = tmp_path / "round.jsonl"
    lines = write(path, "semi-honest")
    with pytest.raises(UsageError, match="at most 100 bytes"):
        transcript_file.read(path, max_bytes=100)
    assert len(transcript_file.read(path)[1]) == len(lines) - 1
    for bad in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(UsageError, match="transcript"):
            secagg.Transcript.read(bad)


def test_random_bytes_end_in_typed_errors(tmp_path):
    path, rng = tmp_path / "round.jsonl", np.random.default_rng(5)
    write(path, "active")
    whole = path.read_bytes()
    for _ in range(150):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), 3):
            data[at] = int(rng.integers(0, 256))
        path.write_bytes(bytes(data))
        try:
            header, transcript = secagg.Transcript.read(path)
        except UsageError:
            continue
        audited(transcript, header.params)


@pytest.mark.parametrize("threat", THREATS)
def test_random_payloads_end_in_findings(threat):
    """Whatever the messages hold, the audit says what it is and does not fail."""
    from dataclasses import replace

    params, rng = params_of(threat), np.random.default_rng(6)
    for _ in range(25):
        entries = [*honest(threat)]
        for at in rng.integers(0, len(entries), 3):
            data = bytearray(entries[at].payload)
            if rng.random() < 0.7:
                data[int(rng.integers(10, len(data)))] ^= int(rng.integers(1, 256))
            else:
                data = data[: int(rng.integers(0, len(data)))]
            entries[at] = replace(entries[at], payload=bytes(data), size=len(data))
        if rng.random() < 0.5:
            one, other = rng.integers(0, len(entries), 2)
            entries[one], entries[other] = entries[other], entries[one]
        found = audited(secagg.Transcript.of(entries), params)
        spoiled = any(e.payload != h.payload for e, h in zip(entries, honest(threat), strict=True))
        inputs_only = all(
            e.kind == messages.MaskedInput.__name__
            for e, h in zip(entries, honest(threat), strict=True)
            if e.payload != h.payload
        )
        # A vector looks like any other: only sums tell.
        assert found.deviations or not spoiled or inputs_only
