"""Files that are odd, damaged or hostile: one line that names the file, never a traceback."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from safetensors.numpy import save_file

from privagg.cli import _reading
from privagg.cli.inputs import extremes, read_inputs
from privagg.errors import UsageError

MATRIX = np.arange(12, dtype=np.int32).reshape(4, 3)


def load(path, **settings):
    inputs = read_inputs(path, **settings)
    extremes(inputs)
    return [inputs.vectors[client] for client in range(inputs.clients)]


def refuse(path, *words, **settings):
    with pytest.raises(UsageError) as caught:
        load(path, **settings)
    for word in (path.name, *words):
        assert word in str(caught.value)


def outcome(path):
    """Return the message where the file is refused, else its name; no other error may come."""
    try:
        load(path)
    except UsageError as error:
        return str(error)
    return path.name


def npy(header, data=b"", version=(1, 0)):
    """Return an .npy file with this header, whatever it says."""
    text = header if isinstance(header, bytes) else header.encode("latin-1")
    length = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + length + text + data


def fields(shape="(4, 3)", descr="'<i4'", fortran="False"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


HEADERS = {
    "not closed": b"{'descr': '<i4', 'shape': (4, 3",
    "no literal": fields(shape="__import__('os').getcwd()"),
    "operators": fields(shape="(2**70,)"),
    "nested": "(" * 4000 + ")" * 4000,
    "minus signs": "-" * 9000 + "1",
    "null bytes": b"{'descr': '<i4'\x00}",
    "line ends": b"\\\n\\\n'''",
    "indents": b"  1\n 2\n\t3",
    "escapes": "'\\d\\q'",
    "no blank": "[1or 2, 0x1for x in 3]",
    "no dict": "[1, 2]",
    "a set": "{1, 2}",
    "unhashable": "{[]: 1}",
    "fewer fields": "{'descr': '<i4'}",
    "more fields": fields()[:-2] + "'x': 1}",
    "boolean length": fields(shape="(True, 4)"),
    "negative length": fields(shape="(-4, -3)"),
    "float length": fields(shape="(4.0, 3)"),
    "text length": fields(shape="('4',)"),
    "list": fields(shape="[4, 3]"),
    "none": fields(shape="None"),
    "many dimensions": fields(shape="(" + "1, " * 65 + ")"),
    "long length": fields(shape=f"({'9' * 5000},)"),
    "72 TiB": fields(shape=f"({72 * 2**38}, 1)"),
    "beyond 64 bits": fields(shape=f"({2**63}, {2**63})"),
    "order": fields(fortran="1"),
    "dtype of no kind": fields(descr="'<q9'"),
    "huge item": fields(descr="'<V999999999'"),
    "dtype with code": fields(descr="'i4,(2,)f8'"),
    "dtype a list": fields(descr="[('a', '<i4')]"),
    "dtype a number": fields(descr="3"),
    "dtype none": fields(descr="None"),
    "objects": fields(descr="'|O'"),
    "booleans": fields(descr="'|b1'"),
    "text": fields(descr="'<U3'"),
    "empty": b"",
    "bytes of no text": b"\xff" * 20,
    "cut short": fields(shape="(5, 3)"),
    "followed by more": fields(shape="(3, 3)"),
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_headers_of_arrays_that_no_writer_wrote(tmp_path, header, version):
    content = npy(header, MATRIX.tobytes(), version)
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    refuse(path)
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w.npy", content)
    refuse(path, "'w'")


@pytest.mark.parametrize(
    "content",
    [
        b"\x93NUMPY",
        b"\x93NUMPY\x01",
        b"\x93NUMPY\x01\x00\x10",
        b"\x93NUMPY\x04\x00" + bytes(20),
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(20),
        b"hello there, this is text\n" * 3,
        b"\x00",
    ],
)
def test_the_start_of_an_array_is_checked(tmp_path, content):
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    refuse(path)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<i4", ">i2", "|u1", "<f8", ">f4", "<f2", "<u8"])
def test_what_numpy_writes_is_read(tmp_path, version, order, dtype):
    array = np.asarray(MATRIX, dtype, order=order)
    path = tmp_path / "x.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, array, version)
    assert np.array_equal(load(path), array)
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path, "w.npy")
    assert np.array_equal(load(tmp_path / "x.npz"), array)


# Archives


METHODS = {
    "deflate": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "LZMA": zipfile.ZIP_LZMA,
    "stored": zipfile.ZIP_STORED,
}


def packed(path, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, array in {"w": np.arange(3000.0).reshape(6, 500), "b": MATRIX}.items():
            buffer = io.BytesIO()
            np.save(buffer, array)
            archive.writestr(f"{name}.npy", buffer.getvalue())
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_damaged_archives(tmp_path, method):
    path = tmp_path / "x.npz"
    content = packed(path, method)
    draw = random.Random(1)
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(damaged[: draw.choice([len(damaged), draw.randrange(1, len(damaged))])])
        assert path.name in outcome(path)


@pytest.mark.parametrize("method", ["deflate", "bzip2", "LZMA"])
def test_a_damaged_stream_is_said_of_its_array(tmp_path, method):
    path = tmp_path / "x.npz"
    packed(path, METHODS[method])
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("b.npy")
    content = bytearray(path.read_bytes())
    start = info.header_offset + 30 + len(info.filename)
    content[start : start + info.compress_size] = b"\xff" * info.compress_size
    path.write_bytes(content)
    refuse(path, "array 'b'", "not readable")


def test_an_encrypted_member(tmp_path):
    path = tmp_path / "x.npz"
    content = packed(path)
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.index(signature) + flags
        content[at] |= 1
    path.write_bytes(content)
    refuse(path, "array 'w'", "encrypted")


def test_a_method_of_compression_that_is_not_known(tmp_path):
    path = tmp_path / "x.npz"
    content = packed(path)
    for signature, field in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = content.index(signature) + field
        content[at : at + 2] = (93).to_bytes(2, "little")
    path.write_bytes(content)
    refuse(path, "compression method 93", "deflate")


@pytest.mark.parametrize("name", ["w", "w.txt", "folder/", "w.npy.bak", ".npy.gz"])
def test_members_that_are_no_arrays(tmp_path, name):
    path = tmp_path / "x.npz"
    packed(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"hello")
    refuse(path, "NAME.npy")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name(tmp_path):
    path = tmp_path / "x.npz"
    packed(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("w.npy", npy(fields(), MATRIX.tobytes()))
    refuse(path, "'w'", "distinct names")


def test_an_archive_that_claims_more_than_the_memory(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("w.npy", npy(fields("(4, 2500)", "'<f8'"), bytes(80_000)))
        archive.writestr("b.npy", npy(fields("(4, 25)", "'<f8'"), bytes(800)))
    assert len(load(path)) == 4
    monkeypatch.setattr(_reading, "memory_here", lambda: (50_000, 79_999))
    refuse(path, "80,000 bytes of numbers", "79,999")
    monkeypatch.setattr(_reading, "memory_here", lambda: (50_000, 80_799))
    refuse(path, "80,800 bytes of numbers", "80,799")
    monkeypatch.setattr(_reading, "memory_here", lambda: (50_000, 80_800))
    assert len(load(path)) == 4


def test_an_archive_whose_members_claim_what_is_not_there(tmp_path):
    path = tmp_path / "x.npz"
    size = 72 << 40
    header = npy(fields(f"({size // 4}, 1)"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w.npy", header + bytes(16))
    # The directory says that the member has all of it.
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02")
    content[at + 20 : at + 28] = struct.pack("<II", len(header) + 16, 2**32 - 2)
    path.write_bytes(content)
    refuse(path, "array 'w'")


# Other formats


def test_damaged_safetensors(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"w": np.arange(40.0).reshape(4, 10), "b": np.arange(4)}, path)
    content = path.read_bytes()
    draw = random.Random(2)
    for _ in range(200):
        damaged = bytearray(content)
        damaged[draw.randrange(120)] = draw.randrange(256)
        path.write_bytes(damaged[: draw.choice([len(damaged), draw.randrange(1, len(damaged))])])
        assert path.name in outcome(path)
    header = b'{"w":' + b"[" * 100_000
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    refuse(path)


def test_damaged_parquet(tmp_path):
    path = tmp_path / "x.parquet"
    table = pyarrow.table({"a": list(range(100)), "b": [i / 7 for i in range(100)]})
    pyarrow.parquet.write_table(table, path)
    content = path.read_bytes()
    draw = random.Random(3)
    for _ in range(200):
        damaged = bytearray(content)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(damaged[: draw.choice([len(damaged), draw.randrange(1, len(damaged))])])
        assert path.name in outcome(path)


def test_a_parquet_file_of_more_rows_than_the_memory_holds(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1] * 1000, "b": [2] * 1000}), path)
    assert path.stat().st_size < 16_000
    monkeypatch.setattr(_reading, "memory_here", lambda: (1, 15_999))
    refuse(path, "memory")


def test_a_parquet_file_has_names(tmp_path):
    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"1": [1, 2]}), path)
    assert len(load(path)) == 2
    refuse(path, "--no-header", header=False)


def test_a_schedule_of_brackets(refused, tmp_path):
    path = tmp_path / "s.json"
    small = ("--clients", 10, "--dim", 4, "--schedule", path)
    for text in ("[" * 100_000, '{"unmasking":' * 100_000, "9" * 5000, "\ufeff{", "nul", ""):
        path.write_text(text, encoding="utf-8")
        assert "s.json" in refused(*small)
    path.write_bytes(b'{"unmasking": ["\xe9"]}')
    assert "s.json" in refused(*small)
    path.write_text(json.dumps({"unmasking": [0] * (1 << 25)}, separators=(",", ":")))
    assert "at most" in refused(*small)


def test_a_configuration_of_brackets(run, capsys, tmp_path):
    path = tmp_path / "c.toml"
    for text in (b"a = " + b"[" * 100_000, b"a = {b = " * 50_000, b"a = " + b"9" * 5000, b"\xe9"):
        path.write_bytes(text)
        assert run("plan", "secagg", "--clients", 10, "--dim", 4, "--config", path) == 2
        err = capsys.readouterr().err
        assert "c.toml" in err
        assert "Traceback" not in err


def test_a_roster_of_brackets(run, capsys, tmp_path):
    path = tmp_path / "r.json"
    text = '{"format": "privagg roster 1", "identities": ' + "[" * 100_000
    path.write_text(text)
    assert run("keys", "show", path) == 2
    assert "Traceback" not in capsys.readouterr().err
    path.write_text(text.replace("identities", "x"))
    assert run("keys", "show", path) == 2
    assert "Traceback" not in capsys.readouterr().err


# What the guard takes, and what it leaves


@pytest.mark.parametrize("kind", _reading.BROKEN)
def test_every_kind_of_error_is_turned(kind):
    error = kind("line 1\nline 2")
    with (
        pytest.raises(UsageError, match=r"x\.npz: found not readable \(") as caught,
        _reading.reading("x.npz", "an array"),
    ):
        raise error
    assert caught.value.__cause__ is error
    assert "\n" not in str(caught.value)


def test_other_errors_are_left():
    for error in (KeyboardInterrupt(), AssertionError("a fault of ours"), UsageError("a", 1, "2")):
        with pytest.raises(type(error)) as caught, _reading.reading("x.npz", "an array"):
            raise error
        assert caught.value is error
