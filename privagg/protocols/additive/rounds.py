"""The driver: all parties of one run, in one process, with every message encoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from privagg import entropy as entropies
from privagg._validate import as_array
from privagg.errors import UsageError
from privagg.protocols._common.cohort import leaving
from privagg.protocols._common.framing import SESSION_BYTES
from privagg.protocols.additive import messages
from privagg.protocols.additive.client import Client
from privagg.protocols.additive.params import Params
from privagg.protocols.additive.result import Result
from privagg.protocols.additive.server import Helper, Leader
from privagg.protocols.additive.states import ROUNDS

__all__ = ["run"]


def run(
    params: Params,
    vectors: Any,
    *,
    dropouts: Mapping[int, str] | None = None,
    seed: int | None = None,
) -> Result:
    """Simulate a session.

    Parameters
    ----------
    params : Params
        What all have agreed on.
    vectors : (clients, dim) array of integers
        The inputs.
    dropouts : mapping of int to str, optional
        Client to the round of :data:`ROUNDS` before which it leaves.
    seed : int, optional
        Repeats the run, and makes it insecure.

    Returns
    -------
    Result
        The sum, whose inputs are in it, and the bytes sent.

    Raises
    ------
    UsageError
        If an argument is not as described.
    Abort
        If too few clients are left.
    """
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "additive.Params")
    rows = as_array("vectors", vectors)
    if len(rows.shape) != 2 or len(rows) != params.clients:
        raise UsageError("vectors", f"shape {rows.shape}", f"({params.clients}, {params.dim})")
    leaves = leaving(params.clients, {} if dropouts is None else dropouts, ROUNDS)
    source = entropies.from_seed(seed)
    session = source.take(SESSION_BYTES)
    leader = Leader(params, session)
    helpers = [Helper(params, session) for _ in range(params.helpers)]
    clients = [
        Client(params, session, index, entropy=source.spawn(f"client/{index}"))
        for index in range(params.clients)
    ]
    sent = dict.fromkeys(("client", "helper", "leader"), 0)

    def carried(message: Any, role: str, peer: str | int) -> Any:
        data = message.encode()
        sent[role] += len(data)
        return messages.decode(data, params, peer=peer)

    # Each client draws a seed for each helper.
    for client in clients:
        if leaves[client.index] > 0:
            for helper, share in zip(helpers, client.share_seeds(), strict=True):
                helper.receive(client.index, carried(share, "client", client.index))
    for at, helper in enumerate(helpers):
        leader.receive(at, carried(helper.holders(), "helper", f"helper {at}"))
    # Whose seeds all helpers have is asked for its vector under the masks.
    asked = leader.ask_inputs()
    for index in np.flatnonzero(asked.members).tolist():
        heard = carried(asked, "leader", "leader")
        if leaves[index] > 1:
            reply = clients[index].masked_input(heard, rows[index])
            leader.receive(index, carried(reply, "client", index))
    # The helpers add up the masks of who has answered.
    cohort = leader.ask_masks()
    for at, helper in enumerate(helpers):
        masks = helper.sum_masks(carried(cohort, "leader", "leader"))
        leader.receive(at, carried(masks, "helper", f"helper {at}"))
    return Result(sum=leader.result(), cohort=leader.cohort(), sent=sent, insecure=source.insecure)
