"""A cluster of real parties for tests."""

from __future__ import annotations

from itertools import combinations

from privagg.entropy import from_seed
from privagg.protocols.sensor import Leader, Member, Params, PreloadedKeys
from privagg.protocols.sensor.messages import Roster


def link_keys(nodes, seed=0):
    source = from_seed(seed).spawn("links")
    keys = {node: {} for node in nodes}
    for a, b in combinations(nodes, 2):
        keys[a][b] = keys[b][a] = source.take(16)
    return keys


class Cluster:
    """Parties with keys; the first node leads."""

    def __init__(self, m=5, seed=0, protocol="cpda-field", bound=100, extra=(), **changes):
        self.nodes = [10 + 3 * k for k in range(m)]
        self.params = Params.recommend(protocol, nodes=1000, bound=bound, **changes)
        self.keys = link_keys([*self.nodes, *extra], seed)
        self.entropy = from_seed(seed)
        self.parties = {
            node: (Leader if k == 0 else Member)(
                self.params, PreloadedKeys(node, self.keys[node]), entropy=self.entropy
            )
            for k, node in enumerate(self.nodes)
        }
        self.head = self.nodes[0]

    @property
    def leader(self):
        return self.parties[self.head]

    def roster(self, epoch=1, members=None):
        members = self.nodes if members is None else members
        return Roster(epoch=epoch, members=tuple(members), id_size=2)

    def share(self, values, epoch=1):
        """Send out rosters; return the bundles by node."""
        roster = self.roster(epoch)
        bundles = {}
        for node, value in zip(self.nodes, values, strict=True):
            self.parties[node].begin_reports(epoch)
            numbers = value if isinstance(value, list) else [value]
            bundles[node] = self.parties[node].share(roster, numbers, self.head)
        return bundles

    def deliver(self, bundles, missing=()):
        for origin, bundle in bundles.items():
            for node in self.nodes:
                if node != origin and (origin, node) not in missing and bundle is not None:
                    self.parties[node].receive(bundle, origin)

    def finish(self, silent=(), collector=None):
        """Let all but the silent answer; return what the leader concludes."""
        who = self.leader if collector is None else collector
        for node in self.nodes:
            if node != who.node and node not in silent:
                who.collect(self.parties[node].answer(who.node), node)
        return who.conclude()

    def agree(self):
        """Threshold mode: choose senders, tell all, echo to all."""
        for node in self.nodes[1:]:
            self.leader.note_received(self.parties[node].received(), node)
        chosen = self.leader.choose_senders()
        echoes = {node: self.parties[node].confirm(chosen) for node in self.nodes}
        for origin, echo in echoes.items():
            for node in self.nodes:
                if node != origin:
                    self.parties[node].hear_echo(echo, origin)
        return chosen

    def run(self, values, epoch=1):
        self.deliver(self.share(values, epoch))
        if self.params.drops:
            self.agree()
        return self.finish()
