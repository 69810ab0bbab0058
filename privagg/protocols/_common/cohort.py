"""Arguments that several protocols check alike: choices by name, smallest cohorts, who leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from privagg.encoding import Encoding
from privagg.errors import UsageError

__all__ = ["check_min_cohort", "choice", "declared_encoding", "leaving", "two_are_honest"]

_E = TypeVar("_E", bound=StrEnum)


def choice(name: str, value: _E | str, kind: type[_E]) -> _E:
    """Return the member of `kind` that `value` names.

    Raises
    ------
    UsageError
        If it names none; the members are listed.
    """
    try:
        return kind(value)
    except ValueError:
        raise UsageError(name, value, " or ".join(member.value for member in kind)) from None


def declared_encoding(
    value_bits: int,
    *,
    signed: bool,
    clip: float | None,
    weighted: bool,
    max_weight: int | None,
) -> Encoding:
    """Return the encoding that the arguments of ``Params.recommend`` describe.

    Raises
    ------
    UsageError
        If a largest weight is missing, superfluous, or the encoding refuses an argument.
    """
    if weighted != (max_weight is not None):
        raise UsageError(
            "max_weight",
            max_weight,
            "a whole number with weighted=True, nothing without",
            "Say the largest weight that a client may have, for example its example count.",
        )
    return Encoding(
        kind="integer" if clip is None else "float",
        value_bits=value_bits,
        signed=signed,
        clip=clip,
        weighted=weighted,
        max_weight=1 if max_weight is None else max_weight,
    )


def check_min_cohort(
    *, clients: int, corrupt: int, dropout: float, expected: int, min_cohort: int
) -> None:
    """Refuse a minimum that is not reached, or that leaves a client alone with corrupt ones.

    Parameters
    ----------
    clients, corrupt, dropout, min_cohort
        As the parameters of the round have them.
    expected : int
        Clients that are left at that dropout.

    Raises
    ------
    UsageError
        Saying what is feasible.
    """
    if expected < corrupt + 2:
        feasible = [f"corrupt <= {expected - 2}"] if expected >= 2 else []
        if clients >= corrupt + 2:
            feasible.append(f"a dropout of at most {clients - corrupt - 2} clients")
        raise UsageError(
            "corrupt, dropout",
            f"{corrupt} corrupt and {clients - expected} dropouts of {clients} clients",
            f"what leaves two honest inputs in the sum: corrupt + 2 = {corrupt + 2} survivors, of "
            f"whom {expected} are expected",
            f"Use {' or '.join(feasible)}." if feasible else "Lower both.",
        )
    two_are_honest(min_cohort, corrupt)
    if min_cohort > expected:
        raise UsageError(
            "min_cohort",
            min_cohort,
            f"at most the {expected} survivors expected at dropout {dropout}",
            f"Use {expected}, or lower the dropout.",
        )


def two_are_honest(min_cohort: int, corrupt: int) -> None:
    """Refuse a minimum that could leave one honest input beside the corrupt ones.

    Raises
    ------
    UsageError
        Saying the least that works.
    """
    if min_cohort < corrupt + 2:
        raise UsageError(
            "min_cohort",
            min_cohort,
            f"at least {corrupt + 2}, so that two inputs are honest beside {corrupt} corrupt ones",
            f"Use {corrupt + 2}: who knows all inputs of a sum but one knows that one, too.",
        )


def leaving(clients: int, dropouts: Mapping[int, str], rounds: Sequence[str]) -> NDArray[np.int8]:
    """Return per client the number of the round before which it leaves; ``len(rounds)`` if none.

    Raises
    ------
    UsageError
        If `dropouts` maps anything but clients to names of rounds.
    """
    if not isinstance(dropouts, Mapping):
        raise UsageError("dropouts", type(dropouts).__name__, "a mapping of client to round name")
    leaves = np.full(clients, len(rounds), np.int8)
    for client, name in dropouts.items():
        if isinstance(client, bool) or not isinstance(client, int | np.integer):
            raise UsageError("dropouts", client, "client indices as keys")
        if not 0 <= client < clients:
            raise UsageError("dropouts", f"client {client}", f"0 to {clients - 1}")
        if name not in rounds:
            raise UsageError("dropouts", f"{client}: {name!r}", " or ".join(rounds))
        leaves[client] = rounds.index(name)
    return leaves
