"""Attacks that only compute: on what honest parties sent to the adversary, or in clear."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import field as fields
from privagg.attacks.sensor_guessing import best_guess, best_guess_of_sum
from privagg.attacks.sensor_views import Setting, Subject, View, observe
from privagg.protocols.sensor import faithful
from privagg.protocols.sensor.params import Arithmetic, Protocol

__all__ = [
    "Trial",
    "collusion",
    "crt_eavesdropper",
    "division_by_leader",
    "extreme_sums",
    "modulo_by_leader",
    "modulo_by_member",
    "tiny_seed",
]

_ON_TREE = (Protocol.TAG, Protocol.SMART, Protocol.CMT)


@dataclass(frozen=True)
class Trial:
    """What came of an attack.

    Attributes
    ----------
    runs, recovered : int
        Readings attacked, and found.
    chance : float
        Probability that the best guess is right, by one who knows what the adversary may know.
    note : str
        What was seen, for people.
    """

    runs: int
    recovered: int
    chance: float
    note: str = ""


def _victims(view: View, adversary: int) -> NDArray[np.bool_]:
    """Return which readings are attacked: all but the adversary's, in completed runs."""
    m = view.values.shape[1]
    chosen = np.repeat(view.completed[:, None], m, axis=1)
    chosen[:, adversary] = False
    return chosen


def _score(
    view: View, guess: NDArray[Any], adversary: int, note: str = "", left_out: int = 0
) -> Trial:
    """Count hits beside the best guess of one who knows the sum and its own reading."""
    chosen = _victims(view, adversary)
    hits = int(((guess == view.values) & chosen).sum())
    runs, m = view.values.shape
    done = view.completed
    others = view.values.sum(axis=1)[done] - view.values[done, adversary]
    bound = max(int(view.values.max()), 1)
    _, chances = best_guess(others, m - 1, bound)
    chance = float(chances.mean()) if len(chances) else 0.0
    given_up = runs - int(done.sum()) - left_out
    if given_up:
        note = (note + f" {given_up} of {runs} runs were given up by the checks.").strip()
    return Trial(int(chosen.sum()), hits, chance, note)


def modulo_by_leader(subject: Subject, setting: Setting) -> Trial:
    """Reduce what each member sent modulo the leader's own seed: nobody deviates.

    Over the integers ``v = b + r1 x + r2 x**2 + ...`` is congruent to b modulo x.

    Returns
    -------
    Trial
        What the attacker learned, and what it cost.
    """
    return _modulo(subject, setting, 0)


def modulo_by_member(subject: Subject, setting: Setting) -> Trial | None:
    """Do the same as a member, with its seed. Members get shares in some protocols only.

    Returns
    -------
    Trial or None
        What the attacker learned; None where members get no shares.
    """
    if subject.protocol in _ON_TREE or not subject.protocol.shares:
        return None
    return _modulo(subject, setting, 1)


def _modulo(subject: Subject, setting: Setting, adversary: int) -> Trial:
    view = observe(subject, setting)
    seed = view.points[:, adversary]
    large = seed > setting.bound
    # Where a seed is no choice, or too small to leak all, the readings' range is as good as any.
    modulus = np.where(large, seed, setting.bound + 1)
    held = view.sent[:, :, adversary]
    if view.field is None and not subject.protocol.broken:
        return _score(view, held, adversary, "The reading is sent as it is.")
    guess = held % modulus[:, None]
    if subject.protocol is Protocol.CPDA_SEN_EFFICIENT:
        guess = guess - setting.bound  # they were shifted
    left_out = 0
    if view.field is None:
        large = view.completed & large.astype(np.bool_)
        left_out = int(view.completed.sum()) - int(large.sum())
        view = _only(view, large)
    passed = "All checks passed. " if subject.protocol is Protocol.CPDA_SEN_CHECKED else ""
    small = f"Seeds up to {setting.bound} left out: {left_out} runs." if left_out else ""
    return _score(view, guess, adversary, (passed + small).strip(), left_out)


def _only(view: View, completed: NDArray[np.bool_]) -> View:
    return View(view.values, view.sent, view.points, view.clear, completed, view.field)


