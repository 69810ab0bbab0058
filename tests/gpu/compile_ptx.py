"""Compile every kernel to PTX, without a driver: ``python compile_ptx.py MAJOR MINOR``.

Prints one line per kernel, with what the tests ask of it: its name, the instructions, and how many
calls, fused multiplications of floats and uses of local memory are among them. Where NVIDIA's
assembler is installed (nvidia-cuda-nvcc), the registers of a thread and the bytes that did not fit
into them follow.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numba.cuda.dispatcher
from every_kernel import every_kernel
from numba import cuda


def assembler() -> Path | None:
    """Return NVIDIA's assembler, if its wheel is installed."""
    package = find_spec("nvidia")
    for folder in () if package is None else package.submodule_search_locations or ():
        program = Path(folder) / "cu13" / "bin" / "ptxas"
        if program.exists():
            return program
    return None


def assembled(program: Path, ptx: str, architecture: str) -> list[str]:
    """Return what the assembler says of a kernel; raise if it refuses it."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [str(program), "-v", f"-arch={architecture}", "-o", "/dev/null", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    registers = map(int, re.findall(r"Used (\d+) registers", done.stderr))
    spilled = map(int, re.findall(r"(\d+) bytes spill stores", done.stderr))
    return [f"{max(registers)} registers", f"{sum(spilled)} spilled"]


def main(major: int, minor: int) -> None:
    # A function that kernels call is compiled for the device at hand, and there is none.
    numba.cuda.dispatcher.get_current_device = lambda: SimpleNamespace(
        compute_capability=(major, minor)
    )
    program = assembler()
    for name, kernel, types in every_kernel():
        ptx, _ = cuda.compile(
            kernel.py_func, types, device=False, abi="numba", cc=(major, minor), output="ptx"
        )
        assert f".target sm_{major}{minor}" in ptx
        body = ptx[ptx.index(".entry") :]
        words = re.findall(r"^\t([a-z][\w.]*)[^:\n]*;$", body, re.MULTILINE)
        counts = [
            f"{len(words)} instructions",
            f"{sum(word.startswith('call') for word in words)} calls",
            f"{sum(word.startswith('fma.') for word in words)} fused",
            f"{sum('.local' in word for word in words)} local",
        ]
        if program is not None:
            counts += assembled(program, ptx, f"sm_{major}{minor}")
        print(f"{name}: {', '.join(counts)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
