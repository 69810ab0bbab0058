"""Compile every kernel to PTX, without a driver: ``python compile_ptx.py MAJOR MINOR``.

Prints one line per kernel, with what the tests ask of it: its name, the instructions, and how many
calls and fused multiplications of floats are among them.
"""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import numba.cuda.dispatcher
from every_kernel import every_kernel
from numba import cuda


def main(major: int, minor: int) -> None:
    # A function that kernels call is compiled for the device at hand, and there is none.
    numba.cuda.dispatcher.get_current_device = lambda: SimpleNamespace(
        compute_capability=(major, minor)
    )
    for name, kernel, types in every_kernel():
        ptx, _ = cuda.compile(
            kernel.py_func, types, device=False, abi="numba", cc=(major, minor), output="ptx"
        )
        assert f".target sm_{major}{minor}" in ptx
        body = ptx[ptx.index(".entry") :]
        instructions = re.findall(r"^\t([a-z][\w.]*)[^:\n]*;$", body, re.MULTILINE)
        calls = sum(word.startswith("call") for word in instructions)
        fused = sum(word.startswith("fma.") for word in instructions)
        local = sum(".local." in word for word in instructions)
        print(
            f"{name}: {len(instructions)} instructions, {calls} calls, {fused} fma, {local} local"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
