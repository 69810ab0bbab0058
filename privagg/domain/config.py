"""Domains read from a survey's file (TOML) or a dict, strictly."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from privagg.domain.base import Domain
from privagg.domain.categorical import Categorical
from privagg.domain.numeric import Floats, Integers
from privagg.errors import UsageError

__all__ = ["domain_from", "read_attributes"]

_FIELDS: Mapping[str, tuple[set[str], set[str]]] = {
    "categorical": ({"values"}, {"unknown", "other"}),
    "boolean": (set(), {"unknown", "other"}),
    "integer": ({"low", "high"}, {"unknown"}),
    "float": ({"low", "high"}, {"steps", "unknown"}),
}
"""For each kind, the fields it must have and those it may have."""

_MAKERS: Mapping[str, Callable[..., Domain]] = {
    "categorical": Categorical,
    "boolean": lambda **rest: Categorical([False, True], **rest),
    "integer": Integers,
    "float": Floats,
}


def domain_from(table: Mapping[str, Any], name: str = "domain") -> Domain:
    """Build the domain that a table describes: what :meth:`Domain.describe` returns, or a file.

    Parameters
    ----------
    table : mapping
        ``kind`` is ``"categorical"`` (with `values`), ``"boolean"``, ``"integer"`` (with `low` and
        `high`) or ``"float"`` (also `steps`); `unknown` and `other` as in the classes.
    name : str
        What messages call it.

    Raises
    ------
    UsageError
        If a field is missing, unknown or out of range.
    """
    if not isinstance(table, Mapping):
        raise UsageError(name, type(table).__name__, "a table")
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise UsageError(f"{name}.kind", kind, ", ".join(_FIELDS), _closest(kind, set(_FIELDS)))
    needed, optional = _FIELDS[kind]
    fields = {str(key): value for key, value in table.items() if key != "kind"}
    for field in fields:
        if field not in needed | optional:
            allowed = ", ".join(sorted(needed | optional))
            raise UsageError(
                f"{name}.{field}", "an unknown field", allowed, _closest(field, needed | optional)
            )
    for field in sorted(needed - set(fields)):
        raise UsageError(f"{name}.{field}", "nothing", f"needed where kind is {kind}")
    arguments = {field: value for field, value in fields.items() if field not in needed}
    places = [fields[field] for field in ("values", "low", "high") if field in fields]
    try:
        return _MAKERS[kind](*places, **arguments)
    except UsageError as error:
        raise UsageError(
            f"{name}.{error.argument}", error.found, error.allowed, error.hint
        ) from None


def read_attributes(source: str | PathLike[str] | Mapping[str, Any]) -> dict[str, Domain]:
    """Read the attributes of a survey, in their order.

    Parameters
    ----------
    source : path or mapping
        A TOML file, or what is in one: a table ``attributes`` with one table for each attribute::

            [attributes.colour]
            kind = "categorical"
            values = ["red", "green", "blue"]
            unknown = "other"

            [attributes.age]
            kind = "integer"
            low = 0
            high = 120

    Raises
    ------
    UsageError
        If the file cannot be read, is no TOML, or says something that is not allowed; the message
        names the attribute and the field.
    """
    if isinstance(source, Mapping):
        table: Mapping[str, Any] = source
    elif isinstance(source, str | PathLike):
        table = _read(Path(source))
    else:
        raise UsageError("source", type(source).__name__, "a path or a mapping")
    for key in table:
        if key != "attributes":
            raise UsageError(
                str(key), "an unknown table", "attributes", _closest(key, {"attributes"})
            )
    attributes = table.get("attributes")
    if not isinstance(attributes, Mapping) or not attributes:
        raise UsageError("attributes", attributes, "a table for each attribute")
    for name in attributes:
        if not isinstance(name, str) or not name.strip():
            raise UsageError("attributes", name, "names that are not blank")
    return {name: domain_from(one, f"attributes.{name}") for name, one in attributes.items()}


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise UsageError(
            "source", str(path), "a file that can be read", f"{error.strerror}."
        ) from None
    except (ValueError, RecursionError) as error:  # also of integers with thousands of digits
        raise UsageError("source", str(path), "a file of TOML", f"{error}.") from None


def _closest(found: object, allowed: set[str]) -> str:
    near = difflib.get_close_matches(str(found), sorted(allowed), n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else ""
