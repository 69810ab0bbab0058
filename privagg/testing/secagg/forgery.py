"""What liars make: keys, rosters, sets of clients and false answers, out of true ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import field, keys
from privagg.protocols.secagg import Graph, Phase, derivations, layout, tiles
from privagg.protocols.secagg.messages import (
    AdvertiseKeys,
    KeyRoster,
    MaskedInput,
    Message,
    ShareBundle,
    SignatureSet,
    SurvivorSet,
)
from privagg.testing.secagg.arena import Arena, Inapplicable

__all__ = [
    "Forge",
    "Pair",
    "Sent",
    "attackers_keys",
    "bundle",
    "correctable",
    "fewer",
    "keep",
    "lie_in",
    "members_of",
    "open_with_keys",
    "other_elements",
    "other_set",
    "others",
    "peers",
    "random_rows",
    "replace_row",
    "signature_set",
    "signed_as",
    "sign_survivors",
    "some_signers",
    "view_of",
    "words_of",
    "survivor_set",
    "without",
]

Pair = tuple[bytes, bytes]
"""Public keys c and s."""
Forge = Callable[[int, Pair, Pair], Pair]
"""A colluder's place among them, its own keys and the victim's to what it advertises."""
Sent = Iterable[Message | bytes]
"""What a client sends in the place of one answer."""


def attackers_keys(label: bytes) -> Pair:
    """Return two public keys whose private keys the liar knows."""
    return keys.public_key(keys.digest(label, b"c")), keys.public_key(keys.digest(label, b"s"))


def open_with_keys(arena: Arena, forge: Forge) -> KeyRoster:
    """Play until keys are shared, the colluders' keys forged and signed; return the roster."""
    victims = arena.exchange(arena.victim)
    assert isinstance(victims, AdvertiseKeys)
    theirs = victims.cipher_key, victims.mask_key
    for index in arena.present():
        if index == arena.victim:
            continue
        if index not in arena.colluders:
            arena.exchange(index)
            continue
        message = arena.reply(index, arena.ask(index))
        assert isinstance(message, AdvertiseKeys)
        place = arena.colluders.index(index)
        pair = forge(place, (message.cipher_key, message.mask_key), theirs)
        arena.server.admit(index, signed_as(arena, message, index, index, pair))
    arena.server.close()
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    arena.peer_of_victim(roster)
    assert isinstance(roster, KeyRoster)
    return roster


def signed_as(
    arena: Arena, message: AdvertiseKeys, signer: int, index: int, pair: Pair
) -> AdvertiseKeys:
    """Return keys for `index` with the signature of `signer`, where there are signatures."""
    signature = b""
    if arena.params.signed:
        statement = derivations.advertise_statement(arena.context, index, *pair)
        signature = arena.identities[signer].sign(statement)
    return replace(message, cipher_key=pair[0], mask_key=pair[1], signature=signature)


def replace_row(
    roster: KeyRoster, place: int, pair: Pair, signature: bytes | None = None
) -> KeyRoster:
    """Return the roster with other keys (and signature) for one member."""
    rows = roster.keys.copy()
    rows[place] = np.frombuffer(b"".join(pair), np.uint8)
    signatures = roster.signatures
    if signature is not None and signatures is not None:
        signatures = signatures.copy()
        signatures[place] = np.frombuffer(signature, np.uint8)
    return replace(roster, keys=rows, signatures=signatures)


def keep(roster: KeyRoster, kept: NDArray[np.bool_], cohort: int | None = None) -> KeyRoster:
    """Return the roster of some of its members."""
    members = roster.members[kept]
    stated = len(members) if roster.universe else len(members) + 1
    proof = roster.proof
    return replace(
        roster,
        cohort=stated if cohort is None else cohort,
        members=members,
        keys=roster.keys[kept],
        signatures=None if roster.signatures is None else roster.signatures[kept],
        proof=None if proof is None else replace(proof, paths=proof.paths[kept]),
    )


def lie_in(
    arena: Arena, phase: Phase, lie: Callable[[int, Any], Sent], *, last: bool = False
) -> None:
    """Play a round in which the first (or `last`) colluder sends something else in one round."""
    arena.liars = {arena.colluders[-1 if last else 0]}
    arena.play(lambda at, index, reply: lie(index, reply) if at is phase else [reply])


