"""Streamed rounds: vectors that pass through files, in every threat model."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from parties import complete, identity, pinned

from privagg.errors import Abort, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import streaming
from privagg.protocols.secagg.engine_processes import ProcessEngine
from privagg.protocols.secagg.messages import MaskedInput
from privagg.protocols.secagg.tiles import TILE

CLIENTS = 8
KINDS = {
    "complete": {},
    "sparse": {"graph": "sparse", "neighbours": 6, "threshold": 3, "sigma": 1, "eta": 1},
    "active": {"threat": "active"},
    "semi-malicious": {
        "graph": "sparse",
        "threat": "semi-malicious",
        "neighbours": 6,
        "threshold": 4,
        "sigma": 1,
        "eta": 1,
    },
}
DROPOUTS = {1: "masked-input", 4: "unmasking"}


@pytest.fixture(scope="module")
def engine():
    """Two processes for all rounds."""
    with ProcessEngine(2) as made:
        yield made


def params_of(kind, dim, **options):
    return secagg.Params.recommend(
        clients=CLIENTS,
        dim=dim,
        value_bits=12,
        dropout=0.25,
        corrupt=0.0,
        **KINDS[kind],
        **options,
    )


def mapped(folder, rows):
    """Write each row into a file of its own; return their maps."""
    found = []
    for client, row in enumerate(rows):
        vector = np.memmap(folder / f"in{client}", row.dtype, "w+", shape=row.shape)
        vector[:] = row
        found.append(vector)
    return found


def numbers(params, seed=6):
    rng = np.random.default_rng(seed)
    shape = (CLIENTS, params.dim)
    if params.encoding.clip is None:
        return rng.integers(0, 2**12, shape)
    return rng.uniform(-1.2, 1.2, shape)


@pytest.mark.parametrize(
    ("clip", "weighted", "several"),
    [(None, False, False), (1.0, False, True), (None, True, True), (1.0, True, False)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_streamed_round_gives_the_sum(tmp_path, engine, kind, clip, weighted, several):
    dim = 2 * TILE + 11
    more = {"weighted": True, "max_weight": 4} if weighted else {}
    params = params_of(kind, dim, clip=clip, **more)
    whole = numbers(params)
    dtype = np.int64 if clip is None else np.float64
    total = np.memmap(tmp_path / "total", dtype, "w+", shape=(dim,))
    weights = [1 + client % 4 for client in range(CLIENTS)] if weighted else None
    seen = set()
    found = streaming.run_streamed(
        params,
        mapped(tmp_path, whole),
        total,
        scratch=tmp_path,
        weights=weights,
        dropouts=DROPOUTS,
        seed=9,
        engine=engine if several else None,
        progress=lambda name, done, of: seen.add((name, done == of)),
    )
    stayed = [client for client in range(CLIENTS) if client != 1]
    factors = np.array(weights or [1] * CLIENTS)[stayed]
    plain = (whole[stayed].clip(-1, 1) if clip else whole[stayed]) * factors[:, None]
    bound = params.encoding.rounding_bound(7)
    assert np.abs(total - plain.sum(axis=0)).max() <= bound * (1 + 1e-9)
    assert found.sum is total
    assert found.mean.size == 0
    assert found.exact
    assert found.max_error <= found.error_bound * (1 + 1e-9)
    assert found.weight_total == factors.sum()
    assert found.survivors["masked-input"] == tuple(stayed)
    assert found.insecure_seed
    assert found.clipped == (int((np.abs(whole[stayed]) > 1).sum()) if clip else 0)
    assert {name for name, done in seen if done} == {*found.survivors, "unmasking by tiles"}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["total", *(f"in{client}" for client in range(CLIENTS))]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_integers_and_bills_are_those_of_the_ordinary_round(tmp_path, kind):
    params = params_of(kind, 3001)
    whole, total = numbers(params), np.zeros(3001, np.int64)
    found = streaming.run_streamed(
        params, list(whole), total, scratch=tmp_path, dropouts=DROPOUTS, seed=5
    )
    expected = secagg.run(params, whole, dropouts=DROPOUTS, seed=5)
    np.testing.assert_array_equal(total, expected.sum)
    assert found.survivors == expected.survivors
    for side in ("bytes_up", "bytes_down"):
        ours, theirs = getattr(found, side), getattr(expected, side)
        assert {name: list(v) for name, v in ours.items()} == {
            name: list(v) for name, v in theirs.items()
        }
    assert found.bytes_graph_proof == expected.bytes_graph_proof
    assert set(found.seconds["client"]) == set(expected.seconds["client"])


def test_workers_send_the_same_masked_vectors(tmp_path, engine):
    params = params_of("active", TILE + 5, clip=1.0)
    vectors = mapped(tmp_path, numbers(params))
    totals = [np.zeros(params.dim) for _ in range(2)]
    for total, place in zip(totals, (None, engine), strict=True):
        streaming.run_streamed(
            params, vectors, total, scratch=tmp_path, seed=2, engine=place, dropouts=DROPOUTS
        )
    np.testing.assert_array_equal(*totals)  # roundings and all


def test_given_identities_and_a_model(tmp_path):
    params = params_of("active", 500)
    total = np.zeros(500, np.int64)
    whole = numbers(params)
    found = streaming.run_streamed(
        params,
        list(whole),
        total,
        scratch=tmp_path,
        identities=[identity(client) for client in range(CLIENTS)],
        roster=pinned(CLIENTS),
        model=bytes(range(32)),
    )
    assert found.exact
    np.testing.assert_array_equal(total, whole.sum(axis=0))


def test_a_wrong_sum_is_not_called_exact(tmp_path, monkeypatch):
    params = params_of("complete", 300)
    remove = streaming.Unmasker.remove_masks

    def spoil(self, accumulator):
        found = remove(self, accumulator)
        accumulator[7] ^= accumulator.dtype.type(1)
        return found

    monkeypatch.setattr(streaming.Unmasker, "remove_masks", spoil)
    found = streaming.run_streamed(
        params, list(numbers(params)), np.zeros(300, np.int64), scratch=tmp_path
    )
    assert not found.exact
    assert found.max_error == 1


@pytest.mark.parametrize("several", [False, True])
def test_a_streamed_run_that_aborts_leaves_no_file(tmp_path, engine, several):
    params = complete(5, TILE + 3, value_bits=8, dropout=0.2)
    with pytest.raises(Abort):
        streaming.run_streamed(
            params,
            [np.zeros(params.dim, np.int64)] * 5,
            np.zeros(params.dim, np.int64),
            scratch=tmp_path,
            dropouts=dict.fromkeys(range(4), "masked-input"),
            engine=engine if several else None,
        )
    assert list(tmp_path.iterdir()) == []


def test_a_bad_number_is_named_and_nothing_is_left(tmp_path):
    params = params_of("complete", TILE + 3, clip=1.0)
    vectors = list(numbers(params))
    vectors[3][TILE + 1] = np.nan
    with pytest.raises(UsageError, match=rf"client 3: vector\[{TILE}:{TILE + 3}\].*nan"):
        streaming.run_streamed(params, vectors, np.zeros(params.dim), scratch=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("several", [False, True])
def test_no_room_for_a_masked_vector_is_the_systems_error(tmp_path, engine, several):
    """In a worker, too: here its folder is gone, which a full disk is like."""
    params = params_of("complete", 9)

    def take_away(name, done, of):
        if name == "share-keys" and done == of:
            (folder,) = tmp_path.glob("privagg-*")
            shutil.rmtree(folder)

    with pytest.raises(FileNotFoundError) as caught:
        streaming.run_streamed(
            params,
            list(numbers(params)),
            np.zeros(params.dim, np.int64),
            scratch=tmp_path,
            engine=engine if several else None,
            progress=take_away,
        )
    assert Path(caught.value.filename).name == "masked-input-0"
    assert list(tmp_path.iterdir()) == []


def test_the_scratch_folder_holds_no_more_than_said(tmp_path, engine):
    params = params_of("complete", TILE + 3)
    for place, workers in ((None, 1), (engine, 2)):
        most = 0

        def weigh(name, done, of):
            nonlocal most
            if name == "masked-input":
                found = [path.stat().st_size for path in tmp_path.glob("privagg-*/*")]
                most = max(most, sum(found))

        streaming.run_streamed(
            params,
            list(numbers(params)),
            np.zeros(params.dim, np.int64),
            scratch=tmp_path,
            engine=place,
            progress=weigh,
        )
        assert MaskedInput.size(params) < most <= streaming.scratch_bytes(params, workers)


def test_a_streaming_server_refuses_arrays_that_do_not_fit():
    params = complete(5, 10, value_bits=8)
    good = np.ones(params.length, params.word), np.zeros(10, np.int64)
    streaming.StreamingServer(params, accumulator=good[0], total=good[1])
    assert not good[0].any()
    for accumulator, total in (
        (good[0][:-1], good[1]),
        (good[0].astype(np.int32), good[1]),
        (good[0], good[1].astype(np.float64)),
        (good[0], np.zeros(20, np.int64)[::2]),
        (None, good[1]),
    ):
        with pytest.raises(UsageError, match="a writable"):
            streaming.StreamingServer(params, accumulator=accumulator, total=total)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vectors": [np.zeros(10, np.int64)]}, "vectors"),
        ({"vectors": 3}, "vectors"),
        ({"vectors": [np.zeros(10, np.int64)] * 4 + [np.zeros(9, np.int64)]}, r"vectors\[4\]"),
        ({"vectors": [[0] * 10] * 5}, r"vectors\[0\].*list"),
        ({"weights": [1] * 5}, "weights"),
        ({"total": np.zeros(10)}, "total"),
        ({"total": None}, "total"),
        ({"scratch": "missing"}, "scratch"),
        ({"engine": 3}, "engine"),
        ({"workers": 0}, "workers"),
        ({"policy": 3}, "policy"),
        ({"progress": 3}, "progress"),
        ({"identities": [1] * 5}, "identities"),
    ],
)
def test_a_streamed_run_refuses_what_it_does_not_do(tmp_path, change, words):
    params = complete(5, 10, value_bits=8)
    settings = {
        "vectors": [np.zeros(10, np.int64)] * 5,
        "total": np.zeros(10, np.int64),
        "scratch": tmp_path,
    } | change
    vectors, total = settings.pop("vectors"), settings.pop("total")
    with pytest.raises(UsageError, match=words):
        streaming.run_streamed(params, vectors, total, **settings)
    assert list(tmp_path.iterdir()) == []


def test_no_vector_is_held_after_it_is_in_the_sum(tmp_path):
    """Inputs are taken one at a time, and let go."""
    params = params_of("complete", 50)
    alive = set()

    class Held(np.ndarray):
        def __del__(self):
            alive.discard(id(self))

    class Vectors:
        def __len__(self):
            return CLIENTS

        def __getitem__(self, client):
            made = np.arange(50).view(Held)
            alive.add(id(made))
            assert len(alive) <= 2
            return made

    total = np.zeros(50, np.int64)
    streaming.run_streamed(params, Vectors(), total, scratch=tmp_path)
    np.testing.assert_array_equal(total, CLIENTS * np.arange(50))
    assert not alive
