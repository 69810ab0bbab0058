"""How many workers a round gets where nobody says: none for what is over at once."""

from __future__ import annotations

import os

import pytest

from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg.workers import available_cores


def recommended(clients, dim, cores=8, **options):
    params = secagg.Params.recommend(clients=clients, dim=dim, **options)
    return secagg.recommended_workers(params, cores)


@pytest.mark.parametrize(("clients", "dim"), [(2, 1), (10, 1000), (50, 100_000), (100, 1000)])
def test_small_rounds_stay_in_one_process(clients, dim):
    assert recommended(clients, dim) == 1


@pytest.mark.parametrize(
    ("clients", "dim", "graph"),
    [(200, 100_000, "complete"), (1000, 10, "complete"), (1000, 100_000, "sparse")],
)
def test_large_rounds_get_every_core(clients, dim, graph):
    for cores in (1, 2, 8):
        assert recommended(clients, dim, cores, graph=graph) == cores


def test_no_worker_is_without_a_client():
    assert recommended(5, 10**9, 64) == 5


def test_what_is_there_is_what_may_be_used():
    assert available_cores() >= 1
    if hasattr(os, "sched_setaffinity"):
        before = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {min(before)})
            assert available_cores() == 1
        finally:
            os.sched_setaffinity(0, before)
    params = secagg.Params.recommend(clients=5, dim=10**9)
    assert secagg.recommended_workers(params) == min(available_cores(), 5)


def test_other_arguments_are_refused():
    with pytest.raises(UsageError, match="params"):
        secagg.recommended_workers({"clients": 5})
    with pytest.raises(UsageError, match="cores"):
        recommended(5, 10, 0)
