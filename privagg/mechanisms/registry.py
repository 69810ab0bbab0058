"""Mechanisms by name, and built from what describes them: for configurations and comparisons."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from privagg.domain import Domain, domain_from
from privagg.errors import UsageError
from privagg.mechanisms.additive import Gaussian, Laplace
from privagg.mechanisms.base import Mechanism
from privagg.mechanisms.count_mean_sketch import CMS, HCMS
from privagg.mechanisms.duchi import Duchi, Hybrid
from privagg.mechanisms.grr import GRR
from privagg.mechanisms.hadamard import HadamardResponse
from privagg.mechanisms.histogram_encoding import SHE, THE
from privagg.mechanisms.local_hashing import BLH, OLH, LocalHashing
from privagg.mechanisms.longitudinal import LGRR
from privagg.mechanisms.longitudinal_hashing import LOLOHA, DBitFlip
from privagg.mechanisms.longitudinal_unary import LOSUE, LSUE
from privagg.mechanisms.projective import PGR
from privagg.mechanisms.randomized_response import RandomizedResponse
from privagg.mechanisms.square_wave import SquareWave
from privagg.mechanisms.subset import SubsetSelection
from privagg.mechanisms.unary import OUE, SUE, UnaryEncoding
from privagg.mechanisms.window import Piecewise

__all__ = ["MECHANISMS", "make", "mechanism_from"]

_ALL: tuple[type[Mechanism], ...] = (
    GRR,
    SUE,
    OUE,
    UnaryEncoding,
    BLH,
    OLH,
    LocalHashing,
    SubsetSelection,
    HadamardResponse,
    PGR,
    CMS,
    HCMS,
    SHE,
    THE,
    RandomizedResponse,
    LGRR,
    LOSUE,
    LSUE,
    LOLOHA,
    DBitFlip,
    Laplace,
    Duchi,
    Piecewise,
    Hybrid,
    Gaussian,
    SquareWave,
)

MECHANISMS: Mapping[str, type[Mechanism]] = {kind.name: kind for kind in _ALL}
"""The mechanisms by their names."""


def make(name: str, domain: Domain, epsilon: float, **options: Any) -> Mechanism:
    """Build a mechanism by its name.

    Parameters
    ----------
    name : str
        One of :data:`MECHANISMS`.
    domain : Domain
        The declared domain.
    epsilon : float
        The privacy parameter of one report.
    **options : Any
        Of the mechanism.

    Raises
    ------
    UsageError
        If no mechanism has that name, or it refuses an argument.
    """
    if not isinstance(name, str) or name not in MECHANISMS:
        raise UsageError("mechanism", name, ", ".join(MECHANISMS))
    kind = MECHANISMS[name]
    known = set(list(inspect.signature(kind).parameters)[2:])
    for option in options:
        if option not in known:
            allowed = ", ".join(sorted(known)) or f"no options for {name}"
            raise UsageError(f"options.{option}", options[option], allowed)
    return kind(domain, epsilon, **options)


def mechanism_from(table: Mapping[str, Any]) -> Mechanism:
    """Build the mechanism that :meth:`Mechanism.describe` described.

    Parameters
    ----------
    table : mapping of str
        As written.

    Raises
    ------
    UsageError
        If a key is missing, unknown, or its value refused.
    """
    if not isinstance(table, Mapping):
        raise UsageError("table", type(table).__name__, "a mapping")
    for key in table:
        if key not in ("mechanism", "epsilon", "domain", "options"):
            raise UsageError(str(key), "an unknown key", "mechanism, epsilon, domain, options")
    for key in ("mechanism", "epsilon", "domain"):
        if key not in table:
            raise UsageError(key, "nothing", "needed")
    options = table.get("options", {})
    if not isinstance(options, Mapping):
        raise UsageError("options", type(options).__name__, "a mapping")
    domain = domain_from(table["domain"])
    return make(table["mechanism"], domain, table["epsilon"], **options)
