"""``privagg bench attacks``: how much of a batch comes back from its gradient, and how fast.

Networks 3072-h-10 with a ReLU, untrained, mean cross-entropy, float32. PSNR is absolute: no oracle
chooses sign or scale. Beside ours stand scikit-learn's FastICA on the gradient's rows, where it is
installed, and our own implementation of the published objective.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient import (
    PUBLISHED,
    Factors,
    Observation,
    Quality,
    Recovery,
    cocktail_party,
    factorize,
    ica,
    quality,
    relu_exact,
)
from privagg.bench.attack_inputs import TwoLayers, batch, foolbox_folder
from privagg.bench.peers import optional
from privagg.bench.rows import Step, sizes
from privagg.errors import UsageError
from privagg.report import Cell, Column, Report, Table

__all__ = ["CASES", "Measured", "bench"]

CASES = ((16, 256), (32, 256), (48, 256), (64, 512), (128, 1024))
"""Batches and widths."""

EXACT = 100.0
"""Decibels from which an input counts as exact."""

_SHAPE = (3, 32, 32)

_Result: TypeAlias = tuple[NDArray[np.float64], bool, bool, float]
"""Inputs, whether they are verified, whether they are scaled, and CPU seconds."""


@dataclass(frozen=True)
class Measured:
    """One attack on one case, over the seeds.

    Attributes
    ----------
    batch, width : int
        The case.
    attack : str
        Which.
    exact : float
        Mean share of the inputs with at least 100 dB.
    verified : int
        Runs that the attack itself called exact.
    runs : int
        How many there were.
    psnr_mean, psnr_min : float
        Absolute, in decibels: mean over all inputs, and the worst.
    psnr_published : float
        With the published oracle for sign and range.
    cosine : float
        Mean size of the cosine.
    seconds : float
        CPU seconds, the median of the runs; `seconds_max` the most.
    """

    batch: int
    width: int
    attack: str
    exact: float
    verified: int
    runs: int
    psnr_mean: float
    psnr_min: float
    psnr_published: float
    cosine: float
    seconds: float
    seconds_max: float


def bench(
    *,
    cases: Sequence[tuple[int, int]] = CASES,
    seeds: int = 5,
    published: bool = False,
    iterations: int = 25_000,
    budget: float = 60.0,
    step: Step = lambda phase, done, total: None,
) -> Report:
    """Measure the attacks.

    Parameters
    ----------
    cases : sequence of (batch, width)
        What is attacked.
    seeds : int
        Runs of each: other images, weights and starts.
    published : bool
        Also run the published objective, once per case: minutes.
    iterations : int
        Of the published objective.
    budget : float
        CPU seconds of one exact recovery.
    step : callable
        Progress: phase, done, total.

    Raises
    ------
    UsageError
        If a number is out of its range, or there are not enough images.
    """
    sizes(seeds=seeds, iterations=iterations)
    if not cases:
        raise UsageError("cases", "none", "at least one batch and width")
    for size, width in cases:
        sizes(batch=size, width=width)
    fast = _sklearn()
    total = len(cases) * seeds
    results: list[Measured] = []
    # Compiles what is compiled, outside the measurements.
    relu_exact(_seen(4, 64, 0)[0])
    for place, (size, width) in enumerate(cases):
        runs: dict[str, list[tuple[Quality, bool, float]]] = {}
        for seed in range(seeds):
            step("attacks", place * seeds + seed, total)
            seen, images = _seen(size, width, seed)
            works: dict[str, Callable[[], _Result]] = {
                "relu_exact": partial(_exact, seen, budget),
                "ica": partial(_separated, seen),
            }
            if fast is not None:
                works["scikit-learn FastICA, raw rows"] = partial(_plain, fast, seen, seed)
            if published and seed == 0:
                works["published objective"] = partial(_published, seen, iterations)
            for name, work in works.items():
                inputs, verified, scaled, seconds = work()
                found = quality(inputs, images, shape=_SHAPE, scaled=scaled)
                runs.setdefault(name, []).append((found, verified, seconds))
        results += [_measured(size, width, name, found) for name, found in runs.items()]
    step("attacks", total, total)
    return _report(results, seeds, fast is None, published, iterations)


def _seen(size: int, width: int, seed: int) -> tuple[Observation, NDArray[np.float32]]:
    images, labels = batch(size, seed)
    network = TwoLayers.drawn(images.shape[1], width, seed=seed)
    weight, bias, *_ = network.gradients(images, labels)
    seen = Observation.from_arrays(
        weight, bias, batch=size, weights=network.weights, biases=network.biases
    )
    return seen, images


def _ours(found: Recovery) -> _Result:
    return found.inputs, found.verified, found.scaled, found.cpu_seconds


def _exact(seen: Observation, budget: float) -> _Result:
    return _ours(relu_exact(seen, shape=_SHAPE, budget=budget))


def _separated(seen: Observation) -> _Result:
    return _ours(ica(seen, shape=_SHAPE))


def _published(seen: Observation, iterations: int) -> _Result:
    found = cocktail_party(seen, shape=_SHAPE, objective=PUBLISHED, iterations=iterations)
    return _ours(found)


def _sklearn() -> Any | None:
    return None if optional("sklearn") is None else optional("sklearn.decomposition")


def _plain(library: Any, seen: Observation, seed: int) -> _Result:
    """Run FastICA on the gradient's rows, with scales from the bias gradient as ours have."""
    layer = seen.layers[0]
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = library.FastICA(
            seen.batch, fun="logcosh", whiten="unit-variance", random_state=seed, max_iter=400
        )
        model.fit(layer.weight.T.astype(np.float64))
    factors: Factors = factorize(layer, seen.batch)
    # What unmixes the rows unmixes the bias gradient: components are (B, h).
    unmixing = model.components_.astype(np.float64)
    assert layer.bias is not None
    ones = unmixing @ layer.bias.astype(np.float64)
    inputs = (unmixing / ones[:, None]) @ factors.left @ factors.rows
    return inputs, False, True, time.process_time() - began


