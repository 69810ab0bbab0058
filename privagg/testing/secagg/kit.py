"""Run the behaviours against an implementation, and say what came of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from privagg.errors import UsageError
from privagg.protocols.secagg import Client, Params, Server, Threat
from privagg.testing.secagg.arena import Inapplicable
from privagg.testing.secagg.behaviour import BEHAVIOURS, Behaviour, Expect
from privagg.testing.secagg.judge import Finding, play
from privagg.testing.secagg.setting import Decode, MakeClient, MakeServer, Setting

__all__ = ["Report", "check_client", "check_server", "perform", "rounds_for"]

_SEEDS = 20
"""Draws of the graph tried until the behaviour can be carried out."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """All findings of one check.

    Attributes
    ----------
    findings : tuple of Finding
        One per behaviour and graph.
    """

    findings: tuple[Finding, ...] = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether every behaviour had to come out as it did."""
        return all(finding.passed for finding in self.findings)

    @property
    def missed(self) -> tuple[Finding, ...]:
        """The findings that did not pass."""
        return tuple(finding for finding in self.findings if not finding.passed)

    def __str__(self) -> str:
        head = f"{len(self.findings) - len(self.missed)} of {len(self.findings)} behaviours passed"
        return "\n".join([head, *map(str, self.findings)])


def rounds_for(threat: Threat | str) -> tuple[Params, ...]:
    """Return the small rounds that the kit plays against `threat`: one per graph it has.

    Eight clients in the complete graph, twelve with eight neighbours each in the sparse one, two of
    them corrupt. They are no advice: so small a sparse graph is secure but for a probability of
    one half.
    """
    threat = Threat(threat)
    complete: dict[str, Any] = {"clients": 8, "corrupt": 0.25, "dropout": 0.25, "min_cohort": 4}
    sparse: dict[str, Any] = {"clients": 12, "corrupt": 2 / 12, "dropout": 0.1, "min_cohort": 4} | {
        "graph": "sparse",
        "neighbours": 8,
        "threshold": 6,
        "sigma": 1,
        "eta": 1,
    }
    kinds = {
        Threat.SEMI_HONEST: (complete, sparse),
        Threat.ACTIVE: (complete,),
        Threat.SEMI_MALICIOUS: (sparse,),
    }[threat]
    found = []
    for options in kinds:
        found.append(Params.recommend(dim=4, threat=threat, **options))
    return tuple(found)


def check_client(
    make_client: MakeClient = Client,
    *,
    threat: Threat | str,
    behaviours: Iterable[str] | None = None,
    decode: Decode | None = None,
    params: Params | None = None,
    seed: int = 1,
) -> Report:
    """Hold a client against every server, and coalition, that lies.

    Parameters
    ----------
    make_client : callable
        ``(params, policy, *, identity, entropy)`` to an object with the methods of
        :class:`privagg.protocols.secagg.Client`: it takes and returns messages of
        :mod:`privagg.protocols.secagg.messages` (an implementation with messages of its own needs
        an adapter that encodes and decodes them) and raises the errors of :mod:`privagg.errors`.
    threat : Threat
        The threat model whose rounds are played.
    behaviours : iterable of str, optional
        Names; all that must be noticed against `threat` by default, and the honest controls.
    decode : callable, optional
        ``(data, params)`` to a message: the implementation's own reading of bytes.
    params : Params, optional
        The round, in place of :func:`rounds_for`; of the same threat model.
    seed : int
        Repeats the check.

    Returns
    -------
    Report

    Raises
    ------
    UsageError
        If a name is unknown, or of a behaviour that need not be noticed against `threat`.
    """
    base = Setting(params=_rounds(threat, params)[0], make_client=make_client, seed=seed)
    if decode is not None:
        base = replace(base, decode=decode)
    return _check(base, threat, behaviours, params, of_server=True)


def check_server(
    make_server: MakeServer = Server,
    *,
    threat: Threat | str,
    behaviours: Iterable[str] | None = None,
    params: Params | None = None,
    seed: int = 1,
) -> Report:
    """Hold a server against every client that lies.

    The round must end with the right sum and with blame, or with a typed error: never with a wrong
    sum.

    Parameters
    ----------
    make_server : callable
        ``(params, *, roster, session, round_number, model, entropy)`` to an object with the methods
        of :class:`privagg.protocols.secagg.Server`.
    threat, behaviours, params, seed
        As for :func:`check_client`.

    Returns
    -------
    Report
    """
    base = Setting(params=_rounds(threat, params)[0], make_server=make_server, seed=seed)
    return _check(base, threat, behaviours, params, of_server=False)


def perform(behaviour: Behaviour, setting: Setting) -> Finding:
    """Play one behaviour in a round of your own.

    Raises
    ------
    UsageError
        If it need not be noticed in such a round, or there is no such lie with these parameters.
    """
    params = setting.params
    if not behaviour.applies(params.threat, params.graph):
        kinds = ", ".join(threat.value for threat in behaviour.threats)
        graphs = " or ".join(graph.value for graph in behaviour.graphs)
        raise UsageError(
            "behaviour",
            f"{behaviour.name} against {params.threat.value}, {params.graph.value} graph",
            f"a round against {kinds}, {graphs} graph",
        )
    why = ""
    for turn in range(_SEEDS):
        trial = replace(setting, seed=setting.seed + turn, cohort=behaviour.cohort)
        try:
            return play(behaviour, trial)
        except Inapplicable as reason:
            why = str(reason)
    raise UsageError(
        "behaviour", f"{behaviour.name} with these parameters", "others", f"There is {why}."
    )


def _rounds(threat: Threat | str, params: Params | None) -> tuple[Params, ...]:
    if params is None:
        return rounds_for(threat)
    if params.threat is not Threat(threat):
        raise UsageError("params", f"a round against {params.threat.value}", Threat(threat).value)
    return (params,)


def _check(
    base: Setting,
    threat: Threat | str,
    names: Iterable[str] | None,
    params: Params | None,
    *,
    of_server: bool,
) -> Report:
    rounds = _rounds(threat, params)
    mine = {name: one for name, one in BEHAVIOURS.items() if _concerns(one, of_server)}
    chosen = list(mine) if names is None else list(names)
    findings = []
    for name in chosen:
        if name not in mine:
            raise UsageError("behaviours", name, "a name in BEHAVIOURS for this party")
        fitting = [one for one in rounds if mine[name].applies(one.threat, one.graph)]
        if not fitting and names is not None:
            kinds = ", ".join(threat.value for threat in mine[name].threats)
            raise UsageError("behaviours", f"{name} against {Threat(threat).value}", kinds)
        findings += [perform(mine[name], replace(base, params=one)) for one in fitting]
    return Report(findings=tuple(findings))


def _concerns(behaviour: Behaviour, of_server: bool) -> bool:
    return behaviour.expect is Expect.HONEST or behaviour.of_server == of_server
