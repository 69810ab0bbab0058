"""``privagg doctor``: what is installed and what runs fast here."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from privagg import __version__
from privagg._jit import JIT
from privagg.cli.common import Options, command, emit
from privagg.report import Report, Table

__all__ = ["CORE", "EXTRAS", "doctor_command"]

CORE = (
    "numpy",
    "numba",
    "cryptography",
    "pycryptodome",
    "pynacl",
    "click",
    "rich-click",
    "rich",
    "msgspec",
    "pyarrow",
    "safetensors",
)
"""The packages that every installation has."""

EXTRAS = {
    "torch": ("torch", "opacus"),
    "flower": ("flwr",),
    "ray": ("ray",),
    "locational": ("h3", "shapely"),
    "responses": ("scikit-learn",),
    "plots": ("matplotlib", "jinja2"),
    "audit": ("scipy",),
    "notebooks": ("jupyterlab", "ipykernel"),
    "dask": ("dask",),
    "gpu": ("numba-cuda", "cuda-toolkit"),
    "docs": ("sphinx", "myst-parser", "furo", "sphinx-click", "linkify-it-py"),
}
"""The packages of each extra, as in ``pip install 'privagg[plots]'``."""

_BRINGS = {
    "torch": "gradient audits, secure averaging of PyTorch models, DP-SGD by Opacus",
    "flower": "secure aggregation in Flower",
    "ray": "the clients of a simulation on a Ray cluster",
    "locational": "H3 cells and polygons as regions",
    "responses": "estimators that learn from bags, boosted classifiers in audits",
    "plots": "--plot and --report: pictures and pages",
    "audit": "integer programs and assignments in audits",
    "notebooks": "the audit notebooks",
    "dask": "collection over Dask's workers",
    "gpu": "fields and mask streams on CUDA devices",
    "docs": "building the documentation",
}
"""What each extra is for."""

# What the kernels or the libraries under them use, by llvm's names: x86-64 first, then Arm.
_FEATURES = ("aes", "vaes", "pclmul", "vpclmulqdq", "avx2", "avx512f", "sha", "neon", "sve", "sha2")


@command("doctor", examples=["privagg doctor", "privagg doctor --json"])
def doctor_command(options: Options) -> None:
    """Show versions, extras, and what runs fast here."""
    emit(_report(), options)


def _report() -> Report:
    core = {name: _version(name) for name in CORE}
    extras = {extra: {name: _version(name) for name in names} for extra, names in EXTRAS.items()}
    missing = [name for name, version in core.items() if version is None]
    data: dict[str, object] = {
        "privagg": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "core": core,
        "extras": extras,
        "complete": not missing,
        "jit": _jit(),
        "cpu": _cpu(),
        "gpu": _gpu(),
        "mask_stream": _mask_stream(),
    }
    faster = _faster(data)
    data["faster"] = faster
    return Report(
        title=f"privagg {__version__} on Python {platform.python_version()}",
        data=data,
        tables=_tables(data, core, extras),
        notes=[
            *(f"Faster: {line}" for line in faster),
            *(
                f"Extra {extra!r} is not installed: pip install 'privagg[{extra}]' "
                f"({_BRINGS[extra]})"
                for extra, packages in extras.items()
                if None in packages.values()
            ),
        ],
        verdict=f"Missing: {', '.join(missing)}." if missing else "Everything needed is here.",
    )


def _tables(
    data: dict[str, Any], core: dict[str, str | None], extras: dict[str, dict[str, str | None]]
) -> list[Table]:
    packages: list[list[str | None]] = [["core", name, version] for name, version in core.items()]
    packages += [
        [extra, name, version]
        for extra, versions in extras.items()
        for name, version in versions.items()
    ]
    jit, cpu, gpu = data["jit"], data["cpu"], data["gpu"]
    speed = [
        [
            "compiled kernels",
            "on" if jit["enabled"] else "off (PRIVAGG_JIT=0 or NUMBA_DISABLE_JIT=1)",
        ],
        ["kernels kept in", _kept_line(jit)],
        ["Numba's threads", f"{jit['threads']} at most; kernels use one for each worker"],
        ["processor", f"{cpu['name']}, {cpu['usable_cores']} of {cpu['cores']} cores usable"],
        ["memory", _memory_line(cpu["memory_bytes"])],
        ["its instructions", ", ".join(cpu["features"]) or "none of those that matter here"],
        *(["mask stream " + suite, path] for suite, path in data["mask_stream"].items()),
        ["GPU", _gpu_line(gpu)],
    ]
    return [
        Table("Speed", ["what", "state"], speed),
        Table("Packages", ["part", "package", "version"], packages),
    ]


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _jit() -> dict[str, Any]:
    """Return whether kernels are compiled, and the folder that keeps them, if one can be written.

    Numba tries ``NUMBA_CACHE_DIR``, then the package's own folder, then the user's cache.
    """
    from privagg import _jit as module
    from privagg._packing import pack_kernel

    package = os.path.dirname(module.__file__)
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    user = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "numba")
    folders = [chosen] if chosen else [package, user]
    cache = next((folder for folder in folders if _writable(folder)), None)
    # Numba itself says if it found none; then kernels are compiled in each process.
    kept = getattr(getattr(pack_kernel, "stats", None), "cache_path", None)
    found = None if kept is None else cache
    return {
        "enabled": JIT,
        "cache": found,
        "cached_kernels": _kernels_in(found),
        "threads": _numba_threads() if JIT else 0,
    }


def _kernels_in(folder: str | None) -> int:
    """Return how many kernels of this package are kept, compiled, below `folder`."""
    if folder is None:
        return 0
    walk = ((place, names) for place, _, names in os.walk(folder) if "privagg" in place)
    return sum(name.endswith(".nbi") for _, names in walk for name in names)


def _numba_threads() -> int:
    from numba import get_num_threads

    return int(get_num_threads())


def _kept_line(jit: dict[str, Any]) -> str:
    if jit["cache"] is None:
        return "nowhere: each process compiles again"
    return f"{jit['cache']} ({jit['cached_kernels']} compiled)"


def _memory_line(size: int | None) -> str:
    return "unknown" if size is None else f"{size / 2**30:.1f} GiB"


def _faster(data: dict[str, Any]) -> list[str]:
    """Return what would make this machine faster, as steps to take."""
    jit, cpu, gpu = data["jit"], data["cpu"], data["gpu"]
    lines = []
    if not jit["enabled"]:
        lines.append("unset PRIVAGG_JIT and NUMBA_DISABLE_JIT: kernels are off")
    elif jit["cache"] is None:
        lines.append("set NUMBA_CACHE_DIR to a folder that can be written: kernels are not kept")
    if cpu["machine"] in ("x86_64", "AMD64") and "aes" not in cpu["features"]:
        lines.append("simulate secagg --prg chacha20: this processor has no AES instructions")
    if cpu["usable_cores"] < (cpu["cores"] or 0):
        lines.append(
            f"let this process use more than {cpu['usable_cores']} of {cpu['cores']} cores"
        )
    if gpu["driver"] is not None and not gpu["available"]:
        lines.append("pip install 'privagg[gpu]': there is a GPU driver, and nothing to use it")
    return lines


def _writable(folder: str) -> bool:
    while not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return os.path.isdir(folder) and os.access(folder, os.W_OK)


def _cpu() -> dict[str, Any]:
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "machine": platform.machine(),
        "name": binding.get_host_cpu_name(),
        "features": [name for name in _FEATURES if features.get(name)],
        "cores": os.cpu_count(),
        "usable_cores": usable,
        "memory_bytes": _memory(),
    }


def _memory() -> int | None:
    """Return the bytes of memory of the machine; None where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _gpu() -> dict[str, Any]:
    from privagg._cuda.state import state

    found = state()
    return {
        "available": not found.reason,
        "devices": [device.name for device in found.devices],
        "capabilities": [device.capability for device in found.devices],
        "numba_cuda": found.numba_cuda,
        "driver": found.driver,
        "reason": found.reason,
    }


def _gpu_line(gpu: dict[str, Any]) -> str:
    """Return devices with their capabilities and the driver; or what is missing."""
    named = zip(gpu["devices"], gpu["capabilities"], strict=True)
    parts = [f"{name} (compute capability {capability})" for name, capability in named]
    if gpu["driver"] is not None:
        parts.append(f"driver for CUDA {gpu['driver']}")
    return "; ".join([*parts, *([gpu["reason"]] if gpu["reason"] else [])])


def _mask_stream() -> dict[str, str]:
    from privagg import prg

    return {suite.value: prg.path(suite) for suite in prg.Suite}
