"""What every command shares: its options, where its result goes, its progress bar.

A command is a function under :func:`command` that ends with :func:`emit`::

    @command("secagg", examples=["privagg simulate secagg --clients 200"], plots=True)
    @click.option("--clients", type=click.IntRange(min=1), required=True, help="How many.")
    @seed_option
    def secagg(clients: int, seed: int | None, options: Options) -> None:
        '''Run a round.'''
        with progress(options) as step:
            report = ...  # a library function that is given `step`
        emit(report, options)

The result alone goes to stdout, all else to stderr.
"""

from __future__ import annotations

import inspect
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import rich_click as click
from click.exceptions import Exit
from click.types import FloatParamType, IntParamType

from privagg.cli import _targets
from privagg.cli import config as config_file
from privagg.cli.envelope import enveloped
from privagg.cli.failures import ExitCode, State
from privagg.errors import UsageError

if TYPE_CHECKING:
    from privagg.report import Report

__all__ = [
    "Command",
    "Options",
    "Step",
    "command",
    "emit",
    "file_option",
    "note",
    "progress",
    "seed_option",
    "warn",
]

Step: TypeAlias = Callable[[str, int, int], None]
"""Progress: the phase, how much of it is done, and of how much."""

_SILENCE = 30.0
"""Seconds without a line after which a phase that goes on says how far it is."""

_WORD = 2**63

_PIPED_WIDTH = 10_000
"""Into a file or a pipe, lines are as long as they are: nothing is wrapped."""


@dataclass(frozen=True, slots=True)
class Options:
    """Where the result goes and how much is said meanwhile."""

    json: bool = False
    out: Path | None = None
    quiet: bool = False
    report: Path | None = None
    plot: Path | None = None


class Command(click.RichCommand):
    """A command that leaves its context where the error handler finds it.

    Attributes
    ----------
    library_names : dict of str to str
        What libraries call its options, where that is not the option's own name.
    former_names : dict of str to str
        Former names of options, and what they are called now: still taken, and not in the help.
    """

    library_names: Mapping[str, str] = {}
    former_names: Mapping[str, str] = {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note the context, put today's names in the place of former ones, then parse."""
        state = ctx.find_object(State)
        if state is not None:
            state.context = ctx
        self._name_variables(ctx.auto_envvar_prefix)
        rest = super().parse_args(ctx, [self._named(word) for word in args])
        for param in self.params:
            _check_number(param, ctx.params.get(param.name or ""))
        return rest

    def _name_variables(self, prefix: str | None) -> None:
        """Read each option from the variable that its flag names, whatever the parameter's name."""
        for param in self.params:
            flag = max(param.opts, key=len)
            # What may hold a secret says that it is never read from the environment.
            wanted = isinstance(param, click.Option) and param.allow_from_autoenv
            if prefix and wanted and flag.startswith("--") and param.envvar is None:
                param.envvar = f"{prefix}_{flag[2:].replace('-', '_').upper()}"

    def _named(self, word: str) -> str:
        flag, equals, value = word.partition("=")
        return self.former_names[flag] + equals + value if flag in self.former_names else word


def command(
    name: str,
    *,
    examples: Sequence[str] = (),
    plots: bool = False,
    library_names: Mapping[str, str] | None = None,
    former_names: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., None]], click.RichCommand]:
    """Make a function a command with the options that every command has.

    These are ``--config``, ``--json``, ``--out`` and ``--quiet``; the function gets an
    :class:`Options` as ``options``. Its docstring is the help.

    Parameters
    ----------
    name : str
        The command's name.
    examples : sequence of str
        Command lines to start from; they come first in the help.
    plots : bool
        Whether its report has pictures: then there are ``--report`` and ``--plot`` too.
    library_names : mapping of str to str, optional
        What libraries call its options in their errors, where that is not the option's own name.
    former_names : mapping of str to str, optional
        Former names of options, and what they are called now.
    """

    def decorate(function: Callable[..., None]) -> click.RichCommand:
        @wraps(function)
        def with_options(**values: Any) -> None:
            options = Options(
                json=values.pop("json"),
                out=values.pop("out"),
                quiet=values.pop("quiet"),
                report=values.pop("report", None),
                plot=values.pop("plot", None),
            )
            context = click.get_current_context()
            if context is not None:
                _targets.check_distinct(context)
            function(options=options, **values)

        shared = [_CONFIG, _JSON, _OUT, *([_REPORT, _PLOT] if plots else []), _QUIET]
        for option in reversed(shared):
            option(with_options)
        # The options of the command itself come first in its help.
        params: list[click.Parameter] = with_options.__dict__["__click_params__"]
        own, common = params[: -len(shared)], params[-len(shared) :]
        with_options.__dict__["__click_params__"] = common + own
        summary, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
        # The mark \b keeps the lines of a paragraph apart.
        first = "\b\n" + "\n".join(examples) if examples else ""
        text = "\n\n".join(part for part in (summary, first, rest) if part)
        made = click.command(name, cls=Command, help=text)(with_options)
        made.library_names = library_names or {}
        made.former_names = former_names or {}
        for param in made.params:
            _say_what_it_takes(param)
        return made

    return decorate


