"""What a conformance kit found: one row for each check, with its evidence.

A check is a function that returns its evidence in words, or raises :class:`Failed` or
:class:`Skipped`. Any other exception out of a check is a failure of what is under test: contracts
say which errors are raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from privagg.errors import UsageError
from privagg.report import Report, Table

__all__ = ["Check", "Conformance", "ConformanceError", "Failed", "Outcome", "Skipped", "carry_out"]


class Outcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Failed(Exception):
    """What a check raises when the contract is not held; its text is the evidence."""


class Skipped(Exception):
    """What a check raises where there is nothing to check; its text is the reason."""


@dataclass(frozen=True)
class Check:
    """One row of a kit's findings.

    Attributes
    ----------
    name : str
        What was checked.
    outcome : Outcome
        How it ended.
    evidence : str
        What was seen, or why it was not looked at.
    """

    name: str
    outcome: Outcome
    evidence: str

    def __str__(self) -> str:
        mark = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip"}[self.outcome.value]
        return f"{mark} {self.name}: {self.evidence}"


class ConformanceError(AssertionError):
    """What is under test does not hold its contract.

    Parameters
    ----------
    conformance : Conformance
        All findings; the text lists those that failed.
    """

    def __init__(self, conformance: Conformance) -> None:
        self.conformance = conformance
        failed = conformance.failed
        head = f"{conformance.subject}: {len(failed)} of {len(conformance.checks)} checks failed"
        super().__init__("\n".join([head, *(f"{c.name}: {c.evidence}" for c in failed)]))


@dataclass(frozen=True)
class Conformance:
    """All findings about one mechanism or protocol.

    Attributes
    ----------
    subject : str
        What was held against its contract.
    checks : tuple of Check
        One row per check, in the order they were made.
    notes : tuple of str
        With which probability a correct implementation fails, and the like.
    """

    subject: str
    checks: tuple[Check, ...] = field(repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)

    @property
    def ok(self) -> bool:
        """Whether no check failed. Those that were skipped say nothing."""
        return not self.failed

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(one for one in self.checks if one.outcome is Outcome.FAILED)

    @property
    def skipped(self) -> tuple[Check, ...]:
        """The checks that had nothing to look at, each with its reason."""
        return tuple(one for one in self.checks if one.outcome is Outcome.SKIPPED)

    def __getitem__(self, name: str) -> Check:
        """Return the check of a name.

        Raises
        ------
        UsageError
            If there is none.
        """
        for one in self.checks:
            if one.name == name:
                return one
        raise UsageError("name", name, ", ".join(one.name for one in self.checks))

    def report(self) -> Report:
        """Return the findings as a table for people and an object for programs."""
        rows = [[one.name, one.outcome.value, one.evidence] for one in self.checks]
        counts = {kind: sum(c.outcome is kind for c in self.checks) for kind in Outcome}
        data = {
            "subject": self.subject,
            "ok": self.ok,
            "checks": [
                {"name": one.name, "outcome": one.outcome.value, "evidence": one.evidence}
                for one in self.checks
            ],
            "notes": list(self.notes),
        }
        return Report(
            title=f"Conformance of {self.subject}",
            data=data,
            tables=[Table("Checks", ["check", "outcome", "evidence"], rows)],
            notes=self.notes,
            verdict=", ".join(f"{count} {kind.value}" for kind, count in counts.items()) + ".",
        )

    def raise_for_failures(self) -> None:
        """Raise :class:`ConformanceError` if a check failed."""
        if not self.ok:
            raise ConformanceError(self)

    def __str__(self) -> str:
        return "\n".join([self.subject, *map(str, self.checks)])


def carry_out(
    subject: str,
    checks: Mapping[str, Callable[[], str]],
    *,
    skip: Mapping[str, str],
    only: Iterable[str] | None,
    notes: Iterable[str] = (),
) -> Conformance:
    """Carry out checks in their order.

    Parameters
    ----------
    subject : str
        What is under test, in words.
    checks : mapping of str to callable
        The checks by name.
    skip : mapping of str to str
        Checks that the caller leaves out, and why: the reason stands in the report.
    only : iterable of str, optional
        The names to carry out; all by default.
    notes : iterable of str
        For the reader of the report.

    Raises
    ------
    UsageError
        If a name is not that of a check, no reason is given, or nothing is left to carry out.
    """
    if not isinstance(skip, Mapping):
        raise UsageError("skip", type(skip).__name__, "a mapping of names to reasons")
    if only is not None and (isinstance(only, str) or not isinstance(only, Iterable)):
        raise UsageError("only", type(only).__name__, "names of checks, in a list")
    chosen = list(checks) if only is None else list(only)
    if not chosen:
        raise UsageError("only", "no names", f"one or more of {', '.join(checks)}")
    for argument, names in (("only", chosen), ("skip", list(skip))):
        for name in names:
            if name not in checks:
                raise UsageError(argument, name, ", ".join(checks))
    for name, reason in skip.items():
        if not isinstance(reason, str) or not reason:
            raise UsageError(f"skip[{name!r}]", reason, "the reason, in words")
    found = []
    for name, check in checks.items():
        if name in chosen:
            found.append(
                Check(name, Outcome.SKIPPED, skip[name]) if name in skip else _one(name, check)
            )
    return Conformance(subject, tuple(found), tuple(notes))


def _one(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, Outcome.PASSED, check())
    except Failed as failure:
        return Check(name, Outcome.FAILED, str(failure))
    except Skipped as reason:
        return Check(name, Outcome.SKIPPED, str(reason))
    except Exception as error:  # of what is under test: whatever it is, the contract has no room
        return Check(name, Outcome.FAILED, f"raised {type(error).__name__}: {error}")
