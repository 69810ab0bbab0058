"""Which cast of parties plays which protocol."""

from __future__ import annotations

from privagg.entropy import Entropy
from privagg.errors import CapacityError, UsageError
from privagg.protocols.sensor.formation import Formation
from privagg.protocols.sensor.keypool import Rings
from privagg.protocols.sensor.params import Arithmetic, Params, Protocol
from privagg.protocols.sensor.parties import Cast
from privagg.protocols.sensor.parties_papers import PaperCast
from privagg.protocols.sensor.parties_tree import TreeCast

__all__ = ["cast", "check"]


def check(params: Params) -> None:
    """Require what parties can do.

    Raises
    ------
    UsageError
        With ``cpda-sen-checked``, if each node adds more than one number: the arrays check and
        draw again for each by itself.
    CapacityError
        If a sum does not fit the numbers of a report.
    """
    if params.protocol is Protocol.CPDA_SEN_CHECKED and params.width != 1:
        raise UsageError(
            "engine",
            "parties",
            "'arrays' where each node adds more than one number",
            "With cpda-sen-checked, parties play sums, counts, means, maxima and minima.",
        )
    real = params.arithmetic is Arithmetic.REAL
    if not real and params.capacity_needed >= params.field.modulus:
        most = (params.field.modulus - 1) // (2 * params.nodes)
        raise CapacityError("bound", params.bound, f"at most {most} with parties", "Lower it.")


def cast(
    formation: Formation, params: Params, entropy: Entropy, rings: Rings | None = None
) -> Cast | TreeCast:
    """Return the parties of a network; arguments as for :class:`Cast`."""
    if not params.protocol.clustered:
        return TreeCast(formation, params, entropy, rings)
    kind = PaperCast if params.protocol.broken else Cast
    return kind(formation, params, entropy, rings)
