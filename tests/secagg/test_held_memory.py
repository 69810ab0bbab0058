"""The plan bounds what a server really holds: every object that it refers to, not arrays alone."""

from __future__ import annotations

import gc
import sys
from types import FunctionType, ModuleType

import numpy as np
import pytest
from parties import ALL, FREE, Play

from privagg.protocols import secagg
from privagg.protocols.secagg.states import Phase

SMALL = 10_000
"""Bytes of the objects that every server has, however many clients there are."""


def held(server):
    """Return the bytes of everything that a server refers to, but for what it was given."""
    given = {id(server._params), id(server._directory)}
    seen, stack, total = set(given), [vars(server)], 0
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType | FunctionType):
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            owner = thing if thing.base is None else thing.base
            if id(owner) not in seen or owner is thing:
                seen.add(id(owner))
                total += getattr(owner, "nbytes", 0) or sys.getsizeof(owner)
            continue
        total += sys.getsizeof(thing)
        stack += gc.get_referents(thing)
    return total


@pytest.mark.parametrize("kind", ALL)
def test_a_server_never_holds_more_than_its_plan_says(kind):
    params = ALL[kind](60, 40)
    bill = secagg.plan(params, units=FREE).memory_server
    play = Play(params)
    most = 0
    while play.phase is not Phase.DONE:
        play.exchange()
        most = max(most, held(play.server))
        play.server.close()
        most = max(most, held(play.server))
    assert most <= bill + SMALL
    assert bill <= 3 * most + SMALL, "a bound, and not just any"


@pytest.mark.parametrize("kind", ALL)
def test_vectors_are_counted_to_the_end_of_the_round(kind):
    params = ALL[kind](6, 50_000)
    bill = secagg.plan(params, units=FREE).memory_server
    play = Play(params)
    play.finish()
    assert 16 * params.dim <= held(play.server) <= bill


def test_a_client_drops_the_shares_it_holds_once_it_has_answered():
    """What it was asked for is in its reply; the other kind of share must never leave it."""
    for kind, make in ALL.items():
        play = Play(make(6, 3)).until(Phase.UNMASKING)
        client = play.clients[0]
        assert client._memory.held.any(), kind
        play.exchange()
        assert client._memory.held.size == 0
        first = play.up[Phase.UNMASKING, 0]
        assert play.answer(0, play.down[Phase.UNMASKING, 0]) == first, "and still repeats it"
        again = play.load(0, client.dump_state())
        play.clients[0] = again
        assert play.answer(0, play.down[Phase.UNMASKING, 0]) == first
