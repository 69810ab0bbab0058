"""Changed bytes handed to live parties: a typed error or an answer, and never a wrong sum."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from parties import ALL, Play, is_empty_handed, phases, respond

from privagg import entropy
from privagg.errors import Abort, PeerError
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.states import ClientState, Phase

WHO = 1
PLACES = [(kind, phase) for kind, make in ALL.items() for phase in phases(make(6, 1))]
IDS = [f"{kind}-{phase.name}" for kind, phase in PLACES]


def changed(good, rng):
    """Change one to three bytes after version and kind: most of these still decode."""
    data = bytearray(good)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(2, min(len(data), rng.choice((20, 60, 10**6))))
        data[at] = rng.choice((data[at] ^ 1 << rng.randrange(8), rng.randrange(256), 0, 255))
    return bytes(data) if bytes(data) != good else changed(good, rng)


@pytest.mark.parametrize(("kind", "phase"), PLACES, ids=IDS)
def test_a_client_fed_changed_messages(kind, phase):
    params = ALL[kind](6, 3)
    play = Play(params).until(phase)
    good, state = play.ask(WHO), play.clients[WHO].dump_state()
    rng, outcomes = random.Random(phase.value), set()
    for _ in range(150):
        # A copy with the same secrets, so that each change meets the client in the same state.
        client = play.load(WHO, state, entropy.from_seed(1))
        before, data = client.state, changed(good, rng)
        error = None
        try:
            message = messages.decode(data, params, peer="server")
            respond(client, message, play.vectors[WHO])
        except (PeerError, Abort) as caught:
            error = caught
        if error is None:
            outcomes.add("answered")
            assert client.state is not before
        elif client.state is ClientState.ABORTED:
            outcomes.add("gave up")
            assert is_empty_handed(client)
        else:
            outcomes.add("unmoved")
            assert client.dump_state() == state
    # A peer's unsigned keys can be replaced by others without anyone's notice; signed ones cannot,
    # nor can what two clients signed be another set to a third.
    assert "gave up" in outcomes or (kind, phase) == ("sparse", Phase.SHARE_KEYS)
    if kind == "active" and phase in (Phase.SHARE_KEYS, Phase.UNMASKING):
        assert "answered" not in outcomes
    assert "unmoved" in outcomes or phase is Phase.ADVERTISE_KEYS  # it has no tag to go by yet


@pytest.mark.parametrize(("kind", "phase"), PLACES, ids=IDS)
def test_a_server_fed_changed_messages_by_one_client(kind, phase):
    """The round ends with the sum of the survivors or an error that blames someone.

    Only a changed vector, or a changed mask key that its owner is not shown, can change the sum:
    as the client could by sending another vector.
    """
    params = ALL[kind](5, 3)
    rng, outcomes = random.Random(10 + phase.value), set()
    for _ in range(15):
        play = Play(params).until(phase)
        for index in play.present():
            data = play.answer(index, play.ask(index))
            if index != WHO:
                play.hand_in(index, data)
                continue
            try:
                play.hand_in(index, changed(data, rng))
            except PeerError as error:
                outcomes.add("refused")
                blamed = error.peer
                play.hand_in(index, data)
            else:
                blamed = WHO
            assert blamed == WHO
        try:
            play.server.close()
            total = play.finish().total
        except (PeerError, Abort):
            outcomes.add("noticed")
            continue
        outcomes.add("finished")
        wrong = total != play.vectors.sum(axis=0)
        keys_moved = phase is Phase.ADVERTISE_KEYS and not params.signed
        assert not wrong.any() or keys_moved or phase is Phase.MASKED_INPUT
    assert outcomes & {"refused", "noticed"}


@pytest.mark.parametrize("kind", ALL)
def test_changed_vectors_move_only_the_coordinates_they_hold(kind):
    """Masks are added coordinate by coordinate: a flipped bit poisons one of them, no other."""
    params = ALL[kind](5, 6)
    play = Play(params).until(Phase.MASKED_INPUT)

    def flip(index, data):
        if index != WHO:
            return data
        message = messages.decode(data, params, peer=index)
        vector = message.vector.copy()
        vector[4] ^= 1
        return replace(message, vector=vector).encode()

    play.step(up=flip)
    difference = play.finish().total - play.vectors.sum(axis=0)
    assert np.flatnonzero(difference).tolist() == [4]
    assert abs(difference[4]) == 1
