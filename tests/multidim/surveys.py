"""Small surveys under test, and the distribution of their reports by its definition."""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import product

from privagg.domain import Categorical
from privagg.protocols.multidim import Params, Priors, PrivacyWarning
from privagg.protocols.multidim.fields import FAKE_BITS


def attributes(*sizes):
    return {f"a{at}": Categorical(list(range(k))) for at, k in enumerate(sizes)}


def survey(sizes, epsilon, **chosen):
    """Return a survey; what `published` warns of is not the test's subject."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return Params(attributes=attributes(*sizes), epsilon=epsilon, **chosen)


def leaning(*sizes, floor=0.2):
    """Return priors that favour the later values."""
    return Priors.of([[2 * (v + 1) / (k * (k + 1)) for v in range(k)] for k in sizes], floor=floor)


def true_report(field, y, value):
    """Return R(y | value): y is a code, or a tuple of bits."""
    if field.split is not None:
        return field.split.p if y == value else field.split.q
    chance = Fraction(1)
    for at, bit in enumerate(y):
        lit = field.pair.p if at == value else field.pair.q
        chance *= lit if bit else 1 - lit
    return chance


def fake_report(field, y):
    """Return F(y), from what the fakes are said to be."""
    if field.variant.endswith("-z"):
        return true_report(field, y, None)
    weights = [Fraction(int(count), 2**FAKE_BITS) for count in field.fakes]
    if field.split is not None:
        return weights[y]
    return sum(weight * true_report(field, y, value) for value, weight in enumerate(weights))


def outputs(field):
    return range(field.k) if field.split is not None else list(product((0, 1), repeat=field.k))


def distribution(params):
    """Return P(y | v): a dict of the tuples v to lists over all reports y, in one order."""
    fields = params.fields
    spaces = [outputs(field) for field in fields]
    reports = list(product(*spaces))
    fakes = [
        {y: fake_report(field, y) for y in space}
        for field, space in zip(fields, spaces, strict=True)
    ]
    trues = [
        {(y, v): true_report(field, y, v) for y in space for v in range(field.k)}
        for field, space in zip(fields, spaces, strict=True)
    ]
    found = {}
    for values in product(*(range(field.k) for field in fields)):
        row = []
        for report in reports:
            chance = Fraction(0)
            for j in range(len(fields)):
                part = trues[j][report[j], values[j]]
                for i in range(len(fields)):
                    if i != j:
                        part *= fakes[i][report[i]]
                chance += part
            row.append(chance / len(fields))
        found[values] = row
    return found


def enumerated(params):
    """Return the largest ratio over any two tuples, and over two that differ in one attribute."""
    every = distribution(params)
    whole = one = Fraction(1)
    for values, row in every.items():
        assert sum(row) == 1
        for others, other in every.items():
            ratio = max(mine / theirs for mine, theirs in zip(row, other, strict=True))
            whole = max(whole, ratio)
            if sum(a != b for a, b in zip(values, others, strict=True)) == 1:
                one = max(one, ratio)
    return whole, one
