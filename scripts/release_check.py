"""Check what would be released: the archives' contents, and the wheel with each extra.

    python scripts/release_check.py                     # all extras; some minutes
    python scripts/release_check.py --extra none --extra plots
    python scripts/release_check.py --contents          # only the archives

The wheel is built from the source archive, so a file that either lacks is noticed. Each extra gets
an environment of its own outside the checkout, in which its smoke test runs: a script of
``scripts/smoke``, or commands. What fails is named at the end, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import email
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

COMMANDS = {
    "ray": (
        "simulate secagg --clients 6 --dim 40 --value-bits 12 --engine ray --workers 1 --quiet",
    ),
    "responses": ("simulate responses --input adult --target income --bag-size 50 --quiet",),
    "plots": (
        "simulate secagg --clients 6 --dim 40 --value-bits 12 --report page.html --quiet",
        "data show adult --plot adult.svg",
    ),
    "audit": ("audit ldp --values 8 --oracles grr --epsilon 2 --quiet",),
}
"""Smoke tests that are commands: per extra, what follows ``privagg``. The others are scripts."""

NEVER = re.compile(r"(^|/)(__pycache__|\.git|\.venv[^/]*|\.env|\.nfs.*)(/|$)|\.(pyc|nbi|nbc|so)$")
"""What no archive may hold: caches, environments, compiled files."""


class Wrong(Exception):
    """Something that must not be released."""


def tracked() -> set[str]:
    """Return the files that git keeps, as paths from the root."""
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return {name for name in run.stdout.decode().split("\0") if name}


def build(folder: Path) -> tuple[Path, Path]:
    """Build both archives into a folder; return the source archive and the wheel."""
    made = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise Wrong(f"the build failed:\n{made.stdout[-2000:]}{made.stderr[-2000:]}")
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return source, wheel


def check_source(archive: Path, version: str) -> str:
    """Hold the source archive against what git keeps."""
    prefix = f"privagg-{version}/"
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
    outside = [one.name for one in members if not one.name.startswith(prefix)]
    odd = [one.name for one in members if not (one.isfile() or one.isdir())]
    held = {one.name.removeprefix(prefix) for one in members if one.isfile()}
    wanted = {name for name in tracked() if not name.startswith(".")}
    _same("the source archive", held - {"PKG-INFO", ".gitignore"}, wanted, [*outside, *odd])
    return f"{archive.name}: {len(held)} files, {archive.stat().st_size / 1e6:.1f} MB"


def check_wheel(archive: Path, project: dict[str, object], version: str) -> str:
    """Hold the wheel against what git keeps, and its metadata against the project's."""
    info = f"privagg-{version}.dist-info/"
    with zipfile.ZipFile(archive) as wheel:
        held = set(wheel.namelist())
        stated = email.message_from_bytes(wheel.read(f"{info}METADATA"))
        if b"privagg = privagg.cli.main:main" not in wheel.read(f"{info}entry_points.txt"):
            raise Wrong("the wheel has no command `privagg`")
    wanted = {name for name in tracked() if name.startswith("privagg/")}
    _same("the wheel", {name for name in held if not name.startswith(info)}, wanted, [])
    if f"{info}licenses/LICENSE" not in held or "privagg/py.typed" not in held:
        raise Wrong("the wheel lacks its licence or py.typed")
    extras = set(project["optional-dependencies"])  # type: ignore[call-overload]
    for name, found, asked in (
        ("version", stated["Version"], version),
        ("extras", set(stated.get_all("Provides-Extra", [])), extras),
        ("Python", stated["Requires-Python"], project["requires-python"]),
        ("licence", stated["License-Expression"], project["license"]),
    ):
        if found != asked:
            raise Wrong(f"the wheel's {name} is {found}, not {asked}")
    return f"{archive.name}: {len(held)} files, {archive.stat().st_size / 1e6:.1f} MB"


