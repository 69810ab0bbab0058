"""Clusters and trees of real parties of the papers' protocols, for tests."""

from __future__ import annotations

from sensor_parties import link_keys

from privagg.entropy import from_seed
from privagg.protocols.sensor import (
    Params,
    PreloadedKeys,
)
from privagg.protocols.sensor.insecure_leader import (
    InsecureEfficientLeader,
    InsecureEfficientMember,
    InsecureLeader,
)
from privagg.protocols.sensor.insecure_member import InsecureMember
from privagg.protocols.sensor.messages import Roster

NODES = [1, 4, 9]
VALUES = {1: 12, 4: -37, 9: 85}


class Cluster:
    def __init__(self, protocol="cpda", seed=0, **changes):
        self.params = Params.recommend(protocol, nodes=100, bound=100, **changes)
        rings = link_keys(NODES, seed)
        efficient = protocol == "cpda-sen-efficient"
        kinds = [InsecureLeader, InsecureMember]
        if efficient:
            kinds = [InsecureEfficientLeader, InsecureEfficientMember]
        self.parties = {
            node: kinds[node != 1](
                *(self.params, PreloadedKeys(node, rings[node])),
                allow_insecure=True,
                entropy=from_seed(seed + node),
            )
            for node in NODES
        }
        self.leader = self.parties[1]
        self.roster = Roster(epoch=1, members=tuple(NODES), id_size=2)

    def seeds(self):
        """Announce until the seeds stand."""
        made = {n: p.announce_seed(self.roster, [VALUES[n]], 1) for n, p in self.parties.items()}
        while True:
            for origin, seed in made.items():
                for node, party in self.parties.items():
                    if node != origin:
                        party.hear_seed(seed, origin)
            if self.leader.seeds_stand():
                return
            made = {node: party.redraw_seed() for node, party in self.parties.items()}

    def share(self):
        bundles = {node: party.share() for node, party in self.parties.items()}
        for origin, bundle in bundles.items():
            for node, party in self.parties.items():
                if node != origin:
                    party.receive(bundle, origin)
        return bundles

    def finish(self):
        for node in NODES[1:]:
            self.leader.collect(self.parties[node].answer(), node)
        return self.leader.conclude()


def tree(protocol, kind, **changes):
    params = Params.recommend(protocol, nodes=20, bound=100, **changes)
    rings = link_keys([*NODES, 20])
    nodes = {node: kind(params, PreloadedKeys(node, rings[node])) for node in NODES}
    return params, nodes, PreloadedKeys(20, rings[20])
