"""The rows of ``privagg list``, as they are printed."""

from __future__ import annotations

import msgspec

__all__ = ["Attack", "Mechanism", "Protocol"]


class Protocol(msgspec.Struct, frozen=True, kw_only=True):
    """A protocol.

    Attributes
    ----------
    name : str
        What ``--protocol`` calls it; else its package.
    summary : str
        What it does.
    path : str
        The importable package, or ``module:function`` that runs it.
    threats : tuple of str
        Threat models; those of the ``--threat`` option where there is one.
    collusion : str
        Whose collusion it withstands.
    learns : str
        What the server, base station or aggregator learns.
    rounds : tuple of str
        In order; some exist in some threat models only.
    dropouts : bool
        Whether it finishes when parties leave on the way.
    secure : bool
        Whether it holds what it promises; False for those kept to be attacked.
    command : str
        The command line that runs it; empty if only the library does.
    page : str
        Of the documentation.
    source : str
        The paper.
    """

    name: str
    summary: str
    path: str
    threats: tuple[str, ...]
    collusion: str
    learns: str
    rounds: tuple[str, ...]
    dropouts: bool
    secure: bool = True
    command: str
    page: str
    source: str


class Mechanism(msgspec.Struct, frozen=True, kw_only=True):
    """A mechanism of differential privacy.

    Attributes
    ----------
    name : str
        What ``--mechanism`` or ``--noise`` calls it; else that of its class.
    summary : str
        What it does.
    path : str
        ``module:class``.
    domain : str
        What it takes.
    guarantee : str
        What it promises.
    adjacency : str
        Which inputs are to be alike.
    sampler : str
        How far what is drawn is what is claimed.
    command : str
        A command that uses it; empty if only the library does.
    source : str
        The paper.
    """

    name: str
    summary: str
    path: str
    domain: str
    guarantee: str
    adjacency: str
    sampler: str
    command: str
    source: str


class Attack(msgspec.Struct, frozen=True, kw_only=True):
    """An attack.

    Attributes
    ----------
    name : str
        What ``--attack`` calls it; else that of its function.
    summary : str
        What it does.
    path : str
        ``module:function``.
    needs : str
        What the attacker has.
    proves : str
        What a success, or a failure, says.
    command : str
        The command line that runs it; empty if only the library does.
    source : str
        The paper; empty if it names none.
    """

    name: str
    summary: str
    path: str
    needs: str
    proves: str
    command: str
    source: str
