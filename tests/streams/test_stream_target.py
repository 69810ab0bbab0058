"""Which instructions a kernel may name, and what happens where Numba may not use them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from privagg import prg
from privagg._jit import JIT

ROOT = Path(__file__).parents[2]

X86 = platform.machine().lower() in ("x86_64", "amd64")

PROGRAM = """
import hashlib, json, sys
import numpy as np
from privagg import prg

light = "numba" not in sys.modules
digest = hashlib.sha256()
answer = {"light": light}
for suite in prg.Suite:
    rng = np.random.default_rng(1)
    seeds = rng.integers(0, 256, (3, prg.seed_bytes(suite)), dtype=np.uint8)
    signs = np.array([1, -1, 1], np.int8)
    answer[suite.value] = [list(prg.paths(suite)), prg.path(suite)]
    for word in (np.uint32, np.uint64):
        total = np.arange(20_011, dtype=word)
        prg.accumulate(total, seeds, signs, suite=suite, start=3)
        digest.update(total.tobytes())
answer["digest"] = digest.hexdigest()
answer["numba"] = "numba" in sys.modules
print(json.dumps(answer))
"""


def run(**settings):
    """Run the program in a process of its own with these environment variables."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NUMBA_CPU", "NUMBA_ENABLE", "NUMBA_DISABLE", "PRIVAGG_"))
    }
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env={**kept, **settings},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def answer(**settings):
    done = run(**settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def digest():
    """What the program must compute everywhere: the portable path, in this process."""
    total = hashlib.sha256()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVAGG_PRG", "openssl")
        for suite in prg.Suite:
            rng = np.random.default_rng(1)
            seeds = rng.integers(0, 256, (3, prg.seed_bytes(suite)), dtype=np.uint8)
            for word in (np.uint32, np.uint64):
                words = np.arange(20_011, dtype=word)
                signs = np.array([1, -1, 1], np.int8)
                prg.accumulate(words, seeds, signs, suite=suite, start=3)
                total.update(words.tobytes())
    return total.hexdigest()


def test_the_default_takes_the_best_path(digest):
    found = answer()
    assert found["digest"] == digest
    assert found["light"], "importing privagg.prg must not import Numba"
    for suite in prg.Suite:
        paths, path = found[suite.value]
        assert path == paths[0]


@pytest.mark.parametrize(
    "target",
    [
        {"NUMBA_CPU_NAME": "x86-64"},
        {"NUMBA_CPU_NAME": "generic"},
        {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": "+sse2"},
        {"NUMBA_CPU_FEATURES": "-vaes,-aes"},
    ],
    ids=lambda target: ",".join(target.values()),
)
@pytest.mark.skipif(not X86, reason="these are names of x86-64 processors")
def test_other_targets_fall_back_to_openssl(target, digest):
    found = answer(**target)
    assert found["aes-128-ctr"] == [["openssl"], "openssl"]
    assert found["chacha20"][1] == "openssl"
    assert found["digest"] == digest


@pytest.mark.skipif(not JIT or "aesni" not in prg.paths("aes-128-ctr"), reason="needs AES-NI")
@pytest.mark.parametrize(
    "target",
    [
        {"NUMBA_ENABLE_AVX": "0"},
        {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": "+sse2,+aes"},
    ],
    ids=lambda target: ",".join(target.values()),
)
def test_targets_with_aes_but_no_avx_take_aesni(target, digest):
    found = answer(**target)
    assert found["aes-128-ctr"] == [["aesni", "openssl"], "aesni"]
    assert found["digest"] == digest


@pytest.mark.skipif(not JIT or not X86, reason="needs the compiler and an x86-64 target")
def test_the_vector_path_is_the_same_stream_on_plain_sse2(digest):
    found = answer(NUMBA_CPU_NAME="x86-64", NUMBA_CPU_FEATURES="+sse2", PRIVAGG_PRG="vector256")
    assert found["chacha20"] == [["openssl", "vector256"], "vector256"]
    assert found["digest"] == digest


@pytest.mark.parametrize("switch", [{"PRIVAGG_JIT": "0"}, {"NUMBA_DISABLE_JIT": "1"}], ids=str)
def test_without_the_compiler_openssl_serves(switch, digest):
    found = answer(**switch)
    for suite in prg.Suite:
        assert found[suite.value] == [["openssl"], "openssl"]
    assert found["digest"] == digest
    if "PRIVAGG_JIT" in switch:
        assert not found["numba"]


@pytest.mark.parametrize("suite", prg.Suite)
def test_every_path_can_be_forced(suite, digest):
    for name in prg.paths(suite):
        found = answer(PRIVAGG_PRG=name)
        assert found[suite.value][1] == name
        assert found["digest"] == digest


@pytest.mark.parametrize(
    "settings",
    [
        {"PRIVAGG_PRG": "vaes", "NUMBA_CPU_NAME": "x86-64"},
        {"PRIVAGG_PRG": "vaes", "PRIVAGG_JIT": "0"},
        {"PRIVAGG_PRG": "nothing"},
    ],
    ids=lambda settings: ",".join(settings.values()),
)
def test_a_path_that_cannot_run_is_refused_before_it_is_compiled(settings):
    done = run(**settings)
    assert done.returncode == 1
    assert f"UsageError: PRIVAGG_PRG: found {settings['PRIVAGG_PRG']}; allowed: " in done.stderr


@pytest.fixture
def host(monkeypatch):
    """A processor with VAES and AVX-512, whatever this one is."""
    target = pytest.importorskip("privagg._streams.target")
    flags = {"aes": True, "vaes": True, "avx2": True, "avx512f": True, "sse2": True, "sha": False}
    binding = target.llvmlite.binding
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: dict(flags))
    monkeypatch.setattr(binding, "get_host_cpu_name", lambda: "thishost")
    monkeypatch.setattr(target, "JIT", True)
    monkeypatch.setattr(target.platform, "machine", lambda: "x86_64")
    for name, value in (("CPU_NAME", None), ("CPU_FEATURES", None), ("DISABLE_JIT", 0)):
        monkeypatch.setattr(target.config, name, value)
    monkeypatch.setattr(target.config, "ENABLE_AVX", 1)
    return target


def test_the_host_grants_what_it_has(host):
    assert host.features() == {"aes", "vaes", "avx2", "avx512f", "sse2"}


@pytest.mark.parametrize(
    ("name", "features", "granted"),
    [
        ("thishost", None, {"aes", "vaes", "avx2", "avx512f", "sse2"}),
        ("x86-64", None, set()),
        ("generic", None, set()),
        ("x86-64", "+sse2,+aes", {"sse2", "aes"}),
        ("x86-64", "+aes,-aes", set()),
        ("x86-64", "-aes,+aes", {"aes"}),
        ("x86-64", "+sha,+neon", set()),
        (None, "+vaes", {"vaes"}),
        (None, "", set()),
    ],
)
def test_other_targets_grant_what_both_have(host, monkeypatch, name, features, granted):
    monkeypatch.setattr(host.config, "CPU_NAME", name)
    monkeypatch.setattr(host.config, "CPU_FEATURES", features)
    assert host.features() == granted


def test_switched_off_features_are_not_granted(host, monkeypatch):
    monkeypatch.setattr(host.config, "ENABLE_AVX", 0)
    assert host.features() == {"aes", "vaes", "sse2"}
    monkeypatch.setattr(host.config, "DISABLE_JIT", 1)
    assert host.features() == set()
    assert not host.compiles()


def test_names_of_other_architectures_grant_nothing(host, monkeypatch):
    monkeypatch.setattr(host.platform, "machine", lambda: "aarch64")
    assert host.features() == set()
    assert host.compiles()


def test_a_host_that_cannot_be_asked_grants_nothing(host, monkeypatch):
    def fail():
        raise RuntimeError("no such table")

    monkeypatch.setattr(host.llvmlite.binding, "get_host_cpu_features", fail)
    assert host.features() == set()


@pytest.mark.skipif(not JIT, reason="needs the compiler")
def test_kernels_let_other_threads_run_and_are_kept_on_disk():
    if len(prg.paths("chacha20")) == 1:
        pytest.skip("nothing is compiled here")
    from privagg._streams import aes, chacha20

    for module in (aes, chacha20):
        assert module._accumulate.targetoptions["nogil"]
        assert module._accumulate._cache.cache_path
