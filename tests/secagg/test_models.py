"""A server that shows clients different models, and gradient suppression with and without binding.

Pasquini, Francati and Ateniese, "Eluding secure aggregation in federated learning via model
inconsistency", CCS 2022: everyone but the target gets parameters whose gradients are zero, so the
sum is the target's gradient, whatever the protocol that adds it up.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from attacker import Lax
from parties import (
    ALL,
    BOTH,
    SIGNED,
    Play,
    active,
    complete,
    drawn,
    due,
    is_empty_handed,
    sparse,
)

from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.derivations import model_digest
from privagg.protocols.secagg.states import Phase

CLIENTS = 8
WHO = 3
OURS, OTHER = b"o" * 32, b"t" * 32
LONG = 2000
"""Coordinates: enough that noise is told from a sum."""


def finish(play):
    """Return the total, or None if it was refused as no sum of inputs."""
    total, refused = None, "words outside the encoding"
    try:
        total = play.finish().total
    except PeerError as error:
        refused = str(error)
    assert "words outside the encoding" in refused
    return total


def noise(play):
    """Finish a play whose masks do not cancel: the sum is refused, or says nothing."""
    total = finish(play)
    if total is None:
        return
    true = play.vectors.sum(axis=0)
    assert (total == true).mean() < 0.01
    scale = 2.0**play.params.modulus_bits
    assert abs(np.corrcoef(total / scale, true / scale)[0, 1]) < 0.15


@pytest.mark.parametrize("kind", BOTH)
def test_masks_of_clients_with_different_models_do_not_cancel(kind):
    play = Play(ALL[kind](CLIENTS, LONG), model=OURS, models={WHO: OTHER})
    noise(play)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("gone", [None, 5])
def test_with_the_same_model_they_do(kind, gone):
    """The server must know it too: it rebuilds the masks of clients that left."""
    leaves = {} if gone is None else {gone: Phase.MASKED_INPUT}
    stayed = [index for index in range(CLIENTS) if index != gone]
    options = {"neighbours": 6} if kind in ("sparse", "semi-malicious") else {}
    play = Play(ALL[kind](CLIENTS, 3, **options), model=OURS, leaves=leaves)
    np.testing.assert_array_equal(play.finish().total, play.vectors[stayed].sum(axis=0))


@pytest.mark.parametrize("kind", BOTH)
def test_a_server_with_another_model_cannot_rebuild_who_left(kind):
    options = {"neighbours": 6} if kind == "sparse" else {}
    params = BOTH[kind](CLIENTS, LONG, **options)
    models = dict.fromkeys(range(CLIENTS), OURS)
    play = Play(params, model=OTHER, models=models, leaves={5: Phase.MASKED_INPUT})
    play.vectors[5] = 0
    noise(play)


@pytest.mark.parametrize(
    "models", [{WHO: OTHER}, dict.fromkeys(set(range(CLIENTS)) - {WHO}, OTHER)]
)
def test_in_a_semi_malicious_round_the_server_refuses_such_inputs(models):
    """With its input each client signs what it was shown: the model is in it."""
    play = Play(drawn(CLIENTS), model=OURS, models=models).until(Phase.MASKED_INPUT)
    for index in range(CLIENTS):
        data = play.answer(index, play.ask(index))
        if index not in models:
            play.hand_in(index, data)
            continue
        with pytest.raises(PeerError, match="sets and model of the round") as caught:
            play.hand_in(index, data)
        assert (caught.value.peer, caught.value.round) == (index, "masked-input")
    if len(models) > 1:
        with pytest.raises(Abort, match="too few clients answered"):
            play.server.close()
        return
    play.server.close()
    stayed = [index for index in range(CLIENTS) if index != WHO]
    np.testing.assert_array_equal(play.finish().total, play.vectors[stayed].sum(axis=0))


def test_and_its_neighbours_refuse_to_unmask_them():
    """A server that looks away gets no share of the client's neighbours, nor of the client."""
    play = Play(drawn(CLIENTS), model=OURS, models={WHO: OTHER}).until(Phase.MASKED_INPUT)
    play.server._directory = Lax(play.roster)
    play.until(Phase.UNMASKING)
    neighbours = set(map(int, play.server._topology.row(WHO)))
    for index in range(CLIENTS):
        data = play.ask(index)
        if index in neighbours | {WHO}:
            with pytest.raises(PeerError, match="the model differ"):
                play.answer(index, data)
            assert is_empty_handed(play.clients[index])
        else:
            play.answer(index, data)


