from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.protocols.responses import reports
from privagg.protocols.responses.report_noise import noise, noise_epsilon, noise_variance
from privagg.protocols.responses.reports import Layout, ReportParams, Tables, preset

LAYOUT = Layout((2, 3, 4))


@pytest.fixture(scope="module")
def displays():
    return reports.simulate(3000, features=3, smallest=2, largest=4, seed=1)


@pytest.fixture(scope="module")
def layout(displays):
    return Layout(displays.cardinalities)


def test_the_tables_count(displays, layout):
    tables = Tables.count(layout, displays.codes, displays.labels)
    for table, start in zip(layout.tables, layout.starts, strict=True):
        for at, cell in enumerate(
            itertools.product(*(range(layout.cardinalities[f]) for f in table))
        ):
            inside = (displays.codes[:, table] == cell).all(axis=1)
            assert tables.displays[start + at] == inside.sum()
            assert tables.clicks[start + at] == displays.labels[inside].sum()
    assert (tables.total, tables.clicked) == (3000, displays.labels.sum())


def test_one_display_moves_what_the_accountant_says(displays, layout):
    # The largest move over all displays that could be added, clicked or not.
    params = ReportParams(layout=layout)
    empty = Tables.count(layout, np.zeros((0, 3), int), np.zeros(0, int))
    for codes in itertools.product(*(range(c) for c in layout.cardinalities)):
        one = Tables.count(layout, [codes], [1])
        move = np.concatenate([one.displays - empty.displays, one.clicks - empty.clicks])
        assert np.abs(move).sum() == params.l1
        assert np.sqrt((move**2).sum()) == pytest.approx(params.l2)
        assert (move != 0).sum() == params.moved == 12


def test_laplace_epsilon_by_enumeration():
    # One feature, one value: two counts, each with noise; the ratio of two laws over all outputs.
    params = ReportParams(layout=Layout((1,)), noise="discrete-laplace", scale=1.5)
    at = np.arange(-40, 41)
    law = np.exp(-np.abs(at) / 1.5)
    with_, without = (
        np.multiply.outer(np.roll(law, 1), np.roll(law, 1)),
        np.multiply.outer(law, law),
    )
    ratio = np.abs(np.log(with_ / without))[2:-2, 2:-2].max()
    assert ratio == pytest.approx(params.epsilon()) == pytest.approx(2 / 1.5)


def test_gaussian_epsilon_bounds_delta_by_enumeration():
    params = ReportParams(layout=Layout((1,)), noise="discrete-gaussian", scale=4.0)
    epsilon = params.epsilon(1e-3)
    at = np.arange(-60, 61)
    law = np.exp(-(at**2) / 32.0)
    law /= law.sum()
    moved = np.roll(law, 1)
    p, q = np.multiply.outer(moved, moved), np.multiply.outer(law, law)

    def delta(e):
        return np.maximum(p - np.exp(e) * q, 0).sum()

    assert delta(epsilon) <= 1e-3
    assert delta(0.85 * epsilon) > 1e-3


def test_the_challenge_s_noise():
    # Independent figure for 190 tables, two counts: rho = 380 / (2 17^2) = .657.
    params = ReportParams(layout=Layout((3,) * 19), scale=17.0)
    assert params.moved == 380
    assert params.epsilon(1e-10) == pytest.approx(7.66, abs=0.02)
    assert params.epsilon(1e-7) < params.epsilon(1e-10)
    # With a third count, sales: 9.54 of continuous noise of standard deviation 17.
    assert 9.54 < noise_epsilon("discrete-gaussian", 17.0, 570, 1, 1e-10) < 9.61


@pytest.mark.parametrize("kind", ["discrete-gaussian", "discrete-laplace"])
@pytest.mark.parametrize("scale", [0.5, 3.0, 17.0])
def test_noise_has_its_law(kind, scale):
    found = noise(kind, scale, 40_000, Draws(from_seed(3)))
    at = np.arange(-200, 201)
    law = np.exp(-(at**2) / (2 * scale**2) if kind.endswith("n") else -np.abs(at) / scale)
    law /= law.sum()
    seen = np.bincount(np.clip(found, -200, 200) + 200, minlength=401)
    often = law * found.size >= 20
    chi = ((seen - law * found.size)[often] ** 2 / (law * found.size)[often]).sum()
    assert chi < often.sum() + 6 * math.sqrt(2 * often.sum())
    if scale > 1:
        assert noise_variance(kind, scale) == pytest.approx((law * at**2).sum(), rel=1e-3)


