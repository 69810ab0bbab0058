from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from privagg.cli.envelope import KEYS
from privagg.entropy import from_seed
from privagg.protocols.responses import Curator, Release
from privagg.protocols.responses.bags import Bags

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "audit-responses.md"


@pytest.fixture
def write(tmp_path):
    def call(name, epsilon=None, seed=0, rows=60, prior=None, labels=None):
        y = (np.arange(rows) % 7 == 0).astype(int) if labels is None else labels
        bags = Bags.random(rows, 4, from_seed(seed))
        path = tmp_path / name
        Curator(Release(classes=2, epsilon=epsilon), bags).release(y).write(path, prior)
        return path

    return call


@pytest.fixture
def audit(run, capsys):
    def call(*args, code=0):
        found = run("audit", "responses", *args, "--json", "--quiet")
        out, err = capsys.readouterr()
        assert found == code, out + err
        return json.loads(out)

    return call


def test_exact_counts_leak(audit, write):
    data = audit("--bags", write("a.parquet"), code=5)
    assert data["leak"]
    assert data["certain_labels"] == data["certain_by"]["propagation"] > 0
    assert data["releases"][0]["mechanism"] == "exact"
    assert data["epsilon"] is None
    assert data["multiplicative_advantage"] is None
    assert data["revealed_bags"] == data["certain_labels"] / 60


def test_more_releases_tell_more(audit, write):
    one, other = write("a.parquet", seed=1), write("b.parquet", seed=2)
    alone = audit("--bags", one, code=5)
    both = audit("--bags", one, "--bags", other, code=5)
    assert both["certain_labels"] > alone["certain_labels"]
    assert [part["bags"] for part in both["releases"]] == [15, 15]


def test_noise_hides_labels_and_thresholds_decide(audit, write):
    path = write("a.parquet", epsilon=1.0)
    data = audit("--bags", path, "--prior", "0.4")
    assert not data["leak"]
    assert data["epsilon"] == 1.0
    assert data["certain_labels"] == 0
    assert data["multiplicative_advantage"] <= 1 + 1e-9
    assert data["prior"] == {"source": "given", "mean": pytest.approx(0.4)}
    assert 0 < data["expected_additive_advantage"] < 0.2
    audit("--bags", path, "--prior", "0.5", "--max-advantage", "0", code=5)
    exact = write("b.parquet")
    audit("--bags", exact, "--max-certain", "60")


def test_the_file_s_priors_are_taken(audit, write):
    data = audit("--bags", write("a.parquet", epsilon=2.0, prior=np.full(60, 0.3)))
    assert data["prior"] == {"source": "given", "mean": pytest.approx(0.3)}


def test_the_report_in_words(run, capsys, write, tmp_path):
    picture = tmp_path / "a.png"
    assert run("audit", "responses", "--bags", write("a.parquet"), "--plot", picture) == 5
    out = capsys.readouterr().out
    assert "LEAK:" in out
    assert "propagation" in out
    assert picture.stat().st_size > 1000


def test_bad_files(audit, write, tmp_path):
    (tmp_path / "no.parquet").write_bytes(b"nothing")
    for args in (
        ("--bags", tmp_path / "no.parquet"),
        ("--bags", tmp_path / "missing.parquet"),
        ("--bags", write("a.parquet"), "--bags", write("b.parquet", rows=80)),
    ):
        assert audit(*args, code=2)["error"]


def test_the_page_says_every_key(audit, write):
    data = audit("--bags", write("a.parquet"), code=5)
    page = PAGE.read_text(encoding="utf-8")
    names = {*data, *data["releases"][0], *data["certain_by"], *data["prior"]} - set(KEYS)
    assert not [name for name in names if f"`{name}`" not in page]
