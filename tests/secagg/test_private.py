"""Distributed noise through whole rounds: residues are added exactly, the guarantee is reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privagg import entropy
from privagg.encoding import Encoding
from privagg.errors import UsageError
from privagg.protocols import lightsecagg, secagg
from privagg.protocols.secagg.private import (
    NoisyInputs,
    calibrated,
    private_params,
    run_private,
)

KINDS = ("discrete-gaussian", "skellam", "poisson-binomial")


def cohort(**changes):
    settings = {"clients": 12, "dim": 50, "clip": 1.0, "corrupt": 0.1, "dropout": 0.25}
    return secagg.Params.recommend(**settings | changes)


def vectors(clients=12, dim=50):
    drawn = np.random.default_rng(4).normal(size=(clients, dim))
    return drawn / np.linalg.norm(drawn, axis=1)[:, None] * np.linspace(0.5, 1.5, clients)[:, None]


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_with_dropouts(kind):
    params = cohort()
    mechanism = calibrated(params, kind, epsilon=8.0, delta=1e-5)
    assert mechanism.honest == params.honest_inputs == params.min_cohort - 1
    found = run_private(
        params,
        mechanism,
        vectors(),
        entropy=entropy.from_seed(2),
        dropouts={3: "masked-input", 11: "unmasking"},
        seed=1,
    )
    assert found.result.exact
    assert found.result.count == 11
    assert found.result.params.modulus_bits == mechanism.modulus_bits
    assert found.clipped == 6  # clients 6 to 11 are longer than 1
    assert found.worst.epsilon <= 8.0
    assert found.guarantee.honest == 10
    assert found.guarantee.epsilon < found.worst.epsilon
    assert found.error == pytest.approx(found.noisy.deviation, rel=0.5)
    assert found.sum.shape == (50,)
    assert np.allclose(found.mean, found.sum / 11)


def test_trees_come_back_as_trees():
    trees = [{"w": row[:40].reshape(8, 5), "b": row[40:]} for row in vectors()]
    params = cohort()
    mechanism = calibrated(params, epsilon=8.0)
    found = run_private(params, mechanism, trees, seed=1)
    assert {name: part.shape for name, part in found.sum.items()} == {"w": (8, 5), "b": (10,)}
    flat = np.concatenate([found.sum["w"].ravel(), found.sum["b"]])
    assert np.allclose(flat, found.noisy.total)


def test_noise_is_fresh_unless_seeded():
    params = cohort()
    mechanism = calibrated(params, epsilon=8.0)
    own = NoisyInputs(mechanism, vectors(), b"r")
    assert not np.array_equal(own[0], own[0])
    seeded = NoisyInputs(mechanism, vectors(), b"r", entropy.from_seed(1))
    assert np.array_equal(seeded[0], seeded[0])
    assert not np.array_equal(seeded[0], NoisyInputs(mechanism, vectors(), b"s")[0])


def test_a_sum_with_fewer_honest_inputs_than_the_noise_needs_is_refused():
    params = cohort()
    mechanism = calibrated(params, epsilon=8.0)
    with pytest.raises(UsageError, match="honest"):
        private_params(replace(mechanism, honest=mechanism.honest + 1), params)
    with pytest.raises(UsageError, match="clients"):
        private_params(mechanism, cohort(clients=14))
    with pytest.raises(UsageError, match="weights"):
        run_private(params, mechanism, vectors(), weights=[1] * 12)
    weighted = cohort(weighted=True, max_weight=3)
    with pytest.raises(UsageError, match="weight"):
        private_params(mechanism, weighted)


# Residues in the encoding.


def test_residues_wrap_and_are_centred():
    ring = Encoding(kind="ring", value_bits=8)
    assert ring.modulus_bits(1) == ring.modulus_bits(2**20) == 8
    assert ring.encode(np.array([0, 255]), clients=3).words.tolist() == [0, 255]
    found = ring.decode(np.array([0, 127, 128, 255], np.uint32), count=3)
    assert found.total.tolist() == [0, 127, -128, -1]
    assert ring.rounding_bound(3) == 0.0
    for vector in (np.array([256]), np.array([-1]), np.array([0.5])):
        with pytest.raises(UsageError):
            ring.encode(vector, clients=3)
    with pytest.raises(UsageError, match="at most 255"):
        ring.decode(np.array([256], np.uint32), count=3)
    for changes in ({"signed": True}, {"weighted": True}, {"clip": 1.0}):
        with pytest.raises(UsageError):
            Encoding(kind="ring", value_bits=8, **changes)


@pytest.mark.parametrize("bits", [8, 32])
def test_a_round_of_residues_adds_modulo(bits):
    params = replace(cohort(clip=None), encoding=Encoding(kind="ring", value_bits=bits))
    words = np.random.default_rng(0).integers(0, 2**bits, size=(12, 50))
    found = secagg.run(params, words, seed=1, dropouts={0: "masked-input"})
    half = 2 ** (bits - 1)
    assert found.exact
    assert np.array_equal(found.sum, (words[1:].sum(axis=0) + half) % (2 * half) - half)
    assert params.capacity() >= 12


def test_a_prime_field_holds_no_residues():
    params = lightsecagg.Params.recommend(clients=12, dim=50)
    with pytest.raises(UsageError, match="ring"):
        replace(params, encoding=Encoding(kind="ring", value_bits=8))


def test_seeded_noise_is_marked_insecure_though_the_round_is_not():
    params = cohort(clients=4, dim=4)
    mechanism = calibrated(params, epsilon=8.0, delta=1e-5)
    seeded = run_private(params, mechanism, np.ones((4, 4)), entropy=entropy.from_seed(1))
    assert seeded.result.insecure_seed
    assert not run_private(params, mechanism, np.ones((4, 4))).result.insecure_seed


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("params", None),
        ("mechanism", None),
        ("vectors", None),
        ("vectors", []),
        ("vectors", 3),
        ("entropy", 3),
    ],
)
def test_arguments_of_a_private_round_are_checked(name, bad):
    params = cohort(clients=4, dim=4)
    mechanism = calibrated(params, epsilon=8.0, delta=1e-5)
    given = {"params": params, "mechanism": mechanism, "vectors": np.ones((4, 4))} | {name: bad}
    with pytest.raises(UsageError, match=name):
        run_private(**given)
