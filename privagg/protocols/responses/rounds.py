"""The driver: one release of all bags, by a curator or with nobody who sees a response.

By a curator there is one step, with the guarantee of
:mod:`~privagg.protocols.responses.curator`. Without one the rows of a bag are the clients of a
round (:mod:`privagg.protocols.secagg`), and each adds its part of the noise before it is masked
(:mod:`privagg.protocols.secagg.private`). The server learns the noisy sum of each bag, no more; the
noise is calibrated to the honest rows that a round cannot do without, and what others add is on
top. Guarantee: ``(epsilon, delta)``-label differential privacy of all bags together, one response
replaced, against the server and a coalition of the size that the rounds allow; who is in which bag
is public.

Without epsilon nobody adds noise: the server sees no single response, but the exact sum of each
bag, and the release says that there is no differential privacy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import describe
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.clipping import unclipped
from privagg.protocols.responses.curator import Curator, check_classes, check_responses
from privagg.protocols.responses.params import Release
from privagg.protocols.responses.result import EXACT, Released

__all__ = ["SMALLEST", "release_securely", "run"]

_STEPS = 1 << 16

SMALLEST = 4
"""Bags of fewer rows leave too few honest ones to carry the noise."""


def run(
    params: Release,
    bags: Bags,
    responses: Any,
    *,
    secure: bool = False,
    corrupt: float = 0.0,
    entropy: Entropy = OS,
) -> Released:
    """Release the bags' sums or means once, all parties in this process.

    Parameters
    ----------
    params : Release
        What is released, and how privately.
    bags : Bags
        Public; who drew them must not have looked at responses.
    responses : (n,) array of numbers
        Each row's response: finite numbers, or class numbers.
    secure : bool
        Whether nobody may see a response: :func:`release_securely`. Else a
        :class:`~privagg.protocols.responses.curator.Curator` sees them all.
    corrupt : float
        With `secure`, the part of a bag's rows that may work with the server.
    entropy : Entropy
        Of the noise; a seeded one makes it known.

    Returns
    -------
    Released

    Raises
    ------
    UsageError
        If an argument is not as described, or `corrupt` is given without `secure`.
    """
    if not isinstance(secure, bool):
        raise UsageError("secure", describe(secure), "True or False")
    if secure:
        return release_securely(params, bags, responses, corrupt=corrupt, entropy=entropy)
    if corrupt != 0:
        raise UsageError("corrupt", describe(corrupt), "0 with a curator, who sees everything")
    return Curator(params, bags, entropy).release(responses)


def release_securely(
    release: Release,
    bags: Bags,
    responses: Any,
    *,
    corrupt: float = 0.0,
    entropy: Entropy = OS,
) -> Released:
    """Run a round for each bag, all its parties here, and return what the server learns.

    Parameters
    ----------
    release : Release
        With epsilon and delta, or neither; and with a public `clip`, or `classes`. `steps` has a
        meaning only without epsilon: into so many (2**16 unless given) the range is divided.
    bags : Bags
        Of at least :data:`SMALLEST` rows each. A row in several bags composes its rounds.
    responses : (n,) array
        Each row's own; in a real run none leaves its owner.
    corrupt : float
        The part of a bag's rows that may work with the server.
    entropy : Entropy
        Of the noise; a seeded one makes it known.

    Returns
    -------
    Released

    Raises
    ------
    UsageError
        If the release has epsilon without delta, or no public range, a bag is too small, or a
        response is not allowed.
    """
    from privagg.protocols import secagg
    from privagg.protocols.secagg.private import calibrated, run_private

    _check(release, bags)
    if release.epsilon is None:
        return _exactly(release, bags, responses, corrupt)
    vectors, clip, shift, ends = _vectors(release, bags, responses)
    mechanisms: dict[int, tuple[Any, Any]] = {}
    sums = np.empty((bags.count, vectors.shape[1]))
    variance = 0.0
    for number, rows in enumerate(bags.members()):
        if rows.size not in mechanisms:
            params = secagg.Params.recommend(
                clients=rows.size, dim=vectors.shape[1], corrupt=corrupt, dropout=0.0
            )
            mechanisms[rows.size] = (
                params,
                calibrated(
                    params,
                    clip=clip,
                    epsilon=release.epsilon,
                    delta=release.delta,
                    rounds=bags.copies,
                    adjacency="replace",
                ),
            )
        params, mechanism = mechanisms[rows.size]
        found = run_private(
            params, mechanism, list(vectors[rows]), entropy=entropy.spawn(f"bag {number}")
        )
        sums[number] = found.noisy.total + rows.size * shift
        variance = max(variance, found.noisy.deviation**2)
    values = sums[:, 0] if sums.shape[1] == 1 else sums
    kappa = 1.0 if release.classes else unclipped(values, bags.sizes, ends, variance).kappa
    sizes = bags.sizes if values.ndim == 1 else bags.sizes[:, None]
    return Released(
        bags=bags,
        values=values / sizes if release.aggregate == "mean" else values,
        aggregate=release.aggregate,
        classes=release.classes,
        mechanism="secure-aggregation",
        epsilon=release.epsilon,
        delta=release.delta,
        delta_realised=release.delta,
        epsilon_clip=0.0,
        noise_variance=variance,
        low=ends[0],
        high=ends[1],
        step=0.0,
        kappa=kappa,
        insecure=bool(entropy.insecure),
    )


def _check(release: Release, bags: Bags) -> None:
    if not isinstance(release, Release) or not isinstance(bags, Bags):
        raise UsageError("release, bags", "something else", "a Release and Bags")
    if release.epsilon is not None and release.delta == 0:
        raise UsageError(
            "delta", release.delta, "above 0 with epsilon", "Clients' noise is Gaussian."
        )
    if not release.classes and not isinstance(release.clip, tuple):
        raise UsageError(
            "clip", type(release.clip).__name__, "a public range: nobody sees the responses"
        )
    if bags.sizes.min() < SMALLEST:
        raise UsageError("bags", f"a bag of {bags.sizes.min()}", f"at least {SMALLEST} rows each")


def _exactly(release: Release, bags: Bags, responses: Any, corrupt: float) -> Released:
    """Return the sums of rounds without noise: of whole steps of the range, so they are exact."""
    from privagg.protocols import secagg

    values = check_responses(responses, bags.rows)
    low, high, step, steps = 0.0, 1.0, 1.0, 1
    if release.classes:
        check_classes(values, release.classes)
        cells = np.arange(release.classes) if release.classes > 2 else np.ones(1, np.int64)
        words = (values.astype(np.int64)[:, None] == cells).astype(np.int64)
    else:
        assert isinstance(release.clip, tuple)
        low, high = (float(end) for end in release.clip)
        steps = release.steps or _STEPS
        step = (high - low) / steps
        whole_steps = np.rint((np.clip(values.astype(np.float64), low, high) - low) / step)
        words = np.clip(whole_steps, 0, steps).astype(np.int64)[:, None]
    sums = np.empty((bags.count, words.shape[1]))
    for number, rows in enumerate(bags.members()):
        params = secagg.Params.recommend(
            clients=rows.size,
            dim=words.shape[1],
            value_bits=steps.bit_length(),
            corrupt=corrupt,
            dropout=0.0,
        )
        sums[number] = secagg.run(params, list(words[rows])).sum
    sizes = bags.sizes if sums.shape[1] == 1 else bags.sizes[:, None]
    values = (sums[:, 0] if sums.shape[1] == 1 else sums) * step + sizes * low
    kappa = 1.0 if release.classes else unclipped(values, bags.sizes, (low, high), 0.0).kappa
    return Released(
        bags=bags,
        values=values / sizes if release.aggregate == "mean" else values,
        aggregate=release.aggregate,
        classes=release.classes,
        mechanism=EXACT,
        epsilon=None,
        delta=0.0,
        delta_realised=0.0,
        epsilon_clip=0.0,
        noise_variance=0.0,
        low=low,
        high=high,
        step=step,
        kappa=kappa,
        insecure=False,
    )


def _vectors(
    release: Release, bags: Bags, responses: Any
) -> tuple[NDArray[np.float64], float, NDArray[np.float64], tuple[float, float]]:
    """Return each client's vector, its largest norm, what was taken off it, and the range."""
    values = check_responses(responses, bags.rows)
    if release.classes > 2:
        check_classes(values, release.classes)
        shift = np.full(release.classes, 1 / release.classes)
        table = np.eye(release.classes)[values.astype(np.int64)] - shift
        return table, math.sqrt(1 - 1 / release.classes), shift, (0.0, 1.0)
    if release.classes:
        check_classes(values, release.classes)
        low, high = 0.0, 1.0
    else:
        assert isinstance(release.clip, tuple)
        low, high = (float(end) for end in release.clip)
    middle = (low + high) / 2
    column = np.clip(values.astype(np.float64), low, high) - middle
    return column[:, None], (high - low) / 2, np.array([middle]), (low, high)
