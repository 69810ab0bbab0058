"""Wrong coded sums: noticed with U + 1 answers, corrected with U + 2e; shares that do not open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsa_parties import Play, active, honest, plus_one

from privagg import entropy, field
from privagg.errors import Abort, PeerError
from privagg.field import GOLDILOCKS, M31, M61, prime_field
from privagg.protocols.lightsecagg import Blame, MaskCode, Phase, client_work, messages
from privagg.protocols.lightsecagg.recovery import recover

FIELDS = [M31, M61, GOLDILOCKS, prime_field(2**31 + 11)]


def tampered(params, who):
    return lambda index, reply: plus_one(params, reply) if index in who else reply


@pytest.mark.parametrize("value_bits", [16, 30], ids=["m31", "m61"])
@pytest.mark.parametrize("make", [honest, active], ids=["semi-honest", "active"])
def test_one_wrong_sum_with_two_answers_to_spare_is_corrected(make, value_bits):
    params = make(7, 9, threshold=5, value_bits=value_bits)
    play = Play(params).until(Phase.UNMASKING)
    play.collect(tampered(params, {3}))
    play.server.close()
    assert np.array_equal(play.server.result().total, play.plain_sum())
    assert play.server.blame == (Blame(dealer=None, holder=3, reason="wrong coded sum"),)


def test_one_wrong_sum_with_one_answer_to_spare_is_noticed():
    params = honest(7, 9, threshold=6)
    for who in range(7):
        play = Play(params).until(Phase.UNMASKING)
        play.collect(tampered(params, {who}))
        with pytest.raises(PeerError, match="correct 0 wrong ones, and more are wrong"):
            play.server.close()
        assert play.server.phase is Phase.ABORTED


def test_without_an_answer_to_spare_a_wrong_sum_is_not_noticed():
    """What the surplus is for."""
    params = honest(7, 9, threshold=7)
    play = Play(params).until(Phase.UNMASKING)
    play.collect(tampered(params, {3}))
    play.server.close()
    assert not np.array_equal(play.server.result().total, play.plain_sum())
    assert play.server.blame == ()


def test_words_outside_the_encoding_are_noticed():
    params = honest(3, 2, threshold=3, value_bits=2)
    play = Play(params).until(Phase.MASKED_INPUT)

    def far(index, reply):
        message = messages.MaskedInput.decode(reply, params, peer=index)
        shift = np.full(2, 2**30, np.uint32)
        return replace(message, vector=field.add(message.vector, shift, M31)).encode()

    play.collect(far)
    play.server.close()
    play.collect()
    with pytest.raises(PeerError, match="words outside the encoding, or a wrong coded sum"):
        play.server.close()


def test_more_wrong_sums_than_can_be_corrected_are_noticed():
    params = honest(9, 4, threshold=5)  # corrects two, notices three
    play = Play(params).until(Phase.UNMASKING)
    play.collect(tampered(params, {1, 2, 5}))
    with pytest.raises(PeerError, match="9 coded sums with U = 5 correct 2 wrong ones"):
        play.server.close()


@settings(deadline=None, max_examples=40)
@given(data=st.data(), of=st.sampled_from(FIELDS))
def test_recovery_finds_up_to_half_the_surplus(data, of):
    needed = data.draw(st.integers(2, 6))
    answers = data.draw(st.integers(needed, needed + 5))
    code = MaskCode(12, needed, 1, of)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    length = data.draw(st.integers(1, 9))

    def draw(*shape):
        return field.uniform(entropy.from_seed(int(rng.integers(2**32))), shape, of)

    mask = draw(length)
    holders = rng.permutation(12)[:answers]
    sums = code.split(mask, draw(1, code.piece(length)))[holders]
    most = (answers - needed) // 2
    wrong = rng.permutation(answers)[: data.draw(st.integers(0, most))]
    for place in wrong:
        column = rng.integers(sums.shape[1])
        sums[place, column] = (int(sums[place, column]) + 1 + int(rng.integers(9))) % of.modulus
    found = recover(code, sums, holders, length, entropy.OS)
    assert np.array_equal(found.masks, mask)
    assert np.array_equal(np.flatnonzero(found.wrong), np.sort(wrong))
    assert found.checked == answers - needed


def break_ciphertexts(params, dealer, peers):
    """Play to masked inputs with the dealer's ciphertexts for some peers spoiled."""
    play = Play(params).until(Phase.SHARE_MASKS)

    def alter(index, reply):
        if index != dealer:
            return reply
        message = messages.ShareMasks.decode(reply, params, peer=index)
        rows = message.ciphertexts.copy()
        for peer in peers:
            rows[peer - (peer > dealer), 0] ^= 1
        return messages.ShareMasks(tag=message.tag, ciphertexts=rows).encode()

    play.collect(alter)
    play.server.close()
    return play


