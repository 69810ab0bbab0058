"""How Sphinx makes one site of the pages in this folder: `make docs`.

Nothing is fetched: no inventory of another project, no script, no font.
"""

from __future__ import annotations

import gc
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.search.en import SearchEnglish

gc.set_threshold(100_000)  # documents are large graphs that live to the end

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "scripts")]

import docs_site  # noqa: E402

import privagg  # noqa: E402

project = "privagg"
author = "The privagg authors"
project_copyright = "The privagg authors"
version = release = privagg.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
root_doc = "index"
exclude_patterns = ["_static", "generated/modules.md"]
nitpicky = True
smartquotes = False  # two hyphens are two hyphens

myst_heading_anchors = 6
myst_enable_extensions = ["colon_fence"]

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "none"
autodoc_typehints_format = "short"
napoleon_google_docstring = False
napoleon_use_param = False  # the types are prose (shapes, dtypes, units), not names to look up
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]

html_theme = "furo"
html_title = f"privagg {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"


# Most words come often; finding their stems anew each time takes a tenth of the build.
SearchEnglish.stem = cache(SearchEnglish.stem)


def _in_the_site(app: Any, docname: str, source: list[str]) -> None:
    if not docname.startswith("generated/"):
        path = Path(app.env.doc2path(docname)).relative_to(docs_site.ROOT)
        text = docs_site.tables_for_diagrams(docs_site.without_empty_patterns(source[0], path))
        source[0] = docs_site.relocate(text, path.parent.as_posix())


def _not_ours(_app: Any, _what: str, name: str, *_more: Any) -> bool | None:
    """Leave out the methods that scikit-learn adds to an estimator for its own routing."""
    return True if re.fullmatch(r"(?:.*\.)?set_\w+_request", name) else None


_kept: dict[str, list[str]] = {}


def _keep(_app: Any, what: str, name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    if what in {"property", "attribute", "data"}:
        _kept[name] = lines[:]


def _give_back(_app: Any, _what: str, name: str, _t: Any, _options: Any, lines: list[str]) -> None:
    """Undo what napoleon makes of a property's text: what is before a colon is not its type."""
    lines[:] = _kept.pop(name, lines)


def _help(_app: Any, _context: Any, lines: list[str]) -> None:
    """Show lines that belong as they stand as such, and mask what is markup only for Sphinx."""
    made: list[str] = []
    for line in lines:
        if line.startswith("| "):
            if not made or not made[-1].startswith("   "):
                made += [".. code-block:: text", ""]
            made.append(f"   {line[2:]}")
        else:
            made.append(re.sub(r"([*`|])", r"\\\1", line))
    lines[:] = made


def _epilog(_app: Any, _context: Any, lines: list[str]) -> None:
    """Show the lines behind the options as they stand."""
    if any(lines):
        lines[:] = [".. code-block:: text", "", *(f"   {line}" for line in lines if line), ""]


def _whole_names(_app: Any, document: nodes.document) -> None:
    """Give each command's section the whole name as its title: `privagg audit linear`."""
    for section in document.findall(nodes.section):
        found = section["ids"][0]
        last = found.removeprefix("privagg-").rpartition("-")[2]
        if found.startswith("privagg-") and section[0].astext() == last:
            section[0][:] = [nodes.Text(found.replace("-", " "))]


def _named_but_not_shown(_app: Any, _env: Any, node: Any, shown: Any) -> Any:
    """Return the plain name where a docstring names something of ours that has no page."""
    if node.get("refdomain") == "py" and docs_site.is_ours(node["reftarget"]):
        return shown
    return None


def setup(app: Any) -> None:
    """Make the generated pages before Sphinx looks for pages."""
    docs_site.write()
    app.connect("source-read", _in_the_site)
    app.connect("missing-reference", _named_but_not_shown)
    app.connect("autodoc-skip-member", _not_ours)
    app.connect("autodoc-process-docstring", _keep, priority=400)
    app.connect("autodoc-process-docstring", _give_back, priority=600)
    app.connect("sphinx-click-process-description", _help)
    app.connect("sphinx-click-process-epilog", _epilog)
    app.connect("doctree-read", _whole_names, priority=400)  # before contents are collected
