"""One-shot recovery: the sum of the masks from coded sums, of which some may be wrong.

Any U coded sums give the sum of all masks at once (J. So et al., MLSys 2022, one-shot
recovery), however many clients have left. More than U are a Reed-Solomon word with a surplus: A of
them show that some are wrong, and correct ``(A - U) // 2`` wrong ones.

The check costs next to nothing beside the decoding. Each coded sum, thousands of elements, is
reduced to a few random combinations of them, drawn after all answers are in; a wrong sum keeps
right combinations with probability ``p**-k`` for k of them, and k is chosen such that this is below
2**-80. Only the combinations are checked, and decoded to find the wrong sums.

What a wrong sum does not say is whose fault it is: its sender may have sent another, or a dealer
among the survivors may have given it a share that lies on no polynomial. Nor can more than
``(A - U) // 2`` clients that act together be told from honest ones: they can shift the sum, and
have others named.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privagg import field as fields
from privagg.entropy import Entropy
from privagg.errors import PeerError
from privagg.field import Elements, reed_solomon
from privagg.protocols.lightsecagg.coding import MaskCode

__all__ = ["Blame", "Recovered", "recover"]

_SOUNDNESS = 80
"""Bits: a wrong sum passes unseen with a probability below 2**-80."""


@dataclass(frozen=True, kw_only=True)
class Blame:
    """Something that was not what it should be.

    Attributes
    ----------
    dealer : int or None
        The client whose mask it is a share of; None of a coded sum, which is over many dealers.
    holder : int
        The client that should have it, or that sent it.
    reason : str
        ``"wrong coded sum"`` or ``"ciphertext does not open"``.
    verdict : str
        ``"dealer or holder"``; ``"dealer"`` or ``"holder"`` where one side has more such partners
        than may be corrupt.
    """

    dealer: int | None
    holder: int
    reason: str
    verdict: str = "dealer or holder"


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """The sum of the masks, and which answers were wrong.

    Attributes
    ----------
    masks : (length,) array of elements
        Their sum.
    wrong : (A,) bool array
        The answers that are on no polynomial with the others.
    checked : int
        Answers beyond U: with none, a wrong answer is not noticed.
    """

    masks: Elements = field(repr=False)
    wrong: NDArray[np.bool_]
    checked: int


def recover(
    code: MaskCode,
    sums: Elements,
    holders: NDArray[np.intp],
    length: int,
    entropy: Entropy,
) -> Recovered:
    """Decode the sum of the masks.

    Parameters
    ----------
    code : MaskCode
        The round's.
    sums : (A, piece) array of elements
        Coded sums, A at least U.
    holders : (A,) integer array
        The clients they came from, distinct.
    length : int
        Elements of a mask.
    entropy : Entropy
        Source of the combinations; those who sent the sums must not know it.

    Returns
    -------
    Recovered

    Raises
    ------
    PeerError
        If more answers are wrong than can be corrected. Who sent them cannot be known.
    """
    answers, needed = len(holders), code.threshold
    wrong = np.zeros(answers, np.bool_)
    if answers > needed:
        found = _wrong_answers(code, sums, holders, entropy)
        if found is None:
            raise PeerError(
                "clients",
                "unmasking",
                f"{answers} coded sums with U = {needed} correct {(answers - needed) // 2} wrong "
                "ones, and more are wrong: the clients that sent them, or dealers of wrong shares",
            )
        wrong = found
    good = np.flatnonzero(~wrong)[:needed]
    masks = code.join(np.ascontiguousarray(sums[good]), holders[good], length)
    return Recovered(masks=masks, wrong=wrong, checked=answers - needed)


def _wrong_answers(
    code: MaskCode, sums: Elements, holders: NDArray[np.intp], entropy: Entropy
) -> NDArray[np.bool_] | None:
    """Return which answers are wrong; None if too many are."""
    of, needed = code.field, code.threshold
    columns = -(-_SOUNDNESS // (of.modulus.bit_length() - 1))
    combined = fields.matmul(sums, fields.uniform(entropy, (sums.shape[1], columns), of), of)
    rest = code.weights(holders[:needed], code.points()[holders[needed:]])
    predicted = fields.matmul(rest, np.ascontiguousarray(combined[:needed]), of)
    if np.array_equal(predicted, combined[needed:]):
        return np.zeros(len(holders), np.bool_)
    points = code.points()[holders]
    at_zero = fields.lagrange_weights_at_zero(points, of)
    decoded = reed_solomon.decode(points, at_zero, combined, needed, of)
    if decoded is None:
        return None
    wrong = np.asarray(decoded[1].any(axis=1))
    return wrong if int(wrong.sum()) <= (len(holders) - needed) // 2 else None
