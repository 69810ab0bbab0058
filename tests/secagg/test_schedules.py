"""Whoever leaves, and whenever: the sum of the survivors or Abort, and Abort exactly when due."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import (
    ADVERTISE,
    CHECK,
    COMMIT,
    MASK,
    REVEAL,
    ROUNDS,
    SEED,
    SKIPPED,
    STAYS,
    UNMASK,
    graph_of,
    moments,
    oracle,
)
from parties import active, complete, drawn, inputs, sparse

from privagg.errors import Abort
from privagg.protocols import secagg
from privagg.protocols.secagg import rounds


def run(params, vectors, leaves, weights=None):
    """Run one schedule; return the result or the error, and everyone's neighbours in it."""
    servers = []

    class Kept(secagg.Server):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            servers.append(self)

    dropouts = {c: ROUNDS[at] for c, at in enumerate(leaves) if at < STAYS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "Server", Kept)
        try:
            found = secagg.run(params, vectors, weights=weights, dropouts=dropouts, seed=SEED)
        except Abort as abort:
            found = abort
    drawn_at_all = servers[0]._topology is not None
    return found, graph_of(params, servers[0]) if drawn_at_all else None


def check(params, leaves, vectors, weights=None):
    """Run one schedule and hold it against the oracle; return whether it ended with a sum."""
    result, neighbours = run(params, vectors, leaves, weights)
    survivors, stops = oracle(params, neighbours, leaves)
    if survivors is None:
        assert isinstance(result, Abort)
        assert f"round {stops}" in str(result)
        assert result.alive < result.needed
        return False
    assert isinstance(result, secagg.Result), result
    rows = sorted(survivors)
    factors = np.ones(len(vectors), int) if weights is None else np.asarray(weights)
    plain = (np.asarray(vectors)[rows] * factors[rows, np.newaxis]).sum(axis=0)
    assert result.exact
    assert result.blame == ()
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
    "three, active": active(3, 2),
    "four": complete(4, 2),
    "ring of four": sparse(4, 2),
}


@pytest.mark.parametrize("params", EXHAUSTIVE.values(), ids=EXHAUSTIVE)
def test_every_schedule_of_few_clients(params):
    """Each client leaves before one of the rounds with messages, or stays."""
    vectors, weights = inputs(params), weights_for(params)
    schedules = list(itertools.product(moments(params), repeat=params.clients))
    if params.clients > 3 and params.graph is secagg.Graph.COMPLETE:
        # Clients differ by their index alone: each choice of moments is dealt out once, at random.
        deal, every = np.random.default_rng(6), moments(params)
        chosen = itertools.combinations_with_replacement(every, params.clients)
        schedules = [tuple(deal.permutation(one).tolist()) for one in chosen]
    outcomes = [check(params, leaves, vectors, weights) for leaves in schedules]
    assert True in outcomes
    assert False in outcomes


@pytest.mark.parametrize(
    "params",
    [active(4, 2), active(5, 2, weighted=True, max_weight=3), drawn(4, 2), drawn(6, 2, clip=1.0)],
    ids=["active, four", "active, five, weighted", "ring of four, drawn", "six, drawn, floats"],
)
def test_schedules_of_the_stronger_models(params):
    """A sample of all, with most clients staying so that many rounds end with a sum."""
    vectors, weights, rng = inputs(params), weights_for(params), np.random.default_rng(8)
    outcomes = []
    for stay in (0.5, 0.7, 0.9):
        for _ in range(15):
            leaves = rng.choice(moments(params), params.clients)
            leaves[rng.random(params.clients) < stay] = STAYS
            outcomes.append(check(params, leaves.tolist(), vectors, weights))
    assert True in outcomes
    assert False in outcomes


@pytest.mark.parametrize("make", [complete, sparse, active, drawn])
def test_leaving_where_there_is_no_message_is_leaving_before_the_next(make):
    params = make(4, 2)
    vectors = inputs(params)
    for at in SKIPPED[params.threat.value]:
        for leaves in itertools.product((at, STAYS), repeat=4):
            check(params, leaves, vectors)