def _measured(
    size: int, width: int, name: str, runs: list[tuple[Quality, bool, float]]
) -> Measured:
    psnr = np.concatenate([found.psnr for found, _, _ in runs])
    seconds = [spent for _, _, spent in runs]
    return Measured(
        batch=size,
        width=width,
        attack=name,
        exact=float(np.mean([found.above(EXACT) / size for found, _, _ in runs])),
        verified=sum(verified for _, verified, _ in runs),
        runs=len(runs),
        psnr_mean=float(psnr.mean()),
        psnr_min=float(psnr.min()),
        psnr_published=float(np.mean([found.psnr_published.mean() for found, _, _ in runs])),
        cosine=float(np.mean([found.cosine.mean() for found, _, _ in runs])),
        seconds=float(np.median(seconds)),
        seconds_max=float(max(seconds)),
    )


def _report(
    results: list[Measured], seeds: int, no_peer: bool, published: bool, iterations: int
) -> Report:
    columns: list[Column | str] = [
        "batch",
        "width",
        "attack",
        "exact",
        "verified",
        Column("PSNR, mean", "dB"),
        Column("PSNR, least", "dB"),
        "cosine",
        Column("CPU", "s"),
        Column("CPU, most", "s"),
    ]
    rows: list[list[Cell]] = [
        [
            one.batch,
            one.width,
            one.attack,
            f"{one.exact:.1%}",
            f"{one.verified} of {one.runs}",
            one.psnr_mean,
            one.psnr_min,
            one.cosine,
            one.seconds,
            one.seconds_max,
        ]
        for one in results
    ]
    images = "foolbox's 60 natural images, crops of scikit-learn's photographs for more"
    if foolbox_folder() is None:
        images = "crops of scikit-learn's photographs (foolbox's images are not installed)"
    notes = [
        f"Networks 3072-h-10, untrained, mean cross-entropy, float32; {seeds} seeds; {images}.",
        "Exact: absolute PSNR of at least 100 dB, no oracle. Verified: runs that the attack itself "
        "called exact. CPU seconds of the process: set OPENBLAS_NUM_THREADS=1 for one thread.",
    ]
    if no_peer:
        notes.append("scikit-learn is not installed, so its FastICA is not beside us.")
    if published:
        notes.append(
            f"Published objective: total variation and decorrelation, {iterations:,} steps, "
            "one seed, our implementation, scaled by the bias gradient (the original is not)."
        )
    return Report(
        title="Attacks on gradients",
        data={"attacks": [asdict(one) for one in results], "seeds": seeds},
        tables=[Table("Recovery of a batch", columns, rows)],
        notes=notes,
    )
