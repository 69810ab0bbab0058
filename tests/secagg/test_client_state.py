"""A client's state leaves its process by dump_state() and goes on from load_state() alike."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from parties import (
    ALL,
    PLACE_IDS,
    PLACES,
    SEED,
    Play,
    complete,
    drawn,
    due,
    play_to,
    respond,
    sparse,
    states,
)

from privagg import entropy
from privagg.errors import PeerError, PrivaggError, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.states import ClientState, Phase

WHO = 1


def reload(play, index, entropy_used=0):
    """Put a client through its dumped state, as another process would."""
    client = play.clients[index]
    source = play.source.spawn(f"client/{index}")
    source.take(entropy_used)
    play.clients[index] = play.load(index, client.dump_state(), source)
    assert play.clients[index].state is client.state
    assert play.clients[index].index == client.index


@pytest.mark.parametrize("options", [{"clip": 1.0}, {"weighted": True, "max_weight": 3}], ids=str)
@pytest.mark.parametrize(("kind", "state"), PLACES, ids=PLACE_IDS)
def test_a_round_goes_on_from_every_state(kind, state, options):
    """All clients change process at the same place; the sum is that of one process."""
    params = ALL[kind](6, 4, **options)
    weights = [2] * 6 if params.encoding.weighted else None
    twin = Play(params, weights=weights)
    expected = twin.finish()
    play = play_to(state, params, weights=weights)
    for index in range(6):
        reload(play, index)
    if state is not ClientState.IDLE:
        for index in range(6):
            assert play.answer(index, play.down[play.phase, index]) == play.up[play.phase, index]
        play.server.close()
    found = play.finish()
    # Reloaded clients draw other randomness: exact for integers, one rounding apart for floats.
    bound = params.encoding.rounding_bound(6)
    np.testing.assert_allclose(found.total, expected.total, rtol=0, atol=bound)
    assert found.weight_total == expected.weight_total


@pytest.mark.parametrize("kind", ALL)
def test_bytes_are_equal_from_every_state(kind):
    """Given the same randomness, a reloaded client says what it would have said."""
    params = ALL[kind](5, 3)
    straight = Play(params)
    straight.finish()
    # What integers need: 48 bytes of seeds, then 16 for the graph, then the shares' coefficients.
    taken = {ClientState.IDLE: 0, ClientState.ADVERTISED: 48}
    taken |= {ClientState.COMMITTED: 64, ClientState.REVEALED: 64}
    for state in states(params):
        play = play_to(state, params)
        client = play.clients[WHO]
        if state in taken:
            reload(play, WHO, taken[state])
        else:  # from here on nothing random is drawn
            play.clients[WHO] = play.load(WHO, client.dump_state())
        if state is not ClientState.IDLE:
            play.server.close()
        if play.phase is not Phase.DONE:
            play.finish()
        assert {key: data for key, data in play.up.items() if key[1] == WHO} == {
            key: data for key, data in straight.up.items() if key[1] == WHO
        }


@pytest.mark.parametrize(("kind", "state"), PLACES, ids=PLACE_IDS)
def test_dumping_is_repeatable_and_loading_is_its_inverse(kind, state):
    play = play_to(state, ALL[kind](6, 3))
    client = play.clients[WHO]
    dumped = client.dump_state()
    assert client.dump_state() == dumped
    assert play.load(WHO, dumped).dump_state() == dumped
    assert b"secret" in dumped[:100]


def test_an_aborted_client_dumps_no_secret():
    play = Play(complete(4, 3)).until(Phase.MASKED_INPUT)
    client, bundle = play.clients[WHO], due(play, WHO)
    hidden = [client._memory.mask_seed, client._memory.self_seed, client._memory.context]
    assert all(value in client.dump_state() for value in hidden)
    with pytest.raises(PeerError):
        client.masked_input(replace(bundle, cohort=2), play.vectors[WHO])
    dumped = client.dump_state()
    assert not any(value in dumped for value in hidden)
    again = secagg.Client.load_state(dumped, play.params)
    assert again.state is ClientState.ABORTED
    with pytest.raises(PeerError, match="the round is over"):
        again.masked_input(bundle, play.vectors[WHO])


@pytest.mark.parametrize(("kind", "state"), PLACES, ids=PLACE_IDS)
def test_seeds_are_forgotten_once_the_masked_input_is_made(kind, state):
    params = ALL[kind](6, 3)
    memory = play_to(state, params).clients[WHO]._memory
    seeds = (memory.cipher_seed, memory.mask_seed, memory.self_seed)
    masked = states(params).index(state) >= states(params).index(ClientState.MASKED)
    if state is not ClientState.IDLE and not masked:
        assert all(len(seed) == 16 for seed in seeds)
    else:
        assert not any(seeds)
    if masked:
        assert memory.opening == b""
        assert not memory.own_shares.any()
        assert memory.inward.size == memory.mask_keys.size == 0


def dumped(state=ClientState.SHARED):
    play = play_to(state, complete(4, 3))
    return play.clients[WHO].dump_state(), play.params


def refused(state, params, match=None):
    with pytest.raises(UsageError, match=match) as caught:
        secagg.Client.load_state(state, params)
    assert caught.value.argument == "state"


def test_states_of_other_parameters_are_refused():
    state, params = dumped()
    for other in (
        complete(4, 2),
        complete(5, 3),
        complete(4, 3, threshold=3),
        complete(4, 3, min_cohort=3),
        complete(4, 3, prg="chacha20"),
        sparse(4, 3),
    ):
        refused(state, other, "other parameters")
    secagg.Client.load_state(state, params)
    with pytest.raises(UsageError, match=r"params\.threshold"):
        secagg.Client.load_state(state, params, secagg.Policy(min_cohort=4, max_corrupt=2))


@pytest.mark.parametrize("state", states(complete(4)), ids=lambda state: state.name)
def test_cut_states_are_refused(state):
    data, params = dumped(state)
    for length in range(len(data)):
        refused(data[:length], params)
    for tail in (b"\0", data, b"\xc0"):
        refused(data + tail, params)


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\0", b"garbage", bytes(1000), b"\xff" * 1000, b"\x80", b"\x90", None, "text", 3, [1]],
    ids=lambda value: repr(value)[:12],
)
def test_garbage_is_refused(garbage):
    refused(garbage, complete(4, 3))


def edited(**fields):
    """Return a dumped state with some fields changed, and its parameters."""
    data, params = dumped()
    record = msgspec.msgpack.decode(data)
    for name, value in fields.items():
        record[name] = value(record[name]) if callable(value) else value
    return msgspec.msgpack.encode(record), params


def without(name):
    return lambda fields: {key: value for key, value in fields.items() if key != name}


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"format": "privagg secagg client state, secret, version 2"}, "version"),
        ({"format": ""}, "version"),
        ({"state": "HAPPY"}, "unknown client state"),
        ({"state": 3}, "other bytes"),
        ({"index": "1"}, "other bytes"),
        ({"index": 4}, "outside the round"),
        ({"index": -1}, "outside the round"),
        ({"params": bytes(32)}, "other parameters"),
        ({"secrets": without("mask_seed")}, "other fields"),
        ({"arrays": without("held")}, "other fields"),
        ({"arrays": lambda arrays: arrays | {"more": b""}}, "other fields"),
        ({"arrays": lambda arrays: arrays | {"inward": arrays["inward"][:-1]}}, None),
        ({"arrays": lambda arrays: arrays | {"members": arrays["members"][:-1]}}, None),
        ({"reply": lambda reply: reply[:-1]}, "reply"),
        ({"reply": b""}, "reply"),
        ({"extra": 1}, "other bytes"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_edited_states_are_refused(fields, match):
    refused(*edited(**fields), match)


@pytest.mark.parametrize("make", [complete, drawn])
def test_flipped_bits_of_a_state_never_break_the_program(make):
    """They are refused, or meet the protocol's checks like any other wrong key or share."""
    params = make(4 if make is drawn else 3, 2)
    for state in states(params)[1:-1]:
        play = play_to(state, params)
        data = bytearray(play.clients[WHO].dump_state())
        play.server.close()
        message, refusals = due(play, WHO), 0
        for at in range(len(data)):
            data[at] ^= 1 << at % 8
            try:  # any other exception fails the test
                client = play.load(WHO, bytes(data))
                reply = respond(client, message, play.vectors[WHO])
                messages.decode(reply.encode(), play.params, peer=WHO)
            except PrivaggError:
                refusals += 1
            finally:
                data[at] ^= 1 << at % 8
        assert refusals > len(data) / 4


