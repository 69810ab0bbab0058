"""Clients and servers with one thing wrong each do not pass the conformance kit."""

from __future__ import annotations

import numpy as np
import pytest
from mutants import (
    Inventive,
    Lenient,
    OnSecondThought,
    Paranoid,
    Talkative,
    Untyped,
    client_with,
    server_with,
)

from privagg import keys
from privagg.errors import PeerError, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import (
    checks,
    client_graph,
    client_order,
    client_work,
    derivations,
    messages,
    pairing,
    rebuild,
    server_store,
)
from privagg.protocols.secagg.params import Policy
from privagg.testing import secagg as kit
from privagg.testing.secagg import BEHAVIOURS, Expect


def of_invariant(name):
    """Return the behaviours that attack an invariant, with a threat model for each."""
    return [
        (one.name, threat)
        for one in BEHAVIOURS.values()
        if one.invariant == name and one.of_server
        for threat in one.threats
    ]


def outcomes(make_client, pairs):
    """Return the outcomes of some behaviours against a client."""
    found = []
    for name, threat in pairs:
        report = kit.check_client(make_client, threat=threat, behaviours=[name])
        found += [finding.outcome for finding in report.findings]
    return found


# Clients without one check.

COMPOSED = {"survivors_are_acceptable", "signatures_are_acceptable"}
"""They call the others."""

NO_CHECKS = {"own_statement", "sharer_statement"}
"""What a client signs."""

NEVER_ALONE = {"threshold_exceeds_equivocation"}
"""What policy_is_met has refused never comes so far; see the test below."""


def nothing(*args):
    return None


def everyone(message, memory, *args):
    return np.ones(len(memory.members), np.bool_)


SKIPPED = {"neighbours_were_told": everyone, "signatures_are_acceptable": everyone}
"""Checks that return something, as they are skipped; the others return nothing."""


@pytest.mark.parametrize("name", sorted(set(checks.__all__) - COMPOSED - NO_CHECKS - NEVER_ALONE))
def test_a_client_without_one_check_does_not_pass(name):
    attacks = of_invariant(name)
    assert attacks, f"no behaviour attacks {name}"
    found = outcomes(client_with(checks, name, SKIPPED.get(name, nothing)), attacks)
    # Without the check of lengths it may be NumPy that refuses: that is no typed error.
    crashes = {"WRONG ERROR"} if name == "bitmap_covers_roster" else set()
    assert set(found) & ({"NOT CAUGHT"} | crashes), found


@pytest.mark.parametrize("name", sorted(COMPOSED))
def test_a_client_without_any_check_of_a_set_does_not_pass(name):
    rounds = {"survivors_are_acceptable": "survivor-set", "signatures_are_acceptable": "unmasking"}
    attacks = [
        (one.name, one.threats[0])
        for one in BEHAVIOURS.values()
        if one.round == rounds[name]
        and one.invariant in checks.__all__
        and one.invariant != "same_round"
        and one.expect is Expect.CAUGHT
        and one.ends_round
    ]
    assert len(attacks) >= 7
    found = outcomes(client_with(checks, name, SKIPPED.get(name, nothing)), attacks)
    assert "NOT CAUGHT" in found
    assert set(found) <= {"NOT CAUGHT", "WRONG ERROR"}


def test_the_policy_implies_the_threshold_against_equivocation():
    """Why no behaviour can attack `threshold_exceeds_equivocation` alone."""
    for params in kit.rounds_for("active"):
        for most in range(params.clients - 1):
            policy = Policy(min_cohort=most + 2, max_corrupt=most, roster=roster(params))
            try:
                checks.policy_is_met(params, policy)
            except UsageError:
                continue
            for holders in range(params.clients + 1):
                checks.threshold_exceeds_equivocation(holders, params, policy)
            assert 2 * params.threshold > params.clients + most


def roster(params):
    made = [keys.Identity(keys.digest(bytes([at]))) for at in range(params.clients)]
    return secagg.Roster(identity.public for identity in made)


# Clients with something else wrong.


MASK_SEEDS = pairing.mask_seeds


def without_model(*args, **options):
    return MASK_SEEDS(*args, **(options | {"model": b""}))


def any_state(table, state, message):
    return next(after for (_, kind), after in table.items() if kind is type(message))


def believe_the_graph(memory, params, roster):
    return client_graph.roster_of(memory.context, memory.key_root, memory.graph_root)


def reveal_anything(memory, challenge):
    memory.committed, memory.graph_root = challenge.present, challenge.root
    return memory.opening


def commit_to_anything(memory, request, entropy):
    memory.attempts += 1
    memory.key_root, memory.opening = request.key_root, entropy.take(16)
    memory.present = request.present
    return derivations.graph_commitment(
        memory.context, memory.key_root, memory.own_index, memory.opening
    )


def open_anything(memory, bundle):
    held = np.ones((len(memory.members), 2, 3), np.uint64)
    return held, np.ones(len(memory.members), np.bool_)


FOREIGN = client_with(client_work, "open_shares", open_anything)
GRAPH = "neighbours are those committed to"
FIXED = "keys and graph are fixed"