def check_versions(version: str) -> str:
    """Hold the version in every place that states it."""
    code = (ROOT / "privagg" / "__init__.py").read_text(encoding="utf-8")
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$", log, re.MULTILINE)
    if f'"{version}"' not in code and "importlib.metadata" not in code:
        raise Wrong(f"privagg/__init__.py does not say {version}")
    if newest is None or newest[1] != version:
        raise Wrong(f"CHANGELOG.md's newest version is not {version}, with a date")
    return f"version {version}, dated in the changelog"


def check_extra(wheel: Path, extra: str, constraints: str | None) -> str:
    """Install the wheel with one extra into an environment of its own, and use it there."""
    with tempfile.TemporaryDirectory() as name:
        away = Path(name)
        venv.create(away / "venv", with_pip=True)
        python = away / "venv" / "bin" / "python"
        target = f"privagg[{extra}] @ {wheel.as_uri()}" if extra != "none" else str(wheel)
        pinned = ["-c", constraints] if constraints else []
        pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        _run([*pip, *pinned, target], away)
        part = "without_extras" if extra == "none" else f"with_{extra}"
        script = ROOT / "scripts" / "smoke" / f"{part}.py"
        strict = (
            ["-W", "error"] if extra == "none" else []
        )  # of our own; others' warnings are theirs
        walk = [str(ROOT / "scripts" / "import_every_module.py"), str(ROOT)]
        said = _run([str(python), "-I", *strict, *walk], away)
        if script.is_file():
            said = _run([str(python), "-I", str(script)], away)
        for line in COMMANDS.get(extra, ()):
            said = _run([str(away / "venv" / "bin" / "privagg"), *line.split()], away)
        if not script.is_file() and extra not in COMMANDS:
            raise Wrong(f"no smoke test: add scripts/smoke/with_{extra}.py")
        return said.strip().splitlines()[-1]


def _same(what: str, held: set[str], wanted: set[str], odd: list[str]) -> None:
    never = sorted(name for name in held if NEVER.search(name))
    for fault, names in (
        ("holds what does not belong in it", [*never, *odd]),
        ("lacks", sorted(wanted - held)),
        ("holds what git does not keep", sorted(held - wanted)),
    ):
        if names:
            raise Wrong(f"{what} {fault}: {', '.join(names[:5])} ({len(names)} in all)")


def _run(command: list[str], away: Path) -> str:
    done = subprocess.run(
        command,
        cwd=away,
        env={"PATH": f"{away / 'venv' / 'bin'}:/usr/bin:/bin", "HOME": str(away)},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    if done.returncode:
        words = (done.stderr or done.stdout).strip()[-1500:]
        raise Wrong(f"`{' '.join(command[-4:])}` ended with {done.returncode}: {words}")
    return done.stdout or done.stderr or "(nothing said)"


def main(arguments: Iterable[str] | None = None) -> int:
    """Run the checks; return the exit code."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    version = project["version"]
    extras = ["none", *(name for name in project["optional-dependencies"] if name != "dev")]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extra", action="append", choices=extras, help="only this; repeat it")
    parser.add_argument("--contents", action="store_true", help="only what the archives hold")
    parser.add_argument("--constraints", help="a file of pins for pip")
    options = parser.parse_args(None if arguments is None else list(arguments))
    pins = str(Path(options.constraints).resolve()) if options.constraints else None
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    source, wheel = build(dist)
    steps: list[tuple[str, Callable[[], str]]] = [
        ("versions", partial(check_versions, version)),
        ("source archive", partial(check_source, source, version)),
        ("wheel", partial(check_wheel, wheel, project, version)),
    ]
    for extra in [] if options.contents else options.extra or extras:
        steps.append((f"extra {extra}", partial(check_extra, wheel, extra, pins)))
    failed = 0
    for name, step in steps:
        start = time.perf_counter()
        try:
            said, state = step(), "good"
        except Wrong as wrong:
            said, state, failed = str(wrong), "BAD", failed + 1
        print(f"{state:4}  {name:16}  {time.perf_counter() - start:5.0f} s  {said}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main())
