"""One client's numbers as ring elements modulo ``2**b``, such that the sum cannot wrap.

Secure aggregation adds words modulo ``2**b``. An :class:`Encoding` turns a vector of integers or
floats into levels from 0 to ``2**value_bits - 1``, multiplies them by the client's weight where
there is one, and says how large `b` must be for the sum over all clients to stay below ``2**b``
when every client is at its maximum. So the sum of honest clients is exact, always.

What this does not do: it does not stop a dishonest client from sending other words (one client can
move the sum anywhere: poisoning), and secure aggregation hides the summands, not what the sum
itself says about them. The count of clipped values is a fact about one client's data: it is
returned to that client and never sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from privagg._cuda.arrays import is_device_array
from privagg._jit import JIT
from privagg._levels import (
    Noise,
    float_levels,
    float_levels_plain,
    integer_levels,
    integer_levels_plain,
)
from privagg._validate import describe, refuse_masked
from privagg.entropy import OS, Entropy
from privagg.errors import CapacityError, UsageError

__all__ = ["Aggregate", "Encoded", "Encoding"]

_MAX_BITS = 62
"""Sums stay below ``2**62``: they and their differences fit a signed 64-bit integer."""

_CLIP_RANGE = (1e-250, 1e250)
"""Within it no intermediate value overflows or becomes subnormal."""

_CHUNK = 1 << 14
"""Coordinates per call of a kernel: all of them stay in the L2 cache."""
_OUTSIDE = "The count is wrong, or a client sent words outside the encoding."


@dataclass(frozen=True, eq=False)
class Encoded:
    """What one client contributes; private until masked.

    Attributes
    ----------
    words : (length,) uint32 or uint64 array
        Ring elements. They are kept out of the `repr`.
    clipped : int
        How many coordinates lay outside ``[-clip, clip]``. Stays with the client.
    """

    words: NDArray[Any] = field(repr=False)
    clipped: int


@dataclass(frozen=True, eq=False)
class Aggregate:
    """What the sum of the survivors' words says.

    Attributes
    ----------
    total : (dim,) int64 or float64 array
        The sum of ``weight * value`` over the survivors: exact for integers.
    mean : (dim,) float64 array
        ``total / weight_total``.
    weight_total : int
        The sum of the weights; the number of survivors where there are no weights.
    count : int
        The number of survivors.
    """

    total: NDArray[Any]
    mean: NDArray[np.float64]
    weight_total: int
    count: int


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How numbers become ring elements, and sums of ring elements numbers.

    All parties must agree on it before the round: a client that encodes otherwise spoils the sum
    unnoticed.

    Parameters
    ----------
    kind : {"integer", "float", "ring"}
        What the values are. ``ring``: residues modulo ``2**v``, whose sum is meant to wrap and is
        given as a number from ``-2**(v-1)`` to ``2**(v-1) - 1``.
    value_bits : int
        Bits of one client's value, `v` from 1 to 32.
    signed : bool
        Integers only: values from ``-2**(v-1)`` to ``2**(v-1) - 1`` (sent with an offset) instead
        of 0 to ``2**v - 1``. Floats are always signed.
    clip : float, optional
        Floats only, and required there: values beyond ``[-clip, clip]`` are clipped, coordinate by
        coordinate, and counted. The interval is divided into ``2**v - 1`` steps. From 1e-250 to
        1e250.
    max_weight : int
        The largest weight of a client; 1 unless `weighted`.
    weighted : bool
        Whether each client has a weight, an integer from 0 to `max_weight`. The words are then
        ``weight * level``, and one more, last, coordinate carries the weight itself: masked like
        the others, so that only the sum of the weights is learnt.

    Raises
    ------
    UsageError
        If a field is out of range, or does not go with `kind`.

    Notes
    -----
    Floats are rounded stochastically, up with the probability of the fraction, so that rounding
    errors have mean zero and do not add up (Gupta et al., "Deep Learning with Limited Numerical
    Precision", 2015, section 3.1). With random words of 32 bits and float64 arithmetic the bias is
    below ``2**-32 + 4 * 2**(v - 53)`` of a step.
    """

    kind: Literal["integer", "float", "ring"]
    value_bits: int
    signed: bool = False
    clip: float | None = None
    max_weight: int = 1
    weighted: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in ("integer", "float", "ring"):
            raise UsageError("kind", self.kind, '"integer", "float" or "ring"')
        object.__setattr__(self, "kind", str(self.kind))  # NumPy's strings are others
        for name in ("signed", "weighted"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(name, getattr(self, name), "True or False")
        for name, top in (("value_bits", 32), ("max_weight", 2**_MAX_BITS - 1)):
            object.__setattr__(self, name, _integer(name, getattr(self, name), 1, top))
        if self.max_weight > 1 and not self.weighted:
            raise UsageError("max_weight", self.max_weight, "1", "Or set weighted=True.")
        if self.kind == "ring" and (self.signed or self.weighted):
            raise UsageError("kind", "ring", "neither signed nor weighted", "Residues are neither.")
        if self.kind != "float":
            if self.clip is not None:
                raise UsageError("clip", self.clip, "None for integers", "They are never clipped.")
            return
        if self.signed:
            raise UsageError("signed", True, "False for floats", "Floats are always signed.")
        low, high = _CLIP_RANGE
        # A narrow NumPy float cannot be compared with the limits.
        clip = float(self.clip) if isinstance(self.clip, np.floating) else self.clip
        if (
            isinstance(clip, bool)
            or not isinstance(clip, int | float | np.integer)
            or not low <= clip <= high
        ):
            raise UsageError(
                "clip",
                clip,
                f"a number from {low} to {high}",
                "One for all coordinates: the largest magnitude that an honest value should have.",
            )
        object.__setattr__(self, "clip", float(clip))

    @property
    def levels(self) -> int:
        """The largest level, ``2**value_bits - 1``: also the number of steps."""
        return int(2**self.value_bits - 1)

    @property
    def step(self) -> float:
        """The distance of neighbouring levels: ``2 * clip / (2**value_bits - 1)``, or 1."""
        return 1.0 if self.clip is None else 2 * self.clip / self.levels

    @property
    def offset(self) -> int:
        """What is added to an integer to make it a level."""
        return int(2 ** (self.value_bits - 1)) if self.signed else 0

    def modulus_bits(self, clients: int) -> int:
        """Return the least `b` for which no sum over `clients` clients can wrap modulo ``2**b``.

        That is ``2**b >= clients * max_weight * (2**value_bits - 1) + 1``, which also covers the
        coordinate that carries the weight.

        Raises
        ------
        CapacityError
            If `b` would be above 62; the nearest parameters that fit are named.
        UsageError
            If `clients` is not an integer from 1.
        """
        number = _integer("clients", clients, 1, None)
        if self.kind == "ring":
            return self.value_bits
        most = number * self.max_weight * self.levels
        if most.bit_length() <= _MAX_BITS:
            return most.bit_length()
        limit = 2**_MAX_BITS - 1
        fits = []
        if number * self.max_weight <= limit:
            fits.append(f"value_bits={(limit // (number * self.max_weight) + 1).bit_length() - 1}")
        if self.max_weight > 1 and number * self.levels <= limit:
            fits.append(f"max_weight={limit // (number * self.levels)}")
        if self.max_weight * self.levels <= limit:
            fits.append(f"clients={limit // (self.max_weight * self.levels)}")
        hint = f"Nearest that fit: {' or '.join(fits)}." if fits else "Lower several."
        raise CapacityError(
            "value_bits, max_weight and clients",
            f"{self.value_bits}, {self.max_weight} and {number}, whose sum needs "
            f"{most.bit_length()} bits",
            f"sums of at most {_MAX_BITS} bits",
            hint,
        )

    def word(self, clients: int) -> np.dtype[Any]:
        """Return the dtype of the words: uint32 if 32 bits hold the sum, else uint64.

        Raises as :meth:`modulus_bits` does.
        """
        return np.dtype(np.uint32 if self.modulus_bits(clients) <= 32 else np.uint64)

    def length(self, dim: int) -> int:
        """Return how many words a vector of `dim` values takes: one more if weighted.

        Raises
        ------
        UsageError
            If `dim` is not an integer from 1.
        """
        return _integer("dim", dim, 1, None) + self.weighted

    def rounding_bound(self, count: int) -> float:
        """Return a bound on the error of each coordinate of ``Aggregate.total`` due to rounding.

        It is ``count * max_weight * step`` for floats, times ``1 + 6 * 2**(value_bits - 53)`` for
        float64's own rounding: a strict bound, not an expectation, for `count` survivors. The mean
        is off by less than ``step`` times the same factor. Zero for integers. Clipping is not
        rounding: it comes on top.

        Raises
        ------
        UsageError
            If `count` is not an integer from 1.
        """
        number = _integer("count", count, 1, None)
        if self.kind != "float":
            return 0.0
        return number * self.max_weight * self.step * (1 + 6 * (self.levels + 1) * 2.0**-53)

    def encode(
        self, vector: NDArray[Any], *, weight: int = 1, clients: int, entropy: Entropy = OS
    ) -> Encoded:
        """Encode one client's vector.

        Parameters
        ----------
        vector : (dim,) array of numbers
            Integers of any width for an integer encoding; float16, float32, float64 or integers
            for a float encoding. On a CUDA device: no float16, no uint64; the words stay there.
        weight : int
            From 0 to `max_weight`; 1 if the encoding is not weighted.
        clients : int
            How many clients may take part: it determines the modulus.
        entropy : Entropy
            Where the random bits of the rounding come from. Integers take none.

        Returns
        -------
        Encoded
            ``length(dim)`` words of dtype ``word(clients)``, and the count of clipped values.

        Raises
        ------
        UsageError
            If the vector has another shape or dtype, an integer is out of range, a float is NaN or
            infinite (the first such index and value are named: the message is for the client, not
            to be forwarded), or the weight is out of range.
        CapacityError
            If the sum over `clients` could need more than 62 bits.
        """
        word = self.word(clients)
        factor = self._weight(weight)
        if not isinstance(entropy, Entropy):
            raise UsageError("entropy", type(entropy).__name__, "an Entropy, such as entropy.OS")
        if is_device_array(vector):
            from privagg._cuda.encodings import encode

            return Encoded(*encode(self, vector, factor, word, entropy))
        values = self._values(vector)
        words, clipped = np.empty(self.length(values.size), word), 0
        if self.clip is None:
            self._encode_integers(values, factor, words[: values.size])
        else:
            clipped = self._encode_floats(values, factor, words, self.clip, entropy)
        if self.weighted:
            words[-1] = factor
        return Encoded(words=words, clipped=clipped)

    def decode(self, words_sum: NDArray[Any], *, count: int) -> Aggregate:
        """Decode the sum of the survivors' words.

        Parameters
        ----------
        words_sum : (length,) uint32 or uint64 array
            The sum, already reduced modulo ``2**modulus_bits(clients)``.
        count : int
            How many clients' words are in it.

        Returns
        -------
        Aggregate
            Totals and means. For floats the mean is off by less than `step` (see
            :meth:`rounding_bound`), clipping aside.

        Raises
        ------
        UsageError
            If the array has another shape or dtype, if no `count` honest clients can have this sum
            (the count is wrong, or a client sent words outside the encoding: which one cannot be
            known), or if all weights are zero, so that there is no mean.
        CapacityError
            If the sum of `count` clients could need more than 62 bits.
        """
        count = _integer("count", count, 1, None)
        self.modulus_bits(count)
        refuse_masked("words_sum", words_sum)
        if (
            not isinstance(words_sum, np.ndarray)
            or words_sum.dtype not in (np.dtype(np.uint32), np.dtype(np.uint64))
            or words_sum.ndim != 1
            or words_sum.size < 1 + self.weighted
        ):
            allowed = f"a 1-D uint32 or uint64 array of {1 + self.weighted} words or more"
            raise UsageError("words_sum", describe(words_sum), allowed)
        weights, levels = count, words_sum
        if self.weighted:
            weights, levels = int(words_sum[-1]), words_sum[:-1]
            if weights > count * self.max_weight:
                allowed = f"at most {count * self.max_weight} for {count} clients"
                raise UsageError("words_sum", f"a sum of weights of {weights}", allowed, _OUTSIDE)
        high = self.levels if self.kind == "ring" else weights * self.levels
        if int(levels.max()) > high:
            at = int(np.argmax(levels > np.uint64(high)))
            raise UsageError(
                "words_sum",
                f"{int(levels[at])} at index {at}",
                f"at most {high} for a sum of weights of {weights}",
                _OUTSIDE,
            )
        if weights == 0:
            allowed = "at least one client with a positive weight"
            hint = "There is no mean: every survivor had weight 0."
            raise UsageError("words_sum", "a sum of weights of 0", allowed, hint)
        sums = levels.astype(np.int64)
        if self.kind == "ring":
            half = 1 << (self.value_bits - 1)
            centred = (sums ^ half) - half
            return Aggregate(centred, centred / count, count, count)
        if self.clip is None:
            exact = sums - weights * self.offset
            return Aggregate(exact, exact / weights, weights, count)
        # Twice the distance from the middle, in steps: exact, as sums are below 2**62.
        sums *= 2
        sums -= high
        total = sums * (self.clip / self.levels)
        return Aggregate(total, total / weights, weights, count)

    def _weight(self, weight: int) -> int:
        if self.weighted:
            return _integer("weight", weight, 0, self.max_weight)
        if isinstance(weight, bool) or not isinstance(weight, int | np.integer) or weight != 1:
            raise UsageError("weight", weight, "1", "Or build the encoding with weighted=True.")
        return 1

    def _values(self, vector: NDArray[Any]) -> NDArray[Any]:
        """Check the vector's type; return it in a dtype that has kernels."""
        allowed = "a 1-D array of integers" + (" or floats" if self.kind == "float" else "")
        refuse_masked("vector", vector)
        if not isinstance(vector, np.ndarray) or vector.ndim != 1 or vector.size == 0:
            raise UsageError("vector", describe(vector), f"{allowed}, not empty")
        if vector.dtype.kind == "f" and vector.dtype.itemsize <= 8:
            if self.kind != "float":
                hint = (
                    'Floats need a clip: Params.recommend(..., clip=...), Encoding(kind="float", '
                )
                hint += "clip=...), --clip."
                raise UsageError("vector", vector.dtype.name, allowed, hint)
            wide = np.dtype(np.float64 if vector.dtype.itemsize == 8 else np.float32)
        elif vector.dtype.kind in "iu":
            if self.kind != "float" and vector.dtype == np.uint64 and vector.max() >= 2**63:
                self._refuse_integer(vector)
            wide = np.dtype(np.float64 if self.kind == "float" else np.int64)
        else:
            raise UsageError("vector", vector.dtype.name, f"{allowed} of at most 64 bits")
        view = np.ascontiguousarray(vector, wide).view()
        view.flags.writeable = False  # one compiled version for writable and read-only arrays
        return view

    def _encode_integers(self, values: NDArray[Any], weight: int, out: NDArray[Any]) -> None:
        offset, top, factor = np.uint64(self.offset), np.uint64(self.levels), np.uint64(weight)
        run = integer_levels if JIT else integer_levels_plain
        if not run(values, offset, top, factor, out):
            self._refuse_integer(values)

    def _refuse_integer(self, values: NDArray[Any]) -> NoReturn:
        low, high = -self.offset, self.levels - self.offset
        at = int(np.argmax((values < low) | (values > high)))
        raise UsageError(
            "vector",
            f"{int(values[at])} at index {at}",
            f"integers from {low} to {high}",
            "Integers are never clipped: raise value_bits, set signed=True, or clip them yourself.",
        )

    def _encode_floats(
        self, values: NDArray[Any], weight: int, out: NDArray[Any], clip: float, entropy: Entropy
    ) -> int:
        run = float_levels if JIT else float_levels_plain
        scale = self.levels / (2 * clip)
        noise = Noise(entropy.take(32), min(_CHUNK, values.size))
        clipped = 0
        for start in range(0, values.size, _CHUNK):
            part = values[start : start + _CHUNK]
            found = run(
                part,
                noise.take(part.size),
                clip,
                scale,
                np.uint64(self.levels),
                np.uint64(weight),
                out[start : start + part.size],
            )
            if found < 0:
                at = start + int(np.argmin(np.isfinite(part)))
                raise UsageError("vector", f"{values[at]} at index {at}", "finite numbers")
            clipped += int(found)
        return clipped


def _integer(name: str, value: Any, low: int, high: int | None) -> int:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or int(value) < low or (high is not None and int(value) > high):
        span = f"an integer from {low}" + ("" if high is None else f" to {high}")
        raise UsageError(name, value, span)
    return int(value)
