"""Ways to break what a client checks after the keys: bundles, survivor sets and signatures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from broken import (
    ACTIVE,
    CLIENTS,
    COMPLETE,
    DRAWN,
    MASK,
    ROSTER_CASES,
    SHARE,
    SIGNED,
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
from privagg.protocols.secagg import derivations


def rows_of(message, rows):
    """Return a signature set with the rows of some signers only, or in another order."""
    views = message.views
    return {
        "signatures": message.signatures[rows],
        "views": None if views is None else views[rows],
    }


def one_signer_more(message, at):
    signers = message.signers.copy()
    assert not signers[at]
    row = int(signers[:at].sum())
    signers[at] = True
    views = message.views
    return replace(
        message,
        signers=signers,
        signatures=np.insert(message.signatures, row, 7, axis=0),
        views=None if views is None else np.insert(views, row, 7, axis=0),
    )


def few_signers(message, count):
    signers = message.signers.copy()
    signers[np.flatnonzero(signers)[count:]] = False
    return replace(message, signers=signers, **rows_of(message, slice(count)))


def fewer_than_t(message, play):
    return few_signers(message, play.params.threshold - 1)


def stand_in(message, play, signature=None, view=None):
    """Return the set with another signature or view of the first signer; see `signed_by`."""
    signatures, views = message.signatures.copy(), message.views.copy()
    if signature is not None:
        signatures[0] = np.frombuffer(signature, np.uint8)
    if view is not None:
        views[0] = np.frombuffer(view, np.uint8)
    return replace(message, signatures=signatures, views=views)


def signed_by(message, play, purpose, view, at=0):
    """Return what the client `at` among the members truly signs of such a view."""
    memory = play.clients[WHO]._memory
    signer = int(memory.members[at])
    statement = derivations.view_statement(purpose, *memory.bound, signer, view)
    return play.identity_of(signer).sign(statement)


def told_we_left(message, play):
    """The first signer's own word that this client is not in the sum."""
    view, place = bytearray(message.views[0].tobytes()), int(play.clients[WHO]._memory.places[0])
    view[place >> 3] &= ~(1 << (place & 7))
    return stand_in(message, play, signed_by(message, play, b"survivors", bytes(view)), bytes(view))


def silenced(message, play, purpose=b"sharers", flip=0, of=0):
    """Return the set with the first signer called silent, by a signature over that purpose."""
    signers, silent = message.signers.copy(), np.zeros_like(message.signers)
    signers[0], silent[0] = False, True
    view = message.views[of].tobytes()
    row = np.frombuffer(signed_by(message, play, purpose, view, of), np.uint8) ^ flip
    return replace(
        message,
        signers=signers,
        **rows_of(message, slice(1, None)),
        silent=silent,
        silent_signatures=row[np.newaxis],
        silent_views=message.views[of : of + 1],
    )


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
    "too few signatures": Case("enough_holders", UNMASK, fewer_than_t, Abort, SIGNED),
    "no signatures": Case("enough_holders", UNMASK, lambda m, p: few_signers(m, 0), Abort, SIGNED),
    "U4 over fewer members": Case(
        "bitmap_covers_roster",
        UNMASK,
        lambda m, p: replace(
            m,
            signers=m.signers[:-1],
            silent=None if m.silent is None else m.silent[:-1],
            **rows_of(m, slice(-1)),
        ),
        PeerError,
        SIGNED,
    ),
    "a signer that is no survivor": Case(
        "signers_within_survivors",
        UNMASK,
        lambda m, p: one_signer_more(m, gone(p)),
        PeerError,
        SIGNED,
        gone_at=MASK,
    ),
    "a signer that never shared its keys": Case(
        "signers_within_survivors",
        UNMASK,
        lambda m, p: one_signer_more(m, gone(p)),
        PeerError,
        SIGNED,
        gone_at=SHARE,
    ),
} | {
    f"{name} ({'views' if 'sem' in kinds[0] else 'sets'})": Case(
        check, UNMASK, lambda m, p, change=change: replace(m, **change(m)), PeerError, kinds
    )
    for check, kinds in (("signatures_are_valid", ACTIVE), ("neighbours_were_told", DRAWN))
    for name, change in {
        "a signature flipped": lambda m: {"signatures": m.signatures ^ 1},
        "signatures of others than it says": lambda m: {
            "signatures": np.roll(m.signatures, 1, axis=0)
        },
        "one signature for all": lambda m: {
            "signatures": np.repeat(m.signatures[:1], len(m.signatures), axis=0)
        },
    }.items()
}

VIEW_CASES = {
    name: Case("neighbours_were_told", UNMASK, change, PeerError, DRAWN)
    for name, change in {
        "a neighbour was told that we left": told_we_left,
        "a view that was not signed": lambda m, p: replace(m, views=m.views ^ 1),
        "a view with a bit beyond the neighbours": lambda m, p: replace(m, views=m.views | 128),
        "another client's signature and view": lambda m, p: stand_in(
            m, p, m.signatures[1].tobytes(), m.views[1].tobytes()
        ),
        "a signature over sharers for survivors": lambda m, p: stand_in(
            m, p, signed_by(m, p, b"sharers", m.views[0].tobytes())
        ),
        "a signature over survivors for sharers": lambda m, p: silenced(m, p, b"survivors"),
        "a silent client's signature flipped": lambda m, p: silenced(m, p, flip=1),
        "another client's for a silent one's": lambda m, p: silenced(m, p, of=1),
    }.items()
}

CASES = START_CASES | ROSTER_CASES | BUNDLE_CASES | SURVIVOR_CASES | SIGNATURE_CASES | VIEW_CASES
