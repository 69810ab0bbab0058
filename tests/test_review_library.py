"""Spellings of one number, sums too large for their dtype, places where nothing can be cached."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import privagg
from privagg import entropy, field, prg, sharing, trees, wire
from privagg.encoding import Encoding
from privagg.errors import Abort, UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import Params, Phase, Policy
from privagg.protocols.secagg.streaming import run_streamed

MASKED = np.ma.masked_array

# Equal parameters have one digest, however their numbers are spelt.

SPELLINGS = {
    "clients": [64, np.int64(64), np.uint8(64)],
    "dim": [5, np.int16(5), np.uint64(5)],
    "threshold": [40, np.int32(40)],
    "corrupt": [8, np.int8(8), np.uint32(8)],
    "min_cohort": [40, np.int64(40)],
    "neighbours": [63, np.int64(63)],
    "sigma": [40, np.uint8(40)],
    "eta": [20, np.int64(20)],
    "dropout": [0.25, np.float64(0.25), np.float32(0.25), np.float16(0.25), Fraction(1, 4)],
    "encoding": [
        Encoding(kind="float", value_bits=8, clip=2.0, max_weight=3, weighted=True),
        Encoding(
            kind=np.str_("float"),
            value_bits=np.int64(8),
            clip=np.float32(2.0),
            max_weight=np.uint8(3),
            weighted=True,
        ),
        Encoding(kind="float", value_bits=8, clip=2, max_weight=3, weighted=True),
    ],
}


def spelt(**fields):
    first = {name: values[0] for name, values in SPELLINGS.items()}
    return Params(**first | fields)


@pytest.mark.parametrize("name", SPELLINGS)
def test_equal_parameters_have_equal_digests(name):
    for value in SPELLINGS[name]:
        found = spelt(**{name: value})
        assert found == spelt()
        assert found.digest() == spelt().digest()
        assert hash(found) == hash(spelt())
        for field_name, plain in vars(spelt()).items():
            assert type(getattr(found, field_name)) is type(plain)
    last = {key: values[-1] for key, values in SPELLINGS.items()}
    assert spelt(**last).digest() == spelt().digest()


@pytest.mark.parametrize("none", [0, 0.0, -0.0, np.float32(-0.0), np.int64(0), Fraction(0)])
def test_no_dropout_is_one_number(none):
    assert spelt(dropout=none).digest() == spelt(dropout=0.0).digest()
    assert str(spelt(dropout=none).dropout) == "0.0"


@pytest.mark.parametrize("corrupt", [0.125, np.float32(0.125), np.float64(0.125), Fraction(1, 8)])
@pytest.mark.parametrize("dropout", [0, np.int8(0), np.float16(0.25), Fraction(1, 4), 0.25])
def test_a_round_runs_with_any_spelling(corrupt, dropout):
    params = Params.recommend(
        clients=np.int64(8), dim=np.int16(2), corrupt=corrupt, dropout=dropout
    )
    result = secagg.run(params, np.ones((8, 2), int), seed=np.int64(3))
    assert result.sum.tolist() == [8, 8]
    again = Params.recommend(clients=8, dim=2, corrupt=float(corrupt), dropout=float(dropout))
    assert (params, params.digest()) == (again, again.digest())


@pytest.mark.parametrize("bad", [True, np.True_, "0.1", None, np.nan, -1e-9, 1.5, 1j, np.ones(1)])
def test_what_is_no_fraction_is_refused(bad):
    with pytest.raises(UsageError, match="dropout"):
        spelt(dropout=bad)
    with pytest.raises(UsageError, match="corrupt"):
        Params.recommend(clients=8, dim=2, corrupt=bad)


def test_policies_servers_and_seeds_take_numpy_s_integers():
    policy = Policy(min_cohort=np.int64(5), max_corrupt=np.uint8(1))
    assert type(policy.min_cohort) is type(policy.max_corrupt) is int
    params = Params.recommend(clients=8, dim=2)
    server = secagg.Server(params, round_number=np.int64(3), workers=np.int8(1))
    assert server.start(np.uint16(2)).client == 2
    assert server.message_for(np.int64(0)).encode()
    seeds = (5, np.int64(5), np.uint8(5))
    assert len({entropy.from_seed(seed).take(8) for seed in seeds}) == 1
    for bad in (True, 1.0, -1, np.float64(2), "5"):
        with pytest.raises(UsageError, match="seed"):
            entropy.from_seed(bad)


# Beside the corrupt clients two inputs are honest: else the corrupt ones read the one.


@pytest.mark.parametrize("threat", ["semi-honest", "active"])
@pytest.mark.parametrize("corrupt", [0, 1, 2, 3])
def test_fewer_than_two_honest_inputs_are_refused(threat, corrupt):
    made = {"clients": 12, "dim": 1, "corrupt": corrupt / 12, "dropout": 0.0, "threat": threat}
    assert Params.recommend(**made, min_cohort=corrupt + 2).honest_inputs == 2
    for low in range(2, corrupt + 2):
        with pytest.raises(UsageError, match=f"Use {corrupt + 2}") as caught:
            Params.recommend(**made, min_cohort=low)
        assert caught.value.argument == "min_cohort"


@pytest.mark.parametrize("threat", ["semi-honest", "semi-malicious"])
def test_in_sparse_graphs_too(threat):
    made = {"clients": 400, "dim": 1, "graph": "sparse", "threat": threat, "dropout": 0.0}
    params = Params.recommend(**made, corrupt=0.05)
    assert params.corrupt == 20
    assert params.honest_inputs >= 2
    with pytest.raises(UsageError, match="Use 22"):
        replace(params, min_cohort=21)
    assert replace(params, min_cohort=22).honest_inputs >= 2


def test_recommend_says_what_is_feasible_where_nothing_fits():
    """At every size: what it gives has two honest inputs, what it refuses has none that would."""
    for clients in range(2, 14):
        for corrupt in range(clients):
            for gone in range(clients):
                made = {"clients": clients, "dim": 1}
                parts = {"corrupt": corrupt / clients, "dropout": gone / clients}
                if clients - gone >= corrupt + 2:
                    assert Params.recommend(**made, **parts).honest_inputs >= 2
                else:
                    with pytest.raises(UsageError):
                        Params.recommend(**made, **parts)
    with pytest.raises(UsageError, match=r"two honest inputs.* Use corrupt <= 2 or") as caught:
        Params.recommend(clients=10, dim=1, corrupt=0.3, dropout=0.6)
    assert "a dropout of at most 5 clients" in str(caught.value)


def test_a_client_insists_on_two_as_well():
    for most in range(6):
        assert Policy(min_cohort=most + 2, max_corrupt=most).max_corrupt == most
        with pytest.raises(UsageError, match="min_cohort"):
            Policy(min_cohort=most + 1, max_corrupt=most)


# A sum is not lost because the clients' dtype does not hold it.


def test_a_float16_sum_beyond_float16_is_given_in_float64():
    params = Params.recommend(clients=4, dim=3, clip=60_000.0, value_bits=24)
    vectors = np.array([[50_000, 1, -50_000]] * 4, np.float16)
    result = secagg.run(params, vectors, seed=1)
    assert result.sum.dtype == np.float64
    expected = vectors.astype(float).sum(axis=0)
    np.testing.assert_allclose(result.sum, expected, atol=result.error_bound)
    assert result.mean.dtype == np.float16
    assert result.exact


def test_each_leaf_is_widened_on_its_own():
    params = Params.recommend(clients=3, dim=4, clip=1e38, value_bits=32)
    tree = {
        "big": np.array([3e38], np.float32),
        "small": np.array([1.0, 2.0], np.float32),
        "step": np.float16(0.5),
    }
    structure = trees.Structure.of(tree)
    found = structure.unflatten(np.array([9e38, 1.0, 2.0, 7e4]), widen=True)
    assert found["big"].dtype == np.float64
    assert found["big"][0] == 9e38
    assert found["small"].dtype == np.float32
    assert isinstance(found["step"], np.float64)
    assert found["step"] == 7e4
    with pytest.raises(UsageError, match="big"):
        structure.unflatten(np.array([9e38, 1.0, 2.0, 7e4]))
    result = secagg.run(params, [tree] * 3, seed=1)
    assert result.sum["small"].dtype == np.float32
    assert np.isfinite(result.sum["big"]).all()
    with pytest.raises(UsageError, match="widen"):
        structure.unflatten(np.zeros(4), widen=1)


def test_a_mean_that_rounding_lifts_beyond_its_dtype_is_kept_too():
    params = Params.recommend(clients=3, dim=1, clip=1e6, value_bits=1)
    result = secagg.run(params, np.full((3, 1), 65_504, np.float16), seed=4)
    assert np.isfinite(result.mean).all()
    assert abs(result.mean[0]) > 65_504
    assert result.mean.dtype == np.float64


def test_infinities_in_a_vector_stay_what_they_are():
    structure = trees.Structure.of(np.zeros(2, np.float16))
    assert structure.unflatten(np.array([np.inf, 1.0]), widen=True).dtype == np.float16


# Masks of masked arrays are not dropped: such arrays are refused.


def test_masked_arrays_are_refused_wherever_arrays_are_taken(tmp_path):
    params = Params.recommend(clients=3, dim=4)
    vector = MASKED([1, 2, 3, 4], mask=[0, 1, 0, 0])
    words = MASKED(np.ones(4, np.uint64), mask=False)
    octets = MASKED(np.ones((2, 16), np.uint8), mask=False)
    structure = trees.Structure.of(np.zeros(4, int))
    points = np.array([1, 2], np.uint64)
    server = secagg.Server(params)
    clients = [secagg.Client(params) for _ in range(3)]
    for index, client in enumerate(clients):
        server.receive(index, client.advertise_keys(server.message_for(index)))
    server.close()
    for index, client in enumerate(clients):
        server.receive(index, client.share_keys(server.message_for(index)))
    server.close()
    bundle = server.message_for(0)
    out = np.zeros(secagg.messages.MaskedInput.size(params), np.uint8)
    calls = [
        lambda: clients[0].masked_input(bundle, vector),
        lambda: clients[0].masked_input(bundle, vector, out=out),
        lambda: secagg.run(params, [vector] * 3),
        lambda: secagg.run(params, MASKED(np.ones((3, 4), int), mask=False)),
        lambda: run_streamed(params, [vector] * 3, np.zeros(4, np.int64), scratch=tmp_path),
        lambda: params.encoding.encode(vector, clients=3),
        lambda: params.encoding.decode(words, count=3),
        lambda: structure.flatten(vector),
        lambda: structure.unflatten(vector),
        lambda: wire.pack_bits(words, 8),
        lambda: wire.Writer().raw_array(octets),
        lambda: wire.Writer().bitmap(MASKED(np.ones(3, bool), mask=False)),
        lambda: prg.accumulate(
            words, np.zeros((1, 32), np.uint8), np.ones(1, np.int8), suite="aes-128-ctr"
        ),
        lambda: sharing.split(octets, 2, points, entropy.OS),
        lambda: field.elements(words, field.M61),
        lambda: secagg.model_digest([vector]),
    ]
    for call in calls:
        with pytest.raises(UsageError, match=r"mask"):
            call()
    assert clients[0].masked_input(bundle, vector.filled(0)), "the refused ones changed nothing"


def test_a_model_of_objects_has_no_digest():
    with pytest.raises(UsageError, match="object"):
        secagg.model_digest([np.array([None, 1])])


# The package runs where nothing can be written.

ROUND = """
import numpy as np
from privagg.protocols import secagg
from privagg import wire
for name in ("aes-128-ctr", "chacha20"):
    params = secagg.Params.recommend(clients=3, dim=2, prg=name)
    result = secagg.run(params, np.ones((3, 2), int))
    assert result.sum.tolist() == [3, 3], result.sum
