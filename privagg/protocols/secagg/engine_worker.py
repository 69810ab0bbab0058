"""A worker process: a shard of clients that answers through its standard input and output.

Started by :mod:`privagg.protocols.secagg.engine_processes`. It ends when its input does, that is
when the process that started it is gone.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from typing import Any, BinaryIO

import numpy as np

from privagg import prg
from privagg.keys import Identity
from privagg.protocols.secagg import engine_frames as frames
from privagg.protocols.secagg.engine import Cast, Shard
from privagg.protocols.secagg.identity import Roster
from privagg.protocols.secagg.params import Policy

__all__ = ["Host", "main", "serve"]


def main() -> None:
    """Serve standard input and output. What is printed meanwhile goes to standard error."""
    sys.stdout.flush()
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        frames.greet(sink)
        serve(source, sink)
    except BrokenPipeError:  # whoever asked is gone
        os._exit(1)  # no flush of what cannot be written any more


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer frames until there are none."""
    host = Host()
    while True:
        try:
            frame = frames.read(source)
        except EOFError:
            return
        frames.write(sink, host.answer(frame))


class Host:
    """A shard of clients, or masks to add up, for whoever carries frames here and answers back."""

    def __init__(self) -> None:
        self._shard: Shard | None = None
        self._masks: frames.Masks | None = None

    def answer(self, frame: Any) -> frames.Frame:
        """Return the answer to a question."""
        match frame:
            case frames.Open():
                self._shard = self._masks = None
                try:
                    self._shard = _shard(frame)
                except Exception as error:  # it is raised where the engine is
                    return frames.Ready(frames.failure(error, traceback.format_exc()))
                return frames.Ready(None)
            case frames.Turns():
                return _answers(self._shard, frame)
            case frames.Agreements():
                return _seeds(frame)
            case frames.Masks():
                self._masks = frame
                return frames.Ready(None)
            case frames.Span():
                return _words(self._masks, frame)
        raise frames.BrokenFrameError(f"{type(frame).__name__}, which is no question")


def _shard(frame: frames.Open) -> Shard:
    policy = None
    if frame.policy is not None:
        roster = None if frame.policy.roster is None else Roster(frame.policy.roster)
        policy = Policy(
            min_cohort=frame.policy.min_cohort,
            max_corrupt=frame.policy.max_corrupt,
            roster=roster,
        )
    identities = None
    if frame.identities is not None:
        identities = dict(zip(frame.clients, map(Identity, frame.identities), strict=True))
    cast = Cast(
        params=frame.params,
        policy=policy,
        model=frame.model,
        seed=frame.seed,
        identities=identities,
    )
    return Shard(cast, frame.clients)


def _answers(shard: Shard | None, frame: frames.Turns) -> frames.Answers:
    replies = []
    for turn in frame.jobs:
        try:
            assert shard is not None, "asked before it was opened"
            reply = shard.answer(frame.method, frames.unpack_job(turn))
            replies.append(frames.pack_reply(reply, posted=turn.post is not None))
        except Exception as error:  # it is raised where the engine is
            return frames.Answers(replies, frames.failure(error, traceback.format_exc()))
    return frames.Answers(replies, None)


def _seeds(frame: frames.Agreements) -> frames.Seeds:
    began = time.thread_time()
    try:
        seeds = frames.unpack_pairs(frame).seeds().tobytes()
    except Exception as error:  # it is raised where the engine is
        return frames.Seeds(b"", 0.0, frames.failure(error, traceback.format_exc()))
    return frames.Seeds(seeds, time.thread_time() - began, None)


def _words(masks: frames.Masks | None, span: frames.Span) -> frames.Words:
    began = time.thread_time()
    try:
        assert masks is not None, "asked before it had masks"
        words = np.zeros(span.end - span.first, masks.dtype)
        signs = np.frombuffer(masks.signs, np.int8)
        seeds = np.frombuffer(masks.seeds, np.uint8).reshape(len(signs), -1)
        prg.accumulate(words, seeds, signs, suite=masks.suite, start=span.first)
        words &= words.dtype.type(2**masks.bits - 1)
    except Exception as error:  # it is raised where the engine is
        return frames.Words(b"", 0.0, frames.failure(error, traceback.format_exc()))
    return frames.Words(words.tobytes(), time.thread_time() - began, None)
