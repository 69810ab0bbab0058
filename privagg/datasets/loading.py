"""Reading the bundled tables."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from privagg.datasets.catalog import info

if TYPE_CHECKING:
    import pyarrow

__all__ = ["load"]


def load(name: str) -> pyarrow.Table:
    """Load a bundled table.

    Parameters
    ----------
    name : str
        One of :func:`privagg.datasets.names`.

    Returns
    -------
    pyarrow.Table
        One chunk per column, rows in file order. Categorical columns are dictionary-encoded
        strings; only ``voted_trump`` and ``income_bracket`` of ``voters2016`` hold nulls.

    Raises
    ------
    UsageError
        If no such table is bundled; the message lists those that are.
    """
    import pyarrow
    import pyarrow.parquet

    table = info(name)
    folder = resources.files("privagg.datasets")
    # Bytes rather than a path: a package inside a zip archive has no path.
    content = folder.joinpath("tables", f"{table.name}.parquet").read_bytes()
    # Threads would not make a small table faster, and a process that ends while Arrow still starts
    # them is aborted.
    source = pyarrow.BufferReader(content)
    return pyarrow.parquet.read_table(source, use_threads=False).combine_chunks()
