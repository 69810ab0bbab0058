"""Checks of arguments that client, server and driver have in common."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from privagg import prg
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols._common.cohort import leaving
from privagg.protocols.secagg.layout import DIGEST_BYTES
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.states import ROUNDS

__all__ = ["check_model", "check_params", "check_party", "is_sequence", "rounds_of_leaving"]


def check_params(params: object) -> None:
    """Require parameters.

    Raises
    ------
    UsageError
        If `params` are none.
    """
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "secagg.Params")


def check_party(params: Params, entropy: Entropy) -> None:
    """Require parameters, a source of secrets, and a mask stream that this process can run.

    Raises
    ------
    UsageError
        If one is missing: ``PRIVAGG_PRG`` may name a path that is not there.
    """
    check_params(params)
    if not isinstance(entropy, Entropy):
        raise UsageError("entropy", type(entropy).__name__, "an Entropy, such as entropy.OS")
    prg.path(params.prg)


def check_model(model: bytes) -> None:
    """Require the digest of a model, or nothing.

    Raises
    ------
    UsageError
        If it is neither.
    """
    if not isinstance(model, bytes) or len(model) not in (0, DIGEST_BYTES):
        raise UsageError("model", type(model).__name__, "32 bytes, or none")


def is_sequence(value: object) -> bool:
    """Say whether items can be taken by position: a dict has ``[]`` too, an array may have none."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return (
        hasattr(value, "__len__")
        and hasattr(value, "__getitem__")
        and not isinstance(value, Mapping)
    )


def rounds_of_leaving(params: Params, dropouts: Mapping[int, str]) -> NDArray[np.int8]:
    """Return per client the number of the round before which it leaves; 7 if it stays.

    Raises
    ------
    UsageError
        If `dropouts` maps anything but clients to :data:`ROUNDS`.
    """
    return leaving(params.clients, dropouts, ROUNDS)
