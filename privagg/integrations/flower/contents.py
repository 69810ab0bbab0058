"""Flower's contents as what is aggregated, and back: of the Message API and of the legacy model.

Received contents hold the model and a configuration; a client's reply holds new parameters, a
weight and metrics. Both models have them in records of other names, and only here is that known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from numpy.typing import NDArray

from privagg import keys
from privagg.errors import UsageError
from privagg.integrations.flower.ranges import Job, Ranges

__all__ = [
    "Arrays",
    "Update",
    "content_digest",
    "is_legacy",
    "mean_reply",
    "model_of",
    "update_of",
    "vector_of",
    "with_record",
    "without",
]

_RECEIVED = {"train": "fitins", "evaluate": "evaluateins"}
_REPLIED = {"train": "fitres", "evaluate": "evaluateres"}
_EMPTY = "_empty"
"""The legacy model's name for an array that stands for none."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False, repr=False)
class Update:
    """What one client contributes: private until masked.

    Attributes
    ----------
    arrays : dict of name to array
        New parameters; empty in evaluation.
    weight : int
        The example count.
    metrics : dict of str to float
        By name.
    """

    arrays: Arrays
    weight: int
    metrics: dict[str, float]


def is_legacy(content: RecordDict, job: Job) -> bool:
    """Say whether a received content is of the legacy model."""
    return f"{_RECEIVED[job]}.parameters" in content.array_records


def model_of(content: RecordDict, job: Job) -> Arrays:
    """Return the parameters that a content carries, by name in their order.

    Raises
    ------
    UsageError
        If there is not exactly one record of arrays.
    """
    records = content.array_records
    if len(records) != 1:
        raise UsageError("content", f"{len(records)} ArrayRecords", "one, with the model")
    return _arrays(next(iter(records.values())))


def update_of(reply: RecordDict, job: Job, ranges: Ranges, *, legacy: bool) -> Update:
    """Take a client's reply apart.

    Raises
    ------
    UsageError
        If it has anything that cannot be aggregated, or lacks a weight. Values are not quoted.
    """
    if legacy:
        return _legacy_update(reply, job)
    if reply.config_records:
        raise UsageError("reply", "a ConfigRecord", "arrays and metrics only: they have a mean")
    if len(reply.metric_records) != 1:
        count = len(reply.metric_records)
        raise UsageError("reply", f"{count} MetricRecords", "one, with the weight")
    values: dict[str, Any] = dict(next(iter(reply.metric_records.values())))
    if ranges.weight_key not in values:
        raise UsageError("reply", "no weight", f"the metric {ranges.weight_key!r}")
    weight = values.pop(ranges.weight_key)
    arrays: Arrays = {}
    if job == "train":
        if len(reply.array_records) != 1:
            count = len(reply.array_records)
            raise UsageError("reply", f"{count} ArrayRecords", "one, with the parameters")
        arrays = _arrays(next(iter(reply.array_records.values())))
    elif reply.array_records:
        raise UsageError("reply", "an ArrayRecord", "metrics only, in evaluation")
    return Update(arrays, _weight(weight), _numbers(values))


def vector_of(update: Update, model: Arrays, job: Job, ranges: Ranges) -> NDArray[np.float64]:
    """Return what a client's protocol encodes: the update and the metrics, over their ranges.

    Returns
    -------
    (dim,) float64 array
        Coordinates within their ranges lie in [-1, 1]. First those of the arrays in their order,
        in training; then the metrics.

    Raises
    ------
    UsageError
        If arrays or metrics are others than expected, or a number is not finite. Values are not
        quoted.
    """
    wanted = ranges.of(job)
    if set(update.metrics) != set(wanted):
        found = ", ".join(sorted(update.metrics)) or "none"
        allowed = ", ".join(wanted) or "none"
        raise UsageError("metrics", found, allowed, "Declare each with its range in Ranges.")
    vector = np.empty(ranges.dim(job, model))
    at = 0
    if job == "train":
        if list(update.arrays) != list(model):
            raise UsageError("arrays", "other names", "those of the model, in its order")
        for name, array in update.arrays.items():
            if array.shape != model[name].shape:
                raise UsageError(
                    f"arrays[{name!r}]", f"shape {array.shape}", f"{model[name].shape}"
                )
            part = vector[at : at + array.size]
            part[:] = _numbers_of(name, array)
            part -= _numbers_of(name, model[name])
            part /= ranges.clip_of(name)
            at += array.size
    vector[at:] = [update.metrics[name] / magnitude for name, magnitude in wanted.items()]
    # A NaN anywhere makes both ends of the range one.
    if not np.isfinite([vector.min(), vector.max()]).all():
        raise UsageError("update", "a NaN or an infinity", "finite numbers")
    return vector


