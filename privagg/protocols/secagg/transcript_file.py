"""A transcript as a file: its header, and a reader that trusts nothing of it.

The file may come from anyone. A line is read only as far as a message of the stated parameters can
be long, every field is of one type, and a digest or a size that does not fit its payload is refused
by the number of its line. What the messages say is not judged here.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from privagg.encoding import Encoding
from privagg.errors import UsageError
from privagg.prg import Suite
from privagg.protocols._common.lines import LineReader
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.identity import Roster
from privagg.protocols.secagg.layout import KINDS, Message
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.states import ROUNDS
from privagg.protocols.secagg.thresholds import Graph, Threat
from privagg.protocols.secagg.transcript import Entry, Transcript

__all__ = ["FORMAT", "MAX_BYTES", "Header", "header_of", "largest_message", "read"]

FORMAT = "privagg secagg transcript 1"

MAX_BYTES = 4 * 2**30
"""A larger file is not read: payloads are kept in memory."""

_MAX_HEADER = 2**28
"""Bytes of the first line: the identities of a million clients are 67 MB."""

_MAX_FIELDS = 512
"""Bytes of a message's line beside its payload."""

_SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Header:
    """What the first line of a transcript says.

    Attributes
    ----------
    params : Params
        The round's parameters.
    roster : Roster or None
        The identities by which its messages are signed.
    model : bytes
        Digest of the shared parameters that the clients were given, or empty.
    aborted : str or None
        Why the round ended early.
    insecure_seed : bool
        Whether its secrets came from a seed.
    """

    params: Params
    roster: Roster | None = None
    model: bytes = field(default=b"", repr=False)
    aborted: str | None = None
    insecure_seed: bool = False


