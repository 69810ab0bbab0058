"""Attacks on reports: as strong as theory says, and never stronger."""

from __future__ import annotations

import importlib.util
import math
import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from privagg.attacks import ldp
from privagg.attacks.ldp_attribute import attribute_posterior
from privagg.attacks.ldp_binomial import lower_bound, upper_bound
from privagg.attacks.ldp_distinguisher import tuple_log_ratio, worst_pair
from privagg.attacks.ldp_guess import guessing_rate, supports
from privagg.attacks.ldp_poisoning import crafted_rows
from privagg.domain import Categorical
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms import Reports, make
from privagg.protocols.multidim import (
    Aggregator,
    Params,
    Priors,
    PrivacyWarning,
    TupleReports,
    randomize_codes,
)

sys.path.append(str(Path(__file__).resolve().parent.parent / "multidim"))
import surveys


def oracle(name, k, epsilon):
    return make(name, Categorical(range(k)), epsilon)


@pytest.mark.parametrize("hits", [0, 1, 7, 100, 499, 500])
@pytest.mark.parametrize("alpha", [0.005, 0.05, 0.5])
def test_binomial_bounds(hits, alpha):
    """Against scipy's beta quantiles (Clopper and Pearson)."""
    low = stats.beta.ppf(alpha, hits, 500 - hits + 1) if hits else 0.0
    high = stats.beta.isf(alpha, hits + 1, 500 - hits) if hits < 500 else 1.0
    assert lower_bound(hits, 500, alpha) == pytest.approx(low, rel=1e-8)
    assert upper_bound(hits, 500, alpha) == pytest.approx(high, rel=1e-8)
    big = lower_bound(400_000, 10**6, alpha)
    assert big == pytest.approx(stats.beta.ppf(alpha, 400_000, 600_001), rel=1e-7)


@pytest.mark.parametrize("wrong", [(-1, 5, 0.1), (6, 5, 0.1), (1, 0, 0.1), (1, 5, 0.0), (1, 5, 1)])
def test_wrong_binomials(wrong):
    with pytest.raises(UsageError):
        lower_bound(*wrong)


@pytest.mark.parametrize("name", ldp.oracle_names())
def test_bounds_are_close_and_below(name):
    found = ldp.distinguish_oracle(oracle(name, 6, 1.0), trials=20_000, seed=2)
    assert 0.75 * found.exact < found.epsilon <= found.exact
    assert not found.exceeds


def test_a_wrong_epsilon_is_found():
    """An oracle that says 1 and has 1.5 is caught."""
    real = ldp.distinguish_oracle(oracle("grr", 4, 1.5), trials=40_000)
    assert real.epsilon > 1.2
    liar = ldp.LowerBound(real.epsilon, 1.0, real.exact, real.trials, 0.99, "value")
    assert liar.exceeds


@pytest.mark.parametrize("name", ldp.oracle_names())
def test_guessing(name):
    one = oracle(name, 8, 2.0)
    found = ldp.guess_success(one, trials=8000, seed=1)
    assert found.success > 1.5 * found.baseline
    if found.exact:
        assert abs(found.success - found.expected) < 4.5 * found.error
        assert abs(found.success - 1.15 * found.expected) > 4.5 * found.error
    elif found.expected is not None:
        assert found.success == pytest.approx(found.expected, rel=0.12)


@pytest.mark.parametrize("name", ["sue", "oue"])
def test_guessing_rate_is_the_papers_sum(name):
    one = oracle(name, 7, 1.3)
    p, q, k = float(one.p), float(one.q), 7
    terms = [
        p / m * math.comb(k - 1, m - 1) * q ** (m - 1) * (1 - q) ** (k - m) for m in range(1, k + 1)
    ]
    expected = (1 - p) * (1 - q) ** (k - 1) / k + sum(terms)
    assert guessing_rate(one) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["grr", "oue", "ss", "olh"])
def test_supports_are_what_the_oracle_counts(name):
    one = oracle(name, 90 if name == "ss" else 9, 3.0)
    reports = one.randomize_codes(np.arange(60, dtype=np.uint32) % 9, from_seed(1))
    found = supports(one, reports)
    assert np.array_equal(found.sum(axis=0), one.aggregate(reports).sums)


