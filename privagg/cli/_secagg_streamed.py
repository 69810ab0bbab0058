"""``simulate secagg --streamed``: vectors too long for memory, from a file and into one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.cli.inputs import ClientInputs, Lazy
from privagg.errors import UsageError
from privagg.protocols.secagg import Params, Result, streaming, tiles
from privagg.report import Column, Table, replacing

__all__ = ["check", "check_room", "flat", "play", "room", "sample", "write_sum"]


def check(source: Path | None, sum_out: Path | None, others: Mapping[str, object]) -> None:
    """Refuse what would need a whole vector in memory.

    Raises
    ------
    UsageError
        Naming the option, and why.
    """
    for flag, value in others.items():
        if value not in (None, False):
            hint = "Leave out one of the two."
            raise UsageError(flag, str(value), "nothing beside --streamed", hint)
    if source is not None and source.suffix.lower() != ".npy":
        hint = "Such a file can be read where it lies; np.save writes it."
        raise UsageError("--input", source.name, "an .npy file, to be streamed", hint)
    if sum_out is not None and sum_out.suffix.lower() != ".npy":
        raise UsageError("--sum-out", sum_out.name, "a file name ending in .npy, for --streamed")


@contextmanager
def room(scratch: Path | None, sum_out: Path | None) -> Iterator[Path]:
    """Give a folder for the vectors under way; it is gone afterwards.

    Parameters
    ----------
    scratch : Path, optional
        Where to make it; beside the sum if left out, and else where the system has such folders.
    sum_out : Path, optional
        Where the sum goes.
    """
    if scratch is None:
        scratch = Path(tempfile.gettempdir()) if sum_out is None else sum_out.resolve().parent
    try:
        folder = tempfile.TemporaryDirectory(prefix="privagg-", dir=scratch)
    except OSError as error:
        allowed = f"a folder that can be written to ({error.strerror})"
        raise UsageError("--scratch", str(scratch), allowed) from None
    with folder as name:
        yield Path(name)


def check_room(params: Params, workers: int, folder: Path, *, generated: bool) -> None:
    """Refuse a round whose files do not fit the disk.

    Raises
    ------
    UsageError
        Saying what is needed and what is free.
    """
    needed = streaming.scratch_bytes(params, workers) + 8 * params.dim
    if generated:
        needed += streaming.under_way(params, workers) * 8 * params.dim
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UsageError(
            "--scratch",
            f"{_size(free)} free in {folder.parent}",
            f"the {_size(needed)} that vectors on their way take",
            "Name a folder on a larger disk with --scratch, or lower --workers.",
        )


def flat(inputs: ClientInputs) -> ClientInputs:
    """Return inputs from a file with each client's row as one vector, which stays in the file.

    Raises
    ------
    UsageError
        If a row does not lie in one piece.
    """
    first = np.asarray(inputs.vectors[0])
    if not first.flags.c_contiguous:
        raise UsageError(
            inputs.source,
            "an array in Fortran's order",
            "rows that lie in one piece, to be streamed",
            "np.save(file, np.ascontiguousarray(array)) writes it so.",
        )

    def row(client: int) -> NDArray[Any]:
        vector: NDArray[Any] = inputs.vectors[client].reshape(-1)
        return vector

    return replace(inputs, vectors=Lazy(inputs.clients, row))


def sample(inputs: ClientInputs) -> ClientInputs:
    """Return inputs of the same type, for who looks at no more: no vector is drawn for that."""
    return replace(inputs, vectors=[np.zeros(1, np.float64 if inputs.floats else np.int64)])


def play(params: Params, inputs: ClientInputs, folder: Path, **settings: Any) -> Result:
    """Run the round; its sum is a memory map in the folder."""
    dtype = np.int64 if params.encoding.clip is None else np.float64
    total = tiles.create(folder / "sum", dtype, params.dim)
    return streaming.run_streamed(params, inputs.vectors, total, scratch=folder, **settings)


def write_sum(path: Path, total: NDArray[Any]) -> None:
    """Write the sum as an .npy file, a tile at a time, whole or not at all."""
    with replacing(path) as file:
        header = np.lib.format.header_data_from_array_1_0(total)
        np.lib.format.write_array_header_1_0(file, header)
        for first, end in tiles.spans(len(total)):
            file.write(total[first:end].tobytes())
            tiles.release(total[first:end])


def _size(count: float) -> str:
    return Table("", [Column("", "B")], [[count]]).texts()[0][0]
