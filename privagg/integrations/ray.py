"""Simulated rounds on a Ray cluster: the clients in actors, the unmasking split over them.

Where the actors run is Ray's affair: on this machine or on many. Needs the extra ``ray``.

Threat model: that of a simulation, in which one party plays all. Clients' inputs, identities that
the caller passes, the seed of a seeded run, the keys of clients that left and, for the unmasking,
the seeds of the masks pass through Ray's messages and its object store, which spills to the disks
of its nodes. Whoever can read those, or submit work to the cluster, sees every input; Ray itself
encrypts and authenticates nothing unless it is told to. For clients that must not trust the machine
that plays them there are the parties themselves, :class:`privagg.protocols.secagg.Client` and
:class:`privagg.protocols.secagg.Server`, over a transport of your own.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import __version__
from privagg._validate import whole
from privagg.errors import UsageError, WorkerLost
from privagg.protocols.secagg import engine_frames as frames
from privagg.protocols.secagg.engine_remote import RemoteEngine
from privagg.protocols.secagg.engine_worker import Host
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.workers import available_cores

__all__ = ["PATIENCE", "RayEngine"]

PATIENCE = 120.0
"""Seconds that the cluster gets to start the actors."""

_REACH = 10.0
"""Seconds that a cluster gets to take up a connection."""

_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # a simulation tells nobody of itself
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what later versions do anyway, without a warning
}


class _Actor:
    """A worker: it answers frames, one after the other."""

    def __init__(self) -> None:
        self._host = Host()

    def version(self) -> str:
        """Return the version of this package where the actor lives."""
        return __version__

    def answer(self, data: bytes) -> bytes:
        """Answer the question with these bytes."""
        return frames.pack(self._host.answer(frames.unpack(data)))


class RayEngine(RemoteEngine):
    """Clients in Ray actors; see :class:`privagg.protocols.secagg.engine.Engine`.

    Each actor holds a shard of the clients and takes one CPU of the cluster. When the masks are
    taken off the sum, each adds up those of ranges of coordinates. The result, and every message,
    is that of :class:`privagg.protocols.secagg.engine.LocalEngine`, but for the seconds.

    If this process is connected to Ray already, that is used; else Ray is started on this machine,
    or joined at `address`, and left again by :meth:`close`. Close it, or use it in a ``with``: the
    actors end then, and also if this process does.

    Guarantee: none against the cluster; see :mod:`privagg.integrations.ray`.

    Parameters
    ----------
    workers : int, optional
        Actors; one for each CPU of the cluster if left out.
    address : str, optional
        Of a running cluster, such as ``"10.0.0.1:6379"``; ``"auto"`` finds the one that this
        machine belongs to.
    at_most : int
        Actors at most, where `workers` is left out.

    Raises
    ------
    UsageError
        If Ray is not installed, there is no cluster at `address`, it has too few CPUs, or its nodes
        have no privagg or another version.
    """

    _files = False
    _again = "Make another one: RayEngine(n)."

    def __init__(
        self, workers: int | None = None, *, address: str | None = None, at_most: int = 1024
    ) -> None:
        super().__init__()
        if workers is not None:
            workers = whole("workers", workers, 1, 1024)
        at_most = whole("at_most", at_most, 1, 2**31)
        if address is not None and not (isinstance(address, str) and address):
            raise UsageError("address", address, "the address of a Ray cluster, or 'auto'")
        self._ray = _ray()
        self._ours = not self._ray.is_initialized()
        self._actors: list[_Worker] = []
        self._workers = self._actors
        if self._ours:
            _connect(self._ray, workers or min(available_cores(), at_most), address)
        elif address not in (None, "auto"):
            hint = "Leave it out, or call ray.shutdown() before."
            raise UsageError("address", address, "nothing: this process has joined Ray", hint)
        try:
            self._start(workers, at_most)
        except BaseException:
            self.close()
            raise

    def _start(self, workers: int | None, at_most: int) -> None:
        ray = self._ray
        cores = int(ray.cluster_resources().get("CPU", 0))
        count = workers or max(1, min(cores, at_most, 1024))
        if count > cores:
            raise UsageError("workers", count, f"at most the cluster's {cores} CPUs, one for each")
        kind = ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(_Actor)
        self._actors.extend(_Worker(ray, kind.remote(), place, count) for place in range(count))
        asked = [worker.actor.version.remote() for worker in self._actors]
        try:
            found = set(ray.get(asked, timeout=PATIENCE))
        except ray.exceptions.GetTimeoutError:
            free = int(ray.available_resources().get("CPU", 0))
            raise UsageError(
                "workers",
                count,
                f"as many as the cluster starts in {PATIENCE:.0f} seconds",
                f"{free} of its {cores} CPUs are still free: use fewer, or wait for other jobs.",
            ) from None
        except ray.exceptions.RayError as error:
            raise UsageError(
                "address",
                f"a cluster whose actors do not start ({type(error).__name__})",
                f"privagg {__version__} and its dependencies on every node",
                f"Install it there: pip install 'privagg[ray]=={__version__}'",
            ) from None
        if found != {__version__}:
            raise UsageError(
                "address",
                f"nodes with privagg {', '.join(sorted(found - {__version__}))}",
                f"privagg {__version__} on every node, as here",
            )

    def strip(
        self,
        params: Params,
        seeds: NDArray[np.uint8],
        signs: NDArray[np.int8],
        spans: Iterable[tuple[int, int]],
    ) -> Iterator[NDArray[Any]]:
        """Add up masks, each range of coordinates in the next actor.

        See :data:`privagg.protocols.secagg.pairing.Strip`.

        Parameters
        ----------
        params : Params
            The parameters that all parties agreed on.
        seeds : (n, 16) or (n, 32) uint8 array
            Seeds of the masks.
        signs : (n,) int8 array
            Whether a mask is added, 1, or taken off, -1.
        spans : iterable of (int, int)
            First coordinate and the one after the last, for each range.

        Returns
        -------
        Iterator[NDArray[Any]]

        Raises
        ------
        WorkerLost
            If an actor ended.
        """
        self._run.check()
        masks = frames.Masks(
            str(params.prg), params.word.name, params.modulus_bits, seeds.tobytes(), signs.tobytes()
        )
        # Once for all of them; gone from the object store with the last reference.
        shared = self._ray.put(frames.pack(masks))
        for answer in [one.ask_shared(masks, shared, "unmasking") for one in self._actors]:
            answer.result()
        del shared
        under_way: deque[_Answer] = deque()
        for turn, (first, end) in enumerate(spans):
            worker = self._actors[turn % len(self._actors)]
            under_way.append(worker.ask(frames.Span(first, end), "unmasking"))
            if len(under_way) > 2 * len(self._actors):
                yield self._words(under_way.popleft(), params)
        while under_way:
            yield self._words(under_way.popleft(), params)

    def _words(self, answer: _Answer, params: Params) -> NDArray[Any]:
        found = answer.result()
        if found.failure is not None:
            raise frames.exception(found.failure)
        self.elsewhere += found.seconds
        return np.frombuffer(found.words, params.word)

    def close(self) -> None:
        """End the actors, and Ray itself if it was started or joined here."""
        super().close()
        if self._ours and self._ray.is_initialized():
            self._ray.shutdown()
        self._ours = False


class _Worker:
    """One actor."""

    def __init__(self, ray: Any, actor: Any, number: int, of: int) -> None:
        self.number, self.actor = number, actor
        self._ray, self._name = ray, f"Ray actor {number + 1} of {of}"

    def ask(self, frame: frames.Frame, doing: str) -> _Answer:
        """Send a frame after those before it; return where the answer will be."""
        return self.ask_shared(frame, frames.pack(frame), doing)

    def ask_shared(self, frame: frames.Frame, data: Any, doing: str) -> _Answer:
        """Send a frame whose bytes may be in the object store."""
        try:
            sent = self.actor.answer.remote(data)
        except self._ray.exceptions.RayError as error:
            raise WorkerLost(self._name, f"was lost ({type(error).__name__})", doing) from None
        return _Answer(self._ray, sent, self._name, frame, doing)

    def end(self) -> None:
        """End the actor, whatever it does."""
        if self._ray.is_initialized():
            with suppress(self._ray.exceptions.RayError, ValueError):  # it is gone already
                self._ray.kill(self.actor)


class _Answer:
    """Where an actor's answer will be."""

    def __init__(self, ray: Any, sent: Any, name: str, frame: frames.Frame, doing: str) -> None:
        self._ray, self._sent, self._name, self._doing = ray, sent, name, doing
        self._frame = frame
        self._found: Any = None

    def result(self) -> Any:
        """Wait for the answer and return it, always the same object."""
        if self._found is None:
            try:
                found = frames.unpack(self._ray.get(self._sent))
                frames.check_answer(self._frame, found)
            except self._ray.exceptions.RayError as error:
                end = f"was lost ({type(error).__name__})"
                raise WorkerLost(self._name, end, self._doing) from None
            except frames.BrokenFrameError as error:
                end = f"answered out of form ({error})"
                raise WorkerLost(self._name, end, self._doing) from None
            self._found, self._sent = found, None
        return self._found


