"""Wrong and missing shares: corrected while there is a surplus, blamed rightly, never believed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from parties import ALL, Play, active, complete, drawn, sparse

from privagg import sharing
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.states import Phase

PRIME = 2**61 - 1

MAKE = {
    "complete": complete(9, 2, threshold=3, corrupt=1 / 9),
    "active": active(9, 2, threshold=6, corrupt=1 / 9),
    "sparse": sparse(14, 2, neighbours=8, threshold=3, corrupt=1 / 14),
    "semi-malicious": drawn(14, 2, neighbours=10, threshold=7, corrupt=1 / 14),
}
"""The active model needs 2t > N + corrupt, so that it has least to spare: 9 shares correct 1."""


def spare(params):
    """Return how many wrong shares of one secret are corrected when nobody leaves."""
    received = params.neighbours + (params.graph.value == "complete")
    return (received - params.threshold) // 2


class Liars:
    """Changes what some holders say of some dealers' secrets."""

    def __init__(self, play, pairs, seed=1):
        self.play, self.pairs = play, set(pairs)
        self.rng = np.random.default_rng(seed)

    def __call__(self, index, data):
        message = messages.decode(data, self.play.params, peer=index)
        shares = message.shares.copy()
        memory = self.play.clients[index]._memory
        members = [int(member) for member in memory.members[memory.holders]]
        for row, dealer in enumerate(members):
            if (dealer, index) in self.pairs and not message.missing[row]:
                noise = self.rng.integers(1, PRIME, 3, np.uint64)
                shares[row] = (shares[row] + noise) % np.uint64(PRIME)
        return replace(message, shares=shares).encode()


def holders_of(play, dealer):
    """Return who holds a share of the dealer's secrets, in the order in which they are used."""
    row = [int(holder) for holder in play.server._topology.row(dealer)]
    return sorted([*row, dealer]) if play.params.graph.value == "complete" else row


def outcome(play, up=None):
    """Close the last round: the total, or None if a secret could not be rebuilt."""
    play.exchange(up=up)
    reason = "cannot be rebuilt"
    try:
        play.server.close()
    except PeerError as error:
        reason = error.reason
    assert "cannot be rebuilt" in reason
    return None if play.phase is Phase.ABORTED else play.server.result().total


def blamed(play, reason="wrong share"):
    return {(b.dealer, b.holder) for b in play.server.blame if b.reason == reason}


@pytest.mark.parametrize("left", [False, True], ids=["self mask", "mask key"])
@pytest.mark.parametrize("kind", MAKE)
def test_as_many_as_the_surplus_corrects_are_corrected_and_named(kind, left):
    """Of either kind of secret; the first share that is used is among the wrong ones."""
    params, dealer = MAKE[kind], 4
    leaves = {dealer: Phase.MASKED_INPUT} if left else {}
    stayed = [index for index in range(params.clients) if index not in leaves]
    at_most = spare(params)
    if left and kind in ("complete", "active"):
        at_most = (params.clients - 1 - params.threshold) // 2
    assert at_most >= 1
    for count in range(1, at_most + 1):
        play = Play(params, leaves=leaves).until(Phase.UNMASKING)
        holders = [holder for holder in holders_of(play, dealer) if holder != dealer]
        wrong = {(dealer, holder) for holder in holders[:count]}
        total = outcome(play, Liars(play, wrong))
        np.testing.assert_array_equal(total, play.vectors[stayed].sum(axis=0))
        assert blamed(play) == wrong
        assert len(play.server.blame) == count


@pytest.mark.parametrize("kind", MAKE)
def test_one_more_is_refused_and_never_gives_a_wrong_sum(kind):
    params, dealer = MAKE[kind], 4
    for count in range(spare(params) + 1, params.threshold + spare(params) + 1):
        play = Play(params).until(Phase.UNMASKING)
        holders = holders_of(play, dealer)
        total = outcome(play, Liars(play, {(dealer, holder) for holder in holders[:count]}))
        assert total is None
        assert play.phase is Phase.ABORTED


