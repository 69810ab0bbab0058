"""The VDAF draft's stream against its published vectors, and its hash against its RFC's."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from Crypto.Hash import TurboSHAKE128

from privagg import field
from privagg.errors import UsageError
from privagg.field import xof
from privagg.field.xof import XofTurboShake128, derive_seed, expand_into_vec

ROOT = Path(__file__).resolve().parent.parent.parent
BUNDLED = ROOT / "tests" / "vectors"
# The draft's whole set, where it lies beside the checkout.
WHOLE_SET = ROOT.parent.joinpath("shared", "vectors-vdaf")


@pytest.mark.parametrize("folder", [BUNDLED / "vdaf", WHOLE_SET], ids=["bundled", "whole set"])
def test_published_vectors(folder):
    path = folder / "XofTurboShake128.json"
    if not path.exists():
        pytest.skip("the draft's vectors are not here")
    vector = json.loads(path.read_text(encoding="utf-8"))
    seed, dst, binder = (bytes.fromhex(vector[name]) for name in ("seed", "dst", "binder"))
    assert derive_seed(seed, dst, binder).hex() == vector["derived_seed"]
    elements = expand_into_vec(seed, dst, binder, vector["length"], field.F128)
    assert elements.tobytes().hex() == vector["expanded_vec_field128"]


@pytest.mark.parametrize("index", range(10))
def test_turboshake_is_that_of_its_rfc(index):
    vector = json.loads((BUNDLED / "turboshake128.json").read_text(encoding="utf-8"))[index]
    if "pattern" in vector:
        message = (bytes(range(251)) * (vector["pattern"] // 251 + 1))[: vector["pattern"]]
    else:
        message = bytes.fromhex(vector["message"])
    output = TurboSHAKE128.new(domain=vector["domain"], data=message).read(vector["length"])
    if "last" in vector:
        assert output[-32:].hex() == vector["last"]
    else:
        assert output.hex() == vector["output"]


@pytest.mark.parametrize(
    "kind", [field.GOLDILOCKS, field.F128, field.M61, field.prime_field(97), field.ring(16)]
)
def test_vectors_are_drawn_in_stream_order(kind):
    seed, dst, binder = b"s" * 32, b"tag", b"binder"
    stream, size = XofTurboShake128(seed, dst, binder), kind.dtype.itemsize * kind.limbs
    expected: list[int] = []
    while len(expected) < 50:
        number = int.from_bytes(stream.take(size), "little") & (2**kind.bits - 1)
        if number < kind.modulus:
            expected.append(number)
    found = expand_into_vec(seed, dst, binder, 50, kind)
    assert field.integers(found, kind).tolist() == expected


def test_pieces_are_one_stream(monkeypatch):
    whole = XofTurboShake128(b"k", b"", b"").take(1000)
    stream = XofTurboShake128(b"k", b"", b"")
    assert b"".join(stream.take(n) for n in (0, 1, 167, 168, 169, 495)) == whole
    monkeypatch.setattr(xof, "_PIECE", 99)
    assert XofTurboShake128(b"k", b"", b"").take(1000) == whole


def test_every_input_changes_the_stream():
    inputs = [
        (b"seed", b"tag", b"binder"),
        (b"seedt", b"ag", b"binder"),
        (b"seed", b"tagb", b"inder"),
        (b"seedb", b"tag", b"inder"),
        (b"", b"tag", b"seedbinder"),
    ]
    assert len({derive_seed(*item) for item in inputs}) == len(inputs)


def test_the_seed_stays_inside():
    stream = XofTurboShake128(b"secretsecret", b"tag", b"")
    assert "secret" not in repr(stream)
    with pytest.raises(TypeError):
        pickle.dumps(stream)


def test_wrong_arguments_are_named():
    for argument, wrong in [
        ("seed", lambda: XofTurboShake128("text", b"", b"")),
        ("seed", lambda: XofTurboShake128(bytes(256), b"", b"")),
        ("dst", lambda: XofTurboShake128(b"", bytes(2**16), b"")),
        ("binder", lambda: derive_seed(b"", b"", None)),
        ("count", lambda: XofTurboShake128(b"", b"", b"").take(-1)),
        ("count", lambda: XofTurboShake128(b"", b"", b"").take(True)),
        ("length", lambda: expand_into_vec(b"", b"", b"", -1, field.M61)),
        ("field", lambda: expand_into_vec(b"", b"", b"", 1, "F128")),
    ]:
        with pytest.raises(UsageError) as caught:
            wrong()
        assert caught.value.argument == argument
        assert "secret" not in str(caught.value)


def test_longest_inputs_are_taken():
    assert len(derive_seed(bytes(255), bytes(2**16 - 1), bytes(2**17))) == xof.SEED_SIZE
    assert expand_into_vec(b"", b"", b"", 0, field.F128).shape == (0, 2)
    assert expand_into_vec(b"", b"", b"", 0, field.F128).dtype == np.uint64
