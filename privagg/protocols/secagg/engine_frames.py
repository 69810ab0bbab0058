"""What passes between a process and its workers: frames of MessagePack, never pickles.

A frame is its length (8 bytes, little-endian) and the encoding of one of the structs below. The
pipe is private to the two processes. What is secret in it are clients' inputs, where messages are
signed the identities that the run was given, and the keys of clients that left, which the server
rebuilt: no frame shows its fields in its ``repr``, and none can be pickled.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError
from privagg.keys import KEY_BYTES
from privagg.protocols.secagg.engine import Job, Reply
from privagg.protocols.secagg.engine_failures import Failure, Quiet, exception, failure
from privagg.protocols.secagg.pairing import Pairs
from privagg.protocols.secagg.params import Params

__all__ = [
    "Agreements",
    "Answers",
    "BrokenFrameError",
    "Failure",
    "Frame",
    "Masks",
    "Open",
    "Policy",
    "Ready",
    "Seeds",
    "Span",
    "Turns",
    "Words",
    "check_answer",
    "exception",
    "failure",
    "greet",
    "pack",
    "pack_job",
    "pack_pairs",
    "pack_reply",
    "read",
    "unpack",
    "unpack_job",
    "unpack_pairs",
    "unpack_reply",
    "wait_for_greeting",
    "write",
]

_LENGTH = 8
_MOST = 2**32 - 1
"""Bytes that MessagePack can hold in one field."""

_LONGEST = 1 << 38
"""Bytes that no frame has: more than a full field for each turn that is sent at once."""

_GREETING = b"\x00privagg worker\x00"
"""What a worker says first. Before it may come what an interpreter prints while it starts."""


class BrokenFrameError(Exception):
    """What came is no frame, or answers another question."""


class Policy(Quiet, frozen=True):
    """What clients insist on, and the public keys of their roster."""

    min_cohort: int
    max_corrupt: int
    roster: tuple[bytes, ...] | None


class Open(Quiet, tag=True, frozen=True):
    """Make these clients."""

    params: Params
    policy: Policy | None
    model: bytes
    seed: int | None
    clients: list[int]
    identities: list[bytes] | None


class Numbers(Quiet, frozen=True):
    """A vector: its bytes, or where in a file they are, and its ends to tell it by."""

    dtype: str
    data: bytes | None = None
    path: str | None = None
    offset: int = 0
    count: int = 0
    ends: bytes = b""


class Turn(Quiet, frozen=True):
    """A job."""

    client: int
    inbox: bytes
    weight: Any
    vector: Numbers | None
    post: str | None


class Turns(Quiet, tag=True, frozen=True):
    """Run a round method for some clients, in order, up to the first that fails."""

    method: str
    jobs: list[Turn]


class Answer(Quiet, frozen=True):
    """A reply; without bytes if they are in the file that the job named."""

    client: int
    kind: str
    outbox: bytes | None
    clipped: int
    seconds: float


class Answers(Quiet, tag=True, frozen=True):
    """Replies of the clients that did not fail, and why the next did."""

    replies: list[Answer]
    failure: Failure | None


class Pair(Quiet, frozen=True):
    """One party's agreements: see :class:`privagg.protocols.secagg.pairing.Pairs`."""

    private: bytes
    publics: bytes
    context: bytes
    roster: bytes
    own: int
    peers: bytes
    length: int
    round: str
    model: bytes


class Agreements(Quiet, tag=True, frozen=True):
    """Work out the seeds of one party's pairs."""

    pair: Pair


class Seeds(Quiet, tag=True, frozen=True):
    """The seeds one after the other, or why there are none; and the CPU seconds."""

    seeds: bytes
    seconds: float
    failure: Failure | None


class Masks(Quiet, tag=True, frozen=True):
    """Streams whose sum is asked for by ranges: the suite, the words they fill, seeds and signs."""

    suite: str
    dtype: str
    bits: int
    seeds: bytes
    signs: bytes


class Span(Quiet, tag=True, frozen=True):
    """Add up the streams in this range of coordinates."""

    first: int
    end: int


