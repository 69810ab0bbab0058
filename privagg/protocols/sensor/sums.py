"""From what arrived to sums: each protocol's arithmetic over a batch of epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import field as fields
from privagg.entropy import Entropy
from privagg.protocols.sensor import epochs as running
from privagg.protocols.sensor import faithful, sound
from privagg.protocols.sensor.air import Air, Ledger
from privagg.protocols.sensor.exchange import Answers
from privagg.protocols.sensor.faithful import Record
from privagg.protocols.sensor.formation import Formation
from privagg.protocols.sensor.params import Arithmetic, Params, Protocol
from privagg.protocols.sensor.uplink import Climb

__all__ = ["Batch", "run"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]

Drawn = dict[tuple[int, int], list[Record]]


@dataclass(frozen=True, eq=False)
class Batch:
    """What came of some epochs.

    Attributes
    ----------
    totals : (epochs, width) object array
        Exact sums as Python integers (floats for real arithmetic) at the base station; None where
        the base station cannot decode what it has.
    covered : (epochs, nodes) bool array
        Whose numbers are in the sum.
    cluster_sums : (epochs, clusters, width) array, optional
        By cluster, as numbers.
    answers : Answers, optional
        What the collectors got.
    climb : Climb
        What the base station got.
    tried : Tried, optional
        Draws of ``cpda-sen-checked``.
    sliced : Sliced, optional
        Of ``smart``.
    drawn : dict, optional
        What the papers' variants drew, if asked for: by epoch and cluster a record a number.
    """

    totals: NDArray[Any]
    covered: _Bools
    cluster_sums: NDArray[Any] | None
    answers: Answers | None
    climb: Climb
    tried: running.Tried | None = None
    sliced: running.Sliced | None = None
    drawn: Drawn | None = None


def run(
    numbers: _Ints,
    exact: NDArray[Any],
    formation: Formation,
    params: Params,
    air: Air,
    ledger: Ledger,
    entropy: Entropy,
    record: bool = False,
) -> Batch:
    """Run epochs of a protocol.

    Parameters
    ----------
    numbers : (epochs, nodes, width) int64 array
        What each node adds.
    exact : (epochs, nodes, width) array
        The same before it was made integer, for real arithmetic.
    formation, params, air, ledger : Formation, Params, Air, Ledger
        Where, what, and the losses and counts.
    entropy : Entropy
        Of secrets.
    record : bool
        Whether to keep what the papers' variants draw.
    """
    match params.protocol:
        case Protocol.TAG | Protocol.CMT:
            return _tree(numbers, formation, params, air, ledger, entropy)
        case Protocol.SMART:
            return _smart(numbers, formation, params, air, ledger, entropy)
    return _clusters(numbers, exact, formation, params, air, ledger, entropy, record)


def _total(numbers: _Ints, covered: _Bools) -> NDArray[Any]:
    """Add what is covered, exactly: in Python integers where 64 bits could be too few."""
    largest = int(np.abs(numbers).max(initial=0))
    if largest * numbers.shape[1] < 2**62:
        return np.asarray(np.einsum("enw,en->ew", numbers, covered.astype(np.int64)), object)
    return np.asarray((numbers.astype(object) * covered[..., None]).sum(axis=1))


def _tree(
    numbers: _Ints,
    formation: Formation,
    params: Params,
    air: Air,
    ledger: Ledger,
    entropy: Entropy,
) -> Batch:
    climb = running.tree_epochs(formation, params, air, ledger, len(numbers))
    covered = climb.reached[:, :-1]
    if params.protocol is Protocol.TAG:
        return Batch(_total(numbers, covered), covered, None, None, climb)
    field = params.field
    keystream = fields.uniform(entropy, numbers.shape, field)
    ciphertexts = fields.add(sound.lower(numbers, field), keystream, field)
    # The base station knows who answered, and takes their keystreams off.
    cleared = fields.sub(
        _add_up(ciphertexts, covered, field), _add_up(keystream, covered, field), field
    )
    return Batch(sound.lift(cleared, field).astype(object), covered, None, None, climb)


def _add_up(elements: NDArray[Any], covered: _Bools, field: fields.Field) -> NDArray[Any]:
    """Add elements over the nodes that are covered, (epochs, width)."""
    part = np.where(covered[..., None], elements, 0).astype(field.dtype)
    if not part.shape[1]:
        return np.zeros((part.shape[0], part.shape[2]), field.dtype)
    while part.shape[1] > 1:
        half = part.shape[1] // 2
        folded = fields.add(part[:, :half], part[:, half : 2 * half], field)
        part = np.concatenate([folded, part[:, 2 * half :]], axis=1)
    return part[:, 0]


def _smart(
    numbers: _Ints,
    formation: Formation,
    params: Params,
    air: Air,
    ledger: Ledger,
    entropy: Entropy,
) -> Batch:
    """Cut, send, add, report. A plain slice that is not acknowledged stays with its owner."""
    sliced = running.slice_epochs(formation, params, air, ledger, len(numbers))
    climb = running.tree_epochs(formation, params, air, ledger, len(numbers))
    epochs, _nodes, width = numbers.shape
    takes_part = sliced.takes_part[:-1]
    covered = climb.reached[:, :-1] & takes_part
    shape = (epochs, len(sliced.origin), width)
    came = sliced.arrived[..., None]
    acknowledged = air.radio.retries > 0
    if params.plain_slices:
        span = 2 * params.bound + 1
        slices = faithful.below(entropy, span, shape) - params.bound
        held = (numbers * takes_part[None, :, None]).astype(object)
        given = slices * came if acknowledged else slices
        for e in range(epochs):
            np.subtract.at(held[e], sliced.origin, given[e])
            np.add.at(held[e], sliced.target, slices[e] * came[e])
        totals = (held * climb.reached[:, :-1, None]).sum(axis=1)
        return Batch(np.asarray(totals), covered, None, None, climb, sliced=sliced)
    # Uniform slices: with one that only its owner has taken off, or only its target added, the sum
    # is uniform. It then lies outside what n readings can add up to, but for a chance of
    # 2 n bound / p, which is how the base station notices. No owner takes one back: with fewer
    # slices out fewer holders and the parent would have the reading, and with none the parent.
    cut = np.ones_like(sliced.arrived)
    whole = sliced.whole(climb.reached)
    totals = _smart_sums(numbers * takes_part[None, :, None], sliced, climb, params, entropy, cut)
    totals[~whole] = None
    covered = covered & whole[:, None]
    return Batch(totals, covered, None, None, climb, sliced=sliced)


def _smart_sums(
    numbers: _Ints,
    sliced: running.Sliced,
    climb: Climb,
    params: Params,
    entropy: Entropy,
    cut: _Bools,
) -> NDArray[Any]:
    """Add slices in the field: to each target, then up to the base station."""
    field = params.field
    epochs, _, width = numbers.shape
    slices = fields.uniform(entropy, (epochs, len(sliced.origin), width), field)
    kept = sound.lower(numbers, field)
    reached = climb.reached[:, :-1]
    own = _add_up(kept, reached, field)
    out = _add_up(slices, cut & climb.reached[:, sliced.origin], field)
    into = _add_up(slices, sliced.arrived & climb.reached[:, sliced.target], field)
    total = fields.add(fields.sub(own, out, field), into, field)
    return sound.lift(total, field).astype(object)


def _clusters(
    numbers: _Ints,
    exact: NDArray[Any],
    formation: Formation,
    params: Params,
    air: Air,
    ledger: Ledger,
    entropy: Entropy,
    record: bool,
) -> Batch:
    group = formation.grouping
    epochs, nodes, _width = numbers.shape
    drawn: Drawn | None = {} if record and not params.protocol.in_field else None
    shared = None
    if not params.protocol.in_field:
        shared = _faithful(exact, formation, params, entropy, drawn)
    tried = shared[1] if shared is not None else None
    answers, climb = running.cluster_epochs(formation, params, air, ledger, epochs, tried)
    values = numbers[:, group.node]
    sums: NDArray[Any]
    if shared is not None:
        sums = shared[0]
    elif params.protocol is Protocol.MASK_CLUSTER:
        lowered = sound.lower(values, params.field)
        sums = sound.masked_sums(lowered, group, answers.success, params, entropy)
        sums = sound.lift(sums, params.field)
    else:
        sums = sound.polynomial_sums(
            sound.lower(values, params.field),
            group,
            answers.senders,
            answers.answered,
            answers.success,
            params,
            entropy,
        )
        sums = sound.lift(sums, params.field)
    counted = answers.success & climb.reached[:, group.node[formation.collector]]
    totals = np.where(counted[..., None], sums.astype(object), 0).sum(axis=1)
    if shared is not None and params.arithmetic is Arithmetic.REAL:
        # Floating point that overflowed is no sum; an epoch that has one is not decoded.
        finite = np.isfinite(totals.astype(np.float64)).all(axis=1)
        totals[~finite] = None
        counted = counted & finite[:, None]
    covered = np.zeros((epochs, nodes), np.bool_)
    covered[:, group.node] = answers.senders & counted[:, group.cluster]
    return Batch(np.asarray(totals, object), covered, sums, answers, climb, tried, drawn=drawn)


def _faithful(
    exact: NDArray[Any],
    formation: Formation,
    params: Params,
    entropy: Entropy,
    drawn: Drawn | None,
) -> tuple[NDArray[Any], running.Tried | None]:
    """Run the papers' arithmetic in all clusters, whatever arrives; return sums and tries."""
    group = formation.grouping
    epochs, _, width = exact.shape
    real = params.protocol is Protocol.CPDA and params.arithmetic is Arithmetic.REAL
    kind = np.float64 if real else object
    sums = np.zeros((epochs, group.count, width), kind)
    tries = [np.zeros((epochs, group.count), np.int64) for _ in range(2)]
    passed = np.ones((epochs, group.count), np.bool_)
    for m, clusters in group.by_size():
        rows = group.rows_of(clusters, m)
        for column in range(width):
            values = exact[:, group.node[rows], column].reshape(-1, m)
            records: list[Record] = []
            if drawn is not None:
                for epoch in range(epochs):
                    records += [_note(drawn, epoch, int(cluster)) for cluster in clusters]
            done = faithful.run(values, params, entropy, records=records)
            sums[:, clusters, column] = done.total.reshape(epochs, -1)
            for target, times in zip(tries, (done.seed_tries, done.share_tries), strict=True):
                target[:, clusters] += times.reshape(epochs, -1)
            passed[:, clusters] &= done.passed.reshape(epochs, -1)
    if params.protocol is not Protocol.CPDA_SEN_CHECKED:
        return sums, None
    return sums, running.Tried(tries[0], tries[1], passed)


def _note(drawn: Drawn, epoch: int, cluster: int) -> Record:
    """Return a new record of a cluster: of its next number."""
    record = Record()
    drawn.setdefault((epoch, cluster), []).append(record)
    return record
