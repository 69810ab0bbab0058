"""``privagg schema``: what the JSON objects of the commands are, as JSON Schema.

A file in the folder ``schemas`` says what the result of one command holds; here it gets the keys
that all objects have, and the object that comes after an error.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import rich_click as click

from privagg.cli.common import Options, command, emit
from privagg.cli.failures import ExitCode
from privagg.errors import UsageError
from privagg.report import Report

__all__ = ["DIALECT", "commands", "schema_command", "schema_of"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_FOLDER = Path(__file__).parent / "schemas"

_ENVELOPE: dict[str, Any] = {
    "schema_version": {"type": "integer", "minimum": 1, "description": "version of these keys"},
    "command": {"type": ["string", "null"], "description": "which ran; null if none was named"},
    "privagg": {"type": "string", "description": "version of the program"},
}
_ANYTHING: dict[str, Any] = {}
_ERROR_FIELDS: dict[str, Any] = {
    "type": {
        "type": "string",
        "description": "UsageError, CapacityError, PeerError, Abort, OSError, Interrupted, ...",
    },
    "message": {"type": "string"},
    "exit_code": {"enum": [int(code) for code in ExitCode if code != ExitCode.GOOD]},
    "argument": {"type": ["string", "null"], "description": "usage: which"},
    "found": {**_ANYTHING, "description": "usage: the value found"},
    "allowed": {"type": ["string", "null"], "description": "usage: what is allowed"},
    "hint": {"type": ["string", "null"], "description": "usage: the next step"},
    "peer": {"type": ["string", "integer"], "description": "who misbehaved"},
    "round": {"type": "string", "description": "where"},
    "reason": {"type": "string", "description": "why a peer is blamed, or a round ended"},
    "alive": {"type": "integer", "description": "parties left"},
    "needed": {"type": "integer", "description": "parties needed"},
}


@lru_cache(maxsize=1)
def commands() -> tuple[str, ...]:
    """Return the commands whose results have a schema, as they are typed."""
    return tuple(sorted(path.stem.replace("-", " ") for path in _FOLDER.glob("*.json")))


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of what a command prints with ``--json``.

    Parameters
    ----------
    name : str
        Such as ``"simulate secagg"``.

    Raises
    ------
    UsageError
        If there is no such command.
    """
    if name not in commands():
        raise UsageError("COMMAND", name, f"one of {', '.join(commands())}", _near(name))
    text = (_FOLDER / f"{name.replace(' ', '-')}.json").read_text(encoding="utf-8")
    results: list[dict[str, Any]] = json.loads(text)
    return {
        "$schema": DIALECT,
        "title": f"privagg {name} --json",
        "anyOf": [*(_object(one) for one in results), {"$ref": "#/$defs/error"}],
        "$defs": {
            "error": _object(
                {
                    "properties": {
                        "error": {
                            "type": "object",
                            "properties": _ERROR_FIELDS,
                            "required": ["type", "message", "exit_code"],
                        }
                    },
                    "required": ["error"],
                }
            )
        },
    }


def _object(own: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**_ENVELOPE, **own["properties"]},
        "required": [*_ENVELOPE, *own["required"]],
    }


def _near(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, commands(), n=1)
    return f"Did you mean {near[0]!r}?" if near else "privagg schema lists them."


@command(
    "schema",
    examples=["privagg schema", "privagg schema simulate secagg > secagg.schema.json"],
)
@click.argument("words", nargs=-1, metavar="[COMMAND]")
def schema_command(words: tuple[str, ...], options: Options) -> None:
    """Print the JSON Schema of what a command prints with --json.

    Without a COMMAND: which there are. The schema is open: later versions may add keys, and keep
    the meaning of those that are there as long as schema_version stays the same.
    """
    if not words:
        report = Report(
            title=f"{len(commands())} commands print JSON",
            data={"commands": list(commands())},
            notes=list(commands()),
            verdict="privagg schema COMMAND prints the schema of one.",
        )
        emit(report, options)
        return
    name = " ".join(words)
    found = schema_of(name)
    text = json.dumps(found, indent=2) + "\n"
    emit(Report(title=name, data={"of": name, "schema": found}), options, text=text)
