"""What CUDA there is: packages, driver, devices."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

from privagg._cuda.arrays import SIMULATED
from privagg._jit import JIT
from privagg.errors import UsageError

__all__ = ["Device", "State", "require", "state"]


@dataclass(frozen=True)
class Device:
    """One CUDA device.

    Attributes
    ----------
    name : str
        Its product name.
    capability : str
        Compute capability, such as ``9.0``.
    multiprocessors : int
        How many it has; 0 if unknown.
    hertz : float
        Its highest clock; 0 if unknown.
    """

    name: str
    capability: str
    multiprocessors: int = 0
    hertz: float = 0.0


@dataclass(frozen=True)
class State:
    """What CUDA there is.

    Attributes
    ----------
    numba_cuda : str, optional
        Version of numba-cuda; None if it is not installed.
    driver : str, optional
        The CUDA version that the driver supports; None without a driver.
    devices : tuple of Device
        What the driver shows.
    reason : str
        What is missing, and what to do; empty if kernels can run.
    """

    numba_cuda: str | None
    driver: str | None
    devices: tuple[Device, ...]
    reason: str


def state() -> State:
    """Look for packages, driver and devices. It imports ``numba.cuda`` if that is there."""
    version = None
    if find_spec("numba_cuda") is not None:
        version = metadata.version("numba-cuda")
    if SIMULATED:
        return State(version, None, (Device("Numba's simulator of CUDA", "none"),), "")
    if version is None:
        reason = "the package numba-cuda is not installed: pip install 'privagg[gpu]'"
        return State(None, None, (), reason)
    cuda: Any = import_module("numba.cuda")
    if not cuda.is_available():
        return State(version, None, (), "no CUDA driver or device found")
    devices = tuple(_device(device) for device in cuda.gpus.lst)
    reason = "" if JIT else "kernels are not compiled: PRIVAGG_JIT=0 or NUMBA_DISABLE_JIT=1"
    return State(version, _driver(), devices, reason)


def _device(found: Any) -> Device:
    name = found.name.decode() if isinstance(found.name, bytes) else str(found.name)
    major, minor = found.compute_capability
    return Device(
        name,
        f"{major}.{minor}",
        int(getattr(found, "MULTIPROCESSOR_COUNT", 0)),
        1e3 * float(getattr(found, "CLOCK_RATE", 0)),
    )


def _driver() -> str | None:
    driver = import_module("numba.cuda.cudadrv.driver").driver
    try:
        major, minor = driver.get_version()
    except (AttributeError, TypeError, ValueError):
        return None
    return f"{major}.{minor}"


def require(argument: str) -> Device:
    """Return the current device.

    Raises
    ------
    UsageError
        Naming `argument`: kernels cannot run here.
    """
    found = state()
    if found.reason:
        hint = f"{found.reason[0].upper()}{found.reason[1:]}."
        raise UsageError(argument, "cuda", "cpu on this machine", hint)
    number = 0
    if not SIMULATED:
        cuda: Any = import_module("numba.cuda")
        number = int(cuda.get_current_device().id)
    return found.devices[number]
