"""What is said: in the command's own words, while it works, and of its time."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from privagg._jit import JIT
from privagg.cli import _secagg_warm, common
from privagg.cli.common import Options, progress
from privagg.cli.failures import State, as_json
from privagg.cli.inputs import ClientInputs
from privagg.errors import UsageError
from privagg.protocols import secagg

ROUND = ("--clients", 50, "--dim", 5)


# In the command's own words


@pytest.mark.parametrize(
    ("args", "words", "never"),
    [
        (("--data", "adul", "--column", "x", "--clients", 5), ["--data: found adul"], "name:"),
        (("--data", "adult", "--column", "x", "--clients", 5), ["--column: found x"], " column:"),
        ((*ROUND, "--neighbours", 6), ["--neighbours: found 6", "--graph sparse"], "graph="),
        ((*ROUND, "--threat", "semi-malicious"), ["--graph: found", "--threat active"], "threat="),
        (
            (*ROUND, "--graph", "sparse", "--threat", "active"),
            ["--graph: found", "--threat semi-malicious"],
            "threat=",
        ),
        (
            (*ROUND, "--corrupt", 0.6, "--dropout", 0.6),
            ["--corrupt, --dropout: found"],
            "corrupt, dropout",
        ),
        (
            (*ROUND, "--value-bits", 32, "--max-weight", 2**40),
            ["--value-bits, --max-weight and --clients: found 32"],
            "value_bits",
        ),
        ((*ROUND, "--min-cohort", 50), ["--min-cohort: found 50"], "min_cohort"),
    ],
)
def test_messages_name_options(simulate, args, words, never):
    data, err = simulate(*args, code=2)
    for text in (data["error"]["message"], err):
        for word in words:
            assert word in text
        assert never not in text.replace("privagg simulate secagg: usage error: ", "")


def test_an_argument_is_named_as_in_the_help(run, capsys):
    assert run("data", "show", "nope") == 2
    assert "NAME: found nope" in capsys.readouterr().err


def said(error, *params, **names):
    options = [
        common.click.Option([f"--{name}"], is_flag=flag)
        for name, flag in (("graph", False), ("signed", True), ("value-bits", False))
    ]
    made = common.Command("c", params=[*options, *params])
    made.library_names = names
    state = State(context=SimpleNamespace(command=made))
    return as_json(error, state)["error"]["message"]


def test_what_is_no_option_is_left_as_it_is():
    error = UsageError(
        "graph", "graph='x'", "a=b, graph='sparse'", "Set signed=True, raise value_bits."
    )
    assert said(error) == (
        "--graph: found graph='x'; allowed: a=b, --graph sparse. Set --signed, raise --value-bits."
    )
    error = UsageError("x.csv", "graph", "columns value_bits, graph='y'", "value_bits")
    assert said(error) == str(error)
    error = UsageError("graph, other", 1, "value_bits")
    assert said(error) == str(error)
    assert said(UsageError("dims", 1, "2"), dims="--dim").startswith("--dim: found 1")


def test_weights_that_are_all_zero(refused, tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, x=np.ones((4, 2)), n=np.zeros(4, int))
    message = refused("--input", path, "--weights", "n", "--dropout", 0)
    assert "x.npz, 'n'" in message
    assert "all 0" in message
    np.savez(path, x=np.ones((4, 2)), n=np.array([1, 0, 0, 0]))
    (tmp_path / "s.json").write_text('{"masked-input": [0]}')
    given = ("--input", path, "--weights", "n", "--dropout", 0.25)
    message = refused(*given, "--schedule", tmp_path / "s.json")
    assert "the sum: found" in message
    assert "words_sum" not in message


def test_a_weight_alone_makes_generated_clients_weighted(simulate, run, capsys):
    data, err = simulate("--clients", 8, "--dim", 2, "--max-weight", 5)
    assert data["weighted"] is True
    assert "a weight from 1 to 5" in err
    for command in ("simulate", "plan"):
        assert run(command, "secagg", "--help") == 0
        words = capsys.readouterr().out.replace("│", " ").split()
        assert "makes the round weighted" in " ".join(words)


# While it works


class Pipe(io.StringIO):
    def isatty(self):
        return False


def test_a_pipe_gets_a_line_per_round(simulate):
    data, err = simulate("--clients", 10, "--dim", 3, "--dropout", 0.2, "--threat", "active")
    lines = [f"{name}: {count} of {count}" for name, count in data["survivors"].items()]
    assert len(lines) == 5
    assert [line for line in err.splitlines() if " of " in line and ": " in line][-5:] == lines
    _, err = simulate("--clients", 10, "--dim", 3, "-q")
    assert err == ""


def test_a_long_phase_says_now_and_then_how_far_it_is(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(common, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(sys, "stderr", Pipe())
    with progress(Options()) as step:
        for done in range(1, 2001):
            now[0] += 0.1
            step("masked-input", done, 2000)
    lines = sys.stderr.getvalue().splitlines()
    assert len(lines) in (6, 7, 8)
    assert lines[-1] == "masked-input: 2,000 of 2,000"
    assert len(set(lines)) == len(lines)


# Of its time


SCRIPT = """
import sys
import numpy as np
from numba.core import event
from privagg.cli._secagg_warm import warm_up
from privagg.cli.inputs import ClientInputs
from privagg.protocols import secagg

