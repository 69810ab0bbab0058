"""The arithmetic of the variants that hold, for many clusters at once.

``cpda-field``: each member hides its numbers as the constant terms of polynomials over GF(p) with
uniform coefficients and sends their values at point j to the member at position j of the sorted
roster (positions start at 1, so no point is zero and none is chosen by anybody). It is Shamir's
sharing with threshold t and BGW's addition; for t - 1 members that pool their shares every reading
is equally likely, whatever their computing power.

``mask-cluster``: each pair of members expands its key to a mask which one adds and the other
subtracts, after Kursawe, Danezis and Kohlweiss (PETS 2011). ``cmt``: each node adds the keystream
that it shares with the base station, after Castelluccia, Mykletun and Tsudik (2005).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import field as fields
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols.sensor.grouping import Grouping
from privagg.protocols.sensor.params import Params

__all__ = ["lift", "lower", "masked_sums", "polynomial_sums", "recover", "shares_of"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_Elements = NDArray[Any]


def lower(numbers: _Ints, field: fields.Field) -> _Elements:
    """Turn signed numbers into elements: ``x mod p``.

    Raises
    ------
    UsageError
        If a number is not above ``-p / 2`` and below ``p / 2``: it would come back as another.
    """
    half = field.modulus // 2
    if numbers.size and max(-int(numbers.min()), int(numbers.max())) > half:
        raise UsageError("numbers", "one that is too large", f"-{half} to {half}")
    return np.asarray(np.where(numbers < 0, numbers + field.modulus, numbers)).astype(field.dtype)


def lift(elements: _Elements, field: fields.Field) -> _Ints:
    """Turn elements into the signed numbers nearest to zero; the inverse of :func:`lower`."""
    wide = elements.astype(np.int64)
    return np.where(wide > field.modulus // 2, wide - field.modulus, wide)


def shares_of(
    values: _Elements, members: int, threshold: int, field: fields.Field, entropy: Entropy
) -> _Elements:
    """Share numbers among the positions 1 to `members`.

    Parameters
    ----------
    values : (n,) array of elements
        Constant terms.
    members, threshold : int
        m points; polynomials of degree below t.
    field : Field
        GF(p), with p above m.
    entropy : Entropy
        Of the coefficients, uniform in GF(p).

    Returns
    -------
    (members, n) array of elements
        Row j is for position j + 1.
    """
    coefficients = np.empty((threshold, len(values)), field.dtype)
    coefficients[0] = values
    coefficients[1:] = fields.uniform(entropy, (threshold - 1, len(values)), field)
    return fields.evaluate(coefficients, _points(members, field), field)


def recover(assembled: _Elements, places: _Ints, field: fields.Field) -> _Elements:
    """Return the constant terms of polynomials from as many values as they have coefficients.

    Parameters
    ----------
    assembled : (t, n) array of elements
        Row k is the value at position ``places[k]``, counted from 0.
    places : (t,) int64 array
        Distinct.
    field : Field
        GF(p).
    """
    points = fields.elements(np.asarray(places) + 1, field)
    return fields.weighted_sum(fields.lagrange_weights_at_zero(points, field), assembled, field)


def _points(members: int, field: fields.Field) -> _Elements:
    if members >= field.modulus:
        raise UsageError("members", members, f"below {field.modulus}, the field's modulus")
    return fields.elements(np.arange(1, members + 1), field)


def polynomial_sums(
    values: _Elements,
    grouping: Grouping,
    senders: _Bools,
    answered: _Bools,
    success: _Bools,
    params: Params,
    entropy: Entropy,
) -> _Elements:
    """Run the sharing, adding and solving of ``cpda-field`` in all clusters and epochs.

    Parameters
    ----------
    values : (epochs, rows, width) array of elements
        What each member adds.
    grouping : Grouping
        The clusters.
    senders, answered : (epochs, rows) bool arrays
        Whose numbers are in the sum; whose answers the collector has.
    success : (epochs, clusters) bool array
        Where there is a sum.
    params : Params
        Field and threshold.
    entropy : Entropy
        Of the coefficients.

    Returns
    -------
    (epochs, clusters, width) array of elements
        The clusters' sums; zero where there is none.
    """
    field = params.field
    epochs, _, width = values.shape
    sums = np.zeros((epochs, grouping.count, width), field.dtype)
    for m, clusters in grouping.by_size():
        rows = grouping.rows_of(clusters, m)
        t = params.threshold(m)
        shape = (epochs, len(clusters), m, width)
        shares = shares_of(values[:, rows].reshape(-1), m, t, field, entropy)
        shares = shares.reshape(m, *shape)  # [receiver, epoch, cluster, owner, number]
        held = np.zeros((m, epochs, len(clusters), width), field.dtype)
        for owner in range(m):
            inside = senders[:, rows[:, owner]][None, ..., None]
            held = fields.add(held, np.where(inside, shares[..., owner, :], 0), field)
        for places, where in _patterns(answered[:, rows], success[:, clusters], t):
            e, c = where
            part = held[places][:, e, c].reshape(t, -1)
            sums[e, clusters[c]] = recover(part, places, field).reshape(len(e), width)
    return sums


def _patterns(
    answered: _Bools, success: _Bools, threshold: int
) -> list[tuple[_Ints, tuple[_Ints, _Ints]]]:
    """Return which t answers to use, and for which epochs and clusters: few patterns for many."""
    e, c = np.nonzero(success)
    if not len(e):
        return []
    if answered[e, c].all():
        return [(np.arange(threshold), (e, c))]
    patterns, inverse = np.unique(answered[e, c], axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    return [
        (np.flatnonzero(pattern)[:threshold], (e[inverse == k], c[inverse == k]))
        for k, pattern in enumerate(patterns)
    ]


def masked_sums(
    values: _Elements, grouping: Grouping, success: _Bools, params: Params, entropy: Entropy
) -> _Elements:
    """Add pairwise masks that cancel in each cluster; arguments as :func:`polynomial_sums`.

    The masks are drawn, not expanded from keys as the parties do it.
    """
    field = params.field
    epochs, _, width = values.shape
    sums = np.zeros((epochs, grouping.count, width), field.dtype)
    for m, clusters in grouping.by_size():
        rows = grouping.rows_of(clusters, m)
        masked = values[:, rows].copy()  # [epoch, cluster, member, number]
        for low in range(m):
            for high in range(low + 1, m):
                mask = fields.uniform(entropy, (epochs, len(clusters), width), field)
                masked[:, :, low] = fields.add(masked[:, :, low], mask, field)
                masked[:, :, high] = fields.sub(masked[:, :, high], mask, field)
        total = np.zeros((epochs, len(clusters), width), field.dtype)
        for member in range(m):
            total = fields.add(total, np.ascontiguousarray(masked[:, :, member]), field)
        sums[:, clusters] = np.where(success[:, clusters][..., None], total, 0)
    return sums