def _check_number(param: click.Parameter, value: object) -> None:
    """Refuse what lies in no range: NaN passes every comparison, and machines count in words."""
    if isinstance(value, tuple):
        for one in value:
            _check_number(param, one)
    elif isinstance(value, float) and math.isnan(value):
        raise UsageError(max(param.opts, key=len), value, "a number")
    elif (
        isinstance(value, int)
        and not -_WORD <= value < _WORD
        and getattr(param.type, "max", None) is None  # seeds have a range of their own
    ):
        raise UsageError(max(param.opts, key=len), value, "whole numbers of 63 bits")


def _say_what_it_takes(param: click.Parameter) -> None:
    """Call numbers INT and FLOAT in the help where an option says nothing better."""
    if isinstance(param, click.Option) and param.metavar is None and not param.is_flag:
        if isinstance(param.type, IntParamType):
            param.metavar = "INT"
        elif isinstance(param.type, FloatParamType):
            param.metavar = "FLOAT"


def _apply_config(ctx: click.Context, _: click.Parameter, value: Path | None) -> None:
    if value is not None:
        ctx.meta[_targets.CONFIG] = value
        config_file.apply(ctx, value)


def _note_json(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    state = ctx.find_object(State)
    if state is not None and value:
        state.json = True
    return value


def _check_target(
    context: click.Context, param: click.Parameter, value: Path | None
) -> Path | None:
    """Refuse a file that could not be written before the work starts, not after it."""
    if value is None or context.resilient_parsing:
        return value
    flag = max(param.opts, key=len)
    if param.name in ("report", "plot"):
        from privagg import _report_draw

        _report_draw.require("matplotlib", *(["jinja2"] if param.name == "report" else []))
        if param.name == "plot" and value.suffix.lower() not in _report_draw.SUFFIXES:
            allowed = f"a file name ending in {', '.join(_report_draw.SUFFIXES)}"
            raise UsageError(flag, str(value), allowed)
    _targets.check_writable(flag, value)
    return value


_CONFIG = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=_apply_config,
    metavar="FILE.toml",
    help="Take options from this file; flags and the environment win over it.",
)
_JSON = click.option(
    "--json",
    is_flag=True,
    is_eager=True,
    callback=_note_json,
    help="Print one JSON object; after an error, one with the key 'error'.",
)
_OUT = click.option(
    "--out",
    type=_targets.FILE,
    callback=_check_target,
    metavar="FILE",
    help="Write the result to this file, not to stdout; as JSON if it ends in .json.",
)
_REPORT = click.option(
    "--report",
    type=_targets.FILE,
    callback=_check_target,
    metavar="FILE.html",
    help="Also write a page with tables and plots.",
)
_PLOT = click.option(
    "--plot",
    type=_targets.FILE,
    callback=_check_target,
    metavar="FILE.png",
    help="Also draw the plots; .svg and .pdf work too.",
)
_QUIET = click.option("--quiet", "-q", is_flag=True, help="No progress and no notes on stderr.")


