"""Options that commands on surveys share: attributes, protocol, oracle, epsilon, priors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from privagg.cli.common import warn
from privagg.errors import UsageError

if TYPE_CHECKING:
    from privagg.cli._survey_inputs import SurveyInputs
    from privagg.protocols.multidim import Params

__all__ = [
    "CALIBRATIONS",
    "PROTOCOLS",
    "SurveyOptions",
    "calibration_option",
    "check_epsilon",
    "survey_options",
]

PROTOCOLS = ("spl", "smp", "rs+fd", "rs+rfd")
CALIBRATIONS = ("tuple", "attribute", "published")
"""Said again here, so that the help needs no import of the protocol; a test compares them."""

_READABLE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)

calibration_option = click.option(
    "--calibration",
    type=click.Choice(CALIBRATIONS),
    default="tuple",
    show_default=True,
    help="What epsilon is about: any two tuples, one attribute, or what the papers state.",
)


@dataclass(frozen=True, kw_only=True)
class SurveyOptions:
    """The options, as given."""

    columns: str | None
    attributes: Path | None
    unknown: str
    protocol: str
    oracle: str
    epsilon: float
    calibration: str
    prior: str
    prior_epsilon: float
    prior_floor: float

    @classmethod
    def take(cls, values: dict[str, Any]) -> SurveyOptions:
        """Take them out of a command's values."""
        return cls(**{name: values.pop(name) for name in cls.__annotations__})

    def params(self, inputs: SurveyInputs, seed: int | None) -> Params:
        """Return the survey; what the library warns of is said on stderr."""
        import warnings

        from privagg.protocols.multidim import Calibration, Params, PrivacyWarning, Protocol

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", PrivacyWarning)
            found = Params(
                attributes=inputs.attributes,
                epsilon=self.epsilon,
                protocol=Protocol(self.protocol),
                oracle=self.oracle,
                calibration=Calibration(self.calibration),
                priors=self._priors(inputs, seed),
            )
        for one in caught:
            warn(f"{one.message}.")
        return found

    def _priors(self, inputs: SurveyInputs, seed: int | None) -> Any:
        if self.protocol != "rs+rfd":
            return None
        import numpy as np

        from privagg import entropy as entropies
        from privagg.protocols.multidim import Priors

        domains = inputs.attributes.values()
        if self.prior == "uniform":
            return Priors.of([np.full(one.size, 1 / one.size) for one in domains], floor=1.0)
        counts = [
            np.bincount(one.encode(inputs.columns[name]), minlength=one.size)
            for name, one in inputs.attributes.items()
        ]
        source = entropies.from_seed(seed).spawn("prior")
        return Priors.central(counts, self.prior_epsilon, floor=self.prior_floor, entropy=source)


def survey_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command; :meth:`SurveyOptions.take` takes their values."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def check_epsilon(_: click.Context, param: click.Parameter, value: float) -> float:
    """Refuse an epsilon that is none, by the option's name."""
    if not 0 < value < float("inf"):
        raise UsageError(max(param.opts, key=len), value, "a finite number above 0")
    return value


_OPTIONS = (
    click.option(
        "--columns", metavar="A,B,...", help="Of the input.  [default: all of categories]"
    ),
    click.option(
        "--attributes",
        type=_READABLE,
        metavar="FILE.toml",
        help="Declared domains.  [default: read off the input, right in a simulation only]",
    ),
    click.option(
        "--unknown",
        type=click.Choice(("refuse", "other")),
        default="refuse",
        show_default=True,
        help="What becomes of missing values, where no domain is declared.",
    ),
    click.option(
        "--protocol",
        type=click.Choice(PROTOCOLS),
        default="smp",
        show_default=True,
        help="How the attributes share a report.",
    ),
    click.option(
        "--oracle",
        default="adp",
        show_default=True,
        metavar="NAME",
        help="Randomiser of each attribute: adp (the better of two), grr, oue, ss, ...; with fakes"
        " adp, grr, sue-z, sue-r, oue-z, oue-r.",
    ),
    click.option(
        "--epsilon",
        type=float,
        default=1.0,
        show_default=True,
        callback=check_epsilon,
        metavar="FLOAT",
        help="What a report may have.",
    ),
    calibration_option,
    click.option(
        "--prior",
        type=click.Choice(("central", "uniform")),
        default="central",
        show_default=True,
        help="What rs+rfd draws fakes from: noisy true frequencies, or all values alike.",
    ),
    click.option(
        "--prior-epsilon",
        type=float,
        default=0.1,
        show_default=True,
        callback=check_epsilon,
        metavar="FLOAT",
        help="What the central prior costs: central differential privacy.",
    ),
    click.option(
        "--prior-floor",
        type=click.FloatRange(0, 1, min_open=True),
        default=0.1,
        show_default=True,
        metavar="FRACTION",
        help="Weight of the uniform distribution in the central prior.",
    ),
)
