"""Notebooks are stored with the outputs of their code, small, and fit to be read by strangers."""

from __future__ import annotations

import base64
import copy
import importlib.util
import io
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SPEC = importlib.util.spec_from_file_location(
    "run_notebooks", ROOT / "scripts" / "run_notebooks.py"
)
assert SPEC is not None
assert SPEC.loader is not None
script = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(script)


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def code(source, *outputs, count=1):
    kept = {"cell_type": "code", "metadata": {}, "source": source, "id": f"c{count}"}
    return {**kept, "execution_count": count, "outputs": list(outputs)}


def book(*cells):
    whole = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    whole["metadata"]["privagg"] = {"code": script.fingerprint(whole)}
    return whole


GOOD = book(
    {"cell_type": "markdown", "metadata": {}, "id": "w", "source": "Words."},
    code("x = 1\nprint(x)", stream("1\n")),
    code("assert x\nprint('Verdict: 1.')", stream("Verdict: 1.\n"), count=2),
)


def found(changed, size=1000):
    return list(script.problems(changed, size))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_can_be_read_as_it_is(path):
    text = path.read_text(encoding="utf-8")
    assert found(json.loads(text), len(text.encode())) == []


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 9
    assert found(GOOD) == []


def out(text, name="stdout"):
    return lambda b: b["cells"][1]["outputs"].append(stream(text, name))


FOLDER = "/" + "home/me/x.py"
BREAKS = {
    "holds no output": lambda b: [c.update(outputs=[]) for c in b["cells"][1:]],
    "made by other code": lambda b: b["cells"][1].update(source="x = 2"),
    "not executed once each": lambda b: b["cells"][1].update(execution_count=7),
    "ended in ValueError": lambda b: b["cells"][1]["outputs"].append(
        {"output_type": "error", "ename": "ValueError", "evalue": "", "traceback": []}
    ),
    "printed on stderr": out("careful", "stderr"),
    "a folder of this machine": out(f"read {FOLDER}"),
    "an address in memory": out("<Thing at 0x7f00aa12bc>"),
    "a secret key": out("-----BEGIN PRIVATE" + " KEY-----"),
    "holds application/x": lambda b: b["cells"][1]["outputs"].append(
        {"output_type": "display_data", "metadata": {}, "data": {"application/x": "1"}}
    ),
    "shows no verdict": lambda b: b["cells"][2].update(outputs=[]),
}


@pytest.mark.parametrize("words", BREAKS)
def test_what_is_refused(words):
    broken = copy.deepcopy(GOOD)
    BREAKS[words](broken)
    (problem,) = found(broken)
    assert words in problem


def test_size_and_assertions_are_asked_for():
    assert "250,001 bytes" in found(GOOD, 250_001)[0]
    silent = book(code("print('Verdict: 1.')", stream("Verdict: 1.\n")))
    assert found(silent) == ["its last code cell asserts nothing"]


def picture(colours):
    image = pytest.importorskip("PIL.Image").new("RGB", (64, 64))
    image.putdata([(i * i % colours, 3 * (i * i % colours), 7) for i in range(64 * 64)])
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def test_outputs_are_made_small():
    shown = {"image/png": picture(61), "text/plain": "<Figure>", "application/x": "1"}
    result = {"output_type": "display_data", "metadata": {"width": 1}, "data": shown}
    other = {"output_type": "display_data", "metadata": {}, "data": {"application/x": "1"}}
    cell = code("x", stream("a\n"), stream(["b\n", "c\n"]), stream("d", "stderr"), result, other)
    cell["metadata"] = {"execution": {"started": "now"}, "tags": ["t"]}
    made = book(cell)
    made["metadata"]["widgets"] = {"state": 1}
    script.normalise(made)
    first, second, third = made["cells"][0]["outputs"]
    assert first == stream("a\nb\nc\n")
    assert second == stream("d", "stderr")
    assert (third["metadata"], set(third["data"])) == ({}, {"image/png", "text/plain"})
    assert len(third["data"]["image/png"]) < len(shown["image/png"])
    assert made["cells"][0]["metadata"] == {"tags": ["t"]}
    assert set(made["metadata"]) == {"privagg"}


def test_notebooks_are_executed_and_a_failure_changes_nothing(tmp_path, monkeypatch, capsys):
    pytest.importorskip("nbclient")
    empty = [code("x = 20"), code("assert x\nprint(f'Verdict: {x + 1}.')", count=2)]
    for cell in empty:
        cell.update(outputs=[], execution_count=None)
    path, bad = tmp_path / "good.ipynb", tmp_path / "bad.ipynb"
    path.write_text(json.dumps({**book(*empty), "metadata": {}}), encoding="utf-8")
    empty[1] = {**empty[1], "source": "assert x == 21, 'not so'"}
    bad.write_text(json.dumps(book(*empty)), encoding="utf-8")
    before = bad.read_bytes()
    monkeypatch.setattr(sys, "argv", ["run", str(path), str(bad)])
    assert script.main() == 1
    said = capsys.readouterr().out
    assert "good.ipynb: " in said
    assert "not so" in said
    assert bad.read_bytes() == before
    made = json.loads(path.read_text(encoding="utf-8"))
    assert made["cells"][1]["outputs"] == [stream("Verdict: 21.\n")]
    monkeypatch.setattr(sys, "argv", ["run", "--check", str(path)])
    assert script.main() == 0
    assert capsys.readouterr().out == ""
