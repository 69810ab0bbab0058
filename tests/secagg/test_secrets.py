"""No secret crosses the wire in the clear, and none shows in what a program prints or stores."""

from __future__ import annotations

import copy
import pickle
import traceback
from dataclasses import replace

import numpy as np
import pytest
from parties import (
    ALL,
    PLACE_IDS,
    PLACES,
    Play,
    complete,
    due,
    identity,
    play_to,
    respond,
)

from privagg import keys, wire
from privagg.errors import Abort, PeerError, PrivaggError, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import client as client_module
from privagg.protocols.secagg import derivations, messages
from privagg.protocols.secagg.columns import pack_rows
from privagg.protocols.secagg.states import ClientState, Phase

LONG = 40
"""Coordinates: enough that a vector cannot occur in other bytes by chance."""


def secrets_of(play, index):
    """Return every secret of a client as it is now, by name, each of at least 16 bytes."""
    memory, params = play.clients[index]._memory, play.params
    found = {
        "c seed": memory.cipher_seed,
        "s seed": memory.mask_seed,
        "b": memory.self_seed,
        "own shares": memory.own_shares.tobytes() if memory.own_shares.any() else b"",
    }
    for at, row in enumerate(memory.inward):
        found[f"way in of {at}"] = row.tobytes() if row.any() else b""
    for at, pair in enumerate(memory.held):
        found[f"held of {at}"] = pair.tobytes() if pair.any() else b""
        found[f"packed held of {at}"] = (
            pack_rows(pair.reshape(1, -1)).tobytes() if pair.any() else b""
        )
    if memory.mask_seed:
        context = memory.context
        found["c private"], _ = derivations.key_pair(memory.cipher_seed, b"cipher", context, index)
        found["s private"], public = derivations.key_pair(memory.mask_seed, b"mask", context, index)
        found["b stream"] = derivations.self_mask_seed(memory.self_seed, context, index, 32)
        for member, key in zip(memory.members, memory.mask_keys, strict=True):
            if key.tobytes() != public:
                agreed = keys.agree(found["s private"], key.tobytes())
                found[f"agreed with {member}"] = agreed
                found[f"mask with {member}"] = derivations.pairwise_mask_seed(
                    agreed, context, memory.roster, index, int(member), 32, memory.model
                )
    if params.signed:
        found["identity"] = identity(index).secret_bytes()
    vector = np.asarray(play.vectors[index])
    words = params.encoding.encode(vector, clients=params.clients).words
    found["vector"] = vector.astype(np.int64).tobytes()
    found["words"] = words.tobytes()
    found["packed words"] = wire.pack_bits(words, params.modulus_bits)
    return {name: value for name, value in found.items() if value}


class Recorder:
    """Collects what every client ever kept secret, and everything that was sent."""

    def __init__(self, params, leaves=None, client=secagg.Client):
        self.play = Play(params, leaves=leaves, model=b"m" * 32)
        self.play.clients = [self.play.new_client(index, client) for index in range(params.clients)]
        self.secrets = {}

    def look(self):
        for index, client in enumerate(self.play.clients):
            if client.index is not None:
                for name, value in secrets_of(self.play, index).items():
                    self.secrets.setdefault((index, name), set()).add(value)

    def run(self):
        play = self.play
        while play.phase is not Phase.DONE:
            for index in play.present():
                data = play.ask(index)
                self.look_at(index)
                reply = play.answer(index, data)
                self.look_at(index)
                play.hand_in(index, reply)
            self.look()
            play.server.close()
        return self

    def look_at(self, index):
        if self.play.clients[index].index is not None:
            for name, value in secrets_of(self.play, index).items():
                self.secrets.setdefault((index, name), set()).add(value)

    def leaks(self):
        sent = [*self.play.down.values(), *self.play.up.values()]
        return {
            who
            for who, values in self.secrets.items()
            for value in values
            if any(value in data or value[::-1] in data for data in sent)
        }


SCHEDULES = {
    "all stay": {},
    "one leaves": {1: Phase.MASKED_INPUT},
    "some leave": {0: Phase.SHARE_KEYS, 2: Phase.MASKED_INPUT, 4: Phase.UNMASKING},
}


