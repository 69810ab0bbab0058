"""How a simulated round ends: its report, its sum in a file, and an error if the sum is wrong."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
from click.exceptions import Exit

from privagg.cli import _secagg_streamed
from privagg.cli.common import Options, emit, note, warn
from privagg.cli.failures import ExitCode
from privagg.errors import UsageError
from privagg.protocols.lightsecagg import Result as OneShot
from privagg.protocols.secagg import Result
from privagg.report import Report, write_file

__all__ = ["check", "finish"]


def check(path: Path, item: object) -> None:
    """Refuse a name that the sum of inputs like `item` cannot be written to."""
    allowed = ".npz" if isinstance(item, dict) else ".npz or .npy"
    if path.suffix.lower() not in (".npz", ".npy") or (
        path.suffix.lower() == ".npy" and isinstance(item, dict)
    ):
        what = "named arrays" if isinstance(item, dict) else "a sum"
        raise UsageError("--sum-out", path.name, f"a file name ending in {allowed}, for {what}")


def finish(
    result: Result | OneShot,
    report: Report,
    sum_out: Path | None,
    folder: Path | None,
    options: Options,
) -> None:
    """Give the report and the sum out, and end with an error if the sum is wrong."""
    emit(report, options)
    if sum_out is not None:
        if folder is not None:
            _secagg_streamed.write_sum(sum_out, result.sum)
        else:
            _write(sum_out, result)
        note(options, f"Wrote {sum_out}")
    if not result.exact:
        warn("the sum differs from the plain sum: this is a fault in privagg; please report it.")
        raise Exit(ExitCode.PEER)


def _write(path: Path, result: Result | OneShot) -> None:
    buffer = io.BytesIO()
    if path.suffix.lower() == ".npy":
        np.save(buffer, result.sum, allow_pickle=False)
    else:
        arrays = result.sum if isinstance(result.sum, dict) else {"sum": result.sum}
        # Not np.savez(**arrays): an array may be called "file".
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
    write_file(path, buffer.getvalue())
