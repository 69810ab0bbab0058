"""A sensor transcript as a file: JSON lines, and a reader that trusts nothing of them.

The first line says what was agreed and what the file holds: simulation truth, and no secret. Every
line that follows is a message. A line is read only as far as one can be long; every field is of one
type and in its range, and what does not fit the protocol is refused by the number of its line.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from privagg import field as fields
from privagg.errors import CapacityError, UsageError
from privagg.protocols._common.lines import LineReader
from privagg.protocols.sensor.params import Params
from privagg.protocols.sensor.transcript import (
    EVERYONE,
    MAX_ENTRIES,
    STEP_OF,
    Entry,
    Transcript,
    sealed,
)
from privagg.report import replacing

__all__ = ["FORMAT", "HOLDS", "MAX_BYTES", "read", "write"]

FORMAT = "privagg sensor transcript 1"

HOLDS = (
    "simulation truth: who sent what to whom and what arrived, which no party sees alone; "
    "no reading, share, mask or key"
)

MAX_BYTES = 2 * 2**30
"""A larger file is not read."""

_MAX_HEADER = 2**14
_MAX_FIELDS = 512
_SCHEMA_VERSION = 1


class _Params(msgspec.Struct, forbid_unknown_fields=True):
    protocol: str
    nodes: int
    bound: int
    width: int
    modulus: int
    corrupt: int
    drops: int
    min_cluster: int
    tag_bytes: int
    keys: str
    arithmetic: str
    real_bytes: int
    slices: int
    plain_slices: bool
    seed_max: int
    coefficient_max: int


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    schema_version: int
    format: str
    holds: str
    params: _Params
    base_station: int
    epochs: int
    acknowledged: bool
    insecure_seed: bool
    messages: int


class _Format(msgspec.Struct):
    format: str


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    epoch: int
    step: str
    kind: str
    sender: int
    receiver: int
    cluster: int
    size: int
    sealed: bool
    arrived: bool
    relayed: bool
    broadcast: bool
    attempt: int
    data: tuple[int, ...]


def write(transcript: Transcript, path: str | Path) -> None:
    """Write a transcript; the file is there whole, or not at all.

    Raises
    ------
    UsageError
        If it cannot be written.
    """
    params = asdict(transcript.params)
    params["modulus"] = params.pop("field")["modulus"]
    header = {
        "schema_version": _SCHEMA_VERSION,
        "format": FORMAT,
        "holds": HOLDS,
        "params": params,
        "base_station": transcript.base_station,
        "epochs": transcript.epochs,
        "acknowledged": transcript.acknowledged,
        "insecure_seed": transcript.insecure_seed,
        "messages": len(transcript),
    }
    try:
        with replacing(Path(path)) as file:
            file.write(msgspec.json.encode(header) + b"\n")
            for entry in transcript:
                file.write(msgspec.json.encode(entry) + b"\n")
    except OSError as error:
        hint = error.strerror or "It cannot be written."
        raise UsageError("transcript", str(path), "a file that can be written", hint) from None


def read(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Transcript:
    """Read a transcript.

    Parameters
    ----------
    path : str or Path
        The file.
    max_bytes : int
        Refuse a larger one.

    Raises
    ------
    UsageError
        If the file cannot be read, is too large, or is no transcript, whole. It names the line.
    """
    where = Path(path)
    try:
        size = where.stat().st_size
        if size > max_bytes:
            raise UsageError("transcript", f"{size} bytes", f"a file of at most {max_bytes} bytes")
        with where.open("rb") as file:
            return _Reader(file, where.name).read()
    except OSError as error:
        hint = error.strerror or "It cannot be read."
        raise UsageError("transcript", str(path), "a readable file", hint) from None


class _Reader(LineReader):
    """Reads one file."""

    hint = "Write it with `privagg simulate sensor --transcript FILE`."

    def read(self) -> Transcript:
        """Read header and messages."""
        line = self._line(_MAX_HEADER) or b""
        due = f"a header of the format {FORMAT!r}"
        found = self._decode(line, _Format, due).format
        if found != FORMAT:
            self._fail(f"the format {found[:60]!r}", repr(FORMAT))
        header = self._decode(line, _Header, due)
        self._check_header(header)
        self._params = self._read_params(header.params)
        self._header = header
        limit = _MAX_FIELDS + 12 * (max(header.params.nodes, header.params.width) + 1)
        entries: list[Entry] = []
        for _ in range(header.messages):
            text = self._line(limit)
            if text is None:
                self._fail(f"the end of the file after {len(entries)} messages", "the others")
            entries.append(self._entry(text, entries[-1].epoch if entries else 0))
        if self._line(limit) is not None:
            self._fail("another line", f"the end of the file after {header.messages} messages")
        return Transcript(
            params=self._params,
            base_station=header.base_station,
            epochs=header.epochs,
            acknowledged=header.acknowledged,
            insecure_seed=header.insecure_seed,
            entries=tuple(entries),
        )

    def _check_header(self, header: _Header) -> None:
        if header.schema_version != _SCHEMA_VERSION:
            self._fail(f"schema_version {header.schema_version}", str(_SCHEMA_VERSION))
        if header.holds != HOLDS:
            self._fail("another word of what it holds", "this format's")
        if not 0 <= header.messages <= MAX_ENTRIES:
            self._fail(f"{header.messages} messages", f"0 to {MAX_ENTRIES}")
        if not 0 <= header.epochs <= 10**9:
            self._fail(f"{header.epochs} epochs", "0 to 10^9")
        if header.base_station != header.params.nodes:
            self._fail(f"base_station {header.base_station}", f"{header.params.nodes}, the nodes")

    def _read_params(self, record: _Params) -> Params:
        given: dict[str, Any] = {name: getattr(record, name) for name in _Params.__struct_fields__}
        modulus = given.pop("modulus")
        named = [one for one in fields.FIELDS.values() if one.modulus == modulus]
        try:
            given["field"] = named[0] if named else fields.prime_field(modulus)
            return Params(**given)
        except (UsageError, CapacityError) as error:
            self._fail(f"params, {error.argument}: {error.found}", error.allowed)

    def _entry(self, text: bytes, last: int) -> Entry:
        record = self._decode(text, _Line, "a message: epoch, step, kind, sender, receiver, ...")
        nodes, protocol = self._header.base_station, self._params.protocol
        if STEP_OF.get(record.kind) != record.step:
            known = ", ".join(STEP_OF)
            self._fail(f"kind {record.kind[:40]!r} in step {record.step[:40]!r}", f"one of {known}")
        if record.sealed != sealed(record.kind, protocol):
            self._fail(f"sealed {record.sealed}", f"{not record.sealed} for {record.kind}")
        if not last <= record.epoch < self._header.epochs:
            self._fail(f"epoch {record.epoch}", f"{last} to {self._header.epochs - 1}")
        if not 0 <= record.sender <= nodes or record.sender == record.receiver:
            self._fail(f"sender {record.sender}", f"another of the nodes 0 to {nodes}")
        least = EVERYONE if record.kind == "Hello" else 0
        if not least <= record.receiver <= nodes:
            self._fail(f"receiver {record.receiver}", f"{least} to {nodes}")
        on_tree = record.kind in ("Hello", "Slice", "Report")
        if not (record.cluster == -1 if on_tree else 0 <= record.cluster < nodes):
            self._fail(f"cluster {record.cluster}", "-1" if on_tree else f"0 to {nodes - 1}")
        if not 0 <= record.size < 2**32 or not 0 <= record.attempt < 2**16:
            self._fail(f"size {record.size}, attempt {record.attempt}", "0 or more")
        self._check_data(record)
        return Entry(**{name: getattr(record, name) for name in _Line.__struct_fields__})

    def _check_data(self, record: _Line) -> None:
        nodes, params, data = self._header.base_station, self._params, record.data
        if record.kind == "Seed":
            if len(data) > params.width or not all(1 <= s <= params.seed_max for s in data):
                self._fail("data that is no seeds", f"{params.width} from 1 to {params.seed_max}")
            return
        if data and record.kind not in ("Roster", "SenderSet", "Report"):
            self._fail(f"data in a {record.kind}", "none")
        ascending = all(a < b for a, b in itertools.pairwise(data))
        if not ascending or not all(0 <= node < nodes for node in data):
            self._fail("data that is no list of nodes", f"ids of 0 to {nodes - 1}, ascending")
        if record.kind == "Roster" and not {record.receiver, record.cluster} <= set(data):
            self._fail("a roster without its receiver or leader", "both in it")