@pytest.mark.parametrize("leaves", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize("kind", ALL)
def test_no_secret_is_in_any_message(kind, leaves):
    if kind in ("sparse", "semi-malicious"):  # where fewer may leave before the round must stop
        leaves = dict(list(leaves.items())[:1])
    recorder = Recorder(ALL[kind](8, LONG), leaves).run()
    names = {name.split(" of ")[0].split(" with ")[0] for _, name in recorder.secrets}
    assert {"c seed", "s seed", "b", "c private", "s private", "b stream", "agreed", "mask"} < names
    assert {"way in", "held", "packed held", "vector", "words", "packed words"} < names
    assert len(recorder.play.down) + len(recorder.play.up) > 40
    assert recorder.leaks() == set()


def leaking(what):
    """Return a client that puts one secret where a public field should be."""

    class Leaky(secagg.Client):
        def share_keys(self, roster):
            reply = super().share_keys(roster)
            if what == "b":
                return replace(reply, commitment=self._memory.self_seed + bytes(16))
            if what == "s private":
                seed, context = self._memory.mask_seed, self._memory.context
                private, _ = derivations.key_pair(seed, b"mask", context, self.index)
                return replace(reply, commitment=private)
            if what == "identity":
                return replace(reply, commitment=self._identity.secret_bytes())
            return reply

        def masked_input(self, bundle, vector, **options):
            reply = super().masked_input(bundle, vector, **options)
            if what != "packed words":
                return reply
            words = self._params.encoding.encode(vector, clients=self._params.clients).words
            return replace(reply, vector=words)

    return Leaky


@pytest.mark.parametrize("what", ["b", "s private", "packed words", "identity"])
def test_the_recorder_catches_a_client_that_leaks(what):
    make = ALL["active"] if what == "identity" else complete
    recorder = Recorder(make(5, LONG), client=leaking(what))
    with pytest.raises(PeerError):
        recorder.run()
    assert {name for _, name in recorder.leaks()} == {what}


def test_the_recorder_catches_shares_in_the_clear(monkeypatch):
    def unencrypted(key, plaintext, associated):
        return plaintext + bytes(16)

    monkeypatch.setattr(client_module.keys, "encrypt", unencrypted)
    monkeypatch.setattr(client_module.keys, "decrypt", lambda key, text, associated: text[:-16])
    found = {name.split(" of ")[0] for _, name in Recorder(complete(5, LONG)).run().leaks()}
    assert found == {"packed held"}


@pytest.mark.parametrize("kind", ALL)
def test_of_each_client_the_server_sees_shares_of_one_kind_only(kind):
    """What is unmasked: b of the survivors, s of the others; t - 1 of the rest say nothing."""
    leaves = {1: Phase.MASKED_INPUT}
    options = {"neighbours": 6} if kind in ("sparse", "semi-malicious") else {}
    play = Play(ALL[kind](8, 3, **options), leaves=leaves).until(Phase.UNMASKING)
    held = {index: play.clients[index]._memory.held.copy() for index in play.present()}
    members = {index: play.clients[index]._memory.members.tolist() for index in play.present()}
    play.exchange()
    kept, told = set(), set()
    for index in play.present():
        message = messages.decode(play.up[Phase.UNMASKING, index], play.params, peer=index)
        told |= {share.tobytes() for share in message.shares}
        for member, (of_s, of_b) in zip(members[index], held[index], strict=True):
            kept.add((of_b if member in leaves else of_s).tobytes())
    assert len(told) == len(kept)
    assert not told & kept


def test_masked_vectors_of_the_same_input_have_nothing_in_common():
    """Nor does the same client's in another round."""
    params = complete(4, 2000)
    vectors = np.full((4, 2000), 1234)
    seen = []
    for number in (0, 1):
        play = Play(params, vectors=vectors, round_number=number).until(Phase.MASKED_INPUT)
        play.exchange()
        seen += [
            messages.decode(play.up[Phase.MASKED_INPUT, index], params, peer=index).vector
            for index in range(4)
        ]
    for at, one in enumerate(seen):
        assert len(np.unique(one)) > 1900
        for other in seen[:at]:
            assert (one == other).mean() < 0.01


# What a program may print, log or store.


def every_secret(play, index):
    return [value for value in secrets_of(play, index).values() if len(value) >= 16]


def shows(text, value):
    """Say whether `text` shows these bytes: raw, as hex, as `repr`, or as a list of numbers."""
    forms = (value.hex(), repr(value)[2:-1], repr(list(value))[1:-1])
    first = int.from_bytes(value[:8], "little")
    return any(form in text for form in forms) or str(first) in text


def test_shown_secrets_are_found():
    value = bytes(range(200, 216))
    array = np.frombuffer(value, np.uint8)
    for text in (value.hex(), repr(value), f"{array.tolist()}", f"{array.view('<u8')}"):
        assert shows(f"found {text} there", value)
        assert not shows(f"found {text} there", value[::-1])


@pytest.mark.parametrize(("kind", "state"), PLACES, ids=PLACE_IDS)
def test_clients_servers_and_messages_print_no_secret(kind, state):
    play = play_to(state, ALL[kind](6, LONG))
    client = play.clients[1]
    things = [client, client._memory, play.server, client._memory.reply]
    things += [client._identity, play.roster, play.policy]
    things += [messages.decode(data, play.params, peer=1) for data in play.up.values()]
    texts = [form(thing) for thing in things for form in (repr, str, "{!r:}".format)]
    texts += [f"{thing}" for thing in things] + [f"{[thing]}" for thing in things]
    hidden = every_secret(play, 1) if client.index is not None else []
    assert hidden or state is ClientState.IDLE
    for text in texts:
        assert len(text) < 400
        for value in hidden:
            assert not shows(text, value)


@pytest.mark.parametrize(("kind", "state"), PLACES, ids=PLACE_IDS)
def test_clients_and_servers_cannot_be_pickled_or_copied(kind, state):
    play = play_to(state, ALL[kind](6, 3))
    if play.params.signed:
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(identity(0))
    for thing in (play.clients[0], play.clients[0]._memory, play.server, [play.clients[0]]):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(thing, protocol)
        with pytest.raises(TypeError, match="cannot be pickled"):
            copy.deepcopy(thing)
    for thing in (play.clients[0], play.server):
        with pytest.raises(TypeError, match="cannot be pickled"):
            copy.copy(thing)


def provoke(play, index):
    """Return the errors of many wrong calls on a client in the masked-input round."""
    client, bundle = play.clients[index], due(play, index)
    state, errors = client.dump_state(), []
    bad = np.asarray(play.vectors[index])
    for message, vector in (
        (bundle, bad[:-1]),
        (bundle, bad.astype(bool)),
        (bundle, bad.astype(complex)),
        (bundle, bad + 0.5),
        (bundle, None),
        (bundle, {"a": bad}),
        (replace(bundle, tag=bytes(8)), bad),
        (replace(bundle, cohort=1), bad),
        (replace(bundle, cohort=99), bad),
        (replace(bundle, ciphertexts=bundle.ciphertexts ^ 1), bad),  # nothing opens
        (replace(bundle, present=bundle.present[1:]), bad),
        (play.server.start(index), bad),
    ):
        again = play.load(index, state)
        with pytest.raises((UsageError, PeerError, Abort)) as caught:
            respond(again, message, vector)
        errors.append(caught.value)
    for cut in (b"", state[:-1], state[:50], b"x" + state, bytes(100)):
        with pytest.raises(UsageError) as caught:
            play.load(index, cut)
        errors.append(caught.value)
    with pytest.raises(TypeError) as caught:
        pickle.dumps(client)
    return [*errors, caught.value]


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_errors_quote_no_secret(make):
    """Neither in their text nor in their attributes, nor in the traceback without locals."""
    play = Play(make(6, LONG)).until(Phase.MASKED_INPUT)
    quote_nothing(play)


@pytest.mark.parametrize("kind", ["active", "semi-malicious"])
def test_dumped_states_hold_no_identity(kind):
    params = ALL[kind](6, 3)
    for state in (state for name, state in PLACES if name == kind):
        play = play_to(state, params)
        for index, client in enumerate(play.clients):
            assert identity(index).secret_bytes() not in client.dump_state()


def quote_nothing(play):
    errors = provoke(play, 1)
    hidden = every_secret(play, 1)
    assert len(hidden) > 10
    for error in errors:
        texts = [str(error), repr(error), "".join(traceback.format_exception(error))]
        if isinstance(error, PrivaggError):
            texts += [str(vars(error)), repr(error.args)]
        for text in texts:
            for value in hidden:
                assert not shows(text, value)
