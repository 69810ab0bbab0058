"""Identity files: the Ed25519 keys of :mod:`privagg.keys` on disk.

An identity file is one JSON object of one of two formats. The public key is always in the clear::

    {"format": "privagg identity 1", "public": "<64 hex digits>", "secret": "<64 hex digits>"}

    {"format": "privagg encrypted identity 1", "public": "<64 hex digits>",
     "salt": "<32 hex digits>", "sealed": "<96 hex digits>"}

``sealed`` is the secret under AES-128-GCM, with format and public key as associated data. Its key
is scrypt (RFC 7914) of the passphrase in Unicode's NFC as UTF-8, and of the file's own salt, with
N = 2**15, r = 8, p = 3: 32 MiB and some tenths of a second for each guess. The parameters belong to
the format's number, so that no file can ask for more memory than that. Each writing draws a new
salt, hence a new key, as :func:`privagg.keys.encrypt` needs.

**Guarantee.** The encryption protects the secret of a stolen file as well as its passphrase resists
guessing. Without it, whoever reads the file is that identity. Neither formats nor functions hide
who it is.

Public keys may also come in a text file of one key per line, 64 hexadecimal digits each.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import unicodedata
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import msgspec
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from nacl.bindings import crypto_core_ed25519_is_valid_point

from privagg import keys
from privagg.errors import UsageError
from privagg.keys import Identity

__all__ = [
    "MAX_FILE_BYTES",
    "Kind",
    "fingerprint",
    "kind_of",
    "others_can_read",
    "parse_public",
    "read_identity",
    "read_public",
    "write_identity",
]

Kind: TypeAlias = Literal["identity", "encrypted identity", "public keys", "roster"]
"""What a file holds; rosters are read by :class:`privagg.protocols.secagg.identity.Roster`."""

MAX_FILE_BYTES = 96 * 2**20
"""Largest file of public keys, or roster, that is read: a million keys fit."""

_MAX_IDENTITY_BYTES = 4096
_PLAIN = "privagg identity 1"
_SEALED = "privagg encrypted identity 1"
_ROSTER = "privagg roster 1"
_KINDS: dict[str, Kind] = {_PLAIN: "identity", _SEALED: "encrypted identity", _ROSTER: "roster"}

_SALT_BYTES = 16
_SEALED_BYTES = keys.KEY_BYTES + keys.TAG_BYTES
_FORMAT = re.compile(rb'"format"\s*:\s*"([^"\\]{0,60})"')
_KEY = re.compile(r"[0-9a-fA-F]{64}")


class _Plain(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    public: str
    secret: str

    def __repr__(self) -> str:
        return "_Plain(...)"


class _Sealed(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    public: str
    salt: str
    sealed: str


_Record = TypeVar("_Record", _Plain, _Sealed)


def fingerprint(public: bytes) -> str:
    """Return 128 bits of a hash of `public`, to compare by eye or by voice.

    Eight groups of four hexadecimal digits, of SHA-256 over the length-prefixed parts "privagg
    fingerprint" and the key. To find another key of the same fingerprint takes about 2**128 work.
    """
    text = keys.digest(b"privagg fingerprint", public).hex()
    return " ".join(text[start : start + 4] for start in range(0, 32, 4))


def parse_public(text: str, where: str) -> bytes:
    """Return the public key of 32 bytes that `text` spells, if it can be someone's.

    Parameters
    ----------
    text : str
        64 hexadecimal digits.
    where : str
        The argument, or the file and line, for messages.

    Raises
    ------
    UsageError
        If there are fewer or more digits or other characters, or they are no point of the curve
        that Ed25519 can use as a key: of a key with a wrong digit about 15 of 16 are refused so.
    """
    if not _KEY.fullmatch(text):
        found = f"{len(text)} characters"
        if len(text) == 2 * keys.KEY_BYTES:
            found += ", not all hexadecimal"
        raise UsageError(where, found, "an Ed25519 public key of 64 hexadecimal digits")
    public = bytes.fromhex(text)
    if not crypto_core_ed25519_is_valid_point(public):
        raise UsageError(
            where,
            "64 digits that are no such key",
            "an Ed25519 public key: a canonical point of the prime-order group",
            "Is a digit wrong? `privagg keys show FILE` prints an identity's.",
        )
    return public


def kind_of(path: str | Path) -> Kind:
    """Return what the file at `path` says that it holds; only its first 4096 bytes are read.

    Raises
    ------
    UsageError
        If it cannot be read, is no regular file, empty or larger than :data:`MAX_FILE_BYTES`, or
        has an unknown format.
    """
    head = _read(path, MAX_FILE_BYTES, head=_MAX_IDENTITY_BYTES)
    if not head.lstrip().startswith(b"{"):
        return "public keys"
    match = _FORMAT.search(head)
    name = "" if match is None else match.group(1).decode("ascii", "replace")
    if name not in _KINDS:
        later = re.fullmatch(r"privagg (?:encrypted )?(?:identity|roster) \d+", name)
        raise UsageError(
            str(path),
            f"the format {name!r}" if name else "JSON that names no format of privagg",
            " or ".join(repr(known) for known in _KINDS),
            "Another version of privagg wrote it." if later else "",
        )
    return _KINDS[name]


def read_public(path: str | Path) -> tuple[bytes, ...]:
    """Return the public keys in an identity file or in a text file of one key per line.

    Of an unencrypted identity it is checked that the public key is the secret's. That of an
    encrypted one is believed: only its passphrase can tell, in :func:`read_identity`.

    Raises
    ------
    UsageError
        As :func:`kind_of`, :func:`parse_public` and :func:`read_identity`, and for a roster.
    """
    kind = kind_of(path)
    if kind == "identity":
        return (read_identity(path).public,)
    if kind == "encrypted identity":
        return (_sealed_fields(path)[0],)
    if kind == "roster":
        raise UsageError(str(path), "a roster", "an identity file or a file of public keys")
    try:
        lines = _read(path, MAX_FILE_BYTES).decode("ascii").splitlines()
    except UnicodeDecodeError:
        lines = []
    found = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise UsageError(
            str(path), "neither", "an identity file, or one public key per line as 64 hex digits"
        )
    return tuple(parse_public(line, f"{path}, line {number}") for number, line in found)


def read_identity(path: str | Path, passphrase: str | None = None) -> Identity:
    """Return the identity in the file at `path`.

    Parameters
    ----------
    path : str or Path
        The file.
    passphrase : str, optional
        The one it was written with; for an encrypted file only.

    Raises
    ------
    UsageError
        If the file is none, or cut short or altered, its public key is not that of its secret, or
        the passphrase is missing, wrong or not needed. No message holds anything of the secret.
    """
    kind = kind_of(path)
    if kind == "encrypted identity":
        return _unseal(path, passphrase)
    if kind != "identity":
        a = "a" if kind == "roster" else "a file of"
        raise UsageError(str(path), f"{a} {kind}", "an identity file of `privagg keys new`")
    if passphrase is not None:
        raise UsageError("passphrase", "one for a file that is not encrypted", f"none for {path}")
    record = _decode(path, _Plain)
    public = _public(record.public, path)
    return _matching(_hex(record.secret, "secret", keys.KEY_BYTES, path), public, path)


def write_identity(
    path: str | Path, identity: Identity, *, passphrase: str | None = None, force: bool = False
) -> None:
    """Write an identity to a new file that only its owner can read (mode 0600).

    The file is written whole or not at all; a crash may leave an empty one, which is no identity.

    Parameters
    ----------
    path : str or Path
        The file, in a folder that exists; the folder's permissions are left alone.
    identity : Identity
        What to write, its secret included.
    passphrase : str, optional
        Encrypt the secret under it.
    force : bool
        Replace a regular file that is there. What it held is lost.

    Raises
    ------
    UsageError
        If the file exists and not `force`, is no regular file, or its folder does not exist; if the
        passphrase is empty, or `identity` is no :class:`~privagg.keys.Identity`.
    OSError
        If the system cannot write it.
    """
    if not isinstance(identity, Identity):
        raise UsageError("identity", type(identity).__name__, "a privagg.keys.Identity")
    target = Path(path)
    content = msgspec.json.format(msgspec.json.encode(_record(identity, passphrase))) + b"\n"
    if not target.parent.is_dir():
        raise UsageError("path", str(path), "a file in a folder that exists")
    if force:
        _refuse_special(target)
    else:
        _claim(target)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    done = False
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(draft, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
        done = True
    finally:
        if not done:
            draft.unlink(missing_ok=True)
            if not force:
                target.unlink(missing_ok=True)


def others_can_read(path: str | Path) -> bool:
    """Say whether the file's mode lets its group or everyone read or write it.

    Parameters
    ----------
    path : str or path
        The file.
    """
    return bool(Path(path).stat().st_mode & 0o066)


def _claim(target: Path) -> None:
    """Take the file's name, so that nobody's file is replaced whoever else writes here."""
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        raise UsageError(
            str(target),
            "a file that exists",
            "a new file",
            "To replace it, and lose the identity in it, use --force (force=True).",
        ) from None


def _refuse_special(target: Path) -> None:
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise UsageError(str(target), "a link, a folder or a device", "a regular file to replace")


def _record(identity: Identity, passphrase: str | None) -> _Plain | _Sealed:
    public = identity.public.hex()
    if passphrase is None:
        return _Plain(_PLAIN, public, identity.secret_bytes().hex())
    salt = os.urandom(_SALT_BYTES)
    key = _stretch(passphrase, salt)
    sealed = keys.encrypt(key, identity.secret_bytes(), _associated(identity.public))
    return _Sealed(_SEALED, public, salt.hex(), sealed.hex())


def _unseal(path: str | Path, passphrase: str | None) -> Identity:
    if passphrase is None:
        raise UsageError(
            "passphrase", "none", f"the one {path} was written with", "The identity is encrypted."
        )
    public, salt, sealed = _sealed_fields(path)
    secret = keys.decrypt(_stretch(passphrase, salt), sealed, _associated(public))
    if secret is None:
        raise UsageError(
            "passphrase",
            f"one that does not open {path}",
            "the one it was written with",
            "A file that was altered cannot be opened either.",
        )
    return _matching(secret, public, path)


def _sealed_fields(path: str | Path) -> tuple[bytes, bytes, bytes]:
    record = _decode(path, _Sealed)
    return (
        _public(record.public, path),
        _hex(record.salt, "salt", _SALT_BYTES, path),
        _hex(record.sealed, "sealed", _SEALED_BYTES, path),
    )


def _stretch(passphrase: str, salt: bytes) -> bytes:
    if not isinstance(passphrase, str) or not passphrase:
        raise UsageError("passphrase", "an empty one or no text", "at least one character")
    normal = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")
    scrypt = Scrypt(salt=salt, length=keys.AEAD_KEY_BYTES, n=2**15, r=8, p=3)
    return scrypt.derive(normal)


def _associated(public: bytes) -> bytes:
    return keys.digest(_SEALED.encode(), public)


def _matching(secret: bytes, public: bytes, path: str | Path) -> Identity:
    identity = Identity(secret)
    if identity.public != public:
        raise UsageError(
            str(path), "a public key that is not that of the secret", "an unaltered identity file"
        )
    return identity


def _public(text: str, path: str | Path) -> bytes:
    return parse_public(text, f"{path}, field 'public'")


def _hex(text: str, field: str, size: int, path: str | Path) -> bytes:
    """Return the bytes of a field; what it held is not said, for it may be secret."""
    if re.fullmatch(rf"[0-9a-fA-F]{{{2 * size}}}", text) is None:
        where, allowed = f"{path}, field {field!r}", f"{2 * size} hexadecimal digits"
        raise UsageError(where, f"{len(text)} characters that do not fit", allowed)
    return bytes.fromhex(text)


def _decode(path: str | Path, kind: type[_Record]) -> _Record:
    content = _read(path, _MAX_IDENTITY_BYTES)
    try:
        record = msgspec.json.decode(content, type=kind)
        if record.format == (_PLAIN if kind is _Plain else _SEALED):
            return record
        found, allowed = "two fields 'format'", "one"
    except msgspec.ValidationError:
        fields = ", ".join(kind.__struct_fields__)
        found, allowed = "other fields", f"an object of the texts {fields}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        cut = "truncated" in str(error)
        found, allowed = "truncated JSON" if cut else "no JSON", "an unaltered identity file"
    # Outside of the handler, so that no parser's message, which may quote the file, is chained.
    raise UsageError(str(path), found, allowed)


def _read(path: str | Path, limit: int, *, head: int | None = None) -> bytes:
    """Return the content, or its first `head` bytes, of a regular file of at most `limit` bytes."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise UsageError(str(path), "a folder, a device or a pipe", "a regular file")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(limit + 1 if head is None else head)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(str(path), reason, "a file that can be read") from None
    if max(size, len(content)) > limit:
        raise UsageError(str(path), f"{size} bytes", f"at most {limit} bytes")
    if not content:
        raise UsageError(str(path), "an empty file", "an identity, public keys or a roster")
    return content
