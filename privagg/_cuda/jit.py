"""How kernels and the functions they call are compiled for a CUDA device.

Code here is Python that three readers agree on: Numba's compiler, Numba's simulator, where a value
is a NumPy scalar, and a person. Hence the rules of the kernels: every word is ``uint64`` or
``uint32``; every constant is typed, since Numba turns ``uint64`` mixed with a plain integer into a
float; a sum or product of ``uint32`` is cut back to ``uint32`` at once, since Numba widens it and
NumPy does not; no function of CUDA's library, which the simulator lacks. Shared memory is sized at
the launch: the simulator can hand out two copies of an array that a kernel sizes itself.

Importing this module imports ``numba.cuda``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda, types

__all__ = ["device", "kernel", "type_of"]


def device(function: Callable[..., Any]) -> Any:
    """Make a function that kernels call; the compiler inlines it."""
    _remember_warnings(function)
    return cuda.jit(device=True)(function)


def kernel(function: Callable[..., None]) -> Any:
    """Make a kernel; it is compiled for the types of its arguments at its first launch."""
    _remember_warnings(function)
    return cuda.jit(function)


def _remember_warnings(function: Callable[..., Any]) -> None:
    """Make the table in which Python notes the warnings of the function's module.

    Else the first word that wraps in the simulator adds it, while other threads of the simulator
    walk through the module's names to put its own `cuda` there.
    """
    function.__globals__.setdefault("__warningregistry__", {})


def type_of(dtype: np.dtype[Any]) -> Any:
    """Return Numba's type for words of `dtype`."""
    return getattr(types, dtype.name)
