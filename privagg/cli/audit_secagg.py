"""``privagg audit secagg``: what a transcript says of who could learn what, and who cheated."""

from __future__ import annotations

from pathlib import Path

import rich_click as click
from click.exceptions import Exit

from privagg.cli.common import Options, command, emit, note
from privagg.cli.failures import ExitCode

__all__ = ["secagg"]

_READABLE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


@command(
    "secagg",
    examples=[
        "privagg audit secagg --transcript round.jsonl --roster roster.json",
        "privagg audit secagg --transcript round.jsonl --json",
    ],
    plots=True,
)
@click.option(
    "--transcript",
    type=_READABLE,
    required=True,
    metavar="FILE.jsonl",
    help="Of a round, with payloads: simulate secagg --transcript FILE --transcript-payloads.",
)
@click.option(
    "--roster",
    type=_READABLE,
    metavar="FILE",
    help="The identities that you trust.  [default: those in the transcript]",
)
@click.option(
    "--max-exposed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="INT",
    help="Clients that a coalition up to the corrupt bound may expose; more is a leak.",
)
@click.option(
    "--adaptive",
    is_flag=True,
    help="Sparse graph: count coalitions that were chosen with the graph in view, too.",
)
@click.option(
    "--sample-seed",
    type=click.IntRange(0, 2**64 - 1),
    default=0,
    show_default=True,
    metavar="INT",
    help="Seed of the random coalitions, where there are too many to try them all.",
)
def secagg(
    transcript: Path,
    roster: Path | None,
    max_exposed: int,
    adaptive: bool,
    sample_seed: int,
    options: Options,
) -> None:
    """Audit a secure aggregation round from its transcript.

    Says among how many honest inputs each is hidden, what the server and coalitions of clients
    learn, whether the clients are those of the roster, and where a peer left the protocol. Ends
    with 5 if more is exposed than allowed, else with 4 if a peer deviated.
    """
    from privagg.attacks.secagg import audit
    from privagg.cli import _audit_secagg_report
    from privagg.protocols.secagg import Roster, Transcript

    header, messages = Transcript.read(transcript)
    pinned = None if roster is None else Roster.load(roster)
    note(options, f"{transcript.name}: {len(messages)} messages.")
    found = audit(
        messages,
        params=header.params,
        roster=pinned if header.roster is None and header.params.signed else header.roster,
        pinned=pinned,
        model=header.model,
        max_exposed=min(max_exposed, header.params.clients),
        adaptive=adaptive,
        seed=sample_seed,
    )
    emit(_audit_secagg_report.report(found, header, transcript.name), options, leak=found.leak)
    if found.deviations:
        raise Exit(ExitCode.PEER)
