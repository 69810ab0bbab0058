"""``privagg audit gradient``: its object, its exit code, its refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra 'torch' is not installed")
pytest.importorskip("opacus", reason="the extra 'torch' is not installed")
import torch

from privagg.attacks.gradient.audit import ATTACKS
from privagg.cli import audit_gradient
from privagg.cli._audit_gradient_sweep import Curve, Point, plots
from privagg.cli.main import run
from privagg.datasets import load_pictures

torch.set_num_threads(1)

FAST = ["audit", "gradient", "--demo", "--attack", "fast", "--trials", "100", "--quiet"]


def objects(capsys, *words, code=0):
    assert run([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_attacks_are_named_alike():
    assert ("all", "fast", *ATTACKS) == audit_gradient.ATTACKS


def test_demo_leaks_and_says_so(capsys, tmp_path):
    page = tmp_path / "audit.html"
    words = [*FAST, "--secagg", "--fail-above", "26dB", "--report", str(page)]
    data = objects(capsys, *words, code=5)
    assert data["verdict"] == "EXACT"
    assert data["leak"]
    assert "relu_exact" in data["leaks"]
    assert {"name", "shape", "rank", "visible_rank", "verdict", "reason"} <= set(data["layers"][0])
    assert {
        "name", "verified", "recovered", "batch", "psnr_abs_mean", "psnr_abs_min", "ssim",
        "cosine", "cpu_seconds",
    } <= set(data["attacks"][0])  # fmt: skip
    assert data["epsilon"] is None
    assert data["delta"] == 1e-5
    assert data["labels"]["correct"] == 1.0
    assert data["view"]["batch"] == 16
    assert [one["found"] for one in data["detectors"]] == [False, False]
    ledger = dict(data["view"]["ledger"])
    assert ledger["The server sees"] == "the sum over 4 clients, 32-bit fixed point, nothing else"
    assert {"The server knows", "The server does not know", "Noise", "Compression"} <= set(ledger)
    assert data["advice"][0]["noise"] > 0
    text = page.read_text()
    assert "data:image/png" in text
    assert "no proof of privacy" in text
    heads = [text.index(word) for word in ("Threat model", "A failed attack proves nothing")]
    assert heads[0] < heads[1] < text.index("worst case, at least")
    assert data["advice"][0]["change"].replace("'", "&#39;") in text


def test_noise_gives_an_epsilon_and_a_curve(capsys, tmp_path):
    words = [*FAST, "--dp-noise", "1", "--sweep", "noise", "--fail-above", "26", "--clients", "1"]
    page = tmp_path / "noise.html"
    data = objects(capsys, *words, "--batch", "4", "--report", str(page))
    text = page.read_text()
    assert text.count("Quality over noise") == 2  # its name and its title: one plot, not two
    assert "epsilon, one example added or removed" in text  # along its top
    assert "Why nothing was found" in text
    assert data["verdict"] == "HIDDEN"
    assert not data["leak"]
    assert data["why_nothing"]
    assert data["epsilon"] == pytest.approx(4.377, abs=0.01)
    lower = [one["epsilon"] for one in data["worst_case"]]
    assert lower[0] <= data["epsilon"]
    assert lower[1] <= data["epsilon_replace"]
    (curve,) = data["sweeps"]
    epsilons = [one["epsilon"] for one in curve["points"]]
    assert epsilons == sorted(epsilons, reverse=True)
    assert curve["points"][0]["recovered"] > curve["points"][-1]["recovered"] == 0


def test_curves_of_named_settings_have_no_second_axis():
    def curve(name, values):
        points = [Point(x, 20.0, 10.0, 1, 4, 8.0, "PARTIAL") for x in values]
        return plots(Curve(name, "ica", tuple(points)))

    (bars,) = curve("compression", ["none", "sign"])
    assert (bars.kind, bars.second_x) == ("bar", None)
    (line,) = curve("noise", [0.1, 1.0])
    assert line.second_x.places == (0.1, 1.0)
    assert curve("clip", [0.1, 1.0])[0].second_x is None


def test_own_model_and_data(capsys, tmp_path, monkeypatch):
    pictures, labels = load_pictures()
    np.savez(tmp_path / "own.npz", images=pictures[:20, :, :8, :8], labels=labels[:20])
    (tmp_path / "my_gradient_model.py").write_text(
        "import torch\n"
        "def make():\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 64),\n"
        "        torch.nn.ReLU(), torch.nn.Linear(64, 10))\n"
        "def distance(recovered, true):\n"
        "    return [0.25] * len(true)\n"
        "def number():\n"
        "    return 3\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["audit", "gradient", "--data", "own.npz", "--trials", "50", "--quiet", "--batch", "4"]
    words += ["--attack", "ica", "--attack", "inverting_gradients", "--iterations", "3"]
    data = objects(capsys, *words, "--model", "my_gradient_model:make")
    assert [one["name"] for one in data["attacks"]] == ["ica", "ica", "inverting_gradients"]
    assert data["attacks"][-1]["iterations"] == 3
    sweeping = ["--sweep", "compression", "--sweep-attack", "relu_exact", "--perceptual"]
    more = [*words, *sweeping, "my_gradient_model:distance", "--attack", "analytic"]
    data = objects(capsys, *more, "--model", "my_gradient_model:make")
    (curve,) = data["sweeps"]
    assert (curve["name"], curve["attack"]) == ("compression", "relu_exact")
    kinds = ["none", "fp16", "int8", "top-0.1", "top-0.01", "sign"]
    assert [one["x"] for one in curve["points"]] == kinds
    assert {one["perceptual"] for one in data["attacks"] if one["layer"] == "1"} == {0.25}
    for name in ("my_gradient_model:number", "my_gradient_model:none", "nowhere:make", "make"):
        assert objects(capsys, *words, "--model", name, code=2)["error"]["argument"] == "--model"
    many = [*words, "--model", "my_gradient_model:make", "--clients", "9"]
    assert "20 examples" in objects(capsys, *many, code=2)["error"]["message"]


@pytest.mark.parametrize(
    "words",
    [
        ["--demo", "--model", "a:b"],
        [],
        ["--demo", "--fail-above", "loud"],
        ["--demo", "--bits", "16"],
        ["--demo", "--compression", "zip"],
        ["--demo", "--secagg", "--clients", "1"],
    ],
)
def test_refusals(capsys, words):
    out = objects(capsys, "audit", "gradient", "--quiet", *words, code=2)
    assert out["error"]["type"] == "UsageError"


@pytest.mark.parametrize(
    ("name", "arrays"),
    [
        ("empty.npz", {}),
        ("none.npz", {"images": np.zeros((0, 3, 8, 8)), "labels": np.zeros(0, int)}),
        ("text.npz", {"images": np.zeros((4, 192)), "labels": np.array(["a"] * 4)}),
        ("one.npz", {"images": np.zeros((4, 192)), "labels": np.int64(3)}),
        ("words.npz", {"images": np.array([["a", "b"]] * 4), "labels": np.zeros(4, int)}),
        ("single.npy", None),
    ],
)
def test_files_that_are_no_examples(capsys, tmp_path, name, arrays):
    path = tmp_path / name
    if arrays is None:
        np.save(path, np.zeros((4, 192)))
    else:
        np.savez(path, **arrays)
    words = ["audit", "gradient", "--quiet", "--model", "torch.nn:Identity", "--data", str(path)]
    out = objects(capsys, *words, code=2)
    assert out["error"]["argument"].startswith(name)


def test_code_of_ones_own_that_raises(capsys, tmp_path, monkeypatch):
    np.savez(tmp_path / "own.npz", images=np.zeros((4, 192)), labels=np.zeros(4, int))
    (tmp_path / "raising_model.py").write_text("def make():\n    return 1 / 0\n")
    (tmp_path / "raising_import.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    for name in ("raising_model:make", "raising_import:make"):
        words = ["audit", "gradient", "--quiet", "--model", name, "--data", "own.npz"]
        error = objects(capsys, *words, code=2)["error"]
        assert error["argument"] == "--model"
        assert "ZeroDivisionError" in error["message"]


def test_detectors_alone_and_beside_attacks(capsys, tmp_path, monkeypatch):
    pictures, labels = load_pictures()
    np.savez(tmp_path / "own.npz", images=pictures[:8, :, :8, :8], labels=labels[:8])
    (tmp_path / "my_trap_model.py").write_text(
        "import torch\n"
        "def usual():\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 64),\n"
        "        torch.nn.ReLU(), torch.nn.Linear(64, 10))\n"
        "def made():\n"
        "    model = usual()\n"
        "    with torch.no_grad():\n"
        "        w = model[1].weight\n"
        "        w.copy_(torch.where(w > 0, 0.7 * w, w))\n"
        "    return model\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["audit", "gradient", "--quiet", "--model"]
    usual = objects(capsys, *words, "my_trap_model:usual", "--detect")
    assert [(one["name"], one["found"]) for one in usual["detectors"]] == [
        ("imprint", False),
        ("trap", False),
    ]
    alone = objects(capsys, *words, "my_trap_model:made", "--detect", code=5)
    (layer,) = alone["detectors"][1]["layers"]
    assert layer["layer"] == "1"
    more = ["--data", "own.npz", "--attack", "ica", "--batch", "4", "--trials", "50"]
    beside = objects(capsys, *words, "my_trap_model:made", *more)  # said, but no failure
    assert beside["detectors"][1]["found"]
    assert "do not train" in beside["advice"][0]["change"]
    both = objects(capsys, *words, "my_trap_model:made", *more, "--detect", code=5)
    assert both["leaks"] == []


def test_a_convolutional_model_is_read_at_an_inner_layer(capsys, tmp_path, monkeypatch):
    pictures, labels = load_pictures()
    small = pictures.reshape(47, 3, 8, 4, 8, 4).mean((3, 5))
    np.savez(tmp_path / "own.npz", images=small[:12], labels=labels[:12])
    (tmp_path / "my_conv_model.py").write_text(
        "from torch import nn\n"
        "def make():\n"
        "    front = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Flatten()]\n"
        "    return nn.Sequential(*front, nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 10))\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["audit", "gradient", "--quiet", "--model", "my_conv_model:make", "--data", "own.npz"]
    words += ["--batch", "3", "--trials", "50", "--attack", "relu_exact", "--iterations", "20"]
    assert run([*words, "--attack", "feature_inversion"]) == 0
    said = capsys.readouterr().out
    assert "the server reads every input of the inner layer 3, and can prove it" in said
    assert "feature_inversion, inputs" in said


def test_mixtures_that_no_attack_takes_apart_are_not_said_to_be_read(
    run, capsys, tmp_path, monkeypatch
):
    rng = np.random.default_rng(0)
    images = rng.random((16, 3, 8, 8), dtype=np.float32)
    np.savez(tmp_path / "noise.npz", images=images, labels=rng.integers(0, 10, 16))
    (tmp_path / "my_narrow_model.py").write_text(
        "from torch import nn\n"
        "def make():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.Tanh(), nn.Linear(8, 10))\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["audit", "gradient", "--quiet", "--model", "my_narrow_model:make", "--trials", "50"]
    words += ["--data", "noise.npz", "--batch", "4", "--clients", "4", "--attack", "ica"]
    assert run(*words) == 0
    said = capsys.readouterr().out
    assert "PARTIAL: the server sees mixtures of examples, none taken apart here." in said
    assert "proves an epsilon of at least" in said


CODE = {
    "exits_at_import": "raise SystemExit(0)\n",
    "lacks_at_import": "import sys\nsys.nothing\n",
    "exits_later": "def make():\n    raise SystemExit(0)\n",
    "exits_in_forward": "from torch import nn\n"
    "class Net(nn.Linear):\n"
    "    def forward(self, x):\n"
    "        raise SystemExit(0)\n"
    "def make():\n"
    "    return Net(9, 9)\n",
    "no_numbers": "import torch\ndef make():\n    return torch.nn.Linear(9, 9, device='meta')\n",
}


@pytest.mark.parametrize(
    ("module", "part"),
    [
        ("exits_at_import", "SystemExit"),
        ("lacks_at_import", "AttributeError"),
        ("exits_later", "SystemExit"),
        ("exits_in_forward", "sys.exit(0)"),
        ("no_numbers", "meta device"),
    ],
)
def test_code_that_ends_the_process_is_no_clean_audit(capsys, tmp_path, monkeypatch, module, part):
    """A gate in CI must not pass since the model's module called sys.exit()."""
    np.savez(tmp_path / "own.npz", images=np.zeros((4, 9), np.float32), labels=np.arange(4))
    (tmp_path / f"{module}.py").write_text(CODE[module])
    monkeypatch.chdir(tmp_path)
    words = ["audit", "gradient", "--data", "own.npz", "--quiet", "--batch", "2"]
    error = objects(capsys, *words, "--model", f"{module}:make", code=2)["error"]
    assert error["argument"] == "--model"
    assert part in error["message"]
