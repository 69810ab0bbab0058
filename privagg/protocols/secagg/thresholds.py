"""How many neighbours, and how many shares to rebuild a secret: computed, never guessed.

Two graphs connect the clients. In the **complete** graph every client shares its secrets with all
`clients` (its own share counts). In the **sparse** one it shares them with `neighbours` others in
a randomly relabelled ring (:mod:`privagg.protocols.secagg.graph`).

Sources: Bonawitz et al., CCS 2017, section 6 (complete graph); Bell et al., CCS 2020, sections 3
and 4 (sparse graph). `sigma` is the statistical security: with probability at least
``1 - 2**-sigma`` no secret of an honest client is exposed by the draw of the graph. `eta` is the
correctness: with probability at least ``1 - 2**-eta`` the dropouts leave enough shares.

The sparse graph must fulfil five conditions, with ``c`` corrupt clients and ``d`` dropouts:

1. honest survivors stay connected: :func:`disconnection_probability` is below ``2**-(sigma + 1)``;
2. no client has more than ``t1`` corrupt neighbours: :func:`max_corrupt_holders`;
3. every client keeps at least ``t2`` neighbours: :func:`min_surviving_holders`;
4. the threshold exceeds ``t1``; where the server may tell two stories about who survived
   (semi-malicious) twice the threshold exceeds ``neighbours + t1``, so that no two sets of
   holders can release both kinds of share;
5. the threshold is at least 2 and at most ``t2``.

Conditions 2 and 3 use the hypergeometric distribution over all `clients`: ``clients * P`` is then
the union bound over every client and its neighbours among the others, taken exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from fractions import Fraction
from typing import TypeVar

from privagg._validate import proportion, whole
from privagg.errors import UsageError
from privagg.protocols.secagg import conditions

__all__ = [
    "Graph",
    "SparseChoice",
    "Threat",
    "check_complete",
    "check_sparse",
    "choose_complete",
    "choose_sparse",
    "corrupted",
    "disconnection_probability",
    "dropouts",
    "max_corrupt_holders",
    "min_surviving_holders",
]

MAX_CLIENTS = 2**30
MAX_BITS = 256
MAX_BAD = 0.9
"""Beyond this sum of fractions no sparse graph is searched for: it would be nearly complete."""
_E = TypeVar("_E", bound=Enum)


class Threat(StrEnum):
    """What the server may do, together with the corrupt clients.

    SEMI_HONEST follows the protocol and looks at all it sees. SEMI_MALICIOUS is honest while keys
    are collected and does as it likes afterwards. ACTIVE does as it likes from the start.
    """

    SEMI_HONEST = "semi-honest"
    SEMI_MALICIOUS = "semi-malicious"
    ACTIVE = "active"


class Graph(StrEnum):
    """Who shares secrets with whom: everyone with everyone, or with a few neighbours."""

    COMPLETE = "complete"
    SPARSE = "sparse"


@dataclass(frozen=True, slots=True)
class SparseChoice:
    """A sparse graph's parameters and the bounds that they rest on.

    Attributes
    ----------
    neighbours : int
        Neighbours of each client, itself not counted; even.
    threshold : int
        Shares needed to rebuild a secret.
    max_corrupt_holders : int
        Corrupt neighbours that no client exceeds, but for the probability that `sigma` allows.
    min_surviving_holders : int
        Neighbours that every client keeps, but for the probability that `eta` allows; it is the
        largest threshold that `neighbours` allows.
    """

    neighbours: int
    threshold: int
    max_corrupt_holders: int
    min_surviving_holders: int


def dropouts(clients: int, fraction: float) -> int:
    """Return how many of `clients` a dropout `fraction` makes: its whole part.

    A product that misses a whole number by a rounding error counts as that number: 0.29 of 100 is
    29, although ``0.29 * 100 < 29`` in floating point. Raises UsageError.
    """
    return _part(_clients(clients), proportion("dropout", fraction))


def corrupted(clients: int, fraction: float) -> int:
    """Return how many of `clients` a corrupt `fraction` makes; rounds as :func:`dropouts` does."""
    return _part(_clients(clients), proportion("corrupt", fraction))


def max_corrupt_holders(clients: int, corrupt: int, neighbours: int, sigma: int = 40) -> int:
    """Return ``t1``: the smallest ``x`` with ``P[X > x] <= 2**-(sigma + 1) / clients``.

    ``X`` is hypergeometric: `neighbours` drawn from `clients` of whom `corrupt` are corrupt.
    Raises UsageError.
    """
    n = _clients(clients)
    c = whole("corrupt", corrupt, 0, n)
    k = whole("neighbours", neighbours, 0, n)
    return conditions.corrupt_bound(n, c, k, _bits("sigma", sigma))


def min_surviving_holders(clients: int, survivors: int, neighbours: int, eta: int = 20) -> int:
    """Return ``t2``: the smallest ``x`` with ``P[X <= x] >= 2**-eta / clients``.

    ``X`` is hypergeometric: `neighbours` drawn from `clients` of whom `survivors` survive. So the
    probability that a client keeps fewer than ``t2`` is below ``2**-eta / clients``. Raises
    UsageError.
    """
    n = _clients(clients)
    s = whole("survivors", survivors, 0, n)
    k = whole("neighbours", neighbours, 0, n)
    return conditions.surviving_bound(n, s, k, _bits("eta", eta))


def disconnection_probability(clients: int, corrupt: int, dropped: int, neighbours: int) -> float:
    """Bound the probability that bad clients cut the ring of honest survivors in two.

    The bad clients are ``b = corrupt + dropped``, taken as disjoint. A cut needs two separate runs
    of ``k / 2`` consecutive bad clients; there are ``n (n - k - 1) / 2`` places for them, each
    with probability ``C(b, k) / C(n, k)``. Zero where ``k > b``; may exceed 1, as a union bound
    does. Raises UsageError.
    """
    n = _clients(clients)
    bad = min(n, whole("corrupt", corrupt, 0, n) + whole("dropped", dropped, 0, n))
    return math.exp(conditions.log_disconnection(n, bad, whole("neighbours", neighbours, 0, n)))


def choose_sparse(
    clients: int,
    *,
    corrupt: float,
    dropout: float,
    threat: Threat,
    sigma: int = 40,
    eta: int = 20,
) -> SparseChoice:
    """Return the smallest even number of neighbours that fulfils all five conditions.

    The threshold is the smallest allowed one.

    Parameters
    ----------
    clients : int
        From 2 to 2**30.
    corrupt, dropout : float
        Fractions, from 0 to 1; the bad clients of both kinds are taken as disjoint.
    threat : Threat
        SEMI_HONEST or SEMI_MALICIOUS.
    sigma, eta : int
        Bits of security and of correctness, from 1 to 256.

    Raises
    ------
    UsageError
        If an argument is not allowed, or no sparse graph fulfils the conditions; then it says
        which `corrupt` or `dropout` would do, or whether the complete graph does.
    """
    n = _clients(clients)
    bad, gone = proportion("corrupt", corrupt), proportion("dropout", dropout)
    who = _sparse_threat(threat)
    two = who is Threat.SEMI_MALICIOUS
    s, e = _bits("sigma", sigma), _bits("eta", eta)

    def search(bad: float, gone: float) -> SparseChoice | None:
        if bad + (1 + two) * gone > MAX_BAD + 1e-9:
            return None
        found = conditions.search(n, _part(n, bad), _part(n, gone), two, s, e)
        return None if found is None else SparseChoice(*found)

    found = search(bad, gone)
    if found is not None:
        return found
    wishes = []
    less = _largest(bad, lambda f: search(f, gone) is not None)
    if less is not None:
        wishes.append(f"corrupt <= {less:g} with this dropout")
    less = _largest(gone, lambda f: search(bad, f) is not None)
    if less is not None:
        wishes.append(f"dropout <= {less:g} with this corrupt")
    low, high = _complete_range(n, _part(n, bad), _part(n, gone), who)
    if low <= high:
        wishes.append("the complete graph, which fits these fractions")
    raise UsageError(
        "corrupt, dropout",
        f"{bad:g} and {gone:g} of {n} clients",
        f"what leaves a sparse graph safe against a {who.value} server (sigma={s}, eta={e})",
        f"Use {'; or '.join(wishes)}." if wishes else "Lower both, or add clients.",
    )


def check_sparse(
    clients: int,
    corrupt: int,
    dropout: float,
    neighbours: int,
    threshold: int,
    threat: Threat,
    sigma: int = 40,
    eta: int = 20,
) -> SparseChoice:
    """Check given `neighbours` and `threshold` against the five conditions.

    `corrupt` is a number of clients, `dropout` a fraction; the rest as in :func:`choose_sparse`.
    Returns the given values with their bounds.

    Raises
    ------
    UsageError
        If an argument is not allowed or a condition fails; it names the condition, the value and
        the nearest value that works.
    """
    n = _clients(clients)
    c = whole("corrupt", corrupt, 0, n)
    d = _part(n, proportion("dropout", dropout))
    who = _sparse_threat(threat)
    two = who is Threat.SEMI_MALICIOUS
    s, e = _bits("sigma", sigma), _bits("eta", eta)
    k = whole("neighbours", neighbours, 1, n)
    t = whole("threshold", threshold, 1, n)
    if k >= n - 1:
        raise UsageError(
            "neighbours", k, f"at most {n - 2} of {n} clients", "Use the complete graph."
        )
    if k % 2:
        raise UsageError("neighbours", k, "an even number", _other_k(n, c, d, k, two, s, e))
    if not conditions.connected(n, min(n, c + d), k, s):
        raise UsageError(
            "neighbours",
            k,
            f"enough to keep honest survivors connected but for 2**-{s + 1} (condition 1)",
            _other_k(n, c, d, k, two, s, e),
        )
    t1, low, high = conditions.bounds(n, c, d, k, two, s, e)
    if low > high:
        raise UsageError(
            "neighbours",
            k,
            f"enough for a threshold: corrupt neighbours (at most {t1}) need at least {low}, "
            f"surviving neighbours allow at most {high} (condition 5)",
            _other_k(n, c, d, k, two, s, e),
        )
    if t < low:
        rule = "when doubled exceeds neighbours plus" if two else "exceeds"
        why = f"that it {rule} the {t1} possible corrupt neighbours (condition 4) and is at least 2"
        raise UsageError("threshold", t, f"at least {low}, so {why}", f"Use {low}.")
    if t > high:
        why = f"as that many of {k} neighbours survive but for 2**-{e} (condition 3)"
        raise UsageError("threshold", t, f"at most {high}, {why}", f"Use {high}.")
    return SparseChoice(k, t, t1, high)


def choose_complete(clients: int, *, corrupt: int, dropout: float, threat: Threat) -> int:
    """Return the recommended threshold for the complete graph.

    It is the majority ``(clients + corrupt) // 2 + 1`` or, where fewer are expected to survive,
    as many as survive. The revealed sum then holds the inputs of at least ``threshold - corrupt``
    honest clients.

    Parameters
    ----------
    clients : int
        From 2 to 2**30. All of them hold shares, each one also of its own secrets.
    corrupt : int
        Number of clients that may collude with the server.
    dropout : float
        Fraction that may drop out, from 0 to 1.
    threat : Threat
        SEMI_MALICIOUS and ACTIVE ask for the same: ``2 * threshold > clients + corrupt``.

    Raises
    ------
    UsageError
        If an argument is not allowed or no threshold is; then it says the largest `dropout` and
        `corrupt` that would do.
    """
    n, c, _, high = _complete(clients, corrupt, dropout, threat)
    return min((n + c) // 2 + 1, high)


def check_complete(
    clients: int, corrupt: int, dropout: float, threshold: int, threat: Threat
) -> int:
    """Check a given `threshold` for the complete graph and return it.

    Parameters as in :func:`choose_complete`. Raises UsageError that names the broken condition
    and the nearest threshold that works.
    """
    n, c, low, high = _complete(clients, corrupt, dropout, threat)
    t = whole("threshold", threshold, 1, n)
    if t < low:
        rule = "threshold > corrupt" if low == max(c + 1, 2) else "2 threshold > clients + corrupt"
        why = f"at least {low} ({rule}, and at least 2), with {c} of {n} clients corrupt"
        raise UsageError("threshold", t, why, f"Use {low}.")
    if t > high:
        why = f"at most {high}, as that many of {n} clients are expected to survive"
        raise UsageError("threshold", t, why, f"Use {high}.")
    return t


def _largest(below: float, works: Callable[[float], bool]) -> float | None:
    """Return the largest thousandth up to `below` that works (monotone), if one does."""
    low, high = 0, math.floor(below * 1000)
    if not works(0.0):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if works(middle / 1000):
            low = middle
        else:
            high = middle - 1
    return low / 1000


def _other_k(n: int, c: int, d: int, k: int, two: bool, sigma: int, eta: int) -> str:
    """Say which number of neighbours works instead: the next larger one, or else a smaller one."""
    for start in (k, k - 1, 2):
        found = conditions.search(n, c, d, two, sigma, eta, max(start, 2))
        if found is not None:
            k, low, _, high = found
            return f"Use {k} neighbours with a threshold from {low} to {high}."
    return "None works: lower corrupt or dropout, or use the complete graph."


def _complete_range(n: int, c: int, d: int, threat: Threat) -> tuple[int, int]:
    low = c + 1 if threat is Threat.SEMI_HONEST else (n + c) // 2 + 1
    return max(low, 2), n - d


def _complete(
    clients: int, corrupt: int, dropout: float, threat: Threat
) -> tuple[int, int, int, int]:
    """Validate; return clients, corrupt, and the allowed range of thresholds."""
    n = _clients(clients)
    c = whole("corrupt", corrupt, 0, n)
    d = _part(n, proportion("dropout", dropout))
    who = _member("threat", threat, Threat)
    low, high = _complete_range(n, c, d, who)
    if low <= high:
        return n, c, low, high
    wishes = []
    if low <= n:
        # Rounded up at the sixth place it still makes n - low clients, unless there are too many.
        most = Fraction(n - low, n) * 10**6
        shown = math.ceil(most) if n < 10**6 else math.floor(most)
        wishes.append(f"dropout <= {shown / 10**6:.6g} ({n - low} clients)")
    most_corrupt = high - 1 if who is Threat.SEMI_HONEST else 2 * high - 1 - n
    if most_corrupt >= 0 and high >= 2:
        wishes.append(f"corrupt <= {most_corrupt}")
    raise UsageError(
        "corrupt, dropout",
        f"{c} corrupt and {d} dropouts of {n} clients",
        f"what leaves room for a threshold: at least {low} is needed against a {who.value} "
        f"server, {high} survive",
        f"Use {' or '.join(wishes)}." if wishes else "Lower both.",
    )


def _part(n: int, fraction: float) -> int:
    product = fraction * n
    nearest = round(product)
    # Two roundings, of the fraction and of the product, put it at most 2 ulp off.
    return nearest if abs(product - nearest) <= 4 * math.ulp(product) else math.floor(product)


def _clients(value: int) -> int:
    return whole("clients", value, 2, MAX_CLIENTS)


def _bits(name: str, value: int) -> int:
    return whole(name, value, 1, MAX_BITS)


def _member(name: str, value: _E, kind: type[_E]) -> _E:
    try:
        return kind(value)
    except ValueError:
        raise UsageError(name, value, ", ".join(repr(m.value) for m in kind)) from None


def _sparse_threat(value: Threat) -> Threat:
    who = _member("threat", value, Threat)
    if who is Threat.ACTIVE:
        raise UsageError(
            "threat", who.value, "semi-honest or semi-malicious", "Use the complete graph."
        )
    return who
