"""The command ``privagg``: the table of commands, and how a run of it ends.

To add a command, add its line to :data:`COMMANDS`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import NoReturn, TextIO

import rich_click as click
from click.exceptions import Exit

from privagg import __version__
from privagg.cli.envelope import enveloped
from privagg.cli.failures import (
    ExitCode,
    State,
    Terminated,
    as_json,
    exit_code,
    failed_in,
    show,
)
from privagg.cli.lazy import Branch, LazyGroup, Leaf

__all__ = ["COMMANDS", "main", "root", "run"]

COMMANDS: dict[str, Leaf | Branch] = {
    "simulate": Branch(
        "Run a protocol with all its parties here, on real or generated input.",
        {
            "secagg": Leaf(
                "privagg.cli.simulate_secagg:secagg",
                "Run a secure aggregation round with all its parties in this process.",
            ),
            "sensor": Leaf(
                "privagg.cli.simulate_sensor:sensor",
                "Simulate a sensor network that aggregates without showing single readings.",
            ),
            "multidim": Leaf(
                "privagg.cli.simulate_multidim:multidim",
                "Simulate a survey of several attributes under local differential privacy.",
            ),
            "locational": Leaf(
                "privagg.cli.simulate_locational:locational",
                "Simulate statistics by region under local differential privacy.",
            ),
            "responses": Leaf(
                "privagg.cli.simulate_responses:responses",
                "Simulate a release of bags' responses, and learn from it.",
            ),
        },
    ),
    "plan": Branch(
        "Parameters and costs before a run.",
        {
            "secagg": Leaf("privagg.cli.plan_secagg:secagg", "Plan a secure aggregation round."),
            "ldp": Leaf(
                "privagg.cli.plan_ldp:ldp", "Plan a survey under local differential privacy."
            ),
            "responses": Leaf(
                "privagg.cli.plan_responses:responses",
                "Plan learning from the mean responses of bags.",
            ),
        },
    ),
    "ldp": Branch(
        "Collect under local differential privacy: a survey, reports, estimates.",
        {
            "init": Leaf("privagg.cli.ldp_init:init", "Declare a survey, in a file with a digest."),
            "randomize": Leaf(
                "privagg.cli.ldp_randomize:randomize",
                "Randomise values into reports, on the respondents' side.",
            ),
            "aggregate": Leaf(
                "privagg.cli.ldp_aggregate:aggregate",
                "Add up reports, and states of other collectors.",
            ),
            "estimate": Leaf(
                "privagg.cli.ldp_estimate:estimate",
                "Estimate how frequent each value is, with intervals.",
            ),
        },
    ),
    "keys": Branch(
        "Identities that sign, and the roster that pins them.",
        {
            "new": Leaf("privagg.cli.keys:new_command", "Make an Ed25519 identity."),
            "show": Leaf(
                "privagg.cli.keys:show_command",
                "Show what is public of an identity, a roster or a file of public keys.",
            ),
            "roster": Leaf(
                "privagg.cli.keys:roster_command",
                "Make the pinned roster of a cohort: client i is the i-th identity given.",
            ),
        },
    ),
    "bench": Branch(
        "How fast things are here, beside peers that are installed.",
        {
            "prg": Leaf("privagg.cli.bench:prg_command", "Time the mask streams."),
            "field": Leaf(
                "privagg.cli.bench:field_command",
                "Time fields, secret sharing and the coded masks of LightSecAgg.",
            ),
            "secagg": Leaf("privagg.cli.bench:secagg_command", "Time whole rounds."),
            "ldp": Leaf("privagg.cli.bench:ldp_command", "Time local differential privacy."),
            "sensor": Leaf(
                "privagg.cli.bench:sensor_command",
                "Time sensor networks, and audits of participation logs.",
            ),
            "responses": Leaf(
                "privagg.cli.bench_responses:responses_command", "Time learning from bags."
            ),
            "flower": Leaf(
                "privagg.cli.bench:flower_command",
                "Time one round in Flower, by our workflow and by its own SecAgg+.",
            ),
            "locational": Leaf(
                "privagg.cli.bench:locational_command", "Time statistics by region."
            ),
            "attacks": Leaf("privagg.cli.bench:attacks_command", "Measure attacks on gradients."),
        },
    ),
    "audit": Branch(
        "Attack what an aggregator sees and say what leaks.",
        {
            "secagg": Leaf(
                "privagg.cli.audit_secagg:secagg",
                "Audit a secure aggregation round from its transcript.",
            ),
            "linear": Leaf(
                "privagg.cli.audit_linear:linear",
                "Audit who took part in which rounds: whose input the sums give away, and when.",
            ),
            "sensor": Leaf(
                "privagg.cli.audit_sensor:sensor",
                "Attack the protocols of sensor networks and count the readings found.",
            ),
            "ldp": Leaf(
                "privagg.cli.audit_ldp:ldp",
                "Attack a configuration of local differential privacy, and say what it proves.",
            ),
            "responses": Leaf(
                "privagg.cli.audit_responses:responses",
                "Say what released counts of bags tell about single labels.",
            ),
            "gradient": Leaf(
                "privagg.cli.audit_gradient:gradient",
                "Attack the gradients that a server sees, and say per layer what it can read.",
            ),
        },
    ),
    "list": Branch(
        "What there is: protocols, mechanisms, attacks.",
        {
            "protocols": Leaf(
                "privagg.cli.listing:protocols_command",
                "List the protocols: who learns what, what is withstood, and what runs them.",
            ),
            "mechanisms": Leaf(
                "privagg.cli.listing:mechanisms_command",
                "List the mechanisms of differential privacy: what they take, promise and draw.",
            ),
            "attacks": Leaf(
                "privagg.cli.listing:attacks_command",
                "List the attacks: what they need, what they prove, and what runs them.",
            ),
        },
    ),
    "data": Branch(
        "Bundled data sets.",
        {
            "list": Leaf("privagg.cli.data:list_command", "List the bundled data sets."),
            "show": Leaf("privagg.cli.data:show_command", "Show a bundled data set."),
        },
    ),
    "schema": Leaf(
        "privagg.cli.schema:schema_command",
        "Print the JSON Schema of what a command prints with --json.",
    ),
    "doctor": Leaf(
        "privagg.cli.doctor:doctor_command", "Show versions, extras, and what runs fast here."
    ),
    "completion": Leaf(
        "privagg.cli.completion:command", "Print the completion script for a shell."
    ),
}
"""Every command, in the order of the help. A line here is repeated from the command's own help."""

