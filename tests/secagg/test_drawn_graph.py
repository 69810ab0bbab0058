"""Who chooses a client's neighbours: a server that surrounds a victim, and what stops it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from attacker import combine, unmask
from parties import Play, drawn, due, identity, is_empty_handed, respond, sparse

from privagg.errors import Abort, PeerError
from privagg.protocols import secagg
from privagg.protocols.secagg import client_graph, derivations, graph, merkle, messages
from privagg.protocols.secagg.states import ClientState, Phase
from privagg.protocols.secagg.topology import Topology

CLIENTS = 16
WHO = 5
CORRUPT = frozenset({1, 2, 3, 8, 9, 12})


def surrounding(params, seeds):
    """Return the first of `seeds` whose graph gives `WHO` none but corrupt neighbours."""
    for seed in seeds:
        row = graph.build(params.clients, params.neighbours, seed)[WHO]
        if CORRUPT.issuperset(map(int, row)):
            return seed
    raise AssertionError("no such seed")


def any_seeds():
    for number in itertools.count():
        yield number.to_bytes(32, "little")


def what_the_corrupt_learn(play):
    """Return the input of `WHO` from what its neighbours hold of it, or None."""
    server, members = play.server, play.clients[WHO]._memory.members
    if not CORRUPT.issuperset(map(int, members)):
        return None
    held = {}
    for index in map(int, members):  # the colluding clients show the server all that they know
        memory = play.clients[index]._memory
        held[index] = memory.held[list(memory.members).index(WHO)]
    mask_seed, self_seed = (
        combine({index: pair[kind] for index, pair in held.items()}) for kind in (0, 1)
    )
    masked = messages.decode(play.up[Phase.MASKED_INPUT, WHO], play.params, peer=WHO).vector
    return unmask(server, WHO, masked, self_seed, mask_seed, peers=members)


def test_a_server_that_draws_the_graph_can_surround_a_client():
    """Semi-honest rounds trust it not to: with its six colluding clients it learns the input."""
    params = sparse(CLIENTS)
    play = Play(params)
    play.server._topology = Topology(params, surrounding(params, any_seeds()))
    play.until(Phase.UNMASKING)
    np.testing.assert_array_equal(what_the_corrupt_learn(play), play.vectors[WHO])


def test_whom_it_does_not_surround_it_learns_nothing_of():
    play = Play(sparse(CLIENTS)).until(Phase.UNMASKING)
    assert what_the_corrupt_learn(play) is None


# Semi-malicious: the clients draw.


class Draw:
    """A play up to the moment at which `WHO` is shown its neighbours, and what it is shown."""

    def __init__(self):
        self.play = Play(drawn(CLIENTS)).until(Phase.SHARE_KEYS)
        self.client = self.play.clients[WHO]
        self.honest = due(self.play, WHO)
        self.memory = self.client._memory
        self.context = self.play.server._context

    def refuses(self, roster, match, peer="server"):
        message = messages.decode(roster.encode(), self.play.params, peer="server")
        with pytest.raises(PeerError, match=match) as caught:
            self.client.share_keys(message)
        assert (caught.value.peer, caught.value.round) == (peer, "share-keys")
        assert is_empty_handed(self.client)

    def roster_of(self, members, **changes):
        """Return the roster that shows `members`, with their true keys, signatures and paths."""
        server = self.play.server
        members = np.array(sorted(members), np.uint32)
        proof = server._draw.proof(members)
        return replace(
            server._store.roster_of(
                members, tag=server._tag, cohort=CLIENTS, digest=self.honest.digest, proof=proof
            ),
            **changes,
        )

    def with_proof(self, **changes):
        return replace(self.honest, proof=replace(self.honest.proof, **changes))


def test_neighbours_of_the_server_s_choice_are_refused():
    draw = Draw()
    draw.refuses(draw.roster_of(sorted(CORRUPT)[:4]), "not those of the committed graph")


def test_one_neighbour_exchanged_or_left_out_is_refused():
    first = Draw()
    true = set(map(int, first.honest.members))
    others = sorted(set(range(CLIENTS)) - true - {WHO})
    for out in sorted(true):
        for shown in (true - {out} | {others[0]}, true - {out} | {others[-1]}, true - {out}):
            draw = Draw()
            draw.refuses(draw.roster_of(shown), "not those of the committed graph")


def grind(draw, free):
    """Return openings with which the graph surrounds `WHO`, by other openings of `free`."""
    openings = draw.honest.proof.openings.copy()
    root = draw.memory.graph_root
    rng = np.random.default_rng(3)
    for _ in range(20_000):
        openings[free] = rng.integers(0, 256, 16, np.uint8)
        seed = derivations.graph_seed(draw.context, root, openings)
        row = graph.build(CLIENTS, draw.play.params.neighbours, seed)[WHO]
        if CORRUPT.issuperset(map(int, row)):
            return openings, row
    raise AssertionError("no such openings")


def test_openings_chosen_after_the_victim_s_are_refused():
    """A corrupt client tries openings until its friends are the victim's neighbours."""
    draw = Draw()
    openings, row = grind(draw, 1)
    roster = draw.roster_of(row)
    draw.refuses(
        replace(roster, proof=replace(roster.proof, openings=openings)), "not those committed to"
    )


