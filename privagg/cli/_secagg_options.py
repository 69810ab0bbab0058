"""The options that ``simulate secagg`` and ``plan secagg`` share, and what they say of a round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click

if TYPE_CHECKING:
    from privagg.protocols.secagg import Params

__all__ = ["DEFAULT_VALUE_BITS", "GRAPHS", "PRGS", "THREATS", "RoundOptions", "round_options"]

THREATS = ("semi-honest", "semi-malicious", "active")
GRAPHS = ("complete", "sparse")
PRGS = ("aes-128-ctr", "chacha20")
"""Said again here, so that the help needs no import of the protocol; a test compares them."""

DEFAULT_VALUE_BITS = 16

_F = TypeVar("_F", bound=Callable[..., None])

_OPTIONS = (
    click.option(
        "--clients", type=click.IntRange(min=2), metavar="INT", help="Size of the cohort."
    ),
    click.option("--dim", type=click.IntRange(min=1), metavar="INT", help="Numbers per client."),
    click.option(
        "--value-bits",
        type=click.IntRange(1, 32),
        default=DEFAULT_VALUE_BITS,
        show_default=True,
        metavar="INT",
        help="Bits of one number: of an integer, or of a float's level within the clip.",
    ),
    click.option("--signed", is_flag=True, help="Integers may be negative."),
    click.option(
        "--clip",
        type=click.FloatRange(min=0, min_open=True),
        metavar="FLOAT",
        help="Numbers are floats from -FLOAT to FLOAT; what lies beyond is clipped.",
    ),
    click.option(
        "--weights", metavar="COLUMN", help="Each client has a weight: this column, or array."
    ),
    click.option(
        "--max-weight",
        type=click.IntRange(min=1),
        metavar="INT",
        help="Largest weight. Alone it makes the round weighted: generated clients then draw "
        "their weights from 1 to INT.",
    ),
    click.option(
        "--corrupt",
        type=click.FloatRange(0, 1),
        default=0.05,
        show_default=True,
        metavar="FRACTION",
        help="Clients that may collude with the server.",
    ),
    click.option(
        "--dropout",
        type=click.FloatRange(0, 1),
        default=0.05,
        show_default=True,
        metavar="FRACTION",
        help="Clients that may be gone by the end.",
    ),
    click.option(
        "--threat",
        type=click.Choice(THREATS),
        default="semi-honest",
        show_default=True,
        help="What the guarantee is against.",
    ),
    click.option(
        "--graph",
        type=click.Choice(GRAPHS),
        default="complete",
        show_default=True,
        help="Who shares secrets with whom: everyone, or some neighbours.",
    ),
    click.option(
        "--threshold", type=click.IntRange(min=1), metavar="INT", help="Instead of the planner's."
    ),
    click.option(
        "--neighbours", type=click.IntRange(min=1), metavar="INT", help="Instead of the planner's."
    ),
    click.option(
        "--min-cohort",
        type=click.IntRange(min=2),
        metavar="INT",
        help="Fewest inputs in the sum, or the round aborts.",
    ),
    click.option(
        "--prg",
        type=click.Choice(PRGS),
        default="aes-128-ctr",
        show_default=True,
        help="The mask stream.",
    ),
)


def round_options(function: _F) -> _F:
    """Give a command the options of a round; :meth:`RoundOptions.take` collects them."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True, kw_only=True)
class RoundOptions:
    """The options as they were given; see their help."""

    clients: int | None
    dim: int | None
    value_bits: int
    signed: bool
    clip: float | None
    weights: str | None
    max_weight: int | None
    corrupt: float
    dropout: float
    threat: str
    graph: str
    threshold: int | None
    neighbours: int | None
    min_cohort: int | None
    prg: str

    @classmethod
    def take(cls, values: dict[str, Any]) -> RoundOptions:
        """Take them out of a command's `values`."""
        return cls(**{field.name: values.pop(field.name) for field in fields(cls)})

    def params(self, **changes: Any) -> Params:
        """Return the recommended parameters; `changes` go to ``Params.recommend`` instead."""
        from privagg.protocols import secagg

        max_weight = changes.get("max_weight", self.max_weight)
        chosen: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                *("clients", "dim", "value_bits", "signed", "clip", "corrupt", "dropout"),
                *("threat", "graph", "threshold", "neighbours", "min_cohort", "prg"),
            )
        }
        chosen |= {"weighted": max_weight is not None, "max_weight": max_weight}
        return secagg.Params.recommend(**chosen | changes)
