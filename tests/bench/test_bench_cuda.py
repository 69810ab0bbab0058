"""What is said of CUDA where there is none."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from privagg._cuda import state
from privagg.bench import field_cuda
from privagg.cli import main
from privagg.errors import UsageError
from privagg.report import Report


@pytest.fixture(params=["no package", "no driver", "no compiler"])
def absent(request, monkeypatch):
    """A machine where something is missing; return what."""
    devices = [SimpleNamespace(name=b"A device", compute_capability=(9, 0))]
    monkeypatch.setattr(state, "SIMULATED", False)
    monkeypatch.setattr(state, "JIT", request.param != "no compiler")
    found = None if request.param == "no package" else object()
    monkeypatch.setattr(state, "find_spec", lambda name: found)
    monkeypatch.setattr(state.metadata, "version", lambda name: "1.0")
    cuda = SimpleNamespace(
        is_available=lambda: request.param != "no driver", gpus=SimpleNamespace(lst=devices)
    )
    driver = SimpleNamespace(driver=SimpleNamespace(get_version=lambda: (13, 0)))
    monkeypatch.setattr(
        state, "import_module", lambda name: driver if name.endswith("driver") else cuda
    )
    return {
        "no package": "numba-cuda is not installed",
        "no driver": "no CUDA driver or device",
        "no compiler": "PRIVAGG_JIT=0",
    }[request.param]


def test_the_benchmark_says_what_is_missing(absent):
    with pytest.raises(UsageError) as found:
        field_cuda.bench()
    assert found.value.argument == "device"
    assert absent.lower() in str(found.value).lower()


def test_the_command_exits_with_usage(absent, capsys):
    assert main.run(["bench", "field", "--device", "cuda"]) == 2
    assert absent.lower() in capsys.readouterr().err.lower()


@pytest.mark.parametrize("option", ["--clients", "--secrets", "--threshold"])
def test_options_of_the_processor_are_refused(option, capsys):
    assert main.run(["bench", "field", "--device", "cuda", option, "9"]) == 2
    assert option in capsys.readouterr().err


def test_sizes_that_are_given_are_passed_on(monkeypatch, capsys):
    found = []

    def bench(**values):
        found.append({name: value for name, value in values.items() if name != "step"})
        return Report(title="none", data={}, tables=[])

    monkeypatch.setattr(field_cuda, "bench", bench)
    line = ["bench", "field", "--device", "cuda", "--json", "--quiet"]
    assert main.run(line) == 0
    assert main.run([*line, "--length", "99", "--repeats", "2"]) == 0
    assert found == [{}, {"length": 99, "repeats": 2}]
    assert capsys.readouterr().out


def test_doctor_says_what_is_missing(absent, capsys):
    assert main.run(["doctor", "--json"]) == 0
    gpu = json.loads(capsys.readouterr().out)["gpu"]
    assert gpu["available"] is False
    assert absent in gpu["reason"]
    assert (gpu["driver"], gpu["capabilities"]) in [(None, []), ("13.0", ["9.0"])]
    assert main.run(["doctor"]) == 0
    assert absent.split(":")[0][:20] in capsys.readouterr().out


def test_devices_are_named_with_their_capability(monkeypatch, capsys):
    found = state.State("1.0", "13.0", (state.Device("A device", "9.0", 132, 1.98e9),), "")
    monkeypatch.setattr(state, "state", lambda: found)
    assert main.run(["doctor"]) == 0
    assert "A device (compute capability 9.0); driver for CUDA 13.0" in capsys.readouterr().out
