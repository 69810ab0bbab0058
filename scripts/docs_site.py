"""Pages of the site that are made from files outside ``docs``, and links that lead to them.

The pages in ``docs`` are read in the repository, too, and link to files beside the folder. In the
site each such file is a page of its own: Markdown as it is, a notebook as its cells, any other file
as text. A folder has no page; what linked to it is its path. :func:`write` makes these pages, and
one for each public module, in ``docs/generated``, which is not under version control.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import posixpath
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from docs_modules import MODULES

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
GENERATED = DOCS / "generated"

# Shown as pages even where no page links to them.
ALWAYS = ("SECURITY.md", "CHANGELOG.md", "LICENSE", "privagg/datasets/README.md")

_FENCE = re.compile(r"(^(`{3,}|~{3,}).*?^\2`*$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
_ARROW = re.compile(r"^ *(\S+) --> (\S+?)(?:: (.+))?$", re.MULTILINE)
_LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml"}


def outside_fences(
    text: str, change: Callable[[str], str], fence: Callable[[str], str] = str
) -> str:
    """Return the text with all but its fenced blocks changed, and these as `fence` has them."""
    parts = _FENCE.split(text)
    # Three parts for each fence: what is before it, the fence, its marker.
    return "".join(
        change(part) if index % 3 == 0 else fence(part)
        for index, part in enumerate(parts)
        if index % 3 != 2
    )


def targets(text: str, folder: str) -> Iterator[str]:
    """Yield what the links of a page lead to, as paths from the root of the repository.

    Parameters
    ----------
    text : str
        Markdown.
    folder : str
        Where the page lies, from the root of the repository.
    """
    for match in _LINK.finditer(outside_fences(text, str, fence=lambda _: "")):
        target = match[3]
        if not re.match(r"\w+:|#|/", target):
            yield posixpath.normpath(posixpath.join(folder, target.partition("#")[0]))


def page_of(path: str) -> str:
    """Return the site's page of a file outside ``docs``, as a path from ``docs``."""
    return f"generated/repository/{path.removesuffix('.md').removesuffix('.ipynb')}.md"


def relocate(text: str, folder: str) -> str:
    """Return a page with links that hold in the site, from wherever it stands there.

    Parameters
    ----------
    text : str
        Markdown.
    folder : str
        Where the page lies, from the root of the repository.
    """

    def link(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        if re.match(r"\w+:|#|/", target):
            return match[0]
        name, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(folder, name))
        if path.startswith("docs/"):
            place = path.removeprefix("docs/")
        elif (ROOT / path).is_file():
            place = page_of(path)
        elif (ROOT / path).is_dir():
            return f"{words} (`{path}`)" if path not in words else words
        else:
            return match[0]  # the build names it: a link to a file that is not there
        return f"{mark}[{words}](/{place}{'#' + anchor if anchor else ''})"

    return outside_fences(text, lambda part: _LINK.sub(link, part))


def without_empty_patterns(text: str, page: Path) -> str:
    """Return a page without the lines of its navigation that name a folder with no pages yet.

    Parameters
    ----------
    text : str
        Markdown.
    page : pathlib.Path
        Its file, from the root of the repository.
    """
    folder = ROOT / page.parent

    def kept(match: re.Match[str]) -> str:
        lines = match[0].splitlines()
        return "\n".join(one for one in lines if "*" not in one or any(folder.glob(f"{one}.md")))

    return re.sub(r"^```\{toctree\}\n.*?^```$", kept, text, flags=re.MULTILINE | re.DOTALL)


def tables_for_diagrams(text: str) -> str:
    """Return a page whose diagrams of states are tables: drawing them needs a browser's script."""

    def rows(match: re.Match[str]) -> str:
        lines = ["| state | message | next state |", "| --- | --- | --- |"]
        for before, after, message in _ARROW.findall(match[1]):
            names = [
                edge if name == "[*]" else f"`{name}`"
                for name, edge in ((before, "(start)"), (after, "(end)"))
            ]
            lines.append(f"| {names[0]} | {f'`{message}`' if message else ''} | {names[1]} |")
        return "\n".join(lines)

    pattern = re.compile(
        r"^```mermaid\nstateDiagram-v2\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL
    )
    return pattern.sub(rows, text)


