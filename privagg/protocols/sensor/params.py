"""What a sensor network and a run are: frozen objects, validated when built.

:class:`Deployment` says where the nodes are and how they find each other, :class:`Radio` what the
air does, :class:`Params` what the protocol does. The fields of :class:`Params` are in two groups:
those that change the guarantee, and those that only say what numbers are added.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privagg import field as fields
from privagg._validate import proportion, whole
from privagg.errors import CapacityError, UsageError

__all__ = [
    "Arithmetic",
    "Deployment",
    "Flood",
    "Keys",
    "MAX_NODES",
    "Params",
    "Protocol",
    "Radio",
    "choice",
    "real",
]

MAX_NODES = 2**24
"""More nodes than this do not fit the ids in messages together with the epoch."""

_FAR = 1e12  # metres

_Choice = TypeVar("_Choice", bound=StrEnum)


class Protocol(StrEnum):
    """Every protocol that :func:`~privagg.protocols.sensor.simulate` runs."""

    TAG = "tag"
    SMART = "smart"
    CPDA = "cpda"
    CPDA_SEN_EFFICIENT = "cpda-sen-efficient"
    CPDA_SEN_CHECKED = "cpda-sen-checked"
    CPDA_FIELD = "cpda-field"
    MASK_CLUSTER = "mask-cluster"
    CMT = "cmt"

    @property
    def clustered(self) -> bool:
        """Whether nodes form clusters; the others use the tree alone."""
        return self not in (Protocol.TAG, Protocol.SMART, Protocol.CMT)

    @property
    def broken(self) -> bool:
        """Whether it claims to hide readings and does not: it needs ``allow_insecure``."""
        return self in (Protocol.CPDA, Protocol.CPDA_SEN_EFFICIENT, Protocol.CPDA_SEN_CHECKED)

    @property
    def shares(self) -> bool:
        """Whether members exchange shares of polynomials with all members of their cluster."""
        return self in (Protocol.CPDA, Protocol.CPDA_SEN_CHECKED, Protocol.CPDA_FIELD)

    @property
    def in_field(self) -> bool:
        """Whether sums are taken modulo a prime."""
        return self in (Protocol.SMART, Protocol.CPDA_FIELD, Protocol.MASK_CLUSTER, Protocol.CMT)


class Arithmetic(StrEnum):
    """What the faithful CPDA computes with. Neither hides a reading."""

    REAL = "real"
    INTEGER = "integer"


class Flood(StrEnum):
    """Who forwards the query: every node, or leaders only (as the papers on CPDA have it)."""

    ALL = "all"
    LEADERS = "leaders"


class Keys(StrEnum):
    """Where link keys come from: one for each pair, or rings drawn from a pool."""

    UNIQUE = "unique"
    POOL = "pool"


def choice(name: str, value: Any, kind: type[_Choice]) -> _Choice:
    """Return the member of `kind` that `value` is or names.

    Raises
    ------
    UsageError
        Naming the members there are.
    """
    try:
        return kind(value)
    except ValueError:
        raise UsageError(name, value, f"one of {', '.join(kind)}") from None


def real(name: str, value: Any, low: float, high: float = math.inf, *, open: bool = False) -> float:
    """Return `value` as a finite float from `low` to `high` (above `low` if `open`)."""
    number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not low <= value <= high or (open and value == low):
        ends = f"above {low:g}" if open else f"from {low:g}"
        raise UsageError(name, value, f"a number {ends}" + f" to {high:g}" * math.isfinite(high))
    return float(value)


@dataclass(frozen=True)
class Deployment:
    """Where the nodes are and how they find each other.

    Parameters
    ----------
    nodes : int
        Sensors, the base station not counted.
    area : float
        Side of the square they lie in, metres.
    range : float
        Radio range, metres: two nodes hear each other within it.
    leader_probability : float
        A node that hears the query becomes a leader with this probability (p_c).
    flood : Flood
        Who forwards the query. ``all``: every node; ``leaders``: leaders only.
    base_station : tuple of two floats, optional
        Its position; the centre of the area if not given.
    seed : int, optional
        Makes topology, losses and secrets repeatable, and therefore **insecure**. Without one they
        come from the operating system.
    positions : (nodes, 2) float array, optional
        Positions in metres; uniform in the square if not given.

    Raises
    ------
    UsageError
        If a value is out of its range.
    """

    nodes: int
    area: float
    range: float
    leader_probability: float = 0.3
    flood: Flood = Flood.ALL
    base_station: tuple[float, float] | None = None
    seed: int | None = None
    positions: NDArray[np.float64] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "nodes", whole("nodes", self.nodes, 1, MAX_NODES))
        put(self, "area", real("area", self.area, 0, _FAR, open=True))
        put(self, "range", real("range", self.range, 0, _FAR, open=True))
        put(self, "leader_probability", proportion("leader_probability", self.leader_probability))
        put(self, "flood", choice("flood", self.flood, Flood))
        if self.seed is not None:
            put(self, "seed", whole("seed", self.seed, 0, 2**64 - 1))
        if self.base_station is not None:
            try:
                x, y = self.base_station
            except (TypeError, ValueError):
                raise UsageError("base_station", self.base_station, "two numbers") from None
            put(self, "base_station", (_coordinate(x), _coordinate(y)))
        if self.positions is not None:
            put(self, "positions", _positions(self.positions, self.nodes))


def _coordinate(value: Any) -> float:
    return real("base_station", value, -_FAR, _FAR)


def _positions(value: Any, nodes: int) -> NDArray[np.float64]:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError("positions", type(value).__name__, "an array of numbers") from None
    if array.shape != (nodes, 2):
        raise UsageError("positions", f"shape {array.shape}", f"({nodes}, 2), one row for a node")
    if not (np.abs(array) <= _FAR).all():
        raise UsageError("positions", "a number that is none, or too large", "metres, up to 1e12")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, kw_only=True)
class Radio:
    """What the air does to a frame.

    Parameters
    ----------
    loss : float
        Probability that one frame does not reach one receiver that it is meant for; each receiver
        and each try independently.
    retries : int
        Times a frame of an epoch is sent again until all whom it is meant for have acknowledged it.
        With 0 there are no acknowledgements.
    formation_retries : int
        The same for joining and rosters, which happen once: a cluster that has not agreed on its
        roster cannot work at all. The query's flood is never acknowledged.
    payload : int
        Payload bytes of a frame: 28 (TinyOS) or 114 (802.15.4 without addressing overhead).
    overhead : int
        Header, checksum and preamble bytes of a frame; 19 for the CC2420.
    acknowledgement : int
        Bytes on air of an acknowledgement; 11 for 802.15.4.

    Raises
    ------
    UsageError
        If a field is not as described.
    """

    loss: float = 0.0
    retries: int = 0
    formation_retries: int = 7
    payload: int = 28
    overhead: int = 19
    acknowledgement: int = 11

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss", proportion("loss", self.loss))
        whole("retries", self.retries, 0, 100)
        whole("formation_retries", self.formation_retries, 0, 100)
        whole("payload", self.payload, 8, 10_000)
        whole("overhead", self.overhead, 0, 1000)
        whole("acknowledgement", self.acknowledgement, 0, 1000)


_HINT = "Make it larger, or allow for fewer colluders or fewer silent members."


@dataclass(frozen=True, kw_only=True)
class Params:
    """What the protocol does. Validated when built; :meth:`recommend` fills in what follows.

    Parameters
    ----------
    protocol : Protocol
        Which one.
    nodes : int
        Most readings in a sum.
    bound : int
        Largest absolute value of a number that is added, in fixed-point steps.
    width : int
        Numbers that each node adds at once (2 for the variance, the bins of a histogram).
    field : privagg.field.Field
        GF(p) of the sums. It must hold them: ``p > 2 * nodes * bound``.
    corrupt : int
        Members of one cluster, its leader included, that may pool what they see (k).
    drops : int
        ``cpda-field``: members that may fall silent after the shares were sent (d): any
        ``t = m - d`` of m answers give the sum. The price is in `min_cluster`.
    min_cluster : int
        A member refuses a smaller roster. At least ``k + 2``, and ``k + 2 d + 1`` where d > 0: else
        a leader who tells members different things could learn more than the sum.
    tag_bytes : int
        Bytes of a message's authentication tag: 4 (MIC-32 of 802.15.4), 8 or 16.
    keys : Keys
        Where link keys come from. Rings from a pool are a model: links are overheard.
    arithmetic : Arithmetic
        Of the faithful ``cpda``.
    real_bytes : int
        Bytes of a real number on the air: 8, or 4 for single precision.
    slices : int
        Pieces of a reading in ``smart``, the one that is kept included (J).
    plain_slices : bool
        Whether these are plain numbers within the bound, as described in the paper: then a lost
        slice is an error of bounded size, but a slice says something of its reading. Otherwise they
        are uniform in GF(p), and one lost slice makes the whole sum useless, which is noticed.
    seed_max : int
        The faithful variants' seeds are drawn from 1 to this.
    coefficient_max : int
        The faithful variants' coefficients are drawn from 0 to this.

    Raises
    ------
    UsageError
        If a value is out of its range, or the combination is insecure.
    CapacityError
        If a sum could wrap around the modulus.
    """

    protocol: Protocol
    nodes: int
    bound: int
    width: int = 1
    field: fields.Field = fields.M31
    corrupt: int = 1
    drops: int = 0
    min_cluster: int = 3
    tag_bytes: int = 4
    keys: Keys = Keys.UNIQUE
    arithmetic: Arithmetic = Arithmetic.INTEGER
    real_bytes: int = 8
    slices: int = 2
    plain_slices: bool = False
    seed_max: int = 255
    coefficient_max: int = 65535

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "protocol", choice("protocol", self.protocol, Protocol))
        put(self, "keys", choice("keys", self.keys, Keys))
        put(self, "arithmetic", choice("arithmetic", self.arithmetic, Arithmetic))
        whole("nodes", self.nodes, 1, MAX_NODES)
        whole("bound", self.bound, 0, 2**62)
        whole("width", self.width, 1, 4096)
        whole("slices", self.slices, 2, 16)
        whole("corrupt", self.corrupt, 0, 2**16)
        whole("drops", self.drops, 0, 2**16)
        whole("seed_max", self.seed_max, 3, 2**31)
        whole("coefficient_max", self.coefficient_max, 1, 2**62)
        if not isinstance(self.plain_slices, bool):
            raise UsageError("plain_slices", self.plain_slices, "True or False")
        if self.real_bytes not in (4, 8) or isinstance(self.real_bytes, bool):
            raise UsageError("real_bytes", self.real_bytes, "4 or 8")
        if self.tag_bytes not in (4, 8, 16) or isinstance(self.tag_bytes, bool):
            raise UsageError("tag_bytes", self.tag_bytes, "4, 8 or 16")
        if self.slices != 2 and self.protocol is not Protocol.SMART:
            raise UsageError("slices", self.slices, f"nothing with {self.protocol}", "Use smart.")
        if self.plain_slices and self.protocol is not Protocol.SMART:
            raise UsageError("plain_slices", True, f"False with {self.protocol}", "Use smart.")
        if self.arithmetic is Arithmetic.REAL and self.protocol is not Protocol.CPDA:
            allowed = f"nothing with {self.protocol}"
            raise UsageError("arithmetic", str(self.arithmetic), allowed, "Use cpda.")
        if self.drops and self.protocol is not Protocol.CPDA_FIELD:
            raise UsageError("drops", self.drops, f"0 with {self.protocol}", "Use cpda-field.")
        whole("min_cluster", self.min_cluster, self.least_cluster, 2**16, _HINT)
        if not isinstance(self.field, fields.Field) or self.field.limbs != 1:
            raise UsageError("field", self.field, "a field of one machine word, such as field.M31")
        if self.protocol.in_field and self.capacity_needed >= self.field.modulus:
            raise CapacityError(
                "bound",
                self.bound,
                f"at most {(self.field.modulus - 1) // (2 * self.nodes)} for {self.nodes} readings "
                f"in {self.field.name}",
                "Lower the bound or the scale, or take field.M61.",
            )

    @property
    def least_cluster(self) -> int:
        """The smallest `min_cluster` that `corrupt` and `drops` allow, never under 3."""
        rule = self.corrupt + 2 * self.drops + 1 if self.drops else self.corrupt + 2
        return max(3, rule)

    @property
    def capacity_needed(self) -> int:
        """Twice the largest absolute sum: the modulus must be larger."""
        return 2 * self.nodes * self.bound

    @property
    def secure(self) -> bool:
        """Whether it keeps what it promises against `corrupt` members: see `docs/sensor.md`."""
        hides = self.protocol.in_field and not self.plain_slices
        return hides and self.keys is Keys.UNIQUE

    def threshold(self, members: int) -> int:
        """Return t, the answers that give the sum of a cluster of `members`."""
        return members - self.drops

    @classmethod
    def recommend(
        cls, protocol: Protocol | str, *, nodes: int, bound: int, **changes: Any
    ) -> Params:
        """Return parameters with the smallest named field and cluster that the rest allows.

        Parameters
        ----------
        protocol : Protocol
            Which one.
        nodes, bound : int
            As in :class:`Params`.
        changes
            Any other field of it.

        Raises
        ------
        UsageError, CapacityError
            As :class:`Params`.
        """
        corrupt, drops = changes.get("corrupt", 1), changes.get("drops", 0)
        whole("corrupt", corrupt, 0, 2**16)
        whole("drops", drops, 0, 2**16)
        rule = corrupt + 2 * drops + 1 if drops else corrupt + 2
        chosen: dict[str, Any] = {"min_cluster": max(3, rule)}
        fits = 2 * whole("nodes", nodes, 1, MAX_NODES) * whole("bound", bound, 0, 2**62)
        chosen["field"] = fields.M31 if fits < fields.M31.modulus else fields.M61
        return cls(
            protocol=choice("protocol", protocol, Protocol),
            nodes=nodes,
            bound=bound,
            **chosen | changes,
        )
