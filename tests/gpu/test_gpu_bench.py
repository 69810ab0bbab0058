"""The benchmark of the device runs and says what it measured; no figure is asserted."""

from __future__ import annotations

import json

import pytest

from privagg._cuda.arrays import SIMULATED
from privagg._cuda.state import require, state
from privagg.bench import field_cuda
from privagg.errors import UsageError

pytestmark = pytest.mark.gpu


def test_every_case_has_its_rates_and_floors():
    seen = []
    report = field_cuda.bench(
        length=16,
        columns=3,
        transform=4,
        words=20,
        seeds=3,
        repeats=2,
        step=lambda *step: seen.append(step),
    )
    data = json.loads(report.to_json())
    assert data["simulated"] is SIMULATED
    assert len(data["cases"]) == 4 + 2 + 1 + 2 == seen[-1][1] == seen[-1][2]
    assert len({case["name"] for case in data["cases"]}) == 9
    for case in data["cases"]:
        assert case["elements_per_second"] > 0
        assert case["bytes_per_second"] > 0
        assert case["floors"][0]["reason"].endswith("bytes moved")
        assert len(case["floors"]) == (1 if SIMULATED else 2)
        assert case["bound"] in [floor["reason"] for floor in case["floors"]]
    assert any("simulator" in note for note in report.notes) is SIMULATED


def test_the_device_is_described():
    found = state()
    assert found.reason == ""
    assert require("device") in found.devices


def test_arguments():
    for wrong in ({"length": 0}, {"repeats": 0}, {"transform": 6}, {"transform": 2}):
        with pytest.raises(UsageError) as found:
            field_cuda.bench(**wrong)
        assert found.value.argument == next(iter(wrong))
