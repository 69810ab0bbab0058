"""The published experiments by another way: counts of reports drawn at once.

The counts of one attribute's reports have a known joint distribution: binomials and multinomials.
Drawing them is exact (attributes are drawn independently, which leaves the mean of a sum over
attributes as it is) and fast, and shares nothing with the code under test. Published experiments:
100 runs, post-processing by clipping and scaling (arXiv 2109.07269).
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import numpy as np

from privagg import datasets

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "rsfd.json"
TABLES = ("adult", "nursery")
EPSILONS = tuple(range(2, 8))
"""Epsilons are the logarithms of these."""
METHODS = (
    *("spl[adp]", "smp[adp]", "rs+fd[grr]", "rs+fd[oue-z]", "rs+fd[oue-r]"),
    *("rs+fd[sue-z]", "rs+fd[sue-r]", "rs+fd[adp]"),
)


@cache
def columns(table):
    """Return the categorical columns of a bundled table: a dict of names to codes and sizes."""
    found = {}
    loaded = datasets.load(table)
    for name in loaded.column_names:
        column = loaded.column(name).combine_chunks()
        if hasattr(column, "dictionary"):
            codes = column.indices.to_numpy().astype(np.uint32)
            found[name] = (codes, column.dictionary.to_pylist())
    return found


def true_counts(table):
    return [np.bincount(c, minlength=len(v)) for c, v in columns(table).values()]


def kept(counts, p, rng, runs):
    return rng.binomial(counts, p, size=(runs, counts.size))


def grr(holders, k, epsilon, rng):
    """Return counts of reports of ``(runs, k)`` holders of each value."""
    p = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    stay = rng.binomial(holders, p)
    total = stay.copy()
    for value in range(k):
        others = np.full(k, 1 / (k - 1))
        others[value] = 0
        total += rng.multinomial(holders[:, value] - stay[:, value], others)
    return total, p, (1 - p) / (k - 1)


def unary_chances(name, epsilon):
    if name.startswith("oue"):
        return 0.5, 1 / (math.exp(epsilon) + 1)
    p = math.exp(epsilon / 2) / (math.exp(epsilon / 2) + 1)
    return p, 1 - p


def unary(holders, n, name, epsilon, rng):
    """Return counts of bits, of n reports of which `holders` hold each value."""
    p, q = unary_chances(name, epsilon)
    rest = np.broadcast_to(np.asarray(n), holders.shape) - holders
    return rng.binomial(holders, p) + rng.binomial(rest, q), p, q


def plain_choice(k, epsilon):
    return "grr" if k < 3 * math.exp(epsilon) + 2 else "oue"


def fake_choice(k, d, epsilon):
    """Return the better at frequency 0 of GRR and OUE-z."""
    e = math.exp(epsilon)
    p, q = e / (e + k - 1), 1 / (e + k - 1)
    s = (q + (d - 1) / k) / d
    first = s * (1 - s) / (p - q) ** 2
    p, q = unary_chances("oue", epsilon)
    return "grr" if first <= q * (1 - q) / (p - q) ** 2 else "oue-z"


def raw_estimates(method, table, epsilon, runs, rng, *, honest=False):
    """Return for each attribute ``(runs, k)`` raw estimates; `honest`: epsilon' is epsilon."""
    truth = true_counts(table)
    d, n = len(truth), int(truth[0].sum())
    protocol, oracle = method[:-1].split("[")
    found = []
    for counts in truth:
        k = counts.size
        if protocol == "spl":
            holders, local, total = np.broadcast_to(counts, (runs, k)), epsilon / d, n
        else:
            holders = kept(counts, 1 / d, rng, runs)
            total = holders.sum(axis=1, keepdims=True)
            local = (
                epsilon if protocol == "smp" or honest else math.log(d * math.expm1(epsilon) + 1)
            )
        if protocol in ("spl", "smp"):
            chosen = plain_choice(k, local) if oracle == "adp" else oracle
            if chosen == "grr":
                reports, p, q = grr(holders, k, local, rng)
            else:
                reports, p, q = unary(holders, total, chosen, local, rng)
            found.append((reports / total - q) / (p - q))
            continue
        chosen = fake_choice(k, d, local) if oracle == "adp" else oracle
        fakers = n - total
        if chosen == "grr":
            reports, p, q = grr(holders, k, local, rng)
            reports = reports + rng.multinomial(fakers[:, 0], np.full(k, 1 / k))
            support = 1 / k
        elif chosen.endswith("-z"):
            reports, p, q = unary(holders, n, chosen, local, rng)
            support = q
        else:
            holders = holders + rng.multinomial(fakers[:, 0], np.full(k, 1 / k))
            reports, p, q = unary(holders, n, chosen, local, rng)
            support = (p + (k - 1) * q) / k
        found.append((d * reports / n - q - (d - 1) * support) / (p - q))
    return found


def clip(raw):
    clipped = np.maximum(raw, 0)
    return clipped / clipped.sum(axis=1, keepdims=True)


def errors(method, table, epsilon, runs, rng, *, honest=False):
    """Return ``(runs,)`` mean squared errors after clipping and scaling."""
    parts = []
    raws = raw_estimates(method, table, epsilon, runs, rng, honest=honest)
    for raw, counts in zip(raws, true_counts(table), strict=True):
        parts.append(((clip(raw) - counts / counts.sum()) ** 2).mean(axis=1))
    return np.mean(parts, axis=0)


def summary(runs, seed):
    """Return the golden file: mean and standard error of each table, method and epsilon."""
    rng = np.random.default_rng(seed)
    found = {"runs": runs, "seed": seed, "mse": {}}
    for table in TABLES:
        for method in METHODS:
            for power in EPSILONS:
                each = errors(method, table, math.log(power), runs, rng)
                error = each.std(ddof=1) / math.sqrt(runs)
                found["mse"][f"{table} {method} ln{power}"] = [float(each.mean()), float(error)]
    return found


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    content = summary(10_000, 2109)
    lines = json.dumps(content, indent=1)
    GOLDEN.write_text(lines + "\n", encoding="utf-8")
