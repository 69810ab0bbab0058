"""What the parties of a cluster see, in many runs of every protocol at once.

A view holds what was sent, as its receiver has it after decryption; who may look at what is the
attack's business. The member at place 0 leads (or is the parent on the tree); readings are uniform
whole numbers from 0 to a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import field as fields
from privagg._validate import whole
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols.sensor import faithful, sound
from privagg.protocols.sensor.params import Arithmetic, Keys, Params, Protocol

__all__ = ["Setting", "Subject", "View", "observe", "readings"]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A protocol under attack.

    Parameters
    ----------
    protocol : Protocol
        Which one.
    keys : Keys
        Where its link keys come from.
    drops : int
        Members that may fall silent (``cpda-field``).
    """

    protocol: Protocol
    keys: Keys = Keys.UNIQUE
    drops: int = 0

    @property
    def name(self) -> str:
        """For tables: the protocol, and what is not as usual."""
        extra = f", {self.drops} may drop" if self.drops else ""
        return str(self.protocol) + extra + ", pool keys" * (self.keys is Keys.POOL)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How the attacks are run.

    Parameters
    ----------
    entropy : Entropy
        Of readings and secrets.
    runs : int
        Clusters that are attacked.
    party_runs : int
        The same for attacks on real parties, which take longer.
    members : int
        Members of a cluster.
    bound : int
        Readings are whole numbers from 0 to this.
    seed_max, coefficient_max : int
        Of the faithful variants.

    Raises
    ------
    UsageError
        If a field is not as described.
    """

    entropy: Entropy
    runs: int = 1000
    party_runs: int = 100
    members: int = 5
    bound: int = 100
    seed_max: int = 4096
    coefficient_max: int = 10**6

    def __post_init__(self) -> None:
        whole("runs", self.runs, 1, 10**6)
        whole("party_runs", self.party_runs, 1, 10**6)
        whole("members", self.members, 3, 64)
        whole("bound", self.bound, 1, 10**4)
        if self.seed_max < 2 * self.bound + self.members:
            raise UsageError(
                "seed_max", self.seed_max, f"above {2 * self.bound + self.members}: seeds that leak"
            )

    def params(self, subject: Subject, **changes: Any) -> Params:
        """Return the parameters of a subject in this setting.

        Parameters
        ----------
        subject : Subject
            The protocol attacked, and how.
        **changes : Any
            Fields of the parameters that are other than the setting's.
        """
        chosen: dict[str, Any] = {
            "drops": subject.drops,
            "keys": subject.keys,
            "seed_max": self.seed_max,
            "coefficient_max": self.coefficient_max,
        }
        return Params.recommend(subject.protocol, nodes=1000, bound=self.bound, **chosen | changes)


@dataclass(frozen=True, eq=False)
class View:
    """Runs of a cluster.

    Attributes
    ----------
    values : (runs, m) int64 array
        The readings: what attacks try to find.
    sent : (runs, m, m) array
        ``[r, i, j]``: what member i sent to member j. Zero where a protocol has no such message.
    points : (runs, m) array
        What a share was evaluated at, by receiver; ones where there is no such thing.
    clear : (runs, m) array or None
        Sums in clear, which everyone hears, by member; the leader sends none.
    completed : (runs,) bool array
        Runs that were not given up by their checks.
    field : Field or None
        Of what is sent.
    """

    values: NDArray[np.int64]
    sent: NDArray[Any]
    points: NDArray[Any]
    clear: NDArray[Any] | None
    completed: NDArray[np.bool_]
    field: fields.Field | None


def readings(setting: Setting, runs: int) -> NDArray[np.int64]:
    """Draw readings, (runs, members).

    Parameters
    ----------
    setting : Setting
        How the attacks are run.
    runs : int
        How many rows.
    """
    drawn = faithful.below(setting.entropy, setting.bound + 1, (runs, setting.members))
    return drawn.astype(np.int64)


def observe(
    subject: Subject,
    setting: Setting,
    *,
    leader_seed: int | None = None,
    arithmetic: Arithmetic = Arithmetic.INTEGER,
    seed_max: int | None = None,
) -> View:
    """Run clusters of a protocol and return what was sent.

    Parameters
    ----------
    subject, setting : Subject, Setting
        Which protocol, how many runs.
    leader_seed : int, optional
        A seed of the leader's choice, where nodes choose their own: it announces its seed last.
    arithmetic : Arithmetic
        Of ``cpda``.
    seed_max : int, optional
        Other seeds are drawn up to this instead.

    Returns
    -------
    View
    """
    values = readings(setting, setting.runs)
    params = setting.params(subject, arithmetic=arithmetic)
    if seed_max is not None:
        params = setting.params(subject, arithmetic=arithmetic, seed_max=seed_max)
    match subject.protocol:
        case Protocol.TAG:
            return _flat(values, values, None)
        case Protocol.CMT:
            return _flat(values, _hidden(values, params, setting.entropy), params.field)
        case Protocol.SMART:
            pieces = fields.uniform(setting.entropy, values.shape, params.field)
            return _flat(values, pieces, params.field)
        case Protocol.MASK_CLUSTER:
            return _flat(values, _masked(values, params, setting.entropy), params.field)
        case Protocol.CPDA_FIELD:
            return _field(values, params, setting.entropy)
    return _faithful(values, params, setting.entropy, leader_seed)


def _flat(values: NDArray[np.int64], sent: NDArray[Any], field: fields.Field | None) -> View:
    """Return a view in which every member sends one number, whoever gets it."""
    runs, m = values.shape
    every = np.repeat(np.asarray(sent, object)[:, :, None], m, axis=2)
    return View(values, every, np.ones((runs, m), object), None, np.ones(runs, np.bool_), field)


def _hidden(values: NDArray[np.int64], params: Params, entropy: Entropy) -> NDArray[Any]:
    keystream = fields.uniform(entropy, values.shape, params.field)
    return fields.add(sound.lower(values, params.field), keystream, params.field)


def _masked(values: NDArray[np.int64], params: Params, entropy: Entropy) -> NDArray[Any]:
    field = params.field
    masked = sound.lower(values, field)
    m = values.shape[1]
    for low in range(m):
        for high in range(low + 1, m):
            mask = fields.uniform(entropy, (len(values),), field)
            masked[:, low] = fields.add(masked[:, low].copy(), mask, field)
            masked[:, high] = fields.sub(masked[:, high].copy(), mask, field)
    return masked


def _field(values: NDArray[np.int64], params: Params, entropy: Entropy) -> View:
    runs, m = values.shape
    flat = sound.lower(values, params.field).reshape(-1)
    shares = sound.shares_of(flat, m, params.threshold(m), params.field, entropy)
    sent = np.moveaxis(shares.reshape(m, runs, m), 0, 2).astype(object)
    points = np.repeat(np.arange(1, m + 1)[None], runs, axis=0).astype(object)
    return View(values, sent, points, None, np.ones(runs, np.bool_), params.field)


def _faithful(
    values: NDArray[np.int64], params: Params, entropy: Entropy, leader_seed: int | None
) -> View:
    runs, m = values.shape
    done = faithful.run(values, params, entropy)
    seeds, sent, passed = done.seeds, done.shares, done.passed
    if leader_seed is not None and params.protocol is not Protocol.CPDA_SEN_EFFICIENT:
        # The others' seeds stand; the leader's is the large one it announces last.
        seeds = seeds.copy()
        seeds[:, 0] = leader_seed
        coefficients = faithful.below(entropy, params.coefficient_max + 1, (runs, m, m - 1))
        sent = faithful.share(values.astype(object), coefficients, seeds)
        if params.protocol is Protocol.CPDA_SEN_CHECKED:
            passed = faithful.triangles(seeds)
    clear = sent.sum(axis=1)
    return View(values, sent, seeds, clear, passed, None)
