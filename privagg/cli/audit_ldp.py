"""``privagg audit ldp``: attack reports of a configuration, and say what that proves."""

from __future__ import annotations

from typing import Any

import rich_click as click

from privagg.cli._survey_options import SurveyOptions, survey_options
from privagg.cli._unused import refuse_unused
from privagg.cli.common import Options, command, emit, note
from privagg.errors import UsageError

__all__ = ["KNOWLEDGE", "ldp"]

KNOWLEDGE = ("marginals", "estimates", "nothing")
"""Said again here, so that the help needs no import of the attacks; a test compares them."""

_OF_SURVEYS = (
    *("columns", "attributes", "unknown", "protocol", "oracle", "calibration", "prior"),
    *("prior_epsilon", "prior_floor", "knowledge", "classifier", "surveys", "people"),
)


@command(
    "ldp",
    examples=[
        "privagg audit ldp --values 16 --epsilon 1",
        "privagg audit ldp --input adult --protocol rs+fd --oracle oue-z --epsilon 2",
        "privagg audit ldp --input nursery --protocol smp --oracle grr --epsilon 5 --surveys 5",
    ],
    plots=True,
    library_names={"mechanism": "--oracles"},
)
@click.option(
    "--values",
    type=click.IntRange(2, 4096),
    metavar="INT",
    help="Attack every frequency oracle over so many values.",
)
@click.option("--oracles", metavar="A,B,...", help="With --values: only these.")
@click.option(
    "--input",
    "source",
    metavar="NAME|FILE",
    help="Attack a survey instead; a row per respondent: a bundled table, .csv or .parquet.",
)
@survey_options
@click.option(
    "--knowledge",
    type=click.Choice(KNOWLEDGE),
    default="estimates",
    show_default=True,
    help="What the attacker on fakes believes of the values.",
)
@click.option(
    "--classifier",
    type=click.Choice(("none", "logistic", "boosted")),
    default="none",
    show_default=True,
    help="Also train one on fakes; boosted needs scikit-learn.",
)
@click.option(
    "--surveys",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    metavar="INT",
    help="With smp: how many surveys a respondent answers before re-identification.",
)
@click.option(
    "--people",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    metavar="INT",
    help="With smp: how many respondents to look for.",
)
@click.option(
    "--fake",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    metavar="FRACTION",
    help="Fake respondents among all, whose gain is computed.",
)
@click.option(
    "--targets",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="INT",
    help="With --values: how many values they push.",
)
@click.option(
    "--trials",
    type=click.IntRange(100, 10**6),
    default=20_000,
    show_default=True,
    metavar="INT",
    help="Reports of either input, for the lower bound of epsilon; ten times so many of a survey.",
)
@click.option(
    "--sample-seed",
    type=click.IntRange(0, 2**64 - 1),
    default=0,
    show_default=True,
    metavar="INT",
    help="Of the experiments.",
)
def ldp(
    values: int | None,
    oracles: str | None,
    source: str | None,
    knowledge: str,
    classifier: str,
    surveys: int,
    people: int,
    fake: float,
    targets: int,
    trials: int,
    sample_seed: int,
    options: Options,
    **rest: Any,
) -> None:
    """Attack a configuration of local differential privacy, and say what it proves.

    The best attacks there are, on reports made here of known values: a lower bound of epsilon by
    the optimal distinguisher, how often a value is guessed from one report, which attribute of
    RS+FD and RS+RFD is true, who answered several SMP surveys, and what fake respondents gain.
    Ends with 5 if more is proved than the stated epsilon.
    """
    from privagg.cli import _audit_ldp_report
    from privagg.cli._survey_inputs import parse_names, read_survey

    given = SurveyOptions.take(rest)
    if (values is None) == (source is None):
        raise UsageError("--values", str(values), "either --values or --input")
    if values is not None:
        refuse_unused(_OF_SURVEYS, "with --values")
        if targets > values:
            raise UsageError("--targets", targets, f"up to --values {values}")
        note(options, "Attacking every oracle ...")
        report, leak = _audit_ldp_report.oracles(
            values,
            given.epsilon,
            parse_names("--oracles", oracles),
            targets=targets,
            fake=fake,
            trials=trials,
            seed=sample_seed,
        )
        emit(report, options, leak=leak)
        return
    if oracles is not None:
        raise UsageError("--oracles", oracles, "nothing beside --input: --oracle chooses")
    assert source is not None
    written = (options.out, options.report, options.plot)
    columns = parse_names("--columns", given.columns)
    inputs = read_survey(source, columns, given.attributes, given.unknown, written)
    note(options, f"{inputs.source}: {inputs.users:,} respondents; {inputs.reading}.")
    params = given.params(inputs, sample_seed)
    report, leak = _audit_ldp_report.survey(
        params,
        inputs,
        knowledge=knowledge,
        classifier=None if classifier == "none" else classifier,
        surveys=surveys,
        people=people,
        fake=fake,
        trials=10 * trials,
        seed=sample_seed,
    )
    emit(report, options, leak=leak)
