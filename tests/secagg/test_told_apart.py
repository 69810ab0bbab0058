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
from privagg.protocols import secagg
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
