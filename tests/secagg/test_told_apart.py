"""A server of a semi-malicious round that tells neighbours different stories.

About who shared keys and who survived: clients sign what each was told of its neighbours, and give
shares only where what the neighbours were told agrees with it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from attacker import combine, unmask
from lying import Lies, LyingServer
from parties import Play, drawn, due, is_empty_handed
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow

from privagg.errors import Abort, PeerError
from privagg.protocols.secagg import checks, derivations, messages
from privagg.protocols.secagg.states import Phase

VICTIM = 7


def who_is_told(neighbours, gone, t, slack):
    """Return per client which of `gone` it is told have left: each by t of its neighbours.

    A client must be told that t of its neighbours are there, so that it can be told of `slack` that
    are not; the victim is told of none. A flow finds who is told what.
    """
    count = len(neighbours)
    source, sink = 2 * count, 2 * count + 1
    edges = [(source, one, t) for one in gone]
    edges += [(one, count + other, 1) for one in gone for other in neighbours[one]]
    edges += [(count + one, sink, 0 if one == VICTIM else slack) for one in range(count)]
    tails, heads, limits = zip(*edges, strict=True)
    network = csr_matrix((np.array(limits, np.int32), (tails, heads)), (sink + 1, sink + 1))
    found = maximum_flow(network, source, sink)
    assert found.flow_value == t * len(gone), "another round, for the attack"
    flow = found.flow.toarray()
    return {other: {one for one in gone if flow[one, count + other] > 0} for other in range(count)}


def believe_everything(message, memory, params, policy):
    return np.ones(len(memory.members), np.bool_)


@pytest.mark.parametrize("checked", [False, True], ids=["unchecked", "checked"])
@pytest.mark.parametrize("hides", [True, False], ids=["U2 and U3", "U3 only"])
def test_neighbours_told_different_stories_do_not_give_away_an_input(checked, hides, monkeypatch):
    """No colluder: the server alone lies about who shared keys and who survived.

    It tells the victim that only t of its neighbours shared keys, so that there are t pairwise
    masks, and tells t neighbours of each of those t that it has left. No client gives both kinds of
    share of anyone. Without the signed views that is enough for the victim's input.
    """
    params = drawn(30, neighbours=8)
    t, k = params.threshold, params.neighbours
    if not checked:
        monkeypatch.setattr(checks, "signatures_are_acceptable", believe_everything)
    server = LyingServer(params, Lies(), vectors=np.arange(120).reshape(30, 4))
    around = set(server.neighbours[VICTIM])
    nearest = sorted(around, key=lambda one: len(around & set(server.neighbours[one])))
    gone = nearest[:t]
    server.lies.gone = who_is_told(server.neighbours, gone, t, k - t)
    if hides:
        server.lies.hidden[VICTIM] = around - set(gone)
    server.run()
    learned = None
    if server.knows(VICTIM, 1):
        secrets = {one: combine(server.shares[one, 0]) for one in gone if server.knows(one, 0)}
        learned = read(server, secrets)
    found = np.array_equal(learned, server.play.vectors[VICTIM])
    if checked:
        assert not found
        assert not server.knows(VICTIM, 1) or len(server.stays(VICTIM)) >= t
        assert not set(gone) & server.answered
    else:
        assert found is hides
        assert set(gone) < server.answered


def read(server, secrets):
    """Take from the victim's masked input every mask that can be rebuilt."""
    play, masked = server.play, server.masked[VICTIM].vector
    self_seed = combine(server.shares[VICTIM, 1])
    # Each pair's mask from the other end: the difference that a removal of it makes, summed.
    total = unmask(play.server, VICTIM, masked, self_seed, bytes(16), peers=[])
    for one, mask_seed in secrets.items():
        zero = np.zeros_like(masked)
        own = unmask(play.server, one, zero, bytes(16), mask_seed, peers=[])
        both = unmask(play.server, one, zero, bytes(16), mask_seed, peers=[VICTIM])
        total = total - (both - own)  # the pair's masks cancel: what one adds the other takes
    return total & total.dtype.type(2**play.params.modulus_bits - 1)


def random_lies(rng, server_neighbours, colluders, slack):
    """Return stories: of a few clients that leave for some of their neighbours, and not for all."""
    clients = range(len(server_neighbours))
    lies = Lies(colluders=set(colluders))
    for one in rng.choice(len(clients), rng.integers(1, 5), replace=False):
        around = server_neighbours[one]
        for other in rng.choice(around, rng.integers(1, len(around)), replace=False):
            told = lies.hidden if rng.random() < 0.3 else lies.gone
            mine = told.setdefault(int(other), set())
            if len(mine) < slack or rng.random() < 0.1:
                mine.add(int(one))
    if rng.random() < 0.5:
        lies.hidden[VICTIM] = set(rng.choice(server_neighbours[VICTIM], slack, replace=False))
    lies.withheld = {one for one in clients if rng.random() < rng.choice([0, 0.2])}
    return lies


