"""Order: every state with every message, for clients and for the server."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from parties import (
    ALL,
    METHODS,
    Play,
    answered,
    complete,
    drawn,
    due,
    phases,
    play_to,
    respond,
    spoken,
    states,
)

from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.states import CLIENT_TABLES, SERVER_TABLE, ClientState, Phase

WHO = 1
"""The client that is looked at."""

MAKE = {name: make(6, 3) for name, make in ALL.items()}


class Story:
    """One whole round: what the server said and what client `WHO` answered, in order."""

    def __init__(self, params):
        self.params = params
        self.table = CLIENT_TABLES[params.threat]
        play = Play(params)
        play.finish()
        self.vectors = play.vectors
        self.states = states(params)
        self.phases = phases(params)
        self.kinds = spoken(params)
        self.replies = [play.up[phase, WHO] for phase in self.phases]
        self.said = [
            messages.decode(play.down[phase, WHO], params, peer="server") for phase in self.phases
        ]

    def message(self, kind):
        """Return a message of some kind: the round's own, or a good-looking one of another."""
        for message in self.said:
            if isinstance(message, kind):
                return message
        tag, everyone = self.said[0].tag, np.ones(self.params.clients, np.bool_)
        made = {
            messages.GraphRequest: {"attempt": 0, "present": everyone, "key_root": bytes(32)},
            messages.GraphChallenge: {"attempt": 0, "present": everyone, "root": bytes(32)},
            messages.SignatureSet: {
                "signers": np.zeros(4, np.bool_),
                "signatures": np.zeros((0, 64), np.uint8),
            },
        }
        return kind(tag=tag, **made[kind])

    def client_in(self, state):
        """Return a client in `state`, the twin of the story's: same seed, same messages."""
        if state is ClientState.ABORTED:
            play = Play(self.params).until(Phase.SHARE_KEYS)
            roster = due(play, WHO)
            with pytest.raises(PeerError):
                play.clients[WHO].share_keys(replace(roster, keys=np.zeros_like(roster.keys)))
            return play.clients[WHO]
        if state not in self.states:  # no message leads there in this threat model
            client = self.client_in(ClientState.MASKED)
            client._memory.state = state
            return client
        return play_to(state, self.params).clients[WHO]

    def say(self, client, message):
        return respond(client, message, self.vectors[WHO])

    def foreign(self, at, **options):
        """Return the server's message in another round of the same clients."""
        return due(Play(self.params, **options).until(self.phases[at]), WHO)


@pytest.fixture(scope="module", params=MAKE, ids=MAKE)
def story(request):
    return Story(MAKE[request.param])


@pytest.mark.parametrize("state", ClientState, ids=lambda state: state.name)
def test_every_client_state_with_every_message(story, state):
    """Of every threat model: also messages that the round of this one never has."""
    client = story.client_in(state)
    assert client.state is state
    for kind in METHODS:
        following = story.table.get((state, kind))
        before, message = client.dump_state(), story.message(kind)
        if following is None or (state, kind) == (ClientState.REVEALED, messages.GraphRequest):
            # A second draw of the graph is in the table, a repeated first one is not it.
            with pytest.raises(PeerError) as caught:
                story.say(client, message)
            assert caught.value.peer == "server"
            assert caught.value.round == message.round
            assert message.round in str(caught.value)
            if following is None:
                assert state.value in str(caught.value)
            assert client.dump_state() == before
    for kind in METHODS:
        following = story.table.get((state, kind))
        if following is None or (state, kind) == (ClientState.REVEALED, messages.GraphRequest):
            continue
        client = story.client_in(state)
        before, at = client.dump_state(), story.states.index(following) - 1
        reply = story.say(client, story.said[at])
        assert reply.encode() == story.replies[at]
        assert client.state is following
        if following is state:
            assert client.dump_state() == before


def test_another_draw_of_the_graph_is_asked_for_by_its_number():
    story = Story(drawn(6, 3))
    client = story.client_in(ClientState.REVEALED)
    first = story.said[1]
    before = client.dump_state()
    for attempt in (0, 2, 3, 255):
        with pytest.raises(PeerError, match=f"draw {attempt} of the graph where 1 is due"):
            client.commit_graph(replace(first, attempt=attempt))
        assert client.dump_state() == before
    reply = client.commit_graph(replace(first, attempt=1))
    assert client.state is ClientState.COMMITTED
    assert reply.encode() != story.replies[1]
    with pytest.raises(PeerError, match="draw 0 of the graph where 1 is due"):
        client.reveal_graph(story.said[2])
    assert client.state is ClientState.COMMITTED


