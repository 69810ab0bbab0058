"""The respondent's side: a tuple of values becomes a report.

:class:`Respondent` is one person's side. :func:`randomize` makes the reports of many at once, for
simulations and for whoever collects on many people's behalf, where they trust.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.accounting import Ledger
from privagg.domain.base import Codes, check_codes
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.bits import noise_rows, row_words
from privagg.protocols.multidim import kernels
from privagg.protocols.multidim.fields import Field
from privagg.protocols.multidim.layout import RowLayout, row_layout
from privagg.protocols.multidim.messages import TupleReports
from privagg.protocols.multidim.params import Params, Protocol

__all__ = ["Respondent", "encode", "randomize", "randomize_codes", "sampled_attributes"]

_TILE = 1 << 14
"""Respondents whose words are drawn at once: they stay in the second cache."""


class Respondent:
    """One respondent of one survey.

    Only :meth:`report` leaves the respondent. A second report would spend epsilon again, so there
    is one: for another round make another respondent, with the same ledger.

    Parameters
    ----------
    params : Params
        The survey, as declared by whoever asks. What it guarantees is `params.guarantee`.
    entropy : Entropy
        The operating system's unless given.
    ledger : Ledger, optional
        Charged with `params.epsilon_tuple` before the report is made: all values may change at
        once, whatever the calibration.
    name : str or int
        Who, in the ledger.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    def __init__(
        self,
        params: Params,
        *,
        entropy: Entropy = OS,
        ledger: Ledger | None = None,
        name: str | int = "me",
    ) -> None:
        _check_params(params)
        if not isinstance(entropy, Entropy):
            found = type(entropy).__name__
            raise UsageError("entropy", found, "an Entropy, such as privagg.entropy.OS")
        if isinstance(name, bool) or not isinstance(name, str | int | np.integer) or name == "":
            raise UsageError("name", type(name).__name__, "a name or a number")
        if ledger is not None and not isinstance(ledger, Ledger):
            raise UsageError("ledger", type(ledger).__name__, "a privagg.accounting.Ledger")
        self._params = params
        self._entropy = entropy
        self._ledger = ledger
        self._name = name
        self._reported = False

    @property
    def params(self) -> Params:
        """The survey."""
        return self._params

    def report(self, values: Mapping[str, Any]) -> TupleReports:
        """Return the report of one tuple: a value for each attribute.

        Parameters
        ----------
        values : mapping of str to value
            A value for each attribute.

        Raises
        ------
        UsageError
            If a value is missing or outside its domain, the ledger's limit would be passed, or this
            respondent has reported. Nothing was spent then.
        """
        if self._reported:
            hint = "Another round takes another Respondent, and spends epsilon again."
            raise UsageError("report", "a second one", "one report", hint)
        if not isinstance(values, Mapping):
            raise UsageError("values", type(values).__name__, "a mapping of attributes to values")
        codes = encode(self._params, {name: [value] for name, value in values.items()})
        if self._ledger is not None:
            survey = self._params.digest.hex()
            self._ledger.spend(self._name, self._params.epsilon_tuple, survey=survey)
        made = randomize_codes(self._params, codes, self._entropy)
        self._reported = True
        return made

    def __repr__(self) -> str:
        return f"Respondent(reported={self._reported})"


def randomize(params: Params, columns: Mapping[str, Any], entropy: Entropy = OS) -> TupleReports:
    """Return the reports of many respondents.

    Parameters
    ----------
    params : Params
        The survey.
    columns : mapping of str to list, ndarray or column
        For each attribute the respondents' values; all of one length. They are not changed.
    entropy : Entropy
        The operating system's unless given; with a seeded one the reports are marked insecure.

    Raises
    ------
    UsageError
        If a column is missing, too many, of another length, or holds a value outside its domain.
    """
    _check_params(params)
    return randomize_codes(params, encode(params, columns), entropy)


def encode(params: Params, columns: Mapping[str, Any]) -> tuple[Codes, ...]:
    """Return the codes of each attribute's column, in the survey's order."""
    _check_params(params)
    if not isinstance(columns, Mapping):
        raise UsageError("columns", type(columns).__name__, "a mapping of names to columns")
    for name in params.names:
        if name not in columns:
            raise UsageError("columns", f"no {name!r}", f"all of: {', '.join(params.names)}")
    for name in columns:
        if name not in params.attributes:
            raise UsageError("columns", str(name), f"nothing beside: {', '.join(params.names)}")
    return tuple(domain.encode(columns[name]) for name, domain in params.attributes.items())


def randomize_codes(
    params: Params, codes: Sequence[NDArray[Any]], entropy: Entropy = OS
) -> TupleReports:
    """Return the reports of many respondents, whose values are codes of the domains.

    Parameters
    ----------
    params : Params
        The survey.
    codes : sequence of (n,) integer arrays
        One for each attribute.
    entropy : Entropy
        See :func:`randomize`.
    """
    _check_params(params)
    checked = _check_codes(params, codes)
    if params.protocol is Protocol.SPL:
        return _split(params, checked, entropy)
    if params.protocol is Protocol.SMP:
        return _sampled(params, checked, entropy)
    return _faked(params, checked, entropy)[0]


