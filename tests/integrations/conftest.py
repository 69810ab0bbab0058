from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
torch.set_num_threads(1)
