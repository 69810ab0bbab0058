"""The extra ``gpu``: the compiler is there; without a device the fast path says so."""

from numba import cuda

from privagg.cli.main import run

assert run(["doctor"]) == 0
print(f"numba-cuda is there, a device {'too' if cuda.is_available() else 'is not'}")
