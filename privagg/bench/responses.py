"""``privagg bench responses``: releases of bags, and learning from them.

Beside scikit-learn's logistic regression on every row's own response, which knows what we do not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from privagg.bench.clock import Timing, cycles_per_second, race
from privagg.bench.rows import OURS, Case, Row, Step, check_parts, report, sizes
from privagg.errors import UsageError
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.curator import Curator
from privagg.protocols.responses.params import Release
from privagg.report import Report

__all__ = ["PARTS", "bench"]

PARTS = ("fit", "path", "release")

_SIZES = (5, 10, 20)
_RHOS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 2.0, 4.0)
_RIDGES = tuple(10.0 ** (power / 2) for power in range(-10, 1))


def bench(
    *,
    parts: Sequence[str] = PARTS,
    rows: int = 1_000_000,
    features: int = 100,
    release_rows: int = 10_000_000,
    splits: int = 30,
    repeats: int = 3,
    step: Step = lambda phase, done, total: None,
) -> Report:
    """Time releases and learning.

    Parameters
    ----------
    parts : sequence of str
        What is timed, of :data:`PARTS`.
    rows, features : int
        Of the file that least squares reads, in bags of 10.
    release_rows : int
        Responses that are put into bags of 10 and released.
    splits : int
        Random splits of breast_cancer whose accuracy is averaged.
    repeats : int
    step : callable
        Progress: phase, done, total.

    Returns
    -------
    Report
        Tables, pictures and the figures.

    Raises
    ------
    UsageError
        If a number is out of its range, a part is none, or scikit-learn is not installed.
    """
    sizes(rows=rows, features=features, release_rows=release_rows, splits=splits, repeats=repeats)
    if rows < 100 or release_rows < 10:
        raise UsageError("rows", min(rows, release_rows), "at least 100, and 10 to release")
    check_parts(parts, PARTS)
    works: dict[str, Callable[[], tuple[list[Case], dict[str, Any]]]] = {
        "fit": lambda: _fit(splits),
        "path": lambda: _path(rows, features),
        "release": lambda: _release(release_rows, repeats),
    }
    hertz = cycles_per_second()
    chosen = [part for part in PARTS if part in parts]
    cases: list[Case] = []
    figures: dict[str, Any] = {}
    for done, part in enumerate(chosen):
        step("learning from bags", done, len(chosen))
        more, found = works[part]()
        cases += more
        figures |= found
    step("learning from bags", len(chosen), len(chosen))
    notes = [f"{name.replace('_', ' ')}: {value:,.4g}" for name, value in figures.items()]
    return report("Learning from bags", cases, hertz=hertz, notes=notes, data={"figures": figures})


def _fit(splits: int) -> tuple[list[Case], dict[str, Any]]:
    """Time one fit of each kind, and average the accuracy over splits."""
    import_module("privagg.protocols.responses._sklearn")  # its error names the extra
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    from privagg.entropy import from_seed
    from privagg.protocols.responses.estimators import AggregateClassifier

    x, y = load_breast_cancer(return_X_y=True)
    scores: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    for seed in range(splits):
        a, b, ya, yb = train_test_split(x, y, test_size=0.3, stratify=y, random_state=seed)
        scale = StandardScaler().fit(a)
        a, b = scale.transform(a), scale.transform(b)
        models: dict[str, tuple[Any, tuple[Any, ...]]] = {
            "scikit-learn, every row's response": (LogisticRegression(max_iter=1000), (a, ya))
        }
        for size in _SIZES:
            bags = Bags.random(len(a), size, from_seed(seed))
            given = (a, bags, bags.means(ya))
            models[f"{OURS}, bags of {size}"] = AggregateClassifier(), given
        for who, (model, given) in models.items():
            timing = race({who: partial(model.fit, *given)}, repeats=1)[who]
            times.setdefault(who, []).append(timing.median)
            scores.setdefault(who, []).append(float(model.score(b, yb)))
    rows = [Row(who=who, timing=Timing.of(found)) for who, found in times.items()]
    figures = {f"accuracy, {who}": float(np.mean(found)) for who, found in scores.items()}
    name = f"breast_cancer, 398 rows, 30 features: one fit ({splits} splits)"
    return [Case(name=name, rows=rows)], figures


def _path(rows: int, features: int) -> tuple[list[Case], dict[str, Any]]:
    """Read a grouped file once, and solve every rho and ridge, with their scores over folds."""
    from privagg.protocols.responses.files import read_statistics

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        _write(path, rows, features)

        def work() -> None:
            found = read_statistics(path, bag="bag", response="response")
            for part in found.folds:
                rest = found.statistics - part
                for rho in _RHOS:
                    for solution in rest.path(rho, _RIDGES):
                        part.bag_loss(solution)

        timings = race({f"{OURS}, read and choose": work}, repeats=1)
    many = len(_RHOS) * len(_RIDGES)
    name = f"{rows:,} x {features} from Parquet, bags of 10: {many} settings over 5 folds"
    cases = [Case(name=name, rows=[Row(who=w, timing=t) for w, t in timings.items()], amount=rows)]
    return cases, {}


def _write(path: Path, rows: int, features: int) -> None:
    """Write random rows grouped by bag, a piece after the other."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(1)
    names = ["bag", "response", *(f"x{i}" for i in range(features))]
    kinds = [pa.int64(), *[pa.float64()] * (features + 1)]
    with pq.ParquetWriter(path, pa.schema(list(zip(names, kinds, strict=True)))) as file:
        for start in range(0, rows, 100_000):
            count = min(100_000, rows - start)
            bag = (start + np.arange(count)) // 10
            x = generator.normal(size=(count, features))
            means = np.repeat(generator.normal(size=-(-count // 10)), 10)[:count]
            columns = [bag, means, *x.T]
            file.write_table(pa.table(dict(zip(names, map(pa.array, columns), strict=True))))


def _release(rows: int, repeats: int) -> tuple[list[Case], dict[str, Any]]:
    labels = (np.random.default_rng(1).random(rows) < 0.3).astype(np.int8)
    wanted = Release(epsilon=1.0, classes=2)
    timings = race(
        {f"{OURS}, bags and noise": lambda: Curator(wanted, Bags.random(rows, 10)).release(labels)},
        repeats=repeats,
    )
    name = f"{rows:,} labels into random bags of 10, released with epsilon 1"
    found = [Row(who=who, timing=timing) for who, timing in timings.items()]
    return [Case(name=name, rows=found, amount=rows, unit="row")], {}
