"""The options of distributed noise, for ``simulate secagg`` and ``plan secagg``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click

from privagg.cli._secagg_options import RoundOptions
from privagg.errors import UsageError

if TYPE_CHECKING:
    from privagg.protocols.secagg import Params
    from privagg.protocols.secagg.private import Mechanism

__all__ = ["NOISES", "PrivacyOptions", "ResidueOptions", "privacy_options"]

NOISES = ("discrete-gaussian", "skellam", "poisson-binomial")
"""Said again here, so that the help needs no import of the mechanisms; a test compares them."""

_F = TypeVar("_F", bound=Callable[..., None])

_DEFAULTS: dict[str, Any] = {
    "delta": 1e-6,
    "noise": NOISES[0],
    "rounds": 1,
    "l2_clip": 1.0,
    "sampling_rate": 1.0,
    "adjacency": "zero-out",
}

_FLAGS = {
    "clip": "--l2-clip",
    "bits": "--noise-bits",
    "epsilon and bits": "--epsilon and --noise-bits",
    "target": "--noise",
}
"""What the mechanism calls these options, where the name is another."""

_OPTIONS = (
    click.option(
        "--epsilon",
        type=click.FloatRange(min=0, min_open=True),
        metavar="FLOAT",
        help="Differential privacy: clients add noise, calibrated to the fewest honest inputs.",
    ),
    click.option(
        "--delta",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        metavar="FLOAT",
        help="With --epsilon: what the bound may be missed by.  [default: 1e-06]",
    ),
    click.option(
        "--noise",
        type=click.Choice(NOISES),
        help="With --epsilon: what clients add.  [default: discrete-gaussian]",
    ),
    click.option(
        "--rounds",
        type=click.IntRange(1, 10**9),
        metavar="INT",
        help="With --epsilon: rounds that it is spent on, this one among them.  [default: 1]",
    ),
    click.option(
        "--l2-clip",
        type=click.FloatRange(min=0, min_open=True),
        metavar="FLOAT",
        help="With --epsilon: what a client's vector is clipped to, as a whole.  [default: 1]",
    ),
    click.option(
        "--noise-bits",
        type=click.IntRange(2, 32),
        metavar="INT",
        help="With --epsilon: bits of the modulus.  [default: the fewest that cost no accuracy]",
    ),
    click.option(
        "--sampling-rate",
        type=click.FloatRange(0, 1, min_open=True),
        metavar="FRACTION",
        help="With --epsilon: clients take part with this probability; protects from those who "
        "see released sums only, not from the server.  [default: 1]",
    ),
    click.option(
        "--adjacency",
        type=click.Choice(("zero-out", "replace")),
        help="With --epsilon: one client's vector becomes zeros, or any other.  "
        "[default: zero-out]",
    ),
)


def privacy_options(function: _F) -> _F:
    """Give a command these options; :meth:`PrivacyOptions.take` collects them."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True, kw_only=True)
class PrivacyOptions:
    """The options as they were given, defaults filled in; see their help."""

    epsilon: float
    delta: float
    noise: str
    rounds: int
    l2_clip: float
    noise_bits: int | None
    sampling_rate: float
    adjacency: str

    @classmethod
    def take(cls, values: dict[str, Any], given: RoundOptions) -> PrivacyOptions | None:
        """Take them out of a command's `values`; None without ``--epsilon``.

        Raises
        ------
        UsageError
            If one was given without ``--epsilon``, or one of the round's does not go with it.
        """
        found = {name: values.pop(name) for name in (*_DEFAULTS, "noise_bits")}
        epsilon = values.pop("epsilon")
        if epsilon is None:
            for name, value in found.items():
                if value is not None:
                    flag = f"--{name.replace('_', '-')}"
                    raise UsageError(flag, value, "nothing without --epsilon")
            return None
        for flag, other, hint in (
            ("--clip", given.clip, "Say the norm of a whole vector: --l2-clip."),
            ("--weights", given.weights, "A weight would change what a client may move."),
            ("--max-weight", given.max_weight, "A weight would change what a client may move."),
        ):
            if other is not None:
                raise UsageError(flag, other, "nothing with --epsilon", hint)
        chosen: dict[str, Any] = {
            name: _DEFAULTS.get(name) if v is None else v for name, v in found.items()
        }
        return cls(epsilon=epsilon, **chosen)

    def mechanism(self, given: RoundOptions, **changes: Any) -> tuple[Mechanism, Params]:
        """Return the noise for a round, and the round that carries it."""
        from privagg.protocols.secagg import private

        params = replace(given, clip=1.0).params(**changes)  # only the cohort of it counts
        try:
            made = private.calibrated(
                params,
                self.noise,
                clip=self.l2_clip,
                epsilon=self.epsilon,
                bits=self.noise_bits,
                delta=self.delta,
                rounds=self.rounds,
                sampling_rate=self.sampling_rate,
                adjacency=self.adjacency,
            )
        except UsageError as error:
            # The same names are other options of a round.
            flag = _FLAGS.get(error.argument, error.argument)
            raise UsageError(flag, error.found, error.allowed, error.hint) from None
        return made, private.private_params(made, params)


@dataclass(frozen=True, kw_only=True)
class ResidueOptions(RoundOptions):
    """A round's options where the numbers are residues, as distributed noise makes them."""

    @classmethod
    def of(cls, given: RoundOptions, params: Params) -> ResidueOptions:
        """Return the options of a round like `params`, for rounds of other cohorts."""
        bits = params.encoding.value_bits
        return cls(**vars(given) | {"dim": params.dim, "value_bits": bits, "signed": False})

    def params(self, **changes: Any) -> Params:
        """Return the recommended parameters, modulo 2**value_bits whatever the cohort."""
        from privagg.encoding import Encoding

        made = super().params(**changes)
        return replace(made, encoding=Encoding(kind="ring", value_bits=made.encoding.value_bits))
