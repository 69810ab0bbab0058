"""Whoever leaves, and whenever: the sum of the survivors or Abort, and Abort exactly when due.

The oracle below is written from the protocol's definition and shares no code with the server. A
secret can be rebuilt if at least t of the clients that hold its shares answer at the end; the sum
needs the self mask of every client in it, and the mask key of every client that shared its keys,
sent no input, and has a neighbour in the sum.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parties import complete, inputs, sparse

from privagg import entropy
from privagg.errors import Abort
from privagg.protocols import secagg

ROUNDS = ("advertise-keys", "share-keys", "masked-input", "consistency-check", "unmasking")
STAYS = 5
SEED = 3


def graph_of(params):
    """Return everyone's neighbours, as the server of a run with `SEED` draws them."""
    if params.graph is secagg.Graph.COMPLETE:
        everyone = set(range(params.clients))
        return [everyone - {client} for client in everyone]
    server = secagg.Server(params, entropy=entropy.from_seed(SEED).spawn("server"))
    return [set(map(int, server._topology.row(client))) for client in range(params.clients)]


def oracle(params, neighbours, leaves):
    """Return (who must be in the sum, None) or (None, the round in which it must stop)."""
    alive = [{c for c, round in enumerate(leaves) if round > number} for number in range(5)]
    shared, summed = alive[1], alive[2]
    own_share_counts = params.graph is secagg.Graph.COMPLETE

    def rebuildable(client, answering):
        holders = neighbours[client] | ({client} if own_share_counts else set())
        return len(holders & answering) >= params.threshold

    for number in (0, 1, 2, 4):
        here = alive[number]
        if len(here) < params.threshold or (number < 3 and len(here) < params.min_cohort):
            return None, ROUNDS[number]
        if number < 2:
            needed = here  # each of them will put its secrets into the hands of those alive
        else:
            left = {client for client in shared - summed if neighbours[client] & summed}
            needed = summed | left
        if not all(rebuildable(client, here) for client in needed):
            return None, ROUNDS[number]
    return summed, None


def check(params, neighbours, leaves, vectors, weights=None):
    """Run one schedule and hold it against the oracle; return whether it ended with a sum."""
    dropouts = {c: ROUNDS[round] for c, round in enumerate(leaves) if round < STAYS}
    survivors, stops = oracle(params, neighbours, leaves)
    options = {"weights": weights, "dropouts": dropouts, "seed": SEED}
    if survivors is None:
        with pytest.raises(Abort) as caught:
            secagg.run(params, vectors, **options)
        assert f"round {stops}" in str(caught.value)
        assert caught.value.alive < caught.value.needed
        return False
    result = secagg.run(params, vectors, **options)
    rows = sorted(survivors)
    factors = np.ones(len(vectors), int) if weights is None else np.asarray(weights)
    plain = (np.asarray(vectors)[rows] * factors[rows, np.newaxis]).sum(axis=0)
    assert result.exact
    assert result.survivors["masked-input"] == tuple(rows)
    assert result.count == len(rows)
    assert result.weight_total == factors[rows].sum()
    if params.encoding.clip is None:
        np.testing.assert_array_equal(result.sum, plain)
    else:
        bound = params.encoding.rounding_bound(len(rows))
        np.testing.assert_allclose(result.sum, plain, rtol=1e-12, atol=bound)
        assert result.error_bound == bound
    np.testing.assert_allclose(result.mean, result.sum / result.weight_total, rtol=1e-12)
    return True


def weights_for(params, seed=5):
    if not params.encoding.weighted:
        return None
    top = params.encoding.max_weight
    return np.random.default_rng(seed).integers(1, top + 1, params.clients).tolist()


KINDS = {
    "integer": {},
    "signed": {"signed": True, "value_bits": 9},
    "float": {"clip": 2.5, "value_bits": 12},
    "weighted": {"weighted": True, "max_weight": 37, "value_bits": 7},
    "weighted float": {"weighted": True, "max_weight": 9, "clip": 1.0, "value_bits": 10},
    "chacha20": {"prg": "chacha20"},
}

EXHAUSTIVE = {
    "two": complete(2, 2),
    "three": complete(3, 2),
    "three, all needed for a secret": complete(3, 2, threshold=3),
    "three, all needed in the sum": complete(3, 2, min_cohort=3),
    "three, weighted": complete(3, 2, **KINDS["weighted"]),
    "three, floats": complete(3, 2, **KINDS["float"]),
    "four": complete(4, 2),
    "ring of four": sparse(4, 2),
}


@pytest.mark.parametrize("params", EXHAUSTIVE.values(), ids=EXHAUSTIVE)
def test_every_schedule_of_few_clients(params):
    """All 5**n: each client leaves before one of the four rounds with messages, or stays."""
    neighbours, vectors, weights = graph_of(params), inputs(params), weights_for(params)
    outcomes = [
        check(params, neighbours, leaves, vectors, weights)
        for leaves in itertools.product((0, 1, 2, 4, STAYS), repeat=params.clients)
    ]
    assert True in outcomes
    assert False in outcomes


