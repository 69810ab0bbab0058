"""What coalitions learn: sharing polynomials, masks, and whole rounds of secure aggregation."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from rounds import THREATS, honest, identities_of, params_of

from privagg import field
from privagg.attacks.linear import SERVER, Views, views_of_round
from privagg.attacks.secagg_compare import Comparison
from privagg.attacks.secagg_exposure import Knowledge, evaluate_plain
from privagg.attacks.secagg_replay import replay
from privagg.attacks.secagg_shadow import Rules
from privagg.errors import UsageError
from privagg.protocols.secagg.states import Phase

P = field.prime_field(2147483629)


def cluster(m, leader=0, seeds=None, hidden_sums=False):
    """A cluster of sensors: readings hidden by polynomials (as described by He et al., 2007).

    Member i deals its polynomial's values; member j adds what it got up and broadcasts the sum,
    the leader keeps its own.
    """
    seeds = list(range(1, m + 1)) if seeds is None else seeds
    coefficients = [("r", i, k) for i in range(m) for k in range(1, m)]
    views = Views(range(m), coefficients, field=P)

    def value(i, x):
        return {i: 1} | {("r", i, k): pow(x, k, P.modulus) for k in range(1, m)}

    for i in range(m):
        views.learn(i, {i: 1})
        for name in coefficients:
            if name[1] == i:
                views.learn(i, {name: 1})
        for j, x in enumerate(seeds):
            if i != j:
                views.learn(j, value(i, x))
                views.learn(("link", i, j), value(i, x))
    for j, x in enumerate(seeds):
        total = {}
        for i in range(m):
            for name, factor in value(i, x).items():
                total[name] = total.get(name, 0) + factor
        views.learn(j, total)
        if j != leader and not hidden_sums:
            views.learn("ether", total)
            views.learn(leader, total)
    return views


@pytest.mark.parametrize("m", [3, 4, 5, 6])
def test_clusters_fall_to_all_but_one_member_and_no_fewer(m):
    views = cluster(m)
    for size in range(m + 1):
        for coalition in itertools.combinations(range(m), size):
            found = views.exposed((*coalition, "ether"))
            # Without the leader's sum, which it keeps, its polynomial has one point too few.
            falls = size == m or (size == m - 1 and 0 in coalition)
            assert found == (tuple(range(m)) if falls else coalition)
    # The leader alone learns the sum.
    assert views.knows([0], dict.fromkeys(range(m), 1))
    assert not views.knows(["ether"], dict.fromkeys(range(m), 1))


def test_links_of_one_member_give_its_reading_if_all_are_heard():
    m = 3
    views = cluster(m)
    out = [("link", 1, j) for j in (0, 2)]
    into = [("link", j, 1) for j in (0, 2)]
    assert views.exposed(["ether", *out]) == ()
    assert views.exposed(["ether", *into]) == ()
    assert views.exposed(["ether", *out, *into]) == (1,)


def test_a_seed_of_zero_is_fatal_and_equal_seeds_are_not():
    assert 1 in cluster(3, seeds=[P.modulus, 2, 3]).exposed([0])
    assert cluster(3, seeds=[2, 2 + P.modulus, 3]).exposed([0]) == (0,)


def test_a_second_run_with_another_roster_leaks():
    views = Views("abcd")
    views.learn("leader", dict.fromkeys("abcd", 1))
    views.learn("leader", dict.fromkeys("abd", 1))
    assert views.exposed(["leader"]) == ("c",)


def test_coalitions_are_listed_smallest_first():
    views = Views(["x", "y"], ["mask"])
    views.learn("server", {"x": 1, "mask": 1})
    views.learn("helper", {"mask": Fraction(1, 3)})
    views.learn("idle", {"y": 0})
    found = list(views.coalitions(["helper", "idle"], always=["server"]))
    assert found == [
        ((), ()),
        (("helper",), ("x",)),
        (("idle",), ()),
        (("helper", "idle"), ("x",)),
    ]
    assert list(views.coalitions(["helper", "idle"], most=0)) == [((), ())]
    assert views.observers == ("server", "helper", "idle")
    assert views.determined(["server", "helper"]) == ("x", "mask")


def test_what_a_seed_implies():
    views = Views(["x"], ["seed", "mask", "other"])
    views.learn("server", {"x": 1, "mask": 2, "other": 1})
    views.implies("seed", ["mask"])
    views.implies("mask", ["other"])
    views.learn("holder", {"seed": 5})
    assert views.exposed(["server"]) == ()
    assert views.exposed(["server", "holder"]) == ("x",)
    assert views.exposed(["nobody"]) == ()


@pytest.mark.parametrize("name", THREATS)
@pytest.mark.parametrize("gone", [(), (2,), (0, 5)])
def test_rounds_agree_with_the_audit_for_every_coalition(name, gone):
    params = params_of(name)
    transcript = honest(name, tuple((client, Phase.MASKED_INPUT.value) for client in gone))
    roster = identities_of(params.clients)[1] if params.signed else None
    views = views_of_round(transcript, params=params, roster=roster)
    record = replay(transcript, Rules(params, roster, b""))
    known = Knowledge.of(record, Comparison(record))
    clients = range(params.clients)
    members = [m for size in range(params.clients) for m in itertools.combinations(clients, size)]
    # Every coalition once for each threat model; a sample of them where other clients leave.
    if len(members) > 2**8 or gone != (2,):
        generator = np.random.default_rng(1)
        chosen = generator.choice(len(members), min(len(members), 40), replace=False)
        members = [members[i] for i in chosen]
    flags = np.zeros((len(members), params.clients), np.bool_)
    for row, coalition in enumerate(members):
        flags[row, list(coalition)] = True
    outcomes = evaluate_plain(known, flags)
    for row, coalition in enumerate(members):
        found = views.exposed((SERVER, *coalition))
        others = [who for _, who in found if who not in coalition]
        assert len(others) == outcomes.exposed[row], coalition


def test_wrong_arguments_are_named():
    views = Views(["x"], ["m"])
    over = Views(["x"], field=P)
    for argument, wrong in [
        ("targets", lambda: Views([])),
        ("hidden", lambda: Views(["x"], ["x"])),
        ("name", lambda: views.learn("a", {"z": 1})),
        ("name", lambda: views.implies("z", ["m"])),
        ("name", lambda: views.implies("m", ["z"])),
        ("functional", lambda: views.learn("a", ["x"])),
        ("functional", lambda: views.learn("a", {"x": "1"})),
        ("functional", lambda: views.learn("a", {"x": float("inf")})),
        ("functional", lambda: over.learn("a", {"x": 0.5})),
        ("functional", lambda: over.learn("a", {"x": True})),
    ]:
        with pytest.raises(UsageError) as caught:
            wrong()
        assert caught.value.argument == argument
    assert views.observers == ()
