"""Byte layouts of the six other protocols' messages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg.errors import PeerError
from privagg.protocols.sensor import (
    Params,
    messages_papers,
)
from privagg.protocols.sensor.messages_papers import (
    Assembled,
    CmtReport,
    PaperRelay,
    PaperShares,
    Redo,
    Seed,
    SeededRoster,
    SeedRelay,
    Slice,
)


def examples(params):
    m = 5
    share, answer = messages_papers.share_size(params, m), messages_papers.answer_size(params, m)
    yield Seed(seeds=(255,) * params.width), m
    yield SeedRelay(origins=(True, False, True, False, False), seeds=((1,) * params.width,) * 2), m
    yield PaperShares(items=(bytes(share),) * 4), m
    yield PaperRelay(position=4, items=(b"1" * share,)), m
    yield Redo(attempt=19), m
    octets = answer // params.width
    yield Assembled(numbers=(-3,) * params.width, octets=octets, real=False), m
    yield Slice(sealed=bytes(messages_papers.item_bytes(params))), 0
    yield CmtReport(sealed=bytes(4 * params.width + 4 + params.tag_bytes + 4)), 0


@pytest.mark.parametrize("tag_bytes", [4, 16])
@pytest.mark.parametrize("width", [1, 3])
def test_messages_come_back_and_nothing_longer_or_shorter(tag_bytes, width):
    params = Params.recommend("cpda", nodes=1000, bound=9, tag_bytes=tag_bytes, width=width)
    for message, members in examples(params):
        octets = message.encode()
        read = type(message).decode(octets, params, peer=1, members=members)
        assert read == message
        assert read.encode() == octets
        for bad in (octets[:-1], octets + b"\0", b""):
            with pytest.raises(PeerError):
                type(message).decode(bad, params, peer=1, members=members)


def test_values_out_of_range_are_refused():
    params = Params.recommend("cpda", nodes=1000, bound=9)
    efficient = Params.recommend("cpda-sen-efficient", nodes=1000, bound=9)
    good = SeededRoster(epoch=1, members=(1, 2, 3), id_size=2, exponent=18)
    assert SeededRoster.decode(good.encode(), efficient, peer=1) == good
    real = Params.recommend("cpda", nodes=1000, bound=9, arithmetic="real")
    number = Assembled(numbers=(1.5,), octets=8, real=True)
    assert Assembled.decode(number.encode(), real, peer=1, members=3) == number
    cases = [
        (Seed, bytes(4), params, 3),
        (Seed, (256).to_bytes(4, "little"), params, 3),
        (SeedRelay, b"\xff" + bytes(12), params, 3),
        (PaperRelay, b"\5\0" + bytes(20), params, 5),
        (SeededRoster, replace(good, exponent=5).encode(), efficient, 0),
        (Assembled, np.float64("nan").tobytes(), real, 3),
        (CmtReport, bytes(11), params, 0),
    ]
    for kind, octets, which, members in cases:
        with pytest.raises(PeerError):
            kind.decode(octets, which, peer=1, members=members)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60), st.integers(2, 12))
def test_hostile_bytes_are_refused_or_canonical(data, members):
    params = Params.recommend("cpda", nodes=1000, bound=9)
    for kind in (Seed, SeedRelay, PaperShares, PaperRelay, Redo, Assembled, Slice, CmtReport):
        try:
            message = kind.decode(data, params, peer=1, members=members)
        except PeerError:
            continue
        assert message.encode() == data
