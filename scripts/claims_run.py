"""Run the commands of claims, each in a process of its own, and read the values."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from claims_list import PASSED, Claim, Value, evaluate, parts

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out"
"""Where commands put files for the next one; git ignores it."""

PROGRAMS = {
    "privagg": ["-m", "privagg"],
    "pytest": ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "0"],
    "python": [],
}
GOOD = {0, 4, 5}
"""Exit codes: done, a lie was noticed, a leak was found."""

_LIMIT = 1800


class Failed(Exception):
    """A command gave no value; the text says why."""


def start(claims: Sequence[Claim], jobs: int) -> dict[str, Future[Any]]:
    """Begin the commands of claims, each once, `jobs` at a time, and return what they will give.

    Quick tests with the same options share a process, a dozen commands in each: starting one takes
    longer than most of them.
    """
    pool = ThreadPoolExecutor(jobs)
    known: dict[str, Future[Any]] = {}
    commands = list(dict.fromkeys(command for claim in claims for command in claim.run))
    slow = {command for claim in claims if claim.slow for command in claim.run}
    tests = [command for command in commands if command.startswith("pytest ")]
    quick = [command for command in tests if command not in slow]
    batches = {command: (command,) for command in tests} | {
        command: batch
        for options in dict.fromkeys(test_options(command) for command in quick)
        for batch in batched([one for one in quick if test_options(one) == options], 12)
        for command in batch
    }
    running: dict[tuple[str, ...], Future[dict[str, str]]] = {}
    for command in commands:
        batch = batches.get(command)
        if batch is None:
            known[command] = pool.submit(output, command)
            continue
        if batch not in running:
            running[batch] = pool.submit(outcomes, batch)
        known[command] = _Part(running[batch], command)
    return known


def batched(items: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """Yield the items in runs of `size`."""
    left = iter(items)
    while batch := tuple(islice(left, size)):
        yield batch


def value(claim: Claim, known: dict[str, Future[Any]]) -> Value:
    """Return the value of a claim.

    Parameters
    ----------
    claim : Claim
        Whose commands are waited for.
    known : dict
        What :func:`start` returned.

    Raises
    ------
    Failed
        If a command fails, or prints no such value.
    """
    documents = [known[command].result() for command in claim.run]
    if claim.tested:
        return PASSED
    try:
        return evaluate(claim.value, documents)
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
        raise Failed(f"no value at {claim.value}: {error!r}") from None


def output(command: str) -> Any:
    """Run a line of commands and return the JSON that the last one prints.

    Raises
    ------
    Failed
        If one ends badly, or prints none.
    """
    OUT.mkdir(exist_ok=True)
    for part in parts(command):
        done = _call(shlex.split(part))
        if done.returncode not in GOOD:
            raise Failed(f"exit code {done.returncode}: {_last(done.stderr or done.stdout)}")
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise Failed(f"printed no JSON: {error}") from None


def test_options(command: str) -> tuple[str, ...]:
    """Return the words of a line of tests that name none."""
    return tuple(word for word in shlex.split(command)[1:] if not _is_node(word))


def nodes(command: str) -> list[str]:
    """Return the files and tests that a line of tests names."""
    return [word for word in shlex.split(command)[1:] if _is_node(word)]


def _is_node(word: str) -> bool:
    return word.startswith(("tests/", "notebooks/"))


def outcomes(commands: Sequence[str]) -> dict[str, str]:
    """Run tests in one process; return by command nothing, or what went wrong.

    A command whose tests were all skipped shows nothing, and has not passed.
    """
    wanted = dict.fromkeys(node for command in commands for node in nodes(command))
    done = _call(["pytest", *test_options(commands[0]), *wanted, "-rpfE"])
    summary = re.findall(r"^(PASSED|FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return {command: _problem(command, summary, _last(done.stdout)) for command in commands}


def _problem(command: str, summary: Sequence[tuple[str, str]], last: str) -> str:
    for node in nodes(command):
        path, _, name = node.partition("::")
        mine = [
            (outcome, case)
            for outcome, case in summary
            if case.startswith(f"{path}::") and name in {"", case.partition("::")[2].split("[")[0]}
        ]
        bad = [case for outcome, case in mine if outcome != "PASSED"]
        if bad:
            return f"{bad[0].partition('::')[2]} failed"
        if not mine:
            return f"no test of {node} passed: {last}"
    return ""


class _Part(Future[Any]):
    """What a batch of tests says of one of its commands."""

    def __init__(self, batch: Future[dict[str, str]], command: str) -> None:
        super().__init__()
        self._batch, self._command = batch, command

    def done(self) -> bool:
        """Say whether the batch has ended."""
        return self._batch.done()

    def result(self, timeout: float | None = None) -> str:
        """Wait for the batch."""
        problem = self._batch.result(timeout)[self._command]
        if problem:
            raise Failed(f"tests did not pass: {problem}")
        return PASSED


def _call(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        **os.environ,
        "NO_COLOR": "1",
        "PYTHONPATH": str(ROOT),
    }
    program, *rest = words
    quiet = ["--quiet"] if program == "privagg" else []
    line = [sys.executable, *PROGRAMS[program], *rest, *quiet]
    try:
        return subprocess.run(
            line,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"not done after {_LIMIT} seconds") from None


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else "no output"
