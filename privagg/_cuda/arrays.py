"""CUDA arrays as arguments: which they are, whether they fit, where they lie.

A CUDA array is whatever has ``__cuda_array_interface__``: CuPy's arrays, torch's CUDA tensors,
Numba's device arrays. Kernels see Numba's view of it, which copies nothing; results are Numba's
device arrays, which CuPy (``cupy.asarray``) and torch (``torch.as_tensor``) take without a copy.

Work is queued on the default stream. An argument that comes with a stream is waited for.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from privagg._jit import JIT
from privagg.errors import UsageError

__all__ = [
    "SIMULATED",
    "THREADS",
    "checked",
    "current",
    "describe",
    "device_of",
    "empty",
    "flat",
    "free",
    "grid",
    "is_device_array",
    "launch",
    "module",
    "one_device",
    "upload",
]

SIMULATED: bool = os.environ.get("NUMBA_ENABLE_CUDASIM", "").strip() not in ("", "0")
"""Whether Numba interprets the kernels in its simulator. Fixed when the process starts."""

THREADS = 8 if SIMULATED else 128
"""Threads of a block. The simulator's are threads of the interpreter."""

_RESIDENT = 4 if SIMULATED else 1 << 15
"""Blocks of a grid at most; threads then take several elements, a grid apart."""

_SCALARS = (np.ndarray, np.generic, bytes, bytearray, memoryview, str, int, float, type(None))


def is_device_array(value: object) -> bool:
    """Whether `value` lies on a CUDA device: it has ``__cuda_array_interface__``."""
    if isinstance(value, _SCALARS):
        return False
    try:
        if hasattr(value, "__cuda_array_interface__"):
            return True
    except RuntimeError:  # torch's word for a tensor that does not give its memory away
        return True
    return bool(getattr(type(value), "__cuda_ndarray__", False))  # Numba's, simulated ones too


def module(name: str) -> Any:
    """Return ``numba.cuda``, which the CUDA array `name` needs.

    Raises
    ------
    UsageError
        Compilation is off, or Numba finds no driver, device or compiler.
    """
    if not JIT and not SIMULATED:
        raise UsageError(
            name,
            "a CUDA array, but kernels are not compiled in this process",
            "NumPy arrays where PRIVAGG_JIT=0 or NUMBA_DISABLE_JIT=1",
        )
    from numba import cuda

    if not cuda.is_available():
        raise UsageError(
            name,
            "a CUDA array, but Numba finds no CUDA driver or device",
            "NumPy arrays without one",
            "Install the extra 'gpu', and see `privagg doctor`.",
        )
    return cuda


def describe(value: object) -> str:
    """Say what an argument is, without its contents."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} NumPy array of shape {value.shape}"
    if is_device_array(value):
        return f"a CUDA array of type {type(value).__name__}"
    return f"a value of type {type(value).__name__}"


def checked(name: str, value: object, allowed: str) -> Any:
    """Return Numba's view of a CUDA array that is C-contiguous.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    value : object
        What the caller passed.
    allowed : str
        What is allowed, for the message.

    Raises
    ------
    UsageError
        Not a CUDA array, one that gives no access to its memory, or one with gaps.
    """
    if not is_device_array(value):
        hint = "Other arguments are on a device; nothing is copied there silently."
        raise UsageError(name, describe(value), allowed, hint)
    cuda = module(name)
    view: Any = value
    if not getattr(type(value), "__cuda_ndarray__", False):
        with current(device_of(value)):
            try:
                view = cuda.as_cuda_array(value)
            except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
                reason = f"{describe(value)} that gives no access: {error}"
                raise UsageError(name, reason, allowed) from None
    if not view.is_c_contiguous():
        found = f"a strided CUDA array of shape {tuple(view.shape)}"
        raise UsageError(name, found, allowed, "Make it C-contiguous first.")
    return view


def device_of(array: object) -> int:
    """Return the number of the device where a CUDA array lies."""
    if SIMULATED:
        return 0
    memory = getattr(array, "gpu_data", None)  # Numba
    if memory is not None:
        return int(memory.context.device.id)
    device = getattr(array, "device", None)  # CuPy says id, torch index
    for attribute in ("id", "index"):
        number = getattr(device, attribute, None)
        if isinstance(number, int):
            return number
    from numba import cuda

    return int(cuda.get_current_device().id)


def one_device(arrays: Mapping[str, object]) -> int:
    """Return the device where all the arrays lie.

    Raises
    ------
    UsageError
        Naming the first array that lies on another device than the first one.
    """
    (first, array), *others = arrays.items()
    device = device_of(array)
    for name, other in others:
        found = device_of(other)
        if found != device:
            raise UsageError(name, f"on device {found}", f"on device {device}, where {first} is")
    return device


@contextmanager
def current(device: int) -> Iterator[None]:
    """Make `device` the current one."""
    from numba import cuda

    with cuda.gpus[device]:
        yield


def empty(shape: int | tuple[int, ...], dtype: Any) -> Any:
    """Return a new array on the current device."""
    from numba import cuda

    return cuda.device_array(shape, dtype)


def upload(array: np.ndarray[Any, Any]) -> Any:
    """Copy a NumPy array to the current device."""
    from numba import cuda

    return cuda.to_device(array)


def free() -> None:
    """Give memory of arrays that are no more back to the device; Numba would wait for more."""
    from numba import cuda

    if not SIMULATED:
        cuda.current_context().deallocations.clear()


def flat(array: Any) -> Any:
    """Return a C-contiguous array as one of one axis, without copying."""
    return array if len(array.shape) == 1 else array.reshape(int(array.size))


def grid(count: int, each: int = 1) -> tuple[int, int]:
    """Return blocks and threads for `count` elements, `each` or more of them for a thread."""
    wanted = -(-count // (THREADS * each))
    return max(1, min(wanted, _RESIDENT)), THREADS


def launch(
    kernel: Any, blocks: int | tuple[int, int], threads: int, *arguments: Any, shared: int = 0
) -> None:
    """Queue a kernel on the current device, with so many bytes of shared memory for a block.

    Numba warns of grids that leave the device idle, and NumPy, in the simulator, of words that
    wrap. Neither is the caller's business.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel[blocks, threads, 0, shared](*arguments)
