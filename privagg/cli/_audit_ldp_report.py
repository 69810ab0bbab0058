"""Audits of local differential privacy as reports."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from privagg.attacks import ldp
from privagg.cli._multidim_report import epsilons, epsilons_table
from privagg.cli._survey_inputs import SurveyInputs
from privagg.protocols.multidim import Calibration, Params, Protocol
from privagg.report import Cell, Plot, Reference, Report, Series, Table

__all__ = ["oracles", "survey"]


def oracles(
    values: int,
    epsilon: float,
    names: tuple[str, ...],
    *,
    targets: int,
    fake: float,
    trials: int,
    seed: int,
) -> tuple[Report, bool]:
    """Attack frequency oracles; return the report, and whether more was proved than stated."""
    found = ldp.audit_oracles(
        values,
        epsilon,
        oracles=names or None,
        targets=targets,
        fraction=fake,
        trials=trials,
        seed=seed,
    )
    leak = any(one.bound.exceeds for one in found)
    done = {one.oracle.name for one in found}
    refused = [] if names else [name for name in ldp.oracle_names() if name not in done]
    data = {
        "audit": "oracles",
        "values": values,
        "epsilon": epsilon,
        "targets": targets,
        "fake": fake,
        "trials": trials,
        "leak": leak,
        "oracles": [
            {
                "oracle": one.oracle.name,
                "epsilon_realised": one.oracle.epsilon_realised,
                "bound": _bound(one.bound),
                "guess": asdict(one.guess),
                "poisoning": _poisoning(one.poisoning),
            }
            for one in found
        ],
        "refused": refused,
    }
    rows: list[list[Cell]] = []
    for one in found:
        gain = one.poisoning
        row: list[Cell] = [one.oracle.name, one.oracle.epsilon_realised, one.bound.epsilon]
        row += [one.guess.success, one.guess.error, one.guess.expected]
        row += [None if gain is None else gain.gain, None if gain is None else gain.leverage]
        rows.append(row)
    heads = ["oracle", "epsilon", "proved", "guessed", "error", "closed form", "gain", "leverage"]
    bars = [one.bound.epsilon for one in found]
    return (
        Report(
            title=f"Audit: frequency oracles over {values:,} values, epsilon {epsilon:g}",
            data=data,
            tables=[Table("Attacks", heads, rows)],
            plots=[
                Plot(
                    kind="bar",
                    title="Epsilon that an attack proves",
                    x_label="oracle",
                    y_label="epsilon",
                    series=[Series("proved", [one.oracle.name for one in found], bars)],
                    references=[Reference(epsilon, "stated")],
                )
            ],
            notes=[
                "Proved: with 99 % confidence, of two values' reports told apart.",
                f"Guessed: one of {values:,} equally likely values, from one report; blindly it is "
                f"{1 / values:.3g}.",
                f"Gain: what {fake:.3g} fake respondents add to {targets} value"
                + ("s'" if targets > 1 else "'s")
                + " estimated frequency; leverage: over what they add by following the protocol.",
                *(f"Left out: {name} cannot realise epsilon {epsilon:g}." for name in refused),
            ],
            verdict=_verdict(leak, epsilon, max(bars)),
        ),
        leak,
    )


def survey(
    params: Params,
    inputs: SurveyInputs,
    *,
    knowledge: str,
    classifier: str | None,
    surveys: int,
    people: int,
    fake: float,
    trials: int,
    seed: int,
) -> tuple[Report, bool]:
    """Attack a survey; return the report, and whether more was proved than stated."""
    data: dict[str, Any] = {
        "audit": "survey",
        "input": {"source": inputs.source, "reading": inputs.reading},
        "protocol": params.protocol.value,
        "oracle": params.oracle,
        "oracles": dict(zip(params.names, params.oracles, strict=True)),
        "users": inputs.users,
        "calibration": params.calibration.value,
        **epsilons(params),
    }
    tables, notes = [epsilons_table(params)], []
    bounds: list[ldp.LowerBound] = []
    inference = found = None
    if params.protocol.faked:
        bounds = [
            ldp.distinguish_tuples(params, adjacency=adjacency, trials=trials, seed=seed)
            for adjacency in ("tuple", "attribute")
        ]
        tables.append(_bounds(bounds))
        inference = ldp.infer_attributes(
            params, inputs.columns, knowledge=knowledge, classifier=classifier, seed=seed
        )
        tables.append(_inference(inference, classifier))
        notes.append(
            "The true attribute is guessed by the posterior: nobody with the same knowledge does "
            "better."
        )
    if params.protocol is Protocol.SMP:
        found = ldp.reidentify(
            params,
            inputs.columns,
            surveys=min(surveys, params.d),
            targets=min(people, inputs.users),
            lists=[size for size in (1, 10) if size <= inputs.users],
            seed=seed,
        )
        tables.append(_reidentified(found))
        notes.append("Re-identification: the attacker has a table of everybody's true values.")
    gains = ldp.survey_gain(params, fraction=fake)
    if gains:
        tables.append(_gains(gains))
        notes.append(
            f"Gain: what {fake:.3g} fake respondents add to the estimated frequency of one value "
            "of the attribute"
            + ("" if params.protocol is Protocol.SMP else ", of all at once")
            + "."
        )
    leak = any(one.exceeds for one in bounds if _counts(params, one))
    data |= {
        "fake": fake,
        "trials": trials,
        "leak": leak,
        "bounds": [_bound(one) for one in bounds],
        "attribute_inference": None if inference is None else asdict(inference),
        "reidentification": None if found is None else _lists(found),
        "poisoning": {name: _poisoning(one) for name, one in gains.items()},
    }
    most = max((one.epsilon for one in bounds if _counts(params, one)), default=0.0)
    return (
        Report(
            title=f"Audit: {params.protocol.value}[{params.oracle}] of {params.d} attributes, "
            f"{inputs.source}",
            data=data,
            tables=tables,
            plots=[_plot(gains)] if gains else [],
            notes=notes,
            verdict=_verdict(leak, params.epsilon, most),
        ),
        leak,
    )


def _counts(params: Params, bound: ldp.LowerBound) -> bool:
    """Whether a bound is about what the calibration states; `published` is held to tuples."""
    return bound.adjacency == "attribute" or params.calibration is not Calibration.ATTRIBUTE


def _bound(one: ldp.LowerBound) -> dict[str, Any]:
    return {**asdict(one), "exceeds": one.exceeds}


def _poisoning(one: ldp.Poisoning | None) -> dict[str, Any] | None:
    return None if one is None else {**asdict(one), "leverage": one.leverage}


def _lists(found: ldp.Reidentification) -> dict[str, Any]:
    table = asdict(found)
    for key in ("top", "baseline"):
        table[key] = {str(size): part for size, part in table[key].items()}
    return table


def _bounds(bounds: list[ldp.LowerBound]) -> Table:
    rows: list[list[Cell]] = [
        [one.adjacency, one.stated, one.exact, one.epsilon, one.exceeds] for one in bounds
    ]
    heads = ["inputs differ in", "stated", "exact", "proved", "more than stated"]
    return Table("Epsilon that an attack proves, with 99 % confidence", heads, rows)


def _inference(one: ldp.AttributeInference, classifier: str | None) -> Table:
    rows: list[list[Cell]] = [
        ["posterior", one.success],
        ["posterior, as it expects", one.expected],
        ["blindly", one.baseline],
    ]
    if one.classified is not None:
        rows.insert(1, [f"classifier, {classifier}", one.classified])
    return Table(f"Guessing the true attribute, knowing {one.knowledge}", ["", "right"], rows)


def _reidentified(found: ldp.Reidentification) -> Table:
    rows: list[list[Cell]] = [
        [f"among {size}", found.top[size], found.baseline[size]] for size in found.top
    ]
    title = (
        f"{found.targets:,} respondents of {found.surveys} surveys (epsilon "
        f"{found.epsilon_total:.4g} each in all), looked for among {found.people:,}"
    )
    return Table(title, ["found", "part", "at random"], rows)


def _gains(gains: dict[str, ldp.Poisoning]) -> Table:
    rows: list[list[Cell]] = [[name, one.gain, one.leverage] for name, one in gains.items()]
    return Table("What fake respondents gain", ["attribute", "gain", "leverage"], rows)


def _plot(gains: dict[str, ldp.Poisoning]) -> Plot:
    return Plot(
        kind="bar",
        title="What fake respondents add to one value's estimated frequency",
        x_label="attribute",
        y_label="gain",
        series=[Series("gain", list(gains), [one.gain for one in gains.values()])],
    )


def _verdict(leak: bool, stated: float, most: float) -> str:
    if leak:
        return f"LEAK: the attack proves epsilon {most:.4g}, more than the stated {stated:.4g}."
    return f"No attack proves more than the stated epsilon {stated:.4g}."
