"""What attacks are measured on: photographs that installed packages bring, and gradients of them.

Nothing is downloaded or copied. The images of foolbox's data folder (20 of CIFAR-10, 20 of
CIFAR-100, 20 of ImageNet made 32 x 32) are read where the package is installed, without importing
it; crops of scikit-learn's two photographs follow, or stand alone where foolbox is not.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError

__all__ = ["TwoLayers", "batch", "crops", "foolbox_folder", "large", "natural"]

Images = NDArray[np.float32]

SIDE = 32


def _folder(package: str) -> Path | None:
    """Return where a package is installed, without importing it."""
    found = importlib.util.find_spec(package)
    places = None if found is None else found.submodule_search_locations
    return Path(places[0]) if places else None


def foolbox_folder() -> Path | None:
    """Return foolbox's data folder, if the package is installed."""
    folder = _folder("foolbox")
    return None if folder is None or not (folder / "data").is_dir() else folder / "data"


def _pillow() -> Any:
    if importlib.util.find_spec("PIL") is None:
        raise UsageError(
            "pillow",
            "not installed",
            "the package that reads images",
            "pip install 'privagg[plots]'",
        )
    from PIL import Image

    return Image


def _pixels(image: Any) -> Images:
    """Return (3, height, width) numbers from 0 to 1."""
    return np.ascontiguousarray(np.asarray(image, np.float32).transpose(2, 0, 1) / np.float32(255))


@cache
def natural() -> tuple[Images, NDArray[np.int64]]:
    """Return foolbox's 60 natural images, (60, 3, 32, 32), and their labels modulo 10.

    Raises
    ------
    UsageError
        If foolbox or Pillow is not installed.
    """
    folder = foolbox_folder()
    if folder is None:
        raise UsageError("foolbox", "not installed", "the package whose images are read")
    library = _pillow()
    images, labels = [], []
    for kind in ("cifar10", "cifar100", "imagenet"):
        for path in sorted(folder.glob(f"{kind}_*")):
            with library.open(path) as opened:
                image = opened.convert("RGB")
            if image.size != (SIDE, SIDE):
                image = image.resize((SIDE, SIDE), library.Resampling.BICUBIC)
            images.append(_pixels(image))
            labels.append(int(path.stem.rsplit("_", 1)[1]) % 10)
    return np.stack(images), np.array(labels)


