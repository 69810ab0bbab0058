"""Broken protocols: each is additive sharing but for a fault, and fails the check that names it."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from privagg.entropy import OS, from_seed
from privagg.protocols import additive
from privagg.protocols._common.order import Receipt
from privagg.testing import ConformanceError, check_protocol
from privagg.testing.adapters import Additive

PARAMS = additive.Params(clients=3, dim=2, value_bits=4, helpers=2)
VECTORS = np.random.default_rng(2).integers(1, 15, (3, 2))


class ForgetsOne(additive.Leader):
    """Is wrong when everyone is there."""

    def result(self):
        found = super().result()
        return found - np.uint64(1) if len(self.cohort()) == 3 else found


class AsksForAll(additive.Leader):
    """Has masks taken off that are not in the sum."""

    def ask_masks(self):
        super().ask_masks()
        return additive.Cohort(tag=self._tag, members=self._holders.copy())


class LeavesOut(additive.Leader):
    """Does without the last client as soon as another is missing."""

    def ask_inputs(self):
        found = super().ask_inputs()
        if not found.members.all() and found.members.sum() == 2:
            self._there[:] = False
        return found

    def cohort(self):
        found = super().cohort()
        return found if len(found) == 3 else found[:-1]

    def result(self):
        found = super().result()
        if len(super().cohort()) == 3:
            return found
        return VECTORS[list(self.cohort())].sum(axis=0).astype(np.uint64)


class CountsTwice(additive.Leader):
    def receive(self, peer, message):
        found = super().receive(peer, message)
        self._digests.clear()
        return found


class Weighs(additive.Leader):
    """Counts client 0 twice, and trusts whatever comes under its name."""

    def receive(self, peer, message):
        found = super().receive(peer, message)
        if isinstance(message, additive.MaskedInput) and peer == 0 and found is Receipt.ACCEPTED:
            self._total += message.vector
        return found


class WeighsToo(additive.Helper):
    def sum_masks(self, message):
        seeds, first = self._seeds.copy(), self._reply
        found = super().sum_masks(message)
        if first is None and message.members[0]:
            words = found.vector.copy()
            additive.client.add_mask(words, seeds[0].tobytes())
            words &= np.uint64(2**self._params.bits - 1)
            self._reply = found = replace(found, vector=words)
        return found


class Hurries(additive.Helper):
    """Ends its round when a cohort comes, due or not."""

    def sum_masks(self, message):
        self.holders()
        return super().sum_masks(message)


class AnySession(additive.Helper):
    def receive(self, client, message):
        return super().receive(client, replace(message, tag=self._tag))


class Clocked(additive.Client):
    def masked_input(self, message, vector):
        time.time()
        return super().masked_input(message, vector)


class ForgetsASeed(additive.Client):
    @classmethod
    def load_state(cls, data, params, session, *, entropy=OS):
        found = super().load_state(data, params, session, entropy=entropy)
        found._seeds = tuple(bytes(32) for _ in found._seeds)
        return found


class Tells(additive.Client):
    def __repr__(self):
        return f"Client({self._reply.hex()})"


class Pickled(additive.Client):
    def __reduce__(self):
        return additive.Client, (self._params, bytes(16), self._index)


def made(**changes):
    return type("Broken", (Additive,), changes)(PARAMS, VECTORS)


def lenient(self, envelope):
    sizes = {1: 42, 2: 11, 3: 22, 4: 11, 5: 22}
    size = sizes.get(envelope.data[1] if len(envelope.data) > 1 else 0, 0)
    return Additive.decode(self, replace(envelope, data=envelope.data[:size] or b"\0"))


def greedy(self, envelope):
    np.zeros(int.from_bytes(envelope.data[10:14], "little") % 2**28, np.uint8)
    return Additive.decode(self, envelope)


def unmarked(self, seed):
    return False


def seedless(self, entropy):
    """Draw from one seed, whatever entropy is given."""
    return Additive.start(self, from_seed(7))


def weighed(self, contributors):
    plain = Additive.expected(self, contributors)
    return plain + VECTORS[0].astype(np.uint64) * np.uint64(0 in contributors)


FAULTS = {
    "dropouts": {"leader": AsksForAll},
    "seeded-repeat": {"start": seedless},
    "insecure-mark": {"simulated": unmarked},
    "swapped-senders": {"leader": Weighs, "helper": WeighsToo, "expected": weighed},
    "order": {"helper": Hurries},
    "duplicates": {"leader": CountsTwice},
    "other-session": {"helper": AnySession},
    "no-io": {"client": Clocked},
    "dump-load": {"client": ForgetsASeed},
    "repr": {"client": Tells},
    "pickle": {"client": Pickled},
    "decoding": {"decode": lenient},
    "sizes": {"decode": greedy},
    "lies": {"lies": lambda self: [("a lie", True, ""), ("another", False, "believed")]},
}


def check(**changes):
    found = check_protocol(made(**changes), schedules=64, mutations=200, raise_on_failure=False)
    return [one.name for one in found.failed], found


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_by_the_check_that_names_it(name):
    failed, found = check(**FAULTS[name])
    assert failed == [name], str(found)


def test_a_wrong_sum_of_everyone_is_found():
    failed, _ = check(leader=ForgetsOne)
    assert failed == ["honest-run", "dropouts"]


def test_who_stayed_may_not_be_left_out():
    failed, found = check(leader=LeavesOut)
    assert failed == ["dropouts"]
    assert "stayed, not counted" in found["dropouts"].evidence


def test_failures_raise_and_skipped_checks_say_why():
    with pytest.raises(ConformanceError, match=r"no-io: a run used time\.time"):
        check_protocol(made(client=Clocked), only=["no-io", "order"])
    found = check_protocol(
        made(client=Clocked), only=["no-io", "pickle"], skip={"no-io": "reads a clock"}
    )
    assert found.ok
    assert found["no-io"].evidence == "reads a clock"
    assert "1 passed, 0 failed, 1 skipped" in found.report().verdict