def test_each_table_is_one_path_and_its_repetitions(story):
    """A message leads one state on; repeated in the state it led to, it changes nothing."""
    expected = {}
    for kind, (state, following) in zip(story.kinds, itertools.pairwise(story.states), strict=True):
        expected[state, kind] = expected[following, kind] = following
    if story.params.threat is secagg.Threat.SEMI_MALICIOUS:
        expected[ClientState.REVEALED, messages.GraphRequest] = ClientState.COMMITTED
    assert expected == story.table
    for kind, phase in zip(answered(story.params), story.phases, strict=True):
        assert SERVER_TABLE[kind] is phase


def test_after_every_message_out_of_order_the_round_goes_on(story):
    for at, state in enumerate(story.states[:-1]):
        client = story.client_in(state)
        for kind in METHODS:
            if (state, kind) not in story.table:
                with pytest.raises(PeerError):
                    story.say(client, story.message(kind))
        for message, reply in zip(story.said[at:], story.replies[at:], strict=True):
            assert story.say(client, message).encode() == reply


def test_a_message_repeated_but_changed_is_refused_and_changes_nothing(story):
    changes = {
        messages.Start: lambda m: replace(m, round_number=1),
        messages.GraphRequest: lambda m: replace(m, key_root=bytes(32)),
        messages.GraphChallenge: lambda m: replace(m, root=bytes(32)),
        messages.KeyRoster: lambda m: replace(m, keys=m.keys[::-1]),
        messages.ShareBundle: lambda m: replace(m, ciphertexts=m.ciphertexts ^ 1),
        messages.SurvivorSet: lambda m: replace(m, survivors=~m.survivors),
        messages.SignatureSet: lambda m: replace(m, signatures=m.signatures ^ 1),
    }
    for at, (message, reply) in enumerate(zip(story.said, story.replies, strict=True)):
        client = story.client_in(story.states[at + 1])
        before = client.dump_state()
        with pytest.raises(PeerError, match="differs") as caught:
            story.say(client, changes[type(message)](message))
        assert caught.value.round == message.round
        assert client.dump_state() == before
        assert story.say(client, message).encode() == reply


def test_a_delivered_reply_is_released(story):
    for at, message in enumerate(story.said):
        state = story.states[at + 1]
        client = story.client_in(state)
        client.delivered()
        with pytest.raises(PeerError, match="already delivered"):
            story.say(client, message)
        assert client.state is state


@pytest.mark.parametrize("other", [{"session": bytes(16)}, {"round_number": 1}], ids=str)
def test_a_message_of_another_session_or_round_changes_nothing(story, other):
    for at in range(1, len(story.said)):
        client = story.client_in(story.states[at])
        before = client.dump_state()
        with pytest.raises(PeerError, match="another session, round or configuration"):
            story.say(client, story.foreign(at, **other))
        assert client.dump_state() == before
        assert story.say(client, story.said[at]).encode() == story.replies[at]


def test_every_method_with_every_other_type(story):
    """Among them each message of a client, and those of other threat models."""
    theirs = [messages.decode(data, story.params, peer=WHO) for data in story.replies]
    everything = [story.message(kind) for kind in METHODS] + theirs
    for at, kind in enumerate(story.kinds):
        method = METHODS[kind]
        if story.phases[at] is Phase.CONSISTENCY_CHECK:
            method = "consistency_check"
        client = story.client_in(story.states[at])
        before = client.dump_state()
        extra = ([0] * story.params.dim,) if method == "masked_input" else ()
        allowed = (kind, messages.SignatureSet) if method == "unmasking" else kind
        wrong = [message for message in everything if not isinstance(message, allowed)]
        for message in (*wrong, None, b"", 3, kind):
            with pytest.raises(UsageError, match=kind.__name__):
                getattr(client, method)(message, *extra)
        assert client.dump_state() == before


# The server.


def server_in(phase, params, leaves=None):
    """Return a play whose server collects `phase`; the clients answered all before it."""
    if phase is not Phase.ABORTED:
        play = Play(params, leaves=leaves).until(phase)
        return play
    gone = dict.fromkeys(range(params.clients), Phase.MASKED_INPUT)
    play = Play(params, leaves=gone).until(Phase.MASKED_INPUT)
    with pytest.raises(Abort, match="too few clients answered"):
        play.step()
    return play


