"""Messages that are well formed and wrong: replayed, swapped, forged, poisoned, padded."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from parties import ALL, BOTH, Play, complete, due, is_empty_handed, respond, sparse

from privagg import keys, sharing
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.states import ClientState, Phase

WHO = 2


def refused(client, message, play, error=PeerError, match=None):
    """Hand a client a message that must end its round, and return the error."""
    message = messages.decode(message.encode(), play.params, peer="server")
    with pytest.raises(error, match=match) as caught:
        respond(client, message, play.vectors[WHO])
    assert is_empty_handed(client)
    return caught.value


# What a server, or whoever sits between, can do to a client.


def nothing_opens(play, forged):
    """Hand over ciphertexts of which none opens: too few hold shares, and nothing is sent."""
    error = refused(play.clients[WHO], forged, play, Abort, "too few hold shares")
    complete = play.params.graph is secagg.Graph.COMPLETE  # there it holds its own
    assert (error.alive, error.needed) == (int(complete), play.params.threshold)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("other", [{"session": b"another session."}, {"round_number": 1}])
def test_ciphertexts_of_another_session_or_round_do_not_open(kind, other):
    """Same clients, same seeds, same parameters; even the tag is corrected."""
    params = ALL[kind](6)
    play = Play(params).until(Phase.MASKED_INPUT)
    ours = due(play, WHO)
    foreign = due(Play(params, **other).until(Phase.MASKED_INPUT), WHO)
    nothing_opens(play, replace(foreign, tag=ours.tag))


@pytest.mark.parametrize("kind", ALL)
def test_one_ciphertext_that_does_not_open_is_got_over_and_its_ends_are_named(kind):
    """The client stays; it reports the share missing, and the server blames dealer or holder."""
    params = ALL[kind](8)
    for at in range(params.neighbours):
        play = Play(params).until(Phase.MASKED_INPUT)

        def garble(index, data, play=play, at=at):
            bundle = messages.decode(data, params, peer="server")
            if index != WHO:
                return data
            columns = bundle.ciphertexts.copy()
            columns[at, 7] ^= 1
            return replace(bundle, ciphertexts=columns).encode()

        play.step(down=garble)
        total = play.finish().total
        np.testing.assert_array_equal(total, play.vectors.sum(axis=0))
        dealer = int(play.server._topology.row(WHO)[at])
        (blame,) = play.server.blame
        assert (blame.dealer, blame.holder) == (dealer, WHO)
        assert (blame.reason, blame.verdict) == ("ciphertext does not open", "dealer or holder")


@pytest.mark.parametrize("kind", ALL)
def test_ciphertexts_swapped_between_senders_do_not_open(kind):
    play = Play(ALL[kind](6)).until(Phase.MASKED_INPUT)
    bundle = due(play, WHO)
    nothing_opens(play, replace(bundle, ciphertexts=np.roll(bundle.ciphertexts, 1, axis=0)))


@pytest.mark.parametrize("kind", ALL)
def test_ciphertexts_swapped_between_receivers_do_not_open(kind):
    play = Play(ALL[kind](6)).until(Phase.MASKED_INPUT)
    bundle, others = due(play, WHO), due(play, WHO + 1)
    nothing_opens(play, replace(bundle, ciphertexts=others.ciphertexts))


@pytest.mark.parametrize("kind", ALL)
def test_a_client_s_own_ciphertexts_sent_back_to_it_do_not_open(kind):
    """The keys are directional: what went out to a peer is not what comes from it."""
    play = Play(ALL[kind](6)).until(Phase.MASKED_INPUT)
    bundle = due(play, WHO)
    own = messages.decode(play.up[Phase.SHARE_KEYS, WHO], play.params, peer=WHO)
    nothing_opens(play, replace(bundle, ciphertexts=own.ciphertexts))


@pytest.mark.parametrize("make", [complete, ALL["active"]])
def test_a_ciphertext_from_the_client_to_itself_is_refused(make):
    play = Play(make(5)).until(Phase.MASKED_INPUT)
    bundle = due(play, WHO)
    forged = replace(
        bundle,
        present=np.ones_like(bundle.present),
        ciphertexts=np.insert(bundle.ciphertexts, WHO, 0, axis=0),
    )
    refused(play.clients[WHO], forged, play, match="from this client to itself")


@pytest.mark.parametrize("graph", BOTH)
def test_two_clients_shown_different_keys_do_not_open_each_other_s_ciphertexts(graph):
    """A replaced key changes either the roster's digest or the agreed key."""
    play = Play(BOTH[graph](6)).until(Phase.SHARE_KEYS)
    neighbour = int(play.server._topology.row(WHO)[0])

    def other_key(index, data):
        if index != neighbour:
            return data
        roster = messages.decode(data, play.params, peer="server")
        rows = roster.keys.copy()
        rows[list(roster.members).index(WHO), :32] = np.frombuffer(
            keys.public_key(bytes(range(32))), np.uint8
        )
        return replace(roster, keys=rows).encode()

    play.step(down=other_key)
    play.answer(WHO, play.ask(WHO))
    memory = play.clients[WHO]._memory
    assert memory.members[memory.holders & ~memory.opened].tolist() == [neighbour]