@cache
def crops(scale: int = 2, step: int = 32) -> Images:
    """Return 32 x 32 crops of scikit-learn's photographs, (n, 3, 32, 32), flat ones left out.

    Parameters
    ----------
    scale : int
        How many times the photographs are made smaller.
    step : int
        Pixels between crops: below 32 they overlap.

    Raises
    ------
    UsageError
        If scikit-learn or Pillow is not installed.
    """
    folder = _folder("sklearn")
    if folder is None:
        raise UsageError(
            "scikit-learn", "not installed", "its photographs", "pip install 'privagg[responses]'"
        )
    library = _pillow()
    found = []
    for name in ("china.jpg", "flower.jpg"):
        with library.open(folder / "datasets" / "images" / name) as opened:
            image = opened.convert("RGB")
        size = (image.width // scale, image.height // scale)
        pixels = _pixels(image.resize(size, library.Resampling.BICUBIC))
        for top in range(0, size[1] - SIDE + 1, step):
            for left in range(0, size[0] - SIDE + 1, step):
                crop = pixels[:, top : top + SIDE, left : left + SIDE]
                if crop.std() > 0.05:
                    found.append(crop)
    return np.stack(found)


@cache
def large(size: int = 24, side: int = 224) -> Images:
    """Return natural images of 224 x 224, a flat one a row: foolbox's 20, then crops.

    Parameters
    ----------
    size : int
        At most 20, and as many as scikit-learn's photographs have crops that do not overlap.
    side : int
        Pixels, at most 224.

    Raises
    ------
    UsageError
        If foolbox, scikit-learn or Pillow is not installed, or there are not enough images.
    """
    folder, photographs = foolbox_folder(), _folder("sklearn")
    if folder is None or photographs is None:
        raise UsageError(
            "foolbox" if folder is None else "scikit-learn", "not installed", "its images"
        )
    library = _pillow()
    found: list[Images] = []
    for path in sorted(folder.glob("imagenet_*")):
        with library.open(path) as opened:
            found.append(_pixels(opened.convert("RGB"))[:, :side, :side])
    for name in ("china.jpg", "flower.jpg"):
        with library.open(photographs / "datasets" / "images" / name) as opened:
            pixels = _pixels(opened.convert("RGB"))
        for left in range(0, pixels.shape[2] - side + 1, side):
            found.append(pixels[:, :side, left : left + side])
    if size > len(found):
        raise UsageError("size", size, f"at most {len(found)} images")
    return np.stack(found[:size]).reshape(size, -1)


def batch(size: int, seed: int) -> tuple[Images, NDArray[np.int64]]:
    """Return a batch of different images, a flat one a row, and labels below 10.

    Parameters
    ----------
    size : int
        Natural images first, crops for what is missing.
    seed : int
        Of the choice, and of the crops' labels.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    rng = np.random.default_rng(seed)
    images, labels = np.zeros((0, 3, SIDE, SIDE), np.float32), np.zeros(0, np.int64)
    if foolbox_folder() is not None:
        images, labels = natural()
    if size > len(images):
        more = next(
            (c for c in (crops(), crops(1), crops(1, 8)) if len(c) >= size - len(images)), None
        )
        if more is None:
            raise UsageError("batch", size, f"at most {len(images) + len(crops(1, 8))} images")
        chosen = rng.choice(len(more), size - len(images), replace=False)
        images = np.concatenate([images, more[chosen]])
        labels = np.concatenate([labels, rng.integers(0, 10, len(chosen))])
    order = rng.permutation(len(images))[:size]
    return images[order].reshape(size, -1), labels[order]


@dataclass
class TwoLayers:
    """A network ``d - h - classes`` with a ReLU, and the gradients of its mean cross-entropy.

    Attributes
    ----------
    weights, biases : (h, d) and (h,) float32 arrays
        Of the first layer, drawn as PyTorch draws them: uniform within ``1 / sqrt(d)``.
    head, head_biases : (classes, h) and (classes,) float32 arrays
        Of the second.
    """

    weights: Images = field(repr=False)
    biases: Images = field(repr=False)
    head: Images = field(repr=False)
    head_biases: Images = field(repr=False)

    @classmethod
    def drawn(cls, inputs: int, width: int, classes: int = 10, seed: int = 0) -> TwoLayers:
        """Return an untrained network.

        Parameters
        ----------
        inputs : int
            Numbers in an input.
        width : int
            Units of the hidden layer.
        classes : int
            How many classes.
        seed : int
            Makes a run repeatable, from 0.
        """
        rng = np.random.default_rng([seed, inputs, width])

        def uniform(fan: int, *shape: int) -> Images:
            return rng.uniform(-1, 1, shape).astype(np.float32) / np.float32(np.sqrt(fan))

        return cls(
            uniform(inputs, width, inputs),
            uniform(inputs, width),
            uniform(width, classes, width),
            uniform(width, classes),
        )

    def gradients(
        self, images: Images, labels: NDArray[np.int64]
    ) -> tuple[Images, Images, Images, Images]:
        """Return the gradients of the four parameters, in float32 as a client computes them.

        Parameters
        ----------
        images : (n, inputs) float32 array
            A flat image in each row.
        labels : (n,) int64 array
            Their classes.
        """
        columns, errors, hidden = self.signals(images, labels)
        return columns.T @ images, columns.sum(0), errors.T @ hidden, errors.sum(0)

    def signals(self, images: Images, labels: NDArray[np.int64]) -> tuple[Images, Images, Images]:
        """Return per input the gradients of the first outputs and of the logits, and the features.

        Shapes (B, h), (B, classes) and (B, h); those of the gradients are divided by B.

        Parameters
        ----------
        images : (n, inputs) float32 array
            A flat image in each row.
        labels : (n,) int64 array
            Their classes.
        """
        outputs = images @ self.weights.T + self.biases
        hidden = np.maximum(outputs, 0)
        logits = hidden @ self.head.T + self.head_biases
        logits -= logits.max(axis=1, keepdims=True)
        errors = np.exp(logits)
        errors /= errors.sum(axis=1, keepdims=True)
        errors[np.arange(len(labels)), labels] -= 1
        errors /= np.float32(len(labels))
        return (errors @ self.head) * (outputs > 0), errors, hidden
