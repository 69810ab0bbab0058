"""Wrong types, numbers at the ends of floats, and files of releases that contradict themselves."""

import copy
import json
import pickle

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from privagg.attacks import responses as attack
from privagg.attacks.responses_audit import audit, read_prior
from privagg.errors import UsageError
from privagg.protocols.responses import Curator, Release, planner, reports
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.clipping import PaidRange
from privagg.protocols.responses.result import Released
from privagg.protocols.responses.sorting import by_score

KEY = b"privagg.responses"
COUNTS = Release(epsilon=1.0, classes=2)
CODES, LABELS = np.array([[0, 0], [1, 1], [0, 1], [1, 0]]), np.array([0, 1, 1, 0])
PARAMS = reports.ReportParams(layout=reports.Layout((2, 2)), least=1e9)
NOTHING = reports.release(PARAMS, CODES, LABELS).tables


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bags.of(5, 3),
        lambda: Bags.of(None, 3),
        lambda: Bags.of([5], 6),
        lambda: Bags.of("012", 3),
        lambda: Bags(2, np.array([[0, 0], [1, -1]], np.int32)),
        lambda: Bags(3, np.zeros((2, 1), np.int32)),
        lambda: Bags(2, np.array([[0], [-1]], np.int32)),
        lambda: Bags(2, np.array([[1], [1]], np.int32)),
        lambda: Bags(2, np.array([[2**30], [0]], np.int32)),
        lambda: Bags(2, np.zeros((2, 1))),
        lambda: Bags(2, [[0], [0]]),
        lambda: PaidRange(candidates=None),
        lambda: PaidRange(candidates=("a",)),
        lambda: PaidRange(candidates=((1.0, 2.0), 3.0)),
        lambda: PaidRange(candidates=(True,)),
        lambda: PaidRange(candidates=(1.0, np.nan)),
        lambda: PaidRange(candidates=(2.0, 1.0)),
        lambda: PaidRange(candidates=(1.0, 1e200)),
        lambda: PaidRange(candidates=(1.0,), centre="a"),
        lambda: PaidRange(candidates=(1.0,), centre=1e20),
        lambda: PaidRange(candidates=(1.0,), share="a"),
        lambda: PaidRange(candidates=(1.0,), share=1e-17),
        lambda: PaidRange(candidates=(1.0,), beyond=None),
        lambda: Release(epsilon=1.0, clip=(0.0, 5e-324)),
        lambda: Release(epsilon=1.0, clip=(-1e300, 1e300)),
    ],
)
def test_wrong_types_and_ranges_are_refused(make):
    with pytest.raises(UsageError):
        make()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.uint8, bool])
def test_narrow_types_are_as_good_as_wide_ones(dtype):
    bags, values = Bags.of([[0, 1], [2, 3]], 4), np.array([0, 1, 1, 1]).astype(dtype)
    wide = Curator(Release(epsilon=1.0, clip=(-1e100, 1e100)), bags).release(values)
    assert np.isfinite(wide.values).all()
    assert np.isfinite(wide.noise_variance)
    near = Curator(Release(epsilon=64.0, clip=(0.0, 1.0), aggregate="sum"), bags).release(values)
    assert np.allclose(near.values, [1, 2], atol=1)
    assert Curator(Release(), bags).release(values).values.tolist() == [0.5, 1]


def test_sums_that_overflow_are_refused():
    bags = Bags.of([[0, 1]], 2)
    with pytest.raises(UsageError, match="overflow"):
        Curator(Release(), bags).release(np.full(2, 1e308))
    if np.finfo(np.longdouble).max > np.finfo(float).max:
        with pytest.raises(UsageError, match="float64"):
            Curator(Release(), bags).release(np.full(2, np.longdouble("1e4000")))


def test_a_curator_is_not_doubled():
    curator = Curator(Release(epsilon=1.0, classes=2), Bags.random(9, 3))
    for double in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="once more"):
            double(curator)


@pytest.fixture
def file(tmp_path):
    def make(release=COUNTS, copies=1, rows=40, **changes):
        bags = Bags.random(rows, 5, copies=copies)
        made = Curator(release, bags).release(np.arange(rows) % 2)
        made.write(tmp_path / "file.parquet", prior=np.full(rows, 0.5))
        table = parquet.read_table(tmp_path / "file.parquet")
        settings = json.loads(table.schema.metadata[KEY]) | changes
        raw = settings.pop("raw", None) or json.dumps(settings).encode()
        parquet.write_table(table.replace_schema_metadata({KEY: raw}), tmp_path / "file.parquet")
        return tmp_path / "file.parquet"

    return make


