"""What to do about a participation log that gives clients away, or is going to."""

from __future__ import annotations

import numpy as np

from privagg.attacks.linear import Audit

__all__ = ["advice"]

_NEARLY_ALL = 0.5  # cohorts above this fraction of the clients
_SMALL_GAIN = 1.0  # noise in the sums comes out no larger than it went in


def advice(audit: Audit, *, gains: bool = True) -> tuple[str, ...]:
    """Return advice, the most pressing first.

    Parameters
    ----------
    audit : Audit
        What the log gives away.
    gains : bool
        Whether to look at noise gains, which takes time for large logs.
    """
    log, said = audit.log, []
    clients = len(log.clients) - len(audit.absent)
    cohorts = log.cohorts[log.cohorts > 0]
    cohort = float(np.mean(cohorts)) if cohorts.size else 0.0
    if audit.pairs.count:
        one, other, client = audit.pairs.first[0] if len(audit.pairs.first) else (-1, -1, -1)
        where = (
            f" (rounds {log.rounds[one]} and {log.rounds[other]}: client {log.clients[client]})"
            if client >= 0
            else ""
        )
        said.append(
            f"{_count(audit.pairs.count, 'pair')} of rounds isolating a client{where}: refuse "
            "rounds whose cohort differs from an earlier one's by fewer clients than a sum should "
            "hide."
        )
    if (cohorts == 1).any():
        said.append("Some rounds have one client only: their sum is its input. Set a minimum.")
    if clients > 1 and cohort > _NEARLY_ALL * clients:
        said.append(
            "Cohorts of nearly everybody are the worst schedule, as each absence shows a client: "
            "take fixed batches, or smaller cohorts."
        )
    left = clients - audit.rank
    size = max(1, round(cohort))
    if clients > 1 and left > 0 and audit.coalition.least >= size > 1:
        said.append(
            f"No sum of fewer than {size} clients, a cohort, is exposed: keep to such rounds."
        )
    elif clients > 1 and left > 0 and size > 1:
        said.append(
            f"The log has {_count(audit.rank, 'independent sum')} of {clients} clients. With "
            f"cohorts drawn anew each round, about {_count(left, 'more round')} would determine "
            f"everybody; fixed batches of {size} never expose the sum of fewer than {size}."
        )
    if gains and audit.recoverable and float(audit.gains.gain.min()) <= _SMALL_GAIN:
        said.append(
            "For some clients noise in the sums is not even amplified: noise that protects a sum "
            "protects them no better."
        )
    if audit.recoverable:
        said.append(
            "What is determined is a client's mean input. Noise in each sum, or inputs that vary, "
            "leave it with the noise gain: account for all rounds together."
        )
    return tuple(said)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
