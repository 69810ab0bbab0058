"""Cheats that really run: did anyone in the round notice, and what came of it?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from rounds import audited, edited, honest, kinds, of_kind, params_of, play

from privagg import keys
from privagg.protocols.secagg import messages

M = messages


def equivocate(params, victim, some):
    """Return a network that tells `some` clients that the victim did not survive."""

    def down(index, message):
        if isinstance(message, M.SurvivorSet) and index in some:
            members = np.arange(params.clients)
            return replace(
                message,
                survivors=message.survivors & (members != victim),
                cohort=message.cohort - 1,
            )
        return message

    return down


def test_equivocated_survivors_leak_an_input_where_nothing_is_signed():
    params = params_of("semi-honest")
    transcript = play(params, down=equivocate(params, 0, {1, 2, 3, 4}))
    found = audited(transcript, params)
    assert {"different-survivors", "both-kinds"} <= kinds(found)
    (finding,) = of_kind(found, "both-kinds")
    assert finding.caught is False
    assert found.leak
    assert found.smallest.coalition == ()
    assert found.smallest.victim == 0
    fewer = audited(play(params, down=equivocate(params, 0, {1, 2})), params)
    assert len(fewer.smallest.coalition) == params.threshold - 2
    assert not audited(transcript, params, max_exposed=1).leak


def test_equivocated_survivors_are_caught_by_signatures():
    params = params_of("active")
    found = audited(play(params, down=equivocate(params, 0, {1, 2, 3})), params)
    assert {"different-survivors", "both-kinds", "bad-signature"} <= kinds(found)
    assert all(finding.caught for finding in found.deviations)
    assert all(finding.peer == "server" for finding in found.deviations)
    assert not found.leak
    # The others had enough signatures, and went on to the sum of all.
    assert found.sizes[0].smallest == params.clients


def test_a_man_in_the_middle_is_seen_to_know_everything():
    params = params_of("sparse")
    substitutes = [keys.public_key(bytes([c + 1]) * 32) for c in range(params.clients)]

    def down(index, message):
        if not isinstance(message, M.KeyRoster):
            return message
        changed = message.keys.copy()
        for row, member in enumerate(message.members):
            changed[row, 32:] = np.frombuffer(substitutes[member], np.uint8)
        return replace(message, keys=changed)

    found = audited(play(params, down=down), params)
    assert kinds(found) == {"altered-keys"}
    assert all(finding.peer == "server" for finding in found.deviations)
    assert not any(finding.caught for finding in found.deviations)
    assert found.sizes[0].exposed == params.clients
    assert found.leak
    assert found.smallest.coalition == ()


def test_shares_encrypted_to_the_servers_key_are_the_servers():
    params = params_of("sparse")
    victim, own = 0, keys.public_key(bytes(range(32)))

    def change(roster):
        changed = roster.keys.copy()
        changed[0, :32] = np.frombuffer(own, np.uint8)
        return replace(roster, keys=changed)

    found = audited(edited(honest("sparse"), params, M.KeyRoster, change, client=victim), params)
    # One share of both secrets comes free: the others must bring one less.
    assert found.smallest.victim == victim
    assert len(found.smallest.coalition) == params.threshold - 1