@pytest.mark.parametrize("kind", MAKE)
def test_any_wrong_shares_anywhere_give_the_right_sum_or_none(kind):
    """At random: holders, dealers, numbers. Whoever is blamed did send a wrong share."""
    params, outcomes = MAKE[kind], []
    rng = np.random.default_rng(5)
    for trial in range(15):
        play = Play(params).until(Phase.UNMASKING)
        pairs = [(d, h) for d in range(params.clients) for h in holders_of(play, d)]
        chance = rng.choice([0.02, 0.1, 0.3])
        wrong = {pair for pair in pairs if rng.random() < chance}
        total = outcome(play, Liars(play, wrong, trial))
        outcomes.append(total is None)
        if total is not None:
            np.testing.assert_array_equal(total, play.vectors.sum(axis=0))
            assert blamed(play) <= wrong
    assert set(outcomes) == {True, False}


def garble(play, pairs):
    """Make the ciphertexts of some dealers to some holders unreadable on their way."""

    def down(index, data):
        bundle = messages.decode(data, play.params, peer="server")
        columns = bundle.ciphertexts.copy()
        members = play.clients[index]._memory.members[bundle.present]
        for row, dealer in enumerate(map(int, members)):
            if (dealer, index) in pairs:
                columns[row] ^= 0xFF
        return replace(bundle, ciphertexts=columns).encode()

    return down


@pytest.mark.parametrize("kind", MAKE)
def test_missing_and_wrong_shares_together(kind):
    """A missing share costs one of the surplus, a wrong one two."""
    params, dealer = MAKE[kind], 4
    received = params.neighbours + (params.graph.value == "complete")
    for missing in range(received - params.threshold + 1):
        correctable = (received - missing - params.threshold) // 2
        for wrong in {0, correctable, correctable + 1}:
            play = Play(params).until(Phase.MASKED_INPUT)
            # Its own share cannot be missing: nobody sent it to the dealer.
            holders = [holder for holder in holders_of(play, dealer) if holder != dealer]
            lost = {(dealer, holder) for holder in holders[len(holders) - missing :]}
            lies = {(dealer, holder) for holder in holders[:wrong]}
            play.step(down=garble(play, lost))
            play.until(Phase.UNMASKING)
            total = outcome(play, Liars(play, lies))
            if wrong > correctable:
                assert total is None
                continue
            np.testing.assert_array_equal(total, play.vectors.sum(axis=0))
            assert blamed(play, "ciphertext does not open") == lost
            assert blamed(play) == lies


@pytest.mark.parametrize("kind", MAKE)
def test_more_missing_than_the_surplus_end_the_round(kind):
    params, dealer = MAKE[kind], 4
    received = params.neighbours + (params.graph.value == "complete")
    play = Play(params).until(Phase.MASKED_INPUT)
    holders = [holder for holder in holders_of(play, dealer) if holder != dealer]
    lost = {(dealer, holder) for holder in holders[: received - params.threshold + 1]}
    play.step(down=garble(play, lost))
    play.until(Phase.UNMASKING).exchange()
    with pytest.raises(PeerError, match="cannot be rebuilt") as caught:
        play.server.close()
    assert (caught.value.peer, caught.value.round) == (dealer, "unmasking")


@pytest.mark.parametrize("kind", MAKE)
def test_a_client_that_could_open_too_few_gives_up(kind):
    params = MAKE[kind]
    play = Play(params).until(Phase.MASKED_INPUT)
    lost = {(dealer, 2) for dealer in range(params.clients)}
    data = garble(play, lost)(2, play.ask(2))
    with pytest.raises(Abort, match="too few hold shares"):
        play.answer(2, data)


# Who is it?


@pytest.mark.parametrize("kind", MAKE)
def test_a_holder_that_is_wrong_about_many_dealers_is_named(kind):
    """More dealers than may be corrupt: that they all framed it is ruled out."""
    params, liar = MAKE[kind], 0  # the first, whose shares are always used
    assert params.corrupt == 1
    play = Play(params).until(Phase.UNMASKING)
    dealers = {dealer for dealer in range(params.clients) if liar in holders_of(play, dealer)}
    wrong = {(dealer, liar) for dealer in dealers - {liar}}
    total = outcome(play, Liars(play, wrong))
    np.testing.assert_array_equal(total, play.vectors.sum(axis=0))
    assert blamed(play) == wrong
    assert {blame.verdict for blame in play.server.blame} == {"holder"}