def division_by_leader(subject: Subject, setting: Setting) -> Trial:
    """Announce a huge seed last, and divide by its powers: the attack of Sen and Maitra (2011).

    Returns
    -------
    Trial
    """
    m = setting.members
    huge = 1 << (setting.coefficient_max.bit_length() + setting.bound.bit_length() + 8)
    view = observe(subject, setting, leader_seed=huge)
    seed = view.points[:, 0]
    seed = np.where(seed > 1, seed, setting.bound + 1)
    rest = view.sent[:, :, 0]
    for power in range(m - 1, 0, -1):
        step = seed[:, None] ** power
        rest = rest - (rest // step) * step
    if subject.protocol is Protocol.CPDA_SEN_EFFICIENT:
        rest = rest - setting.bound
    note = ""
    if subject.protocol is Protocol.CPDA_SEN_CHECKED:
        note = "The seed check stops a lone huge seed."
    return _score(view, rest, 0, note)


def tiny_seed(subject: Subject, setting: Setting) -> Trial:
    """Announce a tiny seed where masks are real numbers, and round: ``v -> b`` as x -> 0.

    Returns
    -------
    Trial
        What the attacker learned, and what it cost.
    """
    if subject.protocol is not Protocol.CPDA:
        view = observe(subject, setting)
        return _score(view, _rounded(view), 0)
    values = observe(subject, setting, arithmetic=Arithmetic.REAL)
    runs, m = values.values.shape
    drawn = faithful.below(setting.entropy, 2**53, (runs, m, m - 1)).astype(np.float64)
    coefficients = drawn / 2.0**53 * setting.coefficient_max
    tiny = np.full((runs, 1), 1e-9)
    shares = faithful.share(values.values.astype(np.float64), coefficients, tiny)
    return _score(values, np.rint(shares[:, :, 0]).astype(np.int64), 0, "Seed 1e-9.")


def _rounded(view: View) -> NDArray[Any]:
    """Return what the leader holds as it is: there is nothing to choose."""
    return view.sent[:, :, 0]


def crt_eavesdropper(subject: Subject, setting: Setting) -> Trial:
    """Hear the sums in clear and combine them modulo the public seeds, without any key.

    ``F_j`` is congruent to the cluster's sum modulo seed j; by the Chinese remainder theorem the
    sum is known modulo their least common multiple. What is attacked is the sum.

    Returns
    -------
    Trial
    """
    view = observe(subject, setting, seed_max=max(setting.seed_max, 256))
    totals = view.values.sum(axis=1)
    guess, chance = best_guess_of_sum(setting.members, setting.bound)
    if view.clear is None or subject.protocol is Protocol.CPDA_SEN_EFFICIENT:
        note = "No sum is sent in clear."
        if subject.protocol is Protocol.TAG:
            note = "Reports are sealed on every hop."
        return Trial(len(totals), int((totals == guess).sum()), chance, note)
    hits = runs = 0
    for row in np.flatnonzero(view.completed):
        runs += 1
        remainder, modulus = 0, 1
        for place in range(1, setting.members):
            seed = int(view.points[row, place])
            remainder, modulus = _combine(remainder, modulus, int(view.clear[row, place]), seed)
        hits += remainder == int(totals[row])
    return Trial(runs, hits, chance, "The sum, not a reading.")


def _combine(a: int, m: int, b: int, n: int) -> tuple[int, int]:
    """Return x mod lcm(m, n) with x = a (mod m) and x = b (mod n)."""
    g = math.gcd(m, n)
    step = (b - a) // g * pow(m // g, -1, n // g) % (n // g)
    return a + m * step, m // g * n


def collusion(subject: Subject, setting: Setting, colluders: int) -> Trial | None:
    """Let the leader and more members pool all they hold; attack the last member's reading.

    With two honest members left they know the two readings' sum and guess; with one left, the sum
    gives it away in any protocol that adds.

    Parameters
    ----------
    subject : Subject
        The protocol attacked, and how.
    setting : Setting
        How the attacks are run.
    colluders : int
        How many members beside the leader.

    Returns
    -------
    Trial or None
    """
    if subject.protocol in _ON_TREE:
        return _tree_collusion(subject, setting, beyond=colluders > setting.members - 2)
    view = observe(subject, setting)
    m, victim = setting.members, setting.members - 1
    honest = m - colluders
    known = view.values[:, :colluders].sum(axis=1)
    others = view.values.sum(axis=1) - known
    guess, chances = best_guess(others, honest, setting.bound)
    found: NDArray[Any] = guess
    threshold = m - subject.drops
    if honest == 1:
        pass  # the rest of the sum is the last reading
    elif view.field is None:
        found = _pooled(view, victim, colluders if subject.protocol.shares else 1, setting.bound)
        if subject.protocol is Protocol.CPDA_SEN_EFFICIENT:
            found = found - setting.bound
    elif subject.protocol is Protocol.CPDA_FIELD and colluders >= threshold:
        shares = view.sent[:, victim, :threshold].astype(np.int64).T
        points = fields.elements(np.arange(1, threshold + 1), view.field)
        weights = fields.lagrange_weights_at_zero(points, view.field)
        rows = np.ascontiguousarray(shares).astype(view.field.dtype)
        found = fields.weighted_sum(weights, rows, view.field).astype(np.int64)
    done = view.completed
    hits = int((found[done] == view.values[done, victim]).sum())
    # Beside the best guess before the sum of the others gave anything away, if it is certain.
    chance = float(chances.mean()) if honest > 1 else 1 / (setting.bound + 1)
    return Trial(int(done.sum()), hits, chance, f"{colluders} of {m} members collude.")


def _pooled(view: View, victim: int, colluders: int, bound: int) -> NDArray[Any]:
    """Reduce the shares of one member modulo the seeds of those that hold them.

    The largest seed does where it exceeds the readings. Where none does, all are combined by the
    Chinese remainder theorem; what is left if even that says too little is a guess.
    """
    seeds, held = view.points[:, :colluders], view.sent[:, victim, :colluders]
    rows = np.arange(len(seeds))
    best = np.argmax(seeds, axis=1)
    found = held[rows, best] % np.maximum(seeds[rows, best], 1)
    for row in np.flatnonzero((seeds <= bound).all(axis=1)):
        remainder, modulus = 0, 1
        for seed, share in zip(seeds[row].tolist(), held[row].tolist(), strict=True):
            remainder, modulus = _combine(remainder, modulus, int(share) % int(seed), int(seed))
        found[row] = remainder
    return np.asarray(found)


def _tree_collusion(subject: Subject, setting: Setting, *, beyond: bool) -> Trial | None:
    """Let a node's parent and those that hold its slices pool them (``smart``).

    Of three pieces the parent sees the one that is kept, and each neighbour one. Within the bound
    one neighbour is honest. Slices that come in are taken as known, so nothing else hides it.
    """
    if subject.protocol is not Protocol.SMART:
        return None
    field = setting.params(subject).field
    values = faithful.below(setting.entropy, setting.bound + 1, (setting.runs,)).astype(np.int64)
    slices = fields.uniform(setting.entropy, (2, setting.runs), field)
    kept = fields.sub(values.astype(field.dtype), fields.add(slices[0], slices[1], field), field)
    found = fields.add(kept, slices[0], field)
    if beyond:
        found = fields.add(found, slices[1], field)
    hits = int((found == values).sum())
    known = "both neighbours" if beyond else "one of two neighbours"
    chance = 1 / (setting.bound + 1)
    return Trial(setting.runs, hits, chance, f"Parent and {known} that hold slices collude.")


def extreme_sums(subject: Subject, setting: Setting) -> Trial:
    """Wait for a sum of zero or of the maximum: then every reading is known.

    No protocol whose result is a sum prevents it; noise does. Only such runs are counted.

    Returns
    -------
    Trial
        What the attacker learned, and what it cost.
    """
    runs, m = setting.runs, setting.members
    pick = faithful.below(setting.entropy, 2, (runs,)).astype(np.int64)
    values = np.repeat((pick * setting.bound)[:, None], m, axis=1)
    totals = values.sum(axis=1)
    guess = np.where(totals == 0, 0, np.where(totals == m * setting.bound, setting.bound, -1))
    hits = int((guess == values[:, -1]).sum())
    return Trial(runs, hits, 1 / (setting.bound + 1), "Of runs whose sum is extreme; inherent.")
