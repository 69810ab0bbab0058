"""What a client insists on before it says anything, and what no parameters may ask of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from parties import (
    ALL,
    BOTH,
    SIGNED,
    Play,
    active,
    complete,
    drawn,
    due,
    identity,
    inputs,
    is_empty_handed,
    pinned,
    sparse,
)

from privagg import entropy
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import thresholds
from privagg.protocols.secagg.states import ClientState, Phase


def tampered(params, **fields):
    """Return parameters that the class itself would refuse, as a hostile code base could."""
    copy = replace(params)
    for name, value in fields.items():
        object.__setattr__(copy, name, value)
    return copy


def test_a_policy_that_the_parameters_meet_is_accepted():
    params = complete(10, threshold=4, corrupt=0.2)
    for allowed in range(4):
        secagg.Client(params, secagg.Policy(min_cohort=10, max_corrupt=allowed))
    assert secagg.Policy.of(params) == secagg.Policy(min_cohort=4, max_corrupt=2)


@pytest.mark.parametrize("corrupt", [4, 5, 8])
def test_more_corrupt_clients_than_the_threshold_bears(corrupt):
    params = complete(10, threshold=4)
    with pytest.raises(UsageError, match=rf"params\.threshold.* 4;.* at least {corrupt + 1}"):
        secagg.Client(params, secagg.Policy(min_cohort=10, max_corrupt=corrupt))


def test_in_the_sparse_graph_the_corrupt_holders_count_not_the_corrupt_clients():
    params = secagg.Params.recommend(
        clients=200, dim=1, graph="sparse", corrupt=0.05, dropout=0.05, sigma=20
    )
    for allowed in range(0, 120, 7):
        holders = thresholds.max_corrupt_holders(200, allowed, params.neighbours, params.sigma)
        policy = secagg.Policy(min_cohort=200, max_corrupt=allowed)
        if holders < params.threshold:
            secagg.Client(params, policy)
        else:
            with pytest.raises(UsageError, match=rf"at least {holders + 1} "):
                secagg.Client(params, policy)
    assert holders >= params.threshold, "both branches were taken"


@pytest.mark.parametrize("graph", BOTH)
@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"min_cohort": 9, "max_corrupt": 0}, "policy.min_cohort"),
        ({"min_cohort": 10, "max_corrupt": 8}, "policy.min_cohort"),
        ({"min_cohort": 2**20, "max_corrupt": 2**20 - 2}, "policy.min_cohort"),
    ],
)
def test_policies_that_no_round_of_this_size_meets(graph, fields, argument):
    with pytest.raises(UsageError) as caught:
        secagg.Client(BOTH[graph](8), secagg.Policy(**fields))
    assert caught.value.argument == argument


def test_the_roster_of_a_policy_has_an_identity_per_client():
    params = complete(5)
    identities = pinned(6).identities
    for roster in (identities[:5], list(identities[:5]), secagg.Roster(identities[:5])):
        secagg.Client(params, secagg.Policy(min_cohort=2, max_corrupt=0, roster=roster))
    for wrong in (identities[:4], identities, ()):
        with pytest.raises(UsageError, match=r"policy\.roster"):
            secagg.Client(params, secagg.Policy(min_cohort=2, max_corrupt=0, roster=wrong))
    for wrong in ((b"short",) * 5, ("a" * 32,) * 5, (b"a" * 32,) * 5, {1: 2}, "abcde", 5):
        with pytest.raises(UsageError, match="roster"):
            secagg.Policy(min_cohort=2, max_corrupt=0, roster=wrong)


@pytest.mark.parametrize(
    "fields",
    [
        {"min_cohort": 1, "max_corrupt": 0},
        {"min_cohort": 0, "max_corrupt": 0},
        {"min_cohort": True, "max_corrupt": 0},
        {"min_cohort": 2.0, "max_corrupt": 0},
        {"min_cohort": 2, "max_corrupt": -1},
        {"min_cohort": 2, "max_corrupt": "0"},
        {"min_cohort": 2, "max_corrupt": 1},
        {"min_cohort": 10, "max_corrupt": 2**20},
    ],
)
def test_policies_that_are_none(fields):
    with pytest.raises(UsageError):
        secagg.Policy(**fields)


@pytest.mark.parametrize("graph", BOTH)
def test_threshold_one_is_refused_by_parameters_and_by_clients(graph):
    """A threshold of 1 would make every share the secret."""
    with pytest.raises(UsageError, match="threshold"):
        BOTH[graph](8, threshold=1)
    with pytest.raises(UsageError, match="at least 2"):
        secagg.Client(tampered(BOTH[graph](8), threshold=1))


@pytest.mark.parametrize("graph", BOTH)
def test_a_cohort_of_one_is_refused_everywhere(graph):
    with pytest.raises(UsageError, match="clients"):
        secagg.Params.recommend(clients=1, dim=3, graph=graph)
    with pytest.raises(UsageError, match="min_cohort"):
        BOTH[graph](8, min_cohort=1)
    with pytest.raises(UsageError, match="min_cohort"):
        secagg.Client(tampered(BOTH[graph](8), min_cohort=1))


@pytest.mark.parametrize(
    "fields",
    [
        {"threshold": 3},
        {"min_cohort": 3},
        {"corrupt": 0},
        {"dropout": 0.1},
        {"dim": 5},
        {"prg": secagg.Params.recommend(clients=3, dim=1, prg="chacha20").prg},
        {"encoding": secagg.Params.recommend(clients=3, dim=1, value_bits=17).encoding},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_server_with_other_parameters_gets_no_keys(fields):
    """Whatever the server lowers, its digest differs from the client's."""
    ours = complete(8, threshold=4, min_cohort=4, corrupt=0.2)
    theirs = replace(ours, **fields)
    client = secagg.Client(ours)
    with pytest.raises(PeerError, match="parameters differ"):
        client.advertise_keys(secagg.Server(theirs).start(0))
    assert is_empty_handed(client)


