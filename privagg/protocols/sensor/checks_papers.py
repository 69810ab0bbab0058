"""What parties of the other protocols insist on, each a function with a test that breaks it.

What holds no secret is checked here too: these protocols are kept as their papers have them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from privagg._validate import whole
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols.sensor.faithful import triangles
from privagg.protocols.sensor.params import Params

__all__ = [
    "every_seed_is_known",
    "insecurity_is_accepted",
    "query_is_new",
    "readings_are_in_range",
    "responders_are_as_many_as_counted",
    "seeds_are_distinct",
    "seeds_form_triangles",
    "silent_nodes_are_below",
    "targets_are_other_nodes",
    "values_form_triangles",
]

Seeds = Mapping[int, Sequence[int]]


def insecurity_is_accepted(allow_insecure: bool, params: Params) -> None:
    """Require the word of who builds such a party that it may give readings away."""
    if not isinstance(allow_insecure, bool):
        raise UsageError("allow_insecure", allow_insecure, "True or False")
    if not allow_insecure:
        raise UsageError(
            "protocol",
            str(params.protocol),
            "a protocol that holds, such as cpda-field",
            "This one gives its leader every reading; allow_insecure=True builds it all the same.",
        )


def every_seed_is_known(seeds: Seeds, members: Sequence[int]) -> None:
    """Require the seeds of all members: a share is made for each."""
    if len(seeds) < len(members):
        raise Abort("seeds never came", len(seeds), len(members))


def seeds_are_distinct(seeds: Seeds) -> bool:
    """Say whether no two members have the same seed: else the sums cannot be solved for."""
    columns = zip(*seeds.values(), strict=True)
    return all(len(set(column)) == len(column) for column in columns)


def seeds_form_triangles(seeds: Seeds) -> bool:
    """Say whether all triples of seeds satisfy the triangle inequalities: check 1 of Sen."""
    table = np.array([list(own) for own in seeds.values()], object)
    return bool(triangles(table.T).all())


def values_form_triangles(held: Mapping[int, Sequence[float]]) -> bool:
    """Say whether all triples that a member holds satisfy them: check 2 of Sen."""
    table = np.array([list(own) for own in held.values()], object)
    return bool(triangles(table.T).all())


def query_is_new(epoch: int, last: int, sender: int) -> None:
    """Require an epoch that was not begun before: a reading goes out once in it."""
    if not last < epoch < 2**32:
        raise PeerError(sender, "hello", f"epoch {epoch}, where one above {last} is due")


def targets_are_other_nodes(targets: Sequence[int], node: int, params: Params) -> None:
    """Require at most J - 1 different nodes, this one not among them."""
    most = params.slices - 1
    if not isinstance(targets, Sequence) or isinstance(targets, str | bytes):
        raise UsageError("targets", type(targets).__name__, f"at most {most} different other nodes")
    for target in targets:
        whole("targets", target, 0, 2**32 - 1)
    if len(set(targets)) != len(targets) or node in targets or len(targets) > most:
        raise UsageError("targets", list(targets), f"at most {most} different other nodes")


def silent_nodes_are_below(silent: Sequence[int], params: Params, child: int) -> None:
    """Require ids in ascending order, each once, and of nodes that there are."""
    ascending = all(a < b for a, b in itertools.pairwise(silent))
    if not ascending or any(node >= params.nodes for node in silent):
        raise PeerError(child, "report", "a list of silent nodes that is not one of nodes, sorted")


def responders_are_as_many_as_counted(responders: int, count: int, child: int) -> None:
    """Require that the list of the silent leaves as many as the reports count."""
    if responders != count:
        raise PeerError(child, "report", f"{count} readings, where the lists leave {responders}")


def readings_are_in_range(totals: Sequence[int], count: int, params: Params) -> None:
    """Require a sum that `count` readings can have: with a mask left in it, it is uniform."""
    if any(abs(total) > params.bound * count for total in totals):
        raise Abort("the sum is none of so many readings: something is missing", count, count)