@pytest.mark.parametrize(
    "release",
    [
        Release(epsilon=1.0, classes=2),
        Release(epsilon=64.0, classes=3),
        Release(epsilon=0.5, delta=1e-6, classes=2),
        Release(epsilon=64.0, delta=1e-2, classes=2),
        Release(epsilon=2.0, clip=(0.0, 2.0)),
        Release(epsilon=2.0, delta=1e-6, clip=(0.0, 2.0)),
        Release(epsilon=2.0, clip=PaidRange(candidates=(1.0, 2.0))),
        Release(classes=2),
        Release(),
    ],
)
@pytest.mark.parametrize("copies", [1, 3])
def test_what_a_curator_writes_is_read(file, release, copies):
    found = Released.read(file(release, copies))
    assert found.epsilon == release.epsilon
    assert found.bags.copies == copies


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 0.9},
        {"epsilon": 65.0},
        {"epsilon": None},
        {"epsilon_clip": 5.0},
        {"epsilon_clip": 0.5},
        {"noise_variance": 0.0},
        {"noise_variance": 1.0},
        {"noise_variance": 5e-324},
        {"noise_variance": 1e280},
        {"noise_variance": 10**400},
        {"mechanism": "exact"},
        {"mechanism": "gaussian"},
        {"delta": -1.0},
        {"delta": 1e-3},
        {"kappa": 0.0},
        {"step": -1.0},
        {"step": 0.0},
        {"low": 1.0, "high": 0.0},
        {"low": None},
        {"names": [[1]] * 8},
        {"names": ["a"] * 8},
        {"raw": b"[" * 100_000},
    ],
)
def test_files_that_contradict_themselves_are_refused(file, changes):
    with pytest.raises(UsageError):
        Released.read(file(**changes))


def test_stated_guarantees_have_the_noise_that_they_take(file):
    gaussian = Release(epsilon=1.0, delta=1e-6, classes=2)
    for release, copies, changes in (
        (gaussian, 1, {"epsilon": 0.9}),
        (gaussian, 1, {"delta": 1e-7, "delta_realised": 1e-7}),
        (gaussian, 2, {"noise_variance": 20.0}),
        (Release(epsilon=1.0, classes=2), 2, {"noise_variance": 1.85}),
        (Release(epsilon=2.0, clip=(0.0, 2.0)), 1, {"high": 4.0}),
    ):
        with pytest.raises(UsageError, match="less noise"):
            Released.read(file(release, copies, **changes))


def test_an_audit_refuses_counts_that_are_none_and_priors_of_other_rows(file):
    path = file(Release(classes=2))
    with pytest.raises(UsageError, match="rows"):
        read_prior(path, 5)
    table = parquet.read_table(path)
    place = table.column_names.index("response")
    for response in (0.33, 1e300):
        column = pa.array(np.full(40, response))
        parquet.write_table(table.set_column(place, "response", column), path)
        with pytest.raises(UsageError):
            audit([Released.read(path)])


@pytest.mark.parametrize(
    "call",
    [
        lambda: by_score([1e308, -1e308, 1e308], 1),
        lambda: by_score(np.ma.masked_array([1.0, 2.0], mask=[True, False]), 1),
        lambda: reports.Layout(5),
        lambda: reports.Layout("ab"),
        lambda: reports.Layout((2,) * 20_000),
        lambda: reports.Layout((2, 3), pairs="no"),
        lambda: reports.preset("w3c-attribution", 5),
        lambda: PARAMS.epsilon("a"),
        lambda: PARAMS.epsilon(True),
        lambda: reports.release(PARAMS, np.ma.masked_array(CODES, mask=True), LABELS),
        lambda: reports.release(PARAMS, CODES, np.ma.masked_array(LABELS, mask=True)),
        lambda: reports.AggregateLogistic("a"),
        lambda: reports.AggregateLogistic(float("inf")),
        lambda: reports.AggregateLogistic(1.0).fit(None, CODES),
        lambda: reports.AggregateLogistic(1.0).fit(NOTHING, CODES),
        lambda: reports.AggregateLogistic(1.0).predict(CODES),
        lambda: reports.NaiveBayes().fit(None),
        lambda: reports.NaiveBayes().fit(NOTHING),
        lambda: reports.NaiveBayes().predict(CODES),
        lambda: reports.MarkovRandomField(ridge="a"),
        lambda: reports.MarkovRandomField().fit(None),
        lambda: reports.MarkovRandomField().predict(CODES),
        lambda: reports.Boosting().fit(None, CODES, LABELS),
        lambda: reports.Boosting().fit(NOTHING, CODES, LABELS * 2),
        lambda: reports.nllh(["a"] * 4, np.full(4, 0.5)),
        lambda: reports.nllh([0, 2, 1, 1], np.full(4, 0.5)),
        lambda: planner.forecast(100, 5, 1.0, sizes=[]),
        lambda: planner.forecast(100, 5, 1.0, sizes=None),
        lambda: planner.forecast(100, 5, 1.0, sizes=["a"]),
        lambda: attack.posterior([0.5], "a"),
        lambda: attack.posterior([0.5], [np.inf, 1]),
        lambda: attack.expected_advantage([0.5], "a"),
        lambda: attack.expected_advantage([0.5], [[-1, 2], [1, 0]]),
        lambda: attack.response_advantage(0.5, float("nan")),
        lambda: attack.response_advantage(0.5, -1e9),
        lambda: attack.response_epsilon(0.5, "a"),
        lambda: attack.infer([0.5], [3], [[1, 1]]),
        lambda: attack.infer([0.5], [0], None),
        lambda: audit([5]),
        lambda: Released.read(None),
        lambda: Curator(COUNTS, Bags.random(2, 1)).release([0, 1]).write("x", prior=["a", "b"]),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(call):
    with pytest.raises(UsageError):
        call()
