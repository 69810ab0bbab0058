"""A worker process: a shard of clients that answers through its standard input and output.

Started by :mod:`privagg.protocols.secagg.engine_processes`. It ends when its input does, that is
when the process that started it is gone.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from typing import BinaryIO

from privagg.keys import Identity
from privagg.protocols.secagg import engine_frames as frames
from privagg.protocols.secagg.engine import Cast, Shard
from privagg.protocols.secagg.identity import Roster
from privagg.protocols.secagg.params import Policy

__all__ = ["main", "serve"]


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
    shard: Shard | None = None
    while True:
        try:
            frame = frames.read(source)
        except EOFError:
            return
        if isinstance(frame, frames.Open):
            shard, failed = None, None
            try:
                shard = _shard(frame)
            except Exception as error:  # it is raised where the engine is
                failed = frames.failure(error, traceback.format_exc())
            frames.write(sink, frames.Ready(failed))
        elif isinstance(frame, frames.Turns):
            frames.write(sink, _answers(shard, frame))
        elif isinstance(frame, frames.Agreements):
            frames.write(sink, _seeds(frame))


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
