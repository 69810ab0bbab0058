"""The examples run, on what they need."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import sys
from pathlib import Path

import pytest

from privagg.protocols.collection import Collector, Survey

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture
def partitions(monkeypatch):
    """The example as a module that worker processes can import by its name."""
    pytest.importorskip("dask", reason="the extra 'dask' is not installed")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.find_spec("ldp_partitions")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "ldp_partitions", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("scheduler", ["processes", "threads"])
def test_partitions_add_up_to_one_pass(partitions, tmp_path, scheduler):
    config, names, truth = partitions.make(tmp_path, files=5, users=2000)
    found = partitions.aggregate(config, names, partitions=3, scheduler=scheduler)
    whole = Collector(Survey.decode(config))
    whole.merge(partitions.count(config, names))
    assert found.users == 10_000
    assert found.state.encode() == whole.state.encode()
    estimate = found.estimate(population=True)["colour"]
    for row, share in zip(estimate.rows(), truth, strict=True):
        assert abs(row["raw"] - share) < 6 * row["deviation"]


def count_and_encode(config, name):
    from privagg.protocols.collection import read_reports

    with Path(name).open("rb") as file:
        return read_reports(Survey.decode(config), file).state.encode()


def test_processes_of_their_own_add_up_without_dask(tmp_path):
    from privagg.domain import Categorical
    from privagg.protocols.collection import write_reports

    survey = Survey.declare({"x": Categorical(["a", "b"]), "y": Categorical([1, 2, 3])}, 1.0)
    names = []
    for number in range(3):
        names.append(tmp_path / f"{number}.bin")
        with names[-1].open("wb") as file:
            write_reports(survey, [survey.randomize({"x": ["a"] * 50, "y": [3] * 50})], file)
    collector = Collector(survey)
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for state in pool.map(count_and_encode, [survey.encode()] * 3, names):
            collector.merge(state)
    assert collector.users == 150


def test_federated_training_ends_where_the_plain_mean_does(monkeypatch, capsys):
    pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    import torch

    torch.set_num_threads(1)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.find_spec("torch_federated")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.main()
    assert found["secure"] > 0.78  # three quarters earn less: better than saying so of everyone
    assert abs(found["secure"] - found["plain"]) < 0.002
    assert 0 < found["difference"] < 0.01
    assert capsys.readouterr().out.count("by secure mean") == 4