compiled = []


class Listener(event.Listener):
    def on_start(self, happened):
        compiled.append(happened.data["dispatcher"].py_func.__name__)

    def on_end(self, happened):
        pass


said = []
event.register("numba:compile", Listener())
for given in (
    {"clients": 40, "value_bits": 16},
    {"clients": 40, "value_bits": 16, "clip": 1.0, "max_weight": 2**20, "weighted": True},
    {"clients": 40, "value_bits": 16, "graph": "sparse", "prg": "chacha20"},
    {"clients": 3, "value_bits": 16},
):
    params = secagg.Params.recommend(dim=3000, corrupt=0.0, dropout=0.0, **given)
    dtype = np.int32 if params.encoding.clip is None else np.float32
    vectors = np.zeros((params.clients, 3000), dtype)
    inputs = ClientInputs(source="", reading="", vectors=vectors, dim=3000, floats=False)
    warm_up(params, inputs, said.append)
    before = len(compiled)
    weights = [1] * params.clients if params.encoding.weighted else None
    secagg.run(params, vectors, weights=weights)
    assert compiled[before:] == [], (given, compiled[before:])
assert len(compiled) > 20, compiled
assert len(said) == 4 or len(said) == 3, said
assert all("once" in text for text in said)
"""


@pytest.mark.skipif(not JIT, reason="nothing is compiled")
def test_nothing_is_compiled_once_the_clock_runs(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr


def test_kernels_are_warm_before_the_clock_starts(simulate, monkeypatch):
    order = []
    real = secagg.run
    monkeypatch.setattr(_secagg_warm, "warm_up", lambda *_: order.append("warm"))
    monkeypatch.setattr(secagg, "run", lambda *a, **k: (order.append("run"), real(*a, **k))[1])
    simulate("--clients", 8, "--dim", 2)
    assert order == ["warm", "run"]


def test_without_kernels_nothing_is_warmed(monkeypatch):
    monkeypatch.setattr(_secagg_warm, "JIT", False)
    monkeypatch.setattr(secagg, "run", lambda *_, **__: pytest.fail("a round was run"))
    params = secagg.Params.recommend(clients=8, dim=2)
    inputs = ClientInputs(source="", reading="", vectors=np.zeros((8, 2)), dim=2, floats=True)
    _secagg_warm.warm_up(params, inputs, pytest.fail)


def test_every_option_is_warmed_without_complaint():
    for n in (2, 3, 5, 9, 20, 33, 400):
        for graph in ("complete", "sparse"):
            try:
                params = secagg.Params.recommend(
                    clients=n, dim=40, graph=graph, corrupt=0.0, dropout=0.05, value_bits=32
                )
            except UsageError:
                continue
            inputs = ClientInputs(
                source="", reading="", vectors=np.zeros((n, 40), int), dim=40, floats=False
            )
            _secagg_warm.warm_up(params, inputs, lambda _: None)
            for small in _secagg_warm._rounds(params):
                assert small.clients <= min(n, 32)
                assert small.dim == 16
                assert (small.modulus_bits > 32) == (params.modulus_bits > 32)