class Words(Quiet, tag=True, frozen=True):
    """The words of the range, or why there are none; and the CPU seconds."""

    words: bytes
    seconds: float
    failure: Failure | None


class Ready(Quiet, tag=True, frozen=True):
    """The clients are made, or the masks are there, or why not."""

    failure: Failure | None


Frame = Open | Turns | Answers | Agreements | Seeds | Masks | Span | Words | Ready

_DECODER = msgspec.msgpack.Decoder(Frame)


def greet(stream: BinaryIO) -> None:
    """Say that frames follow."""
    stream.write(_GREETING)
    stream.flush()


def wait_for_greeting(stream: BinaryIO) -> None:
    """Skip what was printed before the frames.

    Raises
    ------
    EOFError
        If the other side is gone.
    """
    last = b""
    while last != _GREETING:
        byte = stream.read(1)
        if not byte:
            raise EOFError("no greeting")
        last = (last + byte)[-len(_GREETING) :]


def pack(frame: Frame) -> bytes:
    """Return a frame's bytes."""
    return msgspec.msgpack.encode(frame)


def unpack(data: bytes) -> Any:
    """Return the frame with these bytes.

    Raises
    ------
    BrokenFrameError
        If there is none.
    """
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError as error:
        raise BrokenFrameError(str(error)) from None


def write(stream: BinaryIO, frame: Frame) -> None:
    """Write a frame, and push it through."""
    data = pack(frame)
    stream.write(len(data).to_bytes(_LENGTH, "little"))
    stream.write(data)
    stream.flush()


def read(stream: BinaryIO) -> Any:
    """Read a frame.

    Raises
    ------
    EOFError
        If the other side is gone.
    BrokenFrameError
        If what came is no frame.
    """
    head = stream.read(_LENGTH)
    if len(head) < _LENGTH:
        raise EOFError("no frame")
    size = int.from_bytes(head, "little")
    if size > _LONGEST:
        raise BrokenFrameError(f"a frame of {size} bytes")
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("a frame cut short")
    return unpack(data)


def check_answer(asked: Frame, found: Frame) -> None:
    """Require that one frame answers the other: its kind, its clients, its sizes.

    Raises
    ------
    BrokenFrameError
        If it does not.
    """
    match asked, found:
        case ((Open() | Masks()), Ready()):
            return
        case Span(), Words():
            # The word's size was said with the masks.
            count = asked.end - asked.first
            if found.failure is not None or len(found.words) in (4 * count, 8 * count):
                return
        case Agreements(), Seeds():
            size = len(asked.pair.peers) // 4 * asked.pair.length
            if found.failure is not None or len(found.seeds) == size:
                return
        case Turns(), Answers():
            done, due = len(found.replies), len(asked.jobs)
            if (done == due if found.failure is None else done < due) and all(
                reply.client == turn.client and (reply.outbox is None) == (turn.post is not None)
                for reply, turn in zip(found.replies, asked.jobs, strict=False)
            ):
                return
    raise BrokenFrameError(f"{type(found).__name__} after {type(asked).__name__}")


def pack_job(job: Job, files: bool = True) -> Turn:
    """Return a job as it is sent; of what is in `files`, where it is, if workers see them too.

    Raises
    ------
    UsageError
        If its vector is too long to be sent, and in no file; or it has a `post` and no file.
    """
    if job.post is not None and not files:
        hint = "Use worker processes, or none."
        raise UsageError("engine", "workers that share no files", "an engine for streams", hint)
    vector = None
    if job.vector is not None:
        vector = _in_file(job.vector) if files else None
        if vector is None:
            if job.vector.nbytes > _MOST:
                raise UsageError(
                    f"vectors[{job.client}]",
                    f"{job.vector.nbytes} bytes",
                    "less than 4 GiB, or a memory map, for worker processes",
                    "Stream it: secagg.streaming.run_streamed.",
                )
            vector = Numbers(dtype=job.vector.dtype.str, data=job.vector.tobytes())
    post = None if job.post is None else str(job.post)
    return Turn(job.client, job.inbox, _weight(job.weight), vector, post)


