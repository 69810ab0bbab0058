"""Epochs among real parties of the papers' clustered protocols; see :mod:`parties`.

Their parties are handed the seeds and coefficients that the arrays have drawn: with checks that
draw again, and with floating point, these decide what comes out. The complaint after a failed
check (:class:`Redo`) reaches everybody: the arrays count no message for it.
"""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from privagg.entropy import Entropy
from privagg.errors import Abort, CapacityError
from privagg.protocols.sensor.channel import Keyring
from privagg.protocols.sensor.cluster_node import ClusterNode
from privagg.protocols.sensor.draws import Replayed
from privagg.protocols.sensor.insecure_leader import (
    InsecureEfficientLeader,
    InsecureEfficientMember,
    InsecureLeader,
)
from privagg.protocols.sensor.insecure_member import InsecureMember
from privagg.protocols.sensor.messages import Message
from privagg.protocols.sensor.messages_papers import (
    Assembled,
    EfficientAnswer,
    PaperRelay,
    PaperShares,
    Redo,
    Seed,
    SeedRelay,
)
from privagg.protocols.sensor.params import Arithmetic, Protocol
from privagg.protocols.sensor.parties import Cast, Cluster, Mismatch, same
from privagg.protocols.sensor.states_papers import PaperState

__all__ = ["PaperCast"]


class PaperCast(Cast):
    """All parties of a network under a protocol that gives readings away."""

    def make(self, ring: Keyring, leads: bool, entropy: Entropy) -> ClusterNode:
        """Return a node's party; that it is insecure was allowed before."""
        if self.params.protocol is Protocol.CPDA_SEN_EFFICIENT:
            efficient = InsecureEfficientLeader if leads else InsecureEfficientMember
            return efficient(self.params, ring, allow_insecure=True, entropy=entropy)
        kind = InsecureLeader if leads else InsecureMember
        return kind(self.params, ring, allow_insecure=True, entropy=entropy, draws=Replayed())

    def roster_of(self, leader: Any, epoch: int) -> Message:
        """Let a leader make its roster, with its seed where there is one."""
        efficient = isinstance(leader, InsecureEfficientLeader)
        made: Message = leader.seeded_roster(epoch) if efficient else leader.roster(epoch)
        return made

    def play(self, cluster: Cluster, numbers: NDArray[Any]) -> list[Any] | None:
        """Play one cluster; with full degree a leader that dies takes the sum along."""
        if cluster.collector_row != cluster.group.leader_row[cluster.index]:
            return None
        if self.params.protocol is Protocol.CPDA_SEN_EFFICIENT:
            return _efficient(cluster, numbers)
        try:
            return _Play(cluster).run(numbers)
        except CapacityError:  # a real share that overflows: the arrays have no finite sum either
            return None

    def number(self, value: Any) -> Any:
        """Return an integer, or a float for real arithmetic."""
        return float(value) if self.params.arithmetic is Arithmetic.REAL else int(value)

    def compare(self, what: str, found: Any, expected: Any) -> None:
        """Compare sums; real ones but for what rounding on the way up does."""
        if self.params.arithmetic is not Arithmetic.REAL or found is None or expected is None:
            if expected is not None and not all(math.isfinite(v) for v in expected):
                expected = None
            same(what, found, expected)
            return
        relative = 1e-9 if self.params.real_bytes == 8 else 1e-5
        for one, other in zip(found, expected, strict=True):
            if not math.isclose(one, other, rel_tol=relative, abs_tol=relative):
                raise Mismatch(f"{what}: the parties have {one}, the arrays {other}")


def _efficient(cluster: Cluster, numbers: NDArray[Any]) -> list[Any] | None:
    leader, cast = cluster.member[cluster.collector_row], cluster.cast
    own = cluster.collector_row
    if not (cluster.alive_shares & cluster.rostered)[own]:
        return None
    leader.begin(cluster.roster, _values(cluster, own, numbers))
    for row in cluster.rows[(cluster.alive_shares & cluster.rostered)[cluster.rows]]:
        if row == own:
            continue
        name = int(cluster.node[row])
        values = _values(cluster, row, numbers)
        said = cluster.member[row].answer(cluster.roster, values, cluster.head)
        if cluster.answers.answered[cluster.at, row]:
            said = cast.sent(said, EfficientAnswer, name, len(cluster.rows))
            leader.collect(said, name)
    try:
        found: list[Any] = leader.conclude()[0]
    except Abort:
        return None
    return found


def _values(cluster: Cluster, row: int, numbers: NDArray[Any]) -> list[Any]:
    real = cluster.params.arithmetic is Arithmetic.REAL
    return [float(v) if real else int(v) for v in numbers[cluster.node[row]]]


