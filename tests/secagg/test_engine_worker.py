"""A worker answers frames until there are none, whatever goes wrong on the way."""

from __future__ import annotations

import io

import numpy as np
import pytest
from parties import complete, identity, pinned

from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import engine_frames as frames
from privagg.protocols.secagg import engine_worker
from privagg.protocols.secagg.engine import Job
from privagg.protocols.secagg.pairing import Pairs


def served(*asked):
    """Return what a worker answers to these frames."""
    source, sink = io.BytesIO(), io.BytesIO()
    for frame in asked:
        frames.write(source, frame)
    source.seek(0)
    engine_worker.serve(source, sink)
    sink.seek(0)
    found = [frames.read(sink) for _ in asked]
    assert sink.read() == b""
    return found


def opened(params, clients=(0, 2), **changes):
    settings = {
        "params": params,
        "policy": None,
        "model": b"",
        "seed": 3,
        "clients": list(clients),
        "identities": None,
    }
    return frames.Open(**settings | changes)


def turns(params, *clients, method="advertise_keys"):
    server = secagg.Server(params, session=bytes(16))
    jobs = [Job(client=client, inbox=server.start(client).encode()) for client in clients]
    return frames.Turns(method, list(map(frames.pack_job, jobs)))


def test_clients_are_made_and_answer_in_order():
    params = complete(4)
    ready, answers = served(opened(params), turns(params, 2, 0))
    assert ready.failure is None
    assert answers.failure is None
    assert [reply.client for reply in answers.replies] == [2, 0]
    assert {reply.kind for reply in answers.replies} == {"AdvertiseKeys"}


def test_the_first_failure_ends_the_turns_and_not_the_worker():
    params = complete(4)
    _, first, second = served(opened(params), turns(params, 2, 3, 0), turns(params, 0))
    assert [reply.client for reply in first.replies] == [2]
    assert isinstance(frames.exception(first.failure), RuntimeError)  # there is no client 3 here
    assert "KeyError: 3" in str(frames.exception(first.failure))
    assert [reply.client for reply in second.replies] == [0]


def test_clients_that_cannot_be_made_are_a_failure_with_its_fields():
    params = secagg.Params.recommend(clients=5, dim=4, threat="active")
    (ready,) = served(opened(params))
    assert isinstance(frames.exception(ready.failure), UsageError)
    policy = frames.Policy(params.min_cohort, params.corrupt, pinned(5).identities)
    secrets = [identity(client).secret_bytes() for client in (0, 2)]
    (ready,) = served(opened(params, policy=policy, identities=secrets))
    assert ready.failure is None


def test_questions_before_the_clients_are_made():
    params = complete(4)
    (answers,) = served(turns(params, 0))
    assert "before it was opened" in str(frames.exception(answers.failure))


def test_only_round_methods_are_called():
    params = complete(4)
    _, answers = served(opened(params), turns(params, 0, method="dump_state"))
    assert answers.replies == []
    assert isinstance(frames.exception(answers.failure), UsageError)


@pytest.mark.parametrize("low_order", [False, True])
def test_agreements_need_no_client(low_order):
    publics = np.random.default_rng(1).integers(0, 256, (3, 32), np.uint8)
    if low_order:
        publics[1] = 0
    pairs = Pairs(
        private=b"p" * 32,
        publics=publics,
        context=bytes(32),
        roster=bytes(32),
        own=1,
        peers=np.array([0, 2, 9], np.uint32),
        length=32,
        round="unmasking",
    )
    (found,) = served(frames.pack_pairs(pairs))
    if low_order:
        assert str(frames.exception(found.failure)).startswith("client 2, round unmasking")
    else:
        assert found.seeds == pairs.seeds().tobytes()
        assert found.seconds > 0
