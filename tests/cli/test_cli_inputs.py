from __future__ import annotations

import json
import zipfile

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from safetensors.numpy import save_file

from privagg.cli.inputs import LAYOUTS, extremes, read_inputs
from privagg.cli.simulate_secagg import LAYOUTS as COMMAND_LAYOUTS
from privagg.errors import UsageError

MATRIX = np.arange(12, dtype=np.int32).reshape(4, 3)


def items(inputs):
    return [inputs.vectors[client] for client in range(inputs.clients)]


def refuse(path, *words, **settings):
    with pytest.raises(UsageError) as caught:
        extremes(read_inputs(path, **settings))
    for word in words:
        assert word in str(caught.value)


def store(path, arrays):
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        save_file(arrays, path)
    return path


@pytest.fixture(params=[".npz", ".safetensors"])
def archive(request, tmp_path):
    return tmp_path / f"updates{request.param}"


def test_the_command_knows_the_layouts():
    assert COMMAND_LAYOUTS == LAYOUTS


# Arrays


def test_npy_is_mapped_and_gives_a_row_per_client(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, MATRIX)
    inputs = read_inputs(path)
    assert (inputs.clients, inputs.dim, inputs.floats) == (4, 3, False)
    assert isinstance(inputs.vectors[0], np.memmap)
    assert np.array_equal(items(inputs), MATRIX)
    assert inputs.vectors[-1].tolist() == inputs.vectors[3].tolist()
    assert len(inputs.vectors[1:3]) == 2
    with pytest.raises(IndexError):
        inputs.vectors[4]


def test_rows_may_have_any_shape(tmp_path):
    path = tmp_path / "x.npy"
    for array in (np.arange(5.0), np.zeros((3, 2, 4), np.float16), np.asfortranarray(MATRIX)):
        np.save(path, array)
        inputs = read_inputs(path)
        assert inputs.dim == array[0].size
        assert all(np.array_equal(a, b) for a, b in zip(items(inputs), array, strict=True))


def test_one_array_is_rows(archive):
    inputs = read_inputs(store(archive, {"updates": MATRIX}))
    assert np.array_equal(items(inputs), MATRIX)
    assert "each with a row of one array" in inputs.reading


def test_arrays_of_one_shape_are_one_per_client_in_natural_order(archive):
    arrays = {f"client_{i}": np.full((2, 2), i, np.float32) for i in (10, 2, 1)}
    inputs = read_inputs(store(archive, arrays))
    assert [item[0, 0] for item in items(inputs)] == [1, 2, 10]
    assert (inputs.clients, inputs.dim, inputs.floats) == (3, 4, True)
    assert "client_1, client_2, client_10" in inputs.reading


def test_arrays_of_several_shapes_are_named_rows(archive):
    arrays = {"w": np.arange(12.0).reshape(3, 2, 2), "b": np.arange(3, dtype=np.int64)}
    inputs = read_inputs(store(archive, arrays))
    assert (inputs.clients, inputs.dim, inputs.floats) == (3, 5, True)
    for client, item in enumerate(items(inputs)):
        assert set(item) == {"w", "b"}
        assert np.array_equal(item["w"], arrays["w"][client])
        assert item["b"] == arrays["b"][client]


def test_the_layout_can_be_forced(archive):
    store(archive, {"a": MATRIX, "b": MATRIX + 1})
    assert read_inputs(archive).clients == 2
    inputs = read_inputs(archive, layout="rows")
    assert inputs.clients == 4
    assert inputs.vectors[2]["b"].tolist() == [7, 8, 9]
    store(archive, {"a": MATRIX, "b": MATRIX[:3]})
    refuse(archive, "'b'", "--layout rows", layout="arrays")


