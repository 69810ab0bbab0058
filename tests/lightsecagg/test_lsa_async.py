"""Asynchronous use: masks of different rounds decode together, weighted by staleness."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsa_parties import active, honest

from privagg import field
from privagg.errors import Abort, CapacityError, PeerError, UsageError
from privagg.protocols import lightsecagg as lsa
from privagg.protocols.lightsecagg import async_messages
from privagg.protocols.lightsecagg.async_messages import BufferRequest
from privagg.protocols.lightsecagg.messages import KeyRoster


def params(clients=5, dim=4, **options):
    options = {"buffer": 3, "levels": 8, "decay": 0.5, "max_staleness": 3} | options
    return lsa.AsyncParams(round=honest(clients, dim, threshold=3), **options)


def arrivals(plan, dim=4, seed=3):
    """Return arrivals of (client, fetched) with drawn vectors."""
    rng = np.random.default_rng(seed)
    return [lsa.Arrival(client=c, fetched=t, vector=rng.integers(0, 2**16, dim)) for c, t in plan]


def weighted(agreed, part, now):
    return sum(agreed.weight(now - one.fetched) * one.vector for one in part)


def test_buffers_of_mixed_rounds_decode_to_the_weighted_sum():
    agreed = params()
    plan = [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1), (4, 0), (2, 2), (0, 2)]
    inputs = arrivals(plan)
    results = lsa.run_async(agreed, inputs)
    assert len(results) == 3
    for now, result in enumerate(results):
        part = inputs[3 * now : 3 * now + 3]
        expected = weighted(agreed, part, now)
        total = sum(agreed.weight(now - one.fetched) for one in part)
        assert np.array_equal(result.aggregate.total, expected)
        assert np.allclose(result.aggregate.mean, expected / total)
        assert result.inputs == tuple(
            (one.client, one.fetched, agreed.weight(now - one.fetched)) for one in part
        )
        assert (result.now, result.model_bound, result.insecure_seed) == (now, False, False)
    assert {weight for _, _, weight in results[2].inputs} == {8, 5}  # 8, and 8 / sqrt(3)


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_any_arrivals_decode(data):
    agreed = params(max_staleness=4, levels=data.draw(st.integers(4, 40)))
    plan, used = [], set()
    for place in range(9):
        now = place // 3
        pairs = [(c, t) for c in range(5) for t in range(now + 1) if (c, t) not in used]
        seen = {c for c, _ in plan[3 * now :]}
        pair = data.draw(st.sampled_from([p for p in pairs if p[0] not in seen]))
        used.add(pair)
        plan.append(pair)
    inputs = arrivals(plan)
    there = [data.draw(st.sets(st.integers(0, 4), min_size=3)) for _ in range(3)]
    results = lsa.run_async(agreed, inputs, answering=there, seed=1)
    for now, result in enumerate(results):
        expected = weighted(agreed, inputs[3 * now : 3 * now + 3], now)
        assert np.array_equal(result.aggregate.total, expected)
        assert result.insecure_seed


def test_floats_are_weighted_too():
    agreed = lsa.AsyncParams(
        round=lsa.Params.recommend(clients=4, dim=3, clip=1.0, corrupt=0, dropout=0, min_cohort=2),
        buffer=2,
        levels=4,
        decay=1.0,
        max_staleness=3,
    )
    inputs = [
        lsa.Arrival(client=c, fetched=t, vector=np.array([0.5, -0.25, c / 8]))
        for c, t in [(0, 0), (1, 0), (2, 0), (3, 1)]
    ]
    second = lsa.run_async(agreed, inputs)[1]
    assert [weight for _, _, weight in second.inputs] == [2, 4]
    expected = (2 * inputs[2].vector + 4 * inputs[3].vector) / 6
    assert np.allclose(second.aggregate.mean, expected, atol=agreed.round.encoding.step)


class Session:
    """Parties of one session, joined; each client has shared the mask of round 0."""

    def __init__(self, agreed):
        self.agreed = agreed
        self.server = lsa.AsyncServer(agreed)
        self.clients = [lsa.AsyncClient(agreed) for _ in range(agreed.round.clients)]
        for index, client in enumerate(self.clients):
            self.server.take_key(index, client.advertise_keys(self.server.start(index)))
        self.roster = self.server.roster()
        for client in self.clients:
            client.join(self.roster)
        for index in range(len(self.clients)):
            self.share(index, 0)

    def share(self, index, time):
        sent = self.clients[index].share_mask(time)
        for peer, one in self.server.relay(index, sent).items():
            assert self.clients[peer].take_share(one)
        return sent

    def send(self, index, time=0):
        dated = self.clients[index].masked_input(time, np.full(4, index))
        return self.server.take_input(index, dated)

    def fill(self):
        for index in range(3):
            self.send(index)
        return self.server.request()


def request(session, senders, times, now):
    return BufferRequest(
        tag=session.server.start(0).tag,
        now=now,
        senders=np.array(senders, np.uint32),
        times=np.array(times, np.uint32),
    )


def test_a_share_is_given_once_and_a_mask_used_once():
    session = Session(params())
    asked = session.fill()
    client = session.clients[4]
    client.unmasking(asked)
    with pytest.raises(PeerError, match="a buffer of round 0 after a later one"):
        client.unmasking(asked)
    with pytest.raises(PeerError, match="client 1's mask of round 0: never opened, or given"):
        client.unmasking(request(session, [1, 3, 4], [0, 0, 0], 1))
    with pytest.raises(UsageError, match="whose mask was shared and not used"):
        session.clients[0].masked_input(0, np.zeros(4, int))
    with pytest.raises(UsageError, match="a round after 0"):
        session.clients[0].share_mask(0)


def test_a_refused_buffer_costs_no_share():
    session = Session(params())
    client = session.clients[0]
    for senders, times, now, match in [
        ([1, 2, 2], [0, 0, 0], 0, "in the buffer twice"),
        ([1, 2, 3], [0, 0, 1], 0, "input of round 1 in the buffer of round 0"),
        ([1, 2, 3], [0, 0, 0], 4, "input of round 0 in the buffer of round 4"),
        ([1, 2, 9], [0, 0, 0], 1, "no share of client 9"),
    ]:
        with pytest.raises(PeerError, match=match):
            client.unmasking(request(session, senders, times, now))
    with pytest.raises(Abort, match="too few in the buffer: 1 left, 2 needed"):
        client.unmasking(request(session, [1], [0], 0))
    assert client.unmasking(session.fill()).now == 0


def test_wrong_sums_are_corrected_and_blamed():
    session = Session(params())
    asked = session.fill()
    for index, client in enumerate(session.clients):
        answer = client.unmasking(asked)
        if index == 2:
            one = np.ones_like(answer.elements)
            bad = field.add(answer.elements, one, session.agreed.round.field)
            answer = async_messages.BufferedSum(
                tag=answer.tag, now=answer.now, bits=answer.bits, elements=bad
            )
        session.server.take_sum(index, answer)
    result = session.server.unmask()
    assert result.aggregate.total.tolist() == [8 * 3] * 4
    assert result.blame == (lsa.Blame(dealer=None, holder=2, reason="wrong coded sum"),)


def test_the_server_refuses_what_is_not_due():
    session = Session(params())
    server, clients = session.server, session.clients
    with pytest.raises(UsageError, match="0 inputs"):
        server.request()
    sent = clients[0].share_mask(1)
    server.relay(0, sent)
    with pytest.raises(PeerError, match="for a second time"):
        server.relay(0, sent)
    dated = clients[0].masked_input(1, np.zeros(4, int))
    with pytest.raises(PeerError, match="an input of round 1 where it is 0"):
        server.take_input(0, dated)
    with pytest.raises(PeerError, match="was not shared, or is used"):
        server.take_input(1, dated)
    session.fill()
    with pytest.raises(UsageError, match="a full buffer"):
        session.send(3)
    with pytest.raises(Abort, match="too few sums: 0 left, 3 needed"):
        server.unmask()


def test_shares_are_bound_to_date_and_sender():
    session = Session(params())
    client = session.clients[0]
    relayed = session.server.relay(1, session.clients[1].share_mask(1))[0]
    for changes in ({"time": 2}, {"sender": 2}):
        fields = {"time": 1, "sender": 1} | changes
        moved = async_messages.DatedShare(tag=relayed.tag, ciphertext=relayed.ciphertext, **fields)
        fields_are_known = (fields["sender"], fields["time"]) in client._shares
        assert client.take_share(moved) is fields_are_known is False
    assert client.take_share(relayed)
    stranger = async_messages.DatedShare(
        tag=relayed.tag, ciphertext=relayed.ciphertext, time=1, sender=0
    )
    with pytest.raises(PeerError, match="who is no peer"):
        client.take_share(stranger)


def test_messages_are_canonical_and_strict():
    session = Session(params())
    sent = session.clients[0].share_mask(1)
    relayed = session.server.relay(0, sent)[1]
    asked = session.fill()
    dated = session.clients[3].masked_input(0, np.zeros(4, int))
    answer = session.clients[4].unmasking(asked)
    agreed = session.agreed.round
    assert len(dated.encode()) == async_messages.DatedInput.size(agreed)
    assert len(answer.encode()) == async_messages.BufferedSum.size(agreed)
    for message in (sent, relayed, asked, dated, answer, session.roster):
        data = message.encode()
        assert async_messages.decode(data, agreed, peer=0).encode() == data
        for end in range(len(data)):
            with pytest.raises(PeerError):
                async_messages.decode(data[:end], agreed, peer=0)
    for message in (dated, answer):
        full = message.encode()[:14] + b"\xff" * (len(message.encode()) - 14)
        with pytest.raises(PeerError):
            async_messages.decode(full, agreed, peer=0)


def test_rosters_are_checked():
    session = Session(params())
    fresh = lsa.AsyncClient(session.agreed)
    fresh.advertise_keys(session.server.start(0))
    with pytest.raises(PeerError, match="other keys for this client"):
        fresh.join(session.roster)
    with pytest.raises(PeerError, match="a second roster"):
        session.clients[0].join(session.roster)
    short = KeyRoster(
        tag=session.roster.tag,
        members=session.roster.members[:2],
        keys=session.roster.keys[:2],
        universe=5,
    )
    other = lsa.AsyncClient(session.agreed)
    other.advertise_keys(session.server.start(0))
    with pytest.raises(Abort, match="too few could answer: 2 left, 3 needed"):
        other.join(short)
    with pytest.raises(PeerError, match="a second start"):
        other.advertise_keys(session.server.start(0))


def test_parameters_are_checked():
    with pytest.raises(UsageError, match="semi-honest and not weighted"):
        lsa.AsyncParams(round=active(5), buffer=3)
    for changes, error in [
        ({"buffer": 1}, UsageError),
        ({"levels": 0}, UsageError),
        ({"decay": -1}, UsageError),
        ({"decay": 5.0}, UsageError),
        ({"max_staleness": -1}, UsageError),
        ({"buffer": 2**10, "levels": 2**10}, CapacityError),
    ]:
        with pytest.raises(error):
            params(**changes)
    agreed = params()
    assert [agreed.weight(s) for s in range(4)] == [8, 6, 5, 4]
    assert [params(decay=0).weight(s) for s in range(4)] == [8] * 4
    with pytest.raises(UsageError, match="staleness"):
        agreed.weight(4)
    with pytest.raises(UsageError, match="arrivals: client"):
        lsa.run_async(agreed, [lsa.Arrival(client=9, fetched=0, vector=np.zeros(4, int))])


def test_secrets_are_not_shown():
    session = Session(params())
    assert repr(session.clients[0]) == "AsyncClient(index=0, shares=5)"
    for party in (session.clients[0], session.server):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(party)
