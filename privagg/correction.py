"""Error correction of Shamir shares: rebuild a secret although some shares are wrong.

Shares of one secret are a word of a Reed-Solomon code (R. J. McEliece and D. V. Sarwate, "On
sharing secrets and Reed-Solomon codes", CACM 24(9), 1981): with m shares and threshold t, up to
``e = (m - t) // 2`` wrong ones are found and corrected, wherever they are and whatever they hold.
The decoder is Gao's (2003), see :mod:`privagg.field.reed_solomon`.

Guarantee: if at most e of the m shares are wrong the result is right, and names exactly the wrong
ones. Each result has been checked: it agrees with at least ``m - e`` whole shares. This rests on no
assumption about computing power.

What it does not say:

- Who is at fault. A share that is wrong may have been spoiled by its holder, by its dealer who made
  it so, or on the way. It takes signatures or commitments to tell these apart.
- Anything at all with more than e wrong shares. Up to ``m - t - e`` wrong ones are noticed (None);
  any ``m - t - e + 1`` holders who act together can shift the secret by an amount of their choice,
  without knowing it, and have up to e honest holders named as wrong. A secret that matters has to
  be checked against something public, such as a commitment.
- Which share is wrong when ``m - t`` is 0 or 1, for e is then 0. With ``m = t`` not even that one
  is: any shares give some secret.

Not constant time; memory is not wiped.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as dataclass_field

import numpy as np
from numpy.typing import NDArray

from privagg import field
from privagg.errors import UsageError
from privagg.field import reed_solomon
from privagg.field.checks import Elements, describe, element_array
from privagg.sharing import LIMBS, Combiner, Points, combine

__all__ = ["Correction", "correct", "secrets_of"]


@dataclass(frozen=True, eq=False)
class Correction:
    """What :func:`correct` found.

    Attributes
    ----------
    values : ndarray of uint64, shape (L,)
        The polynomials at zero, one for each limb. Secret: not shown by ``repr``.
    wrong : ndarray of bool, shape (m,)
        Which shares are not on the polynomials, in one limb or more; at most ``(m - t) // 2``.
    """

    values: Elements = dataclass_field(repr=False)
    wrong: NDArray[np.bool_]


def _threshold(value: object, m: int) -> int:
    hint = "It lies between 2 and the number of shares."
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise UsageError("threshold", describe(value), f"an integer from 2 to {m}", hint)
    if not 2 <= value <= m:
        raise UsageError("threshold", value, f"an integer from 2 to {m}", hint)
    return int(value)


def correct(shares: Elements, points: Points, threshold: int) -> Correction | None:
    """Find the polynomials that all but a few shares lie on.

    A share is the L limbs of one holder, and counts as wrong as a whole if any limb is; wrong limbs
    may be different ones at different holders. At most one tuple of polynomials of degree below t
    agrees with ``m - e`` whole shares, ``e = (m - t) // 2``. Time is quadratic in m and linear in
    L, with or without errors.

    Parameters
    ----------
    shares : ndarray of uint64, shape (m, L)
        Elements of GF(2**61 - 1); row i is the share of the holder at ``points[i]``.
    points : sequence of int or integer array, shape (m,)
        Distinct, from 1 to 2**32 - 1.
    threshold : int
        The t with which the secret was split, from 2 to m. One that is too large
        corrects less than could be; one that is too small gives None.

    Returns
    -------
    Correction or None
        The values at zero and which shares are wrong; None if no polynomials agree with ``m - e``
        shares, which means that more than e of them are wrong. See the module for what a
        result does not say.

    Raises
    ------
    UsageError
        A wrong type, dtype or shape; an element that is not below 2**61 - 1; a zero, repeated or
        too large point; a threshold outside its range. The message holds no share.
    """
    combiner = Combiner(points)
    m = combiner.points.size
    checked = element_array("shares", shares, field.M61, ndim=2)
    if checked.shape[0] != m:
        raise UsageError(
            "shares", describe(checked), f"shape ({m}, L)", "One row for each of the points."
        )
    needed = _threshold(threshold, m)
    decoded = reed_solomon.decode(combiner.points, combiner.weights, checked, needed)
    if decoded is None:
        return None
    values, differs = decoded
    wrong = np.asarray(differs.any(axis=1))
    # Each limb has e errors at most, but all limbs together may spoil more than e shares.
    if int(wrong.sum()) > (m - needed) // 2:
        return None
    return Correction(values, wrong)


def secrets_of(
    shares: Elements, points: Points, threshold: int
) -> tuple[bytes, NDArray[np.bool_]] | None:
    """Rebuild one secret of 16 bytes from shares of which some may be wrong.

    The secret is what :func:`privagg.sharing.combine` makes of the shares that are not wrong.

    Parameters
    ----------
    shares : ndarray of uint64, shape (m, 3)
        Row i is the share of the holder at ``points[i]``, made by :func:`privagg.sharing.split`.
    points : sequence of int or integer array, shape (m,)
        Distinct, from 1 to 2**32 - 1.
    threshold : int
        The t with which the secret was split, from 2 to m.

    Returns
    -------
    secret : bytes
        The secret, 16 bytes.
    wrong : ndarray of bool, shape (m,)
        Which shares are wrong, see :class:`Correction`.

        None in place of both where :func:`correct` gives None, or where the polynomials' values at
        zero are no secret of 128 bits: then too many shares are wrong, or the dealer's polynomials.

    Raises
    ------
    UsageError
        As for :func:`correct`.
    """
    checked = element_array("shares", shares, field.M61, ndim=2)
    if checked.shape[1] != LIMBS:
        raise UsageError("shares", describe(checked), f"shape (m, {LIMBS})")
    correction = correct(checked, points, threshold)
    if correction is None:
        return None
    right = ~correction.wrong
    places = field.elements(points, name="points")[right]
    secrets, valid = combine(checked[right][:, None, :], places)
    return (secrets[0].tobytes(), correction.wrong) if valid[0] else None
