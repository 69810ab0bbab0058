"""Blame that honest clients must not get: corrupt holders that act together cannot place it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privagg.protocols import secagg

P = 2**61 - 1


def shift(framed, clients, corrupt):
    """Return per corrupt holder what turns all shares into a polynomial that misses `framed`.

    It is a multiple of the polynomial that vanishes at 0, so that the secret stays, and at every
    honest holder but the framed ones.
    """
    roots = [0] + [one + 1 for one in range(clients) if one not in corrupt and one not in framed]
    values = {}
    for holder in corrupt:
        value = 1
        for root in roots:
            value = value * (holder + 1 - root) % P
        values[holder] = value
    return values, len(roots)


@pytest.mark.parametrize(
    ("fraction", "certain"),
    [(0.3, False), (0.1, True)],
    ids=["corrupt beyond the surplus", "corrupt within it"],
)
def test_no_honest_holder_is_blamed_for_certain(fraction, certain):
    params = secagg.Params.recommend(
        clients=30, dim=4, value_bits=8, corrupt=fraction, dropout=0.0, threshold=20, min_cohort=16
    )
    corrupt, framed = list(range(params.corrupt)), [10, 11, 12]
    values, degree = shift(framed, params.clients, corrupt)
    if not certain:
        assert degree < params.threshold  # the lie is a polynomial that t shares would determine
    vectors = np.arange(120).reshape(30, 4)
    server = secagg.Server(params)
    clients = [secagg.Client(params) for _ in range(30)]
    for work in (
        lambda client, message, _: client.advertise_keys(message),
        lambda client, message, _: client.share_keys(message),
        lambda client, message, index: client.masked_input(message, vectors[index]),
    ):
        for index, client in enumerate(clients):
            server.receive(index, work(client, server.message_for(index), index))
        server.close()
    for index, client in enumerate(clients):
        answer = client.unmasking(server.message_for(index))
        if index in corrupt:
            shares = answer.shares.astype(object)
            shares[:15] = (shares[:15] + values[index]) % P
            answer = replace(answer, shares=shares.astype(np.uint64))
        server.receive(index, answer)
    server.close()
    np.testing.assert_array_equal(server.result().total, vectors.sum(axis=0))
    blame = server.blame
    assert {entry.dealer for entry in blame} == set(range(15))
    if certain:  # three liars, fifteen dealers each
        assert {entry.holder for entry in blame} == set(corrupt)
        assert {entry.verdict for entry in blame} == {"holder"}
    else:  # the decoder names the honest ones, so nobody may be convicted by it
        assert {entry.holder for entry in blame} == set(framed)
        assert {entry.verdict for entry in blame} == {"dealer or holder"}
