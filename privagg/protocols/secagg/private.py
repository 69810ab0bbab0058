"""Rounds whose sum is differentially private: distributed noise under secure aggregation.

Each client makes residues modulo 2**b of its vector (:mod:`privagg.mechanisms.distributed`), the
round adds them modulo 2**b, and what the server learns is the sum with everyone's noise in it. The
noise is calibrated to the honest contributors that the round cannot do without:
``Params.honest_inputs``, which is the smallest cohort less the corrupt (fewer in a semi-malicious
round). Whoever stays beyond that adds noise that nobody needed; the result says how much privacy it
buys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import describe
from privagg.encoding import Encoding
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms.calibration import calibrate
from privagg.mechanisms.distributed import DistributedNoise, NoisySum, clipped_to
from privagg.mechanisms.guarantees import Guarantee
from privagg.mechanisms.poisson_binomial import PoissonBinomial
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.result import Result
from privagg.protocols.secagg.rounds import run
from privagg.trees import Structure

__all__ = ["NoisyInputs", "PrivateResult", "calibrated", "finish", "private_params", "run_private"]

Mechanism = DistributedNoise | PoissonBinomial

SEED_BYTES = 32


def private_params(mechanism: Mechanism, params: Params) -> Params:
    """Return the round that carries the mechanism's residues; all else as in `params`.

    Raises
    ------
    UsageError
        If the round can end with fewer honest inputs than the noise is calibrated to, or more
        clients than the modulus is.
    """
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "Params of a round")
    if not isinstance(mechanism, Mechanism):
        raise UsageError("mechanism", type(mechanism).__name__, "one of calibrated()")
    if params.honest_inputs < mechanism.honest:
        raise UsageError(
            "mechanism.honest",
            mechanism.honest,
            f"at most {params.honest_inputs}, the honest inputs of the smallest sum",
            "Calibrate the noise to params.honest_inputs.",
        )
    if params.clients > mechanism.clients:
        raise UsageError("clients", params.clients, f"up to {mechanism.clients}")
    if params.encoding.weighted:
        raise UsageError("weighted", True, "False", "A weight would change what a client may move.")
    encoding = Encoding(kind="ring", value_bits=mechanism.modulus_bits)
    return replace(params, dim=mechanism.length, encoding=encoding)


def calibrated(params: Params, kind: str = "discrete-gaussian", **settings: Any) -> Mechanism:
    """Return distributed noise for a round: as :func:`privagg.mechanisms.calibrate`.

    `dim`, `clients` and `honest` are the round's; a vector has ``params.dim`` coordinates.
    """
    made: Mechanism = calibrate(
        kind, dim=params.dim, clients=params.clients, honest=params.honest_inputs, **settings
    )
    return made


class NoisyInputs(Sequence[NDArray[Any]]):
    """Each client's residues, made when they are asked for: with fresh noise each time.

    Parameters
    ----------
    mechanism : DistributedNoise or PoissonBinomial
        The mechanism.
    vectors : sequence of arrays or trees
        The clients' vectors, all of one structure.
    seed : bytes
        The round's public seed of the rotation.
    entropy : Entropy
        Where the clients' noise comes from; each has its own stream where it is seeded.

    Attributes
    ----------
    structure : Structure
        Names, shapes and dtypes of a client's item.
    insecure : bool
        Whether the noise comes from a seed, and so is known to whoever knows it.
    clipped : set of int
        Clients whose vector was beyond the clip: only a simulation may know this.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        vectors: Sequence[Any],
        seed: bytes,
        entropy: Entropy = OS,
    ) -> None:
        if not isinstance(mechanism, Mechanism):
            raise UsageError("mechanism", type(mechanism).__name__, "one of calibrated()")
        if (
            not hasattr(vectors, "__getitem__")
            or not hasattr(vectors, "__len__")
            or not len(vectors)
        ):
            raise UsageError("vectors", describe(vectors), "a vector for each client")
        if not isinstance(entropy, Entropy):
            raise UsageError("entropy", describe(entropy), "an Entropy")
        self._mechanism = mechanism
        self._vectors = vectors
        self._seed = seed
        self._entropy = entropy
        self.structure = Structure.of(vectors[0])
        self.insecure = bool(entropy.insecure)
        self.clipped: set[int] = set()

    def __len__(self) -> int:
        return len(self._vectors)

    def plain(self, client: int) -> NDArray[np.float64]:
        """Return the client's vector as it is clipped, without noise."""
        flat = self.structure.flatten(self._vectors[client])
        return clipped_to(flat, self._mechanism.dim, self._mechanism.clip)[0]

    def __getitem__(self, client: Any) -> Any:
        made = self._mechanism.encode(
            self.structure.flatten(self._vectors[client]),
            seed=self._seed,
            entropy=self._entropy.spawn(f"noise of client {client}"),
        )
        if made.clipped:
            self.clipped.add(int(client))
        return made.words.astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateResult:
    """The outcome of a round with distributed noise.

    Attributes
    ----------
    result : Result
        The round: its sum is of residues, and `exact` says whether they were added right.
    mechanism : DistributedNoise or PoissonBinomial
        The mechanism.
    noisy : NoisySum
        Sum and mean of the survivors' vectors, with noise: flat.
    sum, mean : array or tree
        The same, of the shape of one client's item, in float64 where its own dtype is no float.
    guarantee : Guarantee
        With the clients that stayed, less the corrupt.
    worst : Guarantee
        With the fewest honest contributors that the round can end with.
    error : float
        Root mean squared difference of the sum and the survivors' plain sum of clipped vectors:
        noise and rounding. Only a simulation knows it.
    clipped : int
        Survivors whose vector was beyond the clip. Only a simulation knows it.
    """

    result: Result
    mechanism: Mechanism
    noisy: NoisySum = field(repr=False)
    sum: Any = field(repr=False)
    mean: Any = field(repr=False)
    guarantee: Guarantee
    worst: Guarantee
    error: float
    clipped: int