params = secagg.Params.recommend(
    clients=12, dim=2, graph="sparse", neighbours=4, threshold=2, sigma=1, eta=1, corrupt=0,
    dropout=0,
)
assert secagg.run(params, np.ones((12, 2), int)).exact
stats = getattr(wire.pack_kernel, "stats", None)
print("cache:", stats.cache_path if stats else "not compiled")
"""


def run_python(code, cwd, **environment):
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "PRIVAGG_"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=cwd,
        env=plain | {"PYTHONPATH": str(cwd), "PYTHONDONTWRITEBYTECODE": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def unwritable(tmp_path_factory):
    """A copy of the package beside which nothing can be cached, not even by root.

    A file stands where each folder of cached code would be.
    """
    root = tmp_path_factory.mktemp("installed")
    source = Path(privagg.__file__).parent
    shutil.copytree(source, root / "privagg", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [root / "privagg", *(root / "privagg").rglob("*")]:
        if folder.is_dir():
            (folder / "__pycache__").write_text("in the way")
    return root


NOWHERE = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/cache"}


def test_a_round_runs_where_no_kernel_can_be_cached(unwritable):
    assert run_python(ROUND, unwritable, **NOWHERE) == "cache: None\n"


def test_the_doctor_says_that_nothing_is_cached(unwritable):
    code = """
