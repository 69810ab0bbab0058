"""Numba behind one switch.

``PRIVAGG_JIT=0`` in the environment turns compilation off: kernels are then never called and every
caller takes its plain NumPy path, which is also the tests' oracle. Numba itself is imported only
when a kernel module is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar, cast

__all__ = ["JIT", "kernel"]

JIT: bool = os.environ.get("PRIVAGG_JIT", "1") != "0"
"""Whether kernels are compiled. Fixed when the process starts."""

_F = TypeVar("_F", bound=Callable[..., object])


def kernel(function: _F) -> _F:
    """Compile a module-level function: nopython, cached on disk, without the GIL.

    Only module-level functions cache: a closure would be compiled again in each process. With
    ``PRIVAGG_JIT=0`` the function is returned as it is.
    """
    if not JIT:
        return function
    import numba

    return cast(_F, numba.njit(cache=True, nogil=True)(function))