def test_weights_are_taken_out_of_arrays(archive):
    arrays = {"n": np.array([3, 0, 5, 1], np.uint8), "x": MATRIX}
    inputs = read_inputs(store(archive, arrays), weights="n")
    assert inputs.weights == [3, 0, 5, 1]
    assert inputs.dim == 3
    arrays = {"a": MATRIX, "b": MATRIX, "n": np.array([1, 2])}
    inputs = read_inputs(store(archive, arrays), weights="n")
    assert (inputs.clients, inputs.weights) == (2, [1, 2])


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.array([1.0, 2.0, 3.0, 4.0]), "float64"),
        (np.array([1, 2, 3]), "(4,)"),
        (np.array([1, -2, 3, 4]), "-2 for client 1"),
    ],
)
def test_bad_weights_are_refused(archive, weights, words):
    refuse(store(archive, {"x": MATRIX, "n": weights}), words, "'n'", weights="n")


def test_a_weight_that_is_not_there_is_refused(archive, tmp_path):
    refuse(store(archive, {"x": MATRIX}), "--weights", "x", weights="n")
    np.save(tmp_path / "x.npy", MATRIX)
    refuse(tmp_path / "x.npy", "--weights", ".npz", weights="n")


def test_arrays_that_fit_neither_reading_are_refused(archive):
    refuse(store(archive, {"a": np.zeros(3), "b": np.zeros(4)}), "'b'", "(4,) beside (3,)")
    refuse(store(archive, {"a": MATRIX[:1]}), "1 client", "at least 2")
    refuse(store(archive, {"a": np.zeros((4, 0))}), "no numbers")
    refuse(store(archive, {"a": np.zeros((2, 2), bool)}), "dtype")


