"""Rounds on vectors that are too long for memory.

Each client writes its masked vector into a file from which the server adds it; the sum is unmasked
and decoded in files, too. No party holds more than a few tiles of a vector, and the server the
arrays of its edges (:mod:`privagg.protocols.secagg.tiles`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._cuda.arrays import is_device_array
from privagg.errors import UsageError
from privagg.protocols.secagg import device, tiles
from privagg.protocols.secagg.arguments import check_params
from privagg.protocols.secagg.engine import Engine
from privagg.protocols.secagg.engine_remote import AHEAD, turns_at_once
from privagg.protocols.secagg.identity import Directory, Signer
from privagg.protocols.secagg.inputs import LongInputs
from privagg.protocols.secagg.messages import MaskedInput
from privagg.protocols.secagg.params import Params, Policy
from privagg.protocols.secagg.parties import Parties, Progress, engine_of
from privagg.protocols.secagg.result import Result, Truth
from privagg.protocols.secagg.rounds import Driver
from privagg.protocols.secagg.server import Server
from privagg.protocols.secagg.unmask import Unmasker

__all__ = ["StreamingServer", "run_streamed", "scratch_bytes", "under_way"]


class StreamingServer(Server):
    """A :class:`Server` whose vectors lie where the caller says: in memory maps.

    Messages of masked vectors may be decoded from the ``memoryview`` of a map; what is decoded so
    is added by tiles.

    Parameters
    ----------
    params : Params
        Agreed parameters of the round.
    accumulator : (length,) array of params.word
        Where the masked vectors are summed; overwritten with zeros. With a CUDA array the device
        unpacks, adds and unmasks them (:mod:`privagg.protocols.secagg.device`).
    total : (dim,) int64 array, or float64 for floats
        Receives the sum. ``result().total`` is this array, ``result().mean`` is empty.
    progress : callable, optional
        Called with tiles done and to do while the masks are taken off.
    **settings
        As for :class:`Server`.

    Raises
    ------
    UsageError
        If an array is not as described, or as :class:`Server`.
    """

    def __init__(
        self,
        params: Params,
        *,
        accumulator: NDArray[Any],
        total: NDArray[Any],
        progress: tiles.Progress | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(params, **settings)
        kind = np.dtype(np.int64 if params.encoding.clip is None else np.float64)
        if is_device_array(accumulator):
            device.require("accumulator", accumulator, params.length, params.word)
        else:
            _require("accumulator", accumulator, params.length, params.word)
        _require("total", total, params.dim, kind)
        if is_device_array(accumulator):
            device.clear(accumulator)
        else:
            for first, end in tiles.spans(params.length):
                accumulator[first:end] = 0
                tiles.release(accumulator[first:end])
        self._accumulator = accumulator
        self._total = total
        self._progress = progress

    def _unmasker(self) -> Unmasker:
        return replace(super()._unmasker(), total=self._total, progress=self._progress)


def run_streamed(
    params: Params,
    vectors: Sequence[NDArray[Any]],
    total: NDArray[Any],
    *,
    scratch: Path,
    weights: Sequence[int] | None = None,
    dropouts: Mapping[int, str] | None = None,
    policy: Policy | None = None,
    seed: int | None = None,
    workers: int = 1,
    engine: Engine | None = None,
    identities: Sequence[Signer] | None = None,
    roster: Directory | None = None,
    model: bytes = b"",
    progress: Progress | None = None,
) -> Result:
    """Run a round with all its parties here, on vectors too long for memory.

    Guarantee: that of :func:`privagg.protocols.secagg.run`, in every threat model: a server needs a
    masked vector only to add it, and nothing that clients check or sign has one in it. Masked
    vectors, which are no secret, and the plain sum, which is the sum, pass through `scratch`;
    inputs and the sum lie where the caller put them.

    Parameters
    ----------
    params : Params
        The round.
    vectors : sequence of n arrays of shape (dim,)
        One per client, memory maps where they are long. Items are taken one at a time, when the
        client sends its input, and let go when it is in the sum.
    total : (dim,) int64 array, or float64 for floats
        Receives the sum; a memory map where it is long.
    scratch : Path
        A folder with room for what :func:`scratch_bytes` says.
    weights, dropouts, policy, seed, workers, engine, identities, roster, model
        As for :func:`privagg.protocols.secagg.run`. Workers open memory maps themselves.
    progress : callable, optional
        Called with a round's name, what is done and what there is to do: clients, and tiles while
        the masks are taken off.

    Returns
    -------
    Result
        ``sum`` is `total`, ``mean`` is empty: it would be as long again.

    Raises
    ------
    UsageError
        If an input is not as described, or as :func:`privagg.protocols.secagg.run`.
    Abort
        If too few are left in some round; nothing about any input was revealed.
    OSError
        If `scratch` has no room.
    """
    check_params(params)
    if not isinstance(scratch, str | Path) or not Path(scratch).is_dir():
        raise UsageError("scratch", str(scratch), "a folder that exists")
    inputs = LongInputs(params, vectors, weights)
    parties = Parties(
        params=params,
        policy=policy,
        seed=seed,
        identities=identities,
        roster=roster,
        model=model,
        dropouts={} if dropouts is None else dropouts,
        progress=progress,
    )
    with (
        TemporaryDirectory(prefix="privagg-", dir=scratch) as name,
        engine_of(params, workers, engine) as place,
    ):
        folder = Path(name)

        def room(file: str, dtype: Any, length: int) -> NDArray[Any]:
            return tiles.create(folder / file, dtype, length)

        server = parties.server(
            StreamingServer,
            place,
            workers,
            accumulator=room("accumulator", params.word, params.length),
            total=total,
            progress=lambda done, of: parties.progress("unmasking by tiles", done, of),
        )
        driver = Driver(
            parties=parties,
            inputs=inputs,
            truth=Truth(params, room("plain", total.dtype, params.dim)),
            server=server,
            engine=place,
            posts=folder,
        )
        return driver.run()


def scratch_bytes(params: Params, workers: int = 1) -> int:
    """Return the bytes that :func:`run_streamed` needs in its folder, at most.

    The accumulator, the plain sum that the sum is compared with, and the masked vectors that are
    under way: one, or for each of several workers what it is sent ahead, two if they are long.
    """
    sums = params.length * params.word.itemsize + params.dim * 8
    return sums + under_way(params, workers) * MaskedInput.size(params)


def under_way(params: Params, workers: int) -> int:
    """Return how many clients' vectors are on their way at a time, at most."""
    workers = min(workers, params.clients)
    return 1 if workers == 1 else min(params.clients, AHEAD * workers * turns_at_once(params))


def _require(name: str, array: object, length: int, dtype: np.dtype[Any]) -> None:
    if (
        not isinstance(array, np.ndarray)
        or array.shape != (length,)
        or array.dtype != dtype
        or not array.flags.carray
    ):
        found = f"{array.dtype}, {array.shape}" if isinstance(array, np.ndarray) else type(array)
        raise UsageError(name, str(found), f"a writable ({length},) array of {dtype}")
