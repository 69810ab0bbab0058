"""An engine whose clients live in worker processes, so that their Python runs on all cores.

Each worker is a fresh interpreter (about a second of CPU to start, all at the same time), not a
fork: the process that starts it may have threads, whose locks a fork would copy as they are. It
speaks frames over a private pipe (:mod:`privagg.protocols.secagg.engine_frames`).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, cast

from privagg._validate import whole
from privagg.errors import UsageError, WorkerLost
from privagg.protocols.secagg import engine_frames as frames
from privagg.protocols.secagg.engine_remote import RemoteEngine

__all__ = ["ProcessEngine"]

_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from privagg.protocols.secagg.engine_worker import main
main()
"""

_PATIENCE = 5.0
"""Seconds that a process gets to end after its pipe did."""


class ProcessEngine(RemoteEngine):
    """Clients in `workers` processes; see :class:`privagg.protocols.secagg.engine.Engine`.

    It starts them at once and can be used for several runs. Close it, or use it in a ``with``:
    workers end then, and also if this process does.

    Parameters
    ----------
    workers : int
        Processes.

    Raises
    ------
    UsageError
        If there is no interpreter to start, or the system starts no more of them.
    """

    _again = "Make another one: ProcessEngine(n)."

    def __init__(self, workers: int) -> None:
        workers = whole("workers", workers, 1, 1024)
        if not sys.executable:
            raise UsageError("workers", workers, "1 where there is no interpreter to start")
        super().__init__()
        started: list[_Worker] = []
        self._workers = started
        try:
            for number in range(workers):
                started.append(_Worker(number, workers))
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                hint = "Use fewer, or raise the limits of open files and processes (ulimit -n, -u)."
                allowed = f"as many as the system starts: {error.strerror}"
                raise UsageError("workers", workers, allowed, hint) from None
            raise


class _Worker:
    """One process, and the thread that speaks with it: a question, an answer, the next question."""

    def __init__(self, number: int, of: int) -> None:
        self.number, self._of = number, of
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, program and path
            # -P: no module of the folder that this process happens to be in.
            [sys.executable, "-P", "-c", _PROGRAM, json.dumps(list(map(str, sys.path)))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is this process's affair: it ends the workers.
            start_new_session=True,
        )
        self._greeted = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"worker-{number}")

    def ask(self, frame: frames.Frame, doing: str) -> Future[Any]:
        """Send a frame after those before it; return where the answer will be."""
        return self._thread.submit(self._ask, frame, doing)

    def _ask(self, frame: frames.Frame, doing: str) -> Any:
        process = self._process
        try:
            if not self._greeted:
                frames.wait_for_greeting(cast(Any, process.stdout))
                self._greeted = True
            frames.write(cast(Any, process.stdin), frame)
            answer = frames.read(cast(Any, process.stdout))
            frames.check_answer(frame, answer)
        except (EOFError, OSError):
            raise WorkerLost(self._name, self._end_of(), doing) from None
        except frames.BrokenFrameError as error:
            process.kill()  # what comes next could be anything
            raise WorkerLost(self._name, f"answered out of form ({error})", doing) from None
        return answer

    @property
    def _name(self) -> str:
        return f"worker process {self.number + 1} of {self._of}"

    def _end_of(self) -> str:
        """Say how the process ended."""
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        if code >= 0:
            return f"ended with exit code {code}"
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
        return f"was ended by signal {-code}"

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._thread.shutdown(cancel_futures=True)
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what is still in the buffer goes nowhere
                cast(Any, pipe).close()
