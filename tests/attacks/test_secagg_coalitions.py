"""What coalitions learn, against brute force by another route: sets and a breadth-first walk."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from rounds import THREATS, audited, honest, params_of, play

from privagg.attacks import secagg_coalitions
from privagg.attacks.secagg_coalitions import Search
from privagg.attacks.secagg_exposure import (
    DANGLING,
    KNOWN,
    SHARED,
    Knowledge,
    evaluate,
    evaluate_plain,
)
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.states import Phase


def neighbours_in(transcript, params):
    """Read the graph, and who sent an input, out of a transcript."""
    graph, inputs = {}, set()
    for entry in transcript:
        if entry.kind == "KeyRoster":
            roster = messages.KeyRoster.decode(entry.payload, params, peer="server")
            graph[entry.receiver] = set(map(int, roster.members)) - {entry.receiver}
        elif entry.kind == "MaskedInput":
            inputs.add(entry.sender)
    return graph, inputs


def learned(graph, inputs, threshold, coalition):
    """Return the sizes of the sums that a coalition learns in an honest, completed round."""
    honest_inputs = inputs - coalition
    open_ones = {v for v in honest_inputs if len(graph[v] & coalition) >= threshold}
    sizes, seen = [1] * len(open_ones), set(open_ones)
    for start in sorted(honest_inputs - open_ones):
        if start in seen:
            continue
        reached, queue = {start}, deque([start])
        while queue:
            for other in graph[queue.popleft()] & (honest_inputs - open_ones - reached):
                reached.add(other)
                queue.append(other)
        seen |= reached
        sizes.append(len(reached))
    return sizes


@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize("leaves", [(), ((1, Phase.MASKED_INPUT.value),)])
def test_every_size_agrees_with_brute_force(threat, leaves):
    params, transcript = params_of(threat), honest(threat, leaves)
    graph, inputs = neighbours_in(transcript, params)
    found = audited(transcript, params)
    assert [size.size for size in found.sizes] == list(range(params.clients))
    cheapest = None
    for size in found.sizes[:6]:
        combinations = itertools.combinations(range(params.clients), size.size)
        sums = [learned(graph, inputs, params.threshold, set(c)) for c in combinations]
        exposed = [sizes.count(1) for sizes in sums]
        assert size.total == len(sums)
        assert size.exposed == max(exposed)
        assert size.smallest == min(min(sizes, default=99) for sizes in sums)
        if size.method == "exhaustive":
            assert size.tried == len(sums)
            assert size.fraction == pytest.approx(np.mean(np.array(exposed) > 0))
        if size.exposed:
            mine = learned(graph, inputs, params.threshold, set(size.coalition))
            assert mine.count(1) == size.exposed
            cheapest = size.size if cheapest is None else cheapest
    assert found.smallest.exact
    assert len(found.smallest.coalition) == cheapest
    assert 1 in learned(graph, inputs, params.threshold, set(found.smallest.coalition))


def drawn_knowledge(rng, n):
    """Return random shares and masks: any state, as no honest round would leave it."""
    share_pairs = [(v, h) for v in range(n) for h in range(n) if rng.random() < 0.5]
    mask_pairs = [(u, w) for u in range(n) for w in range(n) if u != w and rng.random() < 0.4]
    inputs = rng.random(n) < 0.8
    states = {}
    for u, w in mask_pairs:
        mutual = (w, u) in set(mask_pairs) and inputs[u] and inputs[w]
        known = rng.random() < 0.2
        states[u, w] = KNOWN if known else (SHARED if mutual else DANGLING)
    for u, w in mask_pairs:  # a mask is shared by both or by none
        if states[u, w] == SHARED and states[w, u] != SHARED:
            states[u, w] = DANGLING

    def rows(pairs):
        array = np.array(sorted(pairs), np.int32).reshape(-1, 2)
        start = np.searchsorted(array[:, 0], np.arange(n + 1)).astype(np.int32)
        return start, np.ascontiguousarray(array[:, 1])

    share_start, holder = rows(share_pairs)
    mask_start, peer = rows(mask_pairs)
    return Knowledge(
        threshold=int(rng.integers(2, 5)),
        inputs=inputs,
        share_start=share_start,
        holder=holder,
        gives_self=rng.random(len(holder)) < 0.6,
        gives_mask=rng.random(len(holder)) < 0.8,
        self_known=rng.integers(0, 5, n).astype(np.int32),
        mask_known=rng.integers(0, 3, n).astype(np.int32),
        mask_start=mask_start,
        peer=peer,
        state=np.array([states[pair] for pair in sorted(states)], np.uint8),
    )


@pytest.mark.parametrize("seed", range(30))
def test_the_kernel_agrees_with_whole_matrices(seed):
    rng = np.random.default_rng(seed)
    knowledge = drawn_knowledge(rng, int(rng.integers(2, 12)))
    coalitions = rng.random((40, knowledge.clients)) < rng.random((40, 1)) * 0.7
    fast, slow = evaluate(knowledge, coalitions), evaluate_plain(knowledge, coalitions)
    for name in ("exposed", "smallest", "victim"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name), name)


@pytest.mark.parametrize("seed", range(30))
def test_the_smallest_coalition_is_the_smallest(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))
    knowledge = drawn_knowledge(rng, n)
    if seed % 2:  # as after a completed round
        knowledge = replace(
            knowledge,
            self_known=np.full(n, knowledge.threshold, np.int32),
            state=np.where(knowledge.state == DANGLING, KNOWN, knowledge.state).astype(np.uint8),
        )
    search = Search(knowledge, tuple(range(n)))
    found = search.smallest()
    brute = None
    for size in range(n):
        rows = np.zeros((0, n), np.bool_)
        for members in itertools.combinations(range(n), size):
            row = np.zeros((1, n), np.bool_)
            row[0, list(members)] = True
            rows = np.concatenate([rows, row])
        if (evaluate_plain(knowledge, rows).exposed > 0).any():
            brute = size
            break
    if found is not None:
        row = np.zeros((1, n), np.bool_)
        row[0, list(found.coalition)] = True
        assert evaluate_plain(knowledge, row).exposed[0] > 0
        assert len(found.coalition) >= brute
        if found.exact:
            assert len(found.coalition) == brute
    if seed % 2:
        assert (found is None) == (brute is None)
        assert found is None or found.exact


def test_too_many_coalitions_are_sampled_and_said_to_be(monkeypatch):
    params, transcript = params_of("semi-malicious"), honest("semi-malicious")
    everything = audited(transcript, params)
    monkeypatch.setattr(secagg_coalitions, "EXHAUSTIVE", 5)
    sampled = audited(transcript, params)
    assert sampled.smallest == everything.smallest
    for exact, guess in zip(everything.sizes, sampled.sizes, strict=True):
        if exact.total <= 5:
            assert guess == exact
            continue
        assert guess.method == "greedy and sampled"
        assert 0 < guess.exposed <= exact.exposed or exact.exposed == guess.exposed == 0
        assert guess.smallest >= exact.smallest
        assert guess.fraction == pytest.approx(exact.fraction, abs=0.1)
    again = audited(transcript, params)
    assert again.sizes == sampled.sizes
    assert audited(transcript, params, seed=1).sizes != sampled.sizes


@pytest.mark.parametrize("threat", ["semi-honest", "active"])
@pytest.mark.parametrize("leaves", [(), ((1, Phase.MASKED_INPUT.value),)])
def test_symmetry_agrees_with_trying_all(threat, leaves, monkeypatch):
    params, transcript = params_of(threat), honest(threat, leaves)
    short = audited(transcript, params)
    monkeypatch.setattr(Search, "_all_alike", lambda self: False)
    full = audited(transcript, params)
    for one, other in zip(short.sizes, full.sizes, strict=True):
        assert (one.method, other.method) == ("symmetry", "exhaustive")
        assert (one.exposed, one.smallest) == (other.exposed, other.smallest)


@pytest.fixture(scope="module")
def wide():
    """Parameters of a sparse graph in which more may be corrupt than rebuild a secret."""
    params = params_of(
        "sparse", clients=40, corrupt=0.2, neighbours=None, threshold=None, min_cohort=10
    )
    return params, play(params)


def test_a_sparse_graph_falls_to_those_who_know_it(wide):
    params, transcript = wide
    found = audited(transcript, params)
    assert len(found.smallest.coalition) <= params.threshold <= params.corrupt
    assert found.exposed > 0
    # Whoever does not know the graph is unlikely to hit on such a coalition.
    assert 0 < found.chance <= 2.0**-params.sigma
    assert not found.leak
    assert audited(transcript, params, adaptive=True).leak


def test_a_leak_is_more_than_what_is_allowed(wide):
    params, transcript = wide
    exposed = audited(transcript, params).exposed
    assert audited(transcript, params, adaptive=True, max_exposed=exposed - 1).leak
    assert not audited(transcript, params, adaptive=True, max_exposed=exposed).leak
