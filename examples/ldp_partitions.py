"""A survey counted over partitions by Dask: each worker counts files, their states add up.

    pip install 'privagg[dask]'
    python examples/ldp_partitions.py                   # a survey of made-up people
    python examples/ldp_partitions.py config.json r1.bin r2.bin ...

A worker is given the survey's file and names of files with reports, and returns its sums as bytes:
a few kilobytes, however many reports there were. Sums are added in a tree. The same two functions
serve any scheduler whose workers see the files: Dask's on a cluster, Ray, a pool of processes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import dask
import numpy as np

from privagg.domain import Categorical
from privagg.protocols.collection import Collector, Survey, read_reports, write_reports

PARTITIONS = 4


def count(config: bytes, names: list[str]) -> bytes:
    """Return the sums over some files of reports: what a worker does."""
    survey = Survey.decode(config)
    collector = Collector(survey)
    for name in names:
        with Path(name).open("rb") as file:
            collector.merge(read_reports(survey, file, peer=name).state)
    return collector.state.encode()


def add(config: bytes, states: list[bytes]) -> bytes:
    """Return the sums of sums; each is checked like a stranger's."""
    collector = Collector(Survey.decode(config))
    for state in states:
        collector.merge(state, peer="worker")
    return collector.state.encode()


def aggregate(
    config: bytes, names: list[str], *, partitions: int = PARTITIONS, scheduler: str = "processes"
) -> Collector:
    """Count all files over Dask's workers."""
    if not names:
        raise ValueError("no files of reports to count")
    counting, adding = dask.delayed(count), dask.delayed(add)
    parts = [names[start::partitions] for start in range(min(partitions, len(names)))]
    level = [counting(config, part) for part in parts]
    while len(level) > 1:
        level = [adding(config, level[at : at + 2]) for at in range(0, len(level), 2)]
    (state,) = dask.compute(level[0], scheduler=scheduler)
    collector = Collector(Survey.decode(config))
    collector.merge(state)
    return collector


def make(folder: Path, files: int = 8, users: int = 5000) -> tuple[bytes, list[str], list[float]]:
    """Write reports of made-up people; return the survey, the files, and the true frequencies."""
    colours = ["red", "green", "blue", "none of these"]
    survey = Survey.declare({"colour": Categorical(colours)}, epsilon=2.0, mechanism="ss")
    draw = np.random.default_rng()
    truth = [0.5, 0.3, 0.15, 0.05]
    names = []
    for number in range(files):
        people = [colours[code] for code in draw.choice(4, users, p=truth)]
        names.append(str(folder / f"reports-{number}.bin"))
        with Path(names[-1]).open("wb") as file:
            write_reports(survey, [survey.randomize({"colour": people})], file)
    return survey.encode(), names, truth


def main(arguments: list[str]) -> None:
    """Print the estimates of the files that are named, or of made-up ones."""
    with tempfile.TemporaryDirectory() as folder:
        if arguments:
            config, names = Path(arguments[0]).read_bytes(), arguments[1:]
        else:
            config, names, _ = make(Path(folder))
        collector = aggregate(config, names)
    print(f"{collector.users:,} reports of {len(names)} files")
    for attribute, estimate in collector.estimate(population=True).items():
        for row in estimate.rows():
            shown = f"{row['estimate']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
            print(f"{attribute} = {row['value']}: {shown}")


if __name__ == "__main__":
    main(sys.argv[1:])
