"""What a round is: one frozen object for the parties.

:class:`Params` is the same for every party; its digest goes into every key and every associated
data. What a client insists on, whatever the server says, is a
:class:`privagg.protocols.secagg.Policy`, as in that protocol.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from privagg import field as fields
from privagg import keys
from privagg._validate import proportion, whole
from privagg.encoding import Encoding
from privagg.errors import CapacityError, UsageError
from privagg.field import M31, M61, Field
from privagg.protocols._common.cohort import check_min_cohort, choice, declared_encoding
from privagg.protocols.lightsecagg.coding import MaskCode
from privagg.protocols.secagg import Policy, Threat, thresholds
from privagg.protocols.secagg.params import MAX_DIM

__all__ = ["MAX_CLIENTS", "PROTOCOL_VERSION", "Params", "Policy", "Threat", "policy_of"]

PROTOCOL_VERSION = 1
"""Version of the messages and key derivations; parties of different versions cannot talk."""

MAX_CLIENTS = 2**16
"""The generator of the code has N * U elements; larger cohorts are for the other protocol."""


@dataclass(frozen=True, kw_only=True)
class Params:
    """Everything that the parties of one round must agree on. Validated when built.

    Build it with :meth:`recommend`, which fills in what is computed. The paper's letters are given.

    Parameters
    ----------
    clients : int
        Size of the cohort that is invited, N; clients are numbered from 0.
    dim : int
        Coordinates of each client's vector, without the weight.
    encoding : Encoding
        How numbers become field elements.
    threshold : int
        U: coded sums that give the sum of the masks; ``N - D >= U > T``.
    corrupt : int
        Clients that may collude with the server (all of them together) without learning more than
        the sum. `privacy`, the paper's T, is so many, and at least 1.
    dropout : float
        Fraction of the clients that may be gone at the end of the round; D of them.
    min_cohort : int
        The server gives up if fewer inputs than this are in the sum; at least ``corrupt + 2``.
    threat : Threat
        ``semi-honest``, or ``active``, which requires ``2 U > N + T``.
    field : Field
        Where sums are taken: the largest one is below its modulus. Of one limb, with at least
        ``N + U`` elements.

    Raises
    ------
    UsageError
        If a value is out of its range or the combination is insecure or cannot finish.
    CapacityError
        If a sum could reach the modulus.
    """

    clients: int
    dim: int
    encoding: Encoding
    threshold: int
    corrupt: int
    dropout: float
    min_cohort: int
    threat: Threat = Threat.SEMI_HONEST
    field: Field = M31

    def __post_init__(self) -> None:
        # Plain Python types throughout: what is equal must have one digest.
        self._whole("clients", 2, MAX_CLIENTS)
        self._whole("dim", 1, MAX_DIM)
        self._whole("corrupt", 0, self.clients - 1)
        self._whole("min_cohort", 2, self.clients)
        self._whole("threshold", 1, self.clients)
        object.__setattr__(self, "dropout", proportion("dropout", self.dropout))
        if type(self.encoding) is not Encoding:
            raise UsageError("encoding", self.encoding, "an Encoding")
        if self.encoding.kind == "ring":
            hint = "Sums are in a prime field there; secure aggregation with pairwise masks wraps."
            raise UsageError("encoding", "ring", "integer or float", hint)
        if not isinstance(self.threat, Threat):
            raise UsageError("threat", self.threat, "a member of Threat")
        if self.threat is Threat.SEMI_MALICIOUS:
            raise UsageError(
                "threat",
                self.threat.value,
                "semi-honest or active",
                "Choose active: it assumes less.",
            )
        self._check_field()
        self._check_threshold()
        check_min_cohort(
            clients=self.clients,
            corrupt=self.corrupt,
            dropout=self.dropout,
            expected=self.clients - self.dropouts,
            min_cohort=self.min_cohort,
        )

    def _whole(self, name: str, low: int, high: int) -> None:
        object.__setattr__(self, name, whole(name, getattr(self, name), low, high))

    def _check_field(self) -> None:
        fields.elements(0, self.field)  # raises if it is no field of the package
        if not isinstance(self.field, Field) or self.field.limbs != 1:
            raise UsageError(
                "field", self.field.name, "a prime field of one limb, such as field.M31"
            )
        most = largest_sum(self.encoding, self.clients)
        if most >= self.field.modulus:
            raise CapacityError(
                "field",
                f"{self.field.name}, below which the largest sum, {most}, does not lie",
                f"a modulus above {most}",
                "Lower value_bits, max_weight or clients, or leave the field out.",
            )
        if self.clients + self.threshold > self.field.modulus:
            raise UsageError(
                "field",
                f"{self.field.name}, of {self.field.modulus} elements",
                f"at least clients + threshold = {self.clients + self.threshold} of them",
            )

    def _check_threshold(self) -> None:
        low, high = least_threshold(self.clients, self.corrupt, self.threat), self.clients
        high -= self.dropouts
        lies = "" if self.threat is Threat.SEMI_HONEST else " and 2 U > N + T"
        if low > high:
            raise UsageError(
                "corrupt, dropout",
                f"{self.corrupt} corrupt and {self.dropouts} dropouts of {self.clients} clients",
                f"what leaves N - D >= U > T{lies}: {low} survivors where {high} are expected",
                "Lower corrupt or dropout, or choose a weaker threat model knowingly.",
            )
        if not low <= self.threshold <= high:
            raise UsageError(
                "threshold",
                self.threshold,
                f"{low} to {high}: N - D >= U > T{lies} with N = {self.clients}, "
                f"D = {self.dropouts}, T = {self.privacy}",
                f"Use {min(max(self.threshold, low), high)}.",
            )

    @classmethod
    def recommend(
        cls,
        *,
        clients: int,
        dim: int,
        value_bits: int = 16,
        signed: bool = False,
        clip: float | None = None,
        weighted: bool = False,
        max_weight: int | None = None,
        corrupt: float = 0.05,
        dropout: float = 0.05,
        threat: Threat | str = Threat.SEMI_HONEST,
        threshold: int | None = None,
        min_cohort: int | None = None,
        field: Field | None = None,
    ) -> Params:
        """Return parameters that cannot overflow, keep the guarantee and can finish.

        The threshold is the largest there is, ``N - D``: shares are the shorter for it. Against an
        active server it leaves a surplus of two answers for each corrupt client, as far as
        ``2 U > N + T`` allows, so that their wrong sums are corrected.

        Parameters
        ----------
        clients, dim : int
            Cohort and coordinates.
        value_bits, signed, clip, weighted, max_weight
            The encoding, as in :meth:`privagg.protocols.secagg.Params.recommend`.
        corrupt, dropout : float
            Fractions of the clients: colluding with the server, and gone by the end.
        threat : str
            See the class.
        threshold, min_cohort : int, optional
            Your own choice; checked alike.
        field : Field, optional
            By default 2**31 - 1 where the largest sum is below it, else 2**61 - 1.

        Returns
        -------
        Params

        Raises
        ------
        UsageError, CapacityError
            As the class; the message says the nearest value that works.
        """
        clients = whole("clients", clients, 2, MAX_CLIENTS)
        threat = choice("threat", threat, Threat)
        encoding = declared_encoding(
            value_bits, signed=signed, clip=clip, weighted=weighted, max_weight=max_weight
        )
        bad = thresholds.corrupted(clients, corrupt)
        expected = clients - thresholds.dropouts(clients, dropout)
        if threshold is None:
            least = least_threshold(clients, bad, threat)
            surplus = 2 * bad if threat is Threat.ACTIVE else 0
            threshold = min(max(expected - surplus, least), clients)
        if min_cohort is None:
            # Where this leaves fewer than two honest inputs, so would every other choice.
            min_cohort = max(2, min((clients + bad) // 2 + 1, expected))
        if field is None:
            field = M31 if largest_sum(encoding, clients) < M31.modulus else M61
        return cls(
            clients=clients,
            dim=dim,
            encoding=encoding,
            threshold=threshold,
            corrupt=bad,
            dropout=dropout,
            min_cohort=min_cohort,
            threat=threat,
            field=field,
        )

    @property
    def privacy(self) -> int:
        """T: pieces of noise, and coded shares that say nothing of a mask; at least 1."""
        return max(self.corrupt, 1)

    @property
    def dropouts(self) -> int:
        """D: clients that may be gone by the end."""
        return thresholds.dropouts(self.clients, self.dropout)

    @property
    def code(self) -> MaskCode:
        """The code of the masks."""
        return MaskCode(self.clients, self.threshold, self.privacy, self.field)

    @property
    def honest_inputs(self) -> int:
        """Honest inputs, the client's own included, in any sum learned of it: 2 or more."""
        return self.min_cohort - self.corrupt

    @property
    def signed(self) -> bool:
        """Whether messages are signed: in every threat model but the semi-honest one."""
        return self.threat is not Threat.SEMI_HONEST

    @property
    def word(self) -> np.dtype[Any]:
        """The dtype that holds one field element."""
        return self.field.dtype

    @property
    def bits(self) -> int:
        """Bits of an element on the wire."""
        return self.field.bits

    @property
    def length(self) -> int:
        """Coordinates of the masked vector: `dim`, and one for the weight."""
        return self.encoding.length(self.dim)

    @property
    def piece(self) -> int:
        """Elements of a coded share: ``ceil(length / (U - T))``."""
        return self.code.piece(self.length)

    @property
    def raw_bytes(self) -> float:
        """Bytes of one client's vector as it is: dim * value_bits / 8."""
        return self.dim * self.encoding.value_bits / 8

    def digest(self) -> bytes:
        """Return SHA-256 over the canonical form of every field; it binds all keys and messages."""
        return _digest(self)


