"""Who is under test, in which round, with which inputs and identities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg import keys
from privagg.entropy import Entropy
from privagg.protocols.secagg import (
    Client,
    Params,
    Phase,
    Policy,
    Server,
)
from privagg.protocols.secagg import messages as layouts
from privagg.protocols.secagg.identity import Directory, Roster, Signer
from privagg.protocols.secagg.messages import Message
from privagg.testing.secagg.behaviour import Cohort

__all__ = [
    "MODEL",
    "SESSION",
    "Decode",
    "LyingServer",
    "MakeClient",
    "MakeServer",
    "Setting",
    "identities_of",
    "inputs_of",
]

MODEL = keys.digest(b"the model that everyone was given")
SESSION = keys.digest(b"a session")[:16]


class MakeClient(Protocol):
    """Makes the client under test: an object with the methods of ``secagg.Client``."""

    def __call__(
        self,
        params: Params,
        policy: Policy,
        *,
        identity: Signer | None,
        entropy: Entropy,
    ) -> Any:
        """Return it, or raise UsageError if it would not take part."""


class MakeServer(Protocol):
    """Makes the server under test: an object with the methods of ``secagg.Server``."""

    def __call__(
        self,
        params: Params,
        *,
        roster: Directory | None,
        session: bytes,
        round_number: int,
        model: bytes,
        entropy: Entropy,
    ) -> Any:
        """Return it."""


Decode = Callable[[bytes, Params], Message]
"""Reads what the server sent to the client under test."""


class LyingServer(Server):
    """The server, but for what it is told to believe."""

    def admit(self, sender: int, message: layouts.AdvertiseKeys) -> None:
        """Take a client's keys whatever they are."""
        pair = message.cipher_key + message.mask_key
        self._store.keys[sender] = np.frombuffer(pair, np.uint8)
        if self._params.signed:
            self._store.signatures[sender] = np.frombuffer(message.signature, np.uint8)
        self._here[Phase.ADVERTISE_KEYS][sender] = True

    def roster_of(self, members: NDArray[np.uint32]) -> layouts.KeyRoster:
        """Return a roster of any members, with their keys and all that proves these."""
        return self._store.roster_of(
            members,
            tag=self._tag,
            cohort=int(self._listed().sum()),
            digest=self._roster,
            proof=None if self._draw is None else self._draw.proof(members),
        )

    def believe(self, sender: int, message: layouts.MaskedInput) -> None:
        """Count a masked input whatever is signed with it; it is not added to the sum."""
        if self._params.views_signed:
            self._store.sharer_signatures[sender] = np.frombuffer(message.signature, np.uint8)
        self._here[Phase.MASKED_INPUT][sender] = True

    def signature_of(self, client: int) -> bytes:
        """Return a client's signature over the survivors."""
        signature: bytes = self._store.survivor_signatures[client].tobytes()
        return signature

    @property
    def roster_digest(self) -> bytes:
        """The digest over keys (and graph) that they are bound to, too."""
        return self._roster


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Who is under test, and in which round.

    Attributes
    ----------
    params : Params
        The round.
    make_client, make_server : callable
        Make the party under test; the package's own by default.
    decode : callable
        Reads the victim's messages.
    cohort : Cohort
        The victim's policy.
    vectors, weights : sequences, optional
        The inputs, as :func:`privagg.protocols.secagg.run` takes them.
    identities, roster : optional
        Where messages are signed; made if left out.
    seed : int
        Repeats the round.
    """

    params: Params
    make_client: MakeClient = Client
    make_server: MakeServer = LyingServer
    decode: Decode = lambda data, params: layouts.decode(data, params, peer="server")
    cohort: Cohort = Cohort.OF_PARAMS
    vectors: Sequence[Any] | NDArray[Any] | None = None
    weights: Sequence[int] | None = None
    identities: Sequence[Signer] | None = None
    roster: Directory | None = None
    seed: int = 1


def identities_of(setting: Setting) -> tuple[Sequence[Signer], Directory | None]:
    """Return the identities given, or new ones, and the roster of them."""
    if not setting.params.signed:
        return (), None
    if setting.identities is not None and setting.roster is not None:
        return setting.identities, setting.roster
    source = entropies.from_seed(setting.seed)
    made = [
        keys.Identity.generate(source.spawn(f"identity/{index}"))
        for index in range(setting.params.clients)
    ]
    return made, Roster(identity.public for identity in made)


def inputs_of(setting: Setting) -> tuple[Any, Sequence[int] | None]:
    """Return the inputs given, or some that differ from each other and fill their range."""
    params = setting.params
    if setting.vectors is not None:
        return setting.vectors, setting.weights
    encoding = params.encoding
    steps = np.arange(params.clients * params.dim).reshape(params.clients, params.dim) * 7919 + 5
    values: NDArray[Any] = steps % (encoding.levels + 1) - encoding.offset
    if encoding.clip is not None:
        values = encoding.clip * (2 * (steps % 1009) / 1008 - 1)
    weights = [1 + index % encoding.max_weight for index in range(params.clients)]
    return values, weights if encoding.weighted else None
