"""What both sides declare: how large an update, a metric and a weight may be.

A masked vector has a fixed range: what lies outside cannot be added up without wrapping. So the
ranges are said beforehand, on both sides alike, and a client whose numbers lie outside says so
before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.errors import UsageError

__all__ = ["MAX_WEIGHT", "Job", "Ranges"]

Job = Literal["train", "evaluate"]
"""What a round aggregates: updates and training metrics, or evaluation metrics."""

MAX_WEIGHT = 2**31
"""Weights are example counts."""

_LOW, _HIGH = 1e-30, 1e30
"""Within it, scaling to the unit interval neither overflows nor becomes subnormal."""


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """The ranges of what one client contributes. Server and clients must hold equal ones.

    Parameters
    ----------
    clip : float
        Largest magnitude of one coordinate of an update: new minus received parameter.
    max_weight : int
        Largest weight, such as the example count, of one client; weights are whole numbers from 0.
    metrics : mapping of str to float, optional
        Training metrics by name, with the largest magnitude of each. Others are refused.
    evaluate_metrics : mapping of str to float, optional
        Evaluation metrics, alike. In the legacy model the loss is called ``loss``. Where there are
        none, nothing is evaluated on clients.
    array_clips : mapping of str to float, optional
        A `clip` of its own for some arrays, by name, such as the running means of a normalisation.
    weight_key : str
        The metric that carries the weight, as the strategy's ``weighted_by_key``.

    Raises
    ------
    UsageError
        If a range is not positive and finite, or `max_weight` no whole number.
    """

    clip: float
    max_weight: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    evaluate_metrics: Mapping[str, float] = field(default_factory=dict)
    array_clips: Mapping[str, float] = field(default_factory=dict)
    weight_key: str = "num-examples"

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", _magnitude("clip", self.clip))
        object.__setattr__(self, "max_weight", whole("max_weight", self.max_weight, 1, MAX_WEIGHT))
        if not isinstance(self.weight_key, str) or not self.weight_key:
            raise UsageError("weight_key", self.weight_key, "the name of a metric")
        for name in ("metrics", "evaluate_metrics", "array_clips"):
            object.__setattr__(self, name, self._magnitudes(name))

    def _magnitudes(self, argument: str) -> dict[str, float]:
        given = getattr(self, argument)
        if not isinstance(given, Mapping):
            raise UsageError(argument, type(given).__name__, "a mapping of names to magnitudes")
        for name in given:
            if not isinstance(name, str) or not name:
                raise UsageError(argument, name, "names that are strings")
            if name == self.weight_key and argument != "array_clips":
                raise UsageError(
                    argument, name, "names beside the weight's", "The weight has max_weight."
                )
        return {name: _magnitude(f"{argument}[{name!r}]", given[name]) for name in sorted(given)}

    def of(self, job: Job) -> dict[str, float]:
        """Return the magnitudes of the metrics that `job` adds up, by name in order."""
        return dict(self.metrics if job == "train" else self.evaluate_metrics)

    def clip_of(self, array: str) -> float:
        """Return the largest magnitude of a coordinate of this array's update."""
        return self.array_clips.get(array, self.clip)

    def dim(self, job: Job, arrays: Mapping[str, NDArray[Any]]) -> int:
        """Return how many numbers a client contributes: of its update, and its metrics.

        Parameters
        ----------
        job : {"train", "evaluate"}
            What is aggregated.
        arrays : mapping of name to array
            The parameters; only their sizes count, and in training only.

        Raises
        ------
        UsageError
            If an array has a clip of its own but is not there.
        """
        metrics = len(self.of(job))
        if job == "evaluate":
            return metrics
        unknown = sorted(set(self.array_clips) - set(arrays))
        if unknown:
            raise UsageError("array_clips", ", ".join(unknown), "names of the model's arrays")
        return sum(array.size for array in arrays.values()) + metrics

    def record(self) -> dict[str, object]:
        """Return plain values from which an equal object is made."""
        return {
            "clip": self.clip,
            "max_weight": self.max_weight,
            "metrics": dict(self.metrics),
            "evaluate_metrics": dict(self.evaluate_metrics),
            "array_clips": dict(self.array_clips),
            "weight_key": self.weight_key,
        }


def _magnitude(argument: str, value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.integer | np.floating)
        or not _LOW <= float(value) <= _HIGH
    ):
        raise UsageError(
            argument,
            value,
            f"a positive number from {_LOW} to {_HIGH}",
            "Take the largest magnitude that an honest value should have.",
        )
    return float(value)