def test_a_roster_of_another_round_does_not_list_the_client_s_keys():
    params = complete(5)
    play = Play(params).until(Phase.SHARE_KEYS)
    foreign = due(Play(params, round_number=1).until(Phase.SHARE_KEYS), WHO)
    forged = replace(foreign, tag=due(play, WHO).tag)
    refused(play.clients[WHO], forged, play, match="other keys for this client")


@pytest.mark.parametrize("kind", ALL)
def test_two_survivor_sets_never_get_both_kinds_of_share(kind):
    """For each peer there is only ever one kind, whatever sets are shown and in what order."""
    params = ALL[kind](7, corrupt=0.0)
    play = Play(params).until(Phase.CONSISTENCY_CHECK if params.signed else Phase.UNMASKING)
    client, honest = play.clients[WHO], due(play, WHO)
    first = respond(client, honest)
    before = client.dump_state()
    sets = [
        replace(honest, survivors=np.array(flags), cohort=cohort)
        for flags in itertools.product((False, True), repeat=len(honest.survivors))
        for cohort in (sum(flags), sum(flags) + 1)
    ]
    for other in sets:
        if other.encode() == honest.encode():
            continue
        with pytest.raises(PeerError, match="a second SurvivorSet that differs"):
            respond(client, other)
    # Nor does the state that left the process give it, nor a released reply.
    again = play.load(WHO, before)
    with pytest.raises(PeerError, match="a second SurvivorSet that differs"):
        respond(again, sets[0])
    client.delivered()
    with pytest.raises(PeerError):
        respond(client, sets[0])
    again = play.load(WHO, before)
    assert respond(again, honest).encode() == first.encode()


@pytest.mark.parametrize("make", [complete, ALL["active"]])
def test_the_answer_holds_one_kind_of_share_of_each_peer(make):
    gone = dict.fromkeys((1, 4), Phase.MASKED_INPUT)
    play = Play(make(6), leaves=gone).until(Phase.UNMASKING)
    client = play.clients[WHO]
    held = client._memory.held.copy()
    shares = client.unmasking(due(play, WHO)).shares
    assert len(shares) == 6
    for peer in range(6):
        kind = 0 if peer in (1, 4) else 1
        np.testing.assert_array_equal(shares[peer], held[peer, kind])
        assert (shares[peer] != held[peer, 1 - kind]).all()


def test_ids_cannot_be_repeated_to_pad_a_roster():
    """Ids in the sparse roster ascend strictly; everywhere else they are bits."""
    play = Play(sparse(8)).until(Phase.SHARE_KEYS)
    roster = due(play, WHO)
    for order in ([0, 0, 2, 3], [0, 1, 2, 2], [1, 0, 2, 3], [0, 0, 0, 0]):
        padded = replace(roster, members=roster.members[order], keys=roster.keys[order])
        with pytest.raises(PeerError, match="do not ascend"):
            messages.decode(padded.encode(), play.params, peer="server")
    five = replace(
        roster,
        members=np.arange(5, dtype=np.uint32),
        keys=np.repeat(roster.keys[:1], 5, axis=0),
    )
    with pytest.raises(PeerError, match="5 neighbours where the graph has 4"):
        messages.decode(five.encode(), play.params, peer="server")


