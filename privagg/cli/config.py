"""``--config FILE.toml``: a file that gives options.

A flag wins over the environment (``PRIVAGG_SIMULATE_SECAGG_CLIENTS``), the environment over the
file, the file over the default. Keys at the top of the file are options of the command that runs;
a table named like a command (``[simulate.secagg]``) is for that command only and wins over them,
so that one file can serve several commands. An unknown key is an error, never ignored.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import rich_click as click

from privagg.cli._reading import read_text, reading
from privagg.errors import UsageError

__all__ = ["apply"]

_MAX_BYTES = 1 << 20


def apply(ctx: click.Context, path: Path) -> None:
    """Make the values in the file at `path` the defaults of the command of `ctx`.

    Raises
    ------
    UsageError
        If the file is no TOML, or a key or a value does not fit the command.
    """
    text = read_text(path, _MAX_BYTES)
    with reading(str(path), "a TOML file"):
        table = tomllib.loads(text)
    root = ctx.find_root()
    names: list[str] = []
    here: click.Context | None = ctx
    while here is not None and here is not root:
        names.insert(0, here.info_name or "")
        here = here.parent
    options = _options(ctx.command)
    values: dict[str, Any] = {}
    for key, value in _collect(table, root.command, names, path).items():
        if key not in options:
            raise UsageError(
                f"key {key!r} in {path}",
                "unknown",
                f"options of '{ctx.command_path}': {', '.join(sorted(options))}",
            )
        option = options[key]
        if option.name in values:
            raise UsageError(f"key {key!r} in {path}", "given twice", "one name of an option")
        values[option.name or key] = _convert(option, value, key, path)
    ctx.default_map = {**(ctx.default_map or {}), **values}


def _collect(
    table: dict[str, Any], command: click.Command, names: list[str], path: Path
) -> dict[str, Any]:
    """Return the options for the command at `names` below `command`, the inner table's first."""
    found: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    for key, value in table.items():
        if not isinstance(value, dict):
            name = key.replace("_", "-")
            if name in found:
                raise UsageError(f"key {key!r} in {path}", "given twice", "one value for each key")
            found[name] = value
            continue
        children = command.commands if isinstance(command, click.Group) else {}
        if key not in children:
            raise UsageError(
                f"table [{key}] in {path}",
                "unknown",
                f"tables named like commands: {', '.join(children) or 'none here'}",
            )
        # Tables of other commands are walked too, so that a misspelt one is found.
        below = _collect(value, children[key], names[1:] if names[:1] == [key] else [], path)
        if names[:1] == [key]:
            inner = below
    return found | inner


def _options(command: click.Command) -> dict[str, click.Option]:
    named = {}
    for param in command.params:
        if isinstance(param, click.Option) and param.name not in ("config", "version", "help"):
            for flag in param.opts:
                if flag.startswith("--"):
                    named[flag.removeprefix("--")] = param
    for former, flag in getattr(command, "former_names", {}).items():
        named[former.removeprefix("--")] = named[flag.removeprefix("--")]
    return named


def _convert(option: click.Option, value: Any, key: str, path: Path) -> Any:
    """Return `value` as click takes it: flags as they are, all else as text to be parsed.

    As text, a value meets the same checks as on the command line: 1.5 is not cut to 1, and true
    is no number.
    """
    where = f"key {key!r} in {path}"
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(where, value, "true or false")
        return value
    if option.multiple or option.nargs != 1:
        if not isinstance(value, list):
            raise UsageError(where, value, "a list")
        return [_text(item, where) for item in value]
    return _text(value, where)


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(where, value, "a string or a number")
    return value if isinstance(value, str) else repr(value)