_EXIT_CODES = (
    "Exit codes",
    "0    good",
    "1    unexpected error",
    "2    usage: an option, an argument or the input is not allowed",
    "3    aborted: too few parties are left; nothing was revealed",
    "4    a peer misbehaved, or a check failed",
    "5    an audit found a leak above its threshold",
    "130  interrupted (141: the reader of stdout went away; 143: ended by SIGTERM)",
    "",
    "Results go to stdout, all else to stderr; with --json an error is an object on stdout too.",
    "Options are read from flags, then the environment (PRIVAGG_DATA_SHOW_ROWS=20), then --config.",
    "NO_COLOR=1 turns colours off; PRIVAGG_JIT=0 compiled kernels; PRIVAGG_TRACEBACK=1 shows where"
    " an error came from.",
)


_HELP = """Run, plan and audit private aggregation: many hold values, one learns an aggregate.

\b
privagg doctor            is this installation complete, and fast?
privagg list protocols    what there is, and which command runs it
privagg data list         tables to try it on
privagg COMMAND --help    examples first
"""


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    help=_HELP,
    # The help keeps an epilog's line breaks only where they are double.
    epilog="\n\n".join(_EXIT_CODES),
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "PRIVAGG",
        "rich_help_config": {"max_width": 100},
    },
)
@click.version_option(__version__, prog_name="privagg", message="%(prog)s %(version)s")
def root() -> None:
    """Run the command that is named; its table is :data:`COMMANDS`."""


def run(args: Sequence[str]) -> int:
    """Run one command line and return its exit code.

    Parameters
    ----------
    args : sequence of str
        The words after ``privagg``.
    """
    _fill_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal without UTF-8 shows escapes; the result is not lost.
            stream.reconfigure(errors="backslashreplace")
    state = State(json="--json" in args)
    try:
        code = _invoke(list(args), state)
    except BrokenPipeError:
        code = ExitCode.READER_GONE
    except SystemExit as stop:  # a library's own: rich ends so when its reader is gone
        code = stop.code if isinstance(stop.code, int) else ExitCode.UNEXPECTED
    except BaseException as error:  # the last frame: whatever comes is shown and gets its code
        code = exit_code(error)
        _fail(error, state)
    return code if _flush() else max(code, ExitCode.UNEXPECTED)


def _invoke(args: list[str], state: State) -> int:
    try:
        with root.make_context("privagg", args, obj=state) as context:
            root.invoke(context)
    except Exit as stop:
        return stop.exit_code
    return ExitCode.GOOD


def _fail(error: BaseException, state: State) -> None:
    if state.json and not state.result_written:
        from privagg.report import Report

        with suppress(BrokenPipeError):
            data = enveloped(as_json(error, state), failed_in(error, state))
            print(Report("error", data).to_json())
    with suppress(BrokenPipeError):
        show(error, state)


def _fill_streams() -> None:
    """Put something in the place of standard streams that were closed before the start.

    Their descriptors are filled, too, so that no file that is opened later becomes one of them.
    What is written to a closed stdout ends as if its reader had gone.
    """
    if sys.stdout is None:
        reader, writer = os.pipe()
        os.close(reader)
        sys.stdout = _stream(writer, 1)
    if sys.stderr is None:
        sys.stderr = _stream(os.open(os.devnull, os.O_WRONLY), 2)


def _stream(descriptor: int, number: int) -> TextIO:
    """Return a stream that writes to `descriptor`, under the `number` that it should have."""
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)
    return os.fdopen(number, "w")


def _flush() -> bool:
    """Flush stdout; if its reader is gone, keep the interpreter from trying it once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _terminate(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: the end is under way
    raise Terminated


def main() -> NoReturn:
    """Run the process's command line; the entry point of the command ``privagg``."""
    if "_PRIVAGG_COMPLETE" in os.environ:
        root.main(prog_name="privagg")
    # Schedulers and timeout(1) end a process so; what it has on the disk must not stay there.
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(sys.argv[1:]))