def random_rows(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return other bytes of the same shape."""
    return rows ^ np.uint8(0xA5)


def other_elements(shares: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return other field elements in each place."""
    return (shares + np.uint64(1)) % np.uint64(field.M61.modulus)


def correctable(arena: Arena) -> None:
    """Ask for parameters that let one wrong share be corrected."""
    if arena.params.holders - arena.params.threshold < 2:
        raise Inapplicable("two shares more than the threshold are needed to correct one")


def bundle(arena: Arena) -> ShareBundle:
    """Play until the victim is due its ciphertexts, and return them."""
    arena.until(Phase.MASKED_INPUT)
    found = arena.due()
    assert isinstance(found, ShareBundle)
    return found


def survivor_set(arena: Arena) -> SurvivorSet:
    """Play until the victim is due the survivor set, and return it."""
    arena.until(Phase.CONSISTENCY_CHECK if arena.params.signed else Phase.UNMASKING)
    found = arena.due()
    assert isinstance(found, SurvivorSet)
    return found


def others(arena: Arena, members: NDArray[np.uint32], flags: NDArray[np.bool_]) -> Any:
    """Return the places of the victim's peers that are flagged."""
    return np.flatnonzero(flags & (members != arena.victim))


def members_of(arena: Arena) -> NDArray[np.uint32]:
    """Return the roster that the victim was shown."""
    found: NDArray[np.uint32] = arena.rosters[arena.victim].members
    return found


def fewer(message: ShareBundle, places: NDArray[np.intp], cohort: int) -> ShareBundle:
    """Return the bundle without the ciphertexts of some members."""
    present = message.present.copy()
    rows = np.cumsum(present)[places] - 1
    present[places] = False
    columns = np.delete(message.ciphertexts, rows, axis=0)
    return replace(message, present=present, ciphertexts=columns, cohort=cohort)


def without(message: SurvivorSet, places: NDArray[np.intp], cohort: int) -> SurvivorSet:
    """Return the survivor set without some members."""
    flags = message.survivors.copy()
    flags[places] = False
    return replace(message, survivors=flags, cohort=cohort)


def peers(arena: Arena, message: SurvivorSet) -> NDArray[np.intp]:
    """Return the places of the surviving peers."""
    found: NDArray[np.intp] = others(arena, members_of(arena), message.survivors)
    return found


def other_set(arena: Arena, message: SurvivorSet) -> SurvivorSet:
    """Return the survivor set with one peer called gone."""
    return without(message, peers(arena, message)[:1], message.cohort - 1)


def signature_set(arena: Arena) -> SignatureSet:
    """Play until the victim is due the signatures of the others, and return them."""
    arena.until(Phase.UNMASKING)
    found = arena.due()
    assert isinstance(found, SignatureSet)
    return found


def words_of(arena: Arena, message: MaskedInput) -> NDArray[Any]:
    """Return the words of a masked vector, however it is kept."""
    words: NDArray[Any] = np.zeros(arena.params.length, arena.params.word)
    tiles.add(words, message.vector)
    return words


def some_signers(message: SignatureSet, flags: NDArray[np.bool_]) -> SignatureSet:
    """Return the signatures of some of the signers."""
    kept = flags[message.signers]
    views = None if message.views is None else message.views[kept]
    return replace(message, signers=flags, signatures=message.signatures[kept], views=views)


def view_of(arena: Arena, client: int) -> bytes:
    """Return the view of its neighbours that an honest server shows a client (sparse graph)."""
    survivors = arena.server.survivors()["masked-input"]
    flags = np.isin(arena.rosters[client].members, survivors)
    return layout.pack_view(flags, arena.params)


def sign_survivors(arena: Arena, client: int) -> bytes:
    """Return a client's signature over what an honest server shows of who survived."""
    bound = arena.context, arena.server.roster_digest, arena.models[arena.victim]
    survived = arena.server.survivors()
    if arena.params.graph is Graph.SPARSE:
        said = derivations.view_statement(b"survivors", *bound, client, view_of(arena, client))
    else:
        sets = (np.array(survived[name], np.uint32) for name in ("share-keys", "masked-input"))
        said = derivations.survivor_statement(*bound, *sets)
    return arena.identities[client].sign(said)
