"""The benchmark of attacks: measured, and refused where it must be."""

from __future__ import annotations

import json

import pytest

from privagg.bench import attack_inputs, attacks
from privagg.cli.main import run
from privagg.errors import UsageError


def test_a_small_case(capsys):
    if attack_inputs.foolbox_folder() is None:
        pytest.skip("foolbox's images are not installed")
    line = "bench attacks --case 8x128 --seeds 1 --published --iterations 5 --json"
    assert run(line.split()) == 0
    data = json.loads(capsys.readouterr().out)
    rows = {row["attack"]: row for row in data["attacks"]}
    assert {"relu_exact", "ica", "published objective"} <= set(rows)
    exact = rows["relu_exact"]
    assert exact["exact"] == 1
    assert exact["verified"] == exact["runs"] == 1
    assert (
        exact["psnr_min"] > 100 > rows["ica"]["psnr_mean"] > rows["published objective"]["cosine"]
    )
    assert all(row["verified"] == 0 for name, row in rows.items() if name != "relu_exact")


def test_what_is_refused(capsys):
    with pytest.raises(UsageError, match="cases"):
        attacks.bench(cases=[])
    with pytest.raises(UsageError, match="seeds"):
        attacks.bench(seeds=0)
    assert run(["bench", "attacks", "--case", "8by128"]) == 2
    assert "as in 32x256" in capsys.readouterr().err


def test_batches_are_different_images():
    try:
        images, labels = attack_inputs.batch(70, 0)
    except UsageError as error:
        pytest.skip(str(error))
    assert images.shape == (70, 3072)
    assert images.min() >= 0
    assert images.max() <= 1
    assert len({row.tobytes() for row in images}) == 70
    assert labels.min() >= 0
    assert labels.max() < 10
    with pytest.raises(UsageError, match="at most"):
        attack_inputs.batch(100_000, 0)
