"""What passes between processes comes out as it went in, and is no pickle."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import numpy as np
import pytest

from privagg.errors import Abort, CapacityError, PeerError, PrivaggError, UsageError
from privagg.protocols.secagg import engine_frames as frames
from privagg.protocols.secagg.engine import Job, Reply
from privagg.protocols.secagg.pairing import Pairs


def through(frame):
    pipe = io.BytesIO()
    frames.write(pipe, frame)
    pipe.seek(0)
    found = frames.read(pipe)
    assert pipe.read() == b""
    return found


def carried(job):
    (turn,) = through(frames.Turns("masked_input", [frames.pack_job(job)])).jobs
    return turn, frames.unpack_job(turn)


@pytest.mark.parametrize("dtype", ["<i8", "<f8", "<f4", "u1", "<f2", ">i4"])
def test_a_vector_keeps_its_numbers_and_its_type(dtype):
    vector = np.arange(7).astype(dtype)
    _, job = carried(Job(client=3, inbox=b"in", vector=vector, weight=5))
    assert (job.client, job.inbox, job.weight, job.post) == (3, b"in", 5, None)
    assert job.vector.dtype == vector.dtype
    np.testing.assert_array_equal(job.vector, vector)


@pytest.mark.parametrize("weight", [0, 7, np.int64(7), 1.5, True, "many", None])
def test_a_weight_arrives_as_what_it_is(weight):
    _, job = carried(Job(client=0, inbox=b"", weight=weight))
    assert job.weight == weight
    assert isinstance(job.weight, bool) == isinstance(weight, bool)


@pytest.mark.parametrize("rows", [slice(0, None), slice(5, None), slice(2, 4)])
def test_a_memory_map_is_opened_there_and_not_sent(tmp_path, rows):
    whole = np.random.default_rng(1).uniform(size=(9, 3001))
    np.save(tmp_path / "whole.npy", whole)
    mapped = np.load(tmp_path / "whole.npy", mmap_mode="r")[rows]
    for index, row in enumerate(mapped):
        for part, expected in ((row, whole[rows][index]), (row[7:-3], whole[rows][index][7:-3])):
            turn, job = carried(Job(client=0, inbox=b"", vector=part))
            assert turn.vector.data is None
            assert isinstance(job.vector, np.memmap)
            np.testing.assert_array_equal(job.vector, expected)


def test_what_is_in_no_file_as_it_is_is_sent(tmp_path):
    np.save(tmp_path / "whole.npy", np.arange(40.0).reshape(4, 10))
    mapped = np.load(tmp_path / "whole.npy", mmap_mode="r")
    private = np.load(tmp_path / "whole.npy", mmap_mode="c")
    private[1] = 7
    for vector in (mapped[:, 2], mapped[1, ::2], mapped[1] + 1, private[1], np.asarray(private)[1]):
        turn, job = carried(Job(client=0, inbox=b"", vector=vector))
        assert turn.vector.path is None
        np.testing.assert_array_equal(job.vector, vector)
    (tmp_path / "whole.npy").unlink()
    turn, job = carried(Job(client=0, inbox=b"", vector=mapped[3]))
    assert turn.vector.path is None
    np.testing.assert_array_equal(job.vector, mapped[3])


def test_a_vector_too_long_for_a_frame_is_refused(monkeypatch):
    monkeypatch.setattr(frames, "_MOST", 79)
    carried(Job(client=0, inbox=b"", vector=np.zeros(9)))
    with pytest.raises(UsageError, match=r"vectors\[4\].*Stream it"):
        frames.pack_job(Job(client=4, inbox=b"", vector=np.zeros(10)))


def test_a_reply_is_sent_or_lies_in_its_file(tmp_path):
    reply = Reply(client=4, kind="MaskedInput", outbox=b"bytes", clipped=2, seconds=0.5)
    sent = frames.pack_reply(reply, posted=False)
    assert frames.unpack_reply(through(frames.Answers([sent], None)).replies[0], None) == reply
    post = tmp_path / "post"
    post.write_bytes(b"bytes")
    sent = frames.pack_reply(reply, posted=True)
    assert sent.outbox is None
    found = frames.unpack_reply(sent, post)
    assert bytes(found.outbox) == b"bytes"
    assert isinstance(found.outbox, memoryview)


def test_agreements_arrive_whole():
    pairs = Pairs(
        private=b"p" * 32,
        publics=np.random.default_rng(1).integers(0, 256, (3, 32), np.uint8),
        context=b"c" * 32,
        roster=b"r" * 32,
        own=1,
        peers=np.array([0, 2, 9], np.uint32),
        length=32,
        round="unmasking",
        model=b"m" * 32,
    )
    found = frames.unpack_pairs(through(frames.pack_pairs(pairs)))
    np.testing.assert_array_equal(found.seeds(), pairs.seeds())
    assert "p" * 32 not in repr(pairs)


ERRORS = [
    UsageError("vectors[3]", [1, 2], "numbers", "Convert it."),
    UsageError("x", "y" * 200, "z"),
    CapacityError("value_bits", 60, "at most 57"),
    PeerError("server", "share-keys", "a key twice"),
    PeerError(3, "share-keys", "a key twice"),
    Abort("survivors", 4, 7),
    PrivaggError("something"),
]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_an_error_is_raised_as_it_was(error):
    sent = through(frames.Ready(frames.failure(error, "trace"))).failure
    found = frames.exception(sent)
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)


def test_an_error_that_nobody_foresaw_brings_its_traceback():
    found = frames.exception(frames.failure(ZeroDivisionError("x"), "Traceback: line 3"))
    assert isinstance(found, RuntimeError)
    assert "line 3" in str(found)


@pytest.mark.parametrize("cut", [0, 3, 8, 12, -1])
def test_a_frame_cut_short_is_the_end(cut):
    pipe = io.BytesIO()
    frames.write(pipe, frames.Turns("masked_input", [frames.pack_job(Job(client=0, inbox=b"x"))]))
    with pytest.raises(EOFError):
        frames.read(io.BytesIO(pipe.getvalue()[:cut]))


def test_frames_are_typed_and_never_pickles():
    assert "import pickle" not in Path(frames.__file__).read_text(encoding="utf-8")
    for data in (b"\x80\x04K\x01.", msgspec.msgpack.encode(["Turns", 3]), b"\xc0"):
        pipe = io.BytesIO(len(data).to_bytes(8, "little") + data)
        with pytest.raises(frames.BrokenFrameError):
            frames.read(pipe)
