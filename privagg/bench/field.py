"""Fields: their arithmetic, and what is built on it: secret sharing, the coded masks."""

from __future__ import annotations

from collections.abc import Collection

from privagg.bench import arithmetic, lightsecagg, peers_field, sharing
from privagg.bench.clock import cycles_per_second
from privagg.bench.rows import Step, report
from privagg.errors import UsageError
from privagg.report import Report

__all__ = ["PARTS", "bench"]

PARTS = ("arithmetic", "sharing", "lightsecagg")
"""What can be timed."""


def bench(
    *,
    parts: Collection[str] = PARTS,
    length: int = 1 << 16,
    columns: int = 5000,
    transform: int = 1 << 20,
    clients: int = 1000,
    threshold: int | None = None,
    secrets: int = 1000,
    repeats: int = 9,
    against_flower: bool = False,
    step: Step = lambda phase, done, total: None,
) -> Report:
    """Time the arithmetic of the fields, Shamir's secret sharing, and LightSecAgg's code.

    Parameters
    ----------
    parts : collection of str
        Some of :data:`PARTS`.
    length : int
        Elements of the vectors that are multiplied.
    columns : int
        Columns of the matrices: 100 x 70 times 70 x `columns`, as a client of LightSecAgg encodes
        20 times as many coordinates for 99 others.
    transform : int
        Length of the number-theoretic transforms, a power of two from 4.
    clients : int
        Shares of a secret, n; and the cohort whose masks are coded, of which 30 % leave.
    threshold : int, optional
        Shares that rebuild it, t; two thirds of `clients` if left out.
    secrets : int
        Secrets rebuilt at once.
    repeats : int
        Repetitions, whose median is shown; fewer of what is slow.
    against_flower : bool
        Also time Flower's create_shares and combine_shares.
    step : callable
        Progress: phase, done, total.

    Returns
    -------
    Report
        Tables, pictures and the figures.

    Raises
    ------
    UsageError
        If a number is out of its range, a part is none, or Flower is asked for and not installed.
    """
    wrong = sorted(set(parts) - set(PARTS), key=str)
    if wrong or not parts:
        raise UsageError("parts", wrong[0] if wrong else "none", " or ".join(PARTS))
    hertz = cycles_per_second()
    calculations = arithmetic.cases(
        length=length, columns=columns, transform=transform, repeats=repeats, hertz=hertz
    )
    shares = sharing.cases(
        clients=clients,
        threshold=threshold,
        secrets=secrets,
        repeats=repeats,
        against_flower=against_flower,
    )
    works = calculations if "arithmetic" in parts else []
    works += shares if "sharing" in parts else []
    works += lightsecagg.works(clients=clients, repeats=repeats) if "lightsecagg" in parts else []
    cases = []
    for done, work in enumerate(works):
        step("fields", done, len(works))
        cases.append(work())
    step("fields", len(works), len(works))
    absent = peers_field.missing()
    notes = [f"Not installed, so not beside us: {', '.join(absent)}."] if absent else []
    return report("Fields", cases, hertz=hertz, notes=notes)
