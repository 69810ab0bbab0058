"""Secret sharing: sharing, the weights of interpolation, rebuilding."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import numpy as np
from Crypto.Protocol.SecretSharing import Shamir

from privagg import field, sharing
from privagg.bench import flower, peers
from privagg.bench.clock import race
from privagg.bench.peers import Work
from privagg.bench.rows import OURS, Case, Row, sizes
from privagg.entropy import OS
from privagg.errors import UsageError

__all__ = ["cases"]

_SMALL = 24
"""Clients of the measurement from which slow contestants are extrapolated."""


def cases(
    *,
    clients: int = 1000,
    threshold: int | None = None,
    secrets: int = 1000,
    repeats: int = 9,
    against_flower: bool = False,
) -> list[Callable[[], Case]]:
    """Return the parts of Shamir's scheme, each to be timed when it is called.

    Parameters
    ----------
    clients : int
        Shares of a secret, n.
    threshold : int, optional
        Shares that rebuild it, t; two thirds of `clients` if left out.
    secrets : int
        Secrets rebuilt at once.
    repeats : int
        Repetitions, whose median is shown.
    against_flower : bool
        Also time Flower's create_shares and combine_shares.

    Raises
    ------
    UsageError
        If a number is out of its range, or Flower is asked for and not installed.
    """
    needed = ceil(2 * clients / 3) if threshold is None else threshold
    sizes(clients=clients, threshold=needed, secrets=secrets, repeats=repeats)
    if not 2 <= needed <= clients:
        raise UsageError("threshold", needed, f"2 to {clients}, the number of clients")
    if against_flower:
        flower.require()
    return [
        lambda: _share(clients, needed, repeats, against_flower),
        lambda: _weights(needed, repeats),
        lambda: _combine(clients, needed, secrets, repeats, against_flower),
    ]


def _rows(contestants: dict[str, Work], repeats: int) -> list[Row]:
    timed = race(contestants, repeats=repeats)
    return [Row(who=who, timing=timing) for who, timing in timed.items()]


def _share(clients: int, threshold: int, repeats: int, against_flower: bool) -> Case:
    secret = np.frombuffer(OS.take(sharing.SECRET_BYTES), np.uint8).reshape(1, -1)
    points = np.arange(1, clients + 1, dtype=np.uint64)
    contestants: dict[str, Work] = {
        f"{OURS}.sharing.split": lambda: sharing.split(secret, threshold, points, OS)
    }
    contestants |= peers.sharers(threshold, clients)
    rows = _rows(contestants, repeats)
    # These take clients * threshold steps, of the same kind at any size.
    small_clients, small = min(clients, _SMALL), min(threshold, _SMALL)
    slow: dict[str, Work] = {
        "pycryptodome Shamir.split": lambda: Shamir.split(small, small_clients, bytes(16), False)
    }
    if against_flower:
        slow["Flower create_shares of 32 bytes"] = flower.share(small, small_clients, bytes(32))
    factor = clients * threshold / (small_clients * small)
    rows += _extrapolated(
        slow, repeats, factor, f"n = {small_clients}, t = {small}, by the product of n and t"
    )
    return Case(
        name=f"a secret of 128 bits shared among n = {clients}, t = {threshold}",
        rows=rows,
        amount=sharing.LIMBS * clients * threshold,
        unit="terms",
    )


def _weights(threshold: int, repeats: int) -> Case:
    points = np.arange(1, threshold + 1, dtype=np.uint64)
    listed = points.tolist()
    return Case(
        name=f"Lagrange's weights of {threshold} points, once per set of survivors",
        rows=_rows(
            {
                f"{OURS}.sharing.Combiner": lambda: sharing.Combiner(points),
                "plain Python integers": lambda: peers.python_weights(listed),
            },
            repeats,
        ),
        amount=threshold**2,
        unit="terms",
    )


def _combine(
    clients: int, threshold: int, secrets: int, repeats: int, against_flower: bool
) -> Case:
    points = np.arange(1, threshold + 1, dtype=np.uint64)
    combiner = sharing.Combiner(points)
    shares = field.uniform(OS, (threshold, secrets * sharing.LIMBS))
    table = shares.reshape(threshold, secrets, sharing.LIMBS)
    contestants: dict[str, Work] = {
        f"{OURS}.sharing.Combiner.combine": lambda: combiner.combine(table)
    }
    contestants |= peers.combiners(threshold, secrets)
    rows = _rows(contestants, repeats)
    small = min(threshold, _SMALL)
    given = Shamir.split(small, small, bytes(16), False)
    slow: dict[str, Work] = {"pycryptodome Shamir.combine": lambda: Shamir.combine(given, False)}
    if against_flower:
        slow["Flower combine_shares of 32 bytes"] = flower.combine(small, small, small, bytes(32))
    rows += _extrapolated(
        slow,
        repeats,
        secrets * (threshold / small) ** 2,
        f"one secret, t = {small}, by the secrets and the square of t",
    )
    return Case(
        name=f"{secrets} secrets rebuilt from t = {threshold} shares each, weights given",
        rows=rows,
        amount=sharing.LIMBS * secrets * threshold,
        unit="terms",
    )


def _extrapolated(contestants: dict[str, Work], repeats: int, factor: float, how: str) -> list[Row]:
    timed = race(contestants, repeats=repeats)
    return [
        Row(who=who, timing=timing.times(factor), extrapolated=how) for who, timing in timed.items()
    ]