def finish(result: Result, mechanism: Mechanism, inputs: NoisyInputs, seed: bytes) -> PrivateResult:
    """Decode a round's sum and compare it with the survivors' plain one."""
    noisy = mechanism.decode(result.sum, count=result.count, seed=seed)
    survivors = result.survivors["masked-input"]
    plain = np.zeros(mechanism.dim)
    for client in survivors:
        plain += inputs.plain(client)
    seeded = result.insecure_seed or inputs.insecure
    return PrivateResult(
        result=replace(result, insecure_seed=seeded),
        mechanism=mechanism,
        noisy=noisy,
        sum=inputs.structure.unflatten(noisy.total, widen=True),
        mean=inputs.structure.unflatten(noisy.mean, widen=True),
        guarantee=mechanism.guarantee(result.count, min(result.params.corrupt, result.count - 1)),
        worst=mechanism.guarantee(mechanism.honest),
        error=float(np.sqrt(((noisy.total - plain) ** 2).mean())),
        clipped=len(inputs.clipped & set(survivors)),
    )


def run_private(
    params: Params,
    mechanism: Mechanism,
    vectors: Sequence[Any],
    *,
    rotation_seed: bytes | None = None,
    entropy: Entropy = OS,
    **settings: Any,
) -> PrivateResult:
    """Run one round with distributed noise, all its parties on this machine.

    Parameters
    ----------
    params : Params
        The round as it would be without noise; :func:`private_params` makes the one that runs.
    mechanism : DistributedNoise or PoissonBinomial
        Of :func:`calibrated`.
    vectors : sequence of (dim,) arrays
        One for each client.
    rotation_seed : bytes, optional
        The public seed of this round's rotation; drawn if left out. Never the same in two rounds.
    entropy : Entropy
        Of the noise. A seeded one makes the noise known to whoever knows the seed; the result's
        `insecure_seed` says so.
    settings
        As for :func:`privagg.protocols.secagg.run`; no `weights`.

    Returns
    -------
    PrivateResult

    Raises
    ------
    Abort, UsageError, PeerError
        As :func:`privagg.protocols.secagg.run` and :meth:`DistributedNoise.encode`.
    """
    if settings.get("weights") is not None:
        raise UsageError("weights", "some", "none", "A weight would change what a client may move.")
    seed = OS.take(SEED_BYTES) if rotation_seed is None else rotation_seed
    carried = private_params(mechanism, params)
    inputs = NoisyInputs(mechanism, vectors, seed, entropy)
    result = run(carried, inputs, **settings)
    return finish(result, mechanism, inputs, seed)
