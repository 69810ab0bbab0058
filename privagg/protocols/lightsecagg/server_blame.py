"""Whose fault it is that coded shares did not open, as far as that can be known.

A holder that says a ciphertext does not open may lie; a dealer may have sent one that does not. If
more holders complain of one dealer than may be corrupt, an honest one is among them; and the
reverse.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from privagg.protocols.lightsecagg.params import Params
from privagg.protocols.lightsecagg.recovery import Blame

__all__ = ["blame_of"]


def blame_of(missing: NDArray[np.bool_], params: Params) -> tuple[Blame, ...]:
    """Return blame for each share that did not open.

    Parameters
    ----------
    missing : (clients, clients) bool array
        Per holder and dealer.
    params : Params
        The round: it says how many may be corrupt.
    """
    pairs = [(int(dealer), int(holder)) for holder, dealer in np.argwhere(missing)]
    dealers = Counter(dealer for dealer, _ in pairs)
    holders = Counter(holder for _, holder in pairs)

    def verdict(dealer: int, holder: int) -> str:
        many_holders = dealers[dealer] > params.corrupt
        many_dealers = holders[holder] > params.corrupt
        if many_holders == many_dealers:
            return "dealer or holder"
        return "dealer" if many_holders else "holder"

    return tuple(
        Blame(
            dealer=dealer,
            holder=holder,
            reason="ciphertext does not open",
            verdict=verdict(dealer, holder),
        )
        for dealer, holder in sorted(pairs)
    )
