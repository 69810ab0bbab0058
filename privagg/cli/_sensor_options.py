"""The options of ``simulate sensor``, in two groups: the protocol's, and the network's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import rich_click as click
from click.core import ParameterSource

from privagg.errors import UsageError

__all__ = [
    "ATTACKS",
    "ENERGY",
    "ONLY_FOR",
    "PROTOCOLS",
    "QUERIES",
    "check_effect",
    "network_options",
    "protocol_options",
]

PROTOCOLS = (
    *("tag", "smart", "cpda", "cpda-sen-efficient", "cpda-sen-checked", "cpda-field"),
    *("mask-cluster", "cmt"),
)
QUERIES = ("sum", "count", "mean", "variance", "histogram", "max", "min")
ENERGY = ("cc2420", "cc1000", "mica2", "first-order")
ATTACKS = (
    *("modulo", "modulo-member", "division", "tiny-seed", "crt", "repeated-run", "split-view"),
    *("phantom-members", "key-pool", "collusion", "extreme-sums", "split-view-beyond"),
    "collusion-beyond",
)
"""Said again here, so that the help needs no import of the protocol; a test compares them."""

_CLUSTERED = (
    *("cpda", "cpda-sen-efficient", "cpda-sen-checked", "cpda-field"),
    "mask-cluster",
)

ONLY_FOR: dict[str, tuple[str, ...]] = {
    "corrupt": _CLUSTERED,
    "drops": ("cpda-field",),
    "min_cluster": _CLUSTERED,
    "keys": ("smart", *_CLUSTERED),
    "arithmetic": ("cpda",),
    "slices": ("smart",),
    "plain_slices": ("smart",),
}
"""The protocols on which an option has an effect. Others have one on all protocols, or permit only
(``allow_insecure``), or are refused by the library (``engine``)."""

_F = TypeVar("_F", bound=Callable[..., None])

_PROTOCOL = (
    click.option(
        "--protocol",
        type=click.Choice(PROTOCOLS),
        default="cpda-field",
        show_default=True,
        help="Which one; tag hides nothing, the other cpda variants are broken.",
    ),
    click.option(
        "--allow-insecure", is_flag=True, help="Run a protocol that is known to be broken."
    ),
    click.option(
        "--corrupt",
        type=click.IntRange(min=0),
        default=1,
        show_default=True,
        metavar="INT",
        help="Members of a cluster, its leader included, that may collude.",
    ),
    click.option(
        "--drops",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        metavar="INT",
        help="cpda-field: members of a cluster that may fall silent; makes clusters larger.",
    ),
    click.option(
        "--min-cluster",
        type=click.IntRange(min=3),
        metavar="INT",
        help="Smallest cluster.  [default: what --corrupt and --drops need]",
    ),
    click.option(
        "--tag-bytes",
        type=click.Choice(["4", "8", "16"]),
        callback=lambda _ctx, _param, value: int(value),
        default="4",
        show_default=True,
        help="Bytes of an authentication tag.",
    ),
    click.option(
        "--keys",
        type=click.Choice(["unique", "pool"]),
        default="unique",
        show_default=True,
        help="One key for each pair, or rings from a pool: a model, insecure.",
    ),
    click.option(
        "--arithmetic",
        type=click.Choice(["integer", "real"]),
        default="integer",
        show_default=True,
        help="Of cpda.",
    ),
    click.option(
        "--slices",
        type=click.IntRange(2, 16),
        default=2,
        show_default=True,
        metavar="INT",
        help="smart: pieces of a reading, the one that is kept included.",
    ),
    click.option("--plain-slices", is_flag=True, help="smart: slices that are no field elements."),
    click.option(
        "--engine",
        type=click.Choice(["arrays", "parties"]),
        default="arrays",
        show_default=True,
        help="All clusters at once, or every node for itself, with real keys and messages.",
    ),
    click.option(
        "--query",
        type=click.Choice(QUERIES),
        default="sum",
        show_default=True,
        help="What is asked; max and min take an epoch for each bit.",
    ),
    click.option(
        "--approximation",
        type=click.Choice(["power"]),
        help="max and min: also show what the papers' sums of powers give, to see their error.",
    ),
    click.option(
        "--power",
        "powers",
        type=click.IntRange(1, 10_000),
        multiple=True,
        metavar="INT",
        help="Of --approximation; may be repeated.  [default: 1, 2, 4, ... 64]",
    ),
    click.option("--at-least", type=float, metavar="FLOAT", help="count: readings from here on."),
    click.option(
        "--edge",
        type=float,
        multiple=True,
        metavar="FLOAT",
        help="histogram: an edge of its bins; may be repeated.",
    ),
    click.option(
        "--scale",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="INT",
        help="Fixed-point steps per unit of a reading: 100 keeps two decimals.",
    ),
    click.option(
        "--bound",
        type=click.IntRange(min=0),
        metavar="INT",
        help="Largest absolute reading, in steps.  [default: the largest there is]",
    ),
)

_NETWORK = (
    click.option(
        "--nodes",
        type=click.IntRange(min=1),
        metavar="INT",
        help="Sensors.  [default: 600]",
    ),
    click.option(
        "--area",
        type=click.FloatRange(min=0, min_open=True),
        metavar="METRES",
        help="Side of the square they lie in.  [default: 400, or that of --input]",
    ),
    click.option(
        "--range",
        "range_",
        type=click.FloatRange(min=0, min_open=True),
        default=50.0,
        show_default=True,
        metavar="METRES",
        help="Radio range.",
    ),
    click.option(
        "--base-station",
        type=float,
        nargs=2,
        metavar="X Y",
        help="Where it is.  [default: the centre]",
    ),
    click.option(
        "--leader-probability",
        type=click.FloatRange(0, 1),
        default=0.3,
        show_default=True,
        metavar="FRACTION",
        help="A node that hears the query leads a cluster with this probability.",
    ),
    click.option(
        "--flood",
        type=click.Choice(["all", "leaders"]),
        default="all",
        show_default=True,
        help="Who forwards the query.",
    ),
    click.option(
        "--loss",
        type=click.FloatRange(0, 1),
        default=0.0,
        show_default=True,
        metavar="FRACTION",
        help="Frames that do not reach a receiver.",
    ),
    click.option(
        "--retries",
        type=click.IntRange(0, 100),
        default=0,
        show_default=True,
        metavar="INT",
        help="Times a frame is sent again; 0: no acknowledgements.",
    ),
    click.option(
        "--payload",
        type=click.IntRange(8, 10_000),
        default=28,
        show_default=True,
        metavar="BYTES",
        help="Of a frame: 28 on TinyOS, 114 in plain 802.15.4.",
    ),
    click.option(
        "--epochs",
        type=click.IntRange(1, 10**7),
        default=1,
        show_default=True,
        metavar="INT",
        help="How many.",
    ),
    click.option(
        "--energy",
        type=click.Choice(ENERGY),
        default="cc2420",
        show_default=True,
        help="What a byte costs.",
    ),
    click.option(
        "--overhearing", is_flag=True, help="Count what neighbours send to others as received."
    ),
    click.option(
        "--duty-cycle",
        type=click.FloatRange(0, 1),
        default=0.0,
        show_default=True,
        metavar="FRACTION",
        help="Part of an epoch in which the radio listens to nothing.",
    ),
    click.option(
        "--epoch-seconds",
        type=click.FloatRange(min=0, min_open=True),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="Length of an epoch, for --duty-cycle.",
    ),
)


def check_effect(context: click.Context) -> None:
    """Refuse an option that was given and has no effect.

    Raises
    ------
    UsageError
        Naming the protocols it is for, or the option that it goes with.
    """
    given = {
        name
        for name in context.params
        if context.get_parameter_source(name) not in (None, ParameterSource.DEFAULT)
    }
    chosen, flood = context.params["protocol"], context.params["flood"]
    allowed = dict(ONLY_FOR)
    if flood == "all":  # else leaders alone forward the query, whatever they do afterwards
        allowed["leader_probability"] = _CLUSTERED
    for name, protocols in allowed.items():
        if name in given and chosen not in protocols:
            raise UsageError(
                _flag(name),
                f"given with --protocol {chosen}, where it has no effect",
                f"it with {' or '.join(protocols)}",
            )
    for name, (other, needed) in _ONLY_WITH.items():
        if name in given and not context.params[other]:
            raise UsageError(_flag(name), f"given without {needed}", f"it beside {needed}")


_ONLY_WITH = {
    "x_column": ("source", "--input"),
    "y_column": ("source", "--input"),
    "value_column": ("source", "--input"),
    "powers": ("approximation", "--approximation power"),
    "epoch_seconds": ("duty_cycle", "--duty-cycle"),
}


def _flag(name: str) -> str:
    return "--power" if name == "powers" else f"--{name.replace('_', '-')}"


def protocol_options(function: _F) -> _F:
    """Give a command the options of the protocol."""
    for option in reversed(_PROTOCOL):
        function = option(function)
    return function


def network_options(function: _F) -> _F:
    """Give a command the options of the network."""
    for option in reversed(_NETWORK):
        function = option(function)
    return function
