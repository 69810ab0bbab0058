"""The audit of a participation log: gains, cosines, schedules, and what it says as a whole."""

import numpy as np
import pytest

from privagg import entropy
from privagg.attacks import linear
from privagg.attacks.linear import Log, audit, compare_schedules, schedule
from privagg.attacks.linear_gain import noise_gains
from privagg.errors import UsageError

SEEDED = entropy.from_seed(11)


def test_a_log_with_one_absent_client():
    log = Log.of_triples(
        [("ann", 1), ("bob", 1), ("cy", 1), ("ann", 2), ("bob", 2), ("dan", 4), ("bob", 4)]
    )
    found = audit(log)
    assert log.missing == (3,)
    assert found.recoverable == ("cy",)
    assert found.first_exposed == {"cy": "2"}
    assert found.noise_gain == {"cy": pytest.approx(np.sqrt(2))}
    # Round 1 has three inputs, round 2 has two: variance 3 + 2.
    assert found.cosine == {"cy": pytest.approx(1 / np.sqrt(6))}
    assert found.pairs.first.tolist() == [[0, 1, 2]]
    assert found.coalition.members == (2,)
    assert found.exposure.curve.tolist() == [0, 1, 1]
    assert found.rank == 3
    assert found.absent == ()


def test_nothing_is_determined_in_batches_of_two():
    log = Log.of_matrix(np.kron(np.eye(3, dtype=int), [1, 1]), list("abcdef"))
    found = audit(log)
    assert found.recoverable == ()
    assert found.first_exposed == {}
    assert (found.coalition.least, len(found.coalition.members), found.coalition.exact) == (
        2,
        2,
        True,
    )
    assert found.coalition.factors == (1, 1)


def test_clients_that_never_came():
    found = audit(Log.of_matrix([[0, 1, 0]], ["a", "b", "c"]))
    assert found.absent == ("a", "c")
    assert found.recoverable == ("b",)


@pytest.mark.parametrize(("n", "rounds"), [(8, 20), (8, 8), (12, 9), (10, 200)])
@pytest.mark.parametrize("kind", ["bits", "weights", "unequal"])
def test_gains_are_those_of_the_pseudo_inverse(n, rounds, kind):
    generator = np.random.default_rng(n + rounds)
    weights = (generator.random((rounds, n)) < 0.5).astype(float)
    if kind == "weights":
        weights *= generator.integers(1, 100, size=n)
    if kind == "unequal":
        weights[:, -2:] = weights[:, -1:]  # two clients that are always together: rank deficient
    found = audit(Log.of_matrix(weights), variation=0.7, noise=0.3)
    inverse = np.linalg.pinv(weights)
    columns = found.order
    determined = np.isclose(np.diag(inverse @ weights), 1.0, atol=1e-9)
    assert sorted(columns) == np.flatnonzero(determined).tolist()
    gain = np.linalg.norm(inverse[columns], axis=1)
    assert np.allclose(list(found.noise_gain.values()), gain)
    assert found.gains.reliable.all()
    variance = 0.49 * inverse[columns] ** 2 @ (weights**2).sum(axis=1) + 0.09 * gain**2
    assert np.allclose(list(found.cosine.values()), 1 / np.sqrt(1 + variance))


def test_gains_of_independent_rounds():
    weights = np.array([[1.0, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 5]])
    found = audit(Log.of_matrix(weights))
    assert found.recoverable == ("2", "3")
    assert found.noise_gain == {"2": pytest.approx(np.sqrt(2)), "3": pytest.approx(0.2)}


def test_equal_cohorts_take_the_short_way_to_the_same_gains():
    log = schedule("uniform", 12, 4, 40, entropy=SEEDED)
    columns = np.arange(12)
    fast = noise_gains(log.weights, columns, 12)
    shuffled = np.concatenate([log.weights, np.zeros((1, 12), np.int64)])  # cohorts differ now
    slow = noise_gains(shuffled, columns, 12)
    assert np.allclose(fast.gain, slow.gain)
    assert np.allclose(fast.inputs, slow.inputs)
    assert fast.reliable.all()
    assert slow.reliable.all()


def test_hopeless_conditioning_is_said():
    weights = np.array([[1.0, 1.0], [1.0, 1.0 + 2**-52]])
    found = audit(Log.of_matrix(weights))
    assert found.recoverable == ("0", "1")  # exact: the sums differ
    assert not found.gains.reliable.any() or min(found.noise_gain.values()) > 1e14
    tiny = audit(Log.of_matrix([[2.0**-1000, 2.0**-1000], [0.0, 2.0**-1000]]))
    assert all(np.isfinite(value) for value in tiny.noise_gain.values())
    assert tiny.recoverable == ("0", "1")


