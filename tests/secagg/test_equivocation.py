"""A server that tells clients different stories about who survived."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from attacker import combine, unmask
from parties import Play, active, complete, due, identity, is_empty_handed, respond

from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols.secagg import derivations, messages
from privagg.protocols.secagg.states import ClientState, Phase

CLIENTS = 6
PAIRS = list(itertools.permutations(range(CLIENTS), 2))


def without(message, members, client):
    """Return a survivor set in which `client` is called gone."""
    flags = message.survivors.copy()
    flags[list(members).index(client)] = False
    return replace(message, survivors=flags, cohort=message.cohort - 1)


def test_without_signatures_a_server_gets_both_kinds_of_share_and_the_input():
    """Semi-honest rounds trust the server not to do this: half the clients hear one story."""
    play = Play(complete(CLIENTS, threshold=3)).until(Phase.UNMASKING)
    victim, told = 2, {0: {}, 1: {}}
    for index in range(CLIENTS):
        survivors = due(play, index)
        if (index != victim and index % 2 == 0) or index == 5:
            survivors = without(survivors, range(CLIENTS), victim)
        answer = play.clients[index].unmasking(survivors)
        told[int(survivors.survivors[victim])][index] = answer.shares[victim]
    assert [len(told[kind]) for kind in (0, 1)] == [3, 3]
    masked = messages.decode(play.up[Phase.MASKED_INPUT, victim], play.params, peer=victim).vector
    peers = [index for index in range(CLIENTS) if index != victim]
    learned = unmask(play.server, victim, masked, combine(told[1]), combine(told[0]), peers=peers)
    np.testing.assert_array_equal(learned, play.vectors[victim])


def signed_apart(play, apart, gone):
    """Let `apart` sign a set without `gone` and everyone else the true one; return signatures."""
    members, found = range(play.params.clients), {}
    for index in play.present():
        survivors = due(play, index)
        if index in apart:
            survivors = without(survivors, members, gone)
        found[index] = play.clients[index].consistency_check(survivors).signature
    return found


def signature_set(play, signatures, signers):
    flags = np.isin(np.arange(play.params.clients), list(signers))
    rows = [np.frombuffer(signatures[index], np.uint8) for index in sorted(signers)]
    message = messages.SignatureSet(
        tag=play.server._tag,
        signers=flags,
        signatures=np.array(rows, np.uint8).reshape(len(rows), 64),
    )
    return messages.decode(message.encode(), play.params, peer="server")


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_clients_that_were_shown_different_sets_both_refuse(one, other):
    """Whoever else is called gone to `other`: neither accepts a signature of the other."""
    for gone in set(range(CLIENTS)) - {one, other}:
        play = Play(active(CLIENTS)).until(Phase.CONSISTENCY_CHECK)
        signatures = signed_apart(play, {other}, gone)
        everyone = set(range(CLIENTS))
        for index, signers in ((one, everyone), (other, everyone - {gone})):
            client = play.clients[index]
            with pytest.raises(PeerError, match="not over what this client was shown") as caught:
                client.unmasking(signature_set(play, signatures, signers))
            assert caught.value.peer == "server"
            assert caught.value.round == "unmasking"
            assert is_empty_handed(client)


@pytest.mark.parametrize(("clients", "corrupt", "threshold"), [(5, 0, 3), (5, 1, 4), (6, 1, 4)])
def test_however_the_clients_are_split_only_one_kind_of_share_is_had(clients, corrupt, threshold):
    """The corrupt sign both stories and answer to both; still one side stays below t."""
    params = active(clients, corrupt=corrupt / clients, threshold=threshold)
    gone, liars = clients - 1, set(range(corrupt))
    honest = set(range(clients)) - liars - {gone}
    enough = set()
    for size in range(len(honest) + 1):
        for apart in map(set, itertools.combinations(sorted(honest), size)):
            play = Play(params).until(Phase.CONSISTENCY_CHECK)
            # Who is called gone is told the truth: a set without itself it would refuse.
            stories = {0: apart | liars, 1: honest - apart | liars | {gone}}
            twins = {index: play.clients[index].dump_state() for index in liars}
            released = {}
            for kind, side in stories.items():
                for index in liars:
                    play.clients[index] = play.load(index, twins[index])
                signatures = {}
                for index in side:
                    survivors = due(play, index)
                    if kind == 0:
                        survivors = without(survivors, range(clients), gone)
                    signatures[index] = play.clients[index].consistency_check(survivors).signature
                message, answers = signature_set(play, signatures, side), 0
                refused = 0
                for index in side:
                    try:
                        answers += len(play.clients[index].unmasking(message).shares) == clients
                    except Abort:
                        refused += 1
                        answers += index in liars  # it gives its shares all the same
                assert refused == (len(side) if len(side) < threshold else 0)
                released[kind] = answers
            assert min(released.values()) < threshold, (apart, released)
            enough.add(max(released.values()) >= threshold)
    assert True in enough


def test_a_second_survivor_set_is_not_signed():
    play = Play(active(CLIENTS)).until(Phase.CONSISTENCY_CHECK)
    client, honest = play.clients[0], due(play, 0)
    first = client.consistency_check(honest)
    state = client.dump_state()
    for gone in range(1, CLIENTS):
        for again in (client, play.load(0, state)):
            with pytest.raises(PeerError, match="a second SurvivorSet that differs"):
                again.consistency_check(without(honest, range(CLIENTS), gone))
    assert client.consistency_check(honest).encode() == first.encode()
    with pytest.raises(UsageError, match="SignatureSet"):
        client.unmasking(honest)
    assert client.state is ClientState.CHECKED


def test_a_second_signature_set_gets_no_second_answer():
    play = Play(active(CLIENTS)).until(Phase.UNMASKING)
    client, honest = play.clients[0], due(play, 0)
    first = client.unmasking(honest)
    fewer = replace(honest, signers=np.arange(CLIENTS) < 5, signatures=honest.signatures[:5])
    with pytest.raises(PeerError, match="a second SignatureSet that differs"):
        client.unmasking(fewer)
    assert client.unmasking(honest).encode() == first.encode()


# Signatures that are none.


def statements(play, **changes):
    """Return what is signed in a round, with some part of it another."""
    server = play.server
    everyone = np.arange(CLIENTS, dtype=np.uint32)
    parts = {
        "context": server._context,
        "roster": server._roster,
        "model": play.model,
        "holders": everyone,
        "survivors": everyone,
    } | changes
    return derivations.survivor_statement(*parts.values())


FEWER = np.arange(CLIENTS - 1, dtype=np.uint32)


def forgeries(play):
    """Return, by name, a signature of client 3 for what it did not sign like this."""
    signer = identity(3)
    params = play.params
    other_round = Play(params, round_number=1).until(Phase.CONSISTENCY_CHECK)
    other_session = Play(params, session=b"another session.").until(Phase.CONSISTENCY_CHECK)
    advertised = messages.decode(play.up[Phase.ADVERTISE_KEYS, 3], params, peer=3)
    return {
        "missing": bytes(64),
        "of another identity": identity(99).sign(statements(play)),
        "of another client": identity(2).sign(statements(play)),
        "over its keys": advertised.signature,
        "of another round": signed_apart(other_round, set(), 0)[3],
        "of another session": signed_apart(other_session, set(), 0)[3],
        "over another U2": signer.sign(statements(play, holders=FEWER)),
        "over another U3": signer.sign(statements(play, survivors=FEWER)),
        "over another model": signer.sign(statements(play, model=b"m" * 32)),
        "over other keys": signer.sign(statements(play, roster=bytes(32))),
        "over nothing": signer.sign(b""),
    }


def test_no_client_accepts_a_signature_that_is_missing_foreign_or_replayed():
    params = active(CLIENTS)
    for name, forged in forgeries(Play(params).until(Phase.CONSISTENCY_CHECK)).items():
        play = Play(params).until(Phase.CONSISTENCY_CHECK)
        signatures = signed_apart(play, set(), 0)
        assert signatures[3] == identity(3).sign(statements(play))
        signatures[3] = forged
        for index in range(CLIENTS):
            with pytest.raises(PeerError, match="the signature of client 3"):
                respond(play.clients[index], signature_set(play, signatures, set(range(CLIENTS))))
            assert is_empty_handed(play.clients[index]), name


def test_nor_does_the_server_which_then_takes_the_right_one():
    play = Play(active(CLIENTS)).until(Phase.CONSISTENCY_CHECK)
    tag = play.server._tag
    for forged in forgeries(play).values():
        with pytest.raises(PeerError, match="not over the sets and model") as caught:
            play.server.receive(3, messages.ConsistencySignature(tag=tag, signature=forged))
        assert (caught.value.peer, caught.value.round) == (3, "consistency-check")
    np.testing.assert_array_equal(play.finish().total, play.vectors.sum(axis=0))
    assert play.server.survivors()["consistency-check"] == tuple(range(CLIENTS))


def test_a_lost_signature_does_not_lose_the_client():
    """It is in the sum, and may still give its shares."""
    play = Play(active(CLIENTS)).until(Phase.CONSISTENCY_CHECK)
    for index in range(CLIENTS):
        data = play.answer(index, play.ask(index))
        if index != 2:
            play.hand_in(index, data)
    play.server.close()
    assert 2 in play.server.alive()
    np.testing.assert_array_equal(play.finish().total, play.vectors.sum(axis=0))
    assert play.server.survivors()["unmasking"] == tuple(range(CLIENTS))


def test_too_few_signatures_end_the_round_and_no_share_was_asked_for():
    play = Play(active(CLIENTS), leaves=dict.fromkeys((0, 1, 2), Phase.CONSISTENCY_CHECK))
    with pytest.raises(Abort, match="round consistency-check: too few") as caught:
        play.finish()
    assert (caught.value.alive, caught.value.needed) == (3, 4)
    assert all(phase is not Phase.UNMASKING for phase, _ in play.down)
    with pytest.raises(UsageError):
        play.server.result()