class _Play:
    """One cluster of ``cpda`` or ``cpda-sen-checked`` in one epoch."""

    def __init__(self, cluster: Cluster) -> None:
        self.c, self.cast, self.m = cluster, cluster.cast, len(cluster.rows)
        self.party = cluster.member
        self.leader = cluster.cast.nodes[cluster.head]
        tried, key = cluster.made.tried, (cluster.at, cluster.index)
        self.seed_tries = 1 if tried is None else int(tried.seeds[key])
        self.share_tries = 1 if tried is None else int(tried.shares[key])
        self.passed = tried is None or bool(tried.passed[key])
        assert cluster.made.drawn is not None
        self.records = cluster.made.drawn[key]

    def name(self, row: int) -> int:
        return int(self.c.node[row])

    def run(self, numbers: NDArray[Any]) -> list[Any] | None:
        c = self.c
        able = list(c.rows[(c.alive_shares & c.rostered)[c.rows]])
        seeds = {}
        for row in able:
            self.party[row]._draws.load(self.records, int(row - c.rows[0]))
            values = _values(c, row, numbers)
            seeds[row] = self.party[row].announce_seed(c.roster, values, c.head)
        able = self._settle_seeds(able, seeds)
        if not able:
            return None
        for attempt in range(self.share_tries):
            self._share(able)
            last = attempt == self.share_tries - 1
            if c.params.protocol is not Protocol.CPDA_SEN_CHECKED or (last and self.passed):
                break
            self._do_again(able, attempt)
        if c.params.protocol is Protocol.CPDA_SEN_CHECKED and self.passed:
            same("whether a check fails", self._complaint(able)[0], None)
        return self._answer(able)

    def _settle_seeds(self, able: list[int], seeds: dict[int, Seed]) -> list[int]:
        """Announce until the seeds stand; return who can share."""
        for attempt in range(1, self.seed_tries + 1):
            self._announce(seeds)
            stand: dict[int, bool] = {}
            for row in able:
                try:
                    stand[row] = self.party[row].seeds_stand()
                except Abort:
                    continue
            good = attempt == self.seed_tries and self.share_tries > 0
            for row, said in stand.items():
                same(f"whether the seeds stand at row {row}", said, good)
            able = list(stand)
            if good:
                return able
            seeds, left = {}, []
            for row in able:
                try:
                    seeds[row] = self.party[row].redraw_seed()
                    left.append(row)
                except Abort:
                    continue
            able = left
        return []

    def _announce(self, seeds: dict[int, Seed]) -> None:
        c = self.c
        heard = {
            row: self.cast.sent(seed, Seed, self.name(row), self.m) for row, seed in seeds.items()
        }
        relayed: dict[int, list[int]] = {}
        arrived = c.answers.seeds[c.at]
        # The leader hears first what it sends on.
        for at in sorted(c.pairs[arrived[c.pairs]], key=lambda at: not c.pair.direct[at]):
            origin, target = int(c.pair.origin[at]), int(c.pair.target[at])
            if origin not in heard or target not in seeds:
                continue
            if c.pair.direct[at]:
                self.party[target].hear_seed(heard[origin], self.name(origin))
            else:
                relayed.setdefault(target, []).append(self.name(origin))
        for target, origins in relayed.items():
            relay = self.leader.relay_seeds(origins)
            relay = self.cast.sent(relay, SeedRelay, c.head, self.m)
            self.party[target].hear_seeds(relay, c.head)

    def _share(self, able: list[int]) -> None:
        c, bundles = self.c, {}
        for row in able:
            bundle = self.party[row].share()
            bundles[row] = self.cast.sent(bundle, PaperShares, self.name(row), self.m)
        arrived = c.answers.shares[c.at]
        for at in c.pairs[arrived[c.pairs]]:
            origin, target = int(c.pair.origin[at]), int(c.pair.target[at])
            party = self.party[target]
            if origin not in bundles or party.state is not PaperState.SHARED:
                continue
            if c.pair.direct[at]:
                party.receive(bundles[origin], self.name(origin))
                continue
            relay = self.leader.relay(bundles[origin], self.name(origin), [self.name(target)])
            relay = self.cast.sent(relay, PaperRelay, c.head, self.m)
            party.receive_relayed(relay, c.head)

    def _complaint(self, able: list[int]) -> tuple[Redo | None, bool]:
        """Return somebody's complaint, and whether all could check."""
        found, whole = None, len(able) == self.m
        for row in able:
            try:
                said = self.party[row].check()
                found = found or said
            except Abort:
                whole = False
        return found, whole

    def _do_again(self, able: list[int], attempt: int) -> None:
        redo, whole = self._complaint(able)
        if redo is None:  # whoever would complain lacks shares; the cluster is lost all the same
            same("whether a check fails", whole, False)
            redo = Redo(attempt=attempt)
        redo = self.cast.sent(redo, Redo, self.name(able[0]), self.m)
        for row in able:
            try:
                self.party[row].hear_redo(redo, self.name(able[0]))
            except Abort:
                same("attempts", (attempt + 1, self.passed), (self.share_tries, False))

    def _answer(self, able: list[int]) -> list[Any] | None:
        c = self.c
        if c.collector_row not in able or not self.passed:
            return None
        for row in able:
            if row == c.collector_row or not c.answers.answered[c.at, row]:
                continue
            try:
                said = self.party[row].answer()
            except Abort:
                continue
            said = self.cast.sent(said, Assembled, self.name(row), self.m)
            self.leader.collect(said, self.name(row))
        try:
            found: list[Any] = self.leader.conclude()[0]
        except Abort:
            return None
        return found
