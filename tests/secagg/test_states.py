"""Order: every state with every message, for clients and for the server."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from parties import BOTH, STAGES, Play, complete, due, play_to, respond

from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.states import CLIENT_TABLES, SERVER_TABLE, ClientState, Phase

SERVER_MESSAGES = [
    messages.Start,
    messages.KeyRoster,
    messages.ShareBundle,
    messages.SurvivorSet,
]
CLIENT_MESSAGES = [
    messages.AdvertiseKeys,
    messages.ShareKeys,
    messages.MaskedInput,
    messages.UnmaskShares,
]
METHODS = ["advertise_keys", "share_keys", "masked_input", "unmasking"]
TABLE = CLIENT_TABLES[secagg.Threat.SEMI_HONEST]
COLLECTED = [Phase.ADVERTISE_KEYS, Phase.SHARE_KEYS, Phase.MASKED_INPUT, Phase.UNMASKING]
WHO = 1
"""The client that is looked at."""


@pytest.fixture(scope="module", params=BOTH, ids=BOTH)
def story(request):
    """One whole round: what the server said and what client `WHO` answered, per message type."""
    params = BOTH[request.param](6, 3)
    play = Play(params)
    play.finish()
    said = {
        kind: messages.decode(play.down[phase, WHO], params, peer="server")
        for kind, phase in zip(SERVER_MESSAGES, COLLECTED, strict=True)
    }
    answered = {
        kind: play.up[phase, WHO] for kind, phase in zip(SERVER_MESSAGES, COLLECTED, strict=True)
    }
    return params, said, answered


def client_in(state, params):
    """Return a client in `state`, the twin of the story's: same seed, same messages."""
    if state is ClientState.ABORTED:
        client = client_in(ClientState.ADVERTISED, params)
        roster = due(Play(params).until(Phase.SHARE_KEYS), WHO)
        with pytest.raises(PeerError):
            client.share_keys(replace(roster, keys=np.zeros_like(roster.keys)))
        return client
    if state is ClientState.CHECKED:  # no message leads there in a semi-honest round
        client = client_in(ClientState.MASKED, params)
        client._memory.state = state
        return client
    return play_to(state, params).clients[WHO]


def say(client, message, vectors):
    return respond(client, message, vectors[WHO])


