"""What distributed noise guarantees and costs, as rows, tables and plots."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from privagg.cli._privacy_options import PrivacyOptions
from privagg.mechanisms.calibration import central_deviation
from privagg.mechanisms.guarantees import Guarantee, coalition_curve
from privagg.protocols.secagg import Params, thresholds
from privagg.protocols.secagg.private import Mechanism, PrivateResult
from privagg.report import Cell, Plot, Reference, Report, Series, Table

__all__ = ["planned", "simulated"]

_ERROR = "Error, which only a simulation knows"


def planned(report: Report, mechanism: Mechanism, params: Params, given: PrivacyOptions) -> Report:
    """Add to a plan's report what its noise guarantees with the survivors that are expected."""
    survivors = params.clients - thresholds.dropouts(params.clients, params.dropout)
    data, tables, plots = _parts(mechanism, params, given, survivors)
    return replace(
        report,
        data=dict(report.data) | {"privacy": data},
        tables=[*report.tables, *tables],
        plots=[*report.plots, *plots] if report.plots else [],
        notes=[*report.notes, *_notes(mechanism, params)],
        verdict=f"{report.verdict} {_verdict(data)}",
    )


def simulated(report: Report, private: PrivateResult, given: PrivacyOptions) -> Report:
    """Add to a run's report what its noise guarantees with those who stayed."""
    result = private.result
    data, tables, plots = _parts(private.mechanism, result.params, given, result.count)
    data["error_sum"] = private.error
    truth = {"clipped": result.clipped, "vectors_clipped": private.clipped}
    rows: list[list[Cell]] = [
        ["root mean squared error of the sum, measured", f"{private.error:.4g}"],
        ["foretold", f"{data['deviation_sum']:.4g}"],
        ["vectors beyond the clip", private.clipped],
    ]
    learned = f"the noisy sum over {result.count} clients' vectors, and who took part in each round"
    right = "were added exactly" if result.exact else "were NOT added right"
    return replace(
        report,
        data=dict(report.data) | {"privacy": data, "truth": truth, "learned": learned},
        tables=[*report.tables, *tables, Table(_ERROR, ["", ""], rows)],
        plots=[*report.plots, *plots],
        notes=[
            f"The server learned {learned}.",
            *report.notes[1:],
            f"The clients' residues {right}; sum and mean are of clipped vectors, with noise.",
            *_notes(private.mechanism, result.params),
        ],
        verdict=f"The residues of {result.count} survivors {right}. {_verdict(data)}",
    )


def _parts(
    mechanism: Mechanism, params: Params, given: PrivacyOptions, survivors: int
) -> tuple[dict[str, Any], list[Table], list[Plot]]:
    worst = mechanism.guarantee(mechanism.honest)
    colluding = min(params.corrupt, survivors - 1)
    stayed = mechanism.guarantee(survivors, colluding)
    most = max(colluding, survivors - mechanism.honest)
    curve = coalition_curve(mechanism, survivors, min(2 * most + 1, survivors - 1))
    target = mechanism.target
    central = central_deviation(mechanism.clip, given.epsilon, target)
    deviation = mechanism.deviation(survivors)
    data: dict[str, Any] = {
        "noise": mechanism.kind,
        "epsilon_stated": given.epsilon,
        "epsilon": stayed.epsilon,
        "epsilon_worst": worst.epsilon,
        "delta": target.delta,
        "rounds": target.rounds,
        "sampling_rate": target.sampling_rate,
        "adjacency": worst.adjacency,
        "proof": worst.proof,
        "survivors": survivors,
        "coalition": colluding,
        "honest": stayed.honest,
        "honest_worst": mechanism.honest,
        "curve": [
            {"coalition": size, "honest": one.honest, "epsilon": _finite(one.epsilon)}
            for size, one in curve
        ],
        "l2_clip": mechanism.clip,
        "bits": mechanism.modulus_bits,
        "length": mechanism.length,
        "scale": mechanism.scale,
        "variance_client": mechanism.variance,
        "inflation": mechanism.inflation,
        "wrap_probability": mechanism.wrap,
        "deviation_sum": deviation,
        "deviation_mean": deviation / survivors,
        "deviation_central": central,
        "variance_ratio": (deviation / central) ** 2 if target.sampling_rate == 1 else None,
        "error_sum": None,
    }
    return data, [_table(data), _curve_table(curve)], [_plot(curve, given, worst)]