def test_in_an_active_round_the_server_notices_before_unmasking():
    play = Play(active(CLIENTS), model=OURS, models={WHO: OTHER}).until(Phase.CONSISTENCY_CHECK)
    for index in range(CLIENTS):
        data = play.answer(index, play.ask(index))
        if index != WHO:
            play.hand_in(index, data)
            continue
        with pytest.raises(PeerError, match="sets and model of the round") as caught:
            play.hand_in(index, data)
        assert caught.value.peer == WHO
    # Its input is in the sum all the same: whoever goes on gets noise.
    play.server.close()
    with pytest.raises(PeerError, match="the model differ"):
        play.clients[WHO].unmasking(due(play, WHO))
    play.leaves = {WHO: Phase.UNMASKING}
    assert finish(play) is None or (play.server.result().total != play.vectors.sum(axis=0)).all()


def test_in_an_active_round_so_does_every_client():
    """The server passes on all signatures, as it must if all are to answer: all refuse."""
    play = Play(active(CLIENTS), model=OURS, models={WHO: OTHER}).until(Phase.CONSISTENCY_CHECK)
    signatures = []
    for index in range(CLIENTS):
        reply = messages.decode(play.answer(index, play.ask(index)), play.params, peer=index)
        signatures.append(np.frombuffer(reply.signature, np.uint8))
    everyone = messages.SignatureSet(
        tag=play.server._tag, signers=np.ones(CLIENTS, np.bool_), signatures=np.array(signatures)
    )
    for client in play.clients:
        with pytest.raises(PeerError, match="the model differ"):
            client.unmasking(everyone)
        assert is_empty_handed(client)


@pytest.mark.parametrize("wrong", [b"short", "m" * 32, None, 3, bytes(33), bytearray(32)], ids=repr)
def test_models_are_digests(wrong):
    play = Play(complete(3)).until(Phase.MASKED_INPUT)
    with pytest.raises(UsageError, match="model"):
        play.clients[0].masked_input(due(play, 0), play.vectors[0], model=wrong)
    for call in (
        lambda: secagg.Server(complete(3), model=wrong),
        lambda: secagg.run(complete(3), play.vectors, model=wrong),
    ):
        with pytest.raises(UsageError, match="model"):
            call()
    np.testing.assert_array_equal(play.finish().total, play.vectors.sum(axis=0))


# Gradient suppression, on a small network.

SIZES = (12, 10, 8, 4)
SCALE = 2.0**12
"""Gradients are rounded to multiples of 1 / SCALE: sums are exact, and so is the comparison."""


def network(rng):
    """Return the weights and biases of a network of three layers with ReLU between them."""
    return [
        part
        for rows, columns in itertools.pairwise(SIZES)
        for part in (rng.normal(0, 1 / np.sqrt(rows), (rows, columns)), np.zeros(columns))
    ]


def dead(weights):
    """Return the parameters with a dead second layer: no gradient passes it."""
    w1, b1, w2, b2, w3, b3 = (part.copy() for part in weights)
    return [w1, b1, np.zeros_like(w2), np.full_like(b2, -1.0), w3, b3]


def gradient(weights, x, labels):
    """Return the gradient of the mean cross-entropy, all parts in one vector."""
    w1, b1, w2, b2, w3, b3 = weights
    first = np.maximum(x @ w1 + b1, 0)
    second = np.maximum(first @ w2 + b2, 0)
    logits = second @ w3 + b3
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    d3 = odds / odds.sum(axis=1, keepdims=True)
    d3[np.arange(len(x)), labels] -= 1
    d3 /= len(x)
    d2 = d3 @ w3.T * (second > 0)
    d1 = d2 @ w2.T * (first > 0)
    parts = [x.T @ d1, d1.sum(0), first.T @ d2, d2.sum(0), second.T @ d3, d3.sum(0)]
    return np.concatenate([part.ravel() for part in parts])


def fixed_point(vector):
    return np.round(vector * SCALE).astype(np.int64)


@pytest.fixture(scope="module")
def suppression():
    """Everyone's gradient when `WHO` gets the model and the others a dead one; and both models."""
    rng = np.random.default_rng(42)
    model = network(rng)
    shown = {index: model if index == WHO else dead(model) for index in range(CLIENTS)}
    vectors = []
    for index in range(CLIENTS):
        x, labels = rng.normal(size=(16, SIZES[0])), rng.integers(0, SIZES[-1], 16)
        vectors.append(fixed_point(gradient(shown[index], x, labels)))
    return np.array(vectors), {index: model_digest(parts) for index, parts in shown.items()}


