"""Rounds on vectors that are too long for memory.

Each client writes its masked vector into a file from which the server adds it; the sum is unmasked
and decoded in files, too. No party holds more than a few tiles of a vector, and the server the
arrays of its edges (:mod:`privagg.protocols.secagg.tiles`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg._cuda.arrays import is_device_array
from privagg.encoding import Aggregate
from privagg.errors import UsageError
from privagg.protocols.secagg import device, messages, tiles
from privagg.protocols.secagg.arguments import check_params, is_sequence, rounds_of_leaving
from privagg.protocols.secagg.client import Client
from privagg.protocols.secagg.messages import MaskedInput, Message
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.server import Server
from privagg.protocols.secagg.states import Phase
from privagg.protocols.secagg.unmask import Unmasker

__all__ = ["StreamedSum", "StreamingServer", "run_streamed"]


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


@dataclass(frozen=True, kw_only=True)
class StreamedSum:
    """What a streamed round gives.

    Attributes
    ----------
    aggregate : Aggregate
        Its total is the array that was given; its mean is empty.
    survivors : dict of round name to tuple of int
        Who answered each round.
    bytes_up : dict of round name to int
        Encoded bytes of all clients.
    clipped : int
        Coordinates outside the clip, over all survivors: known only because this is a simulation.
    insecure_seed : bool
        The run was seeded: whoever knows the seed knows every secret.
    """

    aggregate: Aggregate
    survivors: dict[str, tuple[int, ...]]
    bytes_up: dict[str, int]
    clipped: int
    insecure_seed: bool


def run_streamed(
    params: Params,
    vectors: Sequence[NDArray[Any]],
    total: NDArray[Any],
    *,
    scratch: Path,
    weights: Sequence[int] | None = None,
    dropouts: Mapping[int, str] | None = None,
    seed: int | None = None,
    workers: int = 1,
    progress: Callable[[str, int, int], None] = lambda name, done, of: None,
) -> StreamedSum:
    """Run a semi-honest round with all its parties here, on vectors too long for memory.

    Guarantee: that of :func:`privagg.protocols.secagg.run`. Masked vectors, which are no secret,
    pass through `scratch`; inputs and the sum lie where the caller put them.

    Parameters
    ----------
    params : Params
        The round; semi-honest.
    vectors : sequence of n arrays of shape (dim,)
        One per client, memory maps where they are long.
    total : (dim,) int64 array, or float64 for floats
        Receives the sum; a memory map where it is long.
    scratch : Path
        A folder with room for the accumulator and one masked vector.
    weights, dropouts, seed, workers
        As for :func:`privagg.protocols.secagg.run`.
    progress : callable
        Called with a round's name, what is done and what there is to do: clients, and tiles while
        the masks are taken off.

    Returns
    -------
    StreamedSum

    Raises
    ------
    UsageError
        If an input is not as described.
    Abort
        If too few are left in some round; nothing about any input was revealed.
    """
    check_params(params)
    if params.signed:
        raise UsageError("params.threat", params.threat.value, "semi-honest in a streamed run")
    if not is_sequence(vectors) or len(vectors) != params.clients:
        raise UsageError("vectors", type(vectors).__name__, f"one for each of {params.clients}")
    if (weights is not None) != params.encoding.weighted:
        raise UsageError("weights", weights is not None, "weights exactly where params have them")
    leaves = rounds_of_leaving(params, {} if dropouts is None else dropouts)
    source = entropies.from_seed(seed)
    sums, post = scratch / "accumulator", scratch / "masked-input"
    server = StreamingServer(
        params,
        accumulator=np.memmap(sums, params.word, "w+", shape=(params.length,)),
        total=total,
        progress=lambda done, of: progress("unmasking by tiles", done, of),
        entropy=source.spawn("server"),
        workers=workers,
    )
    clients = [
        Client(params, entropy=source.spawn(f"client/{index}")) for index in range(params.clients)
    ]
    clipped, up = 0, {}
    try:
        while server.phase is not Phase.DONE:
            phase, name = server.phase, server.phase.title
            up[name] = 0
            indices = [i for i in map(int, server.alive()) if leaves[i] > phase.value]
            for done, index in enumerate(indices, start=1):
                client = clients[index]
                message = messages.decode(server.message_for(index).encode(), params, peer="server")
                data: bytes | memoryview
                if isinstance(message, messages.ShareBundle):
                    out = np.memmap(post, np.uint8, "w+", shape=(MaskedInput.size(params),))
                    weight = 1 if weights is None else weights[index]
                    client.masked_input(message, vectors[index], weight=weight, out=out)
                    clipped += client.clipped
                    data = out.data
                else:
                    data = _answer(client, message).encode()
                client.delivered()
                up[name] += len(data)
                server.receive(index, messages.decode(data, params, peer=index))
                progress(name, done, len(indices))
            server.close()
    finally:
        for file in (sums, post):
            file.unlink(missing_ok=True)
    return StreamedSum(
        aggregate=server.result(),
        survivors=server.survivors(),
        bytes_up=up,
        clipped=clipped,
        insecure_seed=source.insecure,
    )


def _answer(client: Client, message: Message) -> Message:
    if isinstance(message, messages.Start):
        return client.advertise_keys(message)
    if isinstance(message, messages.KeyRoster):
        return client.share_keys(message)
    assert isinstance(message, messages.SurvivorSet)
    return client.unmasking(message)


def _require(name: str, array: object, length: int, dtype: np.dtype[Any]) -> None:
    if (
        not isinstance(array, np.ndarray)
        or array.shape != (length,)
        or array.dtype != dtype
        or not array.flags.carray
    ):
        found = f"{array.dtype}, {array.shape}" if isinstance(array, np.ndarray) else type(array)
        raise UsageError(name, str(found), f"a writable ({length},) array of {dtype}")
