"""Groups whose commands are imported only when one of them runs.

The table of commands holds one line of help for each, so that ``--help`` and the completion of
names import nothing: neither NumPy nor Numba nor torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import rich_click as click

__all__ = ["Branch", "LazyGroup", "Leaf", "NoCommand"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A command: ``"module:attribute"`` of the click command, and its line of help."""

    target: str
    summary: str


@dataclass(frozen=True, slots=True)
class Branch:
    """A group of commands, and its line of help."""

    summary: str
    children: Mapping[str, Leaf | Branch]


class NoCommand(click.UsageError):
    """A group was named and none of its commands; the message is the group's help."""


class LazyGroup(click.RichGroup):
    """A group made from a table.

    Until a command runs, a placeholder with its name and help stands for it.
    """

    def __init__(self, *args: Any, table: Mapping[str, Leaf | Branch], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._targets: dict[str, str] = {}
        for name, entry in table.items():
            if isinstance(entry, Branch):
                group = LazyGroup(name=name, help=entry.summary, table=entry.children)
                self.add_command(group)
            else:
                self.add_command(click.RichCommand(name=name, help=entry.summary))
                self._targets[name] = entry.target

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse a line that ends at a group: its help is the answer, but no result."""
        if not args and not ctx.resilient_parsing:
            raise NoCommand(ctx.get_help(), ctx)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the table's order."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Import the command that is named first in `args`; suggest the nearest if unknown."""
        name = args[0]
        if name in self._targets:
            self.commands[name] = _load(self._targets[name])
            del self._targets[name]
        elif name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(name, self.commands, n=3, cutoff=0.5)
            hint = (
                f"Did you mean {_either(near)}?" if near else "It has: " + ", ".join(self.commands)
            )
            raise click.UsageError(f"No such command {name!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)


def _load(target: str) -> click.Command:
    module, _, attribute = target.partition(":")
    command = getattr(import_module(module), attribute)
    if not isinstance(command, click.Command):
        raise TypeError(f"{target} is no click command")
    return command


def _either(names: list[str]) -> str:
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]
