"""What a misbehaviour is: who lies, how, and how an honest party must notice.

Every behaviour is a function that plays a round in an :class:`~privagg.testing.secagg.arena.Arena`
up to the lie, and tells it. :func:`behaviour` names it after the function, says what the liar is
after, and puts it into :data:`BEHAVIOURS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from privagg.errors import PeerError
from privagg.protocols.secagg import Graph, Threat

if TYPE_CHECKING:
    from privagg.testing.secagg.arena import Arena

__all__ = [
    "ALL",
    "BEHAVIOURS",
    "SIGNED",
    "SURVIVOR_SET",
    "Act",
    "Behaviour",
    "Cohort",
    "Expect",
    "Liar",
    "behaviour",
]

ALL = (Threat.SEMI_HONEST, Threat.ACTIVE, Threat.SEMI_MALICIOUS)
"""Noticed whatever the threat model, by checks that cost nothing."""

SIGNED = (Threat.ACTIVE, Threat.SEMI_MALICIOUS)
"""Noticed where clients have identities."""

_GRAPHS = {
    Threat.SEMI_HONEST: {Graph.COMPLETE, Graph.SPARSE},
    Threat.ACTIVE: {Graph.COMPLETE},
    Threat.SEMI_MALICIOUS: {Graph.SPARSE},
}

SURVIVOR_SET = "survivor-set"
"""The round in which clients are shown U3: consistency-check if there is one, else unmasking."""

Act = Callable[["Arena"], str | None]
"""Plays the lie. A string says how it was contained where nobody need raise an error."""


class Liar(Enum):
    """Who misbehaves."""

    SERVER = "server"
    COALITION = "server and clients"
    CLIENTS = "clients"
    NOBODY = "nobody"


class Cohort(Enum):
    """What the client under test insists on as its ``min_cohort``."""

    OF_PARAMS = "the parameters' minimum"
    ALL = "every client"
    TWO = "two honest clients"


class Expect(Enum):
    """What must come of a lie."""

    CAUGHT = "the client refuses it with a typed error and reveals nothing more"
    CONTAINED = "the round may go on: the lie gains nothing"
    HONEST = "nobody is accused and the sum is right"
    REFUSED = "the server refuses the message, naming its sender; the others' sum is right"
    BLAMED = "the sum is right and the liar is among those blamed"
    IGNORED = "the message does not count; the sum is right"
    ENDED = "the server ends the round with a typed error: no sum"


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """One named way to misbehave.

    Attributes
    ----------
    name : str
        For :func:`~privagg.testing.secagg.check_client` and the command line.
    liar : Liar
        Who misbehaves. Where it is clients alone, the server is under test, else one client.
    threats : tuple of Threat
        The threat models in which it must be noticed.
    graphs : tuple of Graph
        The graphs in which it can be done.
    invariant : str
        What it attacks: a function of :mod:`privagg.protocols.secagg.checks`, or a few words.
    round : str
        The round in which it must be noticed: before the client answers in it.
    expect : Expect
        What must come of it.
    errors : tuple of exception types
        The errors that count.
    ends_round : bool
        Whether the client must take no further part; else the message alone is refused.
    poisons : bool
        The liar's own contribution is not what it declares: the sum may be anything.
    cohort : Cohort
        The policy of the client under test.
    source : str
        Where the attack is described.
    text : str
        One paragraph: what the liar does and is after.
    act : callable
        Plays it.
    """

    name: str
    liar: Liar
    threats: tuple[Threat, ...]
    graphs: tuple[Graph, ...]
    invariant: str
    round: str
    expect: Expect
    errors: tuple[type[Exception], ...]
    ends_round: bool
    poisons: bool
    cohort: Cohort
    source: str
    text: str
    act: Act

    @property
    def of_server(self) -> bool:
        """Whether a client is under test."""
        return self.liar is not Liar.CLIENTS

    def round_in(self, threat: Threat) -> str:
        """Return the name of the round in which it must be noticed against `threat`."""
        if self.round == SURVIVOR_SET:
            return "consistency-check" if threat in SIGNED else "unmasking"
        return self.round

    def applies(self, threat: Threat, graph: Graph) -> bool:
        """Whether it must be noticed in rounds of this kind."""
        return threat in self.threats and graph in self.graphs


BEHAVIOURS: dict[str, Behaviour] = {}
"""Every behaviour by its name."""


def behaviour(
    *,
    invariant: str,
    round: str,
    source: str,
    text: str,
    liar: Liar = Liar.SERVER,
    threats: tuple[Threat, ...] = ALL,
    graphs: tuple[Graph, ...] = (Graph.COMPLETE, Graph.SPARSE),
    expect: Expect = Expect.CAUGHT,
    errors: tuple[type[Exception], ...] = (PeerError,),
    ends_round: bool = True,
    poisons: bool = False,
    cohort: Cohort = Cohort.OF_PARAMS,
) -> Callable[[Act], Act]:
    """Register a function as the behaviour of its name, with dashes; see :class:`Behaviour`."""

    def register(act: Act) -> Act:
        name = act.__name__.removeprefix("_").replace("_", "-")
        if name in BEHAVIOURS:
            raise ValueError(f"two behaviours {name!r}")
        BEHAVIOURS[name] = Behaviour(
            name=name,
            liar=liar,
            threats=tuple(threat for threat in threats if _GRAPHS[threat] & set(graphs)),
            graphs=graphs,
            invariant=invariant,
            round=round,
            expect=expect,
            errors=errors,
            ends_round=ends_round,
            poisons=poisons,
            cohort=cohort,
            source=source,
            text=text,
            act=act,
        )
        return act

    return register