@pytest.mark.parametrize("kind", SERVER_MESSAGES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("state", ClientState, ids=lambda state: state.name)
def test_every_client_state_with_every_message(story, state, kind):
    params, said, answered = story
    client, vectors = client_in(state, params), Play(params).vectors
    assert client.state is state
    following = TABLE.get((state, kind))
    before = client.dump_state()
    if following is None:
        with pytest.raises(PeerError) as caught:
            say(client, said[kind], vectors)
        assert caught.value.peer == "server"
        assert caught.value.round == kind.round
        assert caught.value.round in str(caught.value)
        assert state.value in str(caught.value)
        assert client.dump_state() == before
        return
    reply = say(client, said[kind], vectors)
    assert reply.encode() == answered[kind]
    assert client.state is following
    if following is state:
        assert client.dump_state() == before


def test_the_table_is_one_path_and_its_repetitions():
    """A message leads one state on; repeated in the state it led to, it changes nothing."""
    path = list(itertools.pairwise(STAGES))
    expected = {}
    for kind, (state, following) in zip(SERVER_MESSAGES, path, strict=True):
        expected[state, kind] = expected[following, kind] = following
    assert expected == TABLE
    assert dict(zip(CLIENT_MESSAGES, COLLECTED, strict=True)) == SERVER_TABLE


@pytest.mark.parametrize("state", STAGES, ids=lambda state: state.name)
def test_after_every_message_out_of_order_the_round_goes_on(story, state):
    params, said, answered = story
    client, vectors = client_in(state, params), Play(params).vectors
    for kind, message in said.items():
        if (state, kind) not in TABLE:
            with pytest.raises(PeerError):
                say(client, message, vectors)
    for kind in SERVER_MESSAGES[list(STAGES).index(state) :]:
        assert say(client, said[kind], vectors).encode() == answered[kind]


@pytest.mark.parametrize("at", range(4), ids=METHODS)
def test_a_message_repeated_but_changed_is_refused_and_changes_nothing(story, at):
    params, said, answered = story
    kind, state = SERVER_MESSAGES[at], list(STAGES)[at + 1]
    client, vectors = client_in(state, params), Play(params).vectors
    before = client.dump_state()
    original = said[kind]
    other = {
        messages.Start: lambda: replace(original, round_number=1),
        messages.KeyRoster: lambda: replace(original, keys=original.keys[::-1]),
        messages.ShareBundle: lambda: replace(original, ciphertexts=original.ciphertexts ^ 1),
        messages.SurvivorSet: lambda: replace(original, survivors=~original.survivors),
    }[kind]()
    with pytest.raises(PeerError, match="differs") as caught:
        say(client, other, vectors)
    assert caught.value.round == kind.round
    assert client.dump_state() == before
    assert say(client, original, vectors).encode() == answered[kind]


@pytest.mark.parametrize("at", range(4), ids=METHODS)
def test_a_delivered_reply_is_released(story, at):
    params, said, _ = story
    kind, state = SERVER_MESSAGES[at], list(STAGES)[at + 1]
    client, vectors = client_in(state, params), Play(params).vectors
    client.delivered()
    with pytest.raises(PeerError, match="already delivered"):
        say(client, said[kind], vectors)
    assert client.state is state


@pytest.mark.parametrize("at", range(1, 4), ids=METHODS[1:])
def test_a_message_of_another_session_or_round_changes_nothing(story, at):
    params, said, answered = story
    kind, state = SERVER_MESSAGES[at], list(STAGES)[at]
    client, vectors = client_in(state, params), Play(params).vectors
    before = client.dump_state()
    for options in ({"session": bytes(16)}, {"round_number": 1}):
        foreign = due(Play(params, **options).until(COLLECTED[at]), WHO)
        with pytest.raises(PeerError, match="another session, round or configuration"):
            say(client, foreign, vectors)
        assert client.dump_state() == before
    assert say(client, said[kind], vectors).encode() == answered[kind]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_with_every_other_type(story, method):
    params, said, answered = story
    takes = SERVER_MESSAGES[METHODS.index(method)]
    theirs = [messages.decode(data, params, peer=WHO) for data in answered.values()]
    client = client_in(list(STAGES)[METHODS.index(method)], params)
    before = client.dump_state()
    wrong = [message for message in said.values() if not isinstance(message, takes)]
    extra = () if method != "masked_input" else ([0] * params.dim,)
    for message in (*wrong, *theirs, None, b"", 3, takes):
        with pytest.raises(UsageError, match=takes.__name__):
            getattr(client, method)(message, *extra)
    assert client.dump_state() == before


# The server.


def server_in(phase, params, leaves=None):
    """Return a play whose server collects `phase`; the clients answered all before it."""
    if phase is not Phase.ABORTED:
        play = Play(params, leaves=leaves).until(phase)
        return play
    play = Play(params, leaves=dict.fromkeys(range(params.clients), 2)).until(Phase.MASKED_INPUT)
    with pytest.raises(Abort, match="too few clients answered"):
        play.step()
    return play


def snapshot(server):
    arrays = (
        server._accumulator,
        server._keys,
        server._commitments,
        server._ciphertexts,
        server._shares,
        server._own_shares,
        *server._here.values(),
    )
    return (server.phase, *(array.tobytes() for array in arrays))


@pytest.mark.parametrize("kind", CLIENT_MESSAGES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("phase", [*COLLECTED, Phase.DONE, Phase.ABORTED], ids=lambda p: p.name)
def test_every_phase_with_every_client_message(story, phase, kind):
    params, _, answered = story
    data = answered[SERVER_MESSAGES[CLIENT_MESSAGES.index(kind)]]
    play = server_in(phase, params)
    server, message = play.server, messages.decode(data, params, peer=WHO)
    before = snapshot(server)
    due_in = SERVER_TABLE[kind]
    if due_in is phase:
        assert server.receive(WHO, message) is secagg.Receipt.ACCEPTED
        between = snapshot(server)
        assert between != before
        assert server.receive(WHO, message) is secagg.Receipt.REPEATED
        assert snapshot(server) == between
    elif due_in.value < phase.value:
        came = phase is not Phase.ABORTED or due_in.value < Phase.MASKED_INPUT.value
        expected = secagg.Receipt.REPEATED if came else secagg.Receipt.LATE
        assert server.receive(WHO, message) is expected
        assert snapshot(server) == before
    else:
        with pytest.raises(PeerError) as caught:
            server.receive(WHO, message)
        assert caught.value.peer == WHO
        assert caught.value.round == kind.round
        assert kind.__name__ in str(caught.value)
        assert snapshot(server) == before


@pytest.mark.parametrize("left", [0, 1, 2, 4])
def test_who_left_is_late_in_what_it_missed_and_unexpected_in_what_follows(story, left):
    params, _, answered = story
    gone = COLLECTED[min(left, 3)]
    play = Play(params, leaves={WHO: left}).until(gone)
    play.step()
    before = snapshot(play.server)
    for kind, phase in zip(SERVER_MESSAGES, COLLECTED, strict=True):
        message = messages.decode(answered[kind], params, peer=WHO)
        if phase.value < gone.value:
            assert play.server.receive(WHO, message) is secagg.Receipt.REPEATED
        elif phase is gone:
            assert play.server.receive(WHO, message) is secagg.Receipt.LATE
        elif phase is play.phase:
            with pytest.raises(PeerError, match="left in an earlier round"):
                play.server.receive(WHO, message)
    assert snapshot(play.server) == before
    total = play.finish().total
    stayed = [c for c in range(params.clients) if c != WHO or left > 2]
    np.testing.assert_array_equal(total, play.vectors[stayed].sum(axis=0))


def test_the_first_of_two_messages_counts():
    """A second, other masked vector or share is not looked at."""
    params = complete(4, 3)
    play = Play(params).until(Phase.MASKED_INPUT)
    play.exchange()
    message = messages.decode(play.up[play.phase, WHO], params, peer=WHO)
    other = replace(message, vector=message.vector ^ 1)
    assert play.server.receive(WHO, other) is secagg.Receipt.REPEATED
    play.server.close()
    play.exchange()
    message = messages.decode(play.up[play.phase, WHO], params, peer=WHO)
    other = replace(message, shares=message.shares ^ np.uint64(1))
    assert play.server.receive(WHO, other) is secagg.Receipt.REPEATED
    play.server.close()
    np.testing.assert_array_equal(play.server.result().total, play.vectors.sum(axis=0))


def test_a_refused_message_may_be_sent_again_rightly():
    params = complete(4, 3)
    play = Play(params).until(Phase.UNMASKING)
    for index in play.present():
        data = play.answer(index, play.ask(index))
        message = messages.decode(data, params, peer=index)
        with pytest.raises(PeerError):
            play.server.receive(index, replace(message, shares=message.shares[1:]))
        assert play.hand_in(index, data) is secagg.Receipt.ACCEPTED
    play.server.close()
    np.testing.assert_array_equal(play.server.result().total, play.vectors.sum(axis=0))


def test_the_server_takes_no_server_message_nor_other_objects(story):
    params, said, _ = story
    server = Play(params).server
    for message in (*said.values(), None, b"", messages.AdvertiseKeys):
        with pytest.raises(UsageError, match="message"):
            server.receive(WHO, message)


def test_senders_must_be_clients(story):
    params, _, answered = story
    server = Play(params).server
    message = messages.decode(answered[messages.Start], params, peer=WHO)
    for sender in (-1, params.clients, 2**40):
        with pytest.raises(PeerError, match="there are only"):
            server.receive(sender, message)
    for sender in ("1", None, True, 1.0):
        with pytest.raises(UsageError, match="sender"):
            server.receive(sender, message)
    for client in (-1, params.clients, "1", None, True, 1.0):
        with pytest.raises(UsageError, match="client"):
            server.start(client)
        with pytest.raises(UsageError, match="client"):
            server.message_for(client)


def test_a_closed_server_has_nothing_to_say():
    params = complete(4, 3)
    for phase in (Phase.DONE, Phase.ABORTED):
        server = server_in(phase, params).server
        assert len(server.alive()) == 0
        with pytest.raises(UsageError, match=phase.name.lower()):
            server.close()
        with pytest.raises(UsageError):
            server.message_for(0)
        if phase is Phase.ABORTED:
            with pytest.raises(UsageError, match="result"):
                server.result()
    with pytest.raises(UsageError, match="a round in which the server speaks"):
        Play(params).server.message_for(0)
