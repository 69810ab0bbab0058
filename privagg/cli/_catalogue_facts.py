"""What source files say of themselves: first lines and sources of docstrings, without an import.

``privagg list`` shows them; importing the modules would load NumPy and compile nothing it needs.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import privagg

__all__ = ["Facts", "facts"]

_ROOT = Path(privagg.__file__).parent
_Documented = ast.ClassDef | ast.FunctionDef | ast.Module


@dataclass(frozen=True, slots=True)
class Facts:
    """What a docstring says.

    Attributes
    ----------
    summary : str
        Its first sentence, without the full stop.
    source : str
        The paper it names, if any; else the one that its module names, else nothing.
    """

    summary: str
    source: str


def facts(path: str) -> Facts:
    """Return what stands in the docstring of ``"package.module:Name"``, or of a module.

    Raises
    ------
    KeyError
        If the file has no such class or function.
    """
    module, _, name = path.partition(":")
    tree = _tree(module)
    found = _find(tree, name) if name else tree
    text = ast.get_docstring(found) or ""
    parents = [found, *_bases(tree, found), tree]
    sources = (_source(ast.get_docstring(one) or "") for one in parents)
    summary = " ".join(text.partition("\n\n")[0].split()).rstrip(".").replace("`", "")
    return Facts(summary, next((source for source in sources if source), ""))


@cache
def _tree(module: str) -> ast.Module:
    base = _ROOT.joinpath(*module.split(".")[1:])
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _find(tree: ast.Module, name: str) -> _Documented:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
    raise KeyError(name)


def _bases(tree: ast.Module, node: _Documented) -> list[_Documented]:
    """Return the base classes of `node` that are in the same file."""
    if not isinstance(node, ast.ClassDef):
        return []
    names = {base.id for base in node.bases if isinstance(base, ast.Name)}
    return [one for one in tree.body if isinstance(one, ast.ClassDef) and one.name in names]


def _source(text: str) -> str:
    """Return the sentence that begins with ``Source:`` or ``Sources:``."""
    for mark in ("Source: ", "Sources: "):
        before, found, after = text.partition(mark)
        if found and (not before or before[-1] in " \n"):
            paragraph = " ".join(after.partition("\n\n")[0].split())
            return paragraph.partition(". ")[0].rstrip(".")
    return ""
