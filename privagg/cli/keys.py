"""``privagg keys``: Ed25519 identities, and the roster that pins them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from privagg import keyfiles
from privagg.cli.common import Options, command, emit, note, progress, warn
from privagg.errors import UsageError
from privagg.keys import Identity
from privagg.report import Cell, Report, Table

if TYPE_CHECKING:
    from privagg.protocols.secagg.identity import Roster

__all__ = ["new_command", "roster_command", "show_command"]

_SUFFIX = ".identity"
_NAME = re.compile(r"\w[\w.@+-]{0,99}")
_MAX_PASSPHRASE_BYTES = 4096
_MOST_LISTED = 50
_READABLE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


def _passphrase_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the two ways to give a passphrase; neither ever holds it as a word."""
    ask = click.option(
        "--ask-passphrase",
        is_flag=True,
        # Who puts the passphrase itself into the environment must not see it in an error.
        allow_from_autoenv=False,
        help="Ask for the identity's passphrase on the terminal, unseen.",
    )
    file = click.option(
        "--passphrase-file",
        type=click.Path(exists=True, dir_okay=False, allow_dash=False, path_type=Path),
        metavar="FILE",
        help="Read the identity's passphrase from this file; one newline at its end is left off.",
    )
    return file(ask(function))


def _out_is(meaning: str) -> Callable[[click.RichCommand], click.RichCommand]:
    """Say in the help what ``--out`` is where the result proper goes to stdout."""

    def decorate(made: click.RichCommand) -> click.RichCommand:
        for param in made.params:
            if param.name == "out" and isinstance(param, click.Option):
                param.help = meaning
        return made

    return decorate


@_out_is("Write the identity to this file, not to NAME.identity.")
@command(
    "new",
    examples=[
        "privagg keys new alice",
        "privagg keys new --out alice.identity --ask-passphrase",
        "privagg keys new client --count 100 --dir identities",
    ],
)
@click.argument("name", required=False)
@click.option(
    "--count",
    type=click.IntRange(1, 2**20),
    metavar="INT",
    help="Make so many, NAME-0.identity and on, for simulations.",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where to put NAME.identity; it is made, for its owner only, if it is not there.",
)
@_passphrase_options
@click.option("--force", is_flag=True, help="Replace files that exist; their identities are lost.")
def new_command(
    name: str | None,
    count: int | None,
    folder: Path | None,
    passphrase_file: Path | None,
    ask_passphrase: bool,
    force: bool,
    options: Options,
) -> None:
    """Make an Ed25519 identity.

    It goes to the file NAME.identity, which only its owner can read. Its public key, printed here,
    is what others put into their roster. Without a passphrase the file is the identity: whoever has
    it can sign as this client.
    """
    targets = _targets(name, count, folder, options.out)
    for target in targets:
        if not force and os.path.lexists(target):
            hint = "To replace it, and lose the identity in it, use --force."
            raise UsageError(str(target), "a file that exists", "a new file", hint)
    passphrase = _passphrase(passphrase_file, ask_passphrase, confirm=True)
    if folder is not None:
        folder.mkdir(mode=0o700, exist_ok=True)
    made = _write(targets, passphrase, force, options)
    if passphrase is None:
        what = f"{targets[0]} is" if len(targets) == 1 else "each of these files is"
        warn(f"{what} the identity itself: whoever reads it can sign as this client.")
    exposed = [target for target in targets if keyfiles.others_can_read(target)]
    if exposed:
        warn(f"{exposed[0]} can be read by others: this file system does not keep permissions.")
    table = Table("", ["file", "public key"], [[str(target), key.hex()] for target, key in made])
    if len(made) == 1:
        table = _one(made[0][1], file=str(made[0][0]))
    data: dict[str, object] = {
        "encrypted": passphrase is not None,
        "identities": [_entry(key) | {"file": str(target)} for target, key in made],
    }
    emit(
        Report(
            title="A new identity" if len(made) == 1 else f"{len(made):,} new identities",
            data=data,
            tables=[table],
            verdict="Give the public key to whoever makes the roster: privagg keys roster.",
        ),
        replace(options, out=None),
    )


