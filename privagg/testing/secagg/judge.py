"""Whether the party under test did as it must: one finding for each behaviour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from privagg.errors import PeerError
from privagg.protocols.secagg import Blame, Graph, Phase, Threat
from privagg.testing.secagg.arena import Accused, Arena, Caught, Inapplicable, Missed
from privagg.testing.secagg.behaviour import Behaviour, Expect
from privagg.testing.secagg.setting import Setting

__all__ = ["Finding", "play"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What came of one behaviour.

    Attributes
    ----------
    behaviour : Behaviour
        What was done.
    threat, graph : Threat, Graph
        In which kind of round.
    passed : bool
        Whether the party under test did as it must.
    outcome : str
        ``caught``, ``contained``, ``blamed``, ``refused``, ``ignored``, ``ended`` or ``honest``;
        else what went wrong, in capitals: ``NOT CAUGHT`` and so on.
    detail : str
        The error's message, or what happened instead.
    error : str or None
        The error's type.
    round : str or None
        The round in which it was noticed: before the party answered in it.
    caught_by : str or None
        ``"server"`` or ``"client 3"``.
    accused : str, int or None
        Whom the error names.
    shares_released : int or None
        Shares that the client under test gave out in all; None where the server is.
    blame : tuple of Blame
        Whom the server blames.
    sum_right : bool or None
        Whether the server's sum is that of the inputs; None where there is none.
    """

    behaviour: Behaviour
    threat: Threat
    graph: Graph
    passed: bool
    outcome: str
    detail: str = ""
    error: str | None = None
    round: str | None = None
    caught_by: str | None = None
    accused: str | int | None = None
    shares_released: int | None = None
    blame: tuple[Blame, ...] = ()
    sum_right: bool | None = None

    def __str__(self) -> str:
        verdict = "ok  " if self.passed else "FAIL"
        where = f"{self.threat.value}, {self.graph.value}"
        by = f" {self.error} in {self.round}" if self.error else ""
        return f"{verdict} {self.behaviour.name} ({where}): {self.outcome}{by}. {self.detail}"


def play(behaviour: Behaviour, setting: Setting) -> Finding:
    """Play a behaviour and judge the party under test.

    Raises
    ------
    Inapplicable
        If there is no such lie in this round.
    """
    arena = Arena(setting)
    if behaviour.expect is Expect.HONEST:
        finding = _of_honest(behaviour, arena)
    elif behaviour.of_server:
        finding = _of_client(behaviour, arena)
    else:
        finding = _of_server(behaviour, arena)
    return finding


def _finding(
    behaviour: Behaviour,
    arena: Arena,
    outcome: str,
    error: BaseException | None = None,
    **more: Any,
) -> Finding:
    fields: dict[str, Any] = {
        "behaviour": behaviour,
        "threat": arena.params.threat,
        "graph": arena.params.graph,
        "outcome": outcome,
        "passed": outcome == outcome.lower(),
        "shares_released": arena.released if behaviour.of_server else None,
    }
    if arena.phase is Phase.DONE:
        fields["sum_right"] = arena.sum_is_right()
    if error is not None:
        fields |= {
            "error": type(error).__name__,
            "detail": str(error),
            "accused": getattr(error, "peer", None),
        }
    return Finding(**(fields | more))


def _of_client(behaviour: Behaviour, arena: Arena) -> Finding:
    """Play it, and judge the client under test."""
    victim = f"client {arena.victim}"
    try:
        contained = behaviour.act(arena)
    except Inapplicable:
        raise
    except Accused as accused:
        said = "REFUSED AN HONEST MESSAGE"
        return _finding(behaviour, arena, said, accused.error, round=accused.round)
    except Missed as missed:
        return _finding(behaviour, arena, "NOT CAUGHT", detail=str(missed), round=missed.round)
    except Caught as caught:
        outcome = _judge(behaviour, arena, caught)
        return _finding(
            behaviour, arena, outcome, caught.error, round=caught.round, caught_by=victim
        )
    if contained is not None and behaviour.expect is Expect.CONTAINED:
        return _finding(behaviour, arena, "contained", detail=contained, caught_by=victim)
    last = type(arena.said[-1]).__name__ if arena.said else "nothing"
    return _finding(behaviour, arena, "NOT CAUGHT", detail=f"the client answered with {last}")


