"""``privagg list``: the protocols, mechanisms and attacks that there are, and what runs them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from privagg.cli.common import Options, command, emit
from privagg.report import Report, Table

__all__ = ["attacks_command", "mechanisms_command", "protocols_command"]


@command("protocols", examples=["privagg list protocols", "privagg list protocols --json"])
def protocols_command(options: Options) -> None:
    """List the protocols: who learns what, what is withstood, and what runs them."""
    from privagg.cli._catalogue_protocols import protocols

    _show("protocols", "Protocols", protocols(), ("name", "summary", "learns", "command"), options)


@command("mechanisms", examples=["privagg list mechanisms", "privagg list mechanisms --json"])
def mechanisms_command(options: Options) -> None:
    """List the mechanisms of differential privacy: what they take, promise and draw."""
    from privagg.cli._catalogue_mechanisms import mechanisms

    columns = ("name", "summary", "domain", "command")
    _show("mechanisms", "Mechanisms", mechanisms(), columns, options)


@command("attacks", examples=["privagg list attacks", "privagg list attacks --json"])
def attacks_command(options: Options) -> None:
    """List the attacks: what they need, what they prove, and what runs them."""
    from privagg.cli._catalogue_attacks import attacks

    _show("attacks", "Attacks", attacks(), ("name", "summary", "needs", "command"), options)


def _show(
    key: str,
    title: str,
    rows: Sequence[msgspec.Struct],
    columns: tuple[str, ...],
    options: Options,
) -> None:
    data = [msgspec.to_builtins(row) for row in rows]
    table = Table(title, list(columns), [[row[column] for column in columns] for row in data])
    emit(
        Report(
            title=f"{len(data)} {key}",
            data={key: data},
            tables=[table],
            verdict="--json has all columns: where each comes from, and what it holds.",
        ),
        options,
    )