def _table(data: dict[str, Any]) -> Table:
    rounds = f"{data['rounds']:,} round{'s' if data['rounds'] > 1 else ''}"
    rows: list[list[Cell]] = [
        ["noise", data["noise"], "of each client, drawn exactly"],
        [
            "epsilon, as asked for",
            f"{data['epsilon_stated']:.6g}",
            f"at delta {data['delta']:g}, after {rounds}",
        ],
        [
            "epsilon at the worst case",
            f"{data['epsilon_worst']:.6g}",
            f"{data['honest_worst']} honest contributors: by {data['proof']}",
        ],
        [
            "epsilon at the survivors",
            f"{data['epsilon']:.6g}",
            f"{data['survivors']} stay, {data['coalition']} of them collude",
        ],
        ["clip", f"{data['l2_clip']:.6g}", "L2 norm of a client's vector"],
        [
            "modulus",
            f"2**{data['bits']}",
            f"{data['length']:,} words for a client; 1/{data['scale']:.6g} a step",
        ],
        [
            "wrapping",
            f"{data['wrap_probability']:.2g}",
            "probability for a coordinate if all vectors are alike and at the clip",
        ],
        [
            "norm after rounding",
            f"{data['inflation']:.4f}",
            "times the clip at most: what the noise is calibrated to",
        ],
        [
            "error of the sum",
            f"{data['deviation_sum']:.4g}",
            f"standard deviation of a coordinate; of the mean {data['deviation_mean']:.4g}",
        ],
    ]
    if data["variance_ratio"] is not None:
        rows.append(
            [
                "variance over that of central noise",
                f"{data['variance_ratio']:.4g}",
                "one Gaussian for the same epsilon, added by somebody trusted",
            ]
        )
    return Table("Differential privacy", ["", "value", "meaning"], rows)


def _curve_table(curve: list[tuple[int, Guarantee]]) -> Table:
    rows: list[list[Cell]] = [[size, one.honest, f"{one.epsilon:.6g}"] for size, one in curve]
    return Table("Epsilon over the coalition", ["colluding", "honest in the sum", "epsilon"], rows)


def _plot(curve: list[tuple[int, Guarantee]], given: PrivacyOptions, worst: Guarantee) -> Plot:
    known = [(size, one.epsilon) for size, one in curve if one.epsilon < math.inf]
    return Plot(
        kind="line",
        title=f"Epsilon over the coalition, delta {worst.delta:g}",
        x_label="survivors that collude with the server",
        y_label="epsilon",
        series=[Series("epsilon", [size for size, _ in known], [value for _, value in known])],
        references=[Reference(given.epsilon, "asked for")],
    )


def _notes(mechanism: Mechanism, params: Params) -> list[str]:
    fewer = (
        "A semi-malicious server may learn a sum of fewer than it names: against it epsilon at the "
        "worst case alone is proven."
    )
    return [
        *([fewer] if params.views_signed else []),
        f"Adjacency: {mechanism.target.stated}.",
        "Noise of clients that stay beyond the smallest cohort is not taken off: it lowers epsilon "
        "and adds error.",
    ]


def _verdict(data: dict[str, Any]) -> str:
    return (
        f"Differential privacy of the sum: epsilon {data['epsilon']:.4g} with these survivors, "
        f"{data['epsilon_worst']:.4g} at worst, delta {data['delta']:g}, over {data['rounds']} "
        f"round{'s' if data['rounds'] > 1 else ''}."
    )


def _finite(value: float) -> float | None:
    return value if value < math.inf else None
