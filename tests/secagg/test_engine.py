"""An engine makes clients, calls their round methods in order, and gives back encoded messages."""

from __future__ import annotations

import numpy as np
import pytest
from parties import ALL, complete, inputs

from privagg.errors import PeerError, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.client import Client
from privagg.protocols.secagg.engine import METHODS, Cast, Engine, Job, LocalEngine, Reply, Shard
from privagg.protocols.secagg.states import CLIENT_TABLES


def start_of(params, client, session=bytes(16)):
    return secagg.Server(params, session=session).start(client).encode()


def test_the_methods_are_those_of_a_client_that_answer_messages():
    assert all(callable(getattr(Client, name)) for name in METHODS)
    answered = {kind for table in CLIENT_TABLES.values() for _, kind in table}
    assert len(METHODS) == len(answered)  # survivors are answered twice, signatures once


def test_a_shard_answers_for_its_clients_as_they_would():
    params = complete(4)
    shard = Shard(Cast(params=params, seed=3), [0, 2])
    reply = shard.answer("advertise_keys", Job(client=2, inbox=start_of(params, 2)))
    alone = Client(
        params,
        entropy=secagg.rounds.Parties(
            params=params,
            policy=None,
            seed=3,
            identities=None,
            roster=None,
            model=b"",
            dropouts={},
            progress=None,
        ).source.spawn("client/2"),
    )
    start = messages.decode(start_of(params, 2), params, peer="server")
    assert reply.outbox == alone.advertise_keys(start).encode()
    assert (reply.client, reply.kind, reply.clipped) == (2, "AdvertiseKeys", 0)
    assert reply.seconds > 0
    with pytest.raises(KeyError):
        shard.answer("advertise_keys", Job(client=1, inbox=start_of(params, 1)))


def test_the_same_client_in_another_shard_has_the_same_secrets():
    params = complete(4)
    job = Job(client=3, inbox=start_of(params, 3))
    several, alone = (
        Shard(Cast(params=params, seed=3), range(4)),
        Shard(Cast(params=params, seed=3), [3]),
    )
    assert (
        several.answer("advertise_keys", job).outbox == alone.answer("advertise_keys", job).outbox
    )
    fresh = [Shard(Cast(params=params), [3]).answer("advertise_keys", job) for _ in range(2)]
    assert fresh[0].outbox != fresh[1].outbox


@pytest.mark.parametrize("name", ["dump_state", "__reduce__", "_reply", "", "start"])
def test_only_round_methods_can_be_called(name):
    params = complete(4)
    shard = Shard(Cast(params=params), [0])
    with pytest.raises(UsageError, match="method"):
        shard.answer(name, Job(client=0, inbox=start_of(params, 0)))


def test_a_closed_engine_has_no_clients():
    params = complete(4)
    engine = LocalEngine()
    with pytest.raises(UsageError, match="opened"):
        next(engine.call("advertise_keys", []))
    with engine:
        engine.open(Cast(params=params), [0])
        assert len(list(engine.call("advertise_keys", [Job(client=0, inbox=start_of(params, 0))])))
    with pytest.raises(UsageError, match="opened"):
        next(engine.call("advertise_keys", []))


def test_replies_before_a_failure_come_first():
    params = complete(4)
    with LocalEngine() as engine:
        engine.open(Cast(params=params), range(4))
        jobs = [Job(client=i, inbox=start_of(params, i)) for i in range(3)]
        jobs[1] = Job(client=1, inbox=start_of(complete(5), 1))
        replies = engine.call("advertise_keys", jobs)
        assert next(replies).client == 0
        with pytest.raises(PeerError):
            next(replies)


def test_secrets_and_inputs_are_in_no_repr():
    params = complete(4)
    shown = repr(Cast(params=params, seed=123454321)) + repr(
        [
            Job(client=0, inbox=b"inbox-bytes", vector=np.full(4, 777)),
            Reply(client=0, kind="K", outbox=b"outbox-bytes"),
        ]
    )
    for secret in ("123454321", "inbox-bytes", "777", "outbox-bytes"):
        assert secret not in shown


class Counting(LocalEngine):
    """Notes what it is asked for."""

    def __init__(self):
        super().__init__()
        self.calls, self.opened, self.closed = [], [], 0

    def open(self, cast, clients):
        self.opened.append(list(clients))
        super().open(cast, clients)

    def call(self, method, jobs):
        self.calls.append(method)
        return super().call(method, jobs)

    def close(self):
        self.closed += 1
        super().close()


@pytest.mark.parametrize("kind", ALL)
def test_an_engine_of_ones_own_runs_several_rounds_and_stays_open(kind):
    params = ALL[kind](6)
    engine = Counting()
    assert isinstance(engine, Engine)
    for seed in (1, 2):
        found = secagg.run(
            params, inputs(params), seed=seed, engine=engine, dropouts={2: "advertise-keys"}
        )
        expected = secagg.run(params, inputs(params), seed=seed, dropouts={2: "advertise-keys"})
        np.testing.assert_array_equal(found.sum, expected.sum)
    assert engine.closed == 0
    assert engine.opened == [[0, 1, 3, 4, 5]] * 2
    assert [name.replace("_", "-") for name in engine.calls] == list(found.survivors) * 2


def test_what_is_no_engine_is_refused():
    params = complete(4)
    with pytest.raises(UsageError, match="engine"):
        secagg.run(params, inputs(params), engine=3)
