"""Each invariant that a client holds the server to, broken by a message from a real round.

After it the client has given up: it remembers no secret, and answers nothing any more. The ways to
break them are in ``broken.py`` and ``broken_later.py``.
"""

from __future__ import annotations

import pytest
from broken import CLIENTS, SURVIVE, UNMASK, WHO
from broken_later import CASES
from parties import ALL, Play, due, is_empty_handed, pinned, respond

from privagg.errors import Abort, PeerError
from privagg.protocols import secagg
from privagg.protocols.secagg import checks, messages
from privagg.protocols.secagg.states import Phase


def started(case, kind):
    """Play until the server has the message of `case` for `WHO`."""
    options = {"min_cohort": 2} | (case.options or {})
    params = ALL[kind](CLIENTS, 3, **options)
    policy = None
    if case.policy:
        policy = secagg.Policy(**case.policy, roster=pinned(CLIENTS) if params.signed else None)
    phase = case.phase
    if phase is SURVIVE and not params.signed:
        phase = UNMASK
    if case.gone_at is None:
        return Play(params, policy=policy).until(phase)
    for absent in range(CLIENTS):
        play = Play(params, policy=policy, leaves={absent: case.gone_at}).until(Phase.SHARE_KEYS)
        if absent != WHO and absent in play.server._topology.row(WHO):
            play.absent = absent
            return play.until(phase)
    raise AssertionError("no neighbour to be gone")


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        pytest.param(case, kind, id=f"{name}-{kind}")
        for name, case in CASES.items()
        for kind in case.kinds
    ],
)
def test_a_broken_invariant_ends_the_round_for_the_client(case, kind, monkeypatch):
    play = started(case, kind)
    client, good = play.clients[WHO], due(play, WHO)
    fired = []
    original = getattr(checks, case.check)

    def watched(*args):
        try:
            return original(*args)
        except (PeerError, Abort):
            fired.append(case.check)
            raise

    monkeypatch.setattr(checks, case.check, watched)
    bad = messages.decode(case.change(good, play).encode(), play.params, peer="server")
    with pytest.raises(case.error) as caught:
        respond(client, bad, play.vectors[WHO])
    assert fired == [case.check]
    assert bad.round in str(caught.value) or play.phase.title in str(caught.value)
    assert is_empty_handed(client)
    for message in (bad, good):
        with pytest.raises(PeerError, match="the round is over for this client"):
            respond(client, message, play.vectors[WHO])
    assert is_empty_handed(client)


@pytest.mark.parametrize("kind", ALL)
def test_the_unbroken_messages_of_these_rounds_are_answered(kind):
    """Otherwise the test above would prove nothing."""
    different = {
        (case.phase, str(case.options), str(case.policy), case.gone_at): case
        for case in CASES.values()
        if kind in case.kinds
    }
    for case in different.values():
        play = started(case, kind)
        respond(play.clients[WHO], due(play, WHO), play.vectors[WHO])


def test_every_invariant_has_a_test_that_breaks_it():
    elsewhere = {"policy_is_met", "same_draw", "same_round"}  # in test_policy.py, test_states.py
    together = {"signatures_are_acceptable", "survivors_are_acceptable"}  # they call the others
    said = {"own_statement", "sharer_statement"}  # what is signed: in test_told_apart.py
    broken = {case.check for case in CASES.values()}
    assert broken | elsewhere | together | said == set(checks.__all__)
