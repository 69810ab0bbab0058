from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from privagg.attacks import sensor, sensor_arithmetic, sensor_guessing, sensor_keys
from privagg.attacks.sensor import ATTACKS, SUBJECTS, Subject, audit
from privagg.attacks.sensor_active import split_view
from privagg.attacks.sensor_views import Setting, observe
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.protocols.sensor import Deployment, Keys, Protocol, simulate


@pytest.fixture(scope="module")
def found():
    return audit(runs=300, seed=11)


def rates(found, protocol, drops=0, keys=Keys.UNIQUE):
    subject = Subject(protocol=Protocol(protocol), drops=drops, keys=keys)
    return {f.attack: f for f in found.findings if f.subject == subject}


@pytest.mark.parametrize("protocol", ["cpda", "cpda-sen-checked", "cpda-sen-efficient"])
def test_the_modulo_attack_finds_every_reading(found, protocol):
    """In all runs whose seed exceeds the readings, also where all of Sen's checks pass."""
    finding = rates(found, protocol)["modulo"]
    assert finding.runs > 500
    assert finding.recovered == finding.runs
    assert finding.leak


def test_a_member_reads_all_others_in_the_share_protocols(found):
    for protocol in ("cpda", "cpda-sen-checked"):
        assert rates(found, protocol)["modulo-member"].rate == 1
    assert "modulo-member" not in rates(found, "cpda-sen-efficient")


def test_the_seed_check_stops_the_attack_as_published_and_not_the_leak(found):
    assert rates(found, "cpda")["division"].rate == 1
    checked = rates(found, "cpda-sen-checked")
    assert checked["division"].runs == 0
    assert checked["modulo"].rate == 1


def test_a_tiny_seed_reads_real_masks(found):
    assert rates(found, "cpda")["tiny-seed"].rate == 1


def test_an_eavesdropper_reads_sums_sent_in_clear(found):
    assert rates(found, "cpda")["crt"].rate == 1
    for protocol in ("cpda-field", "mask-cluster"):
        assert not rates(found, protocol)["crt"].leak


SOUND = [("cpda-field", 0), ("cpda-field", 1), ("mask-cluster", 0)]


@pytest.mark.parametrize(("protocol", "drops"), SOUND)
def test_what_holds_gives_no_attack_more_than_guessing(found, protocol, drops):
    """But for extreme sums, which no protocol that adds prevents."""
    findings = rates(found, protocol, drops)
    expected = {"modulo", "division", "tiny-seed", "crt", "repeated-run", "phantom-members"}
    expected |= {"collusion", "extreme-sums"}
    expected |= {"split-view"} if drops else set()
    assert expected <= set(findings)
    for name, finding in findings.items():
        if name in ("split-view-beyond", "collusion-beyond"):
            assert finding.rate == 1
            assert finding.kind == "beyond the bound"
        elif name == "extreme-sums":
            assert finding.kind == "inherent"
            assert finding.rate == 1
        else:
            assert finding.kind == "no better than guessing", name
            assert finding.p_value >= sensor.SIGNIFICANCE


def test_members_refuse_a_second_run_and_phantoms(found):
    for protocol, drops in SOUND:
        findings = rates(found, protocol, drops)
        assert findings["repeated-run"].note == "Refused by a member in 30 runs."
        assert findings["phantom-members"].note == "Refused by the victim in 30 runs."
    for protocol in ("cpda", "cpda-sen-efficient", "cpda-sen-checked"):
        assert rates(found, protocol)["repeated-run"].rate == 1
        assert rates(found, protocol)["phantom-members"].rate == 1


def test_keys_from_a_pool_leak(found):
    findings = rates(found, "cpda-field", keys=Keys.POOL)
    assert findings["phantom-members"].rate == 1
    assert findings["phantom-members"].leak
    many = audit(protocols=["cpda-field"], attacks=["key-pool"], runs=3000, seed=2)
    pool = rates(many, "cpda-field", keys=Keys.POOL)["key-pool"]
    # two links of three members, each known to some of 26 nodes with 1 - 0.98**26 = 0.41
    assert pool.rate == pytest.approx(0.41**2, abs=0.07)
    assert pool.leak
    assert not rates(many, "cpda-field")["key-pool"].leak


