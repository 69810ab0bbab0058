"""The planner: its bytes are the encoded ones, its targets hold, its formula is the paper's."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from parties import ALL, FREE, Play, active, complete, drawn, inputs, phases, sparse

from privagg.errors import CapacityError, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg.calibration import Units
from privagg.protocols.secagg.planner import START_SECONDS
from privagg.protocols.secagg.states import ROUNDS, Phase


def plan(params):
    return secagg.plan(params, units=FREE)


KINDS = {
    "integers": {},
    "bits": {"value_bits": 1},
    "five bits": {"value_bits": 5},
    "wide": {"value_bits": 32},
    "floats": {"clip": 1.0, "value_bits": 12},
    "weighted": {"weighted": True, "max_weight": 1000, "value_bits": 8},
    "chacha20": {"prg": "chacha20"},
}
SIZES = [(2, 1), (3, 8), (7, 33), (12, 100)]


def measured(params):
    """Return a run in which nobody drops out."""
    encoding = params.encoding
    weights = [encoding.max_weight] * params.clients if encoding.weighted else None
    return secagg.run(params, inputs(params), weights=weights, seed=1)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("kind", ALL)
def test_planned_bytes_are_the_encoded_ones(kind, options):
    for clients, dim in SIZES:
        if kind in ("sparse", "semi-malicious") and clients < 4:
            continue
        params = ALL[kind](clients, dim, **options)
        bill, result = plan(params), measured(params)
        assert result.bytes_graph_proof == bill.bytes_graph_proof
        assert (bill.bytes_graph_proof > 0) == (kind == "semi-malicious")
        assert list(bill.bytes_up) == [phase.title for phase in phases(params)]
        for name in ROUNDS:
            if name in bill.bytes_up:
                np.testing.assert_array_equal(result.bytes_up[name], bill.bytes_up[name])
                np.testing.assert_array_equal(result.bytes_down[name], bill.bytes_down[name])
        assert set(result.bytes_up) == set(bill.bytes_up)
        assert result.bytes_up_per_client == bill.bytes_up_per_client
        assert result.bytes_down_per_client == bill.bytes_down_per_client
        assert result.expansion == pytest.approx(bill.expansion, rel=1e-12)
        assert bill.bytes_server == sum(
            int(up.sum() + down.sum())
            for up, down in zip(result.bytes_up.values(), result.bytes_down.values(), strict=True)
        )


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    "left", [Phase.SHARE_KEYS, Phase.MASKED_INPUT, Phase.UNMASKING], ids=lambda left: left.name
)
def test_with_dropouts_no_one_sends_or_receives_more_than_planned(kind, left):
    params = ALL[kind](8, 20)
    bill = plan(params)
    play = Play(params, leaves={5: left})
    play.finish()
    transcript_up = [len(data) for data in play.up.values()]
    transcript_down = [len(data) for data in play.down.values()]
    assert sum(transcript_up) <= 8 * bill.bytes_up_per_client
    assert sum(transcript_down) <= 8 * bill.bytes_down_per_client
    for (phase, _), data in play.up.items():
        assert len(data) <= bill.bytes_up[ROUNDS[phase.value]]
    for (phase, _), data in play.down.items():
        assert len(data) <= bill.bytes_down[ROUNDS[phase.value]]


@pytest.mark.parametrize(
    ("clients", "dim", "options", "limit"),
    [
        (2**10, 2**20, {}, 1.73),
        (2**14, 2**24, {}, 1.98),
        (2**10, 2**20, {"graph": "sparse", "corrupt": 0.1, "dropout": 0.1}, 1.635),
        (2**10, 2**20, {"threat": "active"}, 1.80),
        (2**14, 2**24, {"threat": "active"}, 2.05),
        (
            2**10,
            2**20,
            {"graph": "sparse", "corrupt": 0.1, "dropout": 0.1, "threat": "semi-malicious"},
            1.645,
        ),
    ],
)
def test_expansion_with_all_framing_stays_below_the_target(clients, dim, options, limit):
    """16-bit values, nobody drops out; tags, ids, commitments, signatures, headers are in it.

    The semi-malicious graph's proof is counted apart.
    """
    params = secagg.Params.recommend(clients=clients, dim=dim, value_bits=16, **options)
    assert limit - 0.06 < plan(params).expansion <= limit


def test_the_graph_s_proof_is_small_and_counted_apart():
    """Sixteen bytes per client and a Merkle path per neighbour, in each client's roster."""
    params = secagg.Params.recommend(
        clients=2**10,
        dim=2**20,
        graph="sparse",
        corrupt=0.1,
        dropout=0.1,
        threat="semi-malicious",
    )
    bill = plan(params)
    assert bill.bytes_graph_proof == 5 + 16 * 2**10 + params.neighbours * 10 * 32
    total = bill.bytes_up_per_client + bill.bytes_down_per_client
    assert bill.expansion == (total - bill.bytes_graph_proof) / params.raw_bytes
    assert total / params.raw_bytes < 1.70