def file_option(flag: str, metavar: str, help: str) -> Callable[[Any], Any]:
    """Return an option that names a file to write; what cannot be written is refused at once."""
    return click.option(
        flag, type=_targets.FILE, callback=_check_target, metavar=metavar, help=help
    )


seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    metavar="INT",
    help="Make the run repeatable, and insecure: who knows the seed knows every secret.",
)
"""``--seed``: an integer or None, for :func:`privagg.entropy.from_seed`."""


def emit(report: Report, options: Options, *, leak: bool = False, text: str = "") -> None:
    """Write the result where the options say, then end with exit code 5 if there is a `leak`.

    The result itself is written first: a page that cannot be drawn does not lose it.

    Parameters
    ----------
    report : Report
        The result.
    options : Options
        Of the command.
    leak : bool
        Whether an audit found a leak above its threshold.
    text : str
        What people get in place of the report's tables and notes, if not empty.

    Raises
    ------
    UsageError
        If the data holds a NaN, an infinity or a type that JSON does not have.
    """
    from privagg.report import write_file

    context = click.get_current_context(silent=True)
    report = replace(report, data=enveloped(report.data, context))
    # Encoded whether or not it is printed: a NaN in the data is refused either way.
    as_json = report.to_json() + "\n"
    if options.out is None:
        _write_stdout(as_json if options.json else text or _for_people(report))
    else:
        wanted = options.json or options.out.suffix.lower() == ".json"
        written = as_json if wanted else text or _for_people(report, plain=True)
        write_file(options.out, written.encode())
        note(options, f"Wrote {options.out}")
    state = context.find_object(State) if context is not None else None
    if state is not None:
        state.result_written = options.out is None
    if options.report is not None:
        report.save_html(options.report)
        note(options, f"Wrote {options.report}")
    if options.plot is not None:
        report.save_plot(options.plot)
        note(options, f"Wrote {options.plot}")
    if leak:
        raise Exit(ExitCode.LEAK)


def _for_people(report: Report, *, plain: bool = False) -> str:
    from rich.console import Console

    terminal = not plain and sys.stdout.isatty()
    console = Console(
        width=None if terminal else _PIPED_WIDTH,
        color_system="auto" if terminal else None,
        highlight=False,
    )
    with console.capture() as capture:
        report.print(console)
    return capture.get()


def _write_stdout(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def note(options: Options, text: str) -> None:
    """Say something on stderr, unless quiet."""
    if not options.quiet:
        print(text, file=sys.stderr)


def warn(text: str) -> None:
    """Say on stderr what nobody should miss, quiet or not."""
    from rich.console import Console
    from rich.text import Text

    if sys.stderr.isatty():
        Console(stderr=True).print(Text(f"Warning: {text}", style="yellow"))
    else:
        print(f"Warning: {text}", file=sys.stderr)


@contextmanager
def progress(options: Options) -> Iterator[Step]:
    """Show bars on stderr while the body runs; plain lines where that is no terminal.

    Yields
    ------
    Step
        Call it as ``step(phase, done, total)``; each phase has its bar. It may be called from
        several threads.
    """
    if options.quiet:
        yield lambda _phase, _done, _total: None
        return
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def step(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=total)
            bars.update(tasks[phase], completed=done, total=total)

        yield step


def _lines() -> Step:
    """Return a step that prints a line when a phase is done, and one now and then until it is."""
    lock = Lock()
    last = time.monotonic()

    def step(phase: str, done: int, total: int) -> None:
        nonlocal last
        with lock:
            now = time.monotonic()
            # What is one step is done before anyone wonders.
            if done >= total > 1 or now - last >= _SILENCE:
                last = now
                print(f"{phase}: {done:,} of {total:,}", file=sys.stderr, flush=True)

    return step