@pytest.mark.parametrize("kind", ["complete", "sparse"])
def test_a_dealer_that_is_wrong_to_many_holders_is_named(kind, monkeypatch):
    """It deals bad shares, correctly encrypted, to two; the holders pass on what they got."""
    params, dealer = MAKE[kind], 4
    assert spare(params) >= 2
    play = Play(params).until(Phase.SHARE_KEYS)
    victims = [holder for holder in holders_of(play, dealer) if holder != dealer][:2]
    original = sharing.split

    def deal(secrets, threshold, points, entropy):
        shares = original(secrets, threshold, points, entropy)
        bad = np.isin(points, np.array(victims) + 1)
        noise = np.random.default_rng(2).integers(1, PRIME, shares[bad].shape, np.uint64)
        shares[bad] = (shares[bad] + noise) % np.uint64(PRIME)
        return shares

    for index in play.present():
        with monkeypatch.context() as patch:
            if index == dealer:
                patch.setattr(sharing, "split", deal)
            play.hand_in(index, play.answer(index, play.ask(index)))
    play.server.close()
    play.until(Phase.UNMASKING)
    total = outcome(play)
    np.testing.assert_array_equal(total, play.vectors.sum(axis=0))
    assert blamed(play) == {(dealer, holder) for holder in victims}
    assert {blame.verdict for blame in play.server.blame} == {"dealer"}


@pytest.mark.parametrize("kind", MAKE)
def test_unreadable_ciphertexts_to_many_are_the_dealer_s_and_of_many_the_holder_s(kind):
    """Given that the server relays them: it could garble them itself, and knows whether it did."""
    params = MAKE[kind]
    for side, verdict in (("dealer", "dealer"), ("holder", "holder")):
        play = Play(params).until(Phase.MASKED_INPUT)
        near = [holder for holder in holders_of(play, 4) if holder != 4][:2]
        pairs = {(4, other) if side == "dealer" else (other, 4) for other in near}
        play.step(down=garble(play, pairs))
        total = outcome(play.until(Phase.UNMASKING))
        np.testing.assert_array_equal(total, play.vectors.sum(axis=0))
        assert blamed(play, "ciphertext does not open") == pairs
        assert {blame.verdict for blame in play.server.blame} == {verdict}


@pytest.mark.parametrize("kind", ALL)
def test_one_wrong_pair_is_nobody_s_for_certain(kind):
    params = MAKE[kind]
    play = Play(params).until(Phase.UNMASKING)
    dealer = next(d for d in range(1, params.clients) if holders_of(play, d)[0] != d)
    holder = holders_of(play, dealer)[0]
    outcome(play, Liars(play, {(dealer, holder)}))
    (blame,) = play.server.blame
    assert (blame.dealer, blame.holder, blame.verdict) == (dealer, holder, "dealer or holder")


def test_as_many_complaints_as_may_be_corrupt_name_no_one():
    """Two dealers of two corrupt ones can frame a holder; three cannot."""
    params = complete(9, 2, threshold=3, corrupt=2 / 9)
    for count, verdict in ((2, "dealer or holder"), (3, "holder")):
        play = Play(params).until(Phase.UNMASKING)
        outcome(play, Liars(play, {(dealer, 0) for dealer in range(1, count + 1)}))
        assert {blame.verdict for blame in play.server.blame} == {verdict}
        assert len(play.server.blame) == count


def test_a_sum_that_no_inputs_can_have_ends_the_round_for_good():
    """Words outside the encoding: the sum is refused, and closing again does not change it."""
    params = complete(3, 2, value_bits=1)  # two bits: from two inputs of 1, a sum of 3 is none

    def poison(index, data):
        message = messages.decode(data, params, peer=index)
        if not isinstance(message, messages.MaskedInput) or index != 2:
            return data
        low = np.uint32(2**params.modulus_bits - 1)
        return replace(message, vector=(message.vector + np.uint32(1)) & low).encode()

    gone = {0: Phase.MASKED_INPUT}
    play = Play(params, vectors=np.ones((3, 2), int), leaves=gone).until(Phase.MASKED_INPUT)
    play.step(up=poison)
    play.exchange()
    with pytest.raises(PeerError, match="words outside the encoding"):
        play.server.close()
    assert play.phase is Phase.ABORTED
    with pytest.raises(UsageError, match="an open one"):
        play.server.close()
    with pytest.raises(UsageError, match="result"):
        play.server.result()
