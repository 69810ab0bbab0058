"""The pages say what the code does: their code runs, their links hold."""

from __future__ import annotations

import importlib
import importlib.util
import re

import pytest
from doc_pages import PAGES, ROOT, anchors, blocks, code_blocks, page_id, prose


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_code_blocks_run(path, capsys):
    sources = code_blocks(path.read_text(encoding="utf-8"), "python")
    names = {"__name__": "__docs__"}
    for number, source in enumerate(sources):
        exec(compile(source, f"{path.name}, block {number}", "exec"), names)
    if path.name in {"README.md", "secagg.md", "sharp-edges.md"}:
        assert sources, "the page should have code"
    if path.name == "README.md":
        assert capsys.readouterr().out.startswith("19 inputs, ")


@pytest.mark.parametrize("path", [*PAGES, ROOT / "SECURITY.md"], ids=page_id)
def test_relative_links_exist(path):
    text = prose(path.read_text(encoding="utf-8"))
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        where = (path.parent / name).resolve() if name else path
        if not where.exists() or (anchor and anchor not in anchors(where)):
            broken.append(target)
    assert broken == []


def test_pictures_are_small_and_all_used():
    pictures = sorted((ROOT / "docs" / "images").glob("*"))
    assert {path.suffix for path in pictures} == {".png", ".svg"}
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    for path in pictures:
        assert path.stat().st_size < 200_000
        assert f"images/{path.name})" in text


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_named_tests_and_modules_exist(path):
    text = path.read_text(encoding="utf-8")
    for name, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
        assert (ROOT / name).is_file(), name
        assert not test or f"def {test}(" in (ROOT / name).read_text(encoding="utf-8"), test
    for name in re.findall(r"`(scripts/\w+\.py)`", text):
        assert (ROOT / name).is_file(), name
    for dotted in re.findall(r"`(privagg(?:\.\w+)+)`", text):
        module, _, attribute = dotted.rpartition(".")
        if importlib.util.find_spec(module) and hasattr(importlib.import_module(module), attribute):
            continue
        assert importlib.util.find_spec(dotted), dotted


@pytest.mark.parametrize("path", [path for path in PAGES if path.name != "README.md"], ids=page_id)
def test_blocks_are_those_of_the_code(path):
    text = path.read_text(encoding="utf-8")
    assert blocks.rewrite(text) == text, "run scripts/write_docs_blocks.py"


def test_every_block_is_in_a_page():
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    assert set(re.findall(r"<!-- begin ([\w-]+) -->", text)) == set(blocks.BLOCKS)


def test_a_stale_block_is_noticed():
    text = "<!-- begin rounds -->\n| 1 |\n<!-- end rounds -->"
    assert blocks.rewrite(text) == f"<!-- begin rounds -->\n{blocks.rounds()}<!-- end rounds -->"


def test_readme_tree_is_the_package():
    tree = code_blocks((ROOT / "README.md").read_text(encoding="utf-8"), "")[0]
    named = {line.split()[0].split("/")[0] for line in tree.splitlines() if line.startswith("  ")}
    assert {name for name in named if not (ROOT / "privagg" / name).exists()} == set()
    public = {
        path.name
        for path in (ROOT / "privagg").iterdir()
        if not path.name.startswith("_")
        and (path.suffix == ".py" or (path / "__init__.py").exists())
    }
    assert public - named == set()


def test_named_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    targets = set(re.findall(r"`make (\w[\w-]*)", text)) | set(
        re.findall(r"^make (\w[\w-]*)", text, re.MULTILINE)
    )
    assert {"demo", "test"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
