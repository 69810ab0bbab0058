"""How a run ends badly: the exit code, the message on stderr, the JSON object on stdout."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from typing import Any

import rich_click as click

from privagg.cli.lazy import NoCommand
from privagg.errors import Abort, PeerError, PrivaggError, UsageError

__all__ = ["ExitCode", "State", "Terminated", "as_json", "exit_code", "failed_in", "show"]


class ExitCode(IntEnum):
    """What the exit codes say; few, and below 126 but for the shells' own two."""

    GOOD = 0
    UNEXPECTED = 1
    USAGE = 2
    ABORT = 3
    PEER = 4
    LEAK = 5
    INTERRUPTED = 130
    READER_GONE = 141
    TERMINATED = 143


class Terminated(KeyboardInterrupt):
    """SIGTERM came: to end as after Ctrl-C takes workers and scratch files along."""


@dataclass(slots=True)
class State:
    """What one run of the command line knows of itself when it fails.

    Parameters
    ----------
    json : bool
        Whether JSON was asked for.
    result_written : bool
        Whether stdout already holds the result: then no error object follows it.
    context : click.Context, optional
        Of the command that runs.
    """

    json: bool = False
    result_written: bool = False
    context: click.Context | None = None


def exit_code(error: BaseException) -> int:
    """Return the exit code for `error`."""
    if isinstance(error, Terminated):
        return ExitCode.TERMINATED
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return ExitCode.INTERRUPTED
    if isinstance(error, PrivaggError | click.ClickException):
        return error.exit_code
    return ExitCode.UNEXPECTED


def as_json(error: BaseException, state: State) -> dict[str, Any]:
    """Return the object ``{"error": {...}}`` that ``--json`` prints for `error`.

    Its keys: ``type``, ``message``, ``exit_code``, and the fields of that type
    (``argument``, ``found``, ``allowed``, ``hint``; ``peer``, ``round``, ``reason``; ``reason``,
    ``alive``, ``needed``).
    """
    fields: dict[str, Any] = {
        "type": _type(error),
        "message": _message(error, state),
        "exit_code": int(exit_code(error)),
    }
    match error:
        case UsageError():
            fields |= {
                "argument": error.argument,
                "found": error.found,
                "allowed": error.allowed,
                "hint": error.hint,
            }
        case PeerError():
            fields |= {"peer": error.peer, "round": error.round, "reason": error.reason}
        case Abort():
            fields |= {"reason": error.reason, "alive": error.alive, "needed": error.needed}
        case click.BadParameter() if error.param is not None:
            fields |= {"argument": _flag(error.param)}
    return {"error": fields}


def show(error: BaseException, state: State) -> None:
    """Print `error` on stderr: a panel on a terminal, plain lines elsewhere.

    Only what nobody foresaw has a traceback; ``PRIVAGG_TRACEBACK=1`` gives one to every error.
    Tracebacks never show the values of variables.
    """
    if isinstance(error, NoCommand):
        print(error.message, file=sys.stderr)
        return
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    foreseen = isinstance(
        error, PrivaggError | click.ClickException | click.Abort | KeyboardInterrupt
    ) or (isinstance(error, OSError) and error.errno is not None)
    if not foreseen or os.environ.get("PRIVAGG_TRACEBACK", "0") != "0":
        traceback.print_exception(error)
    console = Console(stderr=True, highlight=False)
    message, tail = _printable(_message(error, state)), _next_step(error, state)
    if sys.stderr.isatty():
        body = Text(message + (f"\n\n{tail}" if tail else ""))
        console.print(
            Panel(body, title=_title(error), title_align="left", border_style="red", expand=False)
        )
        return
    print(f"{_command_path(error, state)}: {_title(error).lower()}: {message}", file=sys.stderr)
    if tail:
        print(tail, file=sys.stderr)


def _type(error: BaseException) -> str:
    match error:
        case KeyboardInterrupt() | click.Abort():
            return "Interrupted"
        case PrivaggError():
            return type(error).__name__
        case click.UsageError():
            return "UsageError"
        case OSError():
            return "OSError"
    return "Unexpected"


