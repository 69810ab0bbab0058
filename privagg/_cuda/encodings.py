"""One client's numbers on a CUDA device: what :meth:`privagg.encoding.Encoding.encode` does there.

The words are the ones that the host makes of the same numbers and the same entropy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privagg._cuda import arrays
from privagg.entropy import Entropy
from privagg.errors import UsageError

__all__ = ["encode"]


def encode(
    encoding: Any, vector: Any, weight: int, word: np.dtype[Any], entropy: Entropy
) -> tuple[Any, int]:
    """Encode a CUDA array.

    Parameters
    ----------
    encoding : Encoding
        How.
    vector : (dim,) CUDA array
        float32, float64, or integers; uint64 is not among them.
    weight : int
        The client's, checked.
    word : numpy.dtype
        What to return: uint32 or uint64.
    entropy : Entropy
        Gives the key of the rounding's random words.

    Returns
    -------
    tuple of CUDA array, int
        The words, and how many values were clipped.

    Raises
    ------
    UsageError
        As :meth:`~privagg.encoding.Encoding.encode`.
    """
    real = encoding.clip is not None
    allowed = "a 1-D CUDA array of integers" + (", float32 or float64" if real else "")
    values = arrays.checked("vector", vector, f"{allowed}, not empty")
    if len(values.shape) != 1 or not values.size:
        raise UsageError("vector", f"shape {tuple(values.shape)}", f"{allowed}, not empty")
    kinds = {"i": 8, "u": 4} | ({"f": 8} if real else {})
    size = values.dtype.itemsize
    if size > kinds.get(values.dtype.kind, 0) or values.dtype == np.float16:
        hint = "Unsigned integers have at most 32 bits there." if values.dtype.kind == "u" else ""
        raise UsageError("vector", values.dtype.name, allowed, hint)
    count = int(values.size)
    with arrays.current(arrays.device_of(values)):
        from privagg._cuda import levels

        words = arrays.empty(encoding.length(count), word)
        part, clipped = words[:count], 0
        if real:
            scale = encoding.levels / (2 * encoding.clip)
            key = entropy.take(32)
            clipped, wrong = levels.encode_floats(
                values, encoding.clip, scale, encoding.levels, weight, key, part
            )
        else:
            wrong = levels.encode_integers(values, encoding.offset, encoding.levels, weight, part)
        if wrong:  # the host says which one, in its own words
            encoding.encode(values.copy_to_host(), weight=weight, clients=1, entropy=entropy)
        if encoding.weighted:
            words[count:].copy_to_device(np.full(1, weight, word))
    return words, clipped