@pytest.mark.parametrize(
    ("make_client", "invariant"),
    [
        (
            client_with(pairing, "mask_seeds", without_model),
            "masks are bound to the model",
        ),
        (client_with(client_order, "next_state", any_state), "order"),
        (client_with(client_graph, "verify", believe_the_graph), GRAPH),
        (client_with(client_graph, "reveal", reveal_anything), FIXED),
        (client_with(client_graph, "commit", commit_to_anything), FIXED),
        (client_with(client_graph, "MAX_ATTEMPTS", 99), "draws of the graph are limited"),
        (FOREIGN, "ciphertexts are bound to their parties"),
        (FOREIGN, "ciphertexts are bound to their round"),
        (FOREIGN, "ciphertexts are bound to their direction"),
        (Inventive, "a share that does not open is not made up"),
        (Talkative, "one answer per round"),
    ],
)
def test_a_client_with_one_thing_wrong_does_not_pass(make_client, invariant):
    attacks = of_invariant(invariant)
    assert attacks
    assert set(outcomes(make_client, attacks)) & {"NOT CAUGHT", "WRONG ERROR"}


def test_a_reader_of_bytes_that_forgives_does_not_pass():
    def forgiving(data, params):
        try:
            return messages.decode(data, params, peer="server")
        except PeerError:
            return messages.decode(data[:-1], params, peer="server")

    report = kit.check_client(
        threat="semi-honest", behaviours=["oversized-messages"], decode=forgiving
    )
    assert {finding.outcome for finding in report.findings} == {"NOT CAUGHT"}


@pytest.mark.parametrize(
    ("make_client", "outcome"),
    [
        (Lenient, "WENT ON AFTER THE LIE"),
        (OnSecondThought, "ANSWERED THE SECOND TIME"),
        (Untyped, "WRONG ERROR"),
    ],
)
def test_what_comes_after_the_lie_counts(make_client, outcome):
    report = kit.check_client(make_client, threat="active", behaviours=["own-keys-replaced"])
    assert [finding.outcome for finding in report.findings] == [outcome]
    assert not report.ok
    assert "FAIL own-keys-replaced" in str(report)


def test_a_client_that_refuses_everything_does_not_pass():
    """It catches every lie about the roster; the honest rounds give it away."""
    report = kit.check_client(Paranoid, threat="active")
    assert {finding.outcome for finding in report.missed} >= {
        "ACCUSED THE HONEST",
        "REFUSED AN HONEST MESSAGE",
        "ENDED AN HONEST ROUND",
    }
    controls = {name for name, one in BEHAVIOURS.items() if one.expect is Expect.HONEST}
    applicable = {name for name in controls if secagg.Threat.ACTIVE in BEHAVIOURS[name].threats}
    assert applicable <= {finding.behaviour.name for finding in report.missed}


# Servers with one thing wrong.


def believe_the_shares(self, client, secret):
    return True


def take_keys_unchecked(self, sender, message, context, directory):
    self.keys[sender] = np.frombuffer(message.cipher_key + message.mask_key, np.uint8)
    if self._params.signed:
        self.signatures[sender] = np.frombuffer(message.signature, np.uint8)


def take_shares_padded(self, sender, message, topology, listed):
    """Take however many there are."""
    row = topology.row(sender)
    present = np.flatnonzero(listed[row])[: len(message.shares)]
    self.shares[sender, present] = message.shares[: len(present)]


@pytest.mark.parametrize(
    ("make_server", "attack", "outcome"),
    [
        (
            server_with(rebuild.Rebuilder, "_is_right", believe_the_shares),
            "dealer-of-wrong-shares",
            "WRONG SUM",
        ),
        (
            server_with(rebuild.Rebuilder, "_is_right", believe_the_shares),
            "too-many-holders-of-wrong-shares",
            "WRONG SUM",
        ),
        (
            server_with(server_store.Store, "take_keys", take_keys_unchecked),
            "client-with-a-low-order-key",
            "ENDED THE ROUND",
        ),
        (
            server_with(server_store.Store, "take_keys", take_keys_unchecked),
            "client-without-a-signature",
            "ENDED THE ROUND",
        ),
        (
            server_with(server_store.Store, "take_shares", take_shares_padded),
            "holder-that-pads-its-shares",
            None,
        ),
    ],
)
def test_a_server_with_one_thing_wrong_does_not_pass(make_server, attack, outcome):
    report = kit.check_server(make_server, threat="active", behaviours=[attack])
    (finding,) = report.findings
    assert not finding.passed
    if outcome is not None:
        assert finding.outcome == outcome


def test_a_server_that_counts_a_message_twice_does_not_pass():
    class Adding(secagg.Server):
        def receive(self, sender, message):
            receipt = super().receive(sender, message)
            if isinstance(message, messages.MaskedInput) and receipt is secagg.Receipt.REPEATED:
                self._accumulator += message.vector
            return receipt

    report = kit.check_server(
        Adding, threat="semi-honest", behaviours=["client-that-sends-two-vectors"]
    )
    assert not any(finding.passed for finding in report.findings)
