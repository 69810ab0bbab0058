"""How CUDA arrays are told from others, in a process without a device."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from privagg import encoding, prg, wire
from privagg import field as fields
from privagg._cuda import arrays
from privagg.errors import UsageError
from privagg.field.devices import is_device_array


class Elsewhere:
    """What another library's CUDA array looks like."""

    @property
    def __cuda_array_interface__(self):
        memory = {"shape": (3,), "typestr": "<u8", "data": (0, False)}
        return memory | {"strides": None, "version": 3}


class Locked:
    """A tensor that does not give its memory away, by torch's way of saying so."""

    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("it requires a gradient")


class OnHost:
    """A tensor on the host, by torch's way of saying so."""

    @property
    def __cuda_array_interface__(self):
        raise AttributeError("it is on the host")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Elsewhere(), True),
        (Locked(), True),
        (OnHost(), False),
        (np.zeros(3), False),
        (np.uint64(3), False),
        (np.ma.zeros(3), False),
        (memoryview(b"ab"), False),
        ([1, 2], False),
        (None, False),
        (fields.M61, False),
    ],
)
def test_what_a_device_array_is(value, expected):
    assert is_device_array(value) is expected


def test_the_fields_do_not_import_cuda():
    program = (
        "import sys, numpy as np\n"
        "from privagg import field, prg, wire, encoding\n"
        "from privagg.protocols import secagg\n"
        "field.add(np.ones(3, np.uint64), np.ones(3, np.uint64))\n"
        "assert not [name for name in sys.modules if name.startswith('numba.cuda')]\n"
        "assert 'numba_cuda' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("jit", [True, False])
def test_without_a_device_the_argument_is_named(monkeypatch, jit):
    monkeypatch.setattr(arrays, "JIT", jit)
    monkeypatch.setattr(arrays, "SIMULATED", False)
    monkeypatch.setitem(sys.modules, "numba.cuda", SimpleNamespace(is_available=lambda: False))
    monkeypatch.setattr("numba.cuda", sys.modules["numba.cuda"], raising=False)
    x, ones = Elsewhere(), np.ones(3, np.uint64)
    calls = {
        "a": lambda: fields.add(x, ones),
        "accumulator": lambda: prg.accumulate(
            x, np.zeros((0, 44), np.uint8), np.zeros(0, np.int8), suite="chacha20"
        ),
        "buffer": lambda: wire.unpack_bits(x, 3, 8),
        "vector": lambda: encoding.Encoding(kind="integer", value_bits=8).encode(x, clients=2),
    }
    for argument, call in calls.items():
        with pytest.raises(UsageError) as found:
            call()
        assert found.value.argument == argument
        assert ("driver" if jit else "PRIVAGG_JIT") in str(found.value)


def test_a_host_array_before_a_device_array_is_named():
    with pytest.raises(UsageError) as found:
        fields.add(np.ones(3, np.uint64), Elsewhere())
    assert found.value.argument == "a"
    assert "NumPy array" in str(found.value)