def test_an_opening_in_place_of_the_victim_s_is_refused():
    draw = Draw()
    openings, row = grind(draw, WHO)
    roster = draw.roster_of(row)
    draw.refuses(
        replace(roster, proof=replace(roster.proof, openings=openings)),
        "another opening in place of this client's",
    )


def test_a_root_fixed_without_the_victim_s_commitment_is_refused():
    """The server shows the victim a root over commitments that it can still choose from."""
    play = Play(drawn(CLIENTS)).until(Phase.REVEAL_GRAPH)

    def other_root(index, data):
        challenge = messages.decode(data, play.params, peer="server")
        return replace(challenge, root=b"r" * 32).encode() if index == WHO else data

    play.step(down=other_root)
    with pytest.raises(PeerError, match="not those committed to"):
        play.clients[WHO].share_keys(due(play, WHO))
    assert is_empty_handed(play.clients[WHO])


def test_the_openings_must_be_all_and_no_more():
    count = len(Draw().honest.proof.openings)
    for rows in (range(count - 1), [*range(count), 0][: count + 1], []):
        draw = Draw()
        openings = draw.honest.proof.openings[list(rows)]
        if len(openings) > CLIENTS:
            continue
        draw.refuses(draw.with_proof(openings=openings), "not one opening for each")
    draw = Draw()
    order = np.roll(np.arange(count), 1)
    openings = draw.honest.proof.openings[order]
    draw.refuses(draw.with_proof(openings=openings), "another opening")
    draw = Draw()
    openings = draw.honest.proof.openings.copy()
    openings[[0, 1]] = openings[[1, 0]]  # WHO's is where it was
    draw.refuses(draw.with_proof(openings=openings), "not those committed to")
    draw = Draw()
    draw.refuses(replace(draw.honest, cohort=CLIENTS - 1), "a cohort of 15; 16 committed")


def test_keys_that_a_corrupt_client_signed_after_the_graph_was_fixed_are_refused():
    """It has the right to sign them; but with keys to choose from it could be several clients."""
    draw = Draw()
    at = 1
    peer = int(draw.honest.members[at])
    rows, signatures = draw.honest.keys.copy(), draw.honest.signatures.copy()
    rows[at, :32] = rows[at, 32:]
    rows[at, 32:] = draw.play.server._store.keys[(peer + 1) % CLIENTS, 32:]
    statement = derivations.advertise_statement(
        draw.context, peer, rows[at, :32].tobytes(), rows[at, 32:].tobytes()
    )
    signatures[at] = np.frombuffer(identity(peer).sign(statement), np.uint8)
    draw.refuses(
        replace(draw.honest, keys=rows, signatures=signatures),
        "keys that are not those fixed before the graph",
        peer,
    )