def test_a_refused_vector_costs_nothing():
    """The state is kept and the right vector gives the same bytes as at once."""
    params = complete(4, 3)
    straight = Play(params).until(Phase.MASKED_INPUT)
    straight.exchange()
    play = Play(params).until(Phase.MASKED_INPUT)
    client, bundle = play.clients[WHO], due(play, WHO)
    before = client.dump_state()
    for wrong in ([1, 2], [1, 2, 2**16], [1, 2, -1], [0.5, 1, 2], np.zeros((3, 1), int), "abc"):
        with pytest.raises(UsageError):
            client.masked_input(bundle, wrong)
        assert client.dump_state() == before
    with pytest.raises(UsageError, match="weight"):
        client.masked_input(bundle, play.vectors[WHO], weight=2)
    assert client.dump_state() == before
    reply = client.masked_input(bundle, play.vectors[WHO]).encode()
    assert reply == straight.up[Phase.MASKED_INPUT, WHO]


def test_seeded_sources_are_not_shared_by_accident():
    """Reloading with the operating system's entropy is the default, and is not repeatable."""
    params = complete(4, 3)
    play = Play(params)
    start = play.server.start(WHO)
    state = play.clients[WHO].dump_state()
    one, other = (secagg.Client.load_state(state, params) for _ in range(2))
    assert one.advertise_keys(start).encode() != other.advertise_keys(start).encode()
    seeded = [
        secagg.Client.load_state(
            state, params, entropy=entropy.from_seed(SEED).spawn(f"client/{WHO}")
        )
        for _ in range(2)
    ]
    assert len({client.advertise_keys(start).encode() for client in seeded}) == 1