def _ray() -> Any:
    """Return the module ray.

    Raises
    ------
    UsageError
        If it is not installed.
    """
    with _environment():
        try:
            return importlib.import_module("ray")
        except ImportError:
            hint = "Install it: pip install 'privagg[ray]'"
            raise UsageError("engine", "ray, which is not installed", "'local'", hint) from None


def _connect(ray: Any, workers: int, address: str | None) -> None:
    """Start Ray on this machine, or join a cluster; say nothing meanwhile."""
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        # "local": a cluster that the environment names is joined only if it is asked for.
        settings |= {"address": "local", "num_cpus": workers, "include_dashboard": False}
    else:
        _reach(address)
        settings["address"] = address
    # Ray puts a handler of its own in the place of the one that ends this process in order.
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with _environment():
            ray.init(**settings)
    except (ConnectionError, RuntimeError, ValueError) as error:
        if address is None:
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UsageError(
            "address",
            address,
            f"the address of a running Ray cluster ({reason})",
            "Start one with `ray start --head`, or leave it out to run on this machine.",
        ) from None
    finally:
        if main and handler is not None:
            signal.signal(signal.SIGTERM, handler)


def _reach(address: str) -> None:
    """Refuse a host where nobody listens: Ray itself tries for many minutes.

    Raises
    ------
    UsageError
        Saying why.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        return  # "auto", and whatever else Ray can look up
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise UsageError(
            "address",
            address,
            f"the address of a running Ray cluster ({getattr(error, 'strerror', None) or error})",
            "Start one with `ray start --head`, or leave it out to run on this machine.",
        ) from None


@contextmanager
def _environment() -> Iterator[None]:
    """Set what Ray reads when it starts, unless the user has; take it back afterwards."""
    added = [name for name in _SETTINGS if name not in os.environ]
    for name in added:
        os.environ[name] = _SETTINGS[name]
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
