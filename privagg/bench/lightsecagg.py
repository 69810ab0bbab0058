"""What a server waits for after the last answer: coded masks decoded, or pairwise masks taken off.

:func:`works` gives what ``privagg bench`` shows of LightSecAgg: the encoding of a client's mask,
and the decoding of the sum of masks beside a NumPy one on arrays of Python integers, and beside the
unmasking of the same cohort after Bonawitz et al.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import field as fields
from privagg import keys, prg
from privagg.bench.clock import race
from privagg.bench.rows import OURS, Case, Row
from privagg.entropy import OS
from privagg.protocols import secagg
from privagg.protocols.lightsecagg import Params, client_work
from privagg.protocols.secagg import pairing

__all__ = ["decoding", "encoding", "works"]

_SEEDS = 64
_PAIRS = 50
_OBJECTS = 200_000
"""Multiplications of Python integers that are timed; the rest is as many times as long."""


def works(
    *,
    clients: int = 1000,
    dim: int = 100_000,
    dropped: float = 0.3,
    corrupt: float = 0.05,
    repeats: int = 5,
) -> list[Callable[[], Case]]:
    """Return what times a client's encoding and the server's decoding, to be called in turn.

    Parameters
    ----------
    clients, dim : int
        Cohort and coordinates, of 16 bits.
    dropped, corrupt : float
        Fractions of the clients.
    repeats : int
        Repetitions, whose median is shown.

    Raises
    ------
    UsageError
        As the parameters of both protocols.
    """
    params = Params.recommend(clients=clients, dim=dim, corrupt=corrupt, dropout=dropped)
    return [lambda: encoding(params, repeats), lambda: decoding(params, repeats)]


def encoding(params: Params, repeats: int = 5) -> Case:
    """Time what a client does to its mask: draw it and its noise, and encode them for everyone.

    Parameters
    ----------
    params : Params
        The parameters that all parties agreed on.
    repeats : int
        Repetitions, whose median is shown.

    Returns
    -------
    Case
    """
    work = {f"{OURS} LightSecAgg": lambda: client_work.draw_mask(params, OS)}
    timing = race(work, repeats=repeats)
    return Case(
        name=f"a mask of {params.length:,} encoded for {params.clients} clients, "
        f"U = {params.threshold}, T = {params.privacy}",
        rows=[Row(who=name, timing=one) for name, one in timing.items()],
        amount=float(params.clients * params.threshold * params.piece),
        unit="multiply-add",
    )


def decoding(params: Params, repeats: int = 5) -> Case:
    """Time the decoding of the sum of masks, and what stands in its place elsewhere.

    Pairwise masks are extrapolated from the streams of a few seeds and a few agreements; NumPy's
    object arrays from a few columns.

    Parameters
    ----------
    params : Params
        The parameters that all parties agreed on.
    repeats : int
        Repetitions, whose median is shown.

    Returns
    -------
    Case
    """
    code, of = params.code, params.field
    holders = np.arange(params.threshold)
    sums = fields.uniform(OS, (params.threshold, params.piece), of)
    columns = max(1, min(params.piece, _OBJECTS // (code.pieces * params.threshold)))
    weights = code.weights(holders, code.nodes()[: code.pieces]).astype(object)
    boxed = sums[:, :columns].astype(object)
    stayed = params.clients - params.dropouts
    masks = stayed + params.dropouts * stayed
    ours, objects = f"{OURS} LightSecAgg", "NumPy, object arrays"
    streams, pairs = "streams", "agreements"
    work: dict[str, Callable[[], object]] = {
        ours: lambda: code.join(sums, holders, params.length),
        objects: lambda: _object_product(weights, boxed, of.modulus),
        streams: _stream_work(params),
        pairs: _agreement_work(),
    }
    timing = race(work, repeats=repeats)
    unmasking = timing[streams].times(masks / _SEEDS)
    unmasking = unmasking.plus(timing[pairs].times(params.dropouts * stayed / _PAIRS))
    factor = params.piece / columns
    rows = [
        Row(who=ours, timing=timing[ours]),
        Row(
            who=objects,
            timing=timing[objects].times(factor),
            extrapolated=f"{columns} of {params.piece} columns, weights not counted",
        ),
        Row(
            who="Bonawitz et al.: masks taken off",
            timing=unmasking,
            extrapolated=f"{masks:,} masks from {_SEEDS}, agreements from {_PAIRS}",
        ),
    ]
    return Case(
        name=f"sum of {stayed} masks of {params.length:,} found, {params.dropouts} of "
        f"{params.clients} clients gone",
        rows=rows,
        amount=float(params.length),
        unit="coordinate",
    )


def _object_product(a: NDArray[Any], b: NDArray[Any], modulus: int) -> NDArray[Any]:
    """Return the product of two matrices of Python integers: NumPy's own, reduced at the end."""
    return np.asarray(a.dot(b) % modulus)


def _stream_work(params: Params) -> Callable[[], object]:
    """Return the expansion of a few masks into one accumulator, as the pairwise protocol has it."""
    other = secagg.Params.recommend(
        clients=params.clients, dim=params.dim, corrupt=0.0, dropout=0.0
    )
    length = prg.seed_bytes(other.prg)
    seeds = np.frombuffer(OS.take(_SEEDS * length), np.uint8).reshape(_SEEDS, length)
    signs = np.ones(_SEEDS, np.int8)
    total = np.zeros(other.length, other.word)
    return lambda: prg.accumulate(total, seeds, signs, suite=other.prg)


def _agreement_work() -> Callable[[], object]:
    public = np.frombuffer(keys.public_key(OS.take(32)), np.uint8)
    publics, peers = np.tile(public, (_PAIRS, 1)), np.arange(1, _PAIRS + 1, dtype=np.uint32)
    private = OS.take(32)
    return lambda: pairing.mask_seeds(
        private,
        publics,
        context=bytes(32),
        roster=bytes(32),
        own=0,
        peers=peers,
        length=32,
        round="benchmark",
    )
