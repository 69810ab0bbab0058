"""Tests marked ``gpu`` need a CUDA device, or Numba's simulator."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def device(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("gpu") is None:
        return
    from numba import cuda

    if not cuda.is_available():
        pytest.skip("Numba finds no CUDA driver or device")