@pytest.mark.parametrize(
    "array",
    [
        np.array(3),
        np.zeros((0, 3)),
        np.zeros((3, 0)),
        np.array([["a", "b"], ["c", "d"]]),
        np.zeros((3, 2), complex),
        np.zeros((3, 2), bool),
        np.zeros((3, 2), np.longdouble),
        np.zeros(3, [("x", "i4")]),
        np.zeros((1, 3)),
    ],
    ids=lambda a: f"{a.dtype}{a.shape}",
)
def test_npy_of_what_is_no_input_is_refused(tmp_path, array):
    path = tmp_path / "x.npy"
    np.save(path, array)
    refuse(path, "x.npy")


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_nothing_is_unpickled(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    array = np.array([{"a": 1}, {"b": 2}], dtype=object)
    if suffix == ".npy":
        np.save(path, array, allow_pickle=True)
    else:
        np.savez(path, x=array)
    refuse(path, path.name)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet", ".safetensors"])
def test_empty_foreign_and_cut_files_are_refused(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"")
    refuse(path, "x" + suffix, "an empty file")
    path.write_bytes(bytes(range(256)) * 4)
    refuse(path, "x" + suffix)


def test_cut_files_are_refused(tmp_path, archive):
    np.save(tmp_path / "x.npy", np.zeros((100, 10)))
    store(archive, {"x": np.zeros((100, 10))})
    for path in (tmp_path / "x.npy", archive):
        whole = path.read_bytes()
        for part in (20, len(whole) // 2, len(whole) - 9):
            path.write_bytes(whole[:part])
            refuse(path, path.name)


def test_a_damaged_array_of_an_archive_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, x=np.arange(10_000))
    data = bytearray(path.read_bytes())
    data[60_000] ^= 1
    path.write_bytes(data)
    refuse(path, "x.npz", "'x'")


def test_an_archive_of_other_things_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello there")
    refuse(path, "x.npz")
    with zipfile.ZipFile(path, "w"):
        pass
    refuse(path, "no arrays")


def test_a_type_of_tensor_that_numpy_lacks_is_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    header = {"w": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    refuse(path, "'w'", "BF16", "float32")


def test_other_suffixes_and_layouts_are_refused(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("1")
    refuse(path, ".safetensors")
    np.save(tmp_path / "x.npy", MATRIX)
    refuse(tmp_path / "x.npy", "--layout", layout="arrays")
    refuse(tmp_path / "x.npy", "--column", columns=["a"])


# Tables


@pytest.fixture
def table(tmp_path):
    def write(text):
        path = tmp_path / "x.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_csv_gives_a_row_per_client(table):
    inputs = read_inputs(table("a,b,n\n1,2,9\n-3,4,8\n"), weights="n")
    assert np.array_equal(items(inputs), [[1, 2], [-3, 4]])
    assert inputs.vectors[0].dtype == np.int64
    assert (inputs.weights, inputs.labels, inputs.floats) == ([9, 8], ("a", "b"), False)
    assert "a, b" in inputs.reading
    assert "'n'" in inputs.reading


def test_csv_with_floats_is_float64(table):
    inputs = read_inputs(table("a,b\n1,2.5\n3,4\n"))
    assert inputs.floats
    assert np.array_equal(items(inputs), [[1, 2.5], [3, 4]])


def test_csv_without_names_loses_no_row(table):
    inputs = read_inputs(table("1,2\n3,4\n5,6\n"), header=False)
    assert np.array_equal(items(inputs), [[1, 2], [3, 4], [5, 6]])
    assert inputs.labels == ("f0", "f1")


def test_columns_can_be_chosen(table):
    path = table("who,a,b\nx,1,2\ny,3,4\n")
    assert np.array_equal(items(read_inputs(path, columns=["b", "a"])), [[2, 1], [4, 3]])
    refuse(path, "column 'who'", "'x' in data row 1", "--column")
    refuse(path, "--column", "c", columns=["c"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n3\n", ["line 3", "1 values"]),
        ("a,b\n1,2\n3,4,5\n", ["line 3", "3 values"]),
        ("a,b\n1,2\n,4\n", ["column 'a'", "row 2"]),
        ("a,b\n1,2\nnan,4\n", ["column 'a'", "row 2"]),
        ("a,b\n1,2\ninf,4\n", ["client 1", "row 2", "column 'a'", "inf"]),
        ("a,b\n1,2\nx,4\n", ["column 'a'", "'x' in data row 2"]),
        ("a,b\n1,true\n2,false\n", ["column 'b'", "bool"]),
        ("a,b\n1,2020-01-01\n2,2020-01-02\n", ["column 'b'", "date"]),
        ("a;b\n1;2\n3;4\n", ["separated by commas"]),
        ("a,a\n1,2\n3,4\n", ["two columns 'a'"]),
        ("a,b\n", ["no rows"]),
        ("a,b\n1,2\n", ["1 client", "at least 2"]),
    ],
)
def test_bad_tables_are_refused_and_the_place_is_named(table, text, words):
    refuse(table(text), "x.csv", *words)


def test_weights_alone_are_no_input(table):
    refuse(table("n\n1\n2\n"), "no columns to sum", weights="n")
    refuse(table("a,n\n1,1.5\n2,2\n"), "column 'n'", weights="n")
    refuse(table("a,n\n1,1\n2,2\n"), "--weights", weights="m")


def test_parquet_keeps_integers_exact(tmp_path):
    path = tmp_path / "x.parquet"
    big = 2**62 + 1
    table = pyarrow.table({"a": pyarrow.array([big, 2]), "b": pyarrow.array([1, 2], "uint8")})
    pyarrow.parquet.write_table(table, path)
    inputs = read_inputs(path)
    assert items(inputs)[0].tolist() == [big, 1]
    table = table.append_column("c", pyarrow.array([0.5, 1.5], "float32"))
    pyarrow.parquet.write_table(table, path)
    refuse(path, str(big), "row 1", "column 'a'", "2**53")
    table = pyarrow.table({"a": pyarrow.array([1, 2**63], "uint64")})
    pyarrow.parquet.write_table(table, path)
    refuse(path, "row 2", "column 'a'")
    table = pyarrow.table({"a": [[1, 2], [3]]})
    pyarrow.parquet.write_table(table, path)
    refuse(path, "column 'a'", "list")


# Extremes


def test_extremes_say_where(archive):
    arrays = {"w": np.array([[1.0, -7.0], [2.0, 3.0]]), "b": np.array([[0.0], [9.5]])}
    found = extremes(read_inputs(store(archive, arrays), layout="rows"))
    assert (found.low, found.high, found.magnitude) == (-7, 9.5, 9.5)
    assert found.low_at == "client 0, array 'w', index 1"
    assert found.high_at == "client 1, array 'b', index 0"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_found(archive, bad):
    array = np.zeros((3, 2, 2))
    array[2, 1, 0] = bad
    refuse(store(archive, {"x": array}), str(bad), "client 2, index 1, 0")