def _judge(behaviour: Behaviour, arena: Arena, caught: Caught) -> str:
    """Say whether the error is the right one, and what the client does after it."""
    threat = arena.params.threat
    if not isinstance(caught.error, behaviour.errors):
        return "WRONG ERROR"
    if caught.round != behaviour.round_in(threat):
        return "WRONG ROUND"
    released = arena.released
    lies = arena.lied[-1:]
    for message, method in lies:
        try:
            arena.deliver(message, method=method)
        except Caught:
            continue
        return "ANSWERED THE SECOND TIME"
    if behaviour.ends_round and lies and arena.honest is not None:
        try:
            arena.deliver(arena.honest)
        except Caught:
            pass
        else:
            return "WENT ON AFTER THE LIE"
    if arena.released != released:
        return "RELEASED SHARES AFTER THE LIE"
    return "caught"


def _of_honest(behaviour: Behaviour, arena: Arena) -> Finding:
    try:
        behaviour.act(arena)
    except Inapplicable:
        raise
    except Accused as accused:
        said = "ACCUSED THE HONEST"
        return _finding(behaviour, arena, said, accused.error, round=accused.round)
    except Exception as error:
        return _finding(behaviour, arena, "ENDED AN HONEST ROUND", error, round=arena.phase.title)
    if arena.phase is not Phase.DONE or not arena.sum_is_right():
        return _finding(behaviour, arena, "WRONG SUM")
    return _finding(behaviour, arena, "honest", blame=arena.server.blame)


def _of_server(behaviour: Behaviour, arena: Arena) -> Finding:
    """Play it, and judge the server under test."""
    try:
        behaviour.act(arena)
    except Inapplicable:
        raise
    except Exception as error:  # whatever it is: it should have been a typed one, and caught
        return _finding(behaviour, arena, "BROKE DOWN", error, round=arena.phase.title)
    blame = tuple(arena.server.blame)
    refused = next((error for error in arena.refusals if error.peer in arena.liars), None)
    if arena.ended is not None and refused is not None and behaviour.poisons:
        # A sum that no inputs can have, after what the server has refused already.
        return _finding(
            behaviour, arena, "refused", refused, caught_by="server", round=refused.round
        )
    if arena.ended is not None:
        right = behaviour.expect is Expect.ENDED and isinstance(arena.ended, behaviour.errors)
        outcome = "ended" if right else "ENDED THE ROUND"
        found = _finding(behaviour, arena, outcome, arena.ended, caught_by="server", blame=blame)
        return replace(found, round=getattr(arena.ended, "round", behaviour.round))
    if behaviour.expect is Expect.ENDED:
        right = arena.sum_is_right()
        return _finding(behaviour, arena, "NOT CAUGHT" if right else "WRONG SUM", blame=blame)
    if not behaviour.poisons and not arena.sum_is_right():
        return _finding(behaviour, arena, "WRONG SUM", blame=blame)
    if any(not {one.dealer, one.holder} & arena.liars for one in blame) or any(
        isinstance(error, PeerError) and error.peer not in arena.liars and _is_client(arena, error)
        for error in arena.refusals
    ):
        return _finding(behaviour, arena, "BLAMED THE HONEST", blame=blame)
    if behaviour.expect is Expect.BLAMED and blame:
        detail = f"{len(blame)} shares; the first: {blame[0].reason}, {blame[0].verdict}"
        return _finding(
            behaviour,
            arena,
            "blamed",
            detail=detail,
            blame=blame,
            caught_by="server",
            round="unmasking",
        )
    if behaviour.expect is Expect.REFUSED and arena.refusals:
        first = refused or arena.refusals[0]
        return _finding(
            behaviour, arena, "refused", first, blame=blame, caught_by="server", round=first.round
        )
    if behaviour.expect is Expect.IGNORED and arena.ignored:
        detail = f"{len(arena.ignored)} messages did not count"
        return _finding(
            behaviour,
            arena,
            "ignored",
            detail=detail,
            blame=blame,
            caught_by="server",
            round=behaviour.round,
        )
    return _finding(behaviour, arena, "NOT CAUGHT", blame=blame)


def _is_client(arena: Arena, error: PeerError) -> bool:
    return isinstance(error.peer, int) and error.peer < arena.params.clients
