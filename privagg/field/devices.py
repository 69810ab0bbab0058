"""Which machine computes: the arrays say so.

A function that is marked :func:`on_device` computes on the CUDA device if one of its arguments is a
CUDA array, and then all array arguments must be; the result stays there. What counts as one is said
in :mod:`privagg._cuda.arrays`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from privagg._cuda.arrays import is_device_array

__all__ = ["is_device_array", "on_device"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def on_device(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let the function of the same name in :mod:`privagg.field.cuda.functions` take CUDA arrays."""
    name = function.__name__

    @functools.wraps(function)
    def dispatched(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if any(map(is_device_array, args)) or any(map(is_device_array, kwargs.values())):
            from privagg.field.cuda import functions

            twin: Callable[_P, _R] = getattr(functions, name)
            return twin(*args, **kwargs)
        return function(*args, **kwargs)

    return dispatched
