"""Skellam noise: the difference of two Poisson numbers, added to integers.

Sums of Skellam numbers are Skellam numbers, whose variances add up. So the noise of h clients that
each add variance v is exactly Skellam noise of variance h v.
"""

from __future__ import annotations

from privagg.accounting.rdp import INTEGER_ORDERS, ZERO_OUT, Curve, positive

__all__ = ["skellam_bound", "skellam_curve"]


def skellam_bound(order: float, l2_squared: float, l1: float, variance: float) -> float:
    """Bound the Renyi divergence between Skellam noise and Skellam noise moved by integers.

    alpha D2**2 / (2 v) + min(((2 alpha - 1) D2**2 + 6 D1) / (4 v**2), 3 D1 / (2 v)), for whole
    orders from 2: Agarwal, Kairouz, Liu, "The Skellam Mechanism for Differentially Private
    Federated Learning", NeurIPS 2021, corollary 3.6.

    Parameters
    ----------
    order : float
        A whole number from 2.
    l2_squared, l1 : float
        Squared L2 norm and L1 norm of the move, in integers.
    variance : float
        Of the noise in each coordinate.
    """
    near = ((2 * order - 1) * l2_squared + 6 * l1) / (4 * variance * variance)
    return order * l2_squared / (2 * variance) + min(near, 3 * l1 / (2 * variance))


def skellam_curve(
    l2_squared: float, l1: float, variance: float, adjacency: str = ZERO_OUT
) -> Curve:
    """Return :func:`skellam_bound` as a curve over whole orders.

    Parameters
    ----------
    l2_squared : float
        Square of the Euclidean sensitivity, in the noise's unit.
    l1 : float
        Sensitivity in the 1-norm, in the noise's unit.
    variance : float
        Variance of the noise, above 0.
    adjacency : str
        What neighbouring inputs are; see :mod:`privagg.accounting`.

    Raises
    ------
    UsageError
        If a number is not above 0.
    """
    for name, value in (("l2_squared", l2_squared), ("l1", l1), ("variance", variance)):
        positive(name, value)
    return Curve.of(
        lambda order: skellam_bound(order, l2_squared, l1, variance), INTEGER_ORDERS, adjacency
    )
