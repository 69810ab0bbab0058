"""Every client may leave before any round: the exact sum over who stayed, or an abort."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from lsa_parties import active, honest, identity, inputs

from privagg.errors import Abort
from privagg.protocols import lightsecagg as lsa

N = 4


def predicted(params, leaves, rounds):
    """Return who is in the sum, or None for an abort, by the rules in words."""

    def stay(name):
        return [c for c in range(N) if leaves.get(c) is None or rounds.index(leaves[c]) > name]

    numbers = {name: rounds.index(name) for name in rounds}
    in_sum = stay(numbers["masked-input"])
    if len(in_sum) < max(params.threshold, params.min_cohort):
        return None
    signers = stay(numbers["consistency-check"])
    if params.signed and len(signers) < params.threshold:
        return None
    return in_sum if len(stay(numbers["unmasking"])) >= params.threshold else None


@pytest.mark.parametrize("make", [honest, active], ids=["semi-honest", "active"])
def test_every_schedule_of_few_clients(make):
    params = make(N, 2, threshold=3 if make is active else 2)
    vectors = inputs(params)
    moments = [None, *lsa.ROUNDS] if params.signed else [None, *lsa.ROUNDS[:3], "unmasking"]
    identities = [identity(i) for i in range(N)] if params.signed else None
    roster = lsa.Roster(one.public for one in identities) if params.signed else None
    ends = {True: 0, False: 0}
    # Clients differ by their index alone: each choice of moments is dealt out twice, at random.
    deal = np.random.default_rng(6)
    for drawn in 2 * list(itertools.combinations_with_replacement(moments, N)):
        moment = [drawn[place] for place in deal.permutation(N)]
        leaves = {c: name for c, name in enumerate(moment) if name is not None}
        expected = predicted(params, leaves, list(lsa.ROUNDS))
        ends[expected is None] += 1
        if expected is None:
            with pytest.raises(Abort):
                lsa.run(params, vectors, dropouts=leaves, identities=identities, roster=roster)
            continue
        result = lsa.run(params, vectors, dropouts=leaves, identities=identities, roster=roster)
        assert result.exact
        assert result.survivors["masked-input"] == tuple(expected)
        assert np.array_equal(result.sum, vectors[expected].sum(axis=0))
    assert min(ends.values()) > 9
