"""PyTorch models in secure aggregation rounds. Needs the extra ``torch``.

- :func:`tensors` and :func:`gradients` select what takes part: a whole ``state_dict`` with its
  buffers, LoRA's matrices, gradients.
- :class:`Layout` turns named tensors into one vector and back, keeping dtype, device and shape.
- :func:`secure_mean` runs a round with all its parties here.
- :class:`SecureAverager` makes a client's and the server's half for a training loop of one's own.

What a round hides, and what it does not: :mod:`privagg.protocols.secagg`. The mean of few models
says much about each; noise on the client is in :mod:`privagg.integrations.opacus`.
"""

from __future__ import annotations

from privagg.errors import UsageError

try:
    import torch as _  # noqa: F401 - before the modules that take it for granted
except ImportError:
    raise UsageError(
        "torch", "not installed", "PyTorch", "Install it: pip install 'privagg[torch]'"
    ) from None

from privagg.integrations._averager import AveragingClient, AveragingServer, SecureAverager
from privagg.integrations._secure_mean import SecureMean, secure_mean
from privagg.integrations._tensors import Layout, Model, gradients, load, model_digest, tensors

__all__ = [
    "AveragingClient",
    "AveragingServer",
    "Layout",
    "Model",
    "SecureAverager",
    "SecureMean",
    "gradients",
    "load",
    "model_digest",
    "secure_mean",
    "tensors",
]