@pytest.mark.parametrize("make", [honest, active], ids=["semi-honest", "active"])
def test_a_share_that_does_not_open_costs_an_answer_and_not_the_round(make):
    params = make(6, 4, threshold=4)
    play = break_ciphertexts(params, 2, [4])
    play.until(Phase.UNMASKING)
    assert 4 not in play.server.alive()
    assert 4 in play.server.survivors()["masked-input"]
    assert np.array_equal(play.finish().total, play.plain_sum())
    assert play.server.blame == (Blame(dealer=2, holder=4, reason="ciphertext does not open"),)


def test_a_dealer_of_many_spoiled_shares_is_named():
    params = honest(7, 4, threshold=4, corrupt=1 / 7, min_cohort=3)
    play = break_ciphertexts(params, 2, [0, 1, 3, 4, 5])
    play.collect()
    with pytest.raises(PeerError, match="did not open at more clients than may be corrupt") as it:
        play.server.close()
    assert it.value.peer == 2
    assert {one.verdict for one in play.server.blame} == {"dealer"}


def test_too_few_holders_of_every_mask_abort_where_nobody_is_sure():
    params = honest(5, 4, threshold=4, corrupt=2 / 5, min_cohort=4, dropout=0.2)
    play = break_ciphertexts(params, 2, [0, 4])
    play.collect()
    with pytest.raises(Abort, match="too few hold a share of every mask") as it:
        play.server.close()
    assert (it.value.alive, it.value.needed) == (3, 4)


def play_with_false_dealer(params, dealer, holders, monkeypatch):
    """Play to the end of unmasking; `dealer` gives `holders` shares that lie on no polynomial."""
    original = client_work.draw_mask

    def false(params, source):
        mask, shares = original(params, source)
        shares = shares.copy()
        shares[holders] = field.uniform(source, shares[holders].shape, params.field)
        return mask, shares

    play = Play(params).until(Phase.SHARE_MASKS)
    for index in range(params.clients):
        with monkeypatch.context() as patch:
            if index == dealer:
                patch.setattr(client_work, "draw_mask", false)
            reply = play.answer(index, play.say(index))
        play.deliver(index, reply)
    play.server.close()
    play.until(Phase.UNMASKING).collect()
    return play


@pytest.mark.parametrize("make", [honest, active], ids=["semi-honest", "active"])
def test_a_dealer_of_false_shares_is_corrected_stops_the_round_or_shifts_the_sum(make, monkeypatch):
    params = make(7, 4, threshold=5)
    play = play_with_false_dealer(params, 1, [3], monkeypatch)
    play.server.close()
    assert np.array_equal(play.server.result().total, play.plain_sum())
    play = play_with_false_dealer(params, 1, [0, 2, 3, 4], monkeypatch)
    with pytest.raises(PeerError, match="more are wrong") as it:
        play.server.close()
    assert it.value.peer == "clients"  # who dealt them is not known
    assert play.server.blame == ()
    play = play_with_false_dealer(make(7, 4, threshold=7), 1, [0, 2], monkeypatch)
    with pytest.raises(PeerError, match="words outside the encoding"):
        play.server.close()  # here by chance; what lies within it passes as a wrong vector would


def test_a_plaintext_that_is_no_element_counts_as_not_opened(monkeypatch):
    """A dealer that seals words above the modulus: decrypted, and still refused."""
    params = honest(4, 2, threshold=3)
    play = Play(params).until(Phase.SHARE_MASKS)
    original = client_work.draw_mask

    def outside(params, source):
        mask, shares = original(params, source)
        shares[0, 0] = params.field.modulus
        return mask, shares

    with monkeypatch.context() as patch:
        patch.setattr(client_work, "draw_mask", outside)
        reply = play.answer(1, play.say(1))
    for index in (0, 2, 3):
        play.deliver(index, play.answer(index, play.say(index)))
    play.deliver(1, reply)
    play.server.close()
    sent = messages.MaskedInput.decode(play.answer(0, play.say(0)), params, peer=0)
    assert sent.missing.tolist() == [False, True, False, False]
