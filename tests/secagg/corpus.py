"""Messages of real rounds of every kind, to be changed, and what must become of them then."""

from __future__ import annotations

from parties import Play, active, complete, drawn, sparse

from privagg.errors import PeerError
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.states import Phase

PARAMS = {
    "complete": complete(9, 5),
    "complete, one coordinate": complete(2, 1, value_bits=1),
    "complete, 64-bit words": complete(9, 5, value_bits=32),
    "complete, weighted": complete(8, 7, weighted=True, max_weight=1000),
    "sparse": sparse(9, 5),
    "sparse, few neighbours": sparse(17, 1, neighbours=2, value_bits=3),
    "active": active(9, 5),
    "active, weighted": active(6, 3, weighted=True, max_weight=1000),
    "semi-malicious": drawn(9, 5),
    "semi-malicious, few neighbours": drawn(17, 1, neighbours=2, value_bits=3),
}
GONE = {0: Phase.SHARE_KEYS, 3: Phase.MASKED_INPUT}


def sent(params, leaves=None):
    """Return every encoded message of one round, with the name of its class."""
    play = Play(params, leaves=leaves)
    play.finish()
    found = [*play.down.values(), *play.up.values()]
    return [(type(messages.decode(data, params, peer=0)), data) for data in found]


def survives(data, params, kind=None):
    """Decode; return whether it was a message. Anything but PeerError is a failure."""
    try:
        message = messages.decode(data, params, peer=2)
    except PeerError as error:
        found = error
    else:
        assert message.encode() == data
        return True
    assert found.peer == 2
    assert found.round
    return False
