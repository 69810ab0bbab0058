"""Arithmetic of single elements inside compiled code, for every field and ring but 2**61 - 1.

The kernels of :mod:`privagg.field._loops` are written once. Their first argument is a *tag*, a
named tuple that holds the modulus: its class says which arithmetic is compiled into the loop. Tags
are of module-level classes, so kernels that take them are kept on disk like any other.

Each class has static methods for compiled code: ``add``, ``sub``, ``mul`` of two elements; and for
sums of products, taken *lazily*, ``zero_state``, ``absorb`` and ``finish``: a state is a tuple of
one to five words that cannot wrap below 2**30 terms, and ``finish`` makes an element of it.

Numba decides by the date of a kernel's own file whether its cached code is still good: after a
change here, touch ``_loops.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba.extending
import numpy as np

from privagg.field import _wide
from privagg.field.params import F128, GOLDILOCKS, M31, Algebra, Ring

__all__ = [
    "Goldilocks",
    "Mersenne31",
    "PowerOfTwo",
    "SmallPrime",
    "Tag",
    "TwoLimbs",
    "absorb",
    "absorb_four",
    "add",
    "finish",
    "helper",
    "load",
    "mul",
    "open_states",
    "read_state",
    "store",
    "sub",
    "tag_of",
    "write_state",
    "zero_state",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_0, _31, _32 = (np.uint64(k) for k in (0, 31, 32))
_LOW_32 = np.uint64(2**32 - 1)
_M31 = np.uint64(M31.modulus)
_M31_WORD = np.uint32(M31.modulus)
_GOLDILOCKS = np.uint64(GOLDILOCKS.modulus)
_EPSILON = np.uint64(2**64 - GOLDILOCKS.modulus)  # 2**32 - 1: what 2**64 is congruent to


def helper(function: _Function) -> _Function:
    """Let compiled code call a plain function of this module."""
    return numba.extending.register_jitable(function)


@helper
def _m31_fold(x: Any) -> Any:
    return (x & _M31) + (x >> _31)


@helper
def _m31_below_p(x: Any) -> Any:
    """Subtract p from a word that is not below: as words wrap, the lesser of the two is right."""
    return min(x, np.uint32(x - _M31_WORD))


@helper
def _small_reduce(tag: Any, x: Any) -> Any:
    """Any word -> its element; Barrett's quotient is right or one too small."""
    rest = x - _wide.mul_wide(x, tag.reciprocal)[1] * tag.modulus
    return min(rest, rest - tag.modulus)


@helper
def _goldilocks_reduce(low: Any, high: Any) -> Any:
    """``low + 2**64 * high`` -> its element, as 2**64 = 2**32 - 1 and 2**96 = -1."""
    top = high >> _32
    less = low - top
    less = less - _EPSILON if low < top else less
    middle = (high & _LOW_32) * _EPSILON
    total = less + middle
    total = total + _EPSILON if total < middle else total
    return total - _GOLDILOCKS if total >= _GOLDILOCKS else total


class Mersenne31(NamedTuple):
    """2**31 - 1. Elements stay words of 32 bits, as a vector holds twice as many of them."""

    modulus: np.uint64

    @staticmethod
    def load(tag: Any, a: Any, i: Any) -> Any:
        return a[i]

    @staticmethod
    def add(tag: Any, a: Any, b: Any) -> Any:
        return _m31_below_p(np.uint32(a + b))

    @staticmethod
    def sub(tag: Any, a: Any, b: Any) -> Any:
        difference = np.uint32(a - b)
        return min(difference, np.uint32(difference + _M31_WORD))

    @staticmethod
    def mul(tag: Any, a: Any, b: Any) -> Any:
        return _m31_below_p(np.uint32(_m31_fold(np.uint64(a) * np.uint64(b))))

    @staticmethod
    def zero_state(tag: Any) -> Any:
        return (_0,)

    @staticmethod
    def absorb(tag: Any, state: Any, a: Any, b: Any) -> Any:
        return (state[0] + _m31_fold(np.uint64(a) * np.uint64(b)),)

    @staticmethod
    def absorb_four(tag: Any, state: Any, a: Any, b: Any) -> Any:
        # Four products are below 2**64; folded they are below 2**34.
        total = np.uint64(a[0]) * np.uint64(b[0]) + np.uint64(a[1]) * np.uint64(b[1])
        total += np.uint64(a[2]) * np.uint64(b[2]) + np.uint64(a[3]) * np.uint64(b[3])
        return (state[0] + _m31_fold(total),)

    @staticmethod
    def finish(tag: Any, state: Any) -> Any:
        return _m31_below_p(np.uint32(_m31_fold(_m31_fold(state[0]))))


