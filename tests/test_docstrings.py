"""Docstrings of what is public say what a caller has to know; a missing part is named.

Public is what a package lists in its ``__all__``, or, where it lists nothing, what its modules do;
and the methods of those classes. A module inside a package that lists names is that package's own
matter: of what it lists, docstrings are there. All is read from the source, and nothing imported.

What is held of each public function and method:

- ``Parameters`` names every parameter. A docstring without that section is enough where it shows
  them in backquotes, or their class, which the package documents, says what they are. The options
  of a command have their help instead, and who says "as another function" has that one's.
- What is returned is said: by ``Returns``, or by a summary that has a word such as Return for it.
- ``Raises`` names every error of the package that is raised in its own body, or by the checks of
  arguments that it calls. A class has those of its ``__init__``.
- Arrays have their shape and their dtype.

Entry points also have a guarantee and a source: in their docstring, their module's or their
package's. A property needs its summary only; an override only what differs from its base.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "privagg"

ERRORS = {"UsageError", "PeerError", "Abort", "CapacityError"}
LEAVES = (ast.Name, ast.Constant, ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.expr_context)
CHECKS = {"whole": "UsageError", "proportion": "UsageError", "choice": "UsageError"}
SAYS_RESULT = re.compile(
    r"(Return|Yield|Say|Tell|Count|Draw|Make|Build|Read|Compute|Estimate|Predict|Iterate|Give|Find|"
    r"Open|Load|Decode|Encode|List|Measure|Whether|How|The|What)\b|[^\n]*[;,] (and )?return"
)
REFERS = re.compile(r"\b([Ss]ee|[Aa]s( for| by)?|(those )?of|errors?) :(func|meth|class):")
DTYPE = re.compile(
    r"u?int\d*|float\d*|bool|bytes?|word|numbers?|str|object|complex|dtype|integers?|codes?|reals?|"
    r"elements?|flags?|labels?|seconds?|bits?|weights?|seeds?|values?|columns?|indices|ids?"
)
SHAPE = re.compile(r"\(\w[\w *+/.,\[\]-]*,?[^)]*\)|shape|scalar|any shape|of arrays|matrix|tensor")
GUARANTEE = re.compile(
    r"guarantee|threat|privacy|private|insecure|learns?|adversar|assum|attack|audit|leak", re.I
)
SOURCE = re.compile(
    r"et al\.|[Ss]ource|RFC|NIST|FIPS|[Ss]ection|algorithm|theorem|[A-Z]\w+,? (and|&) [A-Z]\w+|"
    r"\b(19|20)\d\d\b|arXiv"
)


class Module:
    """A source file, parsed when something is asked of it."""

    def __init__(self, path: Path) -> None:
        self.name = dotted(path)
        self.is_public = not any(part.startswith("_") for part in self.name.split("."))
        self._path = path

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self._path.read_text(encoding="utf-8"))

    @cached_property
    def exported(self) -> list[str]:
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                return list(ast.literal_eval(node.value))
        return []

    @cached_property
    def defined(self) -> dict[str, ast.stmt]:
        return {node.name: node for node in self.tree.body if hasattr(node, "name")}

    @cached_property
    def imported(self) -> dict[str, tuple[str, str]]:
        """Map a name to the module that it comes from, and its name there."""
        return {
            alias.asname or alias.name: (node.module, alias.name)
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Module]:
    return {dotted(path): Module(path) for path in sorted(PACKAGE.rglob("*.py"))}


@dataclass(frozen=True)
class Item:
    """A public function, class or method; `owner` is the method's class."""

    module: Module
    node: ast.FunctionDef | ast.ClassDef
    owner: ast.ClassDef | None = None

    @property
    def name(self) -> str:
        inner = f"{self.owner.name}." if self.owner else ""
        return f"{self.module.name}.{inner}{self.node.name}"

    @property
    def text(self) -> str:
        return ast.get_docstring(self.node) or ""


@cache
def resolve(module: Module, name: str) -> tuple[Module, ast.stmt] | None:
    """Return where a name is defined in the package, through imports."""
    if name in module.defined:
        return module, module.defined[name]
    origin = module.imported.get(name)
    if origin is None or origin[0] not in modules():
        return None
    return resolve(modules()[origin[0]], origin[1])


