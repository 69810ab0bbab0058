"""A client's order: the table of its threat model, and the draws of the graph."""

from __future__ import annotations

from typing import Any

from privagg.protocols._common import order
from privagg.protocols._common.framing import Framed
from privagg.protocols.secagg import checks
from privagg.protocols.secagg.client_state import ClientMemory
from privagg.protocols.secagg.messages import GraphChallenge, GraphRequest, Message
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.states import CLIENT_TABLES, ClientState, next_state

__all__ = ["OrderedParty"]


class OrderedParty(order.OrderedParty[ClientMemory]):
    """Order for a client: accept, repeat, or refuse; move on only when a message was good."""

    def __init__(self, params: Params) -> None:
        super().__init__(params, ClientMemory())
        self._params = params

    def _next(self, message: Framed[Any]) -> ClientState:
        assert isinstance(message, Message)
        return next_state(CLIENT_TABLES[self._params.threat], self._memory.state, message)

    def _check_turn(self, message: Framed[Any]) -> None:
        if isinstance(message, GraphRequest | GraphChallenge):
            checks.same_draw(message, self._memory.attempts)