def test_paths_of_other_leaves_or_lengths_are_refused():
    draw = Draw()
    first = int(draw.honest.members[0])
    paths = draw.honest.proof.paths
    draw.refuses(
        draw.with_proof(paths=np.roll(paths, 1, axis=0)), "keys that are not those fixed", first
    )
    for bit in (0, 8 * 31, 8 * 127 + 7):
        draw = Draw()
        flipped = draw.honest.proof.paths.copy()
        flipped[0, bit // 8] ^= 1 << bit % 8
        draw.refuses(draw.with_proof(paths=flipped), "keys that are not those fixed", first)
    draw = Draw()
    assert draw.honest.proof.depth == merkle.depth(CLIENTS) == 4
    draw.refuses(draw.with_proof(paths=paths[:, :96], depth=3), "proofs of 3 steps")


def test_the_keys_are_fixed_once():
    play = Play(drawn(CLIENTS), leaves={0: Phase.ADVERTISE_KEYS}).until(Phase.COMMIT_GRAPH)
    request, state = due(play, WHO), play.clients[WHO].dump_state()
    me = np.arange(CLIENTS) == WHO
    with pytest.raises(PeerError, match="not among those that advertised"):
        play.clients[WHO].commit_graph(replace(request, present=request.present & ~me))
    for change, match in (
        ({"key_root": bytes(32)}, "after they were fixed"),
        ({"present": np.ones(CLIENTS, np.bool_)}, "after they were fixed"),
    ):
        client = play.load(WHO, state)
        client.commit_graph(request)
        client.reveal_graph(
            messages.GraphChallenge(
                tag=request.tag, attempt=0, present=request.present, root=bytes(32)
            )
        )
        again = replace(request, attempt=1)
        twin = play.load(WHO, client.dump_state())
        twin.commit_graph(again)  # as it is, it may come again
        with pytest.raises(PeerError, match=match):
            client.commit_graph(replace(again, **change))
        assert is_empty_handed(client)


def test_a_challenge_must_hold_our_commitment_and_none_without_keys():
    play = Play(drawn(CLIENTS), leaves={0: Phase.ADVERTISE_KEYS}).until(Phase.REVEAL_GRAPH)
    challenge, state = due(play, WHO), play.clients[WHO].dump_state()
    me, gone = np.arange(CLIENTS) == WHO, np.arange(CLIENTS) == 0
    for present, match in (
        (challenge.present & ~me, "this client's commitment is left out"),
        (challenge.present | gone, "a client that has no keys"),
    ):
        client = play.load(WHO, state)
        with pytest.raises(PeerError, match=match):
            client.reveal_graph(replace(challenge, present=present))
        assert is_empty_handed(client)


def test_the_fifth_draw_is_refused():
    """Each draw is another chance for a server that wants a certain graph."""
    play = Play(drawn(CLIENTS)).until(Phase.COMMIT_GRAPH)
    request, client, openings = due(play, WHO), play.clients[WHO], set()
    for attempt in range(client_graph.MAX_ATTEMPTS):
        client.commit_graph(replace(request, attempt=attempt))
        challenge = messages.GraphChallenge(
            tag=request.tag, attempt=attempt, present=request.present, root=bytes(32)
        )
        openings.add(client.reveal_graph(challenge).opening)
    assert client_graph.MAX_ATTEMPTS == len(openings) == 4  # and never the same opening again
    with pytest.raises(PeerError, match="a draw of the graph after 4; at most 4"):
        client.commit_graph(replace(request, attempt=4))
    assert is_empty_handed(client)


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_who_does_not_reveal_is_left_out_and_the_graph_drawn_again(failures):
    play = Play(drawn(CLIENTS, neighbours=8))
    seeds = set()
    for gone in range(failures):
        play.until(Phase.REVEAL_GRAPH)
        seeds.add(play.server._draw._root)
        play.leaves = dict.fromkeys(range(gone + 1), Phase.REVEAL_GRAPH)
        assert play.step() is Phase.COMMIT_GRAPH
        assert play.server._draw.attempt == gone + 1
    total = play.finish().total
    assert len(seeds) == failures
    np.testing.assert_array_equal(total, play.vectors[failures:].sum(axis=0))
    assert play.server.blame == ()


def test_four_draws_that_fail_end_the_round():
    play = Play(drawn(CLIENTS))
    for gone in range(4):
        play.until(Phase.REVEAL_GRAPH)
        play.leaves = dict.fromkeys(range(gone + 1), Phase.REVEAL_GRAPH)
        if gone < 3:
            play.step()
    with pytest.raises(Abort, match="in every draw of the graph someone committed"):
        play.step()
    assert play.phase is Phase.ABORTED


def test_late_and_repeated_messages_of_an_earlier_draw_are_no_one_s_fault():
    """The first draw's answers arrive during the second: none counts, nobody is blamed."""
    play = Play(drawn(CLIENTS)).until(Phase.REVEAL_GRAPH)
    play.leaves = {0: Phase.REVEAL_GRAPH}
    old_requests = {i: play.down[Phase.COMMIT_GRAPH, i] for i in range(CLIENTS)}
    play.exchange()
    old = dict(play.up)
    challenge = messages.decode(play.down[Phase.REVEAL_GRAPH, WHO], play.params, peer="server")
    late = respond(play.clients[0], due(play, 0)).encode()
    play.server.close()
    for phase in (Phase.COMMIT_GRAPH, Phase.REVEAL_GRAPH):
        assert play.phase is phase
        for (when, index), data in old.items():
            expected = secagg.Receipt.LATE
            if when is Phase.ADVERTISE_KEYS:
                expected = secagg.Receipt.REPEATED
            assert play.hand_in(index, data) is expected
        assert play.hand_in(0, late) is secagg.Receipt.LATE
        play.exchange()
        if phase is Phase.COMMIT_GRAPH:
            # The old challenge does not get the new opening out of a client.
            client = play.clients[WHO]
            with pytest.raises(PeerError, match="draw 0 of the graph where 1 is due"):
                client.reveal_graph(challenge)
            assert client.state is ClientState.COMMITTED
        else:
            old_request = messages.decode(old_requests[WHO], play.params, peer="server")
            with pytest.raises(PeerError, match="draw 0 of the graph where 2 is due"):
                play.clients[WHO].commit_graph(old_request)
            assert play.clients[WHO].state is ClientState.REVEALED
        play.server.close()
    np.testing.assert_array_equal(play.finish().total, play.vectors[1:].sum(axis=0))


def test_the_server_refuses_openings_of_no_commitment_and_draws_to_come():
    play = Play(drawn(CLIENTS)).until(Phase.REVEAL_GRAPH)
    data = play.answer(WHO, play.ask(WHO))
    reveal = messages.decode(data, play.params, peer=WHO)
    others = messages.decode(play.answer(0, play.ask(0)), play.params, peer=0)
    for wrong, match in (
        (replace(reveal, opening=bytes(16)), "not what it committed to"),
        (replace(reveal, opening=others.opening), "not what it committed to"),
        (replace(reveal, attempt=1), "draw 1 of the graph while 0"),
    ):
        with pytest.raises(PeerError, match=match) as caught:
            play.server.receive(WHO, wrong)
        assert (caught.value.peer, caught.value.round) == (WHO, "reveal-graph")
    assert play.hand_in(WHO, data) is secagg.Receipt.ACCEPTED
    np.testing.assert_array_equal(play.finish().total, play.vectors.sum(axis=0))


def test_the_neighbours_are_drawn_evenly():
    """Over many rounds each other client is a neighbour about as often."""
    counts = np.zeros(CLIENTS)
    for seed in range(40):
        play = Play(drawn(CLIENTS), seed=seed).until(Phase.SHARE_KEYS)
        counts[play.server._topology.row(WHO)] += 1
    assert counts[WHO] == 0
    assert counts.sum() == 40 * 4
    # Binomial(40, 4/15): mean 10.7, standard deviation 2.8.
    assert 1 <= np.delete(counts, WHO).min() <= np.delete(counts, WHO).max() <= 24
