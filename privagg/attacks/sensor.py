"""Attacks on the protocols of sensor networks, each run against all of them.

:func:`audit` counts how often an attack finds a reading, beside how often the best guess would, by
somebody who knows the cluster's sum and the colluders' own readings. An attack that does better
(one-sided exact binomial test) is a leak, unless it needs more than the protocol promises to
withstand, or no protocol that adds can prevent it.

Source of the protocols attacked: He et al., INFOCOM 2007; Sen and Maitra, NordSec 2011, which also
breaks the former's numbers modulo a seed. Threat models: an eavesdropper, a leader, a member.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from privagg import entropy as entropies
from privagg.attacks import sensor_active, sensor_arithmetic, sensor_keys
from privagg.attacks.sensor_arithmetic import Trial
from privagg.attacks.sensor_guessing import tail
from privagg.attacks.sensor_views import Setting, Subject
from privagg.errors import UsageError
from privagg.protocols.sensor.params import Keys, Protocol

__all__ = ["ATTACKS", "SIGNIFICANCE", "SUBJECTS", "Attack", "Audit", "Finding", "audit"]

SIGNIFICANCE = 1e-4
"""An attack is better than guessing if guessing would do as well with less than this probability.

Some seventy tests make a full audit: with this level a sound protocol is accused once in 140."""


@dataclass(frozen=True)
class Attack:
    """An attack by name.

    Attributes
    ----------
    name : str
        For the command line.
    adversary : str
        Who does it.
    run : callable
        Takes subject and setting; returns a trial, or None where it cannot be tried.
    """

    name: str
    adversary: str
    run: Callable[[Subject, Setting], Trial | None]


def _inside(subject: Subject, setting: Setting) -> Trial | None:
    most = _bound(subject, setting)
    return sensor_arithmetic.collusion(subject, setting, max(1, most))


def _bound(subject: Subject, setting: Setting) -> int:
    """Return the most colluders a cluster withstands."""
    m, d = setting.members, subject.drops
    return min(m - d, m - 2 * d, m - 1) - 1


def _outside(subject: Subject, setting: Setting) -> Trial | None:
    k = setting.members - max(1, subject.drops)
    return sensor_arithmetic.collusion(subject, setting, k)


def _split_inside(subject: Subject, setting: Setting) -> Trial | None:
    k = _bound(subject, setting)
    return sensor_active.split_view(subject, setting, k) if k >= 1 else None


def _split_outside(subject: Subject, setting: Setting) -> Trial | None:
    k = _bound(subject, setting) + 1
    t = setting.members - subject.drops
    return sensor_active.split_view(subject, setting, k) if k < t else None


_INHERENT = ("extreme-sums",)
_BEYOND = ("collusion-beyond", "split-view-beyond")

ATTACKS = {
    attack.name: attack
    for attack in (
        Attack("modulo", "the leader, following the protocol", sensor_arithmetic.modulo_by_leader),
        Attack("modulo-member", "a member, following it", sensor_arithmetic.modulo_by_member),
        Attack("division", "a leader with a huge seed", sensor_arithmetic.division_by_leader),
        Attack("tiny-seed", "a leader with a tiny seed", sensor_arithmetic.tiny_seed),
        Attack("crt", "an eavesdropper without keys", sensor_arithmetic.crt_eavesdropper),
        Attack("repeated-run", "a leader that claims a loss", sensor_active.repeated_run),
        Attack("split-view", "a leader with two stories, within the bound", _split_inside),
        Attack("phantom-members", "a leader that invents nodes", sensor_active.phantom_members),
        Attack("key-pool", "all other nodes in range", sensor_keys.pool_eavesdropping),
        Attack("collusion", "as many members as are withstood", _inside),
        Attack("extreme-sums", "whoever knows the sum", sensor_arithmetic.extreme_sums),
        Attack("split-view-beyond", "one colluder more than is withstood", _split_outside),
        Attack("collusion-beyond", "one colluder more than is withstood", _outside),
    )
}
"""Every attack, by name."""

SUBJECTS = (
    *(Subject(protocol=protocol) for protocol in Protocol),
    Subject(protocol=Protocol.CPDA_FIELD, drops=1),
    Subject(protocol=Protocol.CPDA_FIELD, keys=Keys.POOL),
)
"""What is attacked: every protocol, and two variants of ``cpda-field``."""


@dataclass(frozen=True)
class Finding:
    """What an attack found against a protocol.

    Attributes
    ----------
    subject : Subject
        The protocol.
    attack : str
        Its name.
    runs, recovered : int
        Readings (or sums) attacked, and found.
    chance : float
        How often the best guess is right.
    p_value : float
        Probability that guessing finds as many.
    kind : str
        ``leak``, ``no better than guessing``, ``inherent``, or ``beyond the bound``.
    note : str
        What was seen.
    """

    subject: Subject
    attack: str
    runs: int
    recovered: int
    chance: float
    p_value: float
    kind: str
    note: str

    @property
    def rate(self) -> float:
        """Readings found over readings attacked; 0 if there were none."""
        return self.recovered / self.runs if self.runs else 0.0

    @property
    def leak(self) -> bool:
        """Whether the protocol failed here in what it promises."""
        return self.kind == "leak"


@dataclass(frozen=True)
class Audit:
    """All findings, and how they were made.

    Attributes
    ----------
    setting : Setting
        Runs, members, bound.
    findings : tuple of Finding
        By protocol, then by attack.
    insecure_seed : bool
        Whether the runs can be repeated.
    """

    setting: Setting
    findings: tuple[Finding, ...]
    insecure_seed: bool

    @property
    def leak(self) -> bool:
        """Whether any attack did better than guessing where it should not."""
        return any(finding.leak for finding in self.findings)

    def of(self, protocol: Protocol | str) -> list[Finding]:
        """Return the findings against one protocol, its variants included.

        Parameters
        ----------
        protocol : Protocol or str
            Which.
        """
        return [f for f in self.findings if f.subject.protocol == protocol]


def audit(
    *,
    protocols: Sequence[Protocol | str] | None = None,
    attacks: Sequence[str] | None = None,
    runs: int = 1000,
    members: int = 5,
    bound: int = 100,
    seed: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Audit:
    """Run attacks against protocols.

    Parameters
    ----------
    protocols : sequence of Protocol, optional
        All by default.
    attacks : sequence of str, optional
        Names of :data:`ATTACKS`; all by default.
    runs : int
        Clusters attacked; a tenth of them where real parties are played.
    members : int
        Members of a cluster.
    bound : int
        Readings are whole numbers from 0 to this, uniform.
    seed : int, optional
        Makes the audit repeatable.
    progress : callable, optional
        Called as ``progress(phase, done, total)``.

    Returns
    -------
    Audit
        What was found, with what it takes to repeat it.

    Raises
    ------
    UsageError
        If a name is unknown, or a number out of range.
    """
    names = list(ATTACKS) if attacks is None else list(attacks)
    for name in names:
        if name not in ATTACKS:
            raise UsageError("attack", name, f"one of {', '.join(ATTACKS)}")
    wanted = {_protocol(name) for name in (Protocol if protocols is None else protocols)}
    subjects = [subject for subject in SUBJECTS if subject.protocol in wanted]
    source = entropies.from_seed(seed).spawn("sensor audit")
    setting = Setting(
        entropy=source,
        runs=runs,
        party_runs=max(1, runs // 10) if isinstance(runs, int) else runs,
        members=members,
        bound=bound,
    )
    findings = []
    total = len(subjects) * len(names)
    for place, subject in enumerate(subjects):
        for at, name in enumerate(names):
            found = _try(subject, name, setting)
            if found is not None:
                findings.append(found)
            if progress is not None:
                progress("attacks", place * len(names) + at + 1, total)
    return Audit(setting, tuple(findings), source.insecure)


def _protocol(name: Protocol | str) -> Protocol:
    try:
        return Protocol(name)
    except ValueError:
        raise UsageError("protocol", name, f"one of {', '.join(Protocol)}") from None


def _try(subject: Subject, name: str, setting: Setting) -> Finding | None:
    trial = ATTACKS[name].run(subject, setting)
    if trial is None:
        return None
    p_value = tail(trial.runs, trial.recovered, trial.chance)
    kind = "no better than guessing"
    if p_value < SIGNIFICANCE:
        kind = "leak"
        if name in _INHERENT:
            kind = "inherent"
        elif name in _BEYOND and not subject.protocol.broken:
            kind = "beyond the bound"
    return Finding(
        subject=subject,
        attack=name,
        runs=trial.runs,
        recovered=trial.recovered,
        chance=trial.chance,
        p_value=p_value,
        kind=kind,
        note=trial.note,
    )
