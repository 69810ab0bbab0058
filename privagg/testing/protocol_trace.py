"""Honest runs of a protocol under test, recorded once and used by all checks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privagg.entropy import from_seed
from privagg.testing.protocol_contract import Envelope, Protocol, Run, Sum, play

__all__ = ["Trace"]


@dataclass(frozen=True)
class Trace:
    """A protocol under test, how hard it is tested, and its honest runs.

    Attributes
    ----------
    protocol : Protocol
        What is under test.
    seed, schedules, mutations : int
        See :func:`privagg.testing.check_protocol`.
    """

    protocol: Protocol
    seed: int
    schedules: int
    mutations: int

    def start(self, further: int = 0) -> Run:
        """Return a new run from this trace's seed, or one further on."""
        return self.protocol.start(from_seed(self.seed + further))

    @cached_property
    def honest(self) -> tuple[list[Envelope], Sum]:
        """All messages of a run in which everyone stays, and what it ended with."""
        run = self.start()
        said = play(self.protocol, run)
        return said, run.result()

    @cached_property
    def other(self) -> list[Envelope]:
        """All messages of such a run from another seed."""
        return play(self.protocol, self.start(1))

    def as_before(self, found: Sum) -> bool:
        """Say whether a run ended as the honest one did."""
        before = self.honest[1]
        same = np.array_equal(np.asarray(found.aggregate), np.asarray(before.aggregate))
        return same and set(found.contributors) == set(before.contributors)

    @property
    def said(self) -> list[Envelope]:
        """All messages of the honest run."""
        return self.honest[0]
