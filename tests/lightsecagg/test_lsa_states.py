"""Order: every state with every message, for clients and for the server."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lsa_parties import ALL, METHODS, Play, active, honest, phases, respond

from privagg.errors import PeerError, UsageError
from privagg.protocols import lightsecagg as lsa
from privagg.protocols.lightsecagg import ClientState, Phase, Receipt, messages
from privagg.protocols.lightsecagg.states import CLIENT_TABLES, SERVER_TABLE

WHO = 1
S = ClientState
AFTER = {
    "semi-honest": [S.IDLE, S.ADVERTISED, S.SHARED, S.MASKED, S.UNMASKED],
    "active": [S.IDLE, S.ADVERTISED, S.SHARED, S.MASKED, S.CHECKED, S.UNMASKED],
}
"""What a client has done after so many rounds."""


class Story:
    """One whole round: what the server said and what client `WHO` answered, in order."""

    def __init__(self, name):
        self.params, self.states = ALL[name](5, 3), AFTER[name]
        self.table, self.phases = CLIENT_TABLES[self.params.threat], phases(self.params)
        play = Play(self.params)
        play.finish()
        self.vector = play.vectors[WHO]
        self.replies = [play.up[phase, WHO] for phase in self.phases]
        self.said = [
            messages.decode(play.down[phase, WHO], self.params, peer="server")
            for phase in self.phases
        ]

    def message(self, kind):
        """Return the round's own message of a kind, or a good-looking one."""
        for message in self.said:
            if isinstance(message, kind):
                return message
        assert kind is messages.SignatureSet
        rows = np.zeros((0, 64), np.uint8)
        return kind(tag=self.said[0].tag, signers=np.zeros(5, np.bool_), signatures=rows)

    def client_in(self, state):
        """Return the twin of the story's client in `state`: same seed, same messages."""
        play = Play(self.params)
        client = play.clients[WHO]
        if state is S.ABORTED:
            client.advertise_keys(self.said[0])
            bad = replace(self.said[1], keys=np.zeros_like(self.said[1].keys))
            with pytest.raises(PeerError):
                client.share_masks(bad)
        elif state not in self.states:
            client = self.client_in(S.MASKED)
            client._memory.state = state
        else:
            for message in self.said[: self.states.index(state)]:
                respond(client, message, self.vector)
        return client


@pytest.fixture(scope="module", params=ALL)
def story(request):
    return Story(request.param)


@pytest.mark.parametrize("state", ClientState, ids=lambda state: state.name)
@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.__name__)
def test_every_client_state_with_every_message(story, state, kind):
    client, message = story.client_in(state), story.message(kind)
    assert client.state is state
    before = client._memory.state, client.dump_state()
    following = story.table.get((state, kind))
    if following is None:
        with pytest.raises(PeerError, match=message.round) as caught:
            respond(client, message, story.vector)
        assert caught.value.peer == "server"
        assert state.value in str(caught.value)
        assert (client.state, client.dump_state()) == before
        return
    at = story.states.index(following) - 1
    reply = respond(client, story.said[at], story.vector)
    assert client.state is following
    assert reply.encode() == story.replies[at]


def test_the_table_leads_through_the_states_in_order(story):
    steps = {(at, to) for (at, _), to in story.table.items() if at is not to}
    assert steps == set(zip(story.states, story.states[1:], strict=False))


def test_a_second_message_that_differs_is_refused(story):
    client = story.client_in(S.MASKED)
    bundle = story.message(messages.ShareBundle)
    other = replace(bundle, ciphertexts=bundle.ciphertexts ^ 1, tag=bundle.tag)
    with pytest.raises(PeerError, match="a second ShareBundle that differs"):
        client.masked_input(other, story.vector)
    client.delivered()
    with pytest.raises(PeerError, match="already delivered"):
        client.masked_input(bundle, story.vector)


def test_messages_of_another_round_change_nothing(story):
    other = Play(story.params, round_number=1)
    other.finish()
    for at, phase in enumerate(story.phases[1:], start=1):
        client = story.client_in(story.states[at])
        before = client.dump_state()
        foreign = messages.decode(other.down[phase, WHO], story.params, peer="server")
        with pytest.raises(PeerError, match="another session, round or configuration"):
            respond(client, foreign, story.vector)
        assert client.dump_state() == before


def test_every_server_phase_with_every_message(story):
    for at, phase in enumerate((*story.phases, Phase.DONE)):
        for kind, due in SERVER_TABLE.items():
            play = Play(story.params).until(phase)
            if due not in story.phases:
                empty = kind(tag=story.said[0].tag, signature=bytes(64))
                with pytest.raises(PeerError, match="no such round"):
                    play.server.receive(WHO, empty)
                continue
            reply = messages.decode(story.replies[story.phases.index(due)], story.params, peer=WHO)
            if story.phases.index(due) < at:
                assert play.server.receive(WHO, reply) is Receipt.REPEATED
            elif due is phase:
                assert play.server.receive(WHO, reply) is Receipt.ACCEPTED
                assert play.server.receive(WHO, reply) is Receipt.REPEATED
            else:
                with pytest.raises(PeerError, match=f"while {phase.title} is being collected"):
                    play.server.receive(WHO, reply)


def test_late_messages_are_not_looked_at():
    play = Play(honest(5), leaves={2: Phase.SHARE_MASKS})
    reply = play.until(Phase.SHARE_MASKS).answer(2, play.say(2))
    play.until(Phase.MASKED_INPUT)
    assert play.deliver(2, reply) is Receipt.LATE
    with pytest.raises(UsageError, match="It has left"):
        play.server.message_for(2)


def test_who_left_may_not_come_back():
    params = honest(5)
    play = Play(params, leaves={2: Phase.SHARE_MASKS}).until(Phase.MASKED_INPUT)
    other = Play(params).until(Phase.MASKED_INPUT)
    reply = other.answer(2, other.say(2))
    with pytest.raises(PeerError, match="left in an earlier round"):
        play.deliver(2, reply)


def test_arguments_of_other_types_are_usage_errors():
    params = honest()
    with pytest.raises(UsageError, match="roster"):
        lsa.Server(params, roster=1)
    for call in (lsa.policy_of, lsa.Client, lsa.Server, lsa.plan):
        with pytest.raises(UsageError, match="params"):
            call(None)
    with pytest.raises(UsageError, match="params"):
        lsa.decode(b"", None, peer=0)
    with pytest.raises(UsageError, match="data"):
        lsa.decode("text", params, peer=0)


def test_calls_out_of_place_are_usage_errors():
    play = Play(active(5))
    with pytest.raises(UsageError, match="a round that is done"):
        play.server.result()
    play.finish()
    for call in (play.server.close, lambda: play.server.message_for(0)):
        with pytest.raises(UsageError):
            call()
    with pytest.raises(UsageError, match="Decode it first"):
        play.server.receive(0, b"bytes")
    with pytest.raises(PeerError, match="Start, which only servers send"):
        play.server.receive(0, Play(active(5)).server.message_for(0))
    with pytest.raises(UsageError, match="a client's index"):
        play.server.receive(True, messages.decode(play.up[Phase.UNMASKING, 0], play.params, peer=0))