class SmallPrime(NamedTuple):
    """A prime below 2**32. Elements are widened to 64 bits when they are read."""

    modulus: np.uint64
    reciprocal: np.uint64  # 2**64 // modulus
    two_32: np.uint64  # 2**32 % modulus

    @staticmethod
    def add(tag: Any, a: Any, b: Any) -> Any:
        return min(a + b, a + b - tag.modulus)

    @staticmethod
    def sub(tag: Any, a: Any, b: Any) -> Any:
        return min(a - b, a - b + tag.modulus)

    @staticmethod
    def mul(tag: Any, a: Any, b: Any) -> Any:
        return _small_reduce(tag, a * b)

    @staticmethod
    def zero_state(tag: Any) -> Any:
        return (_0, _0)

    @staticmethod
    def absorb(tag: Any, state: Any, a: Any, b: Any) -> Any:
        # The masks tell LLVM that a 32 x 32 -> 64 bit product will do. Halves are summed apart.
        product = (a & _LOW_32) * (b & _LOW_32)
        return (state[0] + (product & _LOW_32), state[1] + (product >> _32))

    @staticmethod
    def finish(tag: Any, state: Any) -> Any:
        high = _small_reduce(tag, state[1]) * tag.two_32
        return _small_reduce(tag, _small_reduce(tag, state[0]) + high)


class Goldilocks(NamedTuple):
    """2**64 - 2**32 + 1. Products fold without a multiplication."""

    modulus: np.uint64

    @staticmethod
    def add(tag: Any, a: Any, b: Any) -> Any:
        less = _GOLDILOCKS - b  # a + b = a - (p - b), of which nothing wraps unseen
        return a - less if a >= less else a + b

    @staticmethod
    def sub(tag: Any, a: Any, b: Any) -> Any:
        return a - b if a >= b else a - b + _GOLDILOCKS

    @staticmethod
    def mul(tag: Any, a: Any, b: Any) -> Any:
        low, high = _wide.mul_wide(a, b)
        return _goldilocks_reduce(low, high)

    @staticmethod
    def zero_state(tag: Any) -> Any:
        return (_0, _0, _0)

    @staticmethod
    def absorb(tag: Any, state: Any, a: Any, b: Any) -> Any:
        return _wide.absorb_words(state, a, b)

    @staticmethod
    def finish(tag: Any, state: Any) -> Any:
        # The third word is below 2**32, and its weight 2**128 = -2**32.
        rest = _goldilocks_reduce(state[0], state[1])
        taken = _goldilocks_reduce(state[2] << _32, _0)
        return rest - taken if rest >= taken else rest - taken + _GOLDILOCKS


class TwoLimbs(NamedTuple):
    """2**128 - 7 * 2**66 + 1. Elements are pairs of words, the low one first."""

    modulus_high: np.uint64

    @staticmethod
    def load(tag: Any, a: Any, i: Any) -> Any:
        return (a[2 * i], a[2 * i + 1])

    @staticmethod
    def store(tag: Any, out: Any, i: Any, x: Any) -> None:
        out[2 * i], out[2 * i + 1] = x

    @staticmethod
    def add(tag: Any, a: Any, b: Any) -> Any:
        return _wide.f128_add(a, b)

    @staticmethod
    def sub(tag: Any, a: Any, b: Any) -> Any:
        return _wide.f128_sub(a, b)

    @staticmethod
    def mul(tag: Any, a: Any, b: Any) -> Any:
        return _wide.f128_mul(a, b)

    @staticmethod
    def zero_state(tag: Any) -> Any:
        return (_0, _0, _0, _0, _0)

    @staticmethod
    def absorb(tag: Any, state: Any, a: Any, b: Any) -> Any:
        return _wide.f128_absorb(state, a, b)

    @staticmethod
    def finish(tag: Any, state: Any) -> Any:
        return _wide.f128_finish(state)


class PowerOfTwo(NamedTuple):
    """A ring. Words wrap, and are cut to its bits at last."""

    mask: np.uint64

    @staticmethod
    def add(tag: Any, a: Any, b: Any) -> Any:
        return (a + b) & tag.mask

    @staticmethod
    def sub(tag: Any, a: Any, b: Any) -> Any:
        return (a - b) & tag.mask

    @staticmethod
    def mul(tag: Any, a: Any, b: Any) -> Any:
        return (a * b) & tag.mask

    @staticmethod
    def zero_state(tag: Any) -> Any:
        return (_0,)

    @staticmethod
    def absorb(tag: Any, state: Any, a: Any, b: Any) -> Any:
        return (state[0] + a * b,)

    @staticmethod
    def finish(tag: Any, state: Any) -> Any:
        return state[0] & tag.mask