@pytest.mark.parametrize("make", [complete, sparse])
def test_leaving_at_the_consistency_check_is_leaving_before_unmasking(make):
    """It has no message in a semi-honest round."""
    params = make(4, 2)
    neighbours, vectors = graph_of(params), inputs(params)
    for leaves in itertools.product((3, STAYS), repeat=4):
        check(params, neighbours, leaves, vectors)


def test_the_oracle_knows_the_cases_worked_out_by_hand():
    """The test of the test: a ring 0-1-2-3-4-5-0 with two neighbours each and t = 2."""
    params = sparse(6, 2, neighbours=2, threshold=2)
    ring = [{(c - 1) % 6, (c + 1) % 6} for c in range(6)]
    assert oracle(params, ring, [5] * 6) == (set(range(6)), None)
    # A neighbour that never came leaves one holder.
    assert oracle(params, ring, [0, 5, 5, 5, 5, 5]) == (None, "advertise-keys")
    # It shared and left: its neighbours in the sum now lack a holder of their own secrets.
    assert oracle(params, ring, [2, 5, 5, 5, 5, 5]) == (None, "masked-input")
    assert oracle(params, ring, [5, 5, 4, 5, 5, 5]) == (None, "unmasking")
    four = complete(4, 2, threshold=2, min_cohort=3)
    clique = graph_of(four)
    assert oracle(four, clique, [2, 5, 5, 5]) == ({1, 2, 3}, None)
    assert oracle(four, clique, [2, 4, 5, 5]) == ({1, 2, 3}, None)
    assert oracle(four, clique, [2, 2, 5, 5]) == (None, "masked-input")
    assert oracle(four, clique, [5, 4, 4, 4]) == (None, "unmasking")


def test_who_left_needs_holders_as_well_and_no_share_is_asked_for_without():
    """Everyone in the sum could be unmasked; one that left and has a neighbour there could not."""
    params = sparse(12, 2, neighbours=4, threshold=2)
    neighbours, everyone, found = graph_of(params), set(range(12)), []
    for gone in itertools.combinations(range(12), 4):
        summed = everyone - set(gone)
        fine = all(len(neighbours[client] & summed) >= 2 for client in summed)
        if fine and any(len(neighbours[client] & summed) == 1 for client in gone):
            found.append([2 if client in gone else STAYS for client in range(12)])
    assert len(found) > 10
    for leaves in found[::5]:
        assert oracle(params, neighbours, leaves) == (None, "masked-input")
        check(params, neighbours, leaves, inputs(params))


@st.composite
def rounds_of(draw, sizes, graph):
    """Return parameters and a schedule that leaves some chance of success."""
    clients = draw(sizes)
    options = dict(KINDS[draw(st.sampled_from(sorted(KINDS)))])
    if graph == "complete":
        options["threshold"] = draw(st.integers(2, max(2, clients // 2)))
        options["min_cohort"] = draw(st.integers(2, max(2, clients // 2)))
        params = complete(clients, 3, **options)
    else:
        k = 2 * draw(st.integers(1, min(6, (clients - 2) // 2)))
        options["threshold"] = draw(st.integers(2, max(2, k // 2)))
        params = sparse(clients, 3, neighbours=k, **options)
    stay = draw(st.sampled_from([0.5, 0.8, 0.97]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    leaves = np.where(rng.random(clients) < stay, STAYS, rng.integers(0, 5, clients))
    return params, leaves.tolist()


def run_sampled(case):
    params, leaves = case
    check(params, graph_of(params), leaves, inputs(params), weights_for(params))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(rounds_of(st.integers(2, 16), "complete"))
def test_sampled_schedules_of_the_complete_graph(case):
    run_sampled(case)


@settings(max_examples=2, deadline=None, derandomize=True)
@given(rounds_of(st.integers(40, 60), "complete"))
def test_sampled_schedules_of_a_large_complete_graph(case):
    run_sampled(case)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(rounds_of(st.integers(4, 24), "sparse"))
def test_sampled_schedules_of_the_sparse_graph(case):
    run_sampled(case)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(rounds_of(st.integers(40, 60), "sparse"))
def test_sampled_schedules_of_a_large_sparse_graph(case):
    run_sampled(case)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("clients", [20, 60])
def test_recommended_parameters_survive_the_dropouts_they_promise(clients, options):
    """At any one round; `corrupt` and thresholds as the planner chooses them."""
    graph = "complete" if clients == 20 else "sparse"
    params = secagg.Params.recommend(
        clients=clients, dim=3, corrupt=0.05, dropout=0.1, graph=graph, sigma=4, eta=20, **options
    )
    gone = np.random.default_rng(2).choice(clients, clients // 10, replace=False)
    for number in (2, 4) if clients == 20 else (2,):
        leaves = [STAYS] * clients
        for client in gone:
            leaves[client] = number
        assert check(params, graph_of(params), leaves, inputs(params), weights_for(params))
