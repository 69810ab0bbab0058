"""Numba behind one switch.

``PRIVAGG_JIT=0`` in the environment turns compilation off: kernels are then never called and every
caller takes its plain NumPy path, which is also the tests' oracle. So does Numba's own switch,
``NUMBA_DISABLE_JIT=1``: interpreted, kernels would be slow and warn where words wrap. Numba itself
is imported only when a kernel module is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar, cast

__all__ = ["JIT", "inlined", "kernel"]

_NUMBA_IS_OFF = os.environ.get("NUMBA_DISABLE_JIT", "").strip() not in ("", "0")

JIT: bool = os.environ.get("PRIVAGG_JIT", "1") != "0" and not _NUMBA_IS_OFF
"""Whether kernels are compiled. Fixed when the process starts."""

_F = TypeVar("_F", bound=Callable[..., object])


def kernel(function: _F) -> _F:
    """Compile a module-level function: nopython, cached on disk, without the GIL.

    Only module-level functions cache: a closure would be compiled again in each process. Where no
    folder can be written (neither the package's, nor ``NUMBA_CACHE_DIR``, nor the user's cache),
    each process compiles for itself; `privagg doctor` says so. With ``PRIVAGG_JIT=0`` the function
    is returned as it is.
    """
    if not JIT:
        return function
    import numba

    try:
        compiled = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        compiled = numba.njit(nogil=True)(function)
    return cast(_F, compiled)


def inlined(function: _F) -> _F:
    """Mark a small helper whose statements Numba copies into the kernels that call it.

    A helper that is a kernel of its own comes in as optimised code, where comparisons of unsigned
    sums have become overflow instructions of one lane: LLVM then does not vectorise the loop around
    it. Arithmetic of 64-bit words with carries wants this decorator. With ``PRIVAGG_JIT=0`` the
    function is returned as it is.
    """
    if not JIT:
        return function
    import numba

    return cast(_F, numba.njit(inline="always")(function))
