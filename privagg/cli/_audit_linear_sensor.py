"""``privagg audit linear --sensor-transcript``: what a coalition learns of an epoch."""

from __future__ import annotations

from pathlib import Path

from privagg.attacks.linear_sensor import SensorViews, Smallest
from privagg.cli.common import Options, emit, note
from privagg.errors import UsageError
from privagg.protocols.sensor.transcript import Transcript
from privagg.report import Cell, Report, Table

__all__ = ["audit", "coalition_of", "links_of"]

_SHOWN = 20

LIMITS = (
    "Linear algebra, and what a share over the integers says modulo its seed: bounded, correlated "
    "or guessed readings are not looked at.",
    "Messages are those of a run in which everybody followed the protocol: what a leader that lies "
    "gains is in `privagg audit sensor`.",
    "Keys hold but for the links named; a transcript does not say who else has a key of a pool.",
)


def coalition_of(text: str | None, station: int) -> tuple[int, ...]:
    """Read node ids, separated by commas; ``base`` is the base station.

    Raises
    ------
    UsageError
        If one is no node, or twice.
    """
    nodes: list[int] = []
    for part in [] if text is None else text.split(","):
        word = part.strip()
        node = station if word == "base" else _node(word, "--coalition")
        if node > station:
            raise UsageError("--coalition", word, f"nodes 0 to {station - 1}, or base")
        if node in nodes:
            raise UsageError("--coalition", f"node {word} twice", "each node once")
        nodes.append(node)
    return tuple(nodes)


def links_of(words: tuple[str, ...], station: int) -> tuple[tuple[int, int], ...]:
    """Read links such as ``1-2``, several of them separated by commas.

    Raises
    ------
    UsageError
        If one is no pair of different nodes.
    """
    found = []
    for part in (part.strip() for word in words for part in word.split(",")):
        ends = [station if e == "base" else _node(e, "--links") for e in part.split("-")]
        if len(ends) != 2 or ends[0] == ends[1] or max(ends) > station:
            raise UsageError("--links", part, f"two different nodes up to {station - 1}: 1-2")
        found.append((ends[0], ends[1]))
    return tuple(found)


def _node(word: str, option: str) -> int:
    if not (word.isascii() and word.isdigit()) or len(word) > 9:
        raise UsageError(option, repr(word), "a node's number, or base")
    return int(word)


def audit(
    path: Path,
    *,
    epoch: int,
    coalition: str | None,
    links: tuple[str, ...],
    eavesdropper: bool,
    options: Options,
) -> None:
    """Audit an epoch of a transcript, and write the result.

    Ends with 5 if the coalition learns a reading of somebody else; without one, if so few nodes do
    as the protocol promises to withstand.
    """
    transcript = Transcript.read(path)
    note(options, f"{path.name}: {len(transcript)} messages, {transcript.epochs} epochs.")
    station = transcript.base_station
    nodes, pairs = coalition_of(coalition, station), links_of(links, station)
    views = SensorViews(transcript, epoch)
    given = bool(nodes or pairs or eavesdropper)
    disclosed = views.disclosed(nodes, pairs, eavesdropper)
    smallest = views.smallest(pairs, eavesdropper)
    promised = transcript.params.corrupt
    few = bool(smallest.discloses) and len(smallest.members) <= promised
    leak = bool(disclosed) if given else few
    emit(
        _report(path.name, views, nodes, pairs, eavesdropper, disclosed, smallest, leak),
        options,
        leak=leak,
    )


def _report(
    name: str,
    views: SensorViews,
    nodes: tuple[int, ...],
    pairs: tuple[tuple[int, int], ...],
    eavesdropper: bool,
    disclosed: tuple[int, ...],
    smallest: Smallest,
    leak: bool,
) -> Report:
    transcript, station = views.transcript, views.transcript.base_station
    exact = "is" if smallest.exact else "is not known, but at least"
    size = len(smallest.members) if smallest.members else smallest.at_least
    if smallest.exact and not smallest.discloses:
        least = "none of the sets looked at learns a reading"
    else:
        least = f"the smallest set of nodes that learns another's reading {exact} {size}"
    who = f"{len(nodes)} nodes and {len(pairs)} broken links"
    if eavesdropper:
        who += " and an eavesdropper"
    verdict = f"{who} learn {len(disclosed)} of {len(views.targets)} readings; {least}."
    shown = disclosed[:_SHOWN]
    facts: list[list[Cell]] = [
        ["protocol", str(transcript.params.protocol)],
        ["epoch", views.epoch],
        ["readings that went out", len(views.targets)],
        ["coalition", _names(nodes, station) or "none"],
        ["broken links", ", ".join(f"{a}-{b}" for a, b in pairs) or "none"],
        ["disclosed", _names(shown, station) + (", ..." if len(disclosed) > _SHOWN else "")],
        ["smallest set that learns a reading", _names(smallest.members, station) or "none found"],
        ["it learns", _names(smallest.discloses[:_SHOWN], station)],
    ]
    data: dict[str, object] = {
        "schema_version": 1,
        "protocol": str(transcript.params.protocol),
        "epoch": views.epoch,
        "epochs": transcript.epochs,
        "messages": len(transcript),
        "readings": len(views.targets),
        "coalition": list(nodes),
        "links": [list(pair) for pair in pairs],
        "eavesdropper": eavesdropper,
        "disclosed": list(disclosed),
        "smallest_coalition": {
            "size": len(smallest.members),
            "members": list(smallest.members),
            "discloses": list(smallest.discloses),
            "at_least": smallest.at_least,
            "exact": smallest.exact,
        },
        "base_station": station,
        "promised": transcript.params.corrupt,
        "leak": leak,
        "insecure_seed": transcript.insecure_seed,
        "input": {"source": name},
        "limits": list(LIMITS),
        "verdict": verdict,
    }
    return Report(
        title=f"Audit of a sensor network's epoch: {name}",
        verdict=verdict,
        data=data,
        tables=[Table("What is learned", ["what", "value"], facts)],
        notes=LIMITS,
    )


def _names(nodes: tuple[int, ...], station: int) -> str:
    return ", ".join("base" if node == station else str(node) for node in nodes)
