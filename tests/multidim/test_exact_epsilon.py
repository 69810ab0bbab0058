"""The exact epsilons, by enumeration of all reports, and their closed forms."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from surveys import attributes, enumerated, leaning, survey

from privagg.errors import UsageError
from privagg.mechanisms.exact import exp_upper
from privagg.protocols.multidim import ORACLES, Params, Priors, PrivacyWarning, Protocol
from privagg.protocols.multidim.calibration import amplified, published, share_of
from privagg.protocols.multidim.fields import make_field, uniform_fakes

FAKED = [("rs+fd", name) for name in ORACLES[Protocol.RSFD]]
FAKED += [("rs+rfd", name) for name in ORACLES[Protocol.RSRFD]]
SHAPES = [(2, 2), (3, 3), (2, 4), (2, 2, 2)]


def with_priors(protocol, sizes):
    return {"priors": leaning(*sizes)} if protocol == "rs+rfd" else {}


@pytest.mark.parametrize(("protocol", "oracle"), FAKED)
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize("epsilon", [math.log(2), math.log(7)])
def test_by_enumeration(protocol, oracle, sizes, epsilon):
    params = survey(
        sizes,
        epsilon,
        protocol=protocol,
        oracle=oracle,
        calibration="published",
        **with_priors(protocol, sizes),
    )
    whole, one = enumerated(params)
    assert whole == params.tuple_ratio
    assert one == params.attribute_ratio


@pytest.mark.parametrize(("protocol", "oracle"), FAKED)
@pytest.mark.parametrize("calibration", ["tuple", "attribute"])
def test_stated_epsilon_is_never_exceeded(protocol, oracle, calibration):
    sizes = (2, 3)
    for epsilon in (0.05, 1.0, 3.0):
        params = survey(
            sizes,
            epsilon,
            protocol=protocol,
            oracle=oracle,
            calibration=calibration,
            **with_priors(protocol, sizes),
        )
        whole, one = enumerated(params)
        stated = whole if calibration == "tuple" else one
        assert stated <= exp_upper(epsilon)
        # And next to nothing of it is given away.
        assert math.log(stated) > 0.998 * epsilon


def closed_form(params):
    """Return the issue's closed form of the epsilon of one attribute."""
    d, fields = params.d, params.fields
    e = math.exp(params.epsilon_local)
    k = np.array(params.sizes, float)
    worst = []
    for j, field in enumerate(fields):
        others = [i for i in range(d) if i != j]
        if params.protocol == "rs+rfd":
            prior = [field.prior for field in fields]
            q = 1 / (e + k - 1)
            c = q[j] / prior[j].min()
            rest = sum(q[i] / prior[i].max() for i in others)
        elif field.variant == "grr":
            a = k / (e + k - 1)
            c, rest = a[j], sum(a[others])
        else:
            c = (e + 1) / (2 * e) if field.variant == "oue-z" else e**-0.5
            rest = c * len(others)
        worst.append(math.log1p((e - 1) * c / (c + rest)))
    return max(worst)


@pytest.mark.parametrize(
    ("protocol", "oracle"),
    [("rs+fd", "grr"), ("rs+fd", "oue-z"), ("rs+fd", "sue-z"), ("rs+rfd", "grr")],
)
@pytest.mark.parametrize("epsilon", [0.5, 1.0986, 2.0])
def test_closed_forms_of_one_attribute(protocol, oracle, epsilon):
    sizes = (7, 16, 2, 41)
    params = survey(
        sizes,
        epsilon,
        protocol=protocol,
        oracle=oracle,
        calibration="published",
        **with_priors(protocol, sizes),
    )
    assert params.epsilon_attribute == pytest.approx(closed_form(params), rel=2e-4)


def test_closed_form_of_a_mix():
    """``adp`` mixes variants: a_j of each is its own."""
    params = survey((2, 60), 1.0, protocol="rs+fd", oracle="adp", calibration="published")
    assert params.oracles == ("grr", "oue-z")
    e = math.exp(params.epsilon_local)
    a = [2 / (e + 1), (e + 1) / (2 * e)]
    assert params.epsilon_attribute == pytest.approx(
        math.log1p((e - 1) * max(a) / sum(a)), rel=1e-4
    )


@pytest.mark.parametrize("oracle", ["grr", "oue-z", "sue-z", "oue-r", "sue-r"])
def test_two_tuples_have_the_amplified_epsilon(oracle):
    """ln(d (e**epsilon - 1) + 1), for every variant: sampling hides nothing from two tuples."""
    params = survey((3, 5, 2), 1.0, protocol="rs+fd", oracle=oracle, calibration="published")
    assert params.epsilon_tuple == pytest.approx(math.log(3 * (math.e - 1) + 1), rel=1e-4)
    assert params.epsilon_published == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize(
    ("sizes", "whole", "one"),
    [
        ((7, 16, 7, 14, 6, 5, 2, 41, 2), 2.944, 1.690),
        ((3, 5, 4, 4, 3, 2, 3, 3, 5), 2.944, 1.298),
        ((3, 3, 8, 12, 37, 11), 2.565, 1.521),
    ],
    ids=["adult", "nursery", "fimu"],
)
def test_what_ln_three_really_is(sizes, whole, one):
    params = survey(sizes, math.log(3), protocol="rs+fd", oracle="grr", calibration="published")
    assert (round(params.epsilon_tuple, 3), round(params.epsilon_attribute, 3)) == (whole, one)


