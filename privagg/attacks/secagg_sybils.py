"""Who is really in the cohort: identities in a transcript against a roster that one trusts.

A server that fills a cohort with clients of its own learns the sum of the others (with all but one,
an input): no secure aggregation stops that, only knowing who is in the cohort does.
"""

from __future__ import annotations

from dataclasses import dataclass

from privagg.attacks.secagg_replay import Record
from privagg.protocols.secagg import derivations
from privagg.protocols.secagg.identity import Roster
from privagg.protocols.secagg.messages import AdvertiseKeys

__all__ = ["Sybils", "find_sybils"]


@dataclass(frozen=True, kw_only=True)
class Sybils:
    """The cohort (U1: who advertised keys) against the roster that is trusted.

    Attributes
    ----------
    signed : bool
        Whether the threat model has identities at all.
    pinned : bool
        Whether a trusted roster was given, beside the one in the transcript.
    cohort : tuple of int
        Who advertised keys.
    vouched : tuple of int
        Whose keys are signed by an identity of the trusted roster.
    unsigned : tuple of int
        Whose keys nobody signed, as the threat model has no signatures.
    forged : tuple of int
        Whose keys have a signature that is not of the identity at their index.
    signed_by_another : dict of int to int
        Of the forged: the index whose identity signed instead.
    unknown : tuple of int
        Whose identity is not in the trusted roster.
    missing : tuple of int
        Indices of the trusted roster that advertised no keys.
    strangers : tuple of int
        Indices in the transcript that the parameters do not have.
    """

    signed: bool
    pinned: bool
    cohort: tuple[int, ...]
    vouched: tuple[int, ...]
    unsigned: tuple[int, ...]
    forged: tuple[int, ...]
    signed_by_another: dict[int, int]
    unknown: tuple[int, ...]
    missing: tuple[int, ...]
    strangers: tuple[int, ...]

    @property
    def outside(self) -> tuple[int, ...]:
        """Clients that count as the server's: forged or unknown."""
        return tuple(sorted({*self.forged, *self.unknown}))

    @property
    def share_outside(self) -> float:
        """Fraction of the cohort that nobody vouches for; 1 where nothing is signed."""
        return 1 - len(self.vouched) / len(self.cohort) if self.cohort else 0.0


def find_sybils(record: Record, roster: Roster | None, pinned: Roster | None) -> Sybils:
    """Compare the cohort with the rosters.

    Parameters
    ----------
    record : Record
        The transcript, read again.
    roster : Roster, optional
        By which the round's messages are signed.
    pinned : Roster, optional
        Whom the auditor trusts; by default `roster`.

    Returns
    -------
    Sybils
    """
    cohort = record.have_said(AdvertiseKeys)
    trusted = roster if pinned is None else pinned
    signed = record.rules.params.signed
    forged: list[int] = []
    by_another: dict[int, int] = {}
    unknown: list[int] = []
    missing: list[int] = []
    if signed and roster is not None and trusted is not None:
        known = set(trusted.identities)
        for client in cohort:
            statement, signature = _statement(record, client)
            if not roster.verify(client, statement, signature):
                forged.append(client)
                others = (place for place in range(len(roster)) if place != client)
                for other in others:
                    if roster.verify(other, statement, signature):
                        by_another[client] = other
                        break
            if roster.identities[client] not in known:
                unknown.append(client)
        outside = {*forged, *unknown}
        here = {roster.identities[client] for client in cohort if client not in outside}
        listed = enumerate(trusted.identities)
        missing = [place for place, identity in listed if identity not in here]
    elif trusted is not None:
        missing = [place for place in range(len(trusted)) if place not in cohort]
    outside = {*forged, *unknown}
    return Sybils(
        signed=signed,
        pinned=pinned is not None,
        cohort=cohort,
        vouched=tuple(c for c in cohort if c not in outside) if signed else (),
        unsigned=() if signed else cohort,
        forged=tuple(forged),
        signed_by_another=by_another,
        unknown=tuple(unknown),
        missing=tuple(missing),
        strangers=record.strangers,
    )


def _statement(record: Record, client: int) -> tuple[bytes, bytes]:
    """Return what the client signed in round 0, and its signature."""
    shadow = record.shadows[client]
    message = shadow.has_said(AdvertiseKeys)
    if message is None:
        return b"", b""
    pair = (message.cipher_key, message.mask_key)
    statement = derivations.advertise_statement(shadow.memory.context, client, *pair)
    return statement, message.signature
