"""What the clients of a simulation hold: a file's rows, a table's histograms, or drawn numbers."""

from __future__ import annotations

import hashlib
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import datasets
from privagg import entropy as entropies
from privagg.cli._secagg_options import RoundOptions
from privagg.cli.inputs import ClientInputs, Extremes, Lazy, extremes, read_inputs
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols.secagg import tiles

__all__ = ["GIVEN", "LARGEST", "Material", "from_data", "from_file", "generated"]

GIVEN = "given"
LARGEST = "largest value of the input (a deployment must declare it)"


@dataclass(frozen=True, kw_only=True)
class Material:
    """The inputs of a run, and the declared bounds that they were checked against.

    Attributes
    ----------
    inputs : ClientInputs
        The inputs.
    clip, max_weight : number, optional
        As the round's parameters need them.
    clip_source, max_weight_source : str, optional
        :data:`GIVEN` or :data:`LARGEST`.
    histogram : HistogramInputs, optional
        Where the inputs are the histograms of a bundled table.
    """

    inputs: ClientInputs
    clip: float | None = None
    clip_source: str | None = None
    max_weight: int | None = None
    max_weight_source: str | None = None
    histogram: datasets.HistogramInputs | None = None


def from_file(
    path: Path,
    given: RoundOptions,
    layout: str,
    columns: tuple[str, ...],
    header: bool | None = None,
) -> Material:
    """Read a file and look at its values once.

    Raises
    ------
    UsageError
        If the file cannot be read, or its numbers do not fit the options.
    """
    inputs = read_inputs(path, weights=given.weights, layout=layout, columns=columns, header=header)
    _agree("--clients", given.clients, inputs.clients, f"the clients in {path.name}")
    _agree("--dim", given.dim, inputs.dim, f"the numbers per client in {path.name}")
    clip, clip_source = given.clip, None if given.clip is None else GIVEN
    found = extremes(inputs)
    if clip is None and inputs.floats:
        # All zeros have no largest magnitude: any clip is right then.
        clip, clip_source = found.magnitude or 1.0, LARGEST
    if clip is None:
        _fit_integers(found, given, inputs.source)
    max_weight = given.max_weight
    weight_source: str | None = GIVEN
    if inputs.weights is None:
        if max_weight is not None:
            hint = "Name the column or the array that holds them with --weights."
            raise UsageError("--max-weight", max_weight, "weights to be bounded by it", hint)
        weight_source = None
    else:
        largest = max(inputs.weights)
        if largest == 0:
            allowed = "a positive weight of at least one client"
            raise UsageError(f"{path.name}, {given.weights!r}", "weights that are all 0", allowed)
        if max_weight is None:
            max_weight, weight_source = max(largest, 1), LARGEST
        elif largest > max_weight:
            at = inputs.weights.index(largest)
            raise UsageError(
                f"{path.name}, {given.weights!r}",
                f"a weight of {largest} for client {at}",
                f"0 to {max_weight} (--max-weight)",
            )
    return Material(
        inputs=inputs,
        clip=clip,
        clip_source=clip_source,
        max_weight=max_weight,
        max_weight_source=weight_source,
    )


def from_data(name: str, columns: tuple[str, ...], given: RoundOptions) -> Material:
    """Deal the rows of a bundled table to the clients; each counts one column.

    Raises
    ------
    UsageError
        If the table or column is unknown, or an option does not go with counts.
    """
    if len(columns) != 1:
        found = ", ".join(columns) or "none"
        hint = f"privagg data show {name} lists them."
        raise UsageError("--column", found, "one column of the table to count", hint)
    for flag, value in (
        ("--weights", given.weights),
        ("--max-weight", given.max_weight),
        ("--clip", given.clip),
    ):
        if value is not None:
            raise UsageError(flag, value, "nothing with --data: counts are unweighted integers")
    if given.clients is None:
        raise UsageError("--clients", "nothing", "how many clients the table's rows are dealt to")
    histogram = datasets.histogram_inputs(name, columns[0], given.clients)
    values = len(histogram.categories)
    _agree("--dim", given.dim, values, f"the values of {columns[0]}")
    inputs = ClientInputs(
        source=f"{name}.{columns[0]}",
        reading=f"{given.clients} clients, each with the histogram of {columns[0]} over its part "
        f"of the rows of {name}; {values} values",
        vectors=histogram,
        dim=values,
        floats=False,
        labels=tuple("missing" if c is None else str(c) for c in histogram.categories),
    )
    _fit_integers(extremes(inputs), given, inputs.source)
    return Material(inputs=inputs, histogram=histogram)