FAKED = [("rs+fd", "grr"), ("rs+fd", "oue-z"), ("rs+fd", "sue-r"), ("rs+fd", "adp")]
FAKED += [("rs+rfd", "grr"), ("rs+rfd", "oue-r")]


def survey(sizes, epsilon, protocol, name, calibration="published"):
    priors = {"priors": surveys.leaning(*sizes)} if protocol == "rs+rfd" else {}
    return surveys.survey(
        sizes, epsilon, protocol=protocol, oracle=name, calibration=calibration, **priors
    )


def every_report(params):
    """Return all reports of a small survey, and P(report | values) by enumeration."""
    rows = []
    from privagg.protocols.multidim.kernels import put_codes
    from privagg.protocols.multidim.layout import row_layout

    layout = row_layout(params)
    for report in product(*(surveys.outputs(field) for field in params.fields)):
        row = np.zeros((1, 1), np.uint64)
        for offset, field, part in zip(layout.offsets, params.fields, report, strict=True):
            number = part if field.split is not None else sum(b << i for i, b in enumerate(part))
            put_codes(row, np.array([number], np.uint32), offset, field.width)
        rows.append(row[0])
    return TupleReports(params, ((np.stack(rows),),))


@pytest.mark.parametrize(("protocol", "name"), FAKED)
def test_likelihood_ratios_are_the_enumerated_ones(protocol, name):
    params = survey((2, 3), 1.2, protocol, name)
    reports, table = every_report(params), surveys.distribution(params)
    for first, second in ([0, 0], [1, 2]), ([1, 0], [0, 0]), ([1, 2], [1, 1]):
        expected = [
            math.log(a / b) for a, b in zip(table[tuple(first)], table[tuple(second)], strict=True)
        ]
        assert tuple_log_ratio(params, reports, first, second) == pytest.approx(expected)


@pytest.mark.parametrize(("protocol", "name"), FAKED)
def test_worst_pairs_are_the_exact_epsilons(protocol, name):
    params = survey((2, 3), 1.2, protocol, name)
    reports = every_report(params)
    for adjacency in ("tuple", "attribute"):
        first, second = worst_pair(params, adjacency)
        exact = params.epsilon_tuple if adjacency == "tuple" else params.epsilon_attribute
        assert tuple_log_ratio(params, reports, first, second).max() == pytest.approx(exact)


@pytest.mark.parametrize(("protocol", "name"), FAKED)
def test_posterior_is_the_enumerated_one(protocol, name):
    """P(j | y) by Bayes' rule, over the joint distribution of attribute, values and report."""
    params = survey((2, 3), 1.2, protocol, name)
    reports = every_report(params)
    beliefs = [np.array([0.3, 0.7]), np.array([0.5, 0.2, 0.3])]
    found = attribute_posterior(params, reports, beliefs)
    for index, report in enumerate(product(*(surveys.outputs(field) for field in params.fields))):
        weights = []
        for j, field in enumerate(params.fields):
            own = sum(
                beliefs[j][v] * float(surveys.true_report(field, report[j], v))
                for v in range(field.k)
            )
            other = params.fields[1 - j]
            weights.append(own * float(surveys.fake_report(other, report[1 - j])))
        assert found[index] == pytest.approx(np.array(weights) / sum(weights))


def people(sizes, n, seed=0):
    rng = np.random.default_rng(seed)
    return {
        f"a{at}": np.minimum(rng.geometric(0.5, n) - 1, k - 1).astype(np.int64)
        for at, k in enumerate(sizes)
    }


@pytest.mark.parametrize(("protocol", "name"), FAKED)
def test_the_true_attribute_is_guessed_as_expected(protocol, name):
    sizes = (4, 9, 3)
    params = survey(sizes, 3.0, protocol, name)
    columns = people(sizes, 8000)
    found = ldp.infer_attributes(params, columns, knowledge="marginals", classifier="logistic")
    error = math.sqrt(0.25 / 8000)
    assert abs(found.success - found.expected) < 5 * error
    assert found.success > found.baseline + 0.05
    # Nothing that is trained on the same knowledge does better.
    assert found.classified < found.success + 3 * error
    assert found.classified > found.baseline + 0.03
    again = ldp.infer_attributes(params, columns, knowledge="marginals", classifier="logistic")
    assert again == found
    blind = ldp.infer_attributes(params, columns, knowledge="nothing")
    assert blind.success <= found.success + 3 * error