def test_another_draw_of_the_graph_is_in_the_bill_of_a_run():
    """Who does not reveal makes the others draw again: twice the small messages, no more."""
    params = drawn(8, 20)
    once = secagg.run(params, inputs(params), seed=1)
    twice = secagg.run(params, inputs(params), seed=1, dropouts={3: "reveal-graph"})
    for name in ("commit-graph", "reveal-graph"):
        for bytes_once, bytes_twice in (
            (once.bytes_up[name], twice.bytes_up[name]),
            (once.bytes_down[name], twice.bytes_down[name]),
        ):
            assert bytes_twice[0] == 2 * bytes_once[0]
    assert twice.exact
    assert twice.count == 7


PAPER = [
    # clients, coordinates, neighbours (None: the complete graph), bits of the modulus, expansion
    (2**10, 2**20, None, 26, 1.7343),
    (2**14, 2**20, None, 30, 3.6249),
    (2**14, 2**24, None, 30, 1.9844),
    (100, 10**5, None, 23, 1.549),
    (1000, 10**5, None, 26, 2.744),
    (10**4, 10**5, None, 30, 13.07),
    (1000, 10**5, 98, 26, 1.734),
    (10**4, 10**5, 122, 30, 2.011),
    (2**14, 2**24, 56, 30, 1.875),
]


