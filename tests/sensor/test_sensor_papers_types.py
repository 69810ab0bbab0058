"""What is no node, no number or too early, given to the papers' parties: errors, never a crash."""

from __future__ import annotations

import numpy as np
import pytest
from sensor_papers import NODES, VALUES, Cluster, tree

from privagg.errors import PeerError, UsageError
from privagg.protocols.sensor import BaseStation
from privagg.protocols.sensor.messages import Hello, Report
from privagg.protocols.sensor.messages_papers import (
    Assembled,
    CmtReport,
    EfficientAnswer,
    PaperShares,
    Seed,
    Slice,
)
from privagg.protocols.sensor.tree_cmt import CmtNode
from privagg.protocols.sensor.tree_parties import SmartNode, UnprotectedTagNode

HELLO = Hello(epoch=1, hops=1, leads=False)
NO_NODES = [None, True, -1, 1.5, "1", [1], {}, np.array([1])]


@pytest.mark.parametrize("peer", NO_NODES, ids=repr)
def test_peers_that_are_no_nodes(peer):
    cluster = Cluster()
    cluster.seeds()
    bundles = cluster.share()
    _, tags, ring = tree("tag", UnprotectedTagNode)
    _, smarts, _ = tree("smart", SmartNode)
    _, cmts, _ = tree("cmt", CmtNode)
    tags[1].hear(HELLO, [1], 20)
    smarts[1].cut(HELLO, [1], [4], 20)
    cmts[1].encrypt(HELLO, [1], 20, 20)
    for call in (
        lambda: BaseStation(tags[1]._params, ring).add(Report(sealed=b""), peer),
        lambda: tags[1].add(Report(sealed=b""), peer),
        lambda: tags[1].report(peer),
        lambda: smarts[1].receive(Slice(sealed=b""), peer),
        lambda: smarts[4].cut(HELLO, [1], [peer], 20),
        lambda: cmts[1].add_ciphertexts(CmtReport(sealed=b""), peer),
        lambda: cmts[4].encrypt(HELLO, [1], 20, peer),
        lambda: cmts[1].report_ciphertexts(20, [peer]),
        lambda: cluster.leader.hear_seed(Seed(seeds=(3,)), peer),
        lambda: cluster.leader.collect(Assembled(numbers=(1,), octets=4, real=False), peer),
        lambda: cluster.leader.relay(bundles[4], peer, [9]),
        lambda: cluster.leader.relay(PaperShares(items=bundles[4].items), 4, 9),
        lambda: cluster.leader.relay(4, 4, [9]),
        lambda: cluster.leader.relay_seeds(None),
        lambda: cmts[1].report_ciphertexts(20, 4),
    ):
        with pytest.raises((UsageError, PeerError)):
            call()


@pytest.mark.parametrize("numbers", [None, 5, "5", ["5"], [True], [float("nan")], [None], [1, 2]])
def test_real_numbers_that_are_none(numbers):
    cluster = Cluster(arithmetic="real")
    with pytest.raises(UsageError, match="numbers"):
        cluster.leader.announce_seed(cluster.roster, numbers, 1)


def test_what_comes_before_an_epoch_names_its_sender():
    efficient = Cluster("cpda-sen-efficient").leader
    with pytest.raises(PeerError, match="before this node began"):
        efficient.collect(EfficientAnswer(sealed=b"x" * 40), 4)
    with pytest.raises(UsageError, match="announce_seed"):
        Cluster().leader.seeds_stand()


def test_a_report_of_cmt_is_the_same_again_whatever_children_it_is_asked_with():
    """Another list would be sealed under the same nonce."""
    _, nodes, _ = tree("cmt", CmtNode)
    nodes[1].encrypt(HELLO, [VALUES[1]], 20, 20)
    first = nodes[1].report_ciphertexts(20, [4])
    assert nodes[1].report_ciphertexts(20, NODES[1:]) == first