def test_cosines_are_those_of_recovered_updates():
    # As measured: mean cosine over clients of what least squares recovers from varying updates.
    generator = np.random.default_rng(5)
    n, rounds, dim = 20, 80, 4000
    log = schedule("uniform", n, 5, rounds, entropy=SEEDED)
    found = audit(log, variation=1.0)
    assert len(found.recoverable) == n
    means = generator.standard_normal((n, dim)) / np.sqrt(dim)
    sums = np.zeros((rounds, dim))
    for time, row in enumerate(log.weights):
        for client in np.flatnonzero(row):
            sums[time] += means[client] + generator.standard_normal(dim) / np.sqrt(dim)
    recovered = np.linalg.pinv(log.weights) @ sums
    cosine = (recovered * means).sum(axis=1) / np.linalg.norm(recovered, axis=1)
    cosine /= np.linalg.norm(means, axis=1)
    predicted = [found.cosine[str(client)] for client in range(n)]
    assert np.allclose(cosine, predicted, atol=0.06)
    assert abs(float(np.mean(cosine) - np.mean(predicted))) < 0.02


def test_schedules_have_their_shape():
    uniform = schedule("uniform", 30, 7, 50, entropy=SEEDED)
    assert (uniform.cohorts == 7).all()
    skewed = schedule("skewed", 30, 7, 50, entropy=SEEDED)
    assert (skewed.cohorts == 7).all()
    assert np.ptp(skewed.weights.sum(axis=0)) > np.ptp(uniform.weights.sum(axis=0))
    batches = schedule("batches", 30, 7, 50, entropy=SEEDED)
    assert np.linalg.matrix_rank(batches.weights) <= 4
    assert (batches.weights.sum(axis=0) == 0).sum() >= 2
    dropouts = schedule("dropouts", 30, 27, 50, entropy=SEEDED)
    assert 24 < dropouts.cohorts.mean() < 29


def test_schedules_compared():
    steps = []
    found = compare_schedules(
        40, 8, 90, entropy=SEEDED, progress=lambda done, of: steps.append((done, of))
    )
    by_name = {one.name: one for one in found}
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert by_name["batches"].exposed == 0
    assert by_name["batches"].rank == 5
    assert by_name["uniform"].exposed == 40
    first = by_name["uniform"].rounds_to(0, 40)
    assert 30 < first <= by_name["uniform"].rounds_to(1, 40) < 60
    assert by_name["batches"].rounds_to(0, 40) is None
    nearly_all = compare_schedules(40, 39, 40, names=["dropouts"], entropy=SEEDED)[0]
    assert nearly_all.rounds_to(0, 40) < 10


def test_wrong_schedules_are_refused():
    for argument, wrong in [
        ("name", lambda: schedule("random", 5, 2, 3)),
        ("clients", lambda: schedule("uniform", 0, 1, 3)),
        ("cohort", lambda: schedule("uniform", 5, 6, 3)),
        ("rounds", lambda: schedule("uniform", 5, 2, 0)),
    ]:
        with pytest.raises(UsageError) as caught:
            wrong()
        assert caught.value.argument == argument


def test_the_audit_agrees_with_brute_force_on_many_small_logs():
    generator = np.random.default_rng(2)
    for _ in range(60):
        rounds, n = generator.integers(1, 7), generator.integers(1, 6)
        weights = (generator.random((rounds, n)) < 0.5).astype(int)
        found = audit(Log.of_matrix(weights), entropy=SEEDED)
        curve = []
        for time in range(rounds):
            part = weights[: time + 1]
            rank = np.linalg.matrix_rank(part)
            units = [np.vstack([part, unit]) for unit in np.eye(n)]
            curve.append(sum(np.linalg.matrix_rank(unit) == rank for unit in units))
        assert found.exposure.curve.tolist() == curve
        assert found.rank == np.linalg.matrix_rank(weights)
        assert len(found.recoverable) == curve[-1]
        assert set(found.first_exposed) == set(found.noise_gain) == set(found.recoverable)


def test_progress_is_told():
    steps = []
    log = schedule("batches", 6, 2, 600, entropy=SEEDED)
    audit(log, progress=lambda done, of: steps.append((done, of)))
    assert steps == [(256, 600), (512, 600), (600, 600)]
    assert linear.audit is audit
