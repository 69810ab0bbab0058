"""A stored state whose parts do not fit together is refused when it is loaded, not later."""

from __future__ import annotations

import msgspec
import pytest
from parties import ALL, PLACE_IDS, PLACES, Play, play_to, states

from privagg.errors import UsageError
from privagg.protocols.secagg.states import ClientState, Phase

WHO = 1


def load_edited(play, record, **fields):
    data = msgspec.msgpack.encode(record | fields)
    return play.load(WHO, data)


@pytest.mark.parametrize(("kind", "state"), PLACES, ids=PLACE_IDS)
def test_every_field_that_is_cut_or_grown_is_refused(kind, state):
    play = play_to(state, ALL[kind](6, 3))
    record = msgspec.msgpack.decode(play.clients[WHO].dump_state())
    assert load_edited(play, record).state is state
    for group in ("secrets", "arrays"):
        for name, value in record[group].items():
            row = {"held": 48, "own_shares": 24, "mask_keys": 32, "inward": 16}.get(name, 4)
            for other in (value[:-row], value[row:], value + bytes(row), value[:-1], value + b"x"):
                if other == value:
                    continue
                with pytest.raises(UsageError, match="state"):
                    load_edited(play, record, **{group: record[group] | {name: other}})


@pytest.mark.parametrize("kind", ALL)
def test_every_state_with_the_fields_of_every_other_is_refused(kind):
    params = ALL[kind](6, 3)
    for state in states(params):
        play = play_to(state, params)
        record = msgspec.msgpack.decode(play.clients[WHO].dump_state())
        for other in ClientState:
            if other is state or {state, other} == {ClientState.IDLE, ClientState.ABORTED}:
                continue  # neither holds anything
            with pytest.raises(UsageError, match="state"):
                load_edited(play, record, state=other.name)


@pytest.mark.parametrize("kind", ALL)
def test_numbers_and_elements_out_of_range_are_refused(kind):
    params = ALL[kind](6, 3)
    play = play_to(ClientState.MASKED, params)
    record = msgspec.msgpack.decode(play.clients[WHO].dump_state())
    arrays = record["arrays"]
    wrong = [
        {"index": None},
        {"clipped": -1},
        {"clipped": 4},
        {"attempts": -1},
        {"attempts": 256},
        {"attempts": 0 if record["attempts"] else 1},
        {"reply": play.up[Phase.SHARE_KEYS, WHO]},
    ]
    changes = {
        "members": [b"\xff" * 4 + arrays["members"][4:], arrays["members"][::-1]],
        "held": [b"\xff" * 8 + arrays["held"][8:]],
        "own_shares": [b"\xff" * 48],
        "holders": [b"\2" + arrays["holders"][1:], bytes(len(arrays["holders"]))],
        "opened": [b"\2" + arrays["opened"][1:]],
    }
    if arrays["places"]:
        changes["places"] = [b"\xff" * len(arrays["places"])]
    wrong += [
        {"arrays": arrays | {name: value}} for name, values in changes.items() for value in values
    ]
    for fields in wrong:
        with pytest.raises(UsageError, match="state"):
            load_edited(play, record, **fields)
    if kind in ("complete", "active"):
        with pytest.raises(UsageError, match="state"):
            load_edited(Play(params), record, arrays=arrays | {"members": arrays["members"][:-4]})


def test_clients_that_gave_up_are_loaded_with_nothing_but_their_index():
    play = Play(ALL["complete"](4, 3))
    client = play.clients[WHO]
    client._memory = type(client._memory).aborted(WHO)
    record = msgspec.msgpack.decode(client.dump_state())
    assert load_edited(play, record).state is ClientState.ABORTED
    with pytest.raises(UsageError, match="mask_seed"):
        load_edited(play, record, secrets=record["secrets"] | {"mask_seed": bytes(16)})