class _Encoding(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["integer", "float", "ring"]
    value_bits: int
    signed: bool
    clip: int | float | None
    max_weight: int
    weighted: bool


class _Params(msgspec.Struct, forbid_unknown_fields=True):
    clients: int
    dim: int
    encoding: _Encoding
    threshold: int
    corrupt: int
    # A whole number stays one: the digest is over the text.
    dropout: int | float
    min_cohort: int
    graph: Graph
    neighbours: int
    threat: Threat
    prg: Suite
    sigma: int
    eta: int


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    schema_version: int
    format: str
    protocol: str
    threat: str
    graph: str
    clients: int
    dim: int
    threshold: int
    neighbours: int
    modulus_bits: int
    params: _Params
    params_digest: str
    identities: list[str] | None
    model: str
    insecure_seed: bool
    messages: int
    aborted: str | None


class _Format(msgspec.Struct):
    format: str


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    round: str
    sender: int | Literal["server"]
    receiver: int | Literal["server"]
    kind: str
    size: int
    sha256: str
    payload: bytes | None


def header_of(
    params: Params,
    transcript: Transcript,
    *,
    roster: Roster | None = None,
    model: bytes = b"",
    insecure_seed: bool = False,
    aborted: str | None = None,
) -> dict[str, object]:
    """Return the first line of a transcript's file, for :meth:`Transcript.write`.

    Parameters as the attributes of :class:`Header`.
    """
    return _summary(params) | {
        "params": asdict(params),
        "params_digest": params.digest().hex(),
        "identities": None if roster is None else [key.hex() for key in roster.identities],
        "model": model.hex(),
        "insecure_seed": insecure_seed,
        "messages": len(transcript),
        "aborted": aborted,
    }


def _summary(params: Params) -> dict[str, object]:
    """Return the header's fields for readers that want no more."""
    return {
        "schema_version": _SCHEMA_VERSION,
        "format": FORMAT,
        "protocol": "secagg",
        "threat": params.threat.value,
        "graph": params.graph.value,
        "clients": params.clients,
        "dim": params.dim,
        "threshold": params.threshold,
        "neighbours": params.neighbours,
        "modulus_bits": params.modulus_bits,
    }


def largest_message(params: Params) -> int:
    """Return the bytes of the longest message that a round of `params` can have."""
    members = params.neighbours + 1
    sizes = (
        messages.Start.size(),
        messages.AdvertiseKeys.size(params),
        messages.KeyRoster.size(params, members) + messages.GraphProof.size(params, members),
        messages.ShareKeys.size(members),
        messages.ShareBundle.size(members, members),
        messages.MaskedInput.size(params),
        messages.SignatureSet.size(params, members, members),
        messages.UnmaskShares.size(members),
    )
    return max(sizes)


def read(path: str | Path, *, max_bytes: int = MAX_BYTES) -> tuple[Header, Transcript]:
    """Read the file of a transcript.

    Parameters
    ----------
    path : str or Path
        The file.
    max_bytes : int
        Refuse a larger file.

    Returns
    -------
    (Header, Transcript)
        What was agreed, and the messages.

    Raises
    ------
    UsageError
        If the file cannot be read, is too large, or is no transcript, whole and unchanged. It
        names the line.
    """
    where = Path(path)
    try:
        size = where.stat().st_size
        if size > max_bytes:
            raise UsageError("transcript", f"{size} bytes", f"a file of at most {max_bytes} bytes")
        with where.open("rb") as file:
            return _Reader(file, where.name).read()
    except OSError as error:
        raise UsageError(
            "transcript", str(path), "a readable file", error.strerror or "It cannot be read."
        ) from None


class _Reader(LineReader):
    """Reads one file."""

    hint = "Write it with `privagg simulate secagg --transcript FILE`."

    def read(self) -> tuple[Header, Transcript]:
        header, count = self._header()
        self._clients = header.params.clients
        limit = _MAX_FIELDS + 4 * ((largest_message(header.params) + 2) // 3)
        entries: list[Entry] = []
        for _ in range(count):
            line = self._line(limit)
            if line is None:
                self._fail(f"the end of the file after {len(entries)} messages", f"{count}")
            entries.append(self._entry(line))
        if self._line(limit) is not None:
            self._fail("another line", f"the end of the file after {count} messages")
        return header, Transcript.of(entries)

    def _header(self) -> tuple[Header, int]:
        line, header_is_due = self._line(_MAX_HEADER) or b"", f"a header of the format {FORMAT!r}"
        # What it is comes first: other formats have other fields.
        self._check_format(self._decode(line, _Format, header_is_due).format)
        record = self._decode(line, _Header, header_is_due)
        if record.messages < 0:
            self._fail(f"{record.messages} messages", "0 or more")
        given = {name: getattr(record.params, name) for name in _Params.__struct_fields__}
        parts = record.params.encoding
        try:
            given["encoding"] = Encoding(
                **{name: getattr(parts, name) for name in _Encoding.__struct_fields__}
            )
            params = Params(**given)
            summary = _summary(params)
        except UsageError as error:
            self._fail(f"params, {error.argument}: {error.found}", error.allowed)
        for name, value in (summary | {"params_digest": params.digest().hex()}).items():
            if getattr(record, name) != value:
                self._fail(f"{name} {getattr(record, name)!r}", f"{value!r}, as params say")
        header = Header(
            params=params,
            roster=self._roster(record.identities, params),
            model=self._hex(record.model, (0, 32), "model"),
            aborted=record.aborted,
            insecure_seed=record.insecure_seed,
        )
        return header, record.messages

    def _check_format(self, found: str) -> None:
        if found.startswith("privagg lightsecagg transcript"):
            raise UsageError(
                f"{self._name}, line {self._number}",
                "a transcript of LightSecAgg",
                "one of secure aggregation by pairwise masks",
                "Only those are audited: `privagg simulate secagg --protocol bonawitz` writes one.",
            )
        if found != FORMAT:
            self._fail(f"the format {found[:60]!r}", repr(FORMAT))

    def _roster(self, identities: list[str] | None, params: Params) -> Roster | None:
        if identities is None:
            return None
        if len(identities) != params.clients:
            self._fail(f"{len(identities)} identities", f"{params.clients}, one for each client")
        try:
            return Roster(self._hex(text, (32,), "an identity") for text in identities)
        except UsageError as error:
            self._fail(f"identities, {error.argument}: {error.found}", error.allowed)

    def _entry(self, line: bytes) -> Entry:
        record = self._decode(line, _Line, "a message: round, sender, receiver, kind, size, ...")
        if record.round not in ROUNDS:
            self._fail(f"round {record.round!r}", " or ".join(ROUNDS))
        if record.kind not in _KIND_NAMES:
            self._fail(f"kind {record.kind!r}", "the name of a message")
        if (record.sender == "server") == (record.receiver == "server"):
            self._fail(f"{record.sender} to {record.receiver}", "the server at one end")
        client = record.receiver if record.sender == "server" else record.sender
        if not isinstance(client, int) or not 0 <= client < 2**32:
            self._fail(f"client {client}", "0 to 2**32 - 1")
        if not re.fullmatch(r"(?:[0-9a-f]{64})?", record.sha256):
            self._fail("a malformed sha256", "64 hexadecimal digits, or none")
        data = record.payload
        if record.size < 0 or (data is not None and len(data) != record.size):
            self._fail(f"size {record.size}", f"{0 if data is None else len(data)}, the payload's")
        if data is not None and record.sha256 not in ("", hashlib.sha256(data).hexdigest()):
            self._fail("a sha256 that is not the payload's", "an unchanged file")
        return Entry(
            round=record.round,
            sender=record.sender,
            receiver=record.receiver,
            kind=record.kind,
            size=record.size,
            sha256=record.sha256,
            payload=data,
        )

    def _hex(self, text: str, sizes: tuple[int, ...], what: str) -> bytes:
        if len(text) // 2 not in sizes or not re.fullmatch(r"(?:[0-9a-f]{2})*", text):
            self._fail(f"{what} {text[:20]!r}", f"{sizes[-1]} bytes in lower-case hexadecimal")
        return bytes.fromhex(text)


_KIND_NAMES: dict[str, type[Message]] = {kind.__name__: kind for kind in KINDS.values()}