@pytest.mark.parametrize(("clients", "dim", "neighbours", "bits", "expected"), PAPER)
def test_the_formula_of_the_paper(clients, dim, neighbours, bits, expected):
    """Bonawitz et al., CCS 2017, section 7; with k for n in the sparse graph."""
    options = {}
    if neighbours:
        options = {"graph": "sparse", "neighbours": neighbours, "threshold": neighbours // 3}
        options |= {"sigma": 10, "eta": 5}
    params = secagg.Params.recommend(clients=clients, dim=dim, value_bits=16, **options)
    assert params.modulus_bits == bits
    shown = len(str(expected).split(".")[1])
    assert round(secagg.expansion_formula(params), shown) == expected
    # And by hand: 2n keys and 5n - 4 shares of 256 bits, m coordinates of the modulus' bits.
    n = neighbours or clients
    total = 256 * (2 * n + 5 * n - 4) + dim * bits
    assert secagg.expansion_formula(params) == pytest.approx(total / (16 * dim), rel=1e-12)


def test_framing_costs_less_than_the_paper_s_256_bit_shares_save():
    for clients in (2**10, 2**12):
        params = secagg.Params.recommend(clients=clients, dim=2**20)
        bill = plan(params)
        assert bill.expansion_formula == secagg.expansion_formula(params)
        assert bill.expansion < bill.expansion_formula


def test_no_time_is_predicted_from_free_operations():
    bill = plan(complete(50, 1000))
    assert bill.cpu_seconds_client == 0.0
    assert bill.cpu_seconds_server == 0.0


def units(**costs):
    return replace(FREE, **costs)


def test_units_add_up_for_a_client():
    params = complete(11, 100, threshold=4)
    for cost, times in {
        "client_fixed": 1,
        "client_peer": 10,
        "seed": 11,  # its own mask and one per peer
        "stream": 11 * 100,
        "vector_client": 100,
        "share_term": 6 * 4 * 11,  # six polynomials of four coefficients at eleven points
        "server_fixed": 0,
        "server_edge": 0,
        "vector_server": 0,
        "decoded": 0,
        "combine_term": 0,
        "lagrange_term": 0,
        "self_seed": 0,
    }.items():
        assert units(**{cost: 2.0}).client(params) == pytest.approx(2.0 * times)
        assert secagg.plan(params, units=units(**{cost: 2.0})).cpu_seconds_client == pytest.approx(
            2.0 * times
        )


@pytest.mark.parametrize("gone", [0, 2])
def test_units_add_up_for_the_server(gone):
    params = complete(11, 100, threshold=4)
    pairs = gone * (11 - gone)  # the masks of the gone with those that stayed
    for cost, times in {
        "server_fixed": 11,
        "server_edge": 110,
        "vector_server": 100 * (11 - gone),
        "decoded": 100,
        "self_seed": 11 - gone,
        "agreement": pairs,
        "seed": 11 - gone + pairs,
        "stream": 100 * (11 - gone + pairs),
        "lagrange_term": 16,
        "combine_term": 3 * 4 * 11,
        "client_fixed": 0,
        "client_peer": 0,
        "vector_client": 0,
        "share_term": 0,
    }.items():
        assert units(**{cost: 2.0}).server(params, gone) == pytest.approx(2.0 * times), cost


def test_the_server_s_seconds_are_those_at_the_stated_dropout():
    params = secagg.Params.recommend(clients=40, dim=10, dropout=0.2, corrupt=0.0)
    everything = Units(**{field.name: 1.0 for field in fields(Units)})
    bill = secagg.plan(params, units=everything)
    assert bill.cpu_seconds_server == everything.server(params, 8)
    assert bill.cpu_seconds_server > everything.server(params, 0)
    assert bill.cpu_seconds_client == everything.client(params)


def test_a_graph_that_is_drawn_has_its_own_costs():
    params = drawn(16, 1, neighbours=6)
    apart = units(opening=1.0, proof_step=10.0, view=100.0, verification=1000.0)
    proof = 6 * (4 * 10 + 100)  # per neighbour a path of four steps in a tree of 16, and a view
    assert apart.client(params) == 16 + proof + 3 * 6 * 1000
    assert apart.server(params, 0) == 16 * (1 + proof + 3 * 1000)
    signed = active(16, 1)
    assert apart.client(signed) == 2 * 15 * 1000
    assert apart.server(signed, 0) == 2 * 16 * 1000
    assert apart.client(sparse(16, 1)) == apart.server(complete(16, 1), 0) == 0


def test_workers_share_the_clients_and_the_masks():
    params = secagg.Params.recommend(clients=40, dim=10, dropout=0.2, corrupt=0.0)
    bill = secagg.plan(params, units=units(client_fixed=3.0))
    assert bill.wall_seconds() == bill.wall_seconds(1) == pytest.approx(3.0 * 36)
    assert bill.wall_seconds(4) == pytest.approx(3.0 * 9 + START_SECONDS)
    unmasking = secagg.plan(params, units=units(agreement=1.0))
    assert unmasking.cpu_seconds_unmasking == unmasking.cpu_seconds_server > 0
    assert unmasking.wall_seconds(3) == pytest.approx(
        unmasking.cpu_seconds_server / 3 + START_SECONDS
    )
    serial = secagg.plan(params, units=units(server_edge=1.0))
    assert serial.cpu_seconds_unmasking == 0
    assert serial.wall_seconds(3) == pytest.approx(serial.cpu_seconds_server + START_SECONDS)
    # The server alone goes on while the workers do their part.
    both = secagg.plan(params, units=units(server_edge=0.01, client_fixed=3.0))
    assert both.wall_seconds(2) == pytest.approx(
        (both.cpu_seconds_server + 3.0 * 36) / 2 + START_SECONDS
    )
    with pytest.raises(UsageError, match="workers"):
        bill.wall_seconds(0)


def test_lagrange_weights_are_shared_in_the_complete_graph_only():
    """There every secret is rebuilt from the same holders; in the sparse one each has its own."""
    one = units(lagrange_term=1.0)
    assert one.server(complete(20, 1, threshold=5), 0) == 25
    assert one.server(sparse(20, 1, threshold=2), 0) == 4 * 20


def test_the_server_s_memory_does_not_hold_a_vector_per_client():
    few, many = plan(complete(10, 10**6)), plan(complete(100, 10**6))
    vector = 10**6 * (4 + 3 * 8)  # the sum of words, then levels, total and mean
    assert vector < few.memory_server < 1.1 * vector
    assert vector < many.memory_server < 1.5 * vector
    ring = plan(sparse(10_000, 1000, neighbours=100, threshold=20))
    assert ring.memory_server < 10_000 * 100 * (64 + 8) + 10_000 * 700


def test_what_cannot_be_planned_is_refused_with_what_can():
    recommend = secagg.Params.recommend
    with pytest.raises(UsageError, match="dropout <="):
        recommend(clients=100, dim=1, corrupt=0.6, dropout=0.5)
    with pytest.raises(UsageError, match="the complete graph"):
        recommend(clients=10, dim=1, graph="sparse", corrupt=0.4, dropout=0.4)
    with pytest.raises(UsageError, match=r"expected to survive.* Use 90"):
        recommend(clients=100, dim=1, dropout=0.1, threshold=91)
    with pytest.raises(UsageError, match="survivors expected"):
        recommend(clients=100, dim=1, dropout=0.1, min_cohort=91)
    with pytest.raises(CapacityError, match="Nearest that fit"):
        recommend(clients=2**20, dim=1, value_bits=32, weighted=True, max_weight=2**20)
    with pytest.raises(UsageError, match="max_weight"):
        recommend(clients=3, dim=1, weighted=True)
    with pytest.raises(UsageError, match="sparse"):
        recommend(clients=10, dim=1, neighbours=4)
