"""The project's own files keep to the project's rules."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import privagg

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "privagg"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
CORE = PROJECT["project"]["dependencies"]

MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = MODULES + sorted(
    path for folder in ("tests", "scripts", "examples") for path in (ROOT / folder).rglob("*.py")
)
TEXTS = sorted(
    path
    for pattern in ("*.md", "Makefile", "*.toml", "*.txt", "*.yaml", ".ci/*", "scripts/*.py")
    for path in ROOT.glob(pattern)
) + sorted(
    path
    for folder in ("privagg", "tests", "examples", "notebooks", "docs")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".md", ".ipynb", ".json", ".toml", ".html", ".txt"}
    and ".ipynb_checkpoints" not in path.parts
)

# Taken apart, so that this file does not hold what it looks for.
FORBIDDEN = [
    re.compile(r"(?<![\w.])/" + folder + "/") for folder in ("work", "opt", "root", "home", "Users")
] + [re.compile("shared" + r"/(?:design|facts|data|fresh|vectors)"), re.compile("file:" + "//")]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_public(path: Path) -> bool:
    return not any(part.startswith("_") for part in dotted(path).split("."))


def test_the_package_under_test_is_this_checkout():
    assert Path(privagg.__file__).resolve().parent == PACKAGE


def test_version_is_the_same_in_both_places():
    assert PROJECT["project"]["version"] == privagg.__version__
    assert Version(privagg.__version__).release


def test_changelog_has_this_version_or_unreleased_on_top():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert headings[0] in {"Unreleased", privagg.__version__}


def test_extras_exist():
    assert {"torch", "flower", "plots", "notebooks", "gpu", "dev"} <= set(EXTRAS)


@pytest.mark.parametrize(
    "line", [*CORE, *(line for lines in EXTRAS.values() for line in lines)], ids=str
)
def test_requirements_have_lower_bounds_and_no_caps(line):
    requirement = Requirement(line)
    if requirement.name == "privagg":
        assert requirement.extras <= set(EXTRAS)
        return
    # The compiler's version decides which drivers can run what it makes.
    exact = requirement.name == "cuda-toolkit"
    assert [part.operator for part in requirement.specifier] == ["==" if exact else ">="]
    assert requirement.url is None
    assert requirement.marker is None


def test_constraints_pin_what_is_required():
    pins = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, version = re.fullmatch(r"([a-z0-9-]+)==([\w.]+)", line).groups()
            assert name == canonicalize_name(name)
            assert name not in pins
            pins[name] = Version(version)
    required = [*CORE, *EXTRAS["dev"], *EXTRAS["plots"]]
    for requirement in map(Requirement, required):
        if requirement.name != "privagg":
            assert pins[canonicalize_name(requirement.name)] in requirement.specifier
    assert pins["torch"] == Version("2.13.0")


def test_every_top_level_module_has_its_floor():
    (contract,) = PROJECT["tool"]["importlinter"]["contracts"]
    floors = {name for layer in contract["layers"] for name in re.findall(r"privagg\.\w+", layer)}
    found = {".".join(dotted(path).split(".")[:2]) for path in MODULES} - {"privagg"}
    assert found <= floors, "add the module to the layers in pyproject.toml"


def test_markers_left_out_by_default_have_their_command():
    options = PROJECT["tool"]["pytest"]["ini_options"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for marker in options["markers"]:
        name = marker.split(":")[0]
        assert f"not {name}" in " ".join(options["addopts"])
        assert f"-m {name} " in makefile


def test_every_file_is_short():
    lines = {relative(path): len(path.read_text("utf-8").splitlines()) for path in SOURCES}
    assert {name: count for name, count in lines.items() if count > 450} == {}


@pytest.mark.parametrize("path", [path for path in MODULES if is_public(path)], ids=relative)
def test_public_module_has_docstring_and_all(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    if len(tree.body) == 1:
        return  # A folder's docstring and nothing to export.
    listed = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and [target.id for target in node.targets if isinstance(target, ast.Name)] == ["__all__"]
    ]
    assert len(listed) == 1, "__all__ is missing"
    names = ast.literal_eval(listed[0])
    assert len(names) == len(set(names))
    if path.is_relative_to(PACKAGE / "integrations"):
        return  # Importing it needs an extra.
    module = importlib.import_module(dotted(path))
    assert [name for name in names if not hasattr(module, name)] == []


def test_no_text_names_a_path_of_a_machine():
    found = {
        relative(path): [match.group() for one in FORBIDDEN for match in one.finditer(text)]
        for path, text in ((path, path.read_text(encoding="utf-8")) for path in TEXTS)
    }
    assert {name: paths for name, paths in found.items() if paths} == {}


def test_wheel_holds_modules_tables_and_marker(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = f"privagg-{privagg.__version__}.dist-info"
        commands = archive.read(f"{info}/entry_points.txt").decode()
    assert {relative(path) for path in MODULES} <= names
    assert {relative(path) for path in (PACKAGE / "datasets" / "tables").iterdir()} <= names
    assert {"privagg/py.typed", "privagg/datasets/README.md"} <= names
    assert f"{info}/licenses/LICENSE" in names
    assert "privagg = privagg.cli.main:main" in commands
    assert {name.split("/")[0] for name in names} == {"privagg", info}


def test_licence_is_the_whole_apache_licence():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    for number in range(1, 10):
        assert re.search(rf"^   {number}\. [A-Z]", text, re.MULTILINE)
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"