def test_priors_that_look_like_the_values_hide_better():
    sizes = (4, 9, 3)
    columns = people(sizes, 8000)
    right = [
        np.bincount(c, minlength=k) / 8000 for c, k in zip(columns.values(), sizes, strict=True)
    ]
    uniform = [np.full(k, 1 / k) for k in sizes]
    found = []
    for prior, floor in ((right, 0.01), (uniform, 1.0)):
        params = surveys.survey(
            sizes,
            2.0,
            protocol="rs+rfd",
            oracle="grr",
            calibration="published",
            priors=Priors.of(prior, floor=floor),
        )
        found.append(ldp.infer_attributes(params, columns, knowledge="marginals").success)
    assert found[0] < found[1] - 0.03


def test_boosted_needs_scikit_learn():
    params = survey((3, 3), 1.0, "rs+fd", "grr")
    if importlib.util.find_spec("sklearn"):
        found = ldp.infer_attributes(params, people((3, 3), 2000), classifier="boosted")
        assert found.classified is not None
    else:
        with pytest.raises(UsageError, match="scikit-learn"):
            ldp.infer_attributes(params, people((3, 3), 500), classifier="boosted")


@pytest.mark.parametrize("sizes", [(2, 2), (2, 2, 2), (2, 4)])
def test_published_epsilon_is_refuted(sizes):
    """The attack proves more than the stated epsilon, and no more than the exact one."""
    params = survey(sizes, math.log(2), "rs+fd", "grr")
    found = ldp.distinguish_tuples(params, trials=200_000)
    assert found.exceeds
    assert params.epsilon_published < found.epsilon <= found.exact
    honest = survey(sizes, math.log(2), "rs+fd", "grr", "tuple")
    assert not ldp.distinguish_tuples(honest, trials=50_000).exceeds


def test_reidentification_grows_with_surveys_and_epsilon():
    sizes = (7, 9, 5, 12)
    columns = people(sizes, 3000, seed=4)
    found = {}
    for epsilon, count in ((1.0, 4), (6.0, 1), (6.0, 4)):
        params = Params(attributes=surveys.attributes(*sizes), epsilon=epsilon, oracle="grr")
        one = ldp.reidentify(params, columns, surveys=count, targets=400, lists=(1, 100), seed=1)
        found[epsilon, count] = one
        assert one.epsilon_total == pytest.approx(count * epsilon, rel=1e-3)
    assert found[6.0, 4].top[100] > found[6.0, 1].top[100] + 0.05
    assert found[6.0, 4].top[100] > found[1.0, 4].top[100] + 0.05
    assert found[6.0, 4].top[100] > 3 * found[6.0, 4].baseline[100]
    again = ldp.reidentify(params, columns, surveys=4, targets=400, lists=(1, 100), seed=1)
    assert again == found[6.0, 4]


def test_reidentification_without_privacy_finds_the_profile():
    """At a large epsilon, all four values are known: the target is among its twins."""
    sizes = (7, 9, 5, 12)
    columns = people(sizes, 500, seed=4)
    params = Params(attributes=surveys.attributes(*sizes), epsilon=18.0, oracle="grr")
    one = ldp.reidentify(params, columns, surveys=4, targets=500, lists=(1,), seed=1)
    table = np.stack(list(columns.values()))
    twins = (table[:, :, None] == table[:, None, :]).all(axis=0).sum(axis=1)
    assert one.top[1] == pytest.approx((1 / twins).mean(), abs=0.06)


