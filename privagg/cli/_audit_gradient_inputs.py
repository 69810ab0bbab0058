"""The model and the examples of ``privagg audit gradient``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.torch_models import require_torch
from privagg.attacks.gradient.views import Batch
from privagg.datasets import load_pictures
from privagg.errors import UsageError

__all__ = ["GradientInputs", "inputs", "make_model"]


@dataclass(frozen=True)
class GradientInputs:
    """What is audited.

    Attributes
    ----------
    model : torch.nn.Module
        Untrained, or as the function made it.
    loss : callable, optional
        Of outputs and labels.
    examples, labels : arrays
        All of them, in the order in which they are dealt out.
    source : str
        For the report.
    perceptual : callable, optional
        A distance of images, such as LPIPS.
    """

    model: Any = field(repr=False)
    loss: Callable[[Any, Any], Any] | None
    examples: NDArray[Any] = field(repr=False)
    labels: NDArray[Any] = field(repr=False)
    source: str
    perceptual: Callable[[Any, Any], Any] | None = field(default=None, repr=False)

    def batches(self, batch: int, clients: int) -> tuple[list[Batch], NDArray[Any]]:
        """Return a batch for each client, and the examples that are left.

        Raises
        ------
        UsageError
            If there are too few.
        """
        need = batch * clients
        if need > len(self.examples):
            raise UsageError(
                "--batch",
                f"{batch} x {clients} clients",
                f"at most {len(self.examples)} examples in all, as there are",
            )
        parts = [slice(at, at + batch) for at in range(0, need, batch)]
        return [Batch(self.examples[p], self.labels[p]) for p in parts], self.examples[need:]


def inputs(
    model: str | None,
    data: Path | None,
    loss: str | None,
    seed: int,
    perceptual: str | None = None,
) -> GradientInputs:
    """Make the model and read the examples; the bundled ones if neither is named.

    Raises
    ------
    UsageError
        If something cannot be imported or read, or is not what it should be.
    """
    torch = require_torch()
    torch.manual_seed(seed)
    measure = None if loss is None else _named("--loss", loss)
    plugged = None if perceptual is None else _named("--perceptual", perceptual)
    if model is None or data is None:
        pictures, classes = load_pictures()
        made = torch.nn.Sequential(
            torch.nn.Flatten(),
            torch.nn.Linear(3072, 256),
            torch.nn.ReLU(),
            torch.nn.Linear(256, 10),
        )
        source = "bundled: 3072-256-10 with ReLU, untrained; crops of two photographs"
    else:
        made = make_model(model, seed)
        pictures, classes = _read(data)
        source = f"{model}, {data.name}"
    order = np.random.default_rng(seed).permutation(len(pictures))
    return GradientInputs(made, measure, pictures[order], classes[order], source, plugged)


def make_model(model: str, seed: int) -> Any:
    """Call the function that makes the model.

    Raises
    ------
    UsageError
        If it cannot be imported, raises, or makes something else.
    """
    torch = require_torch()
    torch.manual_seed(seed)
    make = _named("--model", model)
    try:
        made = make()
    except (Exception, SystemExit) as error:  # Whatever the user's own code raises.
        what = f"{type(error).__name__}: {error}"
        raise UsageError(
            "--model", model, "a function that makes a torch.nn.Module without arguments", what
        ) from error
    if not isinstance(made, torch.nn.Module):
        raise UsageError("--model", type(made).__name__, "a function that makes a torch.nn.Module")
    if any(tensor.is_meta for tensor in (*made.parameters(), *made.buffers())):
        hint = "Make it without torch.device('meta')."
        raise UsageError("--model", "a model on the meta device", "one that has its numbers", hint)
    return made


def _named(flag: str, text: str) -> Any:
    """Import ``module:name``; the current folder counts, as for ``python -m``."""
    module, _, name = text.partition(":")
    if not module or not name:
        raise UsageError(flag, text, "MODULE:NAME, for example my_module:make_model")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        home = importlib.import_module(module)
    except ImportError as error:
        raise UsageError(flag, text, f"a module that can be imported ({error})") from None
    except (Exception, SystemExit) as error:  # Whatever the user's own code raises.
        raise UsageError(
            flag, text, "a module that can be imported", f"{type(error).__name__}: {error}"
        ) from error
    if not hasattr(home, name):
        raise UsageError(flag, text, f"a name that {module} has")
    found = getattr(home, name)
    if not callable(found):
        raise UsageError(flag, text, "a function")
    return found


def _read(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    try:
        opened = np.load(path, allow_pickle=False)
        if isinstance(opened, np.ndarray):
            raise UsageError(path.name, "one array", "an .npz file: arrays images and labels")
        with opened as held:
            names = list(held.files)
            key = next((name for name in ("images", "inputs", "x") if name in names), None)
            tag = next((name for name in ("labels", "y") if name in names), None)
            if key is None or tag is None:
                raise UsageError(
                    path.name, ", ".join(names) or "no array", "arrays named images and labels"
                )
            examples, labels = held[key], held[tag]
    except UsageError:
        raise
    except (OSError, ValueError, EOFError, AttributeError) as error:
        raise UsageError(path.name, f"not read: {error}", "an .npz file of plain arrays") from None
    for name, array, dimensions in ((key, examples, 2), (tag, labels, 1)):
        if array.dtype.kind not in "biufc" or array.ndim < dimensions or not len(array):
            raise UsageError(
                f"{path.name}, array {name!r}",
                f"{array.dtype} of shape {array.shape}",
                "numbers, a row (or a label) for each of at least one example",
            )
    if examples.dtype == np.uint8:
        raise UsageError(
            f"{path.name}, array {key!r}",
            "uint8",
            "floats, as the model takes them",
            "Divide by 255, as the clients do.",
        )
    if examples.dtype.kind == "f":
        examples = examples.astype(np.float32)
        if not np.isfinite(examples).all():
            raise UsageError(f"{path.name}, array {key!r}", "numbers not finite", "finite ones")
    if labels.dtype.kind in "iu":
        labels = labels.astype(np.int64)
    if len(examples) != len(labels):
        raise UsageError(
            path.name, f"{examples.shape} and {labels.shape}", "an example a row, and its label"
        )
    return examples, labels
