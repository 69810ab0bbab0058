"""Checks of arguments that are alike everywhere: each names argument, value and range."""

from __future__ import annotations

from typing import Any

import numpy as np

from privagg.errors import UsageError

__all__ = ["whole"]


def whole(name: str, value: Any, low: int, high: int, hint: str = "") -> int:
    """Return `value` as an int, if it is a whole number from `low` to `high`; bools are none.

    Raises
    ------
    UsageError
        Naming the argument, what was found and the range.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise UsageError(name, value, f"a whole number from {low} to {high}", hint)
    if not low <= int(value) <= high:
        raise UsageError(name, int(value), f"{low} to {high}", hint)
    return int(value)