def test_thresholds(displays, layout):
    exact = Tables.count(layout, displays.codes, displays.labels)
    single = np.arange(layout.cells) < sum(layout.cardinalities)
    true = reports.release(
        ReportParams(layout=layout, threshold="true", least=200),
        *(displays.codes, displays.labels, from_seed(4)),
    )
    assert (true.tables.kept == np.where(single, exact.displays > 0, exact.displays > 200)).all()
    noisy = reports.release(
        ReportParams(layout=layout, threshold="noisy", least=200),
        *(displays.codes, displays.labels, from_seed(4)),
    )
    assert (noisy.tables.displays[noisy.tables.kept] > 200).all()
    for report in (true, noisy):
        assert (report.tables.displays[~report.tables.kept] == 0).all()
        assert (report.tables.clicks[~report.tables.kept] == 0).all()
        assert not report.tables.kept.all()
    assert math.isinf(true.params.epsilon(1e-6))
    assert "true counts" in true.params.guarantee(1e-6)
    assert math.isfinite(noisy.params.epsilon(1e-6))
    assert math.isinf(noisy.epsilon(1e-6))  # A seed made its noise.
    assert math.isfinite(true.params.noise_epsilon(1e-6))


def test_without_noise_the_counts_are_exact_and_nothing_is_guaranteed(displays, layout):
    params = ReportParams(layout=layout, noise="none", threshold="none")
    report = reports.release(params, displays.codes, displays.labels)
    exact = Tables.count(layout, displays.codes, displays.labels)
    assert (report.tables.displays == exact.displays).all()
    assert math.isinf(params.epsilon(1e-6))
    assert params.guarantee() == "no differential privacy: counts are exact"


def test_empty_cells_get_noise_too(layout):
    report = reports.release(
        ReportParams(layout=layout, threshold="none"), np.zeros((0, 3), int), np.zeros(0, int)
    )
    assert report.tables.kept.all()
    assert (report.tables.displays != 0).mean() > 0.8
    assert not report.insecure


def test_presets():
    w3c = preset("w3c-attribution", LAYOUT)
    assert (w3c.noise, w3c.scale, w3c.unit) == ("discrete-laplace", 24.0, 1)
    assert w3c.epsilon() == 0.5  # A conversion that may be in either of two epochs costs twice it.
    legacy = preset("attribution-reporting", LAYOUT, 64)
    assert legacy.scale == 1024
    assert legacy.unit == 65536 // 12
    assert legacy.epsilon() == pytest.approx(64, rel=1e-3)
    assert legacy.epsilon() <= 64
    assert legacy.noise_sd == pytest.approx(math.sqrt(2) * 12 / 64, rel=1e-3)
    assert preset("adkdd21", LAYOUT).void
    for name, epsilon in (("x", None), ("adkdd21", 1.0), ("w3c-attribution", 0.0)):
        with pytest.raises(UsageError):
            preset(name, LAYOUT, epsilon)


def test_a_finer_grid_is_divided_out(displays, layout):
    params = preset("attribution-reporting", layout, 64)
    report = reports.release(params, displays.codes, displays.labels, from_seed(5))
    apart = report.tables.displays - Tables.count(layout, displays.codes, displays.labels).displays
    assert 0 < np.abs(apart).max() < 20 * params.noise_sd
    assert np.rint(apart * params.unit) == pytest.approx(apart * params.unit, abs=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        {"noise": "gaussian"},
        {"scale": 0.0},
        {"scale": math.nan},
        {"scale": "3"},
        {"scale": 1e6},
        {"unit": 0},
        {"unit": True},
        {"threshold": "maybe"},
        {"least": math.inf},
        {"layout": (2, 3)},
    ],
)
def test_bad_parameters(change):
    with pytest.raises(UsageError):
        ReportParams(**{"layout": LAYOUT, **change})


def test_bad_rows(displays, layout):
    params = ReportParams(layout=layout)
    for codes, labels in (
        (displays.codes + 9, displays.labels),
        (displays.codes[:, :2], displays.labels),
        (displays.codes * 1.0, displays.labels),
        (displays.codes, displays.labels + 1),
        (displays.codes, displays.labels[1:]),
    ):
        with pytest.raises(UsageError):
            reports.release(params, codes, labels)
    with pytest.raises(UsageError, match="delta"):
        params.epsilon()
