"""Kernels are compiled, or read from where they are kept, before a round's clock starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from privagg._jit import JIT
from privagg.cli.inputs import ClientInputs, leaves
from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import Graph, Params

__all__ = ["compiling", "warm_up"]

_DIM = 16
_CLIENTS = {Graph.COMPLETE: 8, Graph.SPARSE: 32}
"""Cohorts small enough to cost a moment."""

_WIDE = 32
"""More bits of modulus than this are summed in words of 64."""


def warm_up(params: Params, inputs: ClientInputs, say: Callable[[str], None]) -> None:
    """Run small rounds that need the kernels of a large one, so that it is timed without them.

    Parameters
    ----------
    params : Params
        The round to come: its numbers, weights, mask stream and graph decide what is compiled.
    inputs : ClientInputs
        Its inputs; only the type of the first client's numbers is looked at.
    say : callable
        Told if something must be compiled, which takes seconds and happens once.
    """
    if not JIT:
        return
    dtype = np.result_type(*(array.dtype for _, array in leaves(inputs.vectors[0])))
    with compiling(lambda: say("Compiling kernels, once for this machine ...")):
        for small in _rounds(params):
            secagg.run(
                small,
                np.zeros((small.clients, small.dim), dtype),
                weights=[1] * small.clients if small.encoding.weighted else None,
                # What a client leaves behind is unmasked by other kernels.
                dropouts={0: "masked-input"} if _one_may_leave(small) else None,
            )


def _rounds(params: Params) -> Iterator[Params]:
    if params.clients <= _CLIENTS[Graph.COMPLETE]:
        yield replace(params, dim=_DIM)
        return
    # The sparse graph's sharing takes another way than the complete one's, by the neighbours.
    for graph in (Graph.COMPLETE, Graph.SPARSE)[: 1 + (params.graph is Graph.SPARSE)]:
        try:
            small = _small(params, graph, params.encoding.value_bits)
            if small.modulus_bits <= _WIDE < params.modulus_bits:
                small = _small(params, graph, 32)
        except UsageError:
            continue  # no small round is like it: then the large one compiles what it needs
        yield small


def _small(params: Params, graph: Graph, value_bits: int) -> Params:
    encoding = params.encoding
    return Params.recommend(
        clients=min(params.clients, _CLIENTS[graph]),
        dim=_DIM,
        value_bits=value_bits,
        signed=encoding.signed,
        clip=encoding.clip,
        weighted=encoding.weighted,
        max_weight=encoding.max_weight if encoding.weighted else None,
        corrupt=0.0,
        dropout=0.25 if graph is Graph.COMPLETE else 0.05,
        graph=graph,
        prg=params.prg,
    )


def _one_may_leave(params: Params) -> bool:
    """Whether every secret can still be rebuilt then, and enough inputs are in the sum."""
    return params.clients > params.min_cohort and params.neighbours > params.threshold


@contextmanager
def compiling(say: Callable[[], None]) -> Iterator[None]:
    """Call `say` once if a kernel is compiled in the body; one that is kept is only read."""
    events: Any = import_module("numba.core.event")
    said = False

    def start(_listener: object, _event: object) -> None:
        nonlocal said
        if not said:
            said = True
            say()

    kind = type("Compiling", (events.Listener,), {"on_start": start, "on_end": lambda *_: None})
    with events.install_listener("numba:compile", kind()):
        yield