def test_published_warns_where_it_is_wrong():
    chosen = {"attributes": attributes(3, 4), "epsilon": 1.0, "calibration": "published"}
    with pytest.warns(PrivacyWarning, match=r"1\.4.* for two tuples"):
        Params(protocol="rs+fd", oracle="grr", **chosen)
    Params(protocol="smp", **chosen)
    Params(protocol="spl", **chosen)


@pytest.mark.parametrize("oracle", ["grr", "oue", "olh", "ss", "hr"])
def test_protocols_without_fakes(oracle):
    chosen = {"attributes": attributes(3, 5, 4), "epsilon": 1.2, "oracle": oracle}
    split, sampled = Params(protocol="spl", **chosen), Params(protocol="smp", **chosen)
    assert split.epsilon_tuple <= 1.2
    assert split.epsilon_tuple == pytest.approx(1.2, rel=1e-3)
    assert split.epsilon_attribute == pytest.approx(0.4, rel=1e-3)
    assert sampled.epsilon_tuple == sampled.epsilon_attribute <= 1.2
    each = Params(protocol="spl", calibration="attribute", **chosen)
    assert each.epsilon_attribute == pytest.approx(1.2, rel=1e-3)
    assert each.epsilon_tuple == pytest.approx(3.6, rel=1e-3)


def test_a_floor_bounds_what_a_rare_fake_gives_away():
    """Without fakes of a value its report is true: the one attribute has all of epsilon'."""
    rare = [0.999999, 0.000001]
    found = [
        survey(
            (2, 2),
            1.0,
            protocol="rs+rfd",
            oracle="grr",
            priors=Priors.of([rare, rare], floor=floor),
        ).epsilon_attribute
        for floor in (1e-9, 0.1, 0.5, 1.0)
    ]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.999
    plain = survey((2, 2), 1.0, protocol="rs+fd", oracle="grr").epsilon_attribute
    assert found[-1] == pytest.approx(plain, abs=1e-8)


def test_attribute_calibration_is_tight_for_many_shapes():
    rng = np.random.default_rng(3)
    for _ in range(6):
        sizes = tuple(int(k) for k in rng.integers(2, 50, rng.integers(2, 12)))
        params = survey(sizes, 1.0, protocol="rs+fd", oracle="grr", calibration="attribute")
        assert 0.9995 < params.epsilon_attribute <= 1.0
        assert 1.0 <= params.epsilon_local <= amplified(1.0, params.d)


def test_directed_rounding():
    for epsilon in (0.01, 1.0, 5.0):
        for d in (2, 9, 33):
            assert exp_upper(amplified(epsilon, d)) <= d * (exp_upper(epsilon) - 1) + 1
            assert Fraction(share_of(epsilon, d)) * d <= Fraction(epsilon)
            assert published(exp_upper(amplified(epsilon, d)), d) == pytest.approx(epsilon)


@pytest.mark.parametrize("k", [2, 3, 41, 1000])
def test_uniform_fakes_are_counted(k):
    found = uniform_fakes(k)
    assert int(found.sum()) == 2**32
    assert int(found.max()) - int(found.min()) <= 1
    words = np.random.default_rng(k).integers(0, 2**32, 1000, dtype=np.uint64)
    ends = np.cumsum(found)
    drawn = words * np.uint64(k) >> np.uint64(32)
    assert (np.searchsorted(ends, words, side="right") == drawn).all()


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"epsilon": 800}, "epsilon"),
        ({"protocol": "rsfd"}, "protocol"),
        ({"calibration": "none"}, "calibration"),
        ({"oracle": "oue"}, "oracle"),
        ({"oracle": None}, "oracle"),
        ({"protocol": "smp", "oracle": "oue-z"}, "oracle"),
        ({"attributes": {}}, "attributes"),
        ({"attributes": {"a": 4}}, "attributes.a"),
        ({"attributes": {"": attributes(3)["a0"]}}, "attributes"),
        ({"attributes": [3, 4]}, "attributes"),
        ({"protocol": "rs+rfd"}, "priors"),
        ({"priors": leaning(3, 4)}, "priors"),
        ({"protocol": "rs+rfd", "priors": leaning(3, 5)}, "priors"),
        ({"protocol": "rs+rfd", "priors": [0.5]}, "priors"),
    ],
    ids=str,
)
def test_wrong_parameters(changes, argument):
    right = {"attributes": attributes(3, 4), "epsilon": 1.0, "protocol": "rs+fd"}
    with pytest.raises(UsageError) as caught:
        Params(**right | changes)
    assert caught.value.argument == argument


def test_no_prior_for_fakes_without_a_value():
    with pytest.raises(UsageError, match="no values"):
        make_field("oue-z", 3, 1.0, uniform_fakes(3))
