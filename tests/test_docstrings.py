"""Docstrings of what is public say what a caller has to know; a missing part is named.

Public is what ``__all__`` of a public module lists, and its methods. Read from the source: nothing
is imported. What is held of each function and method:

- ``Parameters`` names every parameter. A docstring without that section is enough where it shows
  them in backquotes, or their class, which the package documents, says what they are. The options
  of a command have their help instead.
- What is returned is said: by ``Returns``, or by a summary that starts with a word such as Return.
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
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "privagg"

ERRORS = {"UsageError", "PeerError", "Abort", "CapacityError"}
CHECKS = {"whole": "UsageError", "proportion": "UsageError", "choice": "UsageError"}
SAYS_RESULT = re.compile(
    r"(Return|Yield|Say|Tell|Count|Draw|Make|Build|Read|Compute|Estimate|Predict|Iterate|Give|Find|"
    r"Open|Load|Decode|Encode|List|Measure|Whether|How|The|What)\b"
)
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


@dataclass(frozen=True)
class Module:
    """A source file, parsed."""

    name: str
    tree: ast.Module

    @property
    def is_public(self) -> bool:
        return not any(part.startswith("_") for part in self.name.split("."))

    @property
    def exported(self) -> list[str]:
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                return list(ast.literal_eval(node.value))
        return []

    def defined(self, name: str) -> ast.stmt | None:
        for node in self.tree.body:
            if getattr(node, "name", None) == name:
                return node
        return None

    def origin(self, name: str) -> tuple[str, str] | None:
        """Return the module that `name` was imported from, and its name there."""
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return node.module, alias.name
        return None


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Module]:
    return {
        dotted(path): Module(dotted(path), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


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


def resolve(module: Module, name: str) -> tuple[Module, ast.stmt] | None:
    """Return where a name is defined in the package, through imports."""
    found = module.defined(name)
    if found is not None:
        return module, found
    origin = module.origin(name)
    if origin is None or origin[0] not in modules():
        return None
    return resolve(modules()[origin[0]], origin[1])


@cache
def items() -> tuple[Item, ...]:
    found: dict[str, Item] = {}
    for module in modules().values():
        if not module.is_public:
            continue
        for name in module.exported:
            where = resolve(module, name)
            if where is None or not isinstance(where[1], ast.FunctionDef | ast.ClassDef):
                continue
            item = Item(*where)
            found[item.name] = item
            if isinstance(item.node, ast.ClassDef):
                for node in item.node.body:
                    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                        method = Item(item.module, node, item.node)
                        found[method.name] = method
    return tuple(found.values())


def bases(module: Module, node: ast.ClassDef) -> Iterator[tuple[Module, ast.ClassDef]]:
    for base in node.bases:
        plain = base.value if isinstance(base, ast.Subscript) else base
        where: tuple[Module, ast.stmt] | None = None
        if isinstance(plain, ast.Name):
            where = resolve(module, plain.id)
        elif isinstance(plain, ast.Attribute) and isinstance(plain.value, ast.Name):
            origin = module.origin(plain.value.id)
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


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            yield child
            yield from own_nodes(child)


def errors(node: ast.FunctionDef) -> set[str]:
    found = set()
    for one in own_nodes(node):
        if isinstance(one, ast.Raise) and isinstance(one.exc, ast.Call):
            found.add(ast.unparse(one.exc.func).rsplit(".", 1)[-1])
        elif isinstance(one, ast.Call):
            found.add(CHECKS.get(ast.unparse(one.func), ""))
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


ENTRIES = re.compile(r"(Params|Client|Server|Member|Leader|Respondent|Aggregator|run|simulate|audit)$")


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
    if not item.text:
        return ["docstring"] if item.owner is None or not overrides(item) else []
    found: list[str] = []
    if isinstance(item.node, ast.ClassDef):
        found += lacks_of_class(item)
    else:
        found += lacks_of_function(item)
    if is_entry(item):
        found += lacks_of_entry(item)
    return found


def packages() -> list[str]:
    return sorted({".".join(item.module.name.split(".")[:3]) for item in items()})


@pytest.mark.parametrize("package", packages())
def test_docstrings_are_whole(package):
    found = {}
    for item in items():
        if ".".join(item.module.name.split(".")[:3]) == package and (missing := lacks(item)):
            found[item.name] = missing
    assert found == {}