def lists_for_users(module: Module) -> bool:
    """Say whether no package above lists what is public instead of the module."""
    parts = module.name.split(".")
    above = (".".join(parts[:length]) for length in range(2, len(parts)))
    return not any(modules()[name].exported for name in above)


@cache
def items(for_users: bool) -> tuple[Item, ...]:
    found: dict[str, Item] = {}
    for module in modules().values():
        if not module.is_public or lists_for_users(module) is not for_users:
            continue
        for name in module.exported:
            where = resolve(module, name)
            if where is None or not isinstance(where[1], ast.FunctionDef | ast.ClassDef):
                continue
            item = Item(*where)
            found[item.name] = item
            if isinstance(item.node, ast.ClassDef):
                inherited = [one for one in bases(*where) if not one[0].is_public]
                for place, owner in [where, *inherited]:
                    for node in owner.body:
                        if isinstance(node, ast.FunctionDef) and node.name[0] != "_":
                            method = Item(place, node, owner)
                            found[method.name] = method
    return tuple(found.values())


def bases(module: Module, node: ast.ClassDef) -> Iterator[tuple[Module, ast.ClassDef]]:
    for base in node.bases:
        plain = base.value if isinstance(base, ast.Subscript) else base
        where: tuple[Module, ast.stmt] | None = None
        if isinstance(plain, ast.Name):
            where = resolve(module, plain.id)
        elif isinstance(plain, ast.Attribute) and isinstance(plain.value, ast.Name):
            origin = module.imported.get(plain.value.id)
            named = modules().get(".".join(origin)) if origin else None
            where = resolve(named, plain.attr) if named else None
        if where and isinstance(where[1], ast.ClassDef):
            yield where[0], where[1]
            yield from bases(where[0], where[1])


def overrides(item: Item) -> bool:
    assert item.owner is not None
    return any(
        isinstance(node, ast.FunctionDef) and node.name == item.node.name
        for _, base in bases(item.module, item.owner)
        for node in base.body
    )


def decorators(node: ast.FunctionDef) -> set[str]:
    return {ast.unparse(one).split("(")[0].rsplit(".", 1)[-1] for one in node.decorator_list}


def section(text: str, title: str) -> str | None:
    _, found, rest = f"\n{text}".partition(f"\n{title}\n---")
    return re.split(r"\n\w[\w ]*\n---", rest.partition("\n")[2])[0] if found else None


def parameters(node: ast.FunctionDef) -> list[ast.arg]:
    given = node.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [one for one in every if one and one.arg not in {"self", "cls"} and one.arg[0] != "_"]


def entry(listed: str, name: str) -> str | None:
    """Return the line of a parameter's names and type."""
    for line in listed.splitlines():
        names, _, _ = line.partition(" :")
        if line[:1].strip() and name in re.split(r"[,\s]+", names.replace("*", "")):
            return line
    return None


def errors(node: ast.FunctionDef) -> set[str]:
    """Return the package's errors that a function's own body raises, or the checks it calls."""
    found, left = set(), list(node.body)
    while left:
        one = left.pop()
        if isinstance(one, ast.Raise) and isinstance(one.exc, ast.Call):
            found.add(ast.unparse(one.exc.func).rpartition(".")[2])
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Name):
            found.add(CHECKS.get(one.func.id, ""))
        if not isinstance(one, LEAVES):
            left += ast.iter_child_nodes(one)
    return found & ERRORS


def is_documented_class(module: Module, annotation: str) -> bool:
    """Say whether an annotation is a class of the package with a docstring, or None."""
    name = annotation.removesuffix(" | None").partition("[")[0]
    where = resolve(module, name) if name.isidentifier() else None
    return bool(where and isinstance(where[1], ast.ClassDef) and ast.get_docstring(where[1]))


def lacks_of_parameters(module: Module, node: ast.FunctionDef, text: str) -> Iterator[str]:
    given = parameters(node)
    listed = section(text, "Parameters")
    for one in given:
        annotation = ast.unparse(one.annotation) if one.annotation else ""
        line = entry(listed, one.arg) if listed is not None else None
        if line is None and not (
            listed is None and (f"`{one.arg}`" in text or is_documented_class(module, annotation))
        ):
            yield f"parameter {one.arg}"
        elif re.match(r"(npt\.)?(NDArray|ArrayLike)\b", annotation):
            about = line if line is not None else text
            if not SHAPE.search(about):
                yield f"shape of {one.arg}"
            if not DTYPE.search(about):
                yield f"dtype of {one.arg}"


