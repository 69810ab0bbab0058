"""Keys that are not their owner's, or not of this round: replaced, swapped, repeated, old."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from attacker import Lax
from parties import ALL, SIGNED, Play, active, complete, due, identity, is_empty_handed, pinned

from privagg import keys
from privagg.errors import PeerError, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import derivations, messages
from privagg.protocols.secagg.states import Phase

CLIENTS = 8
WHO = 2


def advertisement(play, index):
    """Return what a client advertised, as a row of keys and a signature."""
    data = play.up[Phase.ADVERTISE_KEYS, index]
    message = messages.decode(data, play.params, peer=index)
    return message.cipher_key + message.mask_key, message.signature


def fresh(number):
    """Return a pair of keys that nobody in the round has made."""
    halves = (bytes([number, half]) + bytes(30) for half in range(2))
    return b"".join(map(keys.public_key, halves))


def signed_by(signer, play, index, row):
    statement = derivations.advertise_statement(play.server._context, index, row[:32], row[32:])
    return identity(signer).sign(statement)


def forgeries(play, peer, other):
    """Return, by name, a row of keys and a signature that a server might show for `peer`."""
    params = play.params
    row, signature = advertisement(play, peer)
    others_row, others_signature = advertisement(play, other)
    mine = fresh(1)
    halves = row[32:] + row[:32]

    def old(**options):
        earlier = Play(params, **options)
        earlier.exchange()
        return advertisement(earlier, peer)

    return {
        "another client's, signed by it": (others_row, others_signature),
        "another client's, with the signature of these": (others_row, signature),
        "these, with another client's signature": (row, others_signature),
        "new ones, unsigned": (mine, bytes(64)),
        "new ones, with the old signature": (mine, signature),
        "new ones, signed by someone who is not in the roster": (
            mine,
            signed_by(CLIENTS + 50, play, peer, mine),
        ),
        "new ones, signed by another client": (mine, signed_by(other, play, peer, mine)),
        "new ones, signed by another client for itself": (
            mine,
            signed_by(other, play, other, mine),
        ),
        "the two keys swapped": (halves, signature),
        "those of another session": old(session=b"another session."),
        "those of another round": old(round_number=1),
        "those of another cohort": (
            row,
            identity(peer).sign(
                derivations.advertise_statement(bytes(32), peer, row[:32], row[32:])
            ),
        ),
        "these, signed for another index": (row, signed_by(peer, play, peer + 1, row)),
    }


NAMES = list(forgeries(Play(active(CLIENTS)).until(Phase.SHARE_KEYS), 3, 4))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", SIGNED)
def test_a_roster_with_a_key_that_is_not_its_owner_s_is_refused(kind, name):
    play = Play(SIGNED[kind](CLIENTS)).until(Phase.SHARE_KEYS)
    honest = due(play, WHO)
    places = [at for at, member in enumerate(honest.members) if member != WHO]
    for at in places[:2]:
        peer, client = int(honest.members[at]), play.clients[WHO]
        twin = client.dump_state()
        row, signature = forgeries(play, peer, (peer + 3) % CLIENTS)[name]
        rows, signatures = honest.keys.copy(), honest.signatures.copy()
        rows[at] = np.frombuffer(row, np.uint8)
        signatures[at] = np.frombuffer(signature, np.uint8)
        forged = replace(honest, keys=rows, signatures=signatures)
        forged = messages.decode(forged.encode(), play.params, peer="server")
        with pytest.raises(PeerError) as caught:
            client.share_keys(forged)
        # A key that appears twice is the server's doing; else it is said whose key is not right.
        assert caught.value.peer in (peer, "server")
        assert caught.value.peer == peer or "another client's" in name
        assert caught.value.round == "share-keys"
        assert is_empty_handed(client)
        play.clients[WHO] = play.load(WHO, twin)
    play.clients[WHO].share_keys(honest)


@pytest.mark.parametrize("kind", SIGNED)
def test_two_members_rows_swapped_are_refused(kind):
    """Each with its own signature: both are genuine, and neither is of this index."""
    play = Play(SIGNED[kind](CLIENTS)).until(Phase.SHARE_KEYS)
    honest = due(play, WHO)
    one, other = [at for at, member in enumerate(honest.members) if member != WHO][:2]
    order = np.arange(len(honest.members))
    order[[one, other]] = other, one
    forged = replace(honest, keys=honest.keys[order], signatures=honest.signatures[order])
    with pytest.raises(PeerError, match="not signed for this round") as caught:
        play.clients[WHO].share_keys(forged)
    assert caught.value.peer == int(honest.members[one])


@pytest.mark.parametrize("kind", SIGNED)
def test_the_server_refuses_them_and_then_takes_the_right_ones(kind):
    play = Play(SIGNED[kind](CLIENTS))
    play.exchange()
    advertised = {index: advertisement(play, index) for index in range(CLIENTS)}
    play = Play(play.params)
    for index in range(CLIENTS - 1):
        play.hand_in(index, play.answer(index, play.ask(index)))
    peer, tag = CLIENTS - 1, play.server._tag
    play.up |= {(Phase.ADVERTISE_KEYS, peer): play.answer(peer, play.ask(peer))}
    for row, signature in forgeries(play, peer, 0).values():
        if (row, signature) == advertised[peer]:
            continue
        forged = messages.AdvertiseKeys(
            tag=tag, cipher_key=row[:32], mask_key=row[32:], signature=signature
        )
        with pytest.raises(PeerError) as caught:
            play.server.receive(peer, forged)
        assert (caught.value.peer, caught.value.round) == (peer, "advertise-keys")
    assert play.hand_in(peer, play.up[play.phase, peer]) is secagg.Receipt.ACCEPTED
    play.server.close()
    np.testing.assert_array_equal(play.finish().total, play.vectors.sum(axis=0))


@pytest.mark.parametrize("kind", SIGNED)
def test_an_index_that_is_not_ours_gets_no_keys(kind):
    """The server numbers the clients; the roster says which number is whose."""
    play = Play(SIGNED[kind](CLIENTS))
    for index in range(CLIENTS):
        client = play.new_client(WHO)
        if index == WHO:
            client.advertise_keys(play.server.start(index))
            continue
        with pytest.raises(PeerError, match=f"index {index} is another identity's"):
            client.advertise_keys(play.server.start(index))
        assert is_empty_handed(client)
    stranger = secagg.Client(play.params, play.policy, identity=identity(99))
    with pytest.raises(PeerError, match="is another identity's"):
        stranger.advertise_keys(play.server.start(0))


@pytest.mark.parametrize("kind", SIGNED)
def test_a_server_with_another_roster_gets_no_keys(kind):
    """One identity replaced, or two swapped: the roster's digest is in everything."""
    params = SIGNED[kind](CLIENTS)
    identities = list(pinned(CLIENTS).identities)
    for other in (
        [identity(99).public, *identities[1:]],
        [identities[1], identities[0], *identities[2:]],
    ):
        start = secagg.Server(params, roster=secagg.Roster(other)).start(WHO)
        client = Play(params).clients[WHO]
        with pytest.raises(PeerError, match="another session, round or configuration"):
            client.advertise_keys(start)
        assert is_empty_handed(client)


