"""Order: every pair of state and message or step, of the six other protocols."""

from __future__ import annotations

import pytest
from sensor_papers import NODES, Cluster, tree

from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols.sensor import (
    Protocol,
    faithful,
)
from privagg.protocols.sensor.messages import Hello, Report, Roster
from privagg.protocols.sensor.messages_papers import (
    CmtReport,
    PaperRelay,
    PaperShares,
    Redo,
    Seed,
    SeededRoster,
    SeedRelay,
    Slice,
)
from privagg.protocols.sensor.states_papers import PAPER_TABLES, PaperState
from privagg.protocols.sensor.tree_cmt import CmtNode
from privagg.protocols.sensor.tree_parties import SmartNode, UnprotectedTagNode


def party_of(protocol):
    """Return a party in the middle of an epoch."""
    if protocol is Protocol.CPDA_SEN_EFFICIENT:
        return Cluster(str(protocol)).parties[4]
    if protocol.broken:
        cluster = Cluster(str(protocol))
        cluster.seeds()
        cluster.share()
        return cluster.parties[4]
    kinds = {"tag": UnprotectedTagNode, "smart": SmartNode, "cmt": CmtNode}
    party = tree(protocol, kinds[protocol])[1][4]
    hear(party, epoch=5)
    return party


CALLS = {
    Roster: lambda p: p.announce_seed(Roster(epoch=9, members=tuple(NODES), id_size=2), [1], 1),
    SeededRoster: lambda p: p.answer(
        SeededRoster(
            epoch=9,
            members=tuple(NODES),
            id_size=2,
            exponent=faithful.efficient_seed(p._params, 3).bit_length() - 1,
        ),
        [1],
        1,
    ),
    Seed: lambda p: p.hear_seed(Seed(seeds=(3,)), 9),
    SeedRelay: lambda p: p.hear_seeds(SeedRelay(origins=(False,) * 3, seeds=()), 1),
    PaperShares: lambda p: p.receive(PaperShares(items=(b"", b"")), 9),
    PaperRelay: lambda p: p.receive_relayed(PaperRelay(position=2, items=(b"",)), 1),
    Redo: lambda p: p.hear_redo(Redo(attempt=0), 9),
    Slice: lambda p: p.receive(Slice(sealed=b""), 9),
    Report: lambda p: p.add(Report(sealed=b""), 9),
    CmtReport: lambda p: p.add_ciphertexts(CmtReport(sealed=b""), 9),
    "redraw": lambda p: p.redraw_seed(),
    "share": lambda p: p.share(),
    "check": lambda p: p.check(),
    "answer": lambda p: p.answer(),
    "keep": lambda p: p.keep(9),
}


def hear(party, epoch=9):
    hello = Hello(epoch=epoch, hops=1, leads=False)
    if isinstance(party, SmartNode):
        return party.cut(hello, [1], [], 20)
    if isinstance(party, CmtNode):
        return party.encrypt(hello, [1], 20, 20)
    return party.hear(hello, [1], 20)


def report(party):
    if isinstance(party, CmtNode):
        return party.report_ciphertexts(20, [])
    return party.report(20)


@pytest.mark.parametrize("protocol", list(PAPER_TABLES), ids=str)
@pytest.mark.parametrize("state", PaperState, ids=lambda state: state.name)
def test_every_pair_of_state_and_message(protocol, state):
    table = PAPER_TABLES[protocol]
    kinds = {kind for _, kind in table} - {"give up"}
    calls = CALLS | {Hello: hear, "report": report}
    assert kinds <= set(calls)
    for kind in kinds:
        party = party_of(protocol)
        party._state = state
        name = kind if isinstance(kind, str) else kind.__name__
        if (state, kind) in table:
            refused = None
            try:
                calls[kind](party)
            except (PeerError, UsageError, Abort) as error:  # of what it holds, not of when it came
                refused = str(error)
            assert "at a party that has" not in (refused or "")
            assert refused or party.state is table[state, kind]
        else:
            with pytest.raises((PeerError, UsageError), match=f"{name} at a party that has"):
                calls[kind](party)
            assert party.state is state


def test_a_new_epoch_is_needed():
    cluster = Cluster()
    cluster.seeds()
    with pytest.raises(PeerError, match="again, or an older one"):
        cluster.parties[4].announce_seed(cluster.roster, [1], 1)
    _, nodes, _ = tree("tag", UnprotectedTagNode)
    hello = Hello(epoch=3, hops=0, leads=False)
    nodes[1].hear(hello, [1], 20)
    with pytest.raises(PeerError, match="one above 3 is due"):
        nodes[1].hear(hello, [1], 20)
