"""``privagg ldp init``: a survey's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from privagg.cli._ldp_files import READABLE, emit_beside, out_is, required_out, warned
from privagg.cli._survey_options import PROTOCOLS, calibration_option, check_epsilon
from privagg.cli.common import Options, command, note
from privagg.errors import UsageError

if TYPE_CHECKING:
    from privagg.domain import Domain
    from privagg.protocols.multidim import Priors

__all__ = ["init"]


@out_is("The survey's file: respondents and collector need the same.", "CONFIG.json")
@command(
    "init",
    examples=[
        "privagg ldp init --attributes survey.toml --epsilon 1 --out config.json",
        "privagg ldp init --attributes survey.toml --epsilon 2 --mechanism ss --out config.json",
        "privagg ldp init --attributes survey.toml --epsilon 1 --protocol rs+fd "
        "--calibration attribute --out config.json",
    ],
)
@click.option(
    "--attributes",
    type=READABLE,
    required=True,
    metavar="FILE.toml",
    help="The declared domains: a table [attributes.NAME] for each attribute.",
)
@click.option(
    "--epsilon",
    type=float,
    required=True,
    callback=check_epsilon,
    metavar="FLOAT",
    help="What a report may have.",
)
@click.option(
    "--mechanism",
    default="adp",
    show_default=True,
    metavar="NAME",
    help="Randomiser of each attribute: adp (the better of grr and oue), grr, oue, ss, olh, ...; "
    "of a single one also for the mean: laplace, hybrid, ...",
)
@click.option(
    "--option",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of the mechanism of a single attribute, such as g=4 of lh; may be repeated.",
)
@click.option(
    "--protocol",
    type=click.Choice(PROTOCOLS),
    help="How several attributes share a report.  [default: smp]",
)
@calibration_option
@click.option(
    "--priors",
    type=READABLE,
    metavar="FILE.json",
    help="With rs+rfd: what 'ldp estimate' said of an earlier survey of the same attributes.  "
    "[default: all values alike]",
)
@click.option(
    "--prior-floor",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.1,
    show_default=True,
    metavar="FRACTION",
    help="Weight of the uniform distribution in --priors.",
)
def init(
    attributes: Path,
    epsilon: float,
    mechanism: str,
    given: tuple[str, ...],
    protocol: str | None,
    calibration: str,
    priors: Path | None,
    prior_floor: float,
    options: Options,
) -> None:
    """Declare a survey, in a file with a digest.

    The domains are declared, never inferred from values. One attribute takes any mechanism;
    several share a report by a protocol. Reports and states carry the digest: those of another
    survey are refused.
    """
    from privagg.domain import read_attributes
    from privagg.protocols.collection import Survey
    from privagg.report import write_file

    out = required_out(options, "a file for the survey, such as config.json")
    declared = read_attributes(attributes)
    if len(declared) == 1:
        for flag, value in (("--protocol", protocol), ("--priors", priors)):
            if value is not None:
                allowed = f"nothing where there is one attribute: {next(iter(declared))}"
                raise UsageError(flag, str(value), allowed)
    if priors is not None and protocol != "rs+rfd":
        raise UsageError("--priors", str(priors), "only with --protocol rs+rfd")
    with warned():
        survey = Survey.declare(
            declared,
            epsilon,
            mechanism=mechanism,
            protocol=protocol or "smp",
            calibration=calibration,
            priors=_priors(declared, priors, prior_floor) if protocol == "rs+rfd" else None,
            options=_options(given),
        )
    write_file(out, survey.encode())
    note(options, f"Wrote {out}")
    emit_survey(survey, out, options)


def emit_survey(survey: Any, out: Path, options: Options) -> None:
    """Say what a survey is and promises."""
    one, params = survey.mechanism, survey.params
    data: dict[str, Any] = {
        "config": str(out),
        "digest": survey.digest.hex(),
        "attributes": {name: domain.size for name, domain in survey.attributes.items()},
        "protocol": None if params is None else params.protocol.value,
        "mechanism": one.name if one is not None else params.oracle,
        "mechanisms": dict(
            zip(survey.names, [one.name] if one is not None else params.oracles, strict=True)
        ),
        "calibration": None if params is None else params.calibration.value,
        "epsilon": (one or params).epsilon,
        "epsilon_tuple": one.epsilon_realised if one is not None else params.epsilon_tuple,
        "epsilon_attribute": one.epsilon_realised if one is not None else params.epsilon_attribute,
        "epsilon_prior": 0.0 if params is None else params.epsilon_prior,
        "delta": 0.0 if one is None else one.delta,
        "cost": survey.cost,
        "bytes_per_report": survey.report_bytes,
        "guarantee": survey.guarantee,
    }
    mechanisms = ", ".join(f"{name}: {kind}" for name, kind in data["mechanisms"].items())
    rows = [
        ["digest", data["digest"][:16] + "..."],
        ["attributes", ", ".join(f"{name} ({k})" for name, k in data["attributes"].items())],
        ["protocol", data["protocol"] or "one attribute"],
        ["mechanisms", mechanisms],
        ["epsilon, stated", data["epsilon"]],
        ["epsilon, any two tuples", data["epsilon_tuple"]],
        ["epsilon, one attribute", data["epsilon_attribute"]],
        ["bytes per report", data["bytes_per_report"]],
    ]
    emit_beside(data, "A survey", rows, f"One report has {survey.guarantee}.", options)


def _options(given: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in given:
        name, mark, value = text.partition("=")
        if not mark or not name or name in found:
            raise UsageError("--option", text, "NAME=VALUE, each name once")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _priors(attributes: dict[str, Domain], path: Path | None, floor: float) -> Priors:
    """Return what fakes are drawn from: alike, or the estimates of an earlier survey."""
    import numpy as np

    from privagg.protocols.multidim import Priors

    domains = attributes.items()
    if path is None:
        return Priors.of([np.full(one.size, 1 / one.size) for _, one in domains], floor=1.0)
    allowed = "the JSON that 'privagg ldp estimate' gave for a survey of these attributes"
    try:
        table = json.loads(path.read_text("utf-8"))
        epsilon = float(table["cost"])
        found = []
        for name, domain in domains:
            rows = table["estimates"][name]
            if [row["value"] for row in rows] != list(domain.labels):
                raise UsageError(f"{path.name}, attribute {name!r}", "other values", allowed)
            found.append(np.maximum([float(row["estimate"]) for row in rows], 0.0))
            found[-1] /= found[-1].sum() or 1.0
    except UsageError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(path.name, f"not readable ({error!r})", allowed) from None
    return Priors.of(found, floor=floor, epsilon=epsilon, trust="local")