@pytest.mark.parametrize(
    ("m", "drops"), [(3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (5, 2), (6, 2), (7, 2), (7, 3)]
)
def test_the_split_view_leaks_exactly_beyond_its_bound(m, drops):
    """2 t - k <= m, of all numbers of colluders below t."""
    t = m - drops
    setting = Setting(entropy=from_seed(m), runs=20, party_runs=12, members=m)
    subject = Subject(protocol=Protocol.CPDA_FIELD, drops=drops)
    for k in range(1, t):
        trial = split_view(subject, setting, k)
        if 2 * t - k <= m:
            assert trial.recovered == trial.runs, (m, drops, k)
        elif k < m - 1:
            assert trial.recovered < trial.runs / 2, (m, drops, k)


@pytest.mark.parametrize("m", [3, 4, 6])
def test_coalitions_of_all_sizes(m):
    """m - 2 colluders learn the sum of the other two; m - 1 the last reading."""
    members = Setting(entropy=from_seed(1), runs=400, members=m)
    for protocol in (Protocol.CPDA_FIELD, Protocol.MASK_CLUSTER):
        subject = Subject(protocol=protocol)
        for k in range(1, m):
            trial = sensor_arithmetic.collusion(subject, members, k)
            if k == m - 1:
                assert trial.recovered == trial.runs
            else:
                p_value = sensor_guessing.tail(trial.runs, trial.recovered, trial.chance)
                assert p_value > sensor.SIGNIFICANCE


@pytest.mark.parametrize("seed_max", [215, 256])
def test_colluders_pool_their_seeds(seed_max):
    """A leader's own seed may be too small; that of three seeds none is, or all together do."""
    setting = Setting(entropy=from_seed(5), runs=1500, members=5, seed_max=seed_max)
    subject = Subject(protocol=Protocol.CPDA)
    alone = sensor_arithmetic.collusion(subject, setting, 1)
    assert 0.4 < alone.recovered / alone.runs < 0.85
    three = sensor_arithmetic.collusion(subject, setting, 3)
    assert three.recovered >= 0.998 * three.runs
    all_but_one = sensor_arithmetic.collusion(subject, setting, 4)
    assert all_but_one.recovered == all_but_one.runs


def test_small_seeds_leak_the_reading_modulo_the_seed():
    """With a seed x the leader knows b mod x: all of b once x exceeds it, else part of it."""
    setting = Setting(entropy=from_seed(4), runs=2000, members=3)
    view = observe(Subject(protocol=Protocol.CPDA), setting, seed_max=60)
    seeds = view.points[:, 0].astype(np.int64)
    residues = view.sent[:, 1, 0] % view.points[:, 0]
    assert np.array_equal(residues.astype(np.int64), view.values[:, 1] % seeds)


# Guessing and the test.


@pytest.mark.parametrize("honest", [1, 2, 3, 4])
def test_the_best_guess_is_that_of_all_readings(honest):
    """Against enumeration of all readings from 0 to 4."""
    grids = np.array(np.meshgrid(*[range(5)] * honest)).reshape(honest, -1)
    totals = grids.sum(axis=0)
    for total in range(4 * honest + 1):
        first = grids[0, totals == total]
        counts = np.bincount(first, minlength=5)
        guess, chance = sensor_guessing.best_guess(np.array([total]), honest, 4)
        assert chance[0] == pytest.approx(counts.max() / counts.sum())
        assert counts[guess[0]] == counts.max()
    mode, chance = sensor_guessing.best_guess_of_sum(honest, 4)
    counts = np.bincount(totals)
    assert chance == pytest.approx(counts.max() / counts.sum())
    assert counts[mode] == counts.max()


@pytest.mark.parametrize(
    ("runs", "recovered", "chance"),
    [(10, 3, 0.1), (1000, 9, 0.01), (1000, 40, 0.01), (5, 5, 0.5), (4000, 60, 0.017), (3, 0, 0.2)],
)
def test_the_tail_is_that_of_the_binomial(runs, recovered, chance):
    expected = stats.binom.sf(recovered - 1, runs, chance)
    assert sensor_guessing.tail(runs, recovered, chance) == pytest.approx(expected, rel=1e-9)


def test_the_tail_at_its_ends():
    assert sensor_guessing.tail(5, 2, 0.0) == 0
    assert sensor_guessing.tail(5, 2, 1.0) == 1
    assert sensor_guessing.tail(0, 0, 0.3) == 1
    for bad in ((5, 6, 0.1), (-1, 0, 0.1), (5, 1, 1.5)):
        with pytest.raises(UsageError):
            sensor_guessing.tail(*bad)


# P(q).


@pytest.mark.parametrize(
    ("slices", "expected"), [(2, (3.7e-3, 1.9e-2, 4.1e-2)), (3, (1.4e-5, 3.7e-4, 1.7e-3))]
)
def test_disclosure_of_slices(slices, expected):
    """A reference for slices given at random, Poisson; and a network, in which they nearly are."""
    law = {k: float(stats.poisson.pmf(k, slices - 1)) for k in range(40)}
    run = simulate(
        Deployment(nodes=600, area=400, range=50, seed=2),
        protocol="smart",
        slices=slices,
        transcript=True,
    )
    given = Counter(e.receiver for e in run.transcript if e.kind == "Slice")
    counts = Counter(given.get(node, 0) for node in range(600))
    seen = {k: nodes / 600 for k, nodes in counts.items()}
    for q, value in zip((0.01, 0.05, 0.1), expected, strict=True):
        poisson = sensor_keys.disclosure_of_slices(q, slices, law)
        assert poisson == pytest.approx(value, rel=0.03)
        assert sensor_keys.disclosure_of_slices(q, slices, seen) == pytest.approx(poisson, rel=0.3)


def test_disclosure_formula_overstates_the_exact_value_of_three():
    for q in (0.01, 0.1, 0.3, 0.5):
        formula = sensor_keys.disclosure(q, {3: 1.0})
        assert formula >= sensor_keys.exact_of_three(q)
        exact = sum(  # links AB, AC, BC: exposed if two or all are known
            q ** sum(links) * (1 - q) ** (3 - sum(links))
            for links in np.ndindex(2, 2, 2)
            if sum(links) >= 2
        )
        assert sensor_keys.exact_of_three(q) == pytest.approx(exact)
    assert sensor_keys.disclosure(0.1, {3: 1.0}) == pytest.approx(0.0297, abs=1e-4)
    assert sensor_keys.disclosure(0.3, {5: 1.0}) == pytest.approx(0.0399, abs=1e-4)


# The audit.


def test_names_are_checked_and_a_seed_repeats():
    for changes in ({"attacks": ["magic"]}, {"protocols": ["tap"]}, {"runs": 0}, {"members": 2}):
        with pytest.raises(UsageError):
            audit(seed=1, **changes)
    one, two = (audit(protocols=["cpda"], attacks=["modulo"], runs=50, seed=3) for _ in range(2))
    assert one.findings == two.findings
    assert one.insecure_seed
    assert not audit(protocols=["tag"], attacks=["crt"], runs=10).insecure_seed
    assert one.leak
    assert one.of("cpda") == list(one.findings)
    steps = []
    audit(protocols=["tag"], runs=10, progress=lambda *step: steps.append(step))
    assert steps[-1] == ("attacks", len(ATTACKS), len(ATTACKS))


def test_every_protocol_and_every_attack_is_in_the_table(found):
    assert {f.subject.protocol for f in found.findings} == set(Protocol)
    assert {f.attack for f in found.findings} == set(ATTACKS)
    assert len(SUBJECTS) == 10
    assert rates(found, "tag")["modulo"].leak
    for protocol in ("smart", "cmt"):
        assert not any(f.leak for f in rates(found, protocol).values())
