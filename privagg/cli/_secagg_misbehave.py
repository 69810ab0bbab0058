"""A simulated round in which somebody lies, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from privagg import entropy as entropies
from privagg.cli._secagg_inputs import Material
from privagg.cli._secagg_shared import blame_rows, blame_table, guarantee, no_result
from privagg.cli.failures import ExitCode
from privagg.errors import UsageError
from privagg.protocols.secagg import Directory, Params, Signer
from privagg.report import Cell, Report, Table
from privagg.testing import secagg as kit
from privagg.testing.secagg import BEHAVIOURS, Behaviour, Expect, Finding, Liar

__all__ = ["catalogue", "exit_code", "named", "play", "report"]

_SEED_BYTES = 7


def named(name: str) -> Behaviour:
    """Return the behaviour of this name.

    Raises
    ------
    UsageError
        If there is none; it names those that look like it.
    """
    if name in BEHAVIOURS:
        return BEHAVIOURS[name]
    plain = name.lower().replace("_", "-")
    near = [other for other in BEHAVIOURS if plain in other]
    near = (near or get_close_matches(plain, BEHAVIOURS))[:3]
    hint = f"Is it {' or '.join(near)}?" if near else ""
    raise UsageError("--misbehave", name, "a name of --misbehave list", hint)


def catalogue(threat: str) -> Report:
    """List what can be done, and in which rounds it must be noticed."""
    found = [one for family in kit.FAMILIES for one in BEHAVIOURS.values() if _is_of(one, family)]
    entries = [
        {
            "name": one.name,
            "liar": one.liar.value,
            "threats": [threat.value for threat in one.threats],
            "graphs": [graph.value for graph in one.graphs],
            "invariant": one.invariant,
            "round": one.round,
            "must": one.expect.value,
            "source": one.source,
            "text": one.text,
        }
        for one in found
    ]
    here = [one for one in found if threat in {model.value for model in one.threats}]
    rows: list[list[Cell]] = [[one.name, one.liar.value, one.round, one.text] for one in here]
    return Report(
        title=f"Misbehaviours in rounds against {threat}",
        data={"behaviours": entries},
        tables=[Table("", ["name", "who lies", "noticed in", "what is done"], rows)],
        notes=[f"{len(found) - len(here)} others are for other threat models; --json has all."],
        verdict="Play one with --misbehave NAME.",
    )


def _is_of(behaviour: Behaviour, family: object) -> bool:
    return behaviour.act.__module__ == getattr(family, "__name__", "")


def play(
    name: str,
    params: Params,
    material: Material,
    *,
    seed: int | None,
    identities: Sequence[Signer] | None,
    roster: Directory | None,
) -> Finding:
    """Play a round with this misbehaviour.

    Raises
    ------
    UsageError
        If it need not be noticed in such a round, or cannot be done in it.
    """
    behaviour = named(name)
    drawn = int.from_bytes(entropies.OS.take(_SEED_BYTES), "little") if seed is None else seed
    setting = kit.Setting(
        params=params,
        vectors=material.inputs.vectors,
        weights=material.inputs.weights,
        identities=identities,
        roster=roster,
        seed=drawn % 2**63,
    )
    try:
        return kit.perform(behaviour, setting)
    except UsageError as error:
        if error.argument != "behaviour":
            raise
        raise UsageError("--misbehave", error.found, error.allowed, error.hint) from None


def exit_code(finding: Finding) -> ExitCode:
    """Return 4 if somebody was caught, 5 if not, 0 of an honest round."""
    if not finding.passed:
        return ExitCode.LEAK
    honest = finding.behaviour.expect is Expect.HONEST
    return ExitCode.GOOD if honest else ExitCode.PEER


def report(finding: Finding, params: Params, material: Material, *, seeded: bool) -> Report:
    """Report what was done, who noticed it, and what was revealed."""
    behaviour = finding.behaviour
    data = no_result(params, material) | {
        "exact": finding.sum_right,
        "guarantee": guarantee(params),
        "insecure_seed": seeded,
        "misbehave": {
            "name": behaviour.name,
            "liar": behaviour.liar.value,
            "text": behaviour.text,
            "invariant": behaviour.invariant,
            "source": behaviour.source,
        },
        "caught_by": _caught_by(finding),
        "blame": blame_rows(finding.blame),
    }
    tables = [_table(finding)]
    if finding.blame:
        tables.append(blame_table(finding.blame))
    notes = [behaviour.text]
    if seeded:
        notes.append("Seeded, so insecure: who knows the seed knows every secret of this run.")
    return Report(
        title=f"Secure aggregation with a misbehaviour: {behaviour.name}",
        data=data,
        tables=tables,
        notes=notes,
        verdict=_verdict(finding),
    )


def _caught_by(finding: Finding) -> dict[str, Any] | None:
    if finding.caught_by is None or not finding.passed:
        return None
    return {
        "party": finding.caught_by,
        "outcome": finding.outcome,
        "round": finding.round,
        "error": finding.error,
        "accused": finding.accused,
        "message": finding.detail,
        "shares_released": finding.shares_released,
        "revealed": _revealed(finding),
    }


def _revealed(finding: Finding) -> str:
    """Say what the liars got."""
    if finding.behaviour.liar is Liar.CLIENTS:
        return "the right sum, to the server" if finding.sum_right else "no sum"
    if finding.shares_released:
        return f"{finding.shares_released} shares, of one kind of each peer, before the lie"
    return "nothing: no share, and no input without its masks"


def _table(finding: Finding) -> Table:
    behaviour = finding.behaviour
    rows: list[list[Cell]] = [
        ["who misbehaves", behaviour.liar.value],
        ["what it attacks", behaviour.invariant or "nothing: a control"],
        ["source", behaviour.source],
        ["outcome", finding.outcome],
    ]
    if finding.caught_by is not None:
        rows.append(["caught by", finding.caught_by])
    if finding.round is not None:
        rows.append(["in round", finding.round])
    if finding.error is not None:
        rows.append(["by the error", finding.error])
    if finding.accused is not None:
        accused = finding.accused
        rows.append(["which names", f"client {accused}" if isinstance(accused, int) else accused])
    if finding.detail:
        rows.append(["and says", finding.detail])
    if finding.passed and behaviour.expect is not Expect.HONEST:
        rows.append(["revealed", _revealed(finding)])
    return Table("What happened", ["", "value"], rows)


def _verdict(finding: Finding) -> str:
    if not finding.passed:
        return f"{finding.outcome}: this is a fault in privagg; please report it."
    if finding.behaviour.expect is Expect.HONEST:
        return "Nobody lied, nobody was accused, and the sum is right."
    how = {
        "caught": "Caught",
        "contained": "Contained",
        "refused": "Refused; the round went on with the right sum",
        "blamed": "Blamed; the sum is right",
        "ignored": "Ignored; the sum is right",
        "ended": "Ended: no sum",
    }[finding.outcome]
    if finding.behaviour.poisons and finding.sum_right is False:
        how = "Refused; the liar's own contribution is wrong, which is not prevented"
    return f"{how}. Noticed by {finding.caught_by} in round {finding.round}."