# What clients can do to the server.


def advertised(play, index):
    return messages.decode(play.answer(index, play.ask(index)), play.params, peer=index)


@pytest.mark.parametrize("half", ["cipher_key", "mask_key"])
@pytest.mark.parametrize(
    "number",
    [
        *(int.from_bytes(point, "little") for point in sorted(keys.LOW_ORDER_POINTS)),
        2**255 - 19,
        2**255 - 18,
        2**255 - 1,
        2**255 + 9,
    ],
    ids=lambda number: hex(number)[:12],
)
def test_the_server_refuses_keys_that_would_make_others_leave(number, half):
    """Low order, not canonical, or with the top bit set: one client must not end a round."""
    play = Play(complete(4))
    bad = replace(advertised(play, 0), **{half: number.to_bytes(32, "little")})
    with pytest.raises(PeerError, match="low order or not canonically encoded") as caught:
        play.server.receive(0, bad)
    assert (caught.value.peer, caught.value.round) == (0, "advertise-keys")
    play.leaves = {0: Phase.ADVERTISE_KEYS}
    assert play.finish().count == 3


def test_the_server_refuses_keys_that_it_has_seen():
    play = Play(complete(4))
    first, second = advertised(play, 0), advertised(play, 1)
    play.server.receive(0, first)
    for fields in (
        {"cipher_key": first.cipher_key},
        {"mask_key": first.mask_key},
        {"cipher_key": first.mask_key},
        {"mask_key": first.cipher_key},
        {"cipher_key": first.cipher_key, "mask_key": first.mask_key},
        {"cipher_key": second.mask_key},
    ):
        with pytest.raises(PeerError, match="advertised already") as caught:
            play.server.receive(1, replace(second, **fields))
        assert caught.value.peer == 1
    assert play.server.receive(1, second) is secagg.Receipt.ACCEPTED


def test_one_client_counts_once_however_often_it_answers():
    """Answers from two of three clients, repeated, do not reach a threshold of three."""
    gone = {2: Phase.UNMASKING}
    play = Play(complete(3, threshold=3), leaves=gone).until(Phase.UNMASKING)
    play.exchange()
    for _ in range(3):
        for index in (0, 1):
            data = play.up[Phase.UNMASKING, index]
            assert play.hand_in(index, data) is secagg.Receipt.REPEATED
    with pytest.raises(Abort) as caught:
        play.server.close()
    assert (caught.value.alive, caught.value.needed) == (2, 3)
    with pytest.raises(UsageError):
        play.server.result()


def test_rows_cannot_be_added_to_pad_the_threshold():
    gone = {3: Phase.SHARE_KEYS}
    play = Play(complete(4, threshold=3), leaves=gone).until(Phase.UNMASKING)
    answer = messages.decode(play.answer(0, play.ask(0)), play.params, peer=0)
    for rows in (answer.shares[:2], np.repeat(answer.shares, 2, axis=0)[:4], answer.shares[:0]):
        padded = replace(answer, shares=rows, missing=np.zeros(len(rows), np.bool_))
        with pytest.raises(PeerError, match=f"{len(rows)} shares for 3"):
            play.server.receive(0, padded)


@pytest.mark.parametrize("kind", ALL)
def test_ciphertexts_must_be_as_many_as_peers(kind):
    play = Play(ALL[kind](6)).until(Phase.SHARE_KEYS)
    answer = messages.decode(play.answer(0, play.ask(0)), play.params, peer=0)
    for rows in (answer.ciphertexts[1:], answer.ciphertexts[:0]):
        with pytest.raises(PeerError, match="ciphertexts for"):
            play.server.receive(0, replace(answer, ciphertexts=rows))


def end(play):
    """Close the last round; return the sum, or None after an error that ends the round for good."""
    wrong = None
    try:
        play.server.close()
    except PeerError as error:
        wrong = error
    if wrong is None:
        return play.server.result().total
    assert wrong.round == "unmasking"
    # Found by the check of that secret, not by the luck that the sum came out impossible.
    assert "shares" in wrong.reason
    assert play.phase is Phase.ABORTED
    for again in (play.server.result, play.server.close):
        with pytest.raises(UsageError):
            again()
    return None


