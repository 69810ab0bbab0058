"""Attacks by a leader that lies to its members, played against real parties.

Against the faithful variants, whose papers have no check that could refuse, the leader's sums are
used as they would be computed.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from privagg import field as fields
from privagg.attacks.sensor_arithmetic import Trial
from privagg.attacks.sensor_guessing import best_guess
from privagg.attacks.sensor_views import Setting, Subject, readings
from privagg.entropy import Entropy
from privagg.errors import Abort, PeerError
from privagg.protocols.sensor import faithful, sound
from privagg.protocols.sensor.channel import Keyring, PreloadedKeys
from privagg.protocols.sensor.leader import Leader
from privagg.protocols.sensor.member import Member
from privagg.protocols.sensor.messages import Answer, Echo, Roster, SenderSet, Shares
from privagg.protocols.sensor.params import Keys, Params, Protocol
from privagg.protocols.sensor.tree_node import split

__all__ = ["phantom_members", "repeated_run", "split_view"]

_ON_TREE = (Protocol.TAG, Protocol.SMART, Protocol.CMT)


class _Insider(Leader):
    """A colluder: it follows the protocol, and tells the adversary what it holds."""

    def share_of(self, origin: int) -> list[int]:
        """Return the share that `origin` gave this member."""
        return self._held[origin]

    def open_answer(self, answer: Answer, node: int) -> list[int]:
        """Open an answer sealed for this member; out of turn, as an adversary may."""
        octets = self._open(Answer, node, answer.sealed)
        return split(octets, self._params, node, "answer") if octets is not None else []

    def forge_echo(self, senders: tuple[bool, ...], node: int) -> bytes:
        """Return a tag that tells `node` that this member was told `senders`."""
        return self._seal(Echo, node, b"", self._echo_data(senders))


def _link_keys(nodes: list[int], entropy: Entropy) -> dict[int, dict[int, bytes]]:
    keys: dict[int, dict[int, bytes]] = {node: {} for node in nodes}
    for a, b in combinations(nodes, 2):
        keys[a][b] = keys[b][a] = entropy.take(16)
    return keys


def _cluster(
    params: Params, setting: Setting, insiders: int
) -> tuple[list[int], dict[int, Member]]:
    """Return ids and parties of a cluster whose first members collude; the first one leads."""
    nodes = [10 + 3 * place for place in range(setting.members)]
    keys = _link_keys(nodes, setting.entropy)
    parties: dict[int, Member] = {}
    for place, node in enumerate(nodes):
        ring: Keyring = PreloadedKeys(node, keys[node])
        kind = _Insider if place < insiders else Member
        parties[node] = kind(params, ring, entropy=setting.entropy)
    return nodes, parties


def _bundles(
    parties: dict[int, Member], members: list[int], values: dict[int, int], epoch: int, head: int
) -> None:
    """Run the exchange of shares among `members`, nothing lost."""
    roster = Roster(epoch=epoch, members=tuple(members), id_size=2)
    made: dict[int, Shares | None] = {
        node: parties[node].share(roster, [values[node]], head) for node in members
    }
    for origin, bundle in made.items():
        if bundle is not None:
            for node in members:
                if node != origin:
                    parties[node].receive(bundle, origin)


def _leader_sum(
    parties: dict[int, Member], members: list[int], values: dict[int, int], head: int
) -> int:
    leader = parties[head]
    assert isinstance(leader, Leader)
    _bundles(parties, members, values, 1, head)
    for node in members:
        if node != head:
            leader.collect(parties[node].answer(head), node)
    return leader.conclude()[0][0]


def _guessing(setting: Setting, values: list[list[int]], colluders: int) -> tuple[list[int], float]:
    table = np.array(values, np.int64)
    sums = table[:, colluders:].sum(axis=1)
    guesses, chances = best_guess(sums, setting.members - colluders, setting.bound)
    return guesses.tolist(), float(chances.mean())


def repeated_run(subject: Subject, setting: Setting) -> Trial | None:
    """Claim a loss, run the same readings again without one member, and subtract.

    In the faithful protocols members share their reading as often as they are asked.

    Returns
    -------
    Trial or None
        What the attacker learned; None where it cannot be tried.
    """
    if subject.protocol in _ON_TREE:
        return None
    drawn = readings(setting, setting.party_runs).tolist()
    guesses, chance = _guessing(setting, drawn, 1)
    if subject.protocol.broken:
        table = np.array(drawn, np.int64)
        params = setting.params(subject)
        whole = faithful.run(table, params, setting.entropy)
        rest = faithful.run(table[:, :-1], params, setting.entropy)
        done = whole.passed & rest.passed
        hits = int(((whole.total - rest.total) == table[:, -1])[done].sum())
        note = "Nothing keeps a member from sharing again."
        return Trial(int(done.sum()), hits, chance, note)
    params = setting.params(subject, drops=0)
    hits = refused = 0
    for row, guess in zip(drawn, guesses, strict=True):
        nodes, parties = _cluster(params, setting, 1)
        values = dict(zip(nodes, row, strict=True))
        first = _leader_sum(parties, nodes, values, nodes[0])
        found = guess
        try:
            second = Roster(epoch=1, members=tuple(nodes[:-1]), id_size=2)
            for node in nodes[1:-1]:
                parties[node].share(second, [values[node]], nodes[0])
            found = first - sum(row[:-1])
        except PeerError:
            refused += 1
        hits += found == row[-1]
    return Trial(len(drawn), hits, chance, f"Refused by a member in {refused} runs.")


def phantom_members(subject: Subject, setting: Setting) -> Trial | None:
    """Invent all members but one, and take them off the sum.

    With unique keys the victim has none with a node that does not exist. With keys from a pool the
    leader lends its own ring to the nodes it invents.

    Returns
    -------
    Trial or None
        What the attacker learned; None where it cannot be tried.
    """
    if subject.protocol in _ON_TREE:
        return None
    drawn = readings(setting, setting.party_runs).tolist()
    guesses, chance = _guessing(setting, drawn, 1)
    if subject.protocol.broken:
        table = np.array(drawn, np.int64)
        table[:, :-1] = 0  # the leader plays all others
        alone = faithful.run(table, setting.params(subject), setting.entropy)
        hits = int((alone.total == table[:, -1])[alone.passed].sum())
        note = "No check of who the others are."
        return Trial(int(alone.passed.sum()), hits, 1 / (setting.bound + 1), note)
    params = setting.params(subject, drops=0)
    hits = refused = 0
    for row, guess in zip(drawn, guesses, strict=True):
        nodes = [10 + 3 * place for place in range(setting.members)]
        head, victim = nodes[0], nodes[-1]
        real = _link_keys([head, victim], setting.entropy)
        own = real[victim][head]
        names = nodes if subject.keys is Keys.POOL else [head, victim]
        ring = {node: own for node in names if node != victim}
        party = Member(params, PreloadedKeys(victim, ring), entropy=setting.entropy)
        found = guess
        try:
            roster = Roster(epoch=1, members=tuple(nodes), id_size=2)
            bundle = party.share(roster, [row[-1]], head)
            found = _unmask_alone(params, setting, nodes, bundle, ring, party)
        except PeerError:
            refused += 1
        hits += found == row[-1]
    if subject.keys is not Keys.POOL:
        return Trial(len(drawn), hits, chance, f"Refused by the victim in {refused} runs.")
    return Trial(len(drawn), hits, 1 / (setting.bound + 1), "The leader's ring serves for all.")


def _unmask_alone(
    params: Params,
    setting: Setting,
    nodes: list[int],
    bundle: Shares | None,
    ring: dict[int, bytes],
    victim: Member,
) -> int:
    """Play all other members, with readings of zero, and read the sum."""
    others = {
        node: _Insider(
            params, PreloadedKeys(node, dict.fromkeys(nodes, ring[node])), entropy=setting.entropy
        )
        for node in nodes
        if node != victim.node
    }
    parties: dict[int, Member] = {**others, victim.node: victim}
    roster = Roster(epoch=1, members=tuple(nodes), id_size=2)
    made = {node: party.share(roster, [0], nodes[0]) for node, party in others.items()}
    made[victim.node] = bundle
    for origin, shares in made.items():
        for node in nodes:
            if shares is not None and node != origin:
                parties[node].receive(shares, origin)
    leader = others[nodes[0]]
    for node in nodes[1:]:
        leader.collect(parties[node].answer(nodes[0]), node)
    return leader.conclude()[0][0]


def split_view(subject: Subject, setting: Setting, colluders: int) -> Trial | None:
    """Tell some members that one member's reading counts, others that it does not; subtract.

    The adversary needs t answers for either set. It makes those of the colluders itself, forges
    their echoes, and keeps honest members from hearing each other's. It leaks where
    ``2 t - k <= m``, k colluders, leader included.

    Parameters
    ----------
    subject : Subject
        The protocol attacked, and how.
    setting : Setting
        How the attacks are run.
    colluders : int
        How many members beside the leader.
    """
    if subject.protocol is not Protocol.CPDA_FIELD or not subject.drops:
        return None
    params = setting.params(
        subject, corrupt=0
    )  # members that would refuse are no test of the bound
    m, t = setting.members, setting.members - subject.drops
    drawn = readings(setting, setting.party_runs).tolist()
    guesses, chance = _guessing(setting, drawn, colluders)
    hits = 0
    for row, guess in zip(drawn, guesses, strict=True):
        nodes, parties = _cluster(params, setting, colluders)
        values = dict(zip(nodes, row, strict=True))
        _bundles(parties, nodes, values, 1, nodes[0])
        everyone = tuple([True] * m)
        without = tuple(node != nodes[-1] for node in nodes)
        honest = nodes[colluders:]
        need = t - colluders
        # The victim is told of itself; it would notice nothing either way.
        told = honest[::-1]
        first = _story(parties, nodes, everyone, told[:need], colluders)
        second = _story(parties, nodes, without, told[need : 2 * need], colluders)
        found = guess
        if first is not None and second is not None:
            found = (first - second) % params.field.modulus
        hits += found == row[-1]
    beyond = 2 * t - colluders <= m
    side = "beyond" if beyond else "within"
    note = f"{colluders} of {m} members collude, t = {t}: {side} the bound."
    return Trial(len(drawn), hits, 1 / (setting.bound + 1) if beyond else chance, note)


def _story(
    parties: dict[int, Member],
    nodes: list[int],
    senders: tuple[bool, ...],
    told: list[int],
    colluders: int,
) -> int | None:
    """Return the sum over `senders`, if those `told` of them give enough answers."""
    insiders = [parties[node] for node in nodes[:colluders]]
    answers: dict[int, int] = {}
    params = insiders[0]._params
    p = params.field.modulus
    count = len(nodes)
    made: dict[int, Echo] = {}
    try:
        for node in told:
            made[node] = parties[node].confirm(SenderSet(senders=senders), nodes[0])
        for node in told:
            for origin, echo in made.items():
                if origin != node:
                    parties[node].hear_echo(echo, origin)
            for insider in insiders:
                assert isinstance(insider, _Insider)
                tag = insider.forge_echo(senders, node)
                parties[node].hear_echo(Echo(items=(tag,) * (count - 1)), insider.node)
            head = insiders[0]
            assert isinstance(head, _Insider)
            opened = head.open_answer(parties[node].answer(nodes[0]), node)
            answers[nodes.index(node)] = opened[0]
    except (PeerError, Abort):
        return None
    for place, insider in enumerate(insiders):
        assert isinstance(insider, _Insider)
        chosen = [node for node, sends in zip(nodes, senders, strict=True) if sends]
        answers[place] = sum(insider.share_of(node)[0] for node in chosen) % p
    threshold = params.threshold(count)
    if len(answers) < threshold:
        return None
    places = np.array(sorted(answers)[:threshold])
    rows = fields.elements([[answers[int(place)]] for place in places], params.field)
    return int(sound.recover(rows, places, params.field)[0])