def unpack_job(turn: Turn) -> Job:
    """Return the job that was sent; UsageError if its vector's file is another one by now."""
    vector: NDArray[Any] | None = None
    if turn.vector is not None:
        dtype = np.dtype(turn.vector.dtype)
        if turn.vector.path is not None:
            vector = np.memmap(
                turn.vector.path,
                dtype,
                "r",
                offset=turn.vector.offset,
                shape=(turn.vector.count,),
            )
            if _ends(vector) != turn.vector.ends:
                raise UsageError(
                    "vector",
                    f"other numbers in {turn.vector.path} than were mapped",
                    "a file that stays as it is during the round",
                )
        else:
            vector = np.frombuffer(turn.vector.data or b"", dtype)
    return Job(
        client=turn.client,
        inbox=turn.inbox,
        vector=vector,
        weight=turn.weight,
        post=None if turn.post is None else Path(turn.post),
    )


def pack_reply(reply: Reply, posted: bool) -> Answer:
    """Return a reply as it is sent; without its bytes if they were `posted` to a file."""
    outbox = None if posted else bytes(reply.outbox)
    return Answer(reply.client, reply.kind, outbox, reply.clipped, reply.seconds)


def unpack_reply(answer: Answer, post: Path | None) -> Reply:
    """Return the reply that was sent; its bytes may be in the file `post`."""
    outbox: bytes | memoryview
    if answer.outbox is not None:
        outbox = answer.outbox
    else:
        assert post is not None
        outbox = np.memmap(post, np.uint8, "r+").data
    return Reply(
        client=answer.client,
        kind=answer.kind,
        outbox=outbox,
        clipped=answer.clipped,
        seconds=answer.seconds,
    )


def pack_pairs(pairs: Pairs) -> Agreements:
    """Return agreements as they are sent."""
    return Agreements(
        Pair(
            private=pairs.private,
            publics=pairs.publics.tobytes(),
            context=pairs.context,
            roster=pairs.roster,
            own=pairs.own,
            peers=pairs.peers.astype("<u4").tobytes(),
            length=pairs.length,
            round=pairs.round,
            model=pairs.model,
        )
    )


def unpack_pairs(frame: Agreements) -> Pairs:
    """Return the agreements that were sent."""
    pair = frame.pair
    return Pairs(
        private=pair.private,
        publics=np.frombuffer(pair.publics, np.uint8).reshape(-1, KEY_BYTES),
        context=pair.context,
        roster=pair.roster,
        own=pair.own,
        peers=np.frombuffer(pair.peers, "<u4"),
        length=pair.length,
        round=pair.round,
        model=pair.model,
    )


def _weight(weight: Any) -> Any:
    """Return a weight as it is sent; what is none as its words, which the client refuses alike."""
    if isinstance(weight, int | np.integer) and not isinstance(weight, bool):
        weight = int(weight)
        return weight if -(2**63) <= weight < 2**64 else repr(weight)
    return weight if weight is None or type(weight) in (bool, float, str) else repr(weight)


def _in_file(vector: NDArray[Any]) -> Numbers | None:
    """Return where in its file a vector is, if it is a contiguous part of one that is mapped."""
    base: Any = vector
    mapped: np.memmap[Any, Any] | None = None
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and base.filename is not None and base.mode != "c":
            mapped = base  # the outermost of them is the one that was opened
        base = base.base
    if mapped is None or not isinstance(base, mmap.mmap) or not vector.flags.c_contiguous:
        return None
    if not Path(str(mapped.filename)).is_file():  # its name is gone, as a temporary file's is
        return None
    # A view keeps the offset of the whole map, whose first byte is a page's.
    begin = vector.ctypes.data - np.frombuffer(base, np.uint8).ctypes.data
    start = mapped.offset - mapped.offset % mmap.ALLOCATIONGRANULARITY
    return Numbers(
        dtype=vector.dtype.str,
        path=str(mapped.filename),
        offset=start + begin,
        count=vector.size,
        ends=_ends(vector),
    )


def _ends(vector: NDArray[Any]) -> bytes:
    """Return the bytes of the first and the last few numbers: more would map more of the file."""
    return vector[:8].tobytes() + vector[-8:].tobytes()
