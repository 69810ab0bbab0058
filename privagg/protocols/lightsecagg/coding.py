"""The code that hides a mask: split into pieces, padded with noise, spread over all clients.

J. So et al., LightSecAgg, MLSys 2022 (arXiv:2109.14236), offline encoding of local masks.

A mask of d elements is cut into U - T pieces of ``ceil(d / (U - T))``, zeros at the end; T pieces
of uniform noise follow. Per coordinate, the U pieces are the values of one polynomial of degree
below U at U fixed *nodes*, and client j's coded share is its value at the *point* of j. This is
Lagrange's form of an MDS matrix: the shares are a Reed-Solomon code.

- Any U shares (or U sums of shares of the same masks) give all pieces: :meth:`MaskCode.join`.
- Any T shares are uniform whatever the mask is. The noise reaches the shares of T clients through
  the entries ``A(x_j) / ((x_j - b_k) c_k)`` of T nodes b and T points x, where A(x_j) and c_k are
  not zero: a Cauchy matrix between two invertible diagonal ones. Every square submatrix of a Cauchy
  matrix is invertible. This rests on no assumption but that the noise is uniform.

Points are ``1 ... N``; nodes are ``N + 1 ... N + U`` modulo the prime. So a field of N + U elements
will do, and no point is zero, which the decoder of wrong sums needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privagg import field as fields
from privagg.field import Elements, Field

__all__ = ["MaskCode"]


@dataclass(frozen=True)
class MaskCode:
    """The code of one round; the numbers are validated by the round's parameters.

    Parameters
    ----------
    clients : int
        N, the shares of a mask.
    threshold : int
        U, the shares that give the mask back.
    privacy : int
        T, the shares that say nothing of it; below U.
    field : Field
        Of one limb, with at least N + U elements.
    """

    clients: int
    threshold: int
    privacy: int
    field: Field

    @property
    def pieces(self) -> int:
        """Pieces of a mask, U - T."""
        return self.threshold - self.privacy

    def piece(self, length: int) -> int:
        """Return the elements of one piece, and of one share, of a mask of `length`."""
        return -(-length // self.pieces)

    def points(self) -> Elements:
        """Return where the shares are evaluated: (N,)."""
        return fields.elements(np.arange(1, self.clients + 1), self.field)

    def nodes(self) -> Elements:
        """Return where the pieces are the polynomial's values: (U,), the noise's at the end."""
        after = np.arange(self.clients + 1, self.clients + self.threshold + 1, dtype=object)
        return fields.elements(after % self.field.modulus, self.field)

    def generator(self) -> Elements:
        """Return the matrix (N, U) that turns pieces into shares; read-only, and kept."""
        return _generator(self)

    def split(self, mask: Elements, noise: Elements) -> Elements:
        """Encode a mask.

        Parameters
        ----------
        mask : (length,) array of elements
            The mask; secret.
        noise : (T, piece(length)) array of elements
            Uniform, used for this mask only; secret.

        Returns
        -------
        (N, piece(length)) array of elements
            Row j is the coded share of client j.
        """
        rows = np.zeros((self.threshold, self.piece(len(mask))), self.field.dtype)
        rows[: self.pieces].reshape(-1)[: len(mask)] = mask
        rows[self.pieces :] = noise
        return fields.matmul(self.generator(), rows, self.field)

    def join(self, sums: Elements, holders: NDArray[np.intp], length: int) -> Elements:
        """Decode U shares, or sums of shares over the same clients: Lagrange's formula.

        Parameters
        ----------
        sums : (U, piece(length)) array of elements
            Of `holders`, in order.
        holders : (U,) integer array
            Distinct clients.
        length : int
            Elements of the mask.

        Returns
        -------
        (length,) array of elements
            The mask, or the sum of the masks.
        """
        weights = self.weights(holders, self.nodes()[: self.pieces])
        return fields.matmul(weights, sums, self.field).reshape(-1)[:length]

    def weights(self, holders: NDArray[np.intp], targets: Elements) -> Elements:
        """Return the weights (m, U) of the values at U holders' points in those at m targets.

        Parameters
        ----------
        holders : (U,) integer array
            Indices of those whose values are known.
        targets : (m,) array of elements
            Points where values are wanted.
        """
        return fields.lagrange_weights(self.points()[holders], targets, self.field)


@lru_cache(maxsize=4)
def _generator(code: MaskCode) -> Elements:
    """Every client of a round multiplies by the same matrix."""
    matrix = fields.lagrange_weights(code.nodes(), code.points(), code.field)
    matrix.flags.writeable = False
    return matrix
