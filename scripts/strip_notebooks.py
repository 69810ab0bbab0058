"""Empty the outputs and execution counts of notebooks, and say which ones had any.

Outputs are made anew wherever a notebook is executed; stored ones go stale, and carry whatever the
machine that made them printed. Ends with 1 if a file was changed, as a pre-commit hook should.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def strip(path: Path) -> bool:
    """Empty one notebook in place; return whether anything was there."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    changed = False
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        if cell["outputs"] or cell["execution_count"] is not None:
            changed = True
            cell["outputs"] = []
            cell["execution_count"] = None
        # Times of the last execution, written by some front ends.
        changed |= cell["metadata"].pop("execution", None) is not None
    if changed:
        text = json.dumps(notebook, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
    return changed


def main(paths: list[str]) -> int:
    """Strip each notebook named; return the exit code."""
    stripped = [path for path in paths if strip(Path(path))]
    for path in stripped:
        print(f"{path}: outputs removed")
    return int(bool(stripped))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
