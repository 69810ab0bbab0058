"""Whole rounds: inputs of every kind, models, who is told what, and what the server holds."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest
from lsa_parties import Play, active, honest, identity, inputs, pinned

from privagg.errors import Abort, CapacityError, PeerError, UsageError
from privagg.field import M31, M61
from privagg.protocols import lightsecagg as lsa
from privagg.protocols.lightsecagg import Phase, messages


@pytest.mark.parametrize("threat", ["semi-honest", "active"])
@pytest.mark.parametrize("value_bits", [1, 16, 28, 32])
def test_integers_are_summed_exactly(threat, value_bits):
    params = lsa.Params.recommend(
        clients=10, dim=33, value_bits=value_bits, dropout=0.2, corrupt=0.1, threat=threat
    )
    assert params.field == (M31 if value_bits < 28 else M61)
    vectors = inputs(params)
    vectors[:, 0] = 2**value_bits - 1  # the largest sum
    result = lsa.run(params, vectors, dropouts={4: "masked-input", 7: "unmasking"})
    assert result.exact
    assert np.array_equal(result.sum, np.delete(vectors, 4, axis=0).sum(axis=0))
    assert (result.count, result.weight_total, result.insecure_seed) == (9, 9, False)
    assert result.survivors["unmasking"] == (0, 1, 2, 3, 5, 6, 8, 9)


def test_floats_weights_and_trees():
    params = lsa.Params.recommend(clients=6, dim=6, clip=4.0, weighted=True, max_weight=500)
    update = {"layer": np.full((2, 2), 0.5, np.float32), "bias": np.zeros(2, np.float32)}
    result = lsa.run(params, [update] * 6, weights=[100, 0, 500, 1, 2, 3], seed=1)
    assert result.exact
    assert (result.weight_total, result.insecure_seed) == (606, True)
    assert result.mean["layer"].shape == (2, 2)
    assert np.allclose(result.mean["layer"], 0.5, atol=params.encoding.step)


def test_weights_that_are_all_zero_have_no_mean():
    params = lsa.Params.recommend(clients=4, dim=2, weighted=True, max_weight=5)
    with pytest.raises(UsageError, match="every survivor had weight 0"):
        lsa.run(params, np.zeros((4, 2), int), weights=[0] * 4)


def test_a_seed_repeats_a_run_and_its_transcript():
    params, texts = honest(5, 3), []
    for _ in range(2):
        transcript = lsa.Transcript(payloads=True)
        lsa.run(params, inputs(params), seed=3, transcript=transcript)
        texts.append([(entry.kind, entry.payload) for entry in transcript])
    assert texts[0] == texts[1]
    assert len(texts[0]) == 2 * 4 * 5


def test_inputs_that_do_not_fit_are_refused_and_named():
    params = honest(4, 3)
    good = inputs(params)
    wrong = good.copy()
    wrong[2, 1] = -1
    cases = [
        ({"vectors": wrong}, "client 2: vector"),
        ({"vectors": good[:3]}, "one for each of 4 clients"),
        ({"vectors": good[:, :2]}, "params.dim = 3"),
        ({"weights": [1] * 4}, "weights exactly when"),
        ({"dropouts": {9: "unmasking"}}, "0 to 3"),
        ({"dropouts": {1: "share-keys"}}, "advertise-keys or share-masks"),
        ({"model": bytes(32)}, "nothing is signed"),
        ({"model": b"short"}, "32 bytes, or none"),
        ({"roster": pinned(4)}, "nothing is signed there"),
        ({"transcript": []}, "a secagg.Transcript"),
        ({"seed": -1}, "an integer from 0"),
    ]
    for changes, match in cases:
        with pytest.raises(UsageError, match=match):
            lsa.run(params, **{"vectors": good} | changes)
    with pytest.raises(UsageError, match=r"lightsecagg\.Params"):
        lsa.run("params", good)
    with pytest.raises(UsageError, match="4 signers and the roster"):
        lsa.run(active(4, 3), good, identities=[identity(0)], roster=pinned(4))


def test_parameters_that_are_insecure_or_cannot_finish_are_refused():
    base = {"clients": 10, "dim": 4, "corrupt": 0.2, "dropout": 0.2}
    for changes, match in [
        ({"threshold": 2}, r"3 to 8: N - D >= U > T with N = 10, D = 2, T = 2\. Use 3"),
        ({"threshold": 9}, "Use 8"),
        ({"threshold": 6, "threat": "active"}, r"7 to 8: N - D >= U > T and 2 U > N \+ T"),
        ({"threat": "active", "dropout": 0.4}, "7 survivors where 6 are expected"),
        ({"threat": "semi-malicious"}, "Choose active: it assumes less"),
        ({"min_cohort": 3}, "at least 4, so that two inputs are honest"),
        ({"min_cohort": 9}, "at most the 8 survivors"),
        ({"dropout": 0.7}, "two honest inputs|N - D >= U > T"),
        ({"clients": 2**16 + 1}, "2 to 65536"),
    ]:
        with pytest.raises(UsageError, match=match):
            lsa.Params.recommend(**base | changes)
    with pytest.raises(CapacityError, match="largest sum"):
        lsa.Params.recommend(**base, value_bits=30, field=M31)
    with pytest.raises(CapacityError):
        lsa.Params.recommend(**base, value_bits=32, weighted=True, max_weight=2**30)
    assert lsa.Params.recommend(**base, value_bits=27).field is M31
    assert lsa.Params.recommend(**base, value_bits=28).field is M61


def test_equal_parameters_have_one_digest_and_others_another():
    params = honest(5, 3)
    assert params.digest() == honest(np.int64(5), np.int32(3)).digest()
    others = [honest(6, 3), honest(5, 4), honest(5, 3, threshold=3), honest(5, 3, field=M61)]
    assert len({params.digest(), *(other.digest() for other in others)}) == 5


def test_shares_shrink_with_the_threshold():
    """ceil(d / (U - T)): the paper's figure for what a client stores of each other."""
    for threshold, expected in ((2, 100), (3, 50), (5, 25), (8, 15)):
        params = honest(9, 100, threshold=threshold)
        assert params.piece == expected
        assert messages.ShareMasks.size(params, 8) == 14 + 8 * (-(-31 * expected // 8) + 16)


def test_a_client_given_another_model_is_not_answered_for():
    """Its signature is of its own model: no honest client then answers for the sum it is in."""
    params = active(6, 3)
    play = Play(params, model=bytes(32), models={2: bytes([1] * 32)}).until(Phase.MASKED_INPUT)
    caught = []
    for index in play.staying():
        reply = play.answer(index, play.say(index))
        try:
            play.deliver(index, reply)
        except PeerError as error:
            caught.append(error)
    assert [error.peer for error in caught] == [2]
    assert "not signed for this round and its model" in str(caught[0])
    play.server.close()
    assert np.array_equal(play.finish().total, np.delete(play.vectors, 2, axis=0).sum(axis=0))


def test_a_server_that_mixes_models_gets_no_answer():
    """The server itself takes the other model's input; each client sees that it is another."""
    params = active(6, 3)
    play = Play(params, model=bytes(32), models={2: bytes([1] * 32)}).until(Phase.MASKED_INPUT)
    replies = {index: play.answer(index, play.say(index)) for index in play.staying()}
    decoded = {i: messages.MaskedInput.decode(r, params, peer=i) for i, r in replies.items()}
    shown = messages.SurvivorSet(
        tag=decoded[0].tag,
        survivors=np.ones(6, np.bool_),
        signatures=np.stack([np.frombuffer(m.signature, np.uint8) for m in decoded.values()]),
    )
    for index, client in play.clients.items():
        culprit = 0 if index == 2 else 2
        with pytest.raises(PeerError, match=f"client {culprit} has not signed"):
            client.consistency_check(shown)


def test_results_say_whether_masks_were_bound_to_a_model():
    params = active(5, 3)
    model = lsa.model_digest([np.zeros(3)])
    assert lsa.run(params, inputs(params), model=model).model_bound
    assert not lsa.run(params, inputs(params)).model_bound
    assert not lsa.run(honest(5, 3), inputs(params)).model_bound


def test_a_replaced_share_of_another_sender_does_not_open():
    """Ciphertexts are bound to sender and receiver: a server cannot move them."""
    play = Play(honest(5, 3)).until(Phase.MASKED_INPUT)
    bundle = play.due(0)
    swapped = bundle.ciphertexts.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    moved = messages.ShareBundle(tag=bundle.tag, present=bundle.present, ciphertexts=swapped)
    sent = play.clients[0].masked_input(moved, play.vectors[0])
    assert sent.missing.tolist() == [False, True, True, False, False]


def test_what_the_server_sees_before_the_end_is_not_the_inputs():
    """Masked vectors of equal inputs differ, and differ from the inputs."""
    params = honest(5, 200)
    play = Play(params)
    play.vectors[:] = 7
    play.until(Phase.MASKED_INPUT).collect()
    rows = [
        messages.MaskedInput.decode(play.up[Phase.MASKED_INPUT, i], params, peer=i).vector
        for i in range(5)
    ]
    for at, row in enumerate(rows):
        assert len(np.unique(row)) > 190
        for other in rows[:at]:
            assert int((row == other).sum()) < 3


def test_the_server_holds_one_sum_and_no_vector_per_client():
    dim, clients = 50_000, 24
    params = honest(clients, dim, threshold=20)
    play = Play(params).until(Phase.MASKED_INPUT)
    replies = [play.answer(index, play.say(index)) for index in play.staying()]
    decoded = [messages.MaskedInput.decode(r, params, peer=i) for i, r in enumerate(replies)]
    gc.collect()
    tracemalloc.start()
    try:
        for index, message in enumerate(decoded):
            play.server.receive(index, message)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * 4 * dim  # twenty-four vectors would be 24 * 4 * dim
    assert peak < 8 * 8 * dim
    play.server.close()
    assert play.server._store.ciphertexts == {}


def test_too_few_answers_abort_and_say_how_many():
    params = honest(6, 3, threshold=4)
    with pytest.raises(Abort, match="round unmasking: too few clients answered: 3 left, 4 needed"):
        lsa.run(params, inputs(params), dropouts=dict.fromkeys((0, 1, 2), "unmasking"))