class Puppeteer(Play):
    """A server that plays everyone but one client itself, with zeros as their inputs."""

    def __init__(self, params):
        self.victim = WHO
        super().__init__(params, vectors=np.zeros((params.clients, params.dim), int))

    def __post_init__(self):
        super().__post_init__()
        if not self.params.signed:
            return
        lax = Lax(self.roster)
        self.server = secagg.Server(self.params, roster=lax, entropy=self.source.spawn("server"))
        puppets = replace(self.policy, roster=lax)
        for index in range(self.params.clients):
            if index != WHO:
                self.clients[index] = secagg.Client(
                    self.params,
                    puppets,
                    identity=identity(index + 100),
                    entropy=self.source.spawn(f"client/{index}"),
                )


@pytest.mark.parametrize("kind", ["complete", "sparse"])
def test_without_identities_a_server_can_play_everyone_else(kind):
    """Semi-honest: the sum over a full cohort is the input of the one client that is real."""
    play = Puppeteer(ALL[kind](CLIENTS))
    secret = np.arange(play.params.dim) + 1234
    play.vectors[WHO] = secret
    np.testing.assert_array_equal(play.finish().total, secret)


@pytest.mark.parametrize("kind", SIGNED)
def test_with_identities_it_cannot(kind):
    """The puppets sign with identities of the server's; it does not mind, the client does."""
    play = Puppeteer(SIGNED[kind](CLIENTS)).until(Phase.SHARE_KEYS)
    with pytest.raises(PeerError, match="not signed for this round"):
        play.clients[WHO].share_keys(due(play, WHO))
    assert is_empty_handed(play.clients[WHO])


def test_another_pki_is_a_directory_and_a_signer():
    """Any object with the methods will do: here each signature is a certificate's and checked."""

    class Certificates:
        def __init__(self, roster):
            self.roster, self.asked = roster, []

        def __len__(self):
            return len(self.roster)

        def verify(self, client, message, signature):
            self.asked.append(client)
            return self.roster.verify(client, message, signature)

        def digest(self):
            return keys.digest(b"certificates", self.roster.digest())

    class Card:
        def __init__(self, index):
            self.index = index

        def sign(self, message):
            return identity(self.index).sign(message)

    directory = Certificates(pinned(5))
    params = active(5)
    result = secagg.run(
        params,
        np.ones((5, params.dim), int),
        identities=[Card(index) for index in range(5)],
        roster=directory,
    )
    assert result.exact
    assert set(directory.asked) == set(range(5))
    with pytest.raises(UsageError, match="roster"):
        secagg.Policy(min_cohort=2, max_corrupt=0, roster=object())
    with pytest.raises(UsageError, match="identity"):
        secagg.Client(complete(5), identity=Card(0))