def _notebook(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    name = path.relative_to(ROOT).as_posix()
    note = f"*The cells of `{name}` with what they gave; the tests execute it again.*"
    parts = []
    for cell in cells:
        source = "".join(cell["source"]).rstrip()
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts.append(f"```python\n{source}\n```")
            parts += [text for one in cell["outputs"] if (text := _output(one))]
    title, _, rest = parts[0].partition("\n")
    return "\n\n".join([title, note, rest.strip(), *parts[1:]]) + "\n"


def _output(output: dict[str, Any]) -> str:
    """Return what a cell gave: a picture, or text."""
    data = output.get("data", {})
    words = "".join(output.get("text", data.get("text/plain", ""))).rstrip()
    if "image/png" in data:
        picture = "".join(data["image/png"]).replace("\n", "")
        alt = "What the cell above draws"
        return f'<img class="output" alt="{alt}" src="data:image/png;base64,{picture}">'
    return f"````text\n{words}\n````" if words else ""


def repository_page(path: str) -> str:
    """Return the page of a file outside ``docs``."""
    file = ROOT / path
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        return relocate(text, posixpath.dirname(path))
    if file.suffix == ".ipynb":
        return relocate(_notebook(file), posixpath.dirname(path))
    head = "" if path in ALWAYS else "---\norphan: true\n---\n"  # no entry of the navigation
    language = _LANGUAGES.get(file.suffix, "text")
    return f"{head}# `{path}`\n\n````{language}\n{text.rstrip()}\n````\n"


def repository_pages() -> dict[str, str]:
    """Return the pages of all files outside ``docs`` that a page leads to, by their place."""
    waiting = [*ALWAYS, *(path.relative_to(ROOT).as_posix() for path in notebooks())]
    for page in sorted(DOCS.rglob("*.md")):
        if GENERATED not in page.parents:
            folder = page.parent.relative_to(ROOT).as_posix()
            waiting += targets(page.read_text(encoding="utf-8"), folder)
    pages: dict[str, str] = {}
    while waiting:
        path = waiting.pop()
        place = page_of(path)
        if path.startswith("docs/") or place in pages or not (ROOT / path).is_file():
            continue
        pages[place] = repository_page(path)
        if path.endswith(".md"):
            text = (ROOT / path).read_text(encoding="utf-8")
            waiting += targets(text, posixpath.dirname(path))
        elif path.endswith(".ipynb"):
            waiting += targets(_notebook(ROOT / path), posixpath.dirname(path))
    return pages


def notebooks() -> list[Path]:
    """Return the notebooks."""
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def module_pages() -> dict[str, str]:
    """Return the pages of the public modules, by their place.

    What several modules offer is described on one page, that of the module it was written for.
    """
    loaded = {name: import_module(name) for names in MODULES.values() for name in names}
    offers: dict[int, list[str]] = {}
    for name, module in loaded.items():
        for one in module.__all__:
            offers.setdefault(id(getattr(module, one)), []).append(name)
    pages = {"generated/modules.md": _contents(loaded)}
    for name, module in loaded.items():
        elsewhere: dict[str, str] = {}
        for one in module.__all__:
            thing = getattr(module, one)
            home = _home(getattr(thing, "__module__", name), offers[id(thing)])
            if home != name and callable(thing):
                elsewhere[one] = home
        lines = [f"# {name}", "", "```{eval-rst}", f".. automodule:: {name}"]
        if elsewhere:
            lines += [f"   :exclude-members: {', '.join(elsewhere)}", "", "Also here:", ""]
            lines += [f"- :py:obj:`{home}.{one}`" for one, home in elsewhere.items()]
        pages[f"generated/api/{name}.md"] = "\n".join([*lines, "```", ""])
    return pages


def _contents(loaded: dict[str, ModuleType]) -> str:
    parts = []
    for part, names in MODULES.items():
        parts += [f"## {part}", ""]
        for name in names:
            said = (inspect.getdoc(loaded[name]) or "").split("\n\n")[0].replace("\n", " ")
            said = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", said).replace("``", "`")
            parts.append(f"- [`{name}`](/generated/api/{name}.md): {said}")
        parts += [
            "",
            "```{toctree}",
            ":hidden:",
            *(f"{name.removeprefix('privagg.')} </generated/api/{name}>" for name in names),
        ]
        parts += ["```", ""]
    return "\n".join(parts)


def _home(written: str, offering: list[str]) -> str:
    def nearness(name: str) -> tuple[int, int]:
        return len(posixpath.commonprefix([written, name])), -len(name)

    return max(offering, key=nearness)


@cache
def _names() -> frozenset[str]:
    """Return the last name of everything that the package's loaded modules and classes have."""
    names: set[str] = set()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "privagg":
            names.update(name.split("."))
            for one, thing in list(vars(module).items()):
                names.add(one)
                if isinstance(thing, type):
                    names.update(dir(thing), getattr(thing, "__annotations__", ()))
    return frozenset(names)


def is_ours(target: str) -> bool:
    """Return whether something of that name exists in the package.

    Parameters
    ----------
    target : str
        A name, dotted or not, as a docstring's role has it.
    """
    if target.startswith("privagg."):
        try:
            pkgutil.resolve_name(target)
        except (ImportError, AttributeError):
            return False
        return True
    return set(target.split(".")) <= _names()


def write() -> None:
    """Write the generated pages; leave alone what is as it was, remove what is no more."""
    pages = repository_pages() | module_pages()
    for place, text in pages.items():
        file = DOCS / place
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    for file in GENERATED.rglob("*.md"):
        if file.relative_to(DOCS).as_posix() not in pages:
            file.unlink()
