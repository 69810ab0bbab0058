from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from privagg.cli import _secagg_inputs

SMALL = ("--clients", 10, "--dim", 7, "--dropout", 0.2)


@pytest.fixture
def updates(tmp_path):
    def write(array, name="x.npy", **named):
        path = tmp_path / name
        if named:
            np.savez(path, **named)
        else:
            np.save(path, array)
        return path

    return write


def first(data):
    (entry,) = data["sum"]
    return entry["first"]


def test_integers_are_summed_exactly(simulate, updates):
    array = np.arange(40, dtype=np.int16).reshape(10, 2, 2)
    data, err = simulate("--input", updates(array), "--dropout", 0)
    assert data["sum"] == [
        {"name": None, "shape": [2, 2], "dtype": "int64", "first": [180, 190, 200, 210]}
    ]
    assert data["clip"] is None
    assert data["input"]["source"] == "x.npy"
    assert "10 clients" in err


def test_named_arrays_keep_their_names_and_shapes(simulate, tmp_path):
    w, b = np.ones((6, 3, 2), np.float32), np.arange(6, dtype=np.float32)
    out = tmp_path / "sum.npz"
    path = tmp_path / "x.safetensors"
    save_file({"w": w, "b": b, "file": w[:, 0].copy()}, path)
    data, _ = simulate("--input", path, "--dropout", 0, "--sum-out", out)
    assert sorted((e["name"], e["shape"], e["dtype"]) for e in data["sum"]) == [
        ("b", [], "float32"),
        ("file", [2], "float32"),
        ("w", [3, 2], "float32"),
    ]
    with np.load(out, allow_pickle=False) as found:
        assert set(found) == {"w", "b", "file"}
        assert np.allclose(found["w"], w.sum(0), atol=data["error_bound"])
        assert np.allclose(found["b"], b.sum(0), atol=data["error_bound"])