@pytest.mark.parametrize("corrupt", [0, 1, 2])
def test_whatever_it_tells_an_unmasked_input_keeps_enough_masks(corrupt):
    """At random, with colluders: who gives what for which story, and what is left of the masks.

    An input whose self mask is known keeps the masks of t - c honest neighbours, so that it is
    learned in a sum with them only; and of no client are both secrets known.
    """
    params = drawn(14, 1, neighbours=8, threshold=5 + (corrupt > 0))
    assert 2 * params.threshold > params.neighbours + corrupt
    known, lost = 0, 0
    for trial in range(12):
        rng = np.random.default_rng([trial, corrupt])
        server = LyingServer(params, Lies(), seed=trial)
        colluders = {int(one) for one in range(14) if one != VICTIM}
        colluders = set(rng.choice(sorted(colluders), corrupt, replace=False).tolist())
        slack = params.neighbours - params.threshold
        server.lies = random_lies(rng, server.neighbours, colluders, slack)
        server.run()
        for one in set(range(14)) - colluders:
            assert not (server.knows(one, 0) and server.knows(one, 1))
            if server.knows(one, 1):
                known += 1
                assert len(server.stays(one)) >= params.threshold - corrupt
            else:
                lost += 1
    assert known > 20
    assert lost > 20


def test_a_client_called_silent_is_given_up_by_whom_it_has_no_mask_with():
    """Its signature over survivors is withheld; those whose ciphertexts it was not shown say no."""
    server = LyingServer(drawn(12, neighbours=6), Lies(withheld={VICTIM}))
    near = server.neighbours[VICTIM]
    server.lies.hidden[VICTIM] = set(near[:2])
    server.run()
    assert server.answered == set(range(12))
    assert not set(near[:2]) & set(server.shares[VICTIM, 1])
    assert set(near[2:]) == set(server.shares[VICTIM, 1])


def test_a_set_without_views_is_none():
    """It does not decode for the ring; nor is it taken as an object. Nobody is silent here."""
    play = Play(drawn(8)).until(Phase.UNMASKING)
    for missing in ("views", "silent"):
        client = play.load(0, play.clients[0].dump_state())
        with pytest.raises(PeerError):
            client.unmasking(replace(due(play, 0), **{missing: None}))
        assert client.state is play.clients[0].state, "as by bytes that are no message"


def test_signatures_of_another_round_or_session_are_none():
    params = drawn(8)
    for options in ({"round_number": 1}, {"session": b"another session."}):
        play = Play(params).until(Phase.UNMASKING)
        foreign = due(Play(params, **options).until(Phase.UNMASKING), 0)
        with pytest.raises(PeerError, match="not over the view that is shown"):
            play.clients[0].unmasking(replace(foreign, tag=play.server._tag))
        assert is_empty_handed(play.clients[0])


def test_clients_sign_exactly_their_views():
    """Both statements, written out: purpose, round, keys, model, who signs, a bit per neighbour."""
    params = drawn(8, neighbours=4, threshold=3)
    play = Play(params, leaves={2: Phase.SHARE_KEYS}, model=b"m" * 32).until(Phase.UNMASKING)
    bound = (play.server._context, play.server._roster, b"m" * 32)
    for one in play.present():
        members = play.server._topology.row(one)
        for purpose, phase in (
            (b"sharers", Phase.MASKED_INPUT),
            (b"survivors", Phase.CONSISTENCY_CHECK),
        ):
            bits = sum(1 << at for at, other in enumerate(members) if other != 2)
            statement = derivations.view_statement(purpose, *bound, one, bytes([bits]))
            reply = messages.decode(play.up[phase, one], params, peer=one)
            assert play.roster.verify(one, statement, reply.signature)
    views = {
        derivations.view_statement(*parts)
        for parts in (
            (b"survivors", *bound, 1, b"\7"),
            (b"sharers", *bound, 1, b"\7"),
            (b"survivors", bytes(32), *bound[1:], 1, b"\7"),
            (b"survivors", bound[0], bytes(32), bound[2], 1, b"\7"),
            (b"survivors", *bound[:2], b"", 1, b"\7"),
            (b"survivors", *bound, 2, b"\7"),
            (b"survivors", *bound, 1, b"\6"),
            (b"survivors", *bound, 1, b"\7\0"),
        )
    }
    assert len(views) == 8


# Honest rounds.


def test_a_lost_signature_neither_ends_the_round_nor_loses_the_client():
    """It is in the sum: its neighbours have masks with it, as it signed with its input."""
    play = Play(drawn(10, neighbours=6)).until(Phase.CONSISTENCY_CHECK)
    for index in range(10):
        data = play.answer(index, play.ask(index))
        if index != VICTIM:
            play.hand_in(index, data)
    play.server.close()
    assert VICTIM in play.server.alive()
    assert due(play, play.server._topology.row(VICTIM)[0]).silent.sum() == 1
    np.testing.assert_array_equal(play.finish().total, play.vectors.sum(axis=0))
    assert play.server.survivors()["unmasking"] == tuple(range(10))
    assert play.server.blame == ()


@pytest.mark.parametrize("gone", [(3,), (3, 4), (0, 9)])
def test_who_leaves_after_its_input_is_in_the_sum_and_blamed_for_nothing(gone):
    leaves = dict.fromkeys(gone, Phase.CONSISTENCY_CHECK)
    play = Play(drawn(10, neighbours=6), leaves=leaves)
    np.testing.assert_array_equal(play.finish().total, play.vectors.sum(axis=0))
    assert play.server.blame == ()
    stayed = tuple(sorted(set(range(10)) - set(gone)))
    assert play.server.survivors()["consistency-check"] == stayed


def test_too_few_signatures_around_one_end_the_round_before_any_share():
    play = Play(drawn(10, neighbours=6), leaves={}).until(Phase.CONSISTENCY_CHECK)
    near = list(map(int, play.server._topology.row(VICTIM)))
    play.leaves = dict.fromkeys(near[:3], Phase.CONSISTENCY_CHECK)
    with pytest.raises(Abort, match="round consistency-check: too few neighbours of client"):
        play.finish()
    assert all(phase is not Phase.UNMASKING for phase, _ in play.down)
