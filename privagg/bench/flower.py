"""Flower's own SecAgg+ functions on the work that our parties do, where Flower is installed.

Its client's two expensive rounds are run whole, by the functions that its client runs. Its server's
work is inside a workflow that talks to a network, so the functions which that workflow calls are
timed one by one and multiplied by how often it calls them: those rows are labelled extrapolated.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.bench.clock import Timing, race
from privagg.bench.peers import Work
from privagg.errors import UsageError

__all__ = ["CLIP", "VALUE_BITS", "client", "combine", "masks", "require", "server", "share"]

CLIP, VALUE_BITS = 8.0, 22
"""Flower's defaults: values clipped to [-8, 8], 2**22 levels."""

_MODULUS = 2**32

_COMMON = "flwr.common.secure_aggregation"


def require() -> None:
    """Raise a UsageError unless Flower is installed.

    Raises
    ------
    UsageError
        If it is not.
    """
    if find_spec("flwr") is None:
        raise UsageError(
            "--against",
            "flower, which is not installed",
            "flower where the package flwr is installed",
            "pip install 'privagg[flower]', or run `make bench-peers`.",
        )


def _module(name: str) -> Any:
    return import_module(name)


def masks(count: int, length: int) -> Work:
    """Return a maker and adder of `count` masks of `length` numbers."""
    generate = _module(f"{_COMMON}.secaggplus_utils").pseudo_rand_gen
    add = _module(f"{_COMMON}.ndarrays_arithmetic").parameters_addition
    seeds = [os.urandom(32) for _ in range(count)]
    total = [np.zeros(length, np.int64)]

    def work() -> None:
        result = total
        for seed in seeds:
            result = add(result, generate(seed, _MODULUS, [(length,)]))

    return work


def share(threshold: int, clients: int, secret: bytes) -> Work:
    """Return a sharer of `secret` by Flower's create_shares.

    Parameters
    ----------
    threshold : int
        Shares that rebuild a secret.
    clients : int
        How many clients.
    secret : bytes
        What is shared.
    """
    create = _module(f"{_COMMON}.crypto.shamir").create_shares
    return lambda: create(secret, threshold, clients)


def combine(threshold: int, clients: int, given: int, secret: bytes) -> Work:
    """Return a rebuilder of `secret` from `given` shares by Flower's combine_shares.

    Parameters
    ----------
    threshold : int
        Shares that rebuild a secret.
    clients : int
        How many clients.
    given : int
        How many shares are given.
    secret : bytes
        What is rebuilt.
    """
    shamir = _module(f"{_COMMON}.crypto.shamir")
    shares = shamir.create_shares(secret, threshold, clients)[:given]
    return lambda: shamir.combine_shares(shares)


class _Cohort:
    """Flower clients that have advertised their keys; the first is looked at."""

    def __init__(self, clients: int, threshold: int) -> None:
        self.mod = _module("flwr.client.mod.secure_aggregation.secaggplus_mod")
        keys = _module("flwr.supercore.primitives.asymmetric")
        self.pairs: list[tuple[bytes, bytes, bytes, bytes]] = []
        for _ in range(clients):
            (sk1, pk1), (sk2, pk2) = keys.generate_key_pairs(), keys.generate_key_pairs()
            self.pairs.append(
                (
                    keys.private_key_to_bytes(sk1),
                    keys.public_key_to_bytes(pk1),
                    keys.private_key_to_bytes(sk2),
                    keys.public_key_to_bytes(pk2),
                )
            )
        self.roster = {str(i): [pair[1], pair[3]] for i, pair in enumerate(self.pairs)}
        self.clients, self.threshold = clients, threshold

    def state(self, index: int) -> Any:
        state = self.mod.SecAggPlusState()
        state.nid, state.sample_num, state.share_num = index, self.clients, self.clients
        state.threshold, state.clipping_range = self.threshold, CLIP
        state.target_range, state.mod_range, state.max_weight = 2**VALUE_BITS, _MODULUS, 1.0
        state.sk1, state.pk1, state.sk2, state.pk2 = self.pairs[index]
        state.rd_seed_share_dict, state.sk1_share_dict, state.ss2_dict = {}, {}, {}
        return state