@pytest.mark.parametrize("graph", BOTH)
@pytest.mark.parametrize("error", [1, 1 << 42, 1 << 60, "random"], ids=str)
def test_a_wrong_share_at_unmasking_never_gives_a_wrong_sum(graph, error):
    """Of either kind, from any holder, of any owner: corrected if there is a surplus, or refused.

    In the complete graph four shares for a threshold of two correct one; in the ring none is spare.
    """
    params = BOTH[graph](5, threshold=2, neighbours=4 if graph == "complete" else 2)
    rng, outcomes = np.random.default_rng(1), []
    gone = {1: Phase.MASKED_INPUT} if graph == "complete" else None
    base = Play(params, leaves=gone)
    base.until(Phase.UNMASKING)
    width = params.neighbours + (graph == "complete")
    for holder, row in itertools.product(base.present(), range(width)):
        play = Play(params, leaves=base.leaves).until(Phase.UNMASKING)

        def forge(index, data, play=play, holder=holder, row=row):
            message = messages.decode(data, params, peer=index)
            shares = message.shares.copy()
            if index == holder:
                noise = rng.integers(1, 2**60, 3, np.uint64) if error == "random" else error
                shares[row] = (shares[row] + np.uint64(noise)) % np.uint64(2**61 - 1)
            return replace(message, shares=shares).encode()

        play.exchange(up=forge)
        total = end(play)
        outcomes.append(total is None)
        if total is not None:
            stayed = [c for c in range(5) if c not in (base.leaves or {})]
            np.testing.assert_array_equal(total, play.vectors[stayed].sum(axis=0))
            wrong = [(row, holder, "wrong share")] if graph == "complete" else []
            blamed = [(blame.dealer, blame.holder, blame.reason) for blame in play.server.blame]
            assert blamed in ([], wrong)
    assert all(outcomes) if graph == "sparse" else not any(outcomes)


@pytest.mark.parametrize("kind", [0, 1], ids=["mask key", "self mask"])
@pytest.mark.parametrize("graph", BOTH)
def test_wrongly_dealt_shares_never_give_a_wrong_sum(graph, kind, monkeypatch):
    """The dealer shares another secret than the one it used."""
    params = BOTH[graph](6)
    gone = {WHO: Phase.MASKED_INPUT if kind == 0 else Phase.DONE}
    play = Play(params, leaves=gone).until(Phase.SHARE_KEYS)
    original = sharing.split

    def deal(secrets, *args):
        lie = secrets.copy()
        lie[kind] ^= 1
        return original(lie, *args)

    for index in play.present():
        with monkeypatch.context() as patch:
            if index == WHO:
                patch.setattr(sharing, "split", deal)
            play.hand_in(index, play.answer(index, play.ask(index)))
    play.server.close()
    play.until(Phase.UNMASKING).exchange()
    assert end(play) is None


def test_a_wrong_commitment_ends_the_round():
    play = Play(complete(4)).until(Phase.SHARE_KEYS)

    def forge(index, data):
        message = messages.decode(data, play.params, peer=index)
        return replace(message, commitment=bytes(32)).encode() if index == WHO else data

    play.step(up=forge)
    play.until(Phase.UNMASKING).exchange()
    with pytest.raises(PeerError, match="cannot be rebuilt") as caught:
        play.server.close()
    assert caught.value.peer == WHO
    assert play.phase is Phase.ABORTED


def test_a_client_that_gave_up_is_as_good_as_gone():
    play = Play(complete(5)).until(Phase.MASKED_INPUT)
    bundle = due(play, WHO)
    nothing_opens(play, replace(bundle, ciphertexts=np.roll(bundle.ciphertexts, 1, axis=0)))
    play.leaves = {WHO: Phase.MASKED_INPUT}
    total = play.finish().total
    stayed = [index for index in range(5) if index != WHO]
    np.testing.assert_array_equal(total, play.vectors[stayed].sum(axis=0))
    assert play.clients[WHO].state is ClientState.ABORTED
