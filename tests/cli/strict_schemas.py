"""The published schemas, closed: in a test a key that is not declared is an error."""

from __future__ import annotations

from functools import cache

import jsonschema

from privagg.cli.schema import schema_of


def closed(schema):
    """Return `schema` with no key allowed that it does not name."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict):
        found.setdefault("additionalProperties", False)
    return found


@cache
def _validator(name, errors):
    schema = closed(schema_of(name))
    # One alternative at a time: a wrong result is told apart from an error.
    kinds = [{"$ref": "#/$defs/error"}] if errors else schema["anyOf"][:-1]
    schema["anyOf"] = kinds
    return jsonschema.Draft202012Validator(schema)


def check(name, data):
    """Fail if `data` is not what the command `name` may print."""
    if data.get("command") != name:
        raise AssertionError(f"command {data.get('command')!r}, not {name!r}")
    error = jsonschema.exceptions.best_match(_validator(name, "error" in data).iter_errors(data))
    if error is not None:
        path = "/".join(map(str, error.absolute_path))
        raise AssertionError(f"{name}: {path}: {error.message[:500]}")