def _targets(
    name: str | None, count: int | None, folder: Path | None, out: Path | None
) -> list[Path]:
    if out is not None:
        for flag, value in (("NAME", name), ("--count", count), ("--dir", folder)):
            if value is not None:
                raise UsageError(flag, "given beside --out FILE", f"either --out or {flag}")
        return [out]
    if name is None and count is None:
        raise UsageError("NAME", "nothing", "a name, or --out FILE", "privagg keys new alice")
    name = "client" if name is None else name
    if not _NAME.fullmatch(name):
        allowed = "letters, digits and . @ + - _, at most 100; --out FILE takes a path"
        raise UsageError("NAME", name, allowed)
    place = Path() if folder is None else folder
    if not place.resolve().parent.is_dir():
        raise UsageError("--dir", str(place), "a folder, or a new one in a folder that exists")
    if count is None:
        return [place / f"{name}{_SUFFIX}"]
    # Padded, so that a shell lists them in the clients' order.
    width = len(str(count - 1))
    return [place / f"{name}-{index:0{width}}{_SUFFIX}" for index in range(count)]


def _write(
    targets: Sequence[Path], passphrase: str | None, force: bool, options: Options
) -> list[tuple[Path, bytes]]:
    """Write an identity to each target; after a failure none of the new files is left."""
    made: list[tuple[Path, bytes]] = []
    try:
        with progress(options) as step:
            for target in targets:
                identity = Identity.generate()
                keyfiles.write_identity(target, identity, passphrase=passphrase, force=force)
                made.append((target, identity.public))
                step("identities", len(made), len(targets))
    except BaseException:
        for target, _ in made:
            target.unlink(missing_ok=True)
        raise
    return made


@command(
    "show",
    examples=["privagg keys show alice.identity", "privagg keys show roster.json --json"],
)
@click.argument("file", type=_READABLE, metavar="FILE")
@_passphrase_options
def show_command(
    file: Path, passphrase_file: Path | None, ask_passphrase: bool, options: Options
) -> None:
    """Show what is public of an identity, a roster or a file of public keys.

    Never the secret. With its passphrase, an encrypted identity is also checked.
    """
    kind = keyfiles.kind_of(file)
    passphrase = _passphrase(passphrase_file, ask_passphrase)
    if passphrase is not None and kind != "encrypted identity":
        given = "--passphrase-file" if passphrase_file else "--ask-passphrase"
        raise UsageError(given, f"given for {file}, of the kind {kind!r}", "an encrypted identity")
    if kind == "roster":
        from privagg.protocols.secagg.identity import Roster

        emit(_roster_report(Roster.load(file), file, title=f"{file}: a roster"), options)
        return
    if kind == "public keys":
        found = keyfiles.read_public(file)
        listed = {"kind": kind, "file": str(file), "identities": [_entry(key) for key in found]}
        emit(Report(f"{file}: public keys", listed, [_table(found)]), options)
        return
    if passphrase is None:
        (public,) = keyfiles.read_public(file)
    else:
        public = keyfiles.read_identity(file, passphrase).public
    exposed = keyfiles.others_can_read(file)
    if exposed:
        warn(f"{file} can be read or changed by others; `chmod 600` it, or make a new identity.")
    checked = kind == "identity" or passphrase is not None
    data: dict[str, object] = {"kind": kind, "file": str(file)} | _entry(public)
    data |= {"secret_checked": checked, "exposed": exposed}
    notes = [] if checked else ["Only the passphrase can tell whether the secret is this key's."]
    emit(Report(f"{file}: an {kind}", data, [_one(public)], notes=notes), options)