def test_the_oracle_knows_the_cases_worked_out_by_hand():
    """The test of the test: a ring 0-1-2-3-4-5-0 with two neighbours each and t = 2."""
    params = sparse(6, 2, neighbours=2, threshold=2)
    ring = [{(c - 1) % 6, (c + 1) % 6} for c in range(6)]
    assert oracle(params, ring, [STAYS] * 6) == (set(range(6)), None)
    # A neighbour that never came leaves one holder.
    assert oracle(params, ring, [ADVERTISE] + [STAYS] * 5) == (None, "advertise-keys")
    # It shared and left: its neighbours in the sum now lack a holder of their own secrets.
    assert oracle(params, ring, [MASK] + [STAYS] * 5) == (None, "masked-input")
    assert oracle(params, ring, [STAYS, STAYS, UNMASK] + [STAYS] * 3) == (None, "unmasking")
    four = complete(4, 2, threshold=2, min_cohort=3)
    clique = graph_of(four)
    assert oracle(four, clique, [MASK, STAYS, STAYS, STAYS]) == ({1, 2, 3}, None)
    assert oracle(four, clique, [MASK, UNMASK, STAYS, STAYS]) == ({1, 2, 3}, None)
    assert oracle(four, clique, [MASK, MASK, STAYS, STAYS]) == (None, "masked-input")
    assert oracle(four, clique, [STAYS, UNMASK, UNMASK, UNMASK]) == (None, "unmasking")
    signed = active(4, 2, min_cohort=2)  # three of four must answer
    assert oracle(signed, clique, [CHECK, STAYS, STAYS, STAYS]) == ({0, 1, 2, 3}, None)
    assert oracle(signed, clique, [CHECK, CHECK, STAYS, STAYS]) == (None, "consistency-check")
    assert oracle(signed, clique, [CHECK, UNMASK, STAYS, STAYS]) == (None, "unmasking")
    ours = drawn(6, 2, neighbours=2, threshold=2)
    assert oracle(ours, None, [COMMIT] * 5 + [STAYS]) == (None, "commit-graph")
    assert oracle(ours, ring, [REVEAL] + [STAYS] * 5) == (None, "reveal-graph")


def test_who_left_needs_holders_as_well_and_no_share_is_asked_for_without():
    """Everyone in the sum could be unmasked; one that left and has a neighbour there could not."""
    params = sparse(12, 2, neighbours=4, threshold=2)
    neighbours, everyone, found = graph_of(params), set(range(12)), []
    for gone in itertools.combinations(range(12), 4):
        summed = everyone - set(gone)
        fine = all(len(neighbours[client] & summed) >= 2 for client in summed)
        if fine and any(len(neighbours[client] & summed) == 1 for client in gone):
            found.append([MASK if client in gone else STAYS for client in range(12)])
    assert len(found) > 10
    for leaves in found[::5]:
        assert oracle(params, neighbours, leaves) == (None, "masked-input")
        assert not check(params, leaves, inputs(params))


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
    leaves = np.where(rng.random(clients) < stay, STAYS, rng.choice(moments(params), clients))
    return params, leaves.tolist()


def run_sampled(case):
    params, leaves = case
    check(params, leaves, inputs(params), weights_for(params))


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
    promised(params, (MASK, UNMASK) if clients == 20 else (MASK,))


@pytest.mark.parametrize(
    ("clients", "threat"), [(20, "active"), (60, "semi-malicious")], ids=["active", "drawn"]
)
def test_so_do_those_of_the_stronger_models(clients, threat):
    params = secagg.Params.recommend(
        clients=clients,
        dim=3,
        corrupt=0.05,
        dropout=0.1,
        graph="complete" if threat == "active" else "sparse",
        threat=threat,
        sigma=4,
        eta=20,
    )
    promised(params, moments(params)[:-1] if threat == "active" else (REVEAL, MASK))


def promised(params, rounds):
    clients = params.clients
    gone = np.random.default_rng(2).choice(clients, clients // 10, replace=False)
    for at in rounds:
        leaves = [STAYS] * clients
        for client in gone:
            leaves[client] = at
        assert check(params, leaves, inputs(params), weights_for(params))
