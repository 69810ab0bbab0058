"""A client's state leaves the process only on request, comes back whole, and holds no more."""

from __future__ import annotations

import copy
import pickle

import msgspec
import numpy as np
import pytest
from lsa_parties import ALL, Play, active, honest, identity, phases, pinned

from privagg.errors import PeerError, UsageError
from privagg.protocols import lightsecagg as lsa
from privagg.protocols.lightsecagg import Phase, messages


def states(params):
    """Yield the dumped state of client 1 after every round."""
    play = Play(params)
    yield play.clients[1].dump_state()
    for _ in phases(params):
        play.collect()
        play.server.close()
        yield play.clients[1].dump_state()


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_edited_states_are_refused(make):
    params = make(5, 3)
    for state in states(params):
        record = msgspec.msgpack.decode(state)
        edits = [("index", 7), ("clipped", 99), ("params", bytes(32)), ("format", "x")]
        edits += [("state", "UNKNOWN"), ("reply", b"\1\2\3"), ("extra", 1)]
        for name, value in edits:
            with pytest.raises(UsageError, match="state"):
                lsa.Client.load_state(
                    msgspec.msgpack.encode({**record, name: value}), params, **who(params)
                )
        for group in ("secrets", "arrays"):
            for name, value in record[group].items():
                for other in (value[:-1], value + b"\1", value * 2 + b"\1\1"):
                    if other == value:
                        continue
                    changed = {**record, group: {**record[group], name: other}}
                    with pytest.raises(UsageError, match="state"):
                        lsa.Client.load_state(
                            msgspec.msgpack.encode(changed), params, **who(params)
                        )
    with pytest.raises(UsageError, match="other bytes"):
        lsa.Client.load_state(b"no state", params, **who(params))


def who(params):
    if not params.signed:
        return {}
    roster = pinned(params.clients)
    return {"policy": lsa.policy_of(params, roster), "identity": identity(1)}


def test_words_above_the_modulus_in_a_state_are_refused():
    params = honest(5, 3)
    play = Play(params).until(Phase.MASKED_INPUT)
    record = msgspec.msgpack.decode(play.clients[1].dump_state())
    for name in ("mask", "held"):
        words = np.frombuffer(record["arrays"][name], "<u4").copy()
        words[0] = 2**31 - 1
        changed = {**record, "arrays": {**record["arrays"], name: words.tobytes()}}
        with pytest.raises(UsageError, match=name):
            lsa.Client.load_state(msgspec.msgpack.encode(changed), params)


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_secrets_are_forgotten_when_they_have_served(make):
    params = make(5, 3)
    play = Play(params).until(Phase.MASKED_INPUT)
    client, memory = play.clients[1], play.clients[1]._memory
    mask = memory.mask.copy()
    assert mask.any()
    assert memory.cipher_seed
    play.collect()
    assert memory.cipher_seed == b""
    assert (len(memory.mask), len(memory.inward)) == (0, 0)
    assert mask.tobytes() not in client.dump_state()
    assert len(memory.held) == 5
    play.server.close()
    play.until(Phase.UNMASKING).collect()
    assert not len(memory.held)


def test_a_client_that_gave_up_holds_nothing():
    play = Play(active(5)).until(Phase.MASKED_INPUT)
    client = play.clients[1]
    bundle = play.due(1)
    flags = bundle.present[:-1]
    short = messages.ShareBundle(
        tag=bundle.tag, present=flags, ciphertexts=bundle.ciphertexts[: int(flags.sum())]
    )
    with pytest.raises(PeerError, match="a bitmap over 4 members; the roster had 5"):
        client.masked_input(short, play.vectors[1])
    fresh = lsa.Client(play.params, play.policy, identity=identity(1))
    fresh._memory.state, fresh._memory.index = lsa.ClientState.ABORTED, 1
    assert client.dump_state() == fresh.dump_state()


def test_no_secret_is_shown_or_pickled():
    play = Play(honest(5)).until(Phase.MASKED_INPUT)
    client = play.clients[1]
    assert repr(client) == "Client(index=1, state='shared its mask')"
    assert repr(client._memory) == "ClientMemory(secret)"
    for thing in (client, client._memory, play.server):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(thing)
        with pytest.raises(TypeError, match="cannot be pickled"):
            copy.deepcopy(thing)


def test_a_callers_mistake_changes_nothing():
    play = Play(honest(5)).until(Phase.MASKED_INPUT)
    client, bundle = play.clients[1], play.due(1)
    before = client.dump_state()
    for vector in (np.zeros(3, int), np.full(4, -1), np.zeros(4), [[1], [2, 3]]):
        with pytest.raises(UsageError):
            client.masked_input(bundle, vector)
        assert client.dump_state() == before
    with pytest.raises(UsageError, match="nothing is signed"):
        client.masked_input(bundle, play.vectors[1], model=bytes(32))
    assert client.masked_input(bundle, play.vectors[1]).encode()
