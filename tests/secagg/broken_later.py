"""Ways to break what a client checks after the keys: bundles, survivor sets and signatures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from broken import (
    ACTIVE,
    CLIENTS,
    COMPLETE,
    MASK,
    ROSTER_CASES,
    SHARE,
    START,
    START_CASES,
    SURVIVE,
    UNMASK,
    WHO,
    Case,
    gone,
    own_slot,
)

from privagg.errors import Abort, PeerError


def one_signer_more(message, at):
    signers = message.signers.copy()
    assert not signers[at]
    row = int(signers[:at].sum())
    signers[at] = True
    return replace(
        message, signers=signers, signatures=np.insert(message.signatures, row, 7, axis=0)
    )


def few_signers(message, count):
    signers = message.signers.copy()
    signers[np.flatnonzero(signers)[count:]] = False
    return replace(message, signers=signers, signatures=message.signatures[:count])


def fewer_present(message, count):
    """Return a bundle with the first `count` ciphertexts, and a cohort to match."""
    present = message.present.copy()
    present[np.flatnonzero(present)[count:]] = False
    return replace(
        message, present=present, ciphertexts=message.ciphertexts[:count], cohort=count + 1
    )


def set_flags(message, flags, cohort=None):
    stated = message.cohort if cohort is None else cohort
    return replace(message, survivors=np.asarray(flags, np.bool_), cohort=stated)


def few_survivors(message, count, own_slot):
    """Return a survivor set of `count` clients in view, the client itself among them."""
    flags = np.zeros(len(message.survivors), np.bool_)
    flags[:count] = True
    if own_slot is not None:
        flags[:count] = False
        flags[[own_slot, *(at for at in range(len(flags)) if at != own_slot)][:count]] = True
    return set_flags(message, flags, count + (own_slot is None))


def more_corrupt(message, play):
    """Return the message as it is, to a client that meanwhile fears more clients."""
    client = play.clients[WHO]
    client._policy = replace(client._policy, min_cohort=6, max_corrupt=4)
    return message


BUNDLE_CASES = {
    "U2 below min_cohort": Case(
        "cohort_is_large_enough",
        MASK,
        lambda m, p: replace(m, cohort=CLIENTS - 1),
        Abort,
        policy={"min_cohort": CLIENTS, "max_corrupt": 0},
    ),
    "more in U2 than were invited": Case(
        "cohort_is_large_enough", MASK, lambda m, p: replace(m, cohort=CLIENTS + 1), PeerError
    ),
    "U2 larger than its ciphertexts": Case(
        "cohort_matches_set",
        MASK,
        lambda m, p: replace(fewer_present(m, 3), cohort=CLIENTS),
        PeerError,
        COMPLETE,
    ),
    "U2 smaller than its ciphertexts": Case(
        "cohort_matches_set", MASK, lambda m, p: replace(m, cohort=3), PeerError
    ),
    "U2 with too few holders": Case(
        "enough_holders",
        MASK,
        lambda m, p: fewer_present(m, 2),
        Abort,
        options={"threshold": 4},
    ),
    "U2 over fewer members": Case(
        "bitmap_covers_roster",
        MASK,
        lambda m, p: replace(m, present=m.present[:-1], ciphertexts=m.ciphertexts[:-1]),
        PeerError,
    ),
    "U2 over more members": Case(
        "bitmap_covers_roster",
        MASK,
        lambda m, p: replace(m, present=np.append(m.present, False)),
        PeerError,
        gone_at=START,
    ),
    "a ciphertext from ourselves": Case(
        "no_ciphertext_to_self",
        MASK,
        lambda m, p: replace(
            m,
            present=np.ones_like(m.present),
            ciphertexts=np.insert(m.ciphertexts, own_slot(p), 0, axis=0),
        ),
        PeerError,
        COMPLETE,
    ),
    "more holders than the threshold bears": Case(
        "threshold_exceeds_equivocation", MASK, more_corrupt, PeerError, ACTIVE
    ),
}

SURVIVOR_CASES = {
    "U3 below min_cohort": Case(
        "cohort_is_large_enough",
        SURVIVE,
        lambda m, p: few_survivors(m, 3, own_slot(p)),
        Abort,
        policy={"min_cohort": CLIENTS, "max_corrupt": 0},
    ),
    "more in U3 than were invited": Case(
        "cohort_is_large_enough", SURVIVE, lambda m, p: replace(m, cohort=2**32 - 1), PeerError
    ),
    "U3 called larger than it is": Case(
        "cohort_matches_set",
        SURVIVE,
        lambda m, p: replace(few_survivors(m, 3, own_slot(p)), cohort=CLIENTS),
        PeerError,
        COMPLETE,
        policy={"min_cohort": 5, "max_corrupt": 0},
    ),
    "U3 called smaller than it is": Case(
        "cohort_matches_set", SURVIVE, lambda m, p: replace(m, cohort=3), PeerError
    ),
    "U3 with too few to answer": Case(
        "enough_holders",
        SURVIVE,
        lambda m, p: replace(few_survivors(m, 3, own_slot(p))),
        Abort,
        options={"threshold": 4},
    ),
    "U3 over fewer members": Case(
        "bitmap_covers_roster",
        SURVIVE,
        lambda m, p: set_flags(m, m.survivors[:-1], m.cohort - 1),
        PeerError,
    ),
    "U3 over more members": Case(
        "bitmap_covers_roster",
        SURVIVE,
        lambda m, p: set_flags(m, np.append(m.survivors, True), m.cohort + 1),
        PeerError,
        gone_at=START,
    ),
    "a survivor outside U2": Case(
        "survivors_within_holders",
        SURVIVE,
        lambda m, p: set_flags(m, np.ones_like(m.survivors), m.cohort + 1),
        PeerError,
        gone_at=SHARE,
    ),
    "we are not in the sum": Case(
        "survivors_include_self",
        SURVIVE,
        lambda m, p: set_flags(m, np.arange(len(m.survivors)) != own_slot(p), m.cohort - 1),
        PeerError,
        COMPLETE,
    ),
}

SIGNATURE_CASES = {
    "a signature flipped": Case(
        "signatures_are_valid",
        UNMASK,
        lambda m, p: replace(m, signatures=m.signatures ^ 1),
        PeerError,
        ACTIVE,
    ),
    "signatures of others than it says": Case(
        "signatures_are_valid",
        UNMASK,
        lambda m, p: replace(m, signatures=np.roll(m.signatures, 1, axis=0)),
        PeerError,
        ACTIVE,
    ),
    "one signature for all": Case(
        "signatures_are_valid",
        UNMASK,
        lambda m, p: replace(m, signatures=np.repeat(m.signatures[:1], CLIENTS, axis=0)),
        PeerError,
        ACTIVE,
    ),
    "too few signatures": Case(
        "enough_holders", UNMASK, lambda m, p: few_signers(m, 3), Abort, ACTIVE
    ),
    "no signatures": Case("enough_holders", UNMASK, lambda m, p: few_signers(m, 0), Abort, ACTIVE),
    "U4 over fewer members": Case(
        "bitmap_covers_roster",
        UNMASK,
        lambda m, p: replace(m, signers=m.signers[:-1], signatures=m.signatures[:-1]),
        PeerError,
        ACTIVE,
    ),
    "a signer that is no survivor": Case(
        "signers_within_survivors",
        UNMASK,
        lambda m, p: one_signer_more(m, gone(p)),
        PeerError,
        ACTIVE,
        gone_at=MASK,
    ),
    "a signer that never shared its keys": Case(
        "signers_within_survivors",
        UNMASK,
        lambda m, p: one_signer_more(m, gone(p)),
        PeerError,
        ACTIVE,
        gone_at=SHARE,
    ),
}

CASES = START_CASES | ROSTER_CASES | BUNDLE_CASES | SURVIVOR_CASES | SIGNATURE_CASES
