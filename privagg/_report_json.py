"""A report's data as JSON: plain types only, NumPy included, never NaN or infinity."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from privagg.errors import UsageError

__all__ = ["SCHEMA_VERSION", "encode", "plain"]

SCHEMA_VERSION = 1
"""Version of the JSON objects where the data names no other."""


def plain(value: object, where: str = "data") -> object:
    """Return `value` in the types JSON has, checked.

    Parameters
    ----------
    value : object
        None, booleans, integers of any size, finite floats, strings, mappings with string keys,
        lists, tuples, NumPy scalars and arrays (nested lists).
    where : str
        The path so far, for error messages.

    Raises
    ------
    UsageError
        If there is a NaN, an infinity, a key that is no string or any other type; the message
        names the path.
    """
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(value))[0])
            raise _not_finite(float(value[index]), where + "".join(f"[{i}]" for i in index))
        return plain(value.tolist(), where) if value.dtype.kind not in "biuf" else value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if not math.isfinite(value):
                raise _not_finite(value, where)
            return value
        case Mapping():
            return {_key(key, where): plain(item, f"{where}.{key}") for key, item in value.items()}
        case list() | tuple():
            return [plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise UsageError(
        where, type(value).__name__, "what JSON has: null, booleans, numbers, strings, lists, maps"
    )


def encode(data: Mapping[str, object], *, indent: int | None = None) -> str:
    """Return `data` as one JSON object that starts with its ``schema_version``.

    Parameters
    ----------
    data : mapping
        See :func:`plain`. A ``schema_version`` of its own (a positive integer) is kept;
        otherwise :data:`SCHEMA_VERSION` is added.
    indent : int, optional
        Spaces per level; without it the object is one line.

    Raises
    ------
    UsageError
        As :func:`plain`, and for a bad ``schema_version``.
    """
    version = data.get("schema_version", SCHEMA_VERSION)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise UsageError("schema_version", version, "a positive integer")
    fields = {_key(key, "data"): plain(value, f"data.{key}") for key, value in data.items()}
    raw = msgspec.json.encode({"schema_version": version} | fields)
    return (raw if indent is None else msgspec.json.format(raw, indent=indent)).decode()


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise UsageError(f"a key of {where}", key, "a string")
    return key


def _not_finite(value: float, where: str) -> UsageError:
    return UsageError(
        where, value, "finite numbers: JSON has no NaN and no infinity", "Use null for 'unknown'."
    )
