"""``privagg simulate locational``: values by region under local differential privacy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import rich_click as click
from click import get_current_context
from click.core import ParameterSource

from privagg.cli._survey_options import check_epsilon
from privagg.cli.common import Options, command, emit, note, progress, seed_option
from privagg.errors import UsageError

__all__ = ["MECHANISM_NAMES", "locational"]

MECHANISM_NAMES = (
    *("auto", "randomised-response", "exponential", "gaussian"),
    *("ss", "grr", "oue", "sue", "olh", "pgr", "hr", "privset"),
    *("planar-laplace", "region-exponential"),
)
"""Said again here, so that the help needs no import of the protocol; a test compares them."""

_NOT_EVALUATED = {
    *("source", "region", "latitude", "longitude", "bbox", "parents", "levels", "value", "clamp"),
    *("missing", "items", "mechanism", "epsilon", "delta", "notion", "shuffle", "max_bytes"),
    *("max_seconds", "users_expected", "beside_secagg", "post", "confidence"),
}


@command(
    "locational",
    examples=[
        "privagg simulate locational --input income2000 --region state"
        " --value weekly_income:float[0,5000] --clamp --epsilon 2",
        "privagg simulate locational --input stops2017 --region grid:6x6"
        " --latitude latitude --longitude longitude --value problem:category --epsilon 2",
        "privagg simulate locational --input people.parquet --region county:counties.txt"
        " --value cases:int[0,20] --epsilon 1 --out cases.csv",
    ],
    plots=True,
    former_names={"--missing": "--unknown"},
)
@click.option(
    "--input",
    "source",
    metavar="NAME|FILE",
    help="A row per respondent: a bundled table, .csv or .parquet, read in chunks.",
)
@click.option(
    "--region",
    metavar="SPEC",
    help="COLUMN (a bundled table's), COLUMN:FILE of names, grid:RxC, h3:RESOLUTION, h3:FILE of"
    " cells, polygons:FILE[:PROPERTY] of GeoJSON.",
)
@click.option("--latitude", metavar="COLUMN", help="In degrees, for grid, h3 and polygons.")
@click.option("--longitude", metavar="COLUMN", help="In degrees, for grid, h3 and polygons.")
@click.option(
    "--bbox",
    metavar="S,W,N,E",
    help="Box of the grid or of the H3 cells, in degrees.  [default: a bundled table's own]",
)
@click.option(
    "--parents",
    metavar="FILE.csv",
    help="Each region and its parent; or census-divisions, for states.",
)
@click.option(
    "--levels",
    type=click.Choice(("sampled", "adaptive", "parents")),
    help="With --parents: also ask some about parents and some about regions, and make both agree;"
    " split large parents only; or ask about parents, and not about regions.",
)
@click.option(
    "--value",
    metavar="COLUMN:TYPE",
    help="TYPE is bool, int[LOW,HIGH], float[LOW,HIGH], category[A,B,...] or ranking[A,B,...];"
    " without the option, respondents are counted.",
)
@click.option("--clamp", is_flag=True, help="Move numbers out of range to the nearer end.")
@click.option(
    "--unknown",
    "missing",
    type=click.Choice(("refuse", "other")),
    default="refuse",
    show_default=True,
    help="Unknown regions and missing values: refuse them, or give them a cell of their own.",
)
@click.option(
    "--items",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Regions of a respondent, at most: columns of lists, or of texts with ';' between them.",
)
@click.option(
    "--mechanism",
    type=click.Choice(MECHANISM_NAMES),
    default="auto",
    show_default=True,
    metavar="NAME",
    help="auto, randomised-response, exponential, gaussian, or an oracle: ss, grr, oue, sue, olh,"
    " pgr, hr, privset; with --notion geo planar-laplace or region-exponential.",
)
@click.option(
    "--epsilon",
    type=float,
    default=1.0,
    show_default=True,
    callback=check_epsilon,
    metavar="FLOAT",
    help="What a report may have, for region and value together.",
)
@click.option(
    "--delta",
    type=click.FloatRange(1e-10, 0.1),
    default=1e-6,
    show_default=True,
    metavar="FLOAT",
    help="Of the Gaussian mechanism.",
)
@click.option(
    "--notion",
    type=click.Choice(("local", "geo")),
    default="local",
    show_default=True,
    help="What epsilon is about: any two respondents, or per metre between their regions.",
)
@click.option(
    "--shuffle",
    is_flag=True,
    help="Also say what a trusted shuffler would make of epsilon, at --delta.",
)
@click.option("--max-bytes", type=float, metavar="FLOAT", help="Limit of auto: bytes per report.")
@click.option(
    "--max-seconds", type=float, metavar="FLOAT", help="Limit of auto: CPU seconds to decode."
)
@click.option(
    "--users-expected",
    type=click.IntRange(1),
    metavar="INT",
    help="Respondents that --max-seconds counts with.",
)
@click.option(
    "--beside-secagg",
    is_flag=True,
    help="Also say what secure aggregation would give, and whom one would trust.",
)
@click.option(
    "--evaluate",
    is_flag=True,
    help="Instead: every mechanism on simulated and real statistics.",
)
@click.option(
    "--sets",
    metavar="A,B,...",
    help="Of --evaluate: one-hot, boolean, integer, ranking, votes, brackets, income, incidents,"
    " division-votes, division-brackets, division-income.  [default: all]",
)
@click.option("--epsilons", metavar="A,B,...", help="Of --evaluate.  [default: 0.5,1,2,3,5,10]")
@click.option(
    "--runs", type=click.IntRange(1, 10**6), default=1, show_default=True, help="How often."
)
@click.option(
    "--post",
    type=click.Choice(("norm-sub", "none")),
    default="norm-sub",
    show_default=True,
    help="How published counts are made of raw ones.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    metavar="FRACTION",
    help="Of each interval.",
)
@seed_option
def locational(
    source: str | None,
    region: str | None,
    latitude: str | None,
    longitude: str | None,
    bbox: str | None,
    parents: str | None,
    value: str | None,
    options: Options,
    **values: Any,
) -> None:
    """Simulate statistics by region under local differential privacy.

    Every respondent turns its region and its value into one cell, and randomises that into one
    report; epsilon holds for both changed together. The aggregator estimates each region's count,
    categories or mean, with intervals. Regions and values are declared, never read off the data.
    With --out FILE.csv or FILE.geojson the estimates are written there.
    """
    if values["evaluate"]:
        _evaluate(options, values)
        return
    for flag, found in (("--input", source), ("--region", region)):
        if found is None:
            raise UsageError(flag, "nothing", "needed, but with --evaluate")
    for name in ("sets", "epsilons"):
        if values[name] is not None:
            raise UsageError(f"--{name}", values[name], "with --evaluate only")
    assert source is not None
    assert region is not None
    from privagg.cli import _locational_inputs, _locational_report
    from privagg.protocols import locational as protocol
    from privagg.report import write_file

    place = _locational_inputs.Place(
        region=region, latitude=latitude, longitude=longitude, bbox=bbox, parents=parents
    )
    written = (options.out, options.report, options.plot)
    other = values["missing"] == "other"
    local = values["notion"] == "local"
    with progress(options) as step:
        inputs = _locational_inputs.read(source, place, value, values["items"], step, written)
        if values["levels"] is not None:
            inputs = _locational_inputs.on_levels(inputs, values["levels"], values["items"], local)
        if values["max_seconds"] is not None and values["users_expected"] is None:
            raise UsageError("--users-expected", "nothing", "respondents, with --max-seconds")
        choice = protocol.recommend(
            values["mechanism"],
            users=values["users_expected"],
            max_bytes=values["max_bytes"],
            max_seconds=values["max_seconds"],
            regions=inputs.regions,
            value=inputs.value,
            epsilon=values["epsilon"],
            other=local and (other or inputs.regions.by_points),
            notion=values["notion"],
            missing=values["missing"],
            items=values["items"],
            delta=values["delta"],
            clamp=values["clamp"],
        )
        note(options, f"{len(inputs.regions):,} regions; {choice.why}.")
        result = protocol.run(
            choice.params,
            inputs.chunks,
            runs=values["runs"],
            confidence=values["confidence"],
            post=None if values["post"] == "none" else values["post"],
            seed=values["seed"],
            progress=step,
        )
        beside = None
        if values["beside_secagg"]:
            beside = _locational_report.beside(choice.params, inputs, result, values["seed"])
    shuffled = _locational_report.shuffled(result, values["delta"]) if values["shuffle"] else None
    nested = None
    if values["levels"] in ("sampled", "adaptive"):
        from privagg.protocols.locational.nested import run_nested

        nested = run_nested(
            choice.params,
            inputs.chunks,
            adaptive=values["levels"] == "adaptive",
            confidence=values["confidence"],
            seed=values["seed"],
        )
    more = _locational_report.More(beside=beside, shuffled=shuffled, nested=nested)
    report = _locational_report.simulation(result, inputs, choice, values["mechanism"], more)
    if options.out is not None and options.out.suffix.lower() in (".csv", ".geojson"):
        table = options.out.suffix.lower() == ".csv"
        text = (
            _locational_report.estimates_csv(result)
            if table
            else _locational_report.estimates_geojson(result)
        )
        write_file(options.out, text.encode())
        note(options, f"Wrote {options.out}")
        options = replace(options, out=None)
    emit(report, options)


def _evaluate(options: Options, values: dict[str, Any]) -> None:
    """Run the evaluation, which has respondents of its own."""
    from privagg.cli import _locational_evaluation
    from privagg.cli._survey_inputs import parse_names
    from privagg.protocols.locational import evaluation

    context = get_current_context()
    for name in context.params:
        given = context.get_parameter_source(name)
        if name in _NOT_EVALUATED and given is not ParameterSource.DEFAULT:
            flag = "--input" if name == "source" else "--" + name.replace("_", "-")
            raise UsageError(flag, context.params[name], "none with --evaluate")
    sets = parse_names("--sets", values["sets"]) or (*evaluation.SETS, *evaluation.COARSE)
    try:
        epsilons = tuple(float(one) for one in parse_names("--epsilons", values["epsilons"]))
    except ValueError:
        raise UsageError("--epsilons", values["epsilons"], "numbers, separated by commas") from None
    with progress(options) as step:
        rows = evaluation.evaluate(
            sets=sets,
            epsilons=epsilons or evaluation.EPSILONS,
            runs=values["runs"],
            seed=values["seed"] or 0,
            progress=step,
        )
    emit(_locational_evaluation.report(rows, values["runs"]), options)