from privagg.cli import doctor
found = doctor._jit()
print(found["enabled"], found["cache"], found["cached_kernels"])
"""
    assert run_python(code, unwritable, **NOWHERE) == "True None 0\n"


def test_with_numba_switched_off_the_plain_path_is_taken(unwritable):
    """Without a warning: interpreted kernels would wrap words with one."""
    out = run_python(ROUND, unwritable, **NOWHERE, NUMBA_DISABLE_JIT="1")
    assert out == "cache: not compiled\n"


# Bad arguments are named at once.


def test_an_unknown_stream_is_reported_when_a_party_is_made(monkeypatch):
    params = Params.recommend(clients=3, dim=2)
    monkeypatch.setenv("PRIVAGG_PRG", "bogus")
    for make in (
        lambda: secagg.Client(params),
        lambda: secagg.Server(params),
        lambda: secagg.run(params, np.ones((3, 2), int)),
    ):
        with pytest.raises(UsageError, match="PRIVAGG_PRG: found bogus"):
            make()


@pytest.mark.parametrize(
    "options",
    [
        {"transcript": 3},
        {"transcript": []},
        {"progress": 3},
        {"policy": 3},
        {"identities": 3},
        {"roster": 3},
        {"workers": 0},
        {"workers": True},
        {"model": 3},
        {"seed": 1.5},
        {"dropouts": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("threat", ["semi-honest", "active"])
def test_arguments_of_a_run_that_are_none_of_theirs(options, threat):
    params = Params.recommend(clients=4, dim=2, threat=threat)
    with pytest.raises(UsageError):
        secagg.run(params, np.ones((4, 2), int), **options)


@pytest.mark.parametrize(
    "options",
    [{"dropouts": {0: "never"}}, {"dropouts": {9: "unmasking"}}, {"dropouts": 3}, {"workers": 0}],
    ids=str,
)
def test_arguments_of_a_streamed_run_likewise(options, tmp_path):
    params = Params.recommend(clients=4, dim=2)
    vectors = [np.ones(2, int)] * 4
    with pytest.raises(UsageError):
        run_streamed(params, vectors, np.zeros(2, np.int64), scratch=tmp_path, **options)
    for wrong in (3, vectors[:2], None):
        with pytest.raises(UsageError):
            run_streamed(params, wrong, np.zeros(2, np.int64), scratch=tmp_path)
    with pytest.raises(UsageError, match="params"):
        run_streamed(3, vectors, np.zeros(2, np.int64), scratch=tmp_path)


def test_after_the_end_nobody_has_left():
    params = Params.recommend(clients=3, dim=2)
    server = secagg.Server(params)
    with pytest.raises(Abort):
        server.close()
    with pytest.raises(UsageError, match="not over") as caught:
        server.message_for(0)
    assert "left" not in str(caught.value)
    assert server.phase is Phase.ABORTED