Tag = Mersenne31 | SmallPrime | Goldilocks | TwoLimbs | PowerOfTwo


def tag_of(field: Algebra) -> Tag:
    """Return the tag of any field or ring but 2**61 - 1."""
    if isinstance(field, Ring):
        return PowerOfTwo(np.uint64(field.modulus - 1))
    if field == M31:
        return Mersenne31(_M31)
    if field == GOLDILOCKS:
        return Goldilocks(_GOLDILOCKS)
    if field == F128:
        return TwoLimbs(np.uint64(field.modulus >> 64))
    p = field.modulus
    return SmallPrime(np.uint64(p), np.uint64(2**64 // p), np.uint64(2**32 % p))


def _of_tag(name: str, default: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return a function for compiled code, which is that method of the class of its first argument.

    Numba looks the method up, by the types, when it compiles a call.
    """

    def method(tag: Any, *rest: Any) -> Any:
        raise NotImplementedError("only compiled code can call it")

    def look_up(tag: Any, *rest: Any) -> Any:
        return getattr(tag.instance_class, name, default)

    cast(Any, numba.extending.overload)(method, strict=False)(look_up)
    return method


def _load(tag: Any, a: Any, i: Any) -> Any:
    return np.uint64(a[i])


def _store(tag: Any, out: Any, i: Any, x: Any) -> None:
    out[i] = x


def _absorb_four(tag: Any, state: Any, a: Any, b: Any) -> Any:
    state = absorb(tag, state, a[0], b[0])
    state = absorb(tag, state, a[1], b[1])
    state = absorb(tag, state, a[2], b[2])
    return absorb(tag, state, a[3], b[3])


load = _of_tag("load", _load)
store = _of_tag("store", _store)
add, sub, mul = _of_tag("add"), _of_tag("sub"), _of_tag("mul")
zero_state, absorb, finish = _of_tag("zero_state"), _of_tag("absorb"), _of_tag("finish")
absorb_four = _of_tag("absorb_four", _absorb_four)


def _open_1(tag: Any, tile: Any) -> Any:
    return (tile[0],)


def _open_2(tag: Any, tile: Any) -> Any:
    return (tile[0], tile[1])


def _open_3(tag: Any, tile: Any) -> Any:
    return (tile[0], tile[1], tile[2])


def _open_5(tag: Any, tile: Any) -> Any:
    return (tile[0], tile[1], tile[2], tile[3], tile[4])


def _read_1(tag: Any, states: Any, i: Any) -> Any:
    return (states[0][i],)


def _read_2(tag: Any, states: Any, i: Any) -> Any:
    return (states[0][i], states[1][i])


def _read_3(tag: Any, states: Any, i: Any) -> Any:
    return (states[0][i], states[1][i], states[2][i])


def _read_5(tag: Any, states: Any, i: Any) -> Any:
    return (states[0][i], states[1][i], states[2][i], states[3][i], states[4][i])


def _write_1(tag: Any, states: Any, i: Any, state: Any) -> None:
    states[0][i] = state[0]


def _write_2(tag: Any, states: Any, i: Any, state: Any) -> None:
    states[0][i], states[1][i] = state


def _write_3(tag: Any, states: Any, i: Any, state: Any) -> None:
    states[0][i], states[1][i], states[2][i] = state


def _write_5(tag: Any, states: Any, i: Any, state: Any) -> None:
    states[0][i], states[1][i], states[2][i], states[3][i], states[4][i] = state


def _by_words(table: dict[int, Callable[..., Any]]) -> Callable[..., Any]:
    """Return a function for compiled code that is picked by the words of its tag's states."""

    def function(tag: Any, *rest: Any) -> Any:
        raise NotImplementedError("only compiled code can call it")

    def look_up(tag: Any, *rest: Any) -> Any:
        return table[len(tag.instance_class.zero_state(None))]

    cast(Any, numba.extending.overload)(function, strict=False)(look_up)
    return function


open_states = _by_words({1: _open_1, 2: _open_2, 3: _open_3, 5: _open_5})
read_state = _by_words({1: _read_1, 2: _read_2, 3: _read_3, 5: _read_5})
write_state = _by_words({1: _write_1, 2: _write_2, 3: _write_3, 5: _write_5})
