"""Options that were given and would have no effect are refused, never ignored."""

from __future__ import annotations

from collections.abc import Iterable

from click import get_current_context
from click.core import ParameterSource

from privagg.errors import UsageError

__all__ = ["refuse_unused"]


def refuse_unused(names: Iterable[str], where: str) -> None:
    """Refuse options of the command that runs, by the names of their parameters.

    Raises
    ------
    UsageError
        If one of them was given, in whatever way.
    """
    source = get_current_context().get_parameter_source
    for name in names:
        if source(name) is not ParameterSource.DEFAULT:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(flag, f"given {where}", "nothing there: it would have no effect")
