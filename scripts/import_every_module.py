"""Check an installed privagg: import every module, load every command and every bundled table.

Run it with the environment that holds the built wheel, from outside the checkout::

    python -I -W error scripts/import_every_module.py CHECKOUT

A module is passed over only if the package that its extra would have brought is not installed, and
it is an integration or says which extra it needs. Anything else that fails to import is an error.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import pkgutil
import re
import sys
from pathlib import Path

OPTIONAL = frozenset({"flwr", "opacus", "ray", "torch"})
"""Top-level packages which only extras bring, and only integrations may need to be imported."""

NAMED = {"torch": "torch", "flower": "flwr", "ray": "ray", "responses": "sklearn"}
"""Extras that a module may name when it is imported without them, and the package it then lacks."""


def import_every_module() -> tuple[list[str], list[str]]:
    """Import every module of the package.

    Returns
    -------
    tuple of list of str
        The modules imported, and those passed over as ``"module (needs package)"``.
    """
    import privagg
    from privagg.errors import UsageError

    imported, passed_over = ["privagg"], []
    for found in pkgutil.walk_packages(privagg.__path__, "privagg.", onerror=_reraise):
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            integration = found.name.startswith("privagg.integrations.")
            if not integration or missing not in OPTIONAL or importlib.util.find_spec(missing):
                raise
            passed_over.append(f"{found.name} (needs {missing})")
        except UsageError as error:
            extra = re.search(r"privagg\[(\w+)\]", str(error))
            if extra is None or importlib.util.find_spec(NAMED[extra[1]]):
                raise
            passed_over.append(f"{found.name} (names the extra {extra[1]})")
        else:
            imported.append(found.name)
    return imported, passed_over


def load_every_command() -> list[str]:
    """Load what each console script of the package points to."""
    scripts = [
        point
        for point in importlib.metadata.distribution("privagg").entry_points
        if point.group == "console_scripts"
    ]
    for point in scripts:
        if not callable(point.load()):
            raise TypeError(f"the console script {point.name} points to {point.value}: no function")
    return [point.name for point in scripts]


def load_every_table() -> list[str]:
    """Load each bundled table from the installed package."""
    from privagg import datasets

    for name in datasets.names():
        found, stated = datasets.load(name).num_rows, datasets.info(name).rows
        if found != stated:
            raise ValueError(f"the table {name} has {found} rows, its description says {stated}")
    return list(datasets.names())


def _reraise(name: str) -> None:
    """Let a package that fails to import end the walk with its own exception."""
    raise


def main(checkout: str) -> None:
    """Check the installed package, which must not be the one in ``checkout``."""
    import privagg

    where = Path(privagg.__file__).resolve().parent
    if where.is_relative_to(Path(checkout).resolve()):
        raise SystemExit(f"privagg was imported from the checkout ({where}), not from the wheel")
    if not (where / "py.typed").is_file():
        raise SystemExit("the wheel lacks py.typed")
    imported, passed_over = import_every_module()
    commands, tables = load_every_command(), load_every_table()
    print(f"privagg {privagg.__version__} in {where}")
    print(f"{len(imported)} modules imported")
    for line in passed_over:
        print(f"passed over: {line}")
    print(f"commands: {', '.join(commands)}; tables: {', '.join(tables)}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -I -W error import_every_module.py CHECKOUT")
    main(sys.argv[1])
