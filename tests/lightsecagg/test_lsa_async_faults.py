"""Asynchronous use against replays, greedy clients, dead buffers and arguments of all kinds."""

from __future__ import annotations

import numpy as np
import pytest
from test_lsa_async import Session, arrivals, params, request

from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols import lightsecagg as lsa
from privagg.protocols.lightsecagg.messages import AdvertiseKeys


def test_a_share_that_is_relayed_again_after_it_was_given_is_not_given_again():
    session = Session(params())
    client = session.clients[4]
    replayed = session.server.relay(1, session.clients[1].share_mask(1))[4]
    assert client.take_share(replayed)
    client.unmasking(request(session, [0, 1, 2], [0, 1, 0], 1))
    assert client.take_share(replayed)  # it opened, once; and stays given
    with pytest.raises(PeerError, match="client 1's mask of round 1: never opened, or given"):
        client.unmasking(request(session, [1, 2, 3], [1, 0, 0], 2))
    client.forget(2)
    assert not client.take_share(replayed)  # nor after the client forgot that it gave it
    with pytest.raises(PeerError, match="never opened, or given"):
        client.unmasking(request(session, [1, 2, 3], [1, 0, 0], 3))


def test_one_client_cannot_fill_a_buffer_that_nobody_would_answer_for():
    session = Session(params())
    for _ in range(2):  # two rounds, so that client 4 may have masks of three rounds
        session.server.discard()
        for index in range(5):
            session.share(index, session.server.now)
    session.send(4, 0)
    session.send(4, 1)  # a place is left for another client, and two distinct ones are enough
    with pytest.raises(PeerError, match="places left are for other clients"):
        session.send(4, 2)
    assert session.send(3, 2)
    for index, client in enumerate(session.clients):
        session.server.take_sum(index, client.unmasking(session.server.request()))
    assert len(session.server.unmask().inputs) == 3


def test_a_buffer_that_cannot_be_read_is_discarded_and_the_session_goes_on():
    session = Session(params())
    session.fill()
    with pytest.raises(Abort, match="too few sums"):
        session.server.unmask()
    assert session.server.discard() == ((0, 0, 8), (1, 0, 8), (2, 0, 8))
    assert session.server.now == 1
    assert not session.server.is_full
    for index in range(3):
        session.share(index, 1)
        session.send(index, 1)
    for index, client in enumerate(session.clients):
        session.server.take_sum(index, client.unmasking(session.server.request()))
    assert session.server.unmask().aggregate.total.tolist() == [8 * 3] * 4


@pytest.mark.parametrize("change", [{"levels": 9}, {"decay": 0.0}, {"max_staleness": 2}])
def test_parties_that_weigh_inputs_differently_never_meet(change):
    server = lsa.AsyncServer(params())
    with pytest.raises(PeerError, match="parameters differ from ours"):
        lsa.AsyncClient(params(**change)).advertise_keys(server.start(0))
    assert params().digest() == params(levels=np.int64(8)).digest() != params(**change).digest()


def test_masked_arrays_are_refused_and_cost_no_mask():
    session = Session(params())
    client = session.clients[0]
    for vector in (
        np.ma.array([1, 2, 3, 4], mask=[0, 1, 0, 0]),
        np.zeros(5, int),
        np.zeros((2, 2), int),
        [[1], [1, 2]],
        None,
    ):
        with pytest.raises(UsageError, match="vector"):
            client.masked_input(0, vector)
        with pytest.raises(UsageError, match="vector"):
            lsa.run_async(session.agreed, [lsa.Arrival(client=0, fetched=0, vector=vector)])
    assert client.masked_input(0, np.zeros(4, int)).time == 0


def test_calls_with_other_objects_are_usage_errors():
    session = Session(params())
    server, client, start = session.server, session.clients[0], session.server.start(0)
    fresh = lsa.AsyncClient(session.agreed)
    key = AdvertiseKeys(tag=start.tag, cipher_key=bytes(32))
    calls = [
        *((server.start, (one,)) for one in (-1, 5, True, "x", None, 1.0)),
        *((server.take_key, (one, key)) for one in (True, "x", None, 1.0)),
        *((take, (0, start)) for take in (server.take_key, server.relay, server.take_input)),
        *((take, (0, None)) for take in (server.take_sum, server.relay)),
        *((fresh.advertise_keys, (one,)) for one in (None, session.roster, b"x")),
        *((client.join, (one,)) for one in (None, start)),
        *((client.take_share, (one,)) for one in (None, start)),
        *((client.unmasking, (one,)) for one in (None, start)),
        *((client.masked_input, (one, np.zeros(4, int))) for one in (False, [0], "0", 0.0, -1)),
        *((client.forget, (one,)) for one in (None, "1", 1.0)),
        *((lsa.AsyncClient, (one,)) for one in (None, session.agreed.round)),
        *((lsa.AsyncServer, (one,)) for one in (None, session.agreed.round)),
    ]
    for call, arguments in calls:
        with pytest.raises(UsageError):
            call(*arguments)
    with pytest.raises(UsageError, match="entropy"):
        lsa.AsyncServer(session.agreed, entropy=7)
    assert client.masked_input(0, np.zeros(4, int)).time == 0


def test_the_driver_names_what_does_not_fit():
    agreed, three = params(), arrivals([(0, 0), (1, 0), (2, 0)])
    for given in (None, 3, "x", [1], [None]):
        with pytest.raises(UsageError, match="arrivals"):
            lsa.run_async(agreed, given)
    for given in (3, "x", [], [3], [[9]], [[-1]], [["a"]], [[True]]):
        with pytest.raises(UsageError, match="answering"):
            lsa.run_async(agreed, three, answering=given)
    with pytest.raises(UsageError, match="arrivals: fetched"):
        lsa.run_async(agreed, arrivals([(0, 1)]))
    numpys = [
        lsa.Arrival(client=np.int64(one.client), fetched=np.uint8(0), vector=one.vector)
        for one in three
    ]
    (result,) = lsa.run_async(agreed, numpys, answering=[[0, 0, 1, np.int64(2)]])
    assert result.aggregate.count == 3