def test_the_gradient_is_right():
    """By differences: else the demonstration would show nothing."""
    rng = np.random.default_rng(1)
    weights = network(rng)
    x, labels = rng.normal(size=(5, SIZES[0])), rng.integers(0, SIZES[-1], 5)

    def loss(parts):
        w1, b1, w2, b2, w3, b3 = parts
        hidden = np.maximum(np.maximum(x @ w1 + b1, 0) @ w2 + b2, 0)
        logits = hidden @ w3 + b3
        logits = logits - logits.max(axis=1, keepdims=True)
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return -logs[np.arange(len(x)), labels].mean()

    found, at, step = gradient(weights, x, labels), 0, 1e-6
    for part in weights:
        for place in range(0, part.size, 7):
            moved = part.reshape(-1)
            before = moved[place]
            moved[place] = before + step
            up = loss(weights)
            moved[place] = before - step
            down = loss(weights)
            moved[place] = before
            assert found[at + place] == pytest.approx((up - down) / (2 * step), abs=1e-6)
        at += part.size


def round_for(make, vectors):
    return make(CLIENTS, vectors.shape[1], value_bits=16, signed=True)


@pytest.mark.parametrize("make", [complete, sparse])
def test_without_binding_the_sum_is_the_target_s_gradient(make, suppression):
    """All of it but the last layer's bias, exactly, from a protocol that did all it promises."""
    vectors, _ = suppression
    total = Play(round_for(make, vectors), vectors=vectors).finish().total
    hidden = slice(0, -SIZES[-1])
    assert np.count_nonzero(vectors[WHO][hidden]) > 100
    np.testing.assert_array_equal(total[hidden], vectors[WHO][hidden])
    assert (total[-SIZES[-1] :] != vectors[WHO][-SIZES[-1] :]).all()


@pytest.mark.parametrize("server_says", [WHO, WHO + 1], ids=["target's", "others'"])
@pytest.mark.parametrize("kind", BOTH)
def test_with_binding_the_server_is_left_with_noise(kind, server_says, suppression):
    vectors, models = suppression
    params = round_for(BOTH[kind], vectors)
    play = Play(params, vectors=vectors, model=models[server_says], models=models)
    total = finish(play)
    if total is None:
        assert not len(play.server._accumulator)  # and nothing of it is kept
        return
    assert (total == vectors[WHO]).mean() < 0.02
    assert (total == vectors.sum(axis=0)).mean() < 0.02


def test_what_the_server_computes_itself_is_noise_too(suppression, monkeypatch):
    """Before any decoding: the words that are left when all known masks are off."""
    vectors, models = suppression
    params = round_for(complete, vectors)
    play = Play(params, vectors=vectors, model=models[WHO], models=models)
    seen = []
    decode = type(params.encoding).decode

    def spy(encoding, words, **options):
        seen.append(words.copy())
        return decode(encoding, words, **options)

    monkeypatch.setattr(type(params.encoding), "decode", spy)
    finish(play)
    (words,) = seen
    bits = params.modulus_bits
    target = (vectors[WHO] + CLIENTS * params.encoding.offset) % 2**bits
    assert (words == target.astype(words.dtype)).mean() < 0.02
    high = (words >> (bits - 1)).mean()  # the top bit is as often set as not
    assert abs(high - 0.5) < 4 / np.sqrt(len(words)) / 2


def test_an_active_round_ends_before_anything_is_unmasked(suppression):
    """The target and the others signed different models: none accepts the others' signatures."""
    vectors, models = suppression
    params = round_for(SIGNED["active"], vectors)
    play = Play(params, vectors=vectors, model=models[WHO], models=models)
    play.until(Phase.CONSISTENCY_CHECK)
    signatures = []
    for index in range(CLIENTS):
        reply = messages.decode(play.answer(index, play.ask(index)), params, peer=index)
        signatures.append(np.frombuffer(reply.signature, np.uint8))
    message = messages.SignatureSet(
        tag=play.server._tag, signers=np.ones(CLIENTS, np.bool_), signatures=np.array(signatures)
    )
    for client in play.clients:
        with pytest.raises(PeerError, match="the model differ"):
            client.unmasking(message)
