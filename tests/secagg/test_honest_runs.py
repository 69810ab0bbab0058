"""Honest parties over a bad network: nobody is blamed, and no round stops that could go on.

Messages are lost and asked for again, answered out of turn, repeated rounds later, and some come
too late; clients leave, and clients go on in another process. Everyone follows the protocol.
"""

from __future__ import annotations

import numpy as np
import pytest
from oracle import ROUNDS, STAYS, graph_of, moments, oracle
from parties import ALL, Play, inputs

from privagg.errors import Abort, PeerError
from privagg.protocols import secagg
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.states import ClientState, Phase

RUNS = 60
"""Of each threat model and graph, in an ordinary test run."""

OPTIONS = (
    {},
    {"signed": True, "value_bits": 9},
    {"clip": 2.0, "value_bits": 12},
    {"weighted": True, "max_weight": 5, "value_bits": 7},
    {"prg": "chacha20"},
)


class Network:
    """Carries one round; whoever leaves is gone, or only too slow for the round it leaves in."""

    def __init__(self, kind, number):
        self.rng = rng = np.random.default_rng([number, list(ALL).index(kind)])
        ring = kind in ("sparse", "semi-malicious")
        clients = int(rng.integers(5, 13) if ring else rng.integers(3, 9))
        options = dict(OPTIONS[rng.integers(len(OPTIONS))])
        if ring and clients > 8:
            options["neighbours"] = int(rng.choice([4, 6]))
        self.params = params = ALL[kind](clients, 3, **options)
        self.leaves = np.full(clients, STAYS)
        away = rng.random(clients) < rng.choice([0.0, 0.1, 0.3])
        self.leaves[away] = rng.choice(moments(params)[:-1], int(away.sum()))
        slow = rng.random(clients) < 0.5
        self.slow = {int(c) for c in np.flatnonzero(away & slow)}
        weights = rng.integers(1, 6, clients).tolist() if params.encoding.weighted else None
        self.play = Play(
            params,
            vectors=inputs(params, number),
            weights=weights,
            leaves={c: Phase(int(at)) for c, at in enumerate(self.leaves) if at < STAYS},
            seed=number,
            model=b"m" * 32 if rng.random() < 0.5 else b"",
        )
        self.loss = rng.choice([0.0, 0.2, 0.5])
        self.heard, self.said, self.late = [], [], []

    def chance(self, of):
        return self.rng.random() < of

    def collect(self):
        """Ask until everyone that is there has been heard, in any order."""
        play = self.play
        waiting = list(play.present())
        slow = [c for c in self.slow if self.leaves[c] == play.phase.value]
        for index in set(slow) & set(map(int, play.server.alive())):
            self.late.append((index, play.answer(index, play.ask(index))))
        while waiting:
            index = waiting.pop(int(self.rng.integers(len(waiting))))
            self.disturb()
            down = play.ask(index)
            self.heard.append((index, down))
            if self.chance(self.loss):
                waiting.append(index)
                continue
            up = play.answer(index, down)
            if self.chance(0.1):
                play.clients[index] = play.load(index, play.clients[index].dump_state())
            self.said.append((index, up))
            if self.chance(self.loss):
                waiting.append(index)
                continue
            receipt = play.hand_in(index, up)
            assert receipt in (
                secagg.Receipt.ACCEPTED,
                secagg.Receipt.REPEATED,  # the answer given up as lost has come since
            )
            if self.chance(0.3):
                play.clients[index].delivered()

    def disturb(self):
        """Bring something old to the server, and to a client: nothing comes of it."""
        play = self.play
        while self.late and self.chance(0.5):
            index, data = self.late[-1]
            if messages.decode(data, self.params, peer=index).round == play.phase.title:
                break  # still in time, were it handed in now: it is not yet late
            self.late.pop()
            assert play.hand_in(index, data) is secagg.Receipt.LATE
        if self.said and self.chance(0.2):
            index, data = self.said[self.rng.integers(len(self.said))]
            receipt = play.hand_in(index, data)
            assert receipt in secagg.Receipt  # accepted, if it had been given up as lost
        if self.heard and self.chance(0.1):
            index, data = self.heard[self.rng.integers(len(self.heard))]
            client = play.clients[index]
            before = client.dump_state()
            try:
                play.answer(index, data)
            except PeerError:  # out of order: said so, and forgotten
                assert client.dump_state() == before

    def run(self):
        play = self.play
        while play.phase is not Phase.DONE:
            self.collect()
            play.server.close()
        return play.server.result()


def honest(kind, number):
    """Run one round and hold it against the oracle; return whether it ended with a sum."""
    network = Network(kind, number)
    play, stopped, found = network.play, None, None
    try:
        found = network.run()
    except Abort as abort:
        stopped = abort
    drawn_at_all = play.server._topology is not None
    neighbours = graph_of(network.params, play.server) if drawn_at_all else None
    survivors, where = oracle(network.params, neighbours, network.leaves.tolist())
    assert play.server.blame == ()
    assert all(client.state is not ClientState.ABORTED for client in play.clients)
    if stopped is not None:
        assert where in ROUNDS
        assert f"round {where}" in str(stopped)
        assert stopped.alive < stopped.needed
        return False
    assert survivors is not None
    rows = sorted(survivors)
    factors = np.ones(len(play.vectors), int) if play.weights is None else np.array(play.weights)
    expected = (play.vectors[rows] * factors[rows, np.newaxis]).sum(axis=0)
    bound = network.params.encoding.rounding_bound(len(rows))
    np.testing.assert_allclose(found.total, expected, rtol=1e-12, atol=bound)
    assert found.count == len(rows)
    return True


@pytest.mark.parametrize("kind", ALL)
def test_random_honest_runs_blame_nobody(kind):
    outcomes = [honest(kind, number) for number in range(RUNS)]
    assert sum(outcomes) > RUNS / 2


@pytest.mark.sweep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ALL)
def test_ten_thousand_honest_runs_blame_nobody(kind):
    outcomes = [honest(kind, number) for number in range(1000, 3500)]
    assert sum(outcomes) > 1250
