"""Checks of bytes: canonical encodings, strict decoding, sizes before memory."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace
from typing import Any

from privagg.errors import PeerError
from privagg.testing.conformance import Failed
from privagg.testing.protocol_contract import Envelope
from privagg.testing.protocol_trace import Trace

__all__ = ["decoding", "sizes"]

_HUGE = (b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\xff" * 7 + b"\x7f", b"\xff\x7f")
_HEAD = 64
_ROOM = 2**20
"""Bytes that a decoder may take beside a multiple of what it was given."""


def decoding(trace: Trace) -> str:
    """Require that messages encode back, and that changed bytes are refused or canonical.

    Cut at every place, longer, and with any bit flipped: a :class:`privagg.errors.PeerError`, or a
    message that encodes to those very bytes.
    """
    kinds = _kinds(trace)
    refused = tried = 0
    draw = random.Random(trace.seed)  # noqa: S311 - which bytes to change, no secret
    for name, envelope in kinds.items():
        for data in _changed(envelope.data, trace.mutations, draw):
            tried += 1
            found = _decoded(trace, envelope, data, name)
            if found is None:
                refused += 1
            elif bytes(found.encode()) != data:
                raise Failed(f"{name}: changed bytes were read as what encodes to other bytes")
    return f"{refused} of {tried} changed encodings of {len(kinds)} kinds refused, others canonical"


def sizes(trace: Trace) -> str:
    """Require that counts are checked before memory is taken: huge ones, wherever they stand."""
    kinds = _kinds(trace)
    tried, most = 0, 0
    tracemalloc.start()
    try:
        for name, envelope in kinds.items():
            data = envelope.data
            for at in range(min(len(data), _HEAD)):
                for huge in _HUGE:
                    forged = data[:at] + huge + data[at + len(huge) :]
                    tracemalloc.reset_peak()
                    before = tracemalloc.get_traced_memory()[0]
                    _decoded(trace, envelope, forged, name)
                    taken = tracemalloc.get_traced_memory()[1] - before
                    tried, most = tried + 1, max(most, taken)
                    if taken > _ROOM + 64 * len(data):
                        raise Failed(f"{name}: {taken} bytes taken for a message of {len(forged)}")
    finally:
        tracemalloc.stop()
    return f"{tried} huge counts in {len(kinds)} kinds: at most {most} bytes taken"


def _kinds(trace: Trace) -> dict[str, Envelope]:
    """Return the shortest message of each type, after it was seen to encode back."""
    found: dict[str, Envelope] = {}
    for one in trace.said:
        message = trace.protocol.decode(one)
        name = type(message).__name__
        if bytes(message.encode()) != one.data:
            raise Failed(f"{name} does not encode back to the bytes it was read from")
        if name not in found or len(one.data) < len(found[name].data):
            found[name] = one
    return found


def _decoded(trace: Trace, envelope: Envelope, data: bytes, name: str) -> Any:
    try:
        return trace.protocol.decode(replace(envelope, data=data))
    except PeerError:
        return None
    except Exception as error:  # whatever bytes do, it is the peer's doing
        raise Failed(f"{name}: changed bytes raised {type(error).__name__}: {error}") from error


def _changed(data: bytes, limit: int, draw: random.Random) -> list[bytes]:
    cuts = range(len(data))
    bits = range(8 * len(data))
    third = limit // 3
    chosen_cuts = cuts if len(cuts) <= third else draw.sample(cuts, third)
    chosen_bits = bits if len(bits) <= 2 * third else draw.sample(bits, 2 * third)
    found = [data[:end] for end in chosen_cuts]
    found += [data + b"\0", data + b"\xff", data + data]
    for bit in chosen_bits:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        found.append(bytes(changed))
    return found
