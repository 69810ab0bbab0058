"""What goes in and what comes out: limits met exactly, everything else refused by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from parties import ALL, BOTH, answered, complete, inputs, phases, sparse, spoken

from privagg.errors import Abort, CapacityError, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import messages


def run(params, vectors, **options):
    return secagg.run(params, vectors, **({"seed": 1} | options))


# The modulus holds the largest sum and not one more.


@pytest.mark.parametrize(
    ("clients", "value_bits", "max_weight"),
    [
        (3, 1, 1),  # 3 of 2 bits: the modulus is 4, and the sum its last value
        (5, 2, 1),  # 15 of 4 bits: likewise
        (9, 3, 1),  # 63
        (17, 4, 1),  # 255
        (2, 32, 1),  # the first that needs 64-bit words
        (4, 16, 1),
        (3, 5, 11),  # 1023: weights included
        (3, 32, 2**28),  # 62 bits, the most there is
    ],
)
def test_everyone_at_the_maximum_does_not_wrap(clients, value_bits, max_weight):
    options = {"weighted": True, "max_weight": max_weight} if max_weight > 1 else {}
    params = complete(clients, 3, value_bits=value_bits, **options)
    largest = clients * max_weight * (2**value_bits - 1)
    assert largest < 2**params.modulus_bits <= 2 * largest + 1
    assert params.capacity() >= clients
    vectors = np.full((clients, 3), 2**value_bits - 1)
    weights = [max_weight] * clients if options else None
    result = run(params, vectors, weights=weights)
    assert result.exact
    assert result.sum.tolist() == [largest] * 3
    assert result.weight_total == clients * max_weight


def test_some_of_these_fill_the_modulus_to_the_last_value():
    for clients, value_bits in ((3, 1), (5, 2), (9, 3), (17, 4)):
        params = complete(clients, 1, value_bits=value_bits)
        assert clients * (2**value_bits - 1) == 2**params.modulus_bits - 1
        assert params.capacity() == clients


def test_one_bit_more_is_refused_before_anything_is_sent():
    with pytest.raises(CapacityError, match="Nearest that fit"):
        complete(4, 3, value_bits=32, weighted=True, max_weight=2**29)
    with pytest.raises(CapacityError):
        replace(
            complete(3, 3, value_bits=32, weighted=True, max_weight=2**28),
            clients=9,
            neighbours=8,
        )


@pytest.mark.parametrize("extreme", [-(2**8), 2**8 - 1])
def test_signed_extremes(extreme):
    params = complete(5, 2, value_bits=9, signed=True)
    result = run(params, np.full((5, 2), extreme), dropouts={3: "masked-input"})
    assert result.sum.tolist() == [4 * extreme] * 2
    with pytest.raises(UsageError, match=r"client 0: vector"):
        run(params, np.full((5, 2), extreme + (1 if extreme > 0 else -1)))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("value_bits", [1, 16, 32])
def test_floats_at_and_beyond_the_clip(sign, value_bits):
    params = complete(4, 3, clip=0.75, value_bits=value_bits)
    result = run(params, np.full((4, 3), sign * 0.75))
    assert result.clipped == 0
    np.testing.assert_allclose(result.sum, sign * 3.0, rtol=1e-12)
    result = run(params, np.full((4, 3), sign * 1e300))
    assert result.clipped == 12
    np.testing.assert_allclose(result.sum, sign * 3.0, rtol=1e-12)
    assert result.exact


# What is refused, naming the client and the place.


@pytest.mark.parametrize("graph", BOTH)
@pytest.mark.parametrize("bad", [2**16, -1, 2**40, -(2**63)])
def test_integers_out_of_range_name_client_and_index(graph, bad):
    params = BOTH[graph](6, 5)
    vectors = inputs(params).astype(np.int64)
    vectors[4, 3] = bad
    with pytest.raises(UsageError, match=rf"client 4: vector: found {bad} at index 3;.* 65535"):
        run(params, vectors)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_nan_and_infinity_name_client_and_index(bad, dtype):
    params = complete(4, 5, clip=1.0)
    vectors = inputs(params).astype(dtype)
    vectors[2, 4] = bad
    with pytest.raises(UsageError, match=rf"client 2: vector: found {bad} at index 4"):
        run(params, vectors)


def test_a_bad_vector_of_a_client_that_has_left_is_not_asked_for():
    params = complete(4, 3)
    vectors = inputs(params).astype(np.int64)
    expected = vectors[[0, 1, 3]].sum(axis=0)
    vectors[2] = -5
    result = run(params, vectors, dropouts={2: "masked-input"})
    np.testing.assert_array_equal(result.sum, expected)


@pytest.mark.parametrize(
    "vectors",
    [
        [],
        [[1, 2, 3]] * 3,
        [[1, 2, 3]] * 5,
        np.zeros((4, 0), int),
        np.zeros((4, 2), int),
        np.zeros((4, 3), bool),
        np.zeros((4, 3), complex),
        np.zeros((4, 3), object),
        np.zeros((4, 3), "U1"),
        np.zeros((4, 3), "datetime64[s]"),
        np.array(3),
        np.zeros(4, int),
        [np.zeros(3, int)] * 3 + [np.zeros(2, int)],
        [np.zeros(3, int)] * 3 + [np.zeros((3, 1), int)],
        [np.zeros(3, int)] * 3 + [np.zeros(3, bool)],
        [np.zeros(3, int)] * 3 + [None],
        [{"a": np.zeros(3, int)}] * 3 + [{"b": np.zeros(3, int)}],
        [{}] * 4,
        [True, False, True, True],
        "abcd",
        None,
        3,
        {0: 1, 1: 1, 2: 1, 3: 1},
        iter([[1, 2, 3]] * 4),
    ],
    ids=lambda value: f"{type(value).__name__}-{str(value)[:12]}",
)
def test_other_shapes_and_types_are_refused(vectors):
    with pytest.raises(UsageError):
        run(complete(4, 3), vectors)


def test_floats_for_integers_and_the_refusal_of_silent_rounding():
    with pytest.raises(UsageError, match="float64"):
        run(complete(4, 3), np.full((4, 3), 1.0))
    result = run(complete(4, 3, clip=10.0), np.full((4, 3), 7))
    np.testing.assert_allclose(result.sum, 28.0, atol=result.error_bound)


@pytest.mark.parametrize("dim", [0, -1, 1.0, True, "3", 2**50])
def test_dims_that_are_none(dim):
    with pytest.raises(UsageError, match="dim"):
        secagg.Params.recommend(clients=4, dim=dim)


@pytest.mark.parametrize("graph", BOTH)
@pytest.mark.parametrize("options", [{}, {"clip": 1.0}, {"weighted": True, "max_weight": 5}])
def test_one_coordinate(graph, options):
    params = BOTH[graph](6, 1, **options)
    vectors = inputs(params)
    weights = [1, 2, 3, 4, 5, 0] if params.encoding.weighted else None
    result = run(params, vectors, weights=weights)
    factors = np.ones(6, int) if weights is None else np.array(weights)
    assert result.sum.shape == (1,)
    np.testing.assert_allclose(result.sum, factors @ vectors, atol=result.error_bound)


def test_a_single_client_is_no_round():
    with pytest.raises(UsageError, match="clients: found 1; allowed: 2"):
        secagg.Params.recommend(clients=1, dim=3)
    with pytest.raises(UsageError, match="clients"):
        secagg.Params.recommend(clients=0, dim=3)


def test_two_clients_are_one():
    """The smallest round; lists come back as lists."""
    result = run(complete(2, 2), [[1, 2], [30, 40]])
    assert result.sum == [31, 42]
    with pytest.raises(Abort):
        run(complete(2, 2), [[1, 2], [30, 40]], dropouts={0: "unmasking"})


def test_fewer_clients_than_the_threshold():
    with pytest.raises(UsageError, match="threshold"):
        complete(3, 2, threshold=4)
    params = complete(5, 2, threshold=4)
    for name in ("advertise-keys", "share-keys", "masked-input", "unmasking"):
        with pytest.raises(Abort) as caught:
            run(params, inputs(params), dropouts={0: name, 1: name})
        assert (caught.value.alive, caught.value.needed) == (3, 4)
        assert name in caught.value.reason


# Weights.


def test_weights_of_zero_count_for_nothing_but_take_part():
    params = complete(4, 2, weighted=True, max_weight=3)
    vectors = inputs(params)
    result = run(params, vectors, weights=[0, 3, 0, 1])
    np.testing.assert_array_equal(result.sum, 3 * vectors[1] + vectors[3])
    assert (result.weight_total, result.count) == (4, 4)
    np.testing.assert_allclose(result.mean, result.sum / 4)


@pytest.mark.parametrize("graph", BOTH)
def test_weights_all_zero_have_no_mean(graph):
    params = BOTH[graph](6, 2, weighted=True, max_weight=3)
    with pytest.raises(UsageError, match="every survivor had weight 0"):
        run(params, inputs(params), weights=[0] * 6)


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        (None, "weights"),
        ([1, 2, 3], "3 weights"),
        ([1] * 5, "5 weights"),
        (3, "weights"),
        ({0: 1, 1: 1, 2: 1, 3: 1}, "weights"),
        ([1, 2, 4, 3], "client 2: weight"),
        ([1, 2, -1, 3], "client 2: weight"),
        ([1, 2, 1.5, 3], "client 2: weight"),
        ([1, 2, True, 3], "client 2: weight"),
        ([1, 2, None, 3], "client 2: weight"),
        (["1", "2", "3", "3"], "client 0: weight"),
    ],
    ids=str,
)
def test_wrong_weights_are_refused(weights, match):
    params = complete(4, 2, weighted=True, max_weight=3)
    with pytest.raises(UsageError, match=match):
        run(params, inputs(params), weights=weights)


@pytest.mark.parametrize("weights", [[1, 1, 1, 1], np.ones(4, int), np.zeros(4, int), []])
def test_weights_in_a_round_without_are_refused(weights):
    params = complete(4, 2)
    with pytest.raises(UsageError, match="weights exactly when"):
        run(params, inputs(params), weights=weights)


def test_weights_may_be_an_array():
    params = complete(4, 2, weighted=True, max_weight=3)
    result = run(params, inputs(params), weights=np.array([1, 2, 3, 1], np.uint8))
    assert result.weight_total == 7
    assert result.exact


# Trees.


def test_named_arrays_keep_names_shapes_and_dtypes():
    params = complete(3, 11, clip=4.0, value_bits=20)
    rng = np.random.default_rng(3)
    trees = [
        {
            "layer": {"weight": rng.uniform(-1, 1, (2, 3)).astype(np.float32), "bias": [1.5, 2.5]},
            "steps": (np.float16(0.25), rng.uniform(-1, 1, (1, 1, 2))),
        }
        for _ in range(3)
    ]
    result = run(params, trees)
    for found in (result.sum, result.mean):
        assert list(found) == ["layer", "steps"]
        assert list(found["layer"]) == ["weight", "bias"]
        assert found["layer"]["weight"].shape == (2, 3)
        assert found["layer"]["weight"].dtype == np.float32
        assert found["steps"][0].dtype == np.float16
        assert found["steps"][1].shape == (1, 1, 2)
        assert isinstance(found["steps"], tuple)
    expected = sum(tree["layer"]["weight"].astype(float) for tree in trees)
    np.testing.assert_allclose(result.sum["layer"]["weight"], expected, atol=1e-4)
    np.testing.assert_allclose(result.sum["layer"]["bias"], [4.5, 7.5], atol=1e-4)


def test_integer_arrays_keep_their_shape():
    params = sparse(6, 6)
    vectors = inputs(params).reshape(6, 2, 3)
    result = run(params, vectors)
    np.testing.assert_array_equal(result.sum, vectors.sum(axis=0))
    assert result.sum.dtype == np.int64
    np.testing.assert_allclose(result.mean, vectors.mean(axis=0))


# Runs.


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("options", [{}, {"clip": 1.0}])
def test_a_seed_repeats_a_run_and_marks_it_insecure(kind, options):
    params = ALL[kind](6, 3, **options)
    digests = []
    for seed in (4, 4, 5):
        log = secagg.Transcript()
        assert run(params, inputs(params), seed=seed, transcript=log).insecure_seed is True
        digests.append([entry.sha256 for entry in log])
    assert digests[0] == digests[1] != digests[2]
    logs = [secagg.Transcript() for _ in range(2)]
    for log in logs:
        assert run(params, inputs(params), seed=None, transcript=log).insecure_seed is False
    sent = [{entry.sha256 for entry in log if entry.sender != "server"} for log in logs]
    assert not sent[0] & sent[1]


@pytest.mark.parametrize("kind", ALL)
def test_a_transcript_holds_every_message_of_the_round(kind):
    """In order of the rounds, a message of the server and its answer for each client."""
    params = ALL[kind](6, 3)
    log = secagg.Transcript(payloads=True)
    result = run(params, inputs(params), transcript=log)
    names = [phase.title for phase in phases(params)]
    seen = [entry.round for entry in log]
    assert list(dict.fromkeys(seen)) == names == list(result.survivors) == list(result.bytes_up)
    kinds = list(zip(spoken(params), answered(params), strict=True))
    for name, (said, reply) in zip(names, kinds, strict=True):
        entries = [entry for entry in log if entry.round == name]
        down = [entry for entry in entries if entry.sender == "server"]
        up = [entry for entry in entries if entry.receiver == "server"]
        assert {entry.kind for entry in down} == {said.__name__}
        assert {entry.kind for entry in up} == {reply.__name__}
        assert sorted(entry.receiver for entry in down) == list(range(6))
        assert sorted(entry.sender for entry in up) == list(range(6))
        assert sum(entry.size for entry in up) == result.bytes_up[name].sum()
        assert sum(entry.size for entry in down) == result.bytes_down[name].sum()
        for entry in entries:
            message = messages.decode(entry.payload, params, peer=entry.sender)
            assert type(message).__name__ == entry.kind
            assert len(entry.payload) == entry.size


@pytest.mark.parametrize("kind", ["complete", "semi-malicious"])
def test_workers_change_nothing_but_speed(kind):
    """Long enough that unmasking is shared out, too."""
    params = ALL[kind](7, 5000, clip=1.0)
    vectors, logs = inputs(params), [secagg.Transcript() for _ in range(2)]
    results = [
        run(params, vectors, workers=workers, transcript=log, dropouts={2: "masked-input"}, seed=6)
        for workers, log in zip((1, 2), logs, strict=True)
    ]
    np.testing.assert_array_equal(results[0].sum, results[1].sum)
    assert results[1].exact
    assert list(logs[0]) == list(logs[1])


@pytest.mark.parametrize(
    "options",
    [
        {"dropouts": {0: "lunch"}},
        {"dropouts": {4: "unmasking"}},
        {"dropouts": {-1: "unmasking"}},
        {"dropouts": {True: "unmasking"}},
        {"dropouts": {"0": "unmasking"}},
        {"dropouts": {0: 3}},
        {"dropouts": [0, 1]},
        {"dropouts": "unmasking"},
        {"workers": 0},
        {"workers": True},
        {"workers": 1.5},
        {"seed": -1},
        {"seed": 2**64},
        {"seed": "1"},
        {"seed": True},
        {"policy": 3},
    ],
    ids=str,
)
def test_other_arguments_are_refused_by_name(options):
    params = complete(4, 3)
    with pytest.raises(UsageError, match=next(iter(options))):
        run(params, inputs(params), **options)


def test_parameters_must_be_parameters():
    with pytest.raises(UsageError, match="params"):
        secagg.run({"clients": 4}, [[1]] * 4)
    with pytest.raises(UsageError):
        messages.decode("text", complete(3), peer=0)
