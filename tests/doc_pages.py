"""The pages, and how their parts are found."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CLI_PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
SECAGG_PAGE = (ROOT / "docs" / "secagg.md").read_text(encoding="utf-8")


sys.path.append(str(ROOT / "scripts"))  # its modules import each other


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


blocks = load_script("write_docs_blocks")


def page_id(path):
    return path.relative_to(ROOT).as_posix()


def code_blocks(text, language):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [source for found, source in fenced if found == language]


def prose(text):
    """Return the page without its code blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path):
    """Return the anchors that a page's headings get on the usual hosts."""
    titles = re.findall(r"^#+ (.+)$", prose(path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def section(text, heading):
    """Return what stands under a heading, up to the next of the same level."""
    level = heading.split(" ")[0]
    found = re.search(
        rf"^{re.escape(heading)}\n(.*?)(?=^{level} |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert found, heading
    return found[1]


def first_cells(text):
    return [line.split(" | ")[0].lstrip("| ") for line in text.splitlines() if line[:1] == "|"][2:]
