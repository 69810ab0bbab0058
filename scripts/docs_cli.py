"""The command line with every command imported, as the reference is made from it."""

from __future__ import annotations

import rich_click as click

from privagg.cli.main import root

__all__ = ["loaded"]


def _load(group: click.RichGroup) -> None:
    with click.Context(group, info_name=group.name) as context:
        for name in group.list_commands(context):
            group.resolve_command(context, [name])
    for name, command in group.commands.items():
        if command.callback is None and not isinstance(command, click.RichGroup):
            raise RuntimeError(f"{name} is still a placeholder: its options would be missing")
        if isinstance(command, click.RichGroup):
            _load(command)


_load(root)
loaded = root
"""The command ``privagg``; no placeholder is left in it."""
