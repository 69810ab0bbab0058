"""An audit of gradients as a report."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import privagg
from privagg.attacks.gradient.advice import Advice, advise
from privagg.attacks.gradient.audit import audit
from privagg.attacks.gradient.audit_result import AttackResult, GradientAudit
from privagg.attacks.gradient.bounds import ADJACENCIES, reconstruction_bound
from privagg.attacks.gradient.malicious import detect as detect_made
from privagg.attacks.gradient.verdicts import Verdict
from privagg.attacks.gradient.worst_case import WorstCase
from privagg.cli import _audit_gradient_sweep as sweeping
from privagg.cli import _audit_gradient_tables as parts
from privagg.cli._audit_gradient_inputs import GradientInputs
from privagg.cli.common import Step
from privagg.report import Cell, Report, Table

__all__ = ["PROOF", "detect", "run"]

PROOF = (
    "That an attack fails is no proof of privacy: a better one, or more knowledge, may not. Only "
    "epsilon bounds every attack, and the worst-case test shows what one example gives away."
)

_PRIORS = (1e-4, 0.01, 0.1)


def run(
    made: GradientInputs,
    *,
    batch: int,
    clients: int,
    attacks: Sequence[str],
    sweeps: Sequence[str],
    fail_above: float | None,
    fail_on: str,
    settings: dict[str, Any],
    step: Step,
    tell: Callable[[str], None],
) -> tuple[Report, list[str]]:
    """Audit; return the report, and why it ends with exit code 5, if it does."""
    setup = sweeping.Setup.of(made, batch, clients, settings)
    batches, others = made.batches(batch, clients)
    model, view = setup.view()
    found = audit(
        model,
        batches,
        view=view,
        attacks=attacks[0] if len(attacks) == 1 else attacks,
        loss=made.loss,
        others=others,
        perceptual=made.perceptual,
        iterations=settings["iterations"],
        seed=settings["sample_seed"],
        tell=tell,
    )
    delta = settings["delta"]
    tests = _worst_cases(found, settings)
    curves = [sweeping.sweep(setup, name, step) for name in sweeps]
    leaks = [] if fail_above is None else found.leaks(fail_above, fail_on)
    said = advise(found, delta)
    data = {
        "audit": "gradient",
        "source": made.source,
        "view": {
            "batch": found.seen.batch,
            "clients": found.seen.clients,
            "floor": found.seen.floor,
            "ledger": [list(line) for line in found.seen.ledger],
        },
        "attacks": [parts.attack_object(one) for one in found.attacks],
        "layers": [{**asdict(one), "verdict": one.verdict.value} for one in found.layers],
        "epsilon": found.epsilon(delta),
        "epsilon_replace": found.epsilon(delta, "replace"),
        "delta": delta,
        "reconstruction_bound": _bounds(found),
        "worst_case": [asdict(one) for one in tests],
        "detectors": parts.detector_objects(found.suspicions),
        "labels": None if found.labels is None else asdict(found.labels),
        "verdict": found.verdict.value,
        "why_nothing": found.why_nothing(),
        "advice": [asdict(one) for one in said],
        "notes": list(found.notes),
        "sweeps": [asdict(one) for one in curves],
        "fail_above": fail_above,
        "fail_on": fail_on,
        "leak": bool(leaks),
        "leaks": [one.name for one in leaks],
        "cpu_seconds": found.cpu_seconds,
        "seed": found.seed,
        "versions": _versions(),
    }
    return (
        Report(
            title=f"Audit of gradients: {made.source}",
            data=data,
            tables=[
                parts.ledger(found),
                *parts.layers(found),
                *parts.attacks(found),
                parts.privacy(found, tests, delta),
                *parts.next_steps(said),
                *parts.limits(found),
                *parts.labels(found),
                parts.detectors(found.suspicions),
                *[sweeping.table(one) for one in curves],
                _reproduce(found),
            ],
            plots=[
                *parts.grids(found),
                *parts.spectrum(found),
                *[plot for one in curves for plot in sweeping.plots(one)],
            ],
            notes=_notes(found),
            verdict=_verdict(found, tests, leaks, said, fail_above, fail_on, delta),
        ),
        _reasons(found, leaks, fail_above, fail_on, settings["detect"]),
    )


def _reasons(
    found: GradientAudit,
    leaks: list[AttackResult],
    fail_above: float | None,
    how: str,
    detecting: bool,
) -> list[str]:
    reasons = [f"Above --fail-above {fail_above:g} dB ({how})."] if leaks else []
    if detecting and found.suspicions:
        reasons.append("--detect: the model looks made to leak.")
    return reasons


def detect(model: Any, source: str) -> tuple[Report, bool]:
    """Look at a model's weights alone, as a client can before it computes anything."""
    found = detect_made(model)
    names = ", ".join(f"{one.kind} weights in layer {one.layer}" for one in found)
    verdict = (
        f"The model looks made to leak: {names}. Do not train on it; ask whoever sent it."
        if found
        else "No layer looks made to leak. That is no proof: weights can hide what they do."
    )
    report = Report(
        title=f"Weights of {source}",
        data={
            "audit": "gradient",
            "source": source,
            "detectors": parts.detector_objects(found),
            "leak": bool(found),
            "versions": _versions(),
        },
        tables=[parts.detectors(found)],
        verdict=verdict,
    )
    return report, bool(found)