def _title(error: BaseException) -> str:
    match error:
        case KeyboardInterrupt() | click.Abort():
            return "Interrupted"
        case UsageError() | click.UsageError():
            return "Usage error"
        case PeerError():
            return "Peer error"
        case Abort():
            return "Aborted"
        case PrivaggError() | click.ClickException() | OSError():
            return "Error"
    return "Unexpected error"


def _message(error: BaseException, state: State) -> str:
    match error:
        case KeyboardInterrupt() | click.Abort():
            return "stopped before a result."
        case UsageError():
            argument, allowed, hint = _in_options(error, state)
            hint = hint or _near(error.found, re.split(r", | or ", allowed))
            return f"{argument}: found {error.found}; allowed: {allowed}.{' ' * bool(hint)}{hint}"
        case PrivaggError():
            return str(error)
        case click.BadParameter() if error.param is not None:
            return _suggesting(error.format_message(), error.param)
        case click.ClickException():
            return error.format_message()
        case OSError() if error.filename is not None:
            return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error) or type(error).__name__


def _suggesting(said: str, param: click.Parameter) -> str:
    """Return what click says of a wrong choice, with the name that was probably meant."""
    found = re.search(r"'([^']*)' is not one of", said)
    if found is None or not isinstance(param.type, click.Choice):
        return said
    near = _near(found[1], list(param.type.choices))
    return f"{said}{' ' * bool(near)}{near}"


def _near(found: str, names: Sequence[str]) -> str:
    """Return a question for the name that was probably meant; nothing where none is near."""
    near = get_close_matches(found, [name for name in names if name.isascii()], n=1, cutoff=0.7)
    return f"Did you mean {near[0]!r}?" if near and near[0] != found else ""


def _next_step(error: BaseException, state: State) -> str:
    match error:
        case PrivaggError() | click.UsageError() if exit_code(error) == ExitCode.USAGE:
            return f"Help: {_command_path(error, state)} --help"
        case PrivaggError() | click.ClickException() | click.Abort() | KeyboardInterrupt():
            return ""
        case OSError() if error.errno is not None:
            return ""
    return "This is a fault in privagg. Please report it with the lines above."


def _in_options(error: UsageError, state: State) -> tuple[str, str, str]:
    """Return what is wrong, allowed and next in the words of the command that runs.

    A library names its own arguments: ``value_bits``, ``corrupt, dropout``, ``graph='sparse'``.
    What the command line itself says, of files and their columns, is left as it is.
    """
    flags = _flags(state)
    parts = re.split(r"(, | and )", error.argument)
    if not all(name in flags for name in parts[::2]):
        return error.argument, error.allowed, error.hint
    argument = "".join(flags.get(part, part) for part in parts)

    def said(text: str) -> str:
        text = re.sub(r"\b(\w+)=(['\"]?)([\w.-]+)\2", lambda m: _setting(m, flags), text)
        return re.sub(r"(?<![\w-])[a-z]+(_[a-z]+)+\b", lambda m: flags.get(m[0], m[0]), text)

    return argument, said(error.allowed), said(error.hint)


def _setting(match: re.Match[str], flags: dict[str, str]) -> str:
    name, _, value = match.groups()
    if name not in flags:
        return match[0]
    return flags[name] if value == "True" else f"{flags[name]} {value}"


def _flags(state: State) -> dict[str, str]:
    """Return the options of the command that runs by the names that libraries have for them."""
    if state.context is None:
        return {}
    command = state.context.command
    flags: dict[str, str] = dict(getattr(command, "library_names", {}))
    for param in command.params:
        if param.name is not None and param.name not in flags:
            flags[param.name] = _flag(param)
    return flags


def _flag(param: click.Parameter) -> str:
    option = isinstance(param, click.Option)
    return max(param.opts, key=len) if option else param.human_readable_name


def failed_in(error: BaseException, state: State) -> click.Context | None:
    """Return the context of the command that `error` ended, if any had begun."""
    context = getattr(error, "ctx", None) or state.context
    return context if isinstance(context, click.Context) else None


def _command_path(error: BaseException, state: State) -> str:
    context = failed_in(error, state)
    return "privagg" if context is None else context.command_path


def _printable(text: str) -> str:
    """As :func:`privagg.report.printable`, which would import NumPy here."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
