"""Small pictures that come with the package, for audits of gradients."""

from __future__ import annotations

import io
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PICTURES_LICENCE", "load_pictures"]

PICTURES_LICENCE = (
    "crops, scaled down, of two photographs: china.jpg by danielbuechele and flower.jpg by "
    "vultilion, both on Flickr, CC BY 2.0 (https://creativecommons.org/licenses/by/2.0/)"
)


def load_pictures() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Load 47 natural pictures and a label for each.

    Returns
    -------
    pictures : (47, 3, 32, 32) float32 array
        From 0 to 1; channels red, green, blue.
    labels : (47,) int64 array
        From 0 to 9: which of two photographs, and which fifth of its crops by brightness.
    """
    import numpy as np

    folder = resources.files("privagg.datasets")
    content = folder.joinpath("images", "crops.npz").read_bytes()
    with np.load(io.BytesIO(content), allow_pickle=False) as held:
        pictures = held["images"].astype(np.float32) / np.float32(255)
        return pictures, held["labels"].astype(np.int64)