def sampled_attributes(
    params: Params, codes: Sequence[NDArray[Any]], entropy: Entropy
) -> tuple[TupleReports, NDArray[np.uint32]]:
    """Return reports with fakes, and of each the attribute that is true: for attacks only.

    Parameters and errors as for :func:`randomize_codes`; only protocols with fakes.
    """
    _check_params(params)
    if not params.protocol.faked:
        raise UsageError("protocol", params.protocol.value, "rs+fd or rs+rfd, which have fakes")
    return _faked(params, _check_codes(params, codes), entropy)


def _check_codes(params: Params, codes: Sequence[NDArray[Any]]) -> tuple[Codes, ...]:
    if not isinstance(codes, list | tuple):
        raise UsageError("codes", type(codes).__name__, "a list of arrays, one per attribute")
    if len(codes) != params.d:
        raise UsageError("codes", f"{len(codes)} columns", f"one for each of {params.d} attributes")
    checked = tuple(
        check_codes(column, k, f"codes of {name}")
        for name, column, k in zip(params.names, codes, params.sizes, strict=True)
    )
    sizes = sorted({column.size for column in checked})
    if len(sizes) > 1:
        raise UsageError("codes", f"columns of {sizes} respondents", "columns of one length")
    return checked


def _check_params(params: object) -> None:
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "Params")


def _split(params: Params, codes: tuple[Codes, ...], entropy: Entropy) -> TupleReports:
    """Report every attribute, each with its part of epsilon."""
    made = [
        one.randomize_codes(column, entropy)
        for one, column in zip(params.mechanisms, codes, strict=True)
    ]
    columns = tuple(column for reports in made for column in reports.columns)
    return TupleReports(params, (columns,), bool(entropy.insecure))


def _sampled(params: Params, codes: tuple[Codes, ...], entropy: Entropy) -> TupleReports:
    """Report one attribute with all of epsilon, and say which."""
    draws = Draws(entropy)
    which = draws.below([params.d], codes[0].size)[:, 0]
    groups = []
    for number, (one, column) in enumerate(zip(params.mechanisms, codes, strict=True)):
        groups.append(one.randomize_codes(column[which == number], entropy).columns)
    return TupleReports(params, tuple(groups), draws.insecure)


def _faked(
    params: Params, codes: tuple[Codes, ...], entropy: Entropy
) -> tuple[TupleReports, NDArray[np.uint32]]:
    """Report one attribute with all of epsilon', and fakes for the others; say which it was."""
    draws = Draws(entropy)
    layout = row_layout(params)
    users = codes[0].size
    rows = np.zeros((users, row_words(layout.width)), np.uint64)
    which = np.empty(users, np.uint32)
    ends = [_ends(params, one) for one in params.fields]
    for start in range(0, users, _TILE):
        span = slice(start, start + _TILE)
        part = tuple(column[span] for column in codes)
        which[span] = draws.below([params.d], len(rows[span]))[:, 0]
        _fill(rows[span], which[span], params, layout, part, ends, draws)
    return TupleReports(params, ((rows,),), draws.insecure), which


def _ends(params: Params, field: Field) -> NDArray[np.uint64] | None:
    """Return the ends of the words of each fake value, if there are priors."""
    if params.priors is None or field.fakes is None:
        return None
    return np.cumsum(field.fakes)


def _fill(
    rows: kernels.Rows,
    which: NDArray[np.uint32],
    params: Params,
    layout: RowLayout,
    codes: tuple[Codes, ...],
    ends: Sequence[NDArray[np.uint64] | None],
    draws: Draws,
) -> None:
    """Write the reports of some respondents into rows of zeros."""
    users = len(rows)
    words = draws.words64(users)
    if layout.unary:
        pair = next(field.pair for field in params.fields if field.pair is not None)
        noise = noise_rows(users, layout.unary, pair.zero, pair.bits, draws)
        rows[:, : noise.shape[1]] = noise
    for number, offset, field, column, true in _each(params, layout, codes, which):
        if field.split is not None:
            values = kernels.draw_fakes(draws.words32(users), ends[number], field.k)
            found = field.split
            kernels.put_true(values, column, true, words, found.bits, found.other, field.k)
            kernels.put_codes(rows, values, offset, field.width)
            continue
        assert field.pair is not None
        pair, places, everyone = field.pair, column, true
        coins: NDArray[Any] = words
        shift = 64 - pair.bits
        if field.fakes is not None:
            # The value that is encoded is a fake one, or the own one; either way its bit is drawn.
            values = kernels.draw_fakes(draws.words32(users), ends[number], field.k)
            places, everyone = np.where(true, column, values), np.ones(users, np.bool_)
            coins, shift = draws.words(users, pair.bits), 0
        places = places + np.uint32(offset)
        kernels.set_true_bits(rows, places, everyone, coins, shift, pair.one)


def _each(
    params: Params, layout: RowLayout, codes: tuple[Codes, ...], which: NDArray[np.uint32]
) -> Iterator[tuple[int, int, Field, Codes, NDArray[np.bool_]]]:
    parts = zip(layout.offsets, params.fields, codes, strict=True)
    for number, (offset, field, column) in enumerate(parts):
        yield number, offset, field, column, which == np.uint32(number)