def lacks_of_function(item: Item) -> Iterator[str]:
    node, text = item.node, item.text
    assert isinstance(node, ast.FunctionDef)
    marks = decorators(node)
    if marks & {"property", "cached_property", "setter", "overload", "command"}:
        return
    if item.owner is not None and overrides(item):
        return
    if REFERS.search(text):
        return
    yield from lacks_of_parameters(item.module, node, text)
    returned = ast.unparse(node.returns) if node.returns else "None"
    if returned not in {"None", "NoReturn"} and section(text, "Returns") is None:
        if section(text, "Yields") is None and not SAYS_RESULT.match(text):
            yield "Returns"
        elif re.match(r"(npt\.)?NDArray\b", returned) and not SHAPE.search(text):
            yield "shape of what is returned"
    yield from lacks_of_errors(errors(node), text)


def lacks_of_errors(raised: set[str], text: str) -> Iterator[str]:
    listed = section(text, "Raises") or ""
    for name in sorted(raised):
        if name not in listed:
            yield f"Raises {name}"


def lacks_of_class(item: Item) -> Iterator[str]:
    assert isinstance(item.node, ast.ClassDef)
    for node in item.node.body:
        if isinstance(node, ast.FunctionDef) and node.name in {"__init__", "__post_init__"}:
            yield from lacks_of_errors(errors(node), item.text)
            if node.name == "__init__" and not item.node.name.endswith(("Error", "Abort")):
                yield from lacks_of_parameters(item.module, node, item.text)


ENTRIES = re.compile(
    r"(Params|Client|Server|Member|Leader|Respondent|Aggregator|run|simulate|audit)$"
)


def is_entry(item: Item) -> bool:
    if item.owner is not None:
        return False
    mechanism = isinstance(item.node, ast.ClassDef) and any(
        base.name.endswith("Mechanism") or base.name == "FrequencyOracle"
        for _, base in bases(item.module, item.node)
    )
    return mechanism or bool(ENTRIES.match(item.node.name))


def lacks_of_entry(item: Item) -> Iterator[str]:
    places = [item.text]
    name = item.module.name
    while name.count("."):
        places.append(ast.get_docstring(modules()[name].tree) or "")
        name = name.rpartition(".")[0]
    if isinstance(item.node, ast.ClassDef):
        places += [ast.get_docstring(base) or "" for _, base in bases(item.module, item.node)]
    text = "\n".join(places)
    if not GUARANTEE.search(text):
        yield "guarantee"
    if not SOURCE.search(text):
        yield "source"


def lacks(item: Item) -> list[str]:
    found: list[str] = []
    if isinstance(item.node, ast.ClassDef):
        found += lacks_of_class(item)
    else:
        found += lacks_of_function(item)
    if is_entry(item):
        found += lacks_of_entry(item)
    return found


PENDING = ("privagg.cli",)
"""Packages of which only docstrings are asked: commands are run, and have their help."""


def test_docstrings_are_whole():
    held = [item for item in items(True) if not item.module.name.startswith(PENDING)]
    assert {item.name: missing for item in held if (missing := lacks(item))} == {}


def test_nothing_is_without_docstring():
    every = [item for item in (*items(True), *items(False)) if not item.text]
    assert [item.name for item in every if item.owner is None or not overrides(item)] == []


SAMPLE = '''
__all__ = ["lone", "whole_one"]
from privagg.errors import UsageError
def lone(a: NDArray[np.int64], b: int) -> int:
    """Frobnicate."""
    raise UsageError("a", 1, "2")
def whole_one(a: NDArray[np.int64], b: int) -> int:
    """Return a number.

    Parameters
    ----------
    a : (n,) int64 array
        Numbers.
    b : int
        Another.

    Raises
    ------
    UsageError
        Always.
    """
    raise UsageError("a", 1, "2")
'''


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    (tmp_path / "sample.py").write_text(SAMPLE, encoding="utf-8")
    monkeypatch.setattr("test_docstrings.ROOT", tmp_path)
    module = Module(tmp_path / "sample.py")
    first, second = (Item(module, module.defined[name]) for name in module.exported)
    assert lacks(first) == ["parameter a", "parameter b", "Returns", "Raises UsageError"]
    assert lacks(second) == []