def mean_reply(
    mean: NDArray[np.float64],
    weight: int,
    model: Arrays,
    job: Job,
    ranges: Ranges,
    *,
    legacy: bool,
) -> RecordDict:
    """Return the content that one client with the mean and all the weight would have sent.

    Parameters
    ----------
    mean : (dim,) float64 array
        The weighted mean of the clients' vectors.
    weight : int
        The sum of their weights.
    model : dict of name to array
        The parameters that all were given. Floats keep their dtype; means of integers are float64.

    Raises
    ------
    UsageError
        If a new parameter does not fit its dtype: it is not made infinite.
    """
    arrays: Arrays = {}
    at = 0
    if job == "train":
        for name, array in model.items():
            moved = mean[at : at + array.size].reshape(array.shape) * ranges.clip_of(name)
            new = array + moved
            dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
            if array.size and np.abs(new).max() > np.finfo(dtype).max:
                raise UsageError(
                    f"arrays[{name!r}]", "a mean too large", f"numbers that fit {dtype}"
                )
            arrays[name] = np.asarray(new, dtype)
            at += array.size
    metrics = {
        name: float(value) * magnitude
        for (name, magnitude), value in zip(ranges.of(job).items(), mean[at:], strict=True)
    }
    if legacy:
        return _legacy_reply(arrays, weight, metrics, job)
    metric_record = MetricRecord({**metrics, ranges.weight_key: weight})
    if job == "evaluate":
        return RecordDict({"metrics": metric_record})
    record = ArrayRecord({name: Array(array) for name, array in arrays.items()})
    return RecordDict({"arrays": record, "metrics": metric_record})


def content_digest(content: RecordDict) -> bytes:
    """Return 32 bytes that change with anything in a content: model, configuration, names."""
    parts: list[bytes] = []
    for name in sorted(content):
        record = content[name]
        parts += [name.encode(), type(record).__name__.encode()]
        if isinstance(record, ArrayRecord):
            parts.append(len(record).to_bytes(4, "little"))
            for key, array in record.items():
                shape = ",".join(map(str, array.shape))
                parts += [key.encode(), array.dtype.encode(), shape.encode(), array.stype.encode()]
                parts.append(array.data)
        else:
            parts.append(msgspec.msgpack.encode(sorted(record.items())))
    return keys.digest(b"privagg flower content", *parts)


def _arrays(record: ArrayRecord) -> Arrays:
    return {name: array.numpy() for name, array in record.items() if name != _EMPTY}


def _numbers_of(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "fiu":
        raise UsageError(f"arrays[{name!r}]", f"dtype {array.dtype}", "integers or floats")
    return array.reshape(-1)


def _weight(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise UsageError("weight", type(value).__name__, "a whole number")
    return value


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"metrics[{name!r}]", type(value).__name__, "a number")
    return {name: float(value) for name, value in values.items()}


def _legacy_update(reply: RecordDict, job: Job) -> Update:
    prefix = _REPLIED[job]
    try:
        status = reply.config_records[f"{prefix}.status"]["code"]
        weight = reply.metric_records[f"{prefix}.num_examples"]["num_examples"]
        values: dict[str, Any] = dict(reply.config_records[f"{prefix}.metrics"])
        if job == "evaluate":
            values["loss"] = reply.metric_records[f"{prefix}.loss"]["loss"]
        arrays = _arrays(reply.array_records[f"{prefix}.parameters"]) if job == "train" else {}
    except KeyError:
        raise UsageError("reply", "other records", f"those of a {prefix}") from None
    if status != 0:
        raise UsageError("reply", "a status that is not OK", "Code.OK")
    return Update(arrays, _weight(weight), _numbers(values))


def _legacy_reply(arrays: Arrays, weight: int, metrics: dict[str, float], job: Job) -> RecordDict:
    prefix, numbers = _REPLIED[job], dict(metrics)
    reply = RecordDict()
    if job == "train":
        reply[f"{prefix}.parameters"] = ArrayRecord(
            {name: Array(array) for name, array in arrays.items()}
        )
    else:
        reply[f"{prefix}.loss"] = MetricRecord({"loss": numbers.pop("loss")})
    reply[f"{prefix}.num_examples"] = MetricRecord({"num_examples": weight})
    reply[f"{prefix}.metrics"] = ConfigRecord(dict(numbers.items()))
    reply[f"{prefix}.status"] = ConfigRecord({"code": 0, "message": "mean"})
    return reply


def without(content: RecordDict, key: str) -> RecordDict:
    """Return a content without one record."""
    return RecordDict({name: record for name, record in content.items() if name != key})


def with_record(content: RecordDict, key: str, record: ConfigRecord) -> RecordDict:
    """Return a content with one record more; the others are not copied.

    Raises
    ------
    UsageError
        If there is one of this name.
    """
    if key in content:
        raise UsageError("content", f"a record {key!r}", "other names")
    return RecordDict({**content, key: record})
