"""Epsilon: what is spent, and what sums with noise prove.

:class:`Ledger` adds up what each respondent of local differential privacy has spent. The other
modules bound the divergence of mechanisms whose noise is in a sum: Gaussian, Skellam, sums of
discrete Gaussians, Poisson-binomial; under sampling; over rounds. Every bound is an upper one, and
every curve says what adjacency it is for.
"""

from privagg.accounting.discrete_gaussian import sum_curve, sum_epsilon
from privagg.accounting.gaussian import (
    analytic_delta,
    analytic_epsilon,
    analytic_sigma,
    gaussian_curve,
    zcdp_curve,
)
from privagg.accounting.ledger import Entry, Ledger
from privagg.accounting.rdp import REPLACE, ZERO_OUT, Curve
from privagg.accounting.skellam import skellam_curve
from privagg.accounting.subsampling import SAMPLED, sampled_curve, sampled_gaussian

__all__ = [
    "Entry",
    "Ledger",
    "Curve",
    "ZERO_OUT",
    "REPLACE",
    "SAMPLED",
    "analytic_delta",
    "analytic_epsilon",
    "analytic_sigma",
    "gaussian_curve",
    "zcdp_curve",
    "skellam_curve",
    "sum_curve",
    "sum_epsilon",
    "sampled_curve",
    "sampled_gaussian",
]
