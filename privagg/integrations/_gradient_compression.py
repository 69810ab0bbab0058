"""Compression of gradients as clients send them: what it leaves of each number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError

__all__ = ["check_compression", "compress"]

_KINDS = ("fp16", "int8", "sign")


def check_compression(kind: str | None) -> None:
    """Raise :class:`UsageError` unless `kind` is a compression or None."""
    if kind is None or kind in _KINDS:
        return
    if isinstance(kind, str) and kind.startswith("top-") and _share(kind) is not None:
        return
    raise UsageError("compression", kind, f"{', '.join(_KINDS)} or top-SHARE, for example top-0.1")


def _share(kind: str) -> float | None:
    try:
        share = float(kind.removeprefix("top-"))
    except ValueError:
        return None
    return share if 0 < share <= 1 else None


def compress(
    vector: NDArray[np.float32],
    kind: str | None,
    seed: int = 0,
    sizes: Sequence[int] | None = None,
) -> NDArray[np.float32]:
    """Return the vector as the receiver decompresses it.

    Parameters
    ----------
    vector : (d,) float32 array
        A gradient.
    kind : str or None
        ``fp16``: half precision. ``int8``: 255 levels, rounded stochastically. ``sign``: signs and
        the mean size. Both with a scale for each tensor. ``top-SHARE``: the largest so many, the
        others zero.
    seed : int
        Of stochastic rounding.
    sizes : sequence of int, optional
        Of the tensors in the vector; one if left out.

    Raises
    ------
    UsageError
        If a number overflows half precision, or the kind is none.
    """
    check_compression(kind)
    if kind is None:
        return vector
    if kind == "fp16":
        with np.errstate(over="ignore"):
            half = vector.astype(np.float16)
        if not np.isfinite(half).all():
            raise UsageError("compression", "fp16", "numbers below 65,504", "Scale the loss down.")
        return half.astype(np.float32)
    if kind in ("sign", "int8") and sizes is not None:
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        return np.concatenate([compress(p, kind, seed + n) for n, p in enumerate(parts)])
    size = np.abs(vector)
    if kind == "sign":
        return np.sign(vector) * np.float32(size.mean())
    if kind == "int8":
        step = float(size.max()) / 127 or 1.0
        levels = np.floor(vector / step + np.random.default_rng(seed).random(len(vector)))
        return (levels * step).astype(np.float32)
    share = _share(kind)
    assert share is not None
    keep = max(1, round(share * len(vector)))
    least = np.partition(size, len(size) - keep)[len(size) - keep]
    return np.where(size >= least, vector, np.float32(0))
