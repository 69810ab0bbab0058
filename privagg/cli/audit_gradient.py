"""``privagg audit gradient``: what a server reads from gradients, and what that says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click

from privagg.cli.common import Options, Step, command, emit, note, progress
from privagg.errors import UsageError

__all__ = ["ATTACKS", "SWEEPS", "gradient"]

ATTACKS = (
    "all",
    "fast",
    "analytic",
    "ica",
    "relu_exact",
    "cocktail_party",
    "feature_inversion",
    "feature_inversion+gm",
    "inverting_gradients",
    "dlg",
)
"""Said again here, so that the help needs no import of the attacks; a test compares them."""

SWEEPS = (
    "batch",
    "clients",
    "noise",
    "clip",
    "bits",
    "compression",
    "local-steps",
    "local-epochs",
    "epochs",
)


def _decibels(_: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Read ``26dB`` or ``26``."""
    if value is None:
        return None
    try:
        found = float(value.strip().lower().removesuffix("db"))
    except ValueError:
        found = float("nan")
    if not -100 < found < 1000:
        raise UsageError("--fail-above", value, "decibels, for example 26dB")
    return found


def _teller(options: Options, step: Step) -> Callable[[str], None]:
    """Return what says which attack runs: a bar on a terminal, else a line."""
    if not sys.stderr.isatty():
        return lambda text: note(options, text)
    running: list[str] = []

    def tell(text: str) -> None:
        if running:
            step(running.pop(), 1, 1)
        running.append(text)
        step(text, 0, 1)

    return tell


@command(
    "gradient",
    examples=[
        "privagg audit gradient --demo",
        "privagg audit gradient --model my_module:make_model --data images.npz --batch 16 "
        "--clients 4 --secagg --report audit.html",
        "privagg audit gradient --demo --dp-noise 1 --clip 1 --attack fast --sweep noise",
        "privagg audit gradient --model my_module:make_model --detect",
    ],
    plots=True,
)
@click.option("--demo", is_flag=True, help="A bundled model and pictures; under a minute.")
@click.option("--model", metavar="MODULE:NAME", help="A function that makes a torch.nn.Module.")
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.npz",
    help="Two arrays: images (or inputs), floats as the model takes them, and labels.",
)
@click.option("--loss", metavar="MODULE:NAME", help="Of outputs and labels; else cross-entropy.")
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    metavar="INT",
    help="Examples of each client.  [default: 16; with --demo 4]",
)
@click.option(
    "--clients",
    type=click.IntRange(min=1),
    metavar="INT",
    help="Clients in the sum.  [default: 1; with --demo 4]",
)
@click.option("--secagg", is_flag=True, help="Sum by a real secure aggregation round.")
@click.option(
    "--bits",
    type=click.IntRange(2, 32),
    metavar="INT",
    help="With --secagg: bits of its fixed point.  [default: 32]",
)
@click.option(
    "--dp-noise",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="FLOAT",
    help="Noise multiplier of DP-SGD, on each client's sum.",
)
@click.option(
    "--clip",
    type=click.FloatRange(min=0, min_open=True),
    metavar="FLOAT",
    help="Bound of each example's gradient.  [default: 1 with --dp-noise]",
)
@click.option(
    "--local-steps",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="INT",
    help="SGD steps of each client (FedAvg).",
)
@click.option(
    "--local-batch",
    type=click.IntRange(min=1),
    metavar="INT",
    help="Examples of a local step.  [default: all]",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=0.01,
    show_default=True,
    metavar="FLOAT",
    help="Learning rate of local steps.",
)
@click.option("--compression", metavar="NAME", help="fp16, int8, sign or top-SHARE.")
@click.option(
    "--epochs",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="INT",
    help="Train on the data for so long first; untrained is the worst.",
)
@click.option(
    "--attack",
    "attacks",
    type=click.Choice(ATTACKS),
    multiple=True,
    help="Which; may be repeated.  [default: all]",
)
@click.option(
    "--iterations",
    type=click.IntRange(min=1),
    metavar="INT",
    help="Of each attack that optimises.  [default: 8 to 1000]",
)
@click.option(
    "--sweep",
    "sweeps",
    type=click.Choice(SWEEPS),
    multiple=True,
    help="Also a curve over this; may be repeated.",
)
@click.option(
    "--sweep-attack",
    type=click.Choice(ATTACKS[2:]),
    default="ica",
    show_default=True,
    help="By which a curve is made.",
)
@click.option(
    "--perceptual",
    metavar="MODULE:NAME",
    help="A distance of two arrays of images, such as LPIPS.",
)
@click.option(
    "--detect",
    is_flag=True,
    help="End with 5 if the model looks made to leak; without --data, look at its weights alone.",
)
@click.option(
    "--fail-above",
    callback=_decibels,
    metavar="DB",
    help="End with 5 if an attack is above this, and 6 dB above chance.",
)
@click.option(
    "--fail-on",
    type=click.Choice(("mean", "max")),
    default="mean",
    show_default=True,
    help="Of an attack's pictures, for --fail-above.",
)
@click.option(
    "--delta",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=1e-5,
    show_default=True,
    metavar="FLOAT",
    help="Of every epsilon.",
)
@click.option(
    "--trials",
    type=click.IntRange(4, 10**6),
    default=2000,
    show_default=True,
    metavar="INT",
    help="Of the worst-case test.",
)
@click.option(
    "--sample-seed",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    metavar="INT",
    help="Of the choice of examples, noise and attacks.",
)
def gradient(
    demo: bool,
    model: str | None,
    data: Path | None,
    loss: str | None,
    perceptual: str | None,
    detect: bool,
    batch: int | None,
    clients: int | None,
    attacks: tuple[str, ...],
    sweeps: tuple[str, ...],
    fail_above: float | None,
    fail_on: str,
    options: Options,
    **settings: Any,
) -> None:
    """Attack the gradients that a server sees, and say per layer what it can read.

    A round of federated learning is played for real: gradients or local steps, DP-SGD by Opacus,
    compression, a secure aggregation round. Every attack gets only what the server has. Ends with 5
    if --fail-above is passed, or --detect finds weights that are made to leak. That an attack fails
    proves no privacy: epsilon and a worst-case test stand beside it. Needs the extra torch.
    """
    if demo == (model is not None or data is not None):
        raise UsageError("--demo", demo, "either --demo, or --model with --data")
    from privagg.cli import _audit_gradient_inputs, _audit_gradient_report

    seed = settings["sample_seed"]
    if detect and model is not None and data is None:
        made = _audit_gradient_inputs.make_model(model, seed)
        report, leak = _audit_gradient_report.detect(made, model)
        emit(report, options, leak=leak)
        return
    if not demo and (model is None or data is None):
        raise UsageError("--model", model, "a model and --data with its examples")
    given = _audit_gradient_inputs.inputs(model, data, loss, seed, perceptual)
    try:
        with progress(options) as step:
            report, reasons = _audit_gradient_report.run(
                given,
                batch=batch or (4 if demo else 16),
                clients=clients or (4 if demo else 1),
                attacks=attacks or ("all",),
                sweeps=sweeps,
                fail_above=fail_above,
                fail_on=fail_on,
                settings={**settings, "detect": detect},
                step=step,
                tell=_teller(options, step),
            )
    except SystemExit as error:  # A gate must not pass since the model's code called sys.exit().
        raise UsageError(
            "--model", f"code that calls sys.exit({error.code!r})", "code that computes and returns"
        ) from None
    for reason in reasons:
        note(options, reason)
    emit(report, options, leak=bool(reasons))
