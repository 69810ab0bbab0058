"""What the reports of LightSecAgg's plans and runs share, and its parameters from options."""

from __future__ import annotations

from privagg.cli._secagg_options import RoundOptions
from privagg.cli._secagg_shared import count
from privagg.errors import UsageError
from privagg.protocols import lightsecagg
from privagg.protocols.lightsecagg import Params

__all__ = ["guarantee", "parameter_rows", "parameters", "params_of", "size"]


def params_of(given: RoundOptions, **changes: object) -> Params:
    """Return the recommended parameters; `changes` go to ``Params.recommend`` instead.

    Raises
    ------
    UsageError
        If an option is given that this protocol does not have, or as the parameters do.
    """
    for flag, value, usual in (
        ("--graph", given.graph, "complete"),
        ("--neighbours", given.neighbours, None),
        ("--prg", given.prg, "aes-128-ctr"),
    ):
        if value != usual:
            raise UsageError(
                flag,
                value,
                "nothing beside --protocol lightsecagg",
                "There every client holds a share of every mask, and no mask is expanded.",
            )
    names = ("clients", "dim", "value_bits", "signed", "clip", "corrupt", "dropout")
    chosen = {name: getattr(given, name) for name in (*names, "threat", "threshold", "min_cohort")}
    chosen["max_weight"] = given.max_weight
    chosen |= changes
    chosen["weighted"] = chosen["max_weight"] is not None
    return Params.recommend(**chosen)


def guarantee(params: Params) -> str:
    """Say against whom the round protects its inputs."""
    # T is 1 at least; but where nobody is taken to collude, two inputs may be all of a sum.
    alone = params.corrupt == 0
    who = (
        "the server learns no more of the inputs"
        if alone
        else f"the server and up to {count(params.corrupt)} colluding with it learn no more of the "
        "other inputs"
    )
    how = f"whatever {'it does' if alone else 'they do'} (active)"
    if params.threat is lightsecagg.Threat.SEMI_HONEST:
        how = "as long as all follow the protocol and only look at what they see (semi-honest)"
    return f"{who} than their sum, {how}"


def parameters(params: Params) -> dict[str, object]:
    """Return the JSON keys that a plan and a run share."""
    encoding = params.encoding
    return {
        "protocol": "lightsecagg",
        "threat": params.threat.value,
        "clients": params.clients,
        "corrupt": params.corrupt,
        "dropout": params.dropout,
        "threshold": params.threshold,
        "privacy": params.privacy,
        "min_cohort": params.min_cohort,
        "field": params.field.name,
        "modulus_bits": params.bits,
        "share_elements": params.piece,
        "dim": params.dim,
        "value_bits": encoding.value_bits,
        "signed": encoding.signed or encoding.kind == "float",
        "clip": encoding.clip,
        "weighted": encoding.weighted,
        "max_weight": encoding.max_weight if encoding.weighted else None,
    }


def parameter_rows(params: Params) -> list[list[str]]:
    """Return the rows of a table of parameters: name, value, meaning."""
    encoding = params.encoding
    numbers = "integers" if encoding.clip is None else f"floats within ±{encoding.clip:.6g}"
    rows = [
        [
            "threat model",
            params.threat.value,
            f"{count(params.corrupt)} may collude with the server",
        ],
        ["privacy, T", str(params.privacy), "coded shares that say nothing of a mask"],
        ["threshold, U", str(params.threshold), "coded sums give the sum of the masks"],
        ["coded share", f"{params.piece:,}", f"elements: the vector's {params.length:,} / (U - T)"],
        [
            "smallest cohort",
            str(params.min_cohort),
            f"inputs in the sum; {params.clients - params.dropouts} are expected",
        ],
        [
            "modulus",
            f"2**{params.bits} - 1" if params.field.name in ("m31", "m61") else params.field.name,
            f"above any sum of {encoding.value_bits}-bit {numbers}",
        ],
    ]
    if encoding.weighted:
        rows.append(["weights", f"0 to {encoding.max_weight}", "masked like the numbers"])
    return rows


def size(value: float, unit: str) -> str:
    """Return a quantity as tables show it."""
    from privagg.report import Column, Table

    return Table("", [Column("", unit)], [[value]]).texts()[0][0]