def _worst_cases(found: GradientAudit, settings: dict[str, Any]) -> list[WorstCase]:
    from privagg.integrations.gradient_canary import worst_case

    noise = found.seen.noise
    return [
        worst_case(
            0.0 if noise is None else noise.multiplier,
            1.0 if noise is None else noise.clip,
            trials=settings["trials"],
            delta=settings["delta"],
            adjacency=adjacency,
            seed=settings["sample_seed"],
        )
        for adjacency in ADJACENCIES
    ]


def _bounds(found: GradientAudit) -> list[dict[str, float | str]]:
    noise = found.seen.noise
    if noise is None:
        return []
    return [
        {
            "prior": prior,
            "adjacency": adjacency,
            "success": reconstruction_bound(
                prior, noise.multiplier, steps=noise.steps, adjacency=adjacency
            ),
        }
        for adjacency in ADJACENCIES
        for prior in _PRIORS
    ]


def _versions() -> dict[str, str]:
    found = {"privagg": privagg.__version__}
    for name in ("numpy", "torch", "opacus"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _reproduce(found: GradientAudit) -> Table:
    rows: list[list[Cell]] = [[name, text] for name, text in _versions().items()]
    rows += [["seed", found.seed], ["CPU seconds", found.cpu_seconds]]
    return Table("To run it again", ["", ""], rows)


def _notes(found: GradientAudit) -> list[str]:
    notes = [PROOF]
    notes += found.notes
    if found.seen.noise is None:
        notes.append("No noise was added: no epsilon holds, whatever the attacks found.")
    else:
        notes.append(
            "Epsilon is of one such release, of real-valued Gaussian noise on the sum, without "
            "sampling; a training spends it in every round."
        )
    if found.seen.clients > 1 and not found.seen.single:
        notes.append(
            f"Secure aggregation hides whose example one is, among {found.seen.clients} clients; "
            f"not what it is: the sum is a gradient of {found.seen.batch} examples."
        )
    notes.append(
        "Chance: the better of another example, matched alike, and the best plain colour. "
        "With an oracle: as published, each picture rescaled, the better sign taken."
    )
    notes += [f"Why nothing was found: {text}" for text in found.why_nothing()[:6]]
    return notes


_MEANING = {
    Verdict.EXACT: "the server reads every {what}, and can prove it",
    Verdict.RECONSTRUCTABLE: "the server reads most {many}",
    Verdict.PARTIAL: "the server reads some {many}",
    Verdict.HIDDEN: "noise hides every component from these attacks, which is no proof of privacy",
}


def _verdict(
    found: GradientAudit,
    tests: list[WorstCase],
    leaks: list[AttackResult],
    said: Sequence[Advice],
    fail_above: float | None,
    how: str,
    delta: float,
) -> str:
    epsilon = found.epsilon(delta)
    one, many = _what(found)
    text = f"{found.verdict.value}: {_MEANING[found.verdict].format(what=one, many=many)}. "
    if found.verdict is Verdict.PARTIAL and not any(each.recovered for each in found.attacks):
        text = f"{found.verdict.value}: the server sees mixtures of {many}, none taken apart here. "
    if found.verdict is Verdict.PARTIAL:
        why = [each for each in found.layers if each.verdict is Verdict.PARTIAL][:1]
        text += "".join(f"Why: layer {each.name}: {each.reason}. " for each in why)
    text += (
        "No noise: no epsilon."
        if epsilon is None
        else f"Epsilon is at most {epsilon:.4g} at delta {delta:g}, one example added or removed."
    )
    text += f" The worst-case test proves an epsilon of at least {tests[0].epsilon:.3g}."
    if leaks:
        names = ", ".join(dict.fromkeys(one.name for one in leaks))
        text += f" LEAK: {names} above {fail_above:g} dB ({how}) and 6 dB above chance."
    elif fail_above is not None:
        text += f" No attack is above {fail_above:g} dB ({how}) and 6 dB above chance."
    if said:
        text += f" Next: {said[0].change}; then {said[0].effect}."
    return text


def _what(found: GradientAudit) -> tuple[str, str]:
    """Name what the layer of the worst verdict has, one and many: examples, or its inputs."""
    worst = [one.name for one in found.layers if one.verdict is found.verdict]
    if not worst or any(one.on_inputs for one in found.attacks if one.layer in worst):
        return "example", "examples"
    layer = f"of the inner layer {worst[0]}"
    return f"input {layer}", f"inputs {layer}"
