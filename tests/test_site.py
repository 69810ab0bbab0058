"""The site's parts fit together. The build itself, warnings as errors, is `make docs`."""

from __future__ import annotations

import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from privagg.cli.main import run

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
sys.path.append(str(ROOT / "scripts"))  # its modules import each other

import check_site  # noqa: E402
import docs_modules  # noqa: E402
import docs_site  # noqa: E402

PAGES = [path for path in sorted(DOCS.rglob("*.md")) if docs_site.GENERATED not in path.parents]
MODULES = [name for names in docs_modules.MODULES.values() for name in names]
# Whether these can be imported the build shows: it takes seconds, for torch and scikit-learn.
SLOW = re.compile(r"\.integrations\.|\.estimators$|\.selection$")


def entries(text):
    """Return what the page's navigation lists."""
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if not line.startswith(":"):
                yield (re.search(r"<(.+)>$", line) or re.search(r"(.+)", line))[1]


def test_every_page_is_in_the_navigation_once():
    listed = []
    for entry in entries((DOCS / "index.md").read_text(encoding="utf-8")):
        if not entry.startswith("generated/"):
            found = sorted(DOCS.glob(f"{entry}.md"))
            assert found or "*" in entry, entry
            listed += found
    assert sorted(listed) == sorted(set(PAGES) - {DOCS / "index.md"})


def test_every_generated_page_is_in_the_navigation_or_says_that_it_is_not():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for place, text in docs_site.repository_pages().items():
        listed = any(Path(place).match(f"{entry}.md") for entry in entries(index))
        assert listed is not text.startswith("---\norphan: true\n---\n"), place


def test_the_reference_has_what_pages_import():
    texts = [path.read_text(encoding="utf-8") for path in [*PAGES, ROOT / "README.md"]]
    imported = set(re.findall(r"^from (privagg[\w.]+) import", "".join(texts), re.MULTILINE))
    assert imported
    families = {"privagg.attacks", "privagg.protocols", "privagg.protocols.responses"}
    for name in imported - families - {"privagg.testing"}:
        assert any(name == one or name.startswith(f"{one}.") for one in MODULES), name


@pytest.mark.parametrize("name", [name for name in MODULES if not SLOW.search(name)])
def test_modules_of_the_reference_say_what_they_offer(name):
    module = importlib.import_module(name)
    assert module.__doc__
    assert all(hasattr(module, one) for one in module.__all__)


def test_the_configuration_can_be_read():
    conf = runpy.run_path(str(DOCS / "conf.py"))
    assert conf["root_doc"] == "index"
    assert conf["nitpicky"] is True
    assert not any(name.startswith("sphinx.ext.intersphinx") for name in conf["extensions"])


def test_links_out_of_the_folder_lead_to_pages():
    text = "[a](../SECURITY.md#x) [b](../notebooks/rsfd.ipynb) [c](keys.md) [d](../tests) [e](#f)\n"
    fence = "```text\n[a](../SECURITY.md)\n```\n"
    assert docs_site.relocate(text + fence, "docs") == (
        "[a](/generated/repository/SECURITY.md#x) [b](/generated/repository/notebooks/rsfd.md) "
        "[c](/keys.md) d (`tests`) [e](#f)\n" + fence
    )
    assert list(docs_site.targets(text + fence, "docs")) == [
        "SECURITY.md",
        "notebooks/rsfd.ipynb",
        "docs/keys.md",
        "tests",
    ]


def test_a_name_in_a_docstring_has_to_exist():
    assert docs_site.is_ours("privagg.protocols.secagg.transcript_file.read")
    assert not docs_site.is_ours("privagg.protocols.secagg.transcript_file.raed")
    assert not docs_site.is_ours("no_such_name_anywhere")


def test_diagrams_become_tables():
    page = "```mermaid\nstateDiagram-v2\n    [*] --> IDLE\n    IDLE --> DONE: Start\n```\n"
    assert docs_site.tables_for_diagrams(page).splitlines()[2:] == [
        "| (start) |  | `IDLE` |",
        "| `IDLE` | `Start` | `DONE` |",
    ]


def test_dead_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">1</a><a href="b.html#gone">2</a><a href="c.html">3</a>'
        '<a href="https://example.org/x">4</a><a href="https://nowhere">5</a>'
        '<script src="https://example.org/x.js"></script><a href="#gone">6</a>'
    )
    (tmp_path / "b.html").write_text('<p id="here"></p><a href="a.html">back</a>')
    assert check_site.problems(tmp_path) == [
        "a.html: #gone: no such anchor",
        "a.html: b.html#gone: no such anchor",
        "a.html: c.html: no such file",
        "a.html: https://example.org/x.js: loaded from elsewhere",
        "a.html: https://nowhere: not an address",
    ]
    assert check_site.problems(tmp_path / "nothing")


def test_the_commands_of_the_first_page_do_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "start.md").read_text(encoding="utf-8")
    recorded = """privagg() { printf '%s\\037' "$@" >> calls; echo >> calls; }\n"""
    for block in re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        subprocess.run(["bash", "-euc", recorded + block], check=True)
    calls = [line.split("\037")[:-1] for line in Path("calls").read_text().splitlines()]
    assert [(call[:2], run(call)) for call in calls] == [
        (["simulate", "secagg"], 0),
        (["ldp", "init"], 0),
        (["ldp", "randomize"], 0),
        (["ldp", "aggregate"], 0),
        (["ldp", "estimate"], 0),
        (["audit", "linear"], 5),
    ]
    shown = capsys.readouterr().out
    assert "The sum equals the plain sum of the 29 survivors exactly." in shown
    assert "LEAK: 1 of 3 clients are determined, the first after round 2" in shown
    assert "LEAK: 1 of 3 clients are determined, the first after round 2" in page
