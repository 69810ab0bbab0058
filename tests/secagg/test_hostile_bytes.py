"""Bytes that claim too much, and bytes changed at random: typed errors, and no memory taken."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest
from corpus import PARAMS, sent, survives
from parties import ALL, METHODS, Play, phases, respond

from privagg import wire
from privagg.errors import Abort, PeerError
from privagg.protocols import secagg
from privagg.protocols.secagg import messages

WHO = 1
OVERHEAD = 64 * 1024
"""Bytes that reading any small message may take, whatever it says."""

HUGE = 2**32 - 1


def claims(params):
    """Return messages that claim more than they bring: counts of 2**32 - 1 and the like."""
    tag = bytes(8)

    def header(kind):
        return wire.Writer().u8(1).u8(kind.kind).raw(tag)

    return [
        header(messages.KeyRoster).u32(HUGE).raw(b"\xff" * 200),
        header(messages.KeyRoster).u32(HUGE).raw(bytes(32)).u32(HUGE).raw(bytes(64)),
        header(messages.KeyRoster).u32(8).raw(bytes(32)).u32(params.neighbours),
        header(messages.ShareKeys).raw(bytes(32)).u32(HUGE),
        header(messages.ShareKeys).raw(bytes(32)).u32(params.neighbours),
        header(messages.ShareBundle).u32(HUGE).u32(HUGE).raw(b"\xff" * 200),
        header(messages.ShareBundle).u32(8).u32(params.neighbours).raw(b"\xff" * 200),
        header(messages.MaskedInput),
        header(messages.SurvivorSet).u32(HUGE).u32(HUGE),
        header(messages.UnmaskShares).u32(HUGE),
        header(messages.UnmaskShares).u32(params.neighbours),
        header(messages.SignatureSet).u32(HUGE).raw(b"\xff" * 200),
        header(messages.SignatureSet).u32(params.neighbours).raw(b"\xff" * 500),
        header(messages.GraphRequest).u8(255),
        header(messages.GraphChallenge).u8(0).raw(b"\xff" * 40),
        *proofs(params, header),
    ]


def proofs(params, header):
    """Return rosters whose proofs claim openings, steps and paths that are not there."""
    if params.threat is not secagg.Threat.SEMI_MALICIOUS:
        return []
    made = []
    for claim in (
        lambda w: w.u32(HUGE),
        lambda w: w.u32(params.clients),
        lambda w: w.u32(0).u8(255),
        lambda w: w.u32(0).u8(12),
    ):
        roster = header(messages.KeyRoster).u32(params.clients).raw(bytes(32)).u32(2)
        roster.packed(np.array([1, 2], np.uint32), 32).raw(bytes(2 * (64 + 64)))
        claim(roster)
        made.append(roster)
    return made


@pytest.mark.parametrize("kind", ALL)
def test_claimed_sizes_allocate_nothing(kind):
    """In a round of thousands of clients and a billion coordinates: bytes decide, not claims."""
    clients = 4000
    options = {"threshold": None, "min_cohort": None, "corrupt": 0.01, "dropout": 0.05}
    if kind in ("sparse", "semi-malicious"):
        options |= {"neighbours": None, "sigma": 40, "eta": 20}
    if kind == "semi-malicious":
        options |= {"neighbours": 120, "threshold": 72}
    params = ALL[kind](clients, 10**9, **options)
    for writer in claims(params):
        data = writer.getvalue()
        assert not survives(data, params)  # compiled code is loaded once
        tracemalloc.start()
        try:
            assert not survives(data, params)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < OVERHEAD + 2 * clients


def test_twenty_thousand_mutations():
    """Bytes changed, cut, inserted, repeated: typed errors from decoders and from live parties."""
    mutate(20_000)


def test_mutations_take_no_memory():
    rng = random.Random(1)
    parts = [(params, data) for params in PARAMS.values() for _, data in sent(params)]
    tracemalloc.start()
    try:
        for _ in range(2_000):
            params, data = rng.choice(parts)
            survives(mutated(bytearray(data), rng, parts), params)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * OVERHEAD


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_a_million_mutations():
    mutate(1_000_000)


class Stage:
    """One phase of one round: what passes between server and client, and both of them."""

    def __init__(self, params, phase):
        self.params, self.phase = params, phase
        self.play = Play(params).until(phase)
        self.state = self.play.clients[WHO].dump_state()
        down = self.play.ask(WHO)
        self.messages = [down, self.play.answer(WHO, down)]
        self.vector = self.play.vectors[WHO]

    def deliver(self, data):
        """Let whoever it is for read `data`; say whether it was answered or accepted."""
        if not survives(data, self.params):
            return False
        message = messages.decode(data, self.params, peer=WHO)
        try:
            if type(message) in METHODS:
                respond(self.play.load(WHO, self.state), message, self.vector)
                return True
            receipt = self.play.server.receive(WHO, message)
        except (PeerError, Abort):
            return False
        if receipt is secagg.Receipt.ACCEPTED:  # as if it had not come, for the next one
            self.play.server._here[self.phase][WHO] = False
            self.play.server._store._seen_keys.clear()
        return receipt is secagg.Receipt.ACCEPTED


def mutate(times):
    """Change messages of every kind and threat model so many times; each must end well."""
    rng = random.Random(times)
    stages = [Stage(make(6, 3), phase) for make in ALL.values() for phase in phases(make(6, 3))]
    parts = [(stage, data) for stage in stages for data in stage.messages]
    assert all(stage.deliver(data) for stage, data in parts)
    taken = 0
    for _ in range(times):
        stage, data = rng.choice(parts)
        taken += stage.deliver(mutated(bytearray(data), rng, parts))
    assert 0 < taken < times / 2


def mutated(data, rng, parts):
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(data)) if data else 0
        how = rng.randrange(7)
        if how == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1 and data:
            data[at] = rng.choice((0, 1, 127, 128, 255))
        elif how == 2:
            del data[at : at + rng.choice((1, 4, 16, 64))]
        elif how == 3:
            data[at:at] = rng.randbytes(rng.choice((1, 4, 16)))
        elif how == 4:
            data[at:at] = data[at : at + 64]
        elif how == 5:
            data[at : at + 4] = rng.choice((b"\xff" * 4, bytes(4), b"\x01\0\0\0", b"\0\0\0\x80"))
        else:
            other = rng.choice(parts)[1]
            data[at:] = other[at:]
    return bytes(data)
