"""Frames on the air: how many it takes, which arrive, and who sent and heard how much.

Losses are independent for each receiver and each try. A frame that several need is sent again until
all of them have it, or the tries are used up. Nothing here is secret: losses come from a NumPy
generator that belongs to the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.protocols.sensor.network import Network
from privagg.protocols.sensor.params import Radio

__all__ = ["Air", "Ledger", "fragments"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_Tries = NDArray[np.uint8]


def fragments(size: _Ints | int, payload: int) -> Any:
    """Return how many frames `size` bytes take; at least one."""
    return np.maximum(1, -(-np.asarray(size) // payload))


@dataclass(eq=False)
class Air:
    """Draws of losses for a number of epochs at once.

    Parameters
    ----------
    radio : Radio
        Loss and retries.
    random : numpy.random.Generator
        Of the run.
    """

    radio: Radio
    random: np.random.Generator

    @property
    def most(self) -> int:
        """Tries of one frame at most."""
        return self.radio.retries + 1

    def tries(self, shape: tuple[int, ...], parts: int = 1) -> _Tries:
        """Return for each frame and receiver the try that arrives; ``most + 1`` for none.

        With `parts`, the frame stands for so many that are all needed: the latest try counts.
        """
        loss = self.radio.loss
        if not loss:
            return np.broadcast_to(np.uint8(1), shape)
        result = np.ones(shape, np.uint8)
        for _ in range(parts):
            draw = self.random.random(shape)
            tries = np.ones(shape, np.uint8)
            for k in range(1, self.most + 1):
                tries += draw < loss**k
            np.maximum(result, tries, out=result)
        return result

    def arrived(self, tries: _Tries) -> _Bools:
        """Say which came through."""
        return np.asarray(tries <= self.most)

    def sent(self, tries: _Tries) -> _Tries:
        """Return how often each was sent."""
        return np.minimum(tries, np.uint8(self.most))

    def survives_formation(self) -> float:
        """Return the probability that a frame of the formation is lost for good."""
        return float(self.radio.loss ** (self.radio.formation_retries + 1))

    def formation_sends(self, shape: tuple[int, ...]) -> _Ints:
        """Return how often each frame of the formation is sent to a receiver that gets it."""
        loss = self.radio.loss
        if not loss:
            return np.ones(shape, np.int64)
        drawn = np.minimum(self.random.geometric(1 - min(loss, 0.999), shape), 2**16)
        return np.minimum(drawn, self.radio.formation_retries + 1).astype(np.int64)


class Ledger:
    """Who sent what: frames, bytes on air and messages by kind, and bytes by node.

    Parameters
    ----------
    network : Network
        Whose nodes; the base station's own frames are kept but are no node's.
    radio : Radio
        Of frames' overhead.
    """

    def __init__(self, network: Network, radio: Radio) -> None:
        self._network = network
        self._radio = radio
        count = network.nodes + 1
        self.frames_sent = np.zeros(count, np.float64)
        self.bytes_sent = np.zeros(count, np.float64)
        self.bytes_received = np.zeros(count, np.float64)
        self.by_kind: dict[str, NDArray[np.float64]] = {}
        self.received_by_kind: dict[str, float] = {}

    def send(
        self,
        kind: str,
        node: _Ints,
        frames: NDArray[Any],
        octets: NDArray[Any],
        messages: NDArray[Any] | float,
    ) -> None:
        """Count frames and bytes on air (overhead included) that nodes sent, and messages."""
        count = len(self.bytes_sent)
        frames = np.broadcast_to(np.asarray(frames, np.float64), node.shape)
        octets = np.broadcast_to(np.asarray(octets, np.float64), node.shape)
        said = np.broadcast_to(np.asarray(messages, np.float64), node.shape)
        self.frames_sent += np.bincount(node, weights=frames, minlength=count)
        self.bytes_sent += np.bincount(node, weights=octets, minlength=count)
        ours = node != self._network.base_station
        total = self.by_kind.setdefault(kind, np.zeros(3))
        total += [said[ours].sum(), frames[ours].sum(), octets[ours].sum()]

    def receive(self, kind: str, node: _Ints, octets: NDArray[Any]) -> None:
        """Count bytes on air that were meant for nodes, whether or not they were lost."""
        octets = np.broadcast_to(np.asarray(octets, np.float64), node.shape)
        self.bytes_received += np.bincount(node, octets, len(self.bytes_received))
        ours = float(octets[node != self._network.base_station].sum())
        self.received_by_kind[kind] = self.received_by_kind.get(kind, 0.0) + ours

    def unicast(
        self,
        kind: str,
        sender: _Ints,
        receiver: _Ints,
        payload: _Ints | int,
        sends: NDArray[Any] | float = 1.0,
        *,
        acknowledged: bool = False,
    ) -> None:
        """Count messages of `payload` bytes that were each sent `sends` times in full."""
        pieces = fragments(payload, self._radio.payload)
        air = np.asarray(payload) + pieces * self._radio.overhead
        self.send(kind, sender, pieces * sends, air * sends, np.asarray(sends) > 0)
        self.receive(kind, receiver, air * sends)
        if acknowledged:
            self.acknowledge(receiver, sender, pieces * (np.asarray(sends) > 0))

    def acknowledge(self, sender: _Ints, receiver: _Ints, frames: NDArray[Any]) -> None:
        """Count acknowledgements: bytes alone, as they are no frames of a message."""
        octets = np.asarray(frames, np.float64) * self._radio.acknowledgement
        self.send("acknowledgement", sender, np.zeros(len(sender)), octets, 0.0)
        self.receive("acknowledgement", receiver, octets)

    def overheard(self) -> NDArray[np.float64]:
        """Return for each node the bytes that all its neighbours sent."""
        network = self._network
        receivers = np.repeat(np.arange(len(self.bytes_sent)), network.degree)
        heard = self.bytes_sent[network.neighbours]
        return np.bincount(receivers, heard, len(self.bytes_sent)).astype(np.float64)