def test_the_digest_of_the_parameters_tells_every_field_apart():
    base = secagg.Params.recommend(
        clients=40, dim=9, graph="sparse", corrupt=0.05, dropout=0.05, sigma=4, eta=4
    )
    changes = {
        "dim": 10,
        "threshold": base.threshold + 1,
        "corrupt": 1,
        "dropout": 0.06,
        "min_cohort": base.min_cohort - 1,
        "neighbours": base.neighbours + 2,
        "prg": complete(3, prg="chacha20").prg,
        "sigma": 3,
        "eta": 3,
        "clients": 41,
        "encoding": complete(3, clip=1.0).encoding,
        "graph": secagg.Graph.COMPLETE,
        "threat": secagg.Threat.ACTIVE,
    }
    assert set(changes) == set(base.__dataclass_fields__)
    digests = {tampered(base, **{name: value}).digest() for name, value in changes.items()}
    assert len(digests | {base.digest()}) == len(changes) + 1
    assert replace(base).digest() == base.digest()


def test_a_start_with_another_tag_or_index_is_refused():
    params = complete(5)
    start = secagg.Server(params).start(4)
    for change in (
        {"tag": bytes(8)},
        {"client": 5},
        {"client": 2**32 - 1},
        {"session": bytes(16)},
        {"round_number": 1},
    ):
        client = secagg.Client(params)
        with pytest.raises(PeerError) as caught:
            client.advertise_keys(replace(start, **change))
        assert caught.value.round == "advertise-keys"
        assert is_empty_handed(client)


@pytest.mark.parametrize("name", ["graph", "threat", "prg"])
def test_choices_given_as_strings_take_no_other_branch(name):
    """``Params`` compares by identity: a string must be converted by `recommend`, or refused."""
    params = sparse(8)
    with pytest.raises(UsageError, match=name):
        replace(params, **{name: str(getattr(params, name).value)})
    assert BOTH["sparse"](8, **{name: getattr(params, name)} if name != "graph" else {}) == params


def test_twice_the_threshold_exceeds_clients_and_corrupt():
    """2t > N + corrupt, whatever the parameters say: else one peer's two kinds of share are had."""
    params = active(9, threshold=6)
    for allowed in range(8):
        policy = secagg.Policy(min_cohort=9, max_corrupt=allowed, roster=pinned(9))
        if 9 + allowed < 12:
            secagg.Client(params, policy, identity=identity(0))
        else:
            with pytest.raises(UsageError, match=rf"at least {(9 + allowed) // 2 + 1} ") as caught:
                secagg.Client(params, policy, identity=identity(0))
            assert caught.value.argument == "params.threshold"
    for clients in range(2, 12):
        low = clients // 2 + 1
        assert active(clients, threshold=low).threshold == low
        with pytest.raises(UsageError, match=r"2 threshold > clients \+ corrupt|at least 2"):
            active(clients, threshold=low - 1)
        weak = tampered(active(clients), threshold=low - 1)
        policy = secagg.Policy(min_cohort=2, max_corrupt=0, roster=pinned(clients))
        with pytest.raises(UsageError, match=f"at least {low} "):
            secagg.Client(weak, policy, identity=identity(0))


def test_in_the_drawn_graph_the_neighbours_count():
    params = secagg.Params.recommend(
        clients=200,
        dim=1,
        graph="sparse",
        corrupt=0.05,
        dropout=0.05,
        sigma=20,
        threat="semi-malicious",
    )
    seen = set()
    for allowed in range(0, 120, 7):
        holders = thresholds.max_corrupt_holders(200, allowed, params.neighbours, params.sigma)
        policy = secagg.Policy(min_cohort=200, max_corrupt=allowed, roster=pinned(200))
        fits = 2 * params.threshold > params.neighbours + holders
        seen.add(fits)
        if fits:
            secagg.Client(params, policy, identity=identity(0))
        else:
            with pytest.raises(UsageError, match=r"params\.threshold"):
                secagg.Client(params, policy, identity=identity(0))
    assert seen == {True, False}