@pytest.mark.parametrize("name", ["grr", "oue", "sue", "ss"])
def test_poisoning_gain_is_what_made_up_reports_gain(name):
    """Made-up reports are counted with honest ones: the mean gain is the closed form."""
    k, n, fake, targets = 12, 4000, 400, 2
    one = oracle(name, k, 1.0)
    honest = np.full(n - fake, k - 1, np.uint32)
    source = from_seed(3)
    crafted = one.randomize_codes(np.zeros(fake, np.uint32), source)
    column = crafted.columns[0]
    if name == "grr":
        column[:] = 0
    else:
        column[:] = 0b11
        if name == "ss":
            column[:] = (1 << one.w) - 1
    fakes = one.aggregate(crafted)
    gains = []
    for number in range(300):
        state = one.aggregate(one.randomize_codes(honest, source.spawn(str(number))))
        raw = one.estimate(state + fakes, post=None).raw
        gains.append(raw[:targets].sum())
    expected = ldp.poisoning_gain(one, targets=targets, fraction=fake / n)
    error = np.std(gains, ddof=1) / math.sqrt(300)
    assert abs(np.mean(gains) - expected.gain) < 4.5 * error
    assert expected.gain > 20 * error
    assert expected.leverage > 2


def test_a_hash_function_of_ones_own_supports_every_target():
    """Whoever makes a report up draws its hash function, too: the aggregator counts it."""
    one = oracle("olh", 64, 1.0)
    honest = one.randomize_codes(np.zeros(1, np.uint32), from_seed(1))
    crafted = Reports(one.digest, one.layout, tuple(np.zeros_like(c) for c in honest.columns))
    state = one.aggregate(one.decode_reports(crafted.encode()))
    assert state.sums.tolist() == [1] * 64
    raw = one.estimate(state, post=None).raw
    gained = ldp.poisoning_gain(one, targets=10, fraction=0.5)
    assert gained.supported == 10
    assert gained.gain == pytest.approx(0.5 * raw[:10].sum())


@pytest.mark.parametrize("name", ["hr", "she", "the", "rr", "pgr"])
@pytest.mark.parametrize("targets", [1, 3])
def test_no_honest_report_gains_more_than_the_best_made_up_one(name, targets):
    one = oracle(name, 6, 1.0)
    gained = ldp.poisoning_gain(one, targets=targets, fraction=0.5)
    reports = one.randomize_codes(np.arange(600, dtype=np.uint32) % 6, from_seed(7))
    alone = [
        one.estimate(one.aggregate(reports[at : at + 1]), post=None).raw[:targets].sum()
        for at in range(600)
    ]
    most = 0.5 * max(alone)
    assert gained.gain >= most - 1e-9
    if name != "she":  # whose best report is beyond what noise makes in 600 runs
        assert gained.gain == pytest.approx(most)
    assert gained.leverage > 1


@pytest.mark.parametrize(("protocol", "name"), FAKED)
def test_survey_gain_is_what_made_up_reports_gain(protocol, name):
    sizes, n, fake = (4, 9, 3), 3000, 300
    params = survey(sizes, 1.5, protocol, name)
    honest = [np.full(n - fake, k - 1, np.uint32) for k in sizes]
    rows = crafted_rows(params, [0, 0, 0], fake)
    crafted = TupleReports(params, ((rows,),))
    gains = []
    for number in range(300):
        aggregator = Aggregator(params)
        aggregator.receive(randomize_codes(params, honest, from_seed(number)))
        aggregator.receive(crafted)
        gains.append([one.raw[0] for one in aggregator.estimate(post=None).values()])
    mean = np.mean(gains, axis=0)
    error = np.std(gains, axis=0, ddof=1) / math.sqrt(300)
    expected = [one.gain for one in ldp.survey_gain(params, fraction=fake / n).values()]
    assert (np.abs(mean - expected) < 4.5 * error).all()
    assert (np.array(expected) > 10 * error).all()


def test_survey_gain_without_fakes():
    params = Params(attributes=surveys.attributes(4, 9, 3), epsilon=1.5, oracle="grr")
    found = ldp.survey_gain(params, fraction=0.1)
    share = 0.1 / (0.1 + 0.9 / 3)
    assert found["a1"].gain == pytest.approx(
        ldp.poisoning_gain(params.mechanisms[1], fraction=share).gain
    )


