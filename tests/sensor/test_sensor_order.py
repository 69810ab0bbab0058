"""Order: every pair of state and message, of the two sound protocols."""

from __future__ import annotations

import pytest
from sensor_parties import Cluster

from privagg.errors import PeerError
from privagg.protocols.sensor import (
    MemberState,
    states,
)
from privagg.protocols.sensor.messages import (
    Answer,
    Echo,
    Received,
    Relay,
    Roster,
    SenderSet,
    Shares,
)

VALUES = [3, 1, 4, 1, 5]


@pytest.mark.parametrize("mode", states.Mode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("state", MemberState, ids=lambda state: state.name)
@pytest.mark.parametrize("kind", [Roster, Shares, Relay, Received, SenderSet, Echo, Answer])
def test_every_pair_of_state_and_message(mode, state, kind):
    changes = {
        states.Mode.FULL: {},
        states.Mode.THRESHOLD: {"drops": 1, "min_cluster": 4},
        states.Mode.MASKED: {"protocol": "mask-cluster"},
    }[mode]
    cluster = Cluster(5, **changes)
    bundles = cluster.share(VALUES)
    if mode is not states.Mode.MASKED:
        cluster.deliver(bundles)
    chosen = SenderSet(senders=(True,) * 5)
    party = cluster.parties[cluster.nodes[1]]
    other = cluster.parties[cluster.nodes[2]]
    echo = Echo(items=(b"0000",) * 4)
    if mode is states.Mode.THRESHOLD:
        echo = other.confirm(chosen)
        party.confirm(chosen)
        for node in cluster.nodes[3:]:
            party.hear_echo(cluster.parties[node].confirm(chosen), node)
        party.hear_echo(cluster.leader.confirm(chosen), cluster.head)
    party._state = state
    shares = bundles[other.node] or Shares(items=(b"00000000",) * 4)
    calls = {
        Roster: lambda: party.share(cluster.roster(epoch=2), [1], cluster.head),
        Shares: lambda: party.receive(shares, other.node),
        Relay: lambda: party.receive_relayed(Relay(position=2, items=shares.items), cluster.head),
        Received: lambda: party.received(),
        SenderSet: lambda: party.confirm(chosen),
        Echo: lambda: party.hear_echo(echo, other.node),
        Answer: lambda: party.answer(),
    }
    if (state, kind) in states.TABLES[mode]:
        refused = None
        try:
            calls[kind]()
        except PeerError as error:  # what it holds is refused, not when it came
            refused = error
        assert refused is None or "allowed:" not in refused.reason
        assert refused is not None or party.state is states.TABLES[mode][state, kind]
    else:
        with pytest.raises(PeerError, match=f"{kind.__name__} at a member that has"):
            calls[kind]()
        assert party.state is state


def test_a_member_that_masks_is_never_said_to_have_sent_shares():
    masked = states.TABLES[states.Mode.MASKED]
    reached = {state for state, _ in masked} | set(masked.values())
    assert reached == {MemberState.IDLE, MemberState.MASKED, MemberState.ANSWERED}
    others = (states.TABLES[mode] for mode in (states.Mode.FULL, states.Mode.THRESHOLD))
    assert all(MemberState.MASKED not in {*table.values()} for table in others)
