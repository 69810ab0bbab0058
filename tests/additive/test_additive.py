"""Sums by additive sharing: the kit, the invariants one by one, and what a run costs."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from privagg.entropy import from_seed
from privagg.errors import Abort, CapacityError, PeerError, UsageError
from privagg.protocols import additive
from privagg.testing import check_protocol
from privagg.testing.adapters import Additive

SESSION = bytes(16)
PARAMS = additive.Params(clients=4, dim=3, value_bits=5, helpers=2, corrupt=1, min_cohort=3)
VECTORS = np.random.default_rng(2).integers(0, 32, (4, 3))


def test_the_kit():
    few = additive.Params(clients=3, dim=2, value_bits=4, helpers=2)
    found = check_protocol(Additive(few, VECTORS[:3, :2] % 16), mutations=600)
    assert {one.name for one in found.skipped} == {"lies"}
    assert "Abort" in found["dropouts"].evidence


@pytest.mark.parametrize("helpers", [1, 2, 5])
@pytest.mark.parametrize("value_bits", [1, 31, 61])
def test_sums_are_plain_sums(helpers, value_bits):
    params = additive.Params(clients=5, dim=7, value_bits=value_bits, helpers=helpers)
    vectors = np.random.default_rng(1).integers(0, 2**value_bits, (5, 7))
    vectors[:, 0] = 2**value_bits - 1
    result = additive.run(params, vectors, dropouts={3: "masked-input"}, seed=4)
    assert result.cohort == (0, 1, 2, 4)
    assert np.array_equal(result.sum, vectors[[0, 1, 2, 4]].astype(np.uint64).sum(axis=0))
    assert result.insecure
    assert not additive.run(params, vectors).insecure


def test_a_run_sends_what_the_plan_says():
    result, plan = additive.run(PARAMS, VECTORS), PARAMS.sent()
    assert result.sent == {
        "client": 4 * plan["client"],
        "helper": 2 * plan["helper"],
        "leader": plan["leader"],
    }


def test_without_one_helper_the_leader_sees_uniform_words():
    """All but one mask are taken off: what is left is as likely for any input."""
    words = []
    for seed in range(400):
        client = additive.Client(PARAMS, SESSION, 0, entropy=from_seed(seed))
        shares = client.share_seeds()
        reply = client.masked_input(asked(), VECTORS[0])
        left = reply.vector.copy()
        mask = np.zeros(3, np.uint64)
        additive.client.add_mask(mask, shares[0].seed)
        words += ((left - mask) & np.uint64(2**PARAMS.bits - 1)).tolist()
    counts = np.bincount(words, minlength=2**PARAMS.bits)
    expected = len(words) / 2**PARAMS.bits
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < 127 + 5 * np.sqrt(2 * 127)
    assert counts.size == 128


def asked(members=(1, 1, 1, 1)):
    tag = additive.messages.tag_of(PARAMS, SESSION)
    return additive.SeedHolders(tag=tag, members=np.array(members, np.bool_))


def cohort(members):
    return additive.Cohort(tag=asked().tag, members=np.array(members, np.bool_))


def sharing():
    client = additive.Client(PARAMS, SESSION, 0)
    client.share_seeds()
    return client


def helper(holders=(1, 1, 1, 1)):
    found = additive.Helper(PARAMS, SESSION)
    for index in np.flatnonzero(holders).tolist():
        client = additive.Client(PARAMS, SESSION, index, entropy=from_seed(index))
        found.receive(index, client.share_seeds()[0])
    found.holders()
    return found


def test_a_client_helps_no_small_cohort_and_none_without_itself():
    with pytest.raises(Abort, match="below min_cohort"):
        sharing().masked_input(asked((1, 1, 0, 0)), VECTORS[0])
    with pytest.raises(PeerError, match="without the client"):
        sharing().masked_input(asked((0, 1, 1, 1)), VECTORS[0])


def test_a_helper_helps_one_large_cohort_of_those_who_sent_seeds():
    with pytest.raises(Abort, match="below min_cohort"):
        helper().sum_masks(cohort((1, 1, 0, 0)))
    with pytest.raises(PeerError, match="client 3 is in the sum, and sent no seed"):
        helper((1, 1, 1, 0)).sum_masks(cohort((1, 1, 1, 1)))
    found = helper()
    first = found.sum_masks(cohort((1, 1, 1, 0)))
    assert found.sum_masks(cohort((1, 1, 1, 0))).encode() == first.encode()
    with pytest.raises(PeerError, match="second set"):
        found.sum_masks(cohort((1, 1, 1, 1)))
    assert len(found._seeds) == 0


def test_a_client_masks_one_vector():
    client = sharing()
    first = client.masked_input(asked(), VECTORS[0])
    assert client.masked_input(asked(), VECTORS[1]).encode() == first.encode()
    with pytest.raises(PeerError, match="second set"):
        client.masked_input(asked((1, 1, 1, 0)), VECTORS[0])
    with pytest.raises(UsageError, match="second call"):
        client.share_seeds()


def test_a_second_seed_or_vector_does_not_count():
    one, other = (additive.Client(PARAMS, SESSION, 0).share_seeds()[0] for _ in range(2))
    found = additive.Helper(PARAMS, SESSION)
    found.receive(0, one)
    with pytest.raises(PeerError, match="second seed"):
        found.receive(0, other)
    leader = additive.Leader(PARAMS, SESSION)
    for at in range(2):
        leader.receive(at, asked((1, 1, 1, 0)))
    leader.ask_inputs()
    reply = sharing().masked_input(asked(), VECTORS[0])
    leader.receive(0, reply)
    with pytest.raises(PeerError, match="second MaskedInput"):
        leader.receive(0, replace(reply, vector=reply.vector ^ np.uint64(1)))
    with pytest.raises(PeerError, match="not asked for"):
        leader.receive(3, sharing().masked_input(asked(), VECTORS[0]))


def test_a_helper_that_is_gone_ends_the_run():
    leader = additive.Leader(PARAMS, SESSION)
    leader.receive(0, asked())
    with pytest.raises(Abort, match="a helper has not answered: 1 left, 2 needed"):
        leader.ask_inputs()


def test_states_of_others_are_refused():
    client = sharing()
    data = client.dump_state()
    assert additive.Client.load_state(data, PARAMS, SESSION).state is client.state
    for wrong in (b"", data[:-1], b"\x95" + data[1:]):
        with pytest.raises(UsageError, match="data"):
            additive.Client.load_state(wrong, PARAMS, SESSION)
    for params, session in ((replace(PARAMS, min_cohort=4), SESSION), (PARAMS, bytes([1] * 16))):
        with pytest.raises(UsageError, match="another state"):
            additive.Client.load_state(data, params, session)


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"clients": 1}, "clients"),
        ({"clients": True}, "clients"),
        ({"helpers": 0}, "helpers"),
        ({"dim": 0}, "dim"),
        ({"corrupt": 2}, "min_cohort"),
        ({"min_cohort": 5}, "min_cohort"),
        ({"value_bits": 0}, "value_bits"),
    ],
)
def test_parameters_are_checked(changes, argument):
    with pytest.raises(UsageError) as caught:
        replace(PARAMS, **changes)
    assert caught.value.argument == argument


def test_a_sum_that_could_wrap_is_refused():
    with pytest.raises(CapacityError, match="at most 61"):
        additive.Params(clients=8, dim=1, value_bits=63)
    assert additive.Params(clients=8, dim=1, value_bits=61).bits == 64


def test_arguments_are_checked():
    for vector in (VECTORS[0] - 40, VECTORS[0] + 32, VECTORS[0, :2], VECTORS[0] * 1.0, None):
        with pytest.raises(UsageError, match="vector"):
            sharing().masked_input(asked(), vector)
    with pytest.raises(UsageError, match="session"):
        additive.Client(PARAMS, b"", 0)
    with pytest.raises(UsageError, match="index"):
        additive.Client(PARAMS, SESSION, 4)
    with pytest.raises(UsageError, match="vectors"):
        additive.run(PARAMS, VECTORS[:3])
    with pytest.raises(UsageError, match="params"):
        additive.run(None, VECTORS)
    with pytest.raises(UsageError, match="Decode it first"):
        helper().receive(0, b"")
    with pytest.raises(UsageError, match="after round sum-masks"):
        additive.Leader(PARAMS, SESSION).result()


def test_what_is_used_is_what_was_checked():
    """A set of three flags has the bytes of one of four: the party must not use the former."""
    short = additive.SeedHolders(tag=asked().tag, members=np.ones(3, np.bool_))
    leader = additive.Leader(PARAMS, SESSION)
    leader.receive(0, short)
    leader.receive(1, asked())
    assert leader.ask_inputs().members.tolist() == [True, True, True, False]
    few = additive.Cohort(tag=asked().tag, members=np.ones(3, np.bool_))
    assert helper().sum_masks(few).encode() == helper().sum_masks(cohort((1, 1, 1, 0))).encode()


def test_a_leader_does_not_go_back():
    leader = additive.Leader(PARAMS, SESSION)
    with pytest.raises(UsageError, match="ask_masks"):
        leader.ask_masks()
    clients = [additive.Client(PARAMS, SESSION, index) for index in range(4)]
    helpers = [additive.Helper(PARAMS, SESSION) for _ in range(2)]
    for client in clients:
        for one, share in zip(helpers, client.share_seeds(), strict=True):
            one.receive(client.index, share)
    for at, one in enumerate(helpers):
        leader.receive(at, one.holders())
    first = leader.ask_inputs()
    assert leader.ask_inputs().encode() == first.encode()
    for client in clients:
        leader.receive(client.index, client.masked_input(first, VECTORS[client.index]))
    found = leader.ask_masks()
    for at, one in enumerate(helpers):
        leader.receive(at, one.sum_masks(found))
    for _ in range(2):
        with pytest.raises(UsageError, match="ask_inputs"):
            leader.ask_inputs()
        assert np.array_equal(leader.result(), VECTORS.sum(axis=0))
    with pytest.raises(UsageError, match="ask_masks"):
        leader.ask_masks()
    assert leader.state is additive.LeaderState.DONE


def test_a_state_that_contradicts_itself_is_refused():
    client, state = sharing(), msgspec.msgpack.decode
    idle = additive.Client(PARAMS, SESSION, 0).dump_state()
    shared = client.dump_state()
    client.masked_input(asked(), VECTORS[0])
    masked = client.dump_state()
    reply = additive.Client.load_state(masked, PARAMS, SESSION).masked_input(asked(), None)
    assert reply.encode() == client.masked_input(asked(), None).encode()
    wrong = [[*state(masked)[:5], b"junk"], [*state(masked)[:4], b"", state(masked)[5]]]
    wrong += [[*state(data)[:4], *state(masked)[4:]] for data in (idle, shared)]
    for fields in wrong:
        with pytest.raises(UsageError, match="data"):
            additive.Client.load_state(msgspec.msgpack.encode(fields), PARAMS, SESSION)


def test_numbers_of_numpy_and_things_of_other_types():
    given = {"clients": np.int64(4), "value_bits": np.uint8(5), "dim": np.int32(3)}
    assert replace(PARAMS, **given).digest() == PARAMS.digest()
    assert replace(PARAMS, **given).bits == PARAMS.bits
    for party in (additive.Helper, additive.Leader, lambda *two: additive.Client(*two, 0)):
        with pytest.raises(UsageError, match="params"):
            party(None, SESSION)
    with pytest.raises(UsageError, match="entropy"):
        additive.Client(PARAMS, SESSION, 0, entropy=np.random.default_rng(1))
    with pytest.raises(UsageError, match="mask"):
        additive.run(PARAMS, np.ma.masked_equal(VECTORS, VECTORS[0, 0]))
