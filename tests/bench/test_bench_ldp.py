"""The benchmark of local differential privacy runs, and says what it measured."""

from __future__ import annotations

import numpy as np
import pytest

from privagg.bench import ldp, peers_ldp, rows
from privagg.cli import main
from privagg.errors import UsageError


def cases_of(report):
    cases = {case["name"]: case for case in report.data["cases"]}
    for case in cases.values():
        assert case["rows"][0]["who"].startswith(rows.OURS)
        for row in case["rows"]:
            assert row["seconds"]["median"] > 0
            small = ("NumPy, a value", "multi-freq", "pure-ldp")
            assert bool(row["extrapolated"]) == row["who"].startswith(small)
    return cases


def test_all_parts():
    seen = []
    report = ldp.bench(
        users=3000, grr_users=5000, values=40, repeats=2, step=lambda *step: seen.append(step)
    )
    assert len(cases_of(report)) == 10
    assert seen[-1][1:] == (5, 5)
    figures = report.data["figures"]
    assert 16 <= figures["oue_bytes_per_report"] < 16.1
    assert figures["rsfd_oue_z_peak_bytes"] > 0
    absent = peers_ldp.missing()
    assert any("Not installed" in note for note in report.notes) == bool(absent)


def test_one_part_and_what_is_refused(run, capsys):
    assert run("bench", "ldp", "--part", "olh", "--users", 500, "--values", 20, "--json") == 0
    assert "OLH, 500 reports, k = 20" in capsys.readouterr().out
    with pytest.raises(UsageError, match="parts"):
        ldp.bench(parts=["ss"])
    with pytest.raises(UsageError, match="values"):
        ldp.bench(values=1)
    with pytest.raises(UsageError, match="users"):
        ldp.bench(users=0)


def test_numpy_contestants_do_the_same_work():
    codes = np.arange(60_000, dtype=np.uint32) % 5
    keep = np.exp(2) / (np.exp(2) + 4)
    for work in peers_ldp.numpy_symbols(codes, 5, 2.0).values():
        found = work()
        assert abs((found == codes).mean() - keep) < 6 * np.sqrt(keep * (1 - keep) / codes.size)
        assert found.max() == 4
    packed = peers_ldp.numpy_bits(codes, 5, 2.0)()
    counts = peers_ldp.numpy_count_bits(packed, 5)()
    share = (1 / 2 + 4 / (np.exp(2) + 1)) / 5
    assert np.all(np.abs(counts / codes.size - share) < 6 * np.sqrt(share / codes.size))
    decoded = peers_ldp.numpy_decode(60_000, 8, 4)()
    assert np.all(np.abs(decoded / 60_000 - 1 / 4) < 6 * np.sqrt(3 / 16 / 60_000))


@pytest.fixture
def run():
    return lambda *args: main.run([str(arg) for arg in args])