def snapshot(server):
    arrays = [value for value in vars(server._store).values() if isinstance(value, np.ndarray)]
    if server._draw is not None:
        arrays += [server._draw._commitments, server._draw._openings]
    arrays += [server._accumulator, *server._here.values()]
    return (server.phase, *(array.tobytes() for array in arrays))


def test_every_phase_with_every_client_message(story):
    replies = [messages.decode(data, story.params, peer=WHO) for data in story.replies]
    for phase in [*story.phases, Phase.DONE, Phase.ABORTED]:
        for message in replies:
            server = server_in(phase, story.params).server
            before, due_in = snapshot(server), SERVER_TABLE[type(message)]
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
                assert caught.value.round == message.round
                assert type(message).__name__ in str(caught.value)
                assert snapshot(server) == before


def test_rounds_that_a_threat_model_has_not_have_no_messages(story):
    """A signature in a semi-honest round is no one's, whatever else is right about it."""
    tag = story.said[0].tag
    others = [
        messages.GraphCommitment(tag=tag, attempt=0, commitment=bytes(32)),
        messages.GraphReveal(tag=tag, attempt=0, opening=bytes(16)),
        messages.ConsistencySignature(tag=tag, signature=bytes(64)),
    ]
    for phase in story.phases:
        server = server_in(phase, story.params).server
        for message in others:
            if type(message) not in answered(story.params):
                with pytest.raises(PeerError, match="no such round against"):
                    server.receive(WHO, message)


def test_who_left_is_late_in_what_it_missed_and_unexpected_in_what_follows(story):
    params = story.params
    replies = [messages.decode(data, params, peer=WHO) for data in story.replies]
    for gone in story.phases:
        play = Play(params, leaves={WHO: gone}).until(gone)
        draws_again = gone is Phase.REVEAL_GRAPH
        play.step()
        before = snapshot(play.server)
        for message, phase in zip(replies, story.phases, strict=True):
            # Who was in the sum may answer unmasking though its signature was lost.
            forgiven = (gone, phase) == (Phase.CONSISTENCY_CHECK, Phase.UNMASKING)
            if draws_again and phase in (Phase.COMMIT_GRAPH, Phase.REVEAL_GRAPH):
                assert play.server.receive(WHO, message) is secagg.Receipt.LATE
            elif phase.value < gone.value:
                assert play.server.receive(WHO, message) is secagg.Receipt.REPEATED
            elif phase is gone:
                assert play.server.receive(WHO, message) is secagg.Receipt.LATE
            elif phase is play.phase and not forgiven:
                with pytest.raises(PeerError, match="left in an earlier round"):
                    play.server.receive(WHO, message)
        assert snapshot(play.server) == before
        total = play.finish().total
        stayed = [c for c in range(params.clients) if c != WHO or gone.value > 4]
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
    other = replace(message, shares=message.shares[::-1])
    assert play.server.receive(WHO, other) is secagg.Receipt.REPEATED
    play.server.close()
    np.testing.assert_array_equal(play.server.result().total, play.vectors.sum(axis=0))


def test_a_refused_message_may_be_sent_again_rightly():
    params = complete(4, 3)
    play = Play(params).until(Phase.UNMASKING)
    for index in play.present():
        data = play.answer(index, play.ask(index))
        message = messages.decode(data, params, peer=index)
        cut = replace(message, shares=message.shares[1:], missing=message.missing[1:])
        with pytest.raises(PeerError):
            play.server.receive(index, cut)
        assert play.hand_in(index, data) is secagg.Receipt.ACCEPTED
    play.server.close()
    np.testing.assert_array_equal(play.server.result().total, play.vectors.sum(axis=0))


def test_the_server_takes_no_server_message_nor_other_objects(story):
    server = Play(story.params).server
    for message in story.said:  # what a hostile client echoes
        with pytest.raises(PeerError, match="only servers send"):
            server.receive(WHO, message)
    for message in (None, b"", messages.AdvertiseKeys):
        with pytest.raises(UsageError, match="message"):
            server.receive(WHO, message)


def test_senders_must_be_clients(story):
    params = story.params
    server = Play(params).server
    message = messages.decode(story.replies[0], params, peer=WHO)
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
    assert Play(params).server.message_for(0).encode() == Play(params).server.start(0).encode()