def generated(given: RoundOptions, entropy: Entropy, folder: Path | None = None) -> Material:
    """Draw uniform numbers, each client's when it is asked for them.

    Integers of ``--value-bits``, or floats from -clip to clip; weights from 1 to ``--max-weight``.
    With a `folder` they are memory maps of files there, which are gone when the map is.
    """
    for flag, value in (("--clients", given.clients), ("--dim", given.dim)):
        if value is None:
            hint = "Or read clients' inputs with --input FILE or --data NAME --column COLUMN."
            raise UsageError(flag, "nothing", "a whole number, for generated inputs", hint)
    if given.weights is not None:
        hint = "For generated weights from 1 to W: --max-weight W alone."
        raise UsageError("--weights", given.weights, "a column or array of --input", hint)
    clients, dim = given.clients or 0, given.dim or 0
    key = entropy.take(32)

    def stream(client: int) -> Entropy:
        # A client's numbers are asked for more than once: they must be the same each time, also
        # where the entropy is the system's.
        digest = hashlib.sha256(key + client.to_bytes(8, "big")).digest()
        return entropies.from_seed(int.from_bytes(digest[:8], "big"))

    def integers(source: Entropy, count: int) -> NDArray[Any]:
        words = np.frombuffer(source.take(4 * count), np.uint32)
        levels = (words >> np.uint32(32 - given.value_bits)).astype(np.int64)
        return levels - (1 << given.value_bits - 1 if given.signed else 0)

    def floats(source: Entropy, count: int) -> NDArray[Any]:
        words = np.frombuffer(source.take(8 * count), np.uint64)
        return ((words >> np.uint64(11)) * 2.0**-52 - 1.0) * (given.clip or 0.0)

    draw, dtype = (integers, np.int64) if given.clip is None else (floats, np.float64)

    def numbers(client: int) -> NDArray[Any]:
        source = stream(client)
        if folder is None:
            return draw(source, dim)
        path = folder / f"input-{client}"
        vector = tiles.create(path, dtype, dim)
        weakref.finalize(vector, path.unlink, missing_ok=True)
        for first, end in tiles.spans(dim):
            vector[first:end] = draw(source, end - first)
            tiles.release(vector[first:end])
        return vector

    weights = None
    kind = f"integers of {given.value_bits} bits" if given.clip is None else "floats"
    reading = f"{clients} clients, each with {dim} uniform {kind}"
    if given.max_weight is not None:
        words = np.frombuffer(entropy.take(8 * clients), np.uint64)
        weights = [int(word) % given.max_weight + 1 for word in words]
        reading += f", and a weight from 1 to {given.max_weight}"
    inputs = ClientInputs(
        source="generated input",
        reading=reading,
        vectors=Lazy(clients, numbers),
        weights=weights,
        dim=dim,
        floats=given.clip is not None,
    )
    return Material(
        inputs=inputs,
        clip=given.clip,
        clip_source=None if given.clip is None else GIVEN,
        max_weight=given.max_weight,
        max_weight_source=None if given.max_weight is None else GIVEN,
    )


def _agree(flag: str, given: int | None, found: int, what: str) -> None:
    if given is not None and given != found:
        raise UsageError(flag, given, f"{found}, {what}", "Leave it out.")


def _fit_integers(found: Extremes, given: RoundOptions, source: str) -> None:
    """Refuse integers that the declared bits do not hold; say which would."""
    low, high = int(found.low), int(found.high)
    offset = 1 << given.value_bits - 1 if given.signed else 0
    most = (1 << given.value_bits) - 1 - offset
    if -offset <= low and high <= most:
        return
    value, place = (low, found.low_at) if low < -offset else (high, found.high_at)
    signed = given.signed or low < 0
    bits = max((-low - 1).bit_length() if low < 0 else 0, high.bit_length()) + signed
    flags = ["--signed"] if signed else []
    if bits > given.value_bits:
        flags.append(f"--value-bits {bits}")
    hint = f"All values fit with {' '.join(flags)}."
    if bits > 32:
        hint = "More than 32 bits do not fit: scale them, or send them as floats with --clip."
    bounds = f"integers from {-offset} to {most} (--value-bits {given.value_bits}"
    raise UsageError(
        source, f"{value} for {place}", bounds + (", --signed)" if given.signed else ")"), hint
    )
