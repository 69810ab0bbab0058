"""What the compiler may use: features of the processor that Numba's target also has.

An AES instruction compiled for a target without it ends the process inside LLVM, with no exception
to catch. So every kernel that names an instruction is gated here before anything is compiled.
"""

from __future__ import annotations

import platform
import sys
from typing import Any

import llvmlite.binding
from numba.core import config as numba_config

from privagg._jit import JIT

__all__ = ["compiles", "features"]

config: Any = numba_config
"""Numba's settings: attributes that it makes from the environment."""


def compiles() -> bool:
    """Whether kernels can be compiled at all: their vectors are laid out for little-endian."""
    return JIT and not config.DISABLE_JIT and sys.byteorder == "little"


def features() -> frozenset[str]:
    """Return LLVM's names of the x86-64 features that a kernel may rely on.

    Empty on other processors, where the same names mean other instructions, and whenever Numba is
    set up for another processor without saying that it has the feature.
    """
    if not compiles() or platform.machine().lower() not in ("x86_64", "amd64"):
        return frozenset()
    try:
        found = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:
        return frozenset()
    host = frozenset(name for name, present in found.items() if present)
    if not config.ENABLE_AVX:
        host = frozenset(name for name in host if not name.startswith("avx"))
    named = config.CPU_NAME is not None and llvmlite.binding.get_host_cpu_name() != config.CPU_NAME
    if not named and config.CPU_FEATURES is None:
        return host
    # The target is not this processor: believe only what its feature list grants in so many words.
    # A later entry overrides an earlier one, as in LLVM.
    granted: set[str] = set()
    for entry in (config.CPU_FEATURES or "").split(","):
        if entry.startswith("+"):
            granted.add(entry[1:])
        else:
            granted.discard(entry[1:])
    return host & granted
