"""Execute notebooks in place and keep their outputs small, or check the outputs that they hold.

    python scripts/run_notebooks.py                       # every notebook
    python scripts/run_notebooks.py notebooks/rsfd.ipynb  # one
    python scripts/run_notebooks.py --check               # executes nothing

Outputs are stored so that a notebook can be read where nothing runs it. What differs from run to
run without a meaning is taken out: times, and pictures with more colours than they need. A
notebook is refused, and named with the reason, if it fails, prints on stderr, shows a folder of the
machine, an address in memory or a secret key, is larger than 250 kB, does not end in assertions
and a verdict in words, or if its code is not the code that made its outputs.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import json
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
LARGEST = 250_000
KEPT = ("image/png", "image/svg+xml", "text/html", "text/markdown", "text/plain")
# Patterns are taken apart where this file would otherwise hold what it looks for.
HIDDEN = {
    "a folder of this machine": re.compile(
        r"(?<![\w.<])/(?:" + "home|root|Users|tmp|opt|work|usr|var|private" + r")/\w|[A-Z]:\\\w"
    ),
    "an address in memory": re.compile(r"\bat 0x[0-9a-fA-F]{6,}"),
    "a secret key": re.compile("PRIVATE" + " KEY|" + r"\bsecret[_ ]key\W{1,4}[0-9a-f]{16}"),
}
VERDICT = re.compile(r"\bVerdict\b")


def code_cells(book: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the code cells in their order."""
    return [cell for cell in book["cells"] if cell["cell_type"] == "code"]


def source_of(cell: dict[str, Any]) -> str:
    """Return a cell's source as one text."""
    return "".join(cell["source"])


def fingerprint(book: dict[str, Any]) -> str:
    """Return a hash of all code: outputs belong to exactly one."""
    text = json.dumps([source_of(cell) for cell in code_cells(book)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def texts_of(output: dict[str, Any]) -> str:
    """Return what an output shows as text."""
    data = output.get("data", {})
    parts = [output.get("text", ""), *(v for k, v in data.items() if k != "image/png")]
    return "\n".join("".join(part) for part in parts if isinstance(part, str | list))


def problems(book: dict[str, Any], size: int) -> Iterator[str]:
    """Say what is wrong with a notebook's stored outputs.

    Parameters
    ----------
    book : dict
        The parsed notebook.
    size : int
        Bytes of its file.
    """
    cells = code_cells(book)
    if not any(cell["outputs"] for cell in cells):
        yield "it holds no output"
        return
    if book["metadata"].get("privagg", {}).get("code") != fingerprint(book):
        yield "its outputs were made by other code"
    if size > LARGEST:
        yield f"{size:,} bytes, more than {LARGEST:,}"
    if [cell["execution_count"] for cell in cells] != list(range(1, len(cells) + 1)):
        yield "its cells were not executed once each, from top to bottom"
    for number, cell in enumerate(cells, 1):
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                yield f"code cell {number} ended in {output['ename']}"
            if output.get("name") == "stderr":
                yield f"code cell {number} printed on stderr"
            if unknown := set(output.get("data", {})) - set(KEPT):
                yield f"code cell {number} holds {', '.join(sorted(unknown))}"
            for what, pattern in HIDDEN.items():
                if found := pattern.search(texts_of(output)):
                    yield f"code cell {number} shows {what}: {found[0]!r}"
    if not re.search(r"^\s*assert\b", source_of(cells[-1]), re.MULTILINE):
        yield "its last code cell asserts nothing"
    if not VERDICT.search("\n".join(map(texts_of, cells[-1]["outputs"]))):
        yield "its last code cell shows no verdict"


def smaller(png: str) -> str:
    """Return a picture, in base64, with at most 256 colours where that makes it smaller."""
    from PIL import Image

    raw = base64.b64decode(png)
    with Image.open(io.BytesIO(raw)) as image:
        flat = Image.new("RGB", image.size, "white")
        flat.paste(image, mask=image.getchannel("A") if "A" in image.getbands() else None)
    few = flat.quantize(256, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    few.save(buffer, "PNG", optimize=True)
    return base64.b64encode(min(raw, buffer.getvalue(), key=len)).decode()


def normalise(book: dict[str, Any]) -> None:
    """Take out of an executed notebook what says nothing, in place."""
    book["metadata"].pop("widgets", None)
    for cell in book["cells"]:
        cell["metadata"].pop("execution", None)
    for cell in code_cells(book):
        merged: list[dict[str, Any]] = []
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                output["text"] = "".join(output["text"])
                if merged and merged[-1].get("name") == output["name"]:
                    merged[-1]["text"] += output["text"]
                    continue
            elif "data" in output:
                output["metadata"] = {}
                data = {kind: output["data"][kind] for kind in KEPT if kind in output["data"]}
                if not data:
                    continue
                if "image/png" in data:
                    data["image/png"] = smaller("".join(data["image/png"])) + "\n"
                output["data"] = data
            merged.append(output)
        cell["outputs"] = merged
    book["metadata"]["privagg"] = {"code": fingerprint(book)}


def execute(path: Path) -> dict[str, Any]:
    """Run a notebook from top to bottom in a fresh kernel and return it with its outputs.

    Raises
    ------
    RuntimeError
        If a cell fails; it holds the cell and the error.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    text = path.read_text(encoding="utf-8")
    reads: Any = nbformat.reads  # has no types
    writes: Any = nbformat.writes
    book = reads(text, as_version=4)
    metadata = json.loads(text)["metadata"]
    client = NotebookClient(
        book,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=["--log-level=ERROR"],
    )
    try:
        client.execute()
    except CellExecutionError as failure:
        raise RuntimeError(str(failure)) from None
    executed: dict[str, Any] = json.loads(writes(book))
    # The kernel's own version is not the notebook's.
    executed["metadata"] = metadata
    return executed


def main() -> int:
    """Execute or check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "notebooks", nargs="*", type=Path, help="all of notebooks/ if none is named"
    )
    parser.add_argument("--check", action="store_true", help="only check what is stored")
    options = parser.parse_args()
    code = 0
    for path in options.notebooks or sorted(FOLDER.glob("*.ipynb")):
        said = ""
        if options.check:
            text = path.read_text(encoding="utf-8")
            book = json.loads(text)
        else:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            try:
                book = execute(path)
            except RuntimeError as failure:
                print(f"{path.name}: {failure}", flush=True)
                code = 1
                continue
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = sum(after[:2]) - sum(before[:2])
            normalise(book)
            text = json.dumps(book, indent=1, ensure_ascii=False) + "\n"
            path.write_text(text, encoding="utf-8")
            said = f": {seconds:.1f} CPU seconds, {len(text.encode()):,} bytes"
        found = list(problems(book, len(text.encode())))
        code |= bool(found)
        if said or found:
            print("\n  ".join([path.name + said, *found]), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