def client(
    clients: int, threshold: int, vector: NDArray[np.float32], repeats: int
) -> tuple[Timing, Timing]:
    """Return the timings of one client's _share_keys, and _collect_masked_vectors.

    The first with the keys of all `clients`, the second with the ciphertexts of all but itself.

    Parameters
    ----------
    clients : int
        How many clients.
    threshold : int
        Shares that rebuild a secret.
    vector : (dim,) float32 array
        What one client sends.
    repeats : int
        Repetitions, whose median is shown.
    """
    cohort = _Cohort(clients, threshold)
    mod = cohort.mod
    utils = _module(f"{_COMMON}.secaggplus_utils")
    crypto = _module(f"{_COMMON}.crypto.symmetric_encryption")
    keys = _module("flwr.supercore.primitives.asymmetric")
    first = cohort.state(0)
    shared = race({"share": lambda: mod._share_keys(first, dict(cohort.roster))}, repeats=repeats)[
        "share"
    ]
    # Every peer's ciphertext for the first client: shares of the right size under the right key.
    sizes = (len(first.rd_seed_share_dict[0]), len(first.sk1_share_dict[0]))
    texts = []
    for peer in range(1, clients):
        key = crypto.generate_shared_key(
            keys.bytes_to_private_key(cohort.pairs[peer][2]),
            keys.bytes_to_public_key(cohort.pairs[0][3]),
        )
        plain = utils.share_keys_plaintext_concat(peer, 0, *(os.urandom(size) for size in sizes))
        texts.append(crypto.encrypt(key, plain))
    parameters = _module("flwr.common").ndarrays_to_parameters([vector])
    names = _module(f"{_COMMON}.secaggplus_constants").Key
    configs = {names.CIPHERTEXT_LIST: texts, names.SOURCE_LIST: list(range(1, clients))}
    masked = race(
        {"mask": lambda: mod._collect_masked_vectors(first, configs, 1, parameters)},
        repeats=repeats,
    )["mask"]
    return shared, masked


def server(
    clients: int, threshold: int, dropped: int, length: int, repeats: int
) -> dict[str, tuple[Timing, int]]:
    """Return, per function of the server's workflow, its timing and how often a round calls it.

    Shares arrive from every client that stayed, and all are given to combine_shares, as the
    workflow does. Of a dropped client's masks those with clients that stayed are counted.

    Parameters
    ----------
    clients : int
        How many clients.
    threshold : int
        Shares that rebuild a secret.
    dropped : int
        How many clients leave.
    length : int
        Numbers in a vector.
    repeats : int
        Repetitions, whose median is shown.
    """
    stayed = clients - dropped
    pairs = dropped * stayed
    utils = _module(f"{_COMMON}.secaggplus_utils")
    arrays = _module(f"{_COMMON}.ndarrays_arithmetic")
    quantization = _module(f"{_COMMON}.quantization")
    crypto = _module(f"{_COMMON}.crypto.symmetric_encryption")
    keys = _module("flwr.supercore.primitives.asymmetric")
    common = _module("flwr.common")
    private, _ = keys.generate_key_pairs()
    _, public = keys.generate_key_pairs()
    secret, other = keys.private_key_to_bytes(private), keys.public_key_to_bytes(public)
    total = [np.zeros(length, np.int64)]
    upload = common.ndarray_to_bytes(total[0])
    work: dict[str, tuple[Work, int]] = {
        "combine_shares of a 32-byte seed": (
            combine(threshold, clients, stayed, os.urandom(32)),
            stayed,
        ),
        "bytes_to_ndarray of an upload": (lambda: common.bytes_to_ndarray(upload), stayed),
        "parameters_addition": (
            lambda: arrays.parameters_addition(total, total),
            2 * stayed + pairs,
        ),
        "pseudo_rand_gen": (
            lambda: utils.pseudo_rand_gen(os.urandom(32), _MODULUS, [(length,)]),
            stayed + pairs,
        ),
        "dequantize": (lambda: quantization.dequantize(total, CLIP, 2**VALUE_BITS), 1),
    }
    if dropped:
        work["combine_shares of a private key"] = (
            combine(threshold, clients, stayed, secret),
            dropped,
        )
        work["generate_shared_key, keys parsed"] = (
            lambda: crypto.generate_shared_key(
                keys.bytes_to_private_key(secret), keys.bytes_to_public_key(other)
            ),
            pairs,
        )
    timed = race({name: one for name, (one, _) in work.items()}, repeats=repeats)
    return {name: (timed[name], count) for name, (_, count) in work.items()}