def test_a_tables_columns_name_the_coordinates(simulate, run, capsys, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("age,pay,n\n" + "".join(f"{i},{2 * i},{i % 3}\n" for i in range(8)))
    settings = ("--input", path, "--dropout", 0)
    data, err = simulate(*settings, "--weights", "n")
    assert data["sum"][0]["labels"] == ["age", "pay"]
    total = sum(i * (i % 3) for i in range(8))
    assert first(data) == [total, 2 * total]
    assert data["weight_total"] == sum(i % 3 for i in range(8))
    assert data["mean"][0]["first"][0] == pytest.approx(total / data["weight_total"])
    assert (data["max_weight"], data["max_weight_source"]) == (2, _secagg_inputs.LARGEST)
    assert "--max-weight 2: the largest value" in err
    assert run("simulate", "secagg", *settings, "--column", "pay") == 0
    assert "pay" in capsys.readouterr().out


def test_floats_without_a_clip_take_the_largest_value_and_say_so(simulate, updates):
    array = np.linspace(-3, 2, 30).reshape(10, 3)
    data, err = simulate("--input", updates(array), "--dropout", 0)
    assert (data["clip"], data["clip_source"]) == (3.0, _secagg_inputs.LARGEST)
    assert "--clip 3: the largest value" in err
    assert data["truth"] == {"clipped": 0}
    assert np.allclose(first(data), array.sum(0), atol=data["error_bound"])
    data, err = simulate("--input", updates(array), "--dropout", 0, "--clip", 1)
    assert (data["clip"], data["clip_source"]) == (1.0, "given")
    assert "the largest value" not in err
    assert data["truth"] == {"clipped": int((abs(array) > 1).sum())}
    assert np.allclose(first(data), array.clip(-1, 1).sum(0), atol=data["error_bound"])
    data, _ = simulate("--input", updates(np.zeros((4, 2))), "--dropout", 0)
    assert data["clip"] == 1.0


def test_integers_out_of_range_say_which_and_what_would_fit(refused, simulate, updates):
    array = np.zeros((5, 4), np.int64)
    for value, settings, words in (
        (70_000, (), "--value-bits 17"),
        (-1, (), "with --signed."),
        (-40_000, (), "--signed --value-bits 17"),
        (-(2**15) - 1, ("--signed",), "--value-bits 17"),
        (2**15, ("--signed",), "--value-bits 17"),
        (2**32, (), "--clip"),
        (-(2**63), (), "--clip"),
    ):
        array[3, 1] = value
        path = updates(array)
        message = refused("--input", path, "--dropout", 0, *settings)
        assert f"{value} for client 3, index 1" in message
        assert "x.npy" in message
        assert words in message
        if "--value-bits" in words or "signed" in words:
            advice = message.split("All values fit with ")[1].split(".")[0].split()
            data, _ = simulate("--input", path, "--dropout", 0, *settings, *advice)
            assert first(data)[1] == value


def test_weights_of_arrays(simulate, refused, updates):
    x, n = np.arange(12.0).reshape(6, 2), np.array([1, 0, 5, 2, 2, 0])
    path = updates(None, "x.npz", x=x, n=n)
    data, _ = simulate("--input", path, "--weights", "n", "--max-weight", 8, "--dropout", 0)
    assert (data["max_weight"], data["max_weight_source"]) == (8, "given")
    assert data["weight_total"] == 10
    assert np.allclose(data["mean"][0]["first"], n @ x / 10, atol=1e-3)
    message = refused("--input", path, "--weights", "n", "--max-weight", 4)
    assert "a weight of 5 for client 2" in message
    assert "--weights" in refused("--input", path, "--max-weight", 4, "--layout", "rows")


def test_histograms_of_a_bundled_table(simulate, run, capsys):
    settings = ("--data", "adult", "--column", "sex", "--clients", 12, "--dropout", 0)
    data, _ = simulate(*settings)
    histogram = data["histogram"]
    assert sum(histogram["sum"]) == 45_222
    assert histogram["sum"] == histogram["plain_sum"]
    assert len(histogram["values"]) == 2
    assert run("simulate", "secagg", *settings) == 0
    assert "secure sum" in capsys.readouterr().out
    data, _ = simulate(*settings[:-2], "--dropout", 0.25)
    assert data["histogram"]["sum"] == data["histogram"]["plain_sum"]
    assert sum(data["histogram"]["sum"]) < 45_222


def test_a_missing_value_has_a_name(run, capsys):
    settings = ("--data", "voters2016", "--column", "income_bracket", "--clients", 5)
    assert run("simulate", "secagg", *settings) == 0
    assert "missing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "--clients"),
        (("--clients", 5), "--dim"),
        (("--data", "adult"), "--column"),
        (("--data", "adult", "--column", "sex"), "--clients"),
        (("--data", "adult", "--column", "shoe", "--clients", 5), "education"),
        (("--data", "adults", "--column", "sex", "--clients", 5), "Did you mean adult"),
        (("--data", "adult", "--column", "sex", "--clients", 5, "--clip", 1), "--clip"),
        (("--data", "adult", "--column", "sex", "--clients", 5, "--dim", 3), "--dim"),
        (("--data", "adult", "--column", "sex", "--clients", 5, "--value-bits", 8), "13"),
        ((*SMALL, "--column", "sex"), "--column"),
        ((*SMALL, "--layout", "rows"), "--layout"),
        ((*SMALL, "--weights", "n"), "--max-weight"),
        ((*SMALL, "--transcript-payloads"), "--transcript"),
        ((*SMALL, "--sum-out", "x.txt"), ".npy"),
        ((*SMALL, "--corrupt", 0.9), "corrupt"),
        ((*SMALL, "--threshold", 9), "--threshold"),
        (("--clients", 5, "--dim", 1, "--graph", "sparse", "--corrupt", 0.4), "complete graph"),
        ((*SMALL, "--clip", 1, "--signed"), "signed"),
        ((*SMALL, "--value-bits", 32, "--max-weight", 2**40), "62 bits"),
        (("--clients", 10, "--dim", 10**12), "memory"),
    ],
)
def test_what_does_not_fit_is_refused(refused, args, words):
    assert words in refused(*args)


def test_input_excludes_other_sources_and_counts_must_agree(refused, updates, tmp_path):
    path = updates(np.ones((4, 3), np.int8))
    assert "--data" in refused("--input", path, "--data", "adult")
    assert "4, the clients in x.npy" in refused("--input", path, "--clients", 5)
    assert "3, the numbers per client" in refused("--input", path, "--dim", 4)
    named = updates(None, "x.npz", a=np.ones((4, 3)), b=np.ones(4))
    message = refused("--input", named, "--sum-out", tmp_path / "sum.npy")
    assert ".npz" in message


def test_the_sum_is_written(simulate, updates, tmp_path):
    array = np.arange(40, dtype=np.int64).reshape(10, 4)
    path = updates(array)
    for name in ("sum.npy", "sum.npz"):
        simulate("--input", path, "--dropout", 0, "--sum-out", tmp_path / name)
    assert np.array_equal(np.load(tmp_path / "sum.npy"), array.sum(0))
    with np.load(tmp_path / "sum.npz") as found:
        assert set(found) == {"sum"}
        assert np.array_equal(found["sum"], array.sum(0))


@pytest.mark.parametrize(("bits", "drowned"), [(16, True), (32, False)])
def test_columns_that_the_one_clip_drowns_are_named(run, capsys, tmp_path, bits, drowned):
    rows = ["income,ratio", *(f"{9000 + i}.5,0.00{i + 1}" for i in range(8))]
    (tmp_path / "two.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    words = ("--input", tmp_path / "two.csv", "--dropout", 0, "--seed", 1, "--value-bits", bits)
    assert run("simulate", "secagg", *words) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert ("ratio: the sum of 1 of 2 columns is below" in out) == drowned