def test_wrong_arguments():
    params = survey((2, 3), 1.0, "rs+fd", "grr")
    sampled = Params(attributes=surveys.attributes(2, 3), epsilon=1.0)
    columns = people((2, 3), 50)
    for call in (
        lambda: ldp.infer_attributes(sampled, columns),
        lambda: ldp.infer_attributes(params, columns, knowledge="all"),
        lambda: ldp.infer_attributes(params, columns, classifier="trees"),
        lambda: ldp.reidentify(params, columns),
        lambda: ldp.reidentify(sampled, columns, surveys=3),
        lambda: ldp.reidentify(sampled, columns, targets=51),
        lambda: ldp.distinguish_tuples(sampled),
        lambda: ldp.distinguish_tuples(params, adjacency="none"),
        lambda: ldp.distinguish_tuples(params, confidence=1.0),
        lambda: ldp.distinguish_tuples(params, trials=1),
        lambda: ldp.poisoning_gain(oracle("grr", 4, 1.0), fraction=1),
        lambda: ldp.poisoning_gain(oracle("grr", 4, 1.0), targets=5),
        lambda: attribute_posterior(params, None, [np.ones(2) / 2]),
        lambda: ldp.audit_oracles(4, 1.0, oracles=["none"]),
        lambda: ldp.audit_oracles(4, 1.0, oracles=[]),
        lambda: ldp.audit_oracles(4, 1.0, oracles=["cms"]),
        lambda: ldp.audit_oracles(4, 1.0, oracles="grr"),
        lambda: ldp.audit_oracles("4", 1.0),
        lambda: ldp.distinguish_oracle("grr"),
        lambda: ldp.distinguish_oracle(oracle("grr", 4, 1.0), confidence="0.9"),
        lambda: ldp.distinguish_oracle(oracle("grr", 4, 1.0), seed=None),
        lambda: ldp.distinguish_tuples(params, confidence=None),
        lambda: ldp.guess_success(None),
        lambda: ldp.guess_success(oracle("grr", 4, 1.0), seed=-1),
        lambda: ldp.guessing_rate("grr"),
        lambda: ldp.poisoning_gain("grr"),
        lambda: ldp.survey_gain(None),
        lambda: crafted_rows(sampled, [0, 0], 1),
        lambda: ldp.infer_attributes(None, columns),
        lambda: ldp.infer_attributes(params, columns, knowledge=[]),
        lambda: ldp.infer_attributes(params, columns, classifier=[]),
        lambda: ldp.infer_attributes(params, columns, seed=None),
        lambda: ldp.infer_attributes(params, {"a0": [], "a1": []}),
        lambda: ldp.reidentify(sampled, columns, seed="1"),
        lambda: ldp.reidentify(sampled, columns, lists=3),
    ):
        with pytest.raises(UsageError):
            call()
    reports = randomize_codes(params, [np.zeros(3, np.uint32)] * 2, from_seed(1))
    others = randomize_codes(sampled, [np.zeros(3, np.uint32)] * 2, from_seed(1))
    half, third = np.ones(2) / 2, np.ones(3) / 3
    for given, beliefs in (
        (None, [half, third]),
        (others, [half, third]),
        (reports, None),
        (reports, [half]),
        (reports, ["ab", third]),
        (reports, [np.array([-0.5, 1.5]), third]),
        (reports, [half * np.nan, third]),
    ):
        with pytest.raises(UsageError):
            attribute_posterior(params, given, beliefs)


def test_audit_of_all_oracles():
    found = ldp.audit_oracles(5, 1.0, trials=4000)
    assert [one.oracle.name for one in found] == list(ldp.oracle_names())
    assert not any(one.bound.exceeds for one in found)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        assert ldp.audit_oracles(5, 1.0, oracles=["oue"], trials=200)[0].poisoning.supported == 1


def test_what_cannot_realise_epsilon_is_left_out_unless_it_was_asked_for():
    found = [one.oracle.name for one in ldp.audit_oracles(6, 1e-9, trials=200)]
    assert "grr" in found
    assert "she" not in found
    with pytest.raises(UsageError, match="SHE"):
        ldp.audit_oracles(6, 1e-9, oracles=["grr", "she"], trials=200)
    with pytest.raises(UsageError, match="epsilon"):
        ldp.audit_oracles(6, 800.0, trials=200)