@_out_is("Write the roster to this file. It replaces a roster only.")
@command(
    "roster",
    examples=[
        "privagg keys roster alice.identity bob.identity --out roster.json",
        "privagg keys roster public-keys.txt --out roster.json",
        "privagg keys roster identities/*.identity --out roster.json --json",
    ],
)
@click.argument("sources", nargs=-1, required=True, metavar="FILE|KEY...")
def roster_command(sources: tuple[str, ...], options: Options) -> None:
    """Make the pinned roster of a cohort: client i is the i-th identity given.

    Each source is an identity file, a text file of one public key per line, or a public key of 64
    hexadecimal digits. All parties must use the same roster: they compare the digest printed here.
    """
    from privagg.protocols.secagg.identity import Roster

    if options.out is None:
        raise UsageError("--out", "nothing", "a file for the roster", "--out roster.json")
    if os.path.lexists(options.out) and keyfiles.kind_of(options.out) != "roster":
        allowed = "a new file, or a roster to replace"
        raise UsageError("--out", f"{options.out}, which is no roster", allowed)
    listed: dict[bytes, str] = {}
    for source in sources:
        for where, key in _read_source(source):
            if key in listed:
                raise UsageError(where, f"the same key as {listed[key]}", "distinct identities")
            listed[key] = where
    roster = Roster(listed)
    roster.save(options.out)
    note(options, f"Wrote {options.out}")
    report = _roster_report(roster, options.out, title="A roster")
    emit(report, replace(options, out=None))


def _read_source(source: str) -> list[tuple[str, bytes]]:
    """Return a source's keys, and where each is for messages."""
    if re.fullmatch(r"[0-9a-fA-F]{64}", source):
        return [(f"key {source[:16]}...", keyfiles.parse_public(source, f"key {source[:16]}..."))]
    found = keyfiles.read_public(source)
    if len(found) == 1:
        return [(source, found[0])]
    return [(f"{source}, key {place}", key) for place, key in enumerate(found, 1)]


def _roster_report(roster: Roster, file: Path, *, title: str) -> Report:
    digest = roster.digest().hex()
    return Report(
        title=title,
        data={
            "kind": "roster",
            "file": str(file),
            "digest": digest,
            "clients": len(roster),
            "identities": [_entry(key) for key in roster.identities],
        },
        tables=[_table(roster.identities, head="client")],
        verdict=f"Digest {digest}: all parties must have this one.",
    )


def _entry(public: bytes) -> dict[str, object]:
    return {"public": public.hex(), "fingerprint": keyfiles.fingerprint(public)}


def _one(public: bytes, **more: str) -> Table:
    """Return a table of one line for each fact: a key fits a narrow terminal, to be copied."""
    facts = more | {"public key": public.hex(), "fingerprint": keyfiles.fingerprint(public)}
    return Table("", ["what", "value"], [[name, text] for name, text in facts.items()])


def _table(public: Sequence[bytes], *, head: str = "place") -> Table:
    shown = public[:_MOST_LISTED]
    title = f"{len(public):,} public keys"
    if len(shown) < len(public):
        title += f", the first {len(shown)}; --json lists all"
    rows: list[list[Cell]] = [[i, key.hex()] for i, key in enumerate(shown)]
    return Table(title, [head, "public key"], rows)


def _passphrase(file: Path | None, ask: bool, *, confirm: bool = False) -> str | None:
    if file is not None and ask:
        raise UsageError("--ask-passphrase", "given beside --passphrase-file", "one of the two")
    if file is not None:
        return _passphrase_in(file)
    if not ask:
        return None
    if not sys.stdin.isatty():
        hint = "Use --passphrase-file FILE."
        raise UsageError("--ask-passphrase", "no terminal on stdin", "a terminal to ask on", hint)
    text: str = click.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm, err=True)
    return text


def _passphrase_in(file: Path) -> str:
    with file.open("rb") as stream:
        content = stream.read(_MAX_PASSPHRASE_BYTES + 1)
    if len(content) > _MAX_PASSPHRASE_BYTES:
        allowed = f"at most {_MAX_PASSPHRASE_BYTES} bytes"
        raise UsageError("--passphrase-file", f"{file}, which is longer", allowed)
    try:
        text = content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        text = ""
    if not text:
        allowed = "a passphrase as UTF-8 text"
        raise UsageError("--passphrase-file", f"{file}, which is empty or no text", allowed)
    return text
