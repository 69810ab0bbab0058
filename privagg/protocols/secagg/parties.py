"""Who takes part in a simulated round: identities, policies, dropouts, and where they live."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from privagg import entropy as entropies
from privagg import keys
from privagg._validate import whole
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols.secagg.arguments import is_sequence, rounds_of_leaving
from privagg.protocols.secagg.engine import Cast, Engine, LocalEngine, Stripping
from privagg.protocols.secagg.engine_processes import ProcessEngine
from privagg.protocols.secagg.identity import Directory, Roster, Signer
from privagg.protocols.secagg.params import Params, Policy
from privagg.protocols.secagg.server import Server

__all__ = ["Parties", "Progress", "engine_of"]

Progress = Callable[[str, int, int], None]
"""Called with the round's name, the clients done and the clients in it."""


class Parties:
    """Who takes part, until when, and with which secrets; checked when built.

    The arguments are those of :func:`run`.
    """

    def __init__(
        self,
        *,
        params: Params,
        policy: Policy | None,
        seed: int | None,
        identities: Sequence[Signer] | None,
        roster: Directory | None,
        model: bytes,
        dropouts: Mapping[int, str],
        progress: Progress | None,
    ) -> None:
        if policy is not None and not isinstance(policy, Policy):
            raise UsageError("policy", type(policy).__name__, "secagg.Policy")
        if progress is not None and not callable(progress):
            raise UsageError(
                "progress", type(progress).__name__, "a function of name, done and total"
            )
        if identities is not None and not is_sequence(identities):
            raise UsageError("identities", type(identities).__name__, "a sequence of n Signers")
        self.source: Entropy = entropies.from_seed(seed)
        self.params, self.seed = params, None if seed is None else int(seed)
        self.leaves = rounds_of_leaving(params, dropouts)
        self.model = model
        self.progress: Progress = progress or (lambda name, done, total: None)
        if not params.signed and (identities is not None or roster is not None):
            raise UsageError(
                "identities",
                "identities or a roster",
                f"none where the threat model is {params.threat.value}: nothing is signed there",
                "Choose threat='active' or 'semi-malicious'.",
            )
        if params.signed and identities is None and roster is None:
            made = [
                keys.Identity.generate(self.source.spawn(f"identity/{index}"))
                for index in range(params.clients)
            ]
            identities, roster = made, Roster(identity.public for identity in made)
        if params.signed and (roster is None or len(identities or ()) != params.clients):
            raise UsageError(
                "identities",
                f"{len(identities or ())} signers, {'a' if roster else 'no'} roster",
                f"{params.clients} signers and the roster that verifies them",
            )
        self.roster = roster
        self.policy = policy or (Policy.of(params, roster) if params.signed else None)
        self.identities = identities

    def staying(self, number: int) -> list[int]:
        """Return the clients that are still there in the round of this number."""
        return [int(index) for index in np.flatnonzero(self.leaves > number)]

    def cast(self) -> Cast:
        """Return what the engine makes clients from."""
        signers = None if self.identities is None else dict(enumerate(self.identities))
        return Cast(
            params=self.params,
            policy=self.policy,
            model=self.model,
            seed=self.seed,
            identities=signers,
        )

    def server(
        self, kind: Callable[..., Server], engine: Engine, workers: int, **settings: Any
    ) -> Server:
        """Return the server, of a class of servers."""
        return kind(
            self.params,
            roster=self.roster,
            model=self.model,
            entropy=self.source.spawn("server"),
            workers=max(workers, engine.workers),
            agree=engine.agree if engine.workers > 1 else None,
            strip=engine.strip if isinstance(engine, Stripping) else None,
            **settings,
        )


@contextmanager
def engine_of(params: Params, workers: int, given: Engine | None = None) -> Iterator[Engine]:
    """Give the engine to run in; end it afterwards if it is not the user's.

    No more processes are started than there are clients for them.

    Raises
    ------
    UsageError
        If `workers` is no number of processes, or `given` no engine.
    """
    workers = whole("workers", workers, 1, 1024)
    if given is not None and (isinstance(given, type) or not isinstance(given, Engine)):
        raise UsageError("engine", type(given).__name__, "an engine, such as a ProcessEngine")
    if given is not None:
        yield given
        return
    workers = min(workers, params.clients)
    with LocalEngine() if workers == 1 else ProcessEngine(workers) as made:
        yield made