def policy_of(params: Params, roster: Any = None) -> Policy:
    """Return the policy that asks for exactly what `params` promises.

    Raises
    ------
    UsageError
        If `params` are none of this protocol, or `roster` no directory of identities.
    """
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "lightsecagg.Params")
    return Policy(min_cohort=params.min_cohort, max_corrupt=params.corrupt, roster=roster)


def least_threshold(clients: int, corrupt: int, threat: Threat) -> int:
    """Return the least U: above T, and above half of N + T where the server may lie."""
    privacy = max(corrupt, 1)
    return max(privacy + 1, (clients + privacy) // 2 + 1 if threat is Threat.ACTIVE else 0)


def largest_sum(encoding: Encoding, clients: int) -> int:
    """Return the largest sum of a coordinate, or of the weights, over all clients.

    Raises
    ------
    CapacityError
        If it would have more than 62 bits.
    """
    encoding.modulus_bits(clients)
    return clients * encoding.max_weight * encoding.levels


@lru_cache(maxsize=64)
def _digest(params: Params) -> bytes:
    """Every message's first check asks for it, and it never changes."""
    named = {one.name: getattr(params, one.name) for one in dataclasses.fields(params)}
    named |= {"encoding": dataclasses.asdict(params.encoding), "field": params.field.modulus}
    return keys.digest(b"privagg lightsecagg params", msgspec.json.encode(named, order="sorted"))
