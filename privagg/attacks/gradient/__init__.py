"""Gradient inversion: which inputs the server can read from the gradients it sees.

An :class:`Observation` holds what the server saw; each attack takes one and gives a
:class:`Recovery`. `ica` is fast and needs no activation; `relu_exact` is exact in front of a ReLU
and proves it; `analytic` divides; `labels` counts; `cocktail_party` is the published attack.
"""

from privagg.attacks.gradient.analytic import analytic
from privagg.attacks.gradient.cocktail_party import (
    EMBEDDINGS,
    IMAGES,
    PUBLISHED,
    Objective,
    cocktail_party,
)
from privagg.attacks.gradient.factors import Factors, factorize
from privagg.attacks.gradient.feature_inversion import invert_features
from privagg.attacks.gradient.ica import ica
from privagg.attacks.gradient.labels import LabelCounts, labels
from privagg.attacks.gradient.matching import match
from privagg.attacks.gradient.metrics import (
    Quality,
    cosine,
    psnr,
    psnr_published,
    quality,
    ssim,
)
from privagg.attacks.gradient.observation import LayerGradient, Observation, layer_gradient
from privagg.attacks.gradient.recovery import Recovery, Verification
from privagg.attacks.gradient.relu_exact import relu_exact

__all__ = [
    "EMBEDDINGS",
    "IMAGES",
    "PUBLISHED",
    "Factors",
    "LabelCounts",
    "LayerGradient",
    "Objective",
    "Observation",
    "Quality",
    "Recovery",
    "Verification",
    "analytic",
    "cocktail_party",
    "cosine",
    "factorize",
    "ica",
    "invert_features",
    "labels",
    "layer_gradient",
    "match",
    "psnr",
    "psnr_published",
    "quality",
    "relu_exact",
    "ssim",
]
