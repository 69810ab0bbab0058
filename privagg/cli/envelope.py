"""What every JSON object of the command line starts with: the version, the command, the program."""

from __future__ import annotations

from collections.abc import Mapping

import rich_click as click

from privagg import __version__

__all__ = ["KEYS", "command_name", "enveloped"]

KEYS = ("schema_version", "command", "privagg")
"""The keys that are in every object, errors included."""


def command_name(context: click.Context | None) -> str | None:
    """Return the words of the command of `context`: ``simulate secagg``; None if none ran."""
    if context is None:
        return None
    names: list[str] = []
    here: click.Context | None = context
    while here is not None and here.parent is not None:
        names.insert(0, here.info_name or "")
        here = here.parent
    return " ".join(names) or None


def enveloped(data: Mapping[str, object], context: click.Context | None) -> dict[str, object]:
    """Return `data` after the keys that all objects have; a ``schema_version`` of its own is kept.

    Parameters
    ----------
    data : mapping
        The result, or ``{"error": {...}}``.
    context : click.Context, optional
        Of the command that ran.
    """
    head: dict[str, object] = {"command": command_name(context), "privagg": __version__}
    return head | dict(data)