def test_the_active_model_has_no_sparse_graph_and_says_why():
    with pytest.raises(UsageError, match="surround a client with its own") as caught:
        secagg.Params.recommend(clients=200, dim=1, graph="sparse", threat="active")
    assert caught.value.argument == "graph"
    assert "semi-malicious" in str(caught.value)
    with pytest.raises(UsageError, match="surround a client with its own"):
        replace(drawn(8), threat=secagg.Threat.ACTIVE)
    with pytest.raises(UsageError, match="choose threat='active'"):
        complete(8, threat="semi-malicious", threshold=5)


@pytest.mark.parametrize("kind", SIGNED)
def test_signed_rounds_need_identities_and_never_do_without(kind):
    params = SIGNED[kind](8)
    policy = secagg.Policy.of(params, pinned(8))
    for arguments in ({}, {"policy": secagg.Policy.of(params)}, {"identity": identity(0)}):
        with pytest.raises(UsageError, match=r"identity|policy\.roster"):
            secagg.Client(params, **arguments)
    for wrong in (None, 3, "identity", b"s" * 32, identity(0).public):
        with pytest.raises(UsageError, match="identity"):
            secagg.Client(params, policy, identity=wrong)
    for wrong in (None, pinned(7), pinned(9), list(pinned(8).identities), 8):
        with pytest.raises(UsageError, match="roster"):
            secagg.Server(params, roster=wrong)
    everyone = [identity(index) for index in range(8)]
    for arguments in (
        {"identities": everyone},
        {"identities": everyone[:7], "roster": pinned(8)},
        {"roster": pinned(8)},
    ):
        with pytest.raises(UsageError, match="identities"):
            secagg.run(params, inputs(params), **arguments)
    assert secagg.run(params, inputs(params), identities=everyone, roster=pinned(8)).exact


@pytest.mark.parametrize("graph", BOTH)
def test_identities_in_a_semi_honest_round_are_refused_not_ignored(graph):
    params = BOTH[graph](8)
    for wrong in (identity(0), 3, b"s" * 32):
        with pytest.raises(UsageError, match="identity"):
            secagg.Client(params, identity=wrong)
    everyone = [identity(index) for index in range(8)]
    for arguments in ({"identities": everyone, "roster": pinned(8)}, {"roster": pinned(8)}):
        with pytest.raises(UsageError, match="nothing is signed"):
            secagg.run(params, inputs(params), **arguments)


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_a_client_s_own_min_cohort_holds_whatever_the_server_allows(make):
    """The server is content with two; the clients are not."""
    params = make(8) if make is not drawn else drawn(8, neighbours=6)
    roster = pinned(8) if params.signed else None
    policy = secagg.Policy(min_cohort=7, max_corrupt=0, roster=roster)
    for at in (Phase.SHARE_KEYS, Phase.MASKED_INPUT):
        play = Play(params, policy=policy, leaves={0: at, 4: at})
        play.until(at)
        with pytest.raises(Abort, match="min_cohort") as caught:
            play.finish()
        assert (caught.value.alive, caught.value.needed) == (6, 7)
    stays = Play(params, policy=policy, leaves={0: Phase.UNMASKING})
    assert stays.finish().count == 8


def test_clients_refuse_wrong_kinds_of_arguments():
    params = complete(3)
    for arguments, options in (
        ((None,), {}),
        (("params",), {}),
        ((params, "policy"), {}),
        ((params, params), {}),
        ((params,), {"entropy": None}),
        ((params,), {"entropy": b"seed"}),
    ):
        with pytest.raises(UsageError):
            secagg.Client(*arguments, **options)
    for arguments, options in (
        ((None,), {}),
        ((params,), {"session": b"short"}),
        ((params,), {"session": "x" * 16}),
        ((params,), {"round_number": -1}),
        ((params,), {"round_number": 2**32}),
        ((params,), {"round_number": True}),
        ((params,), {"workers": 0}),
        ((params,), {"workers": "2"}),
        ((params,), {"entropy": None}),
    ):
        with pytest.raises(UsageError):
            secagg.Server(*arguments, **options)


def test_a_client_has_no_index_and_no_secret_before_it_is_invited():
    client = secagg.Client(complete(3), entropy=entropy.from_seed(1))
    assert client.index is None
    assert client.state is ClientState.IDLE
    assert client.clipped == 0
    assert client._memory.mask_seed == b""
    assert due(Play(complete(3))).client == 0
