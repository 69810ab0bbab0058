"""Gradient inversion: which inputs the server can read from the gradients it sees.

An :class:`Observation` holds what the server saw; each attack takes one and gives a
:class:`Recovery`. `ica` is fast and needs no activation; `relu_exact` is exact in front of a ReLU
and proves it; `analytic` divides; `labels` counts; `cocktail_party` is the published attack.

`audit` plays a round, attacks what a `View` lets the server see, and gives every layer a `Verdict`.
Importing it needs no torch; running it does.
"""

from privagg.attacks.gradient.advice import Advice, advise
from privagg.attacks.gradient.analytic import analytic
from privagg.attacks.gradient.audit import audit
from privagg.attacks.gradient.audit_result import AttackResult, GradientAudit, LabelLeak
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
from privagg.attacks.gradient.malicious import Suspicion, detect
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
from privagg.attacks.gradient.verdicts import LayerVerdict, Verdict
from privagg.attacks.gradient.views import Batch, Noise, Seen, View

__all__ = [
    "EMBEDDINGS",
    "IMAGES",
    "PUBLISHED",
    "Advice",
    "AttackResult",
    "Batch",
    "Factors",
    "GradientAudit",
    "LabelCounts",
    "LabelLeak",
    "LayerGradient",
    "LayerVerdict",
    "Noise",
    "Objective",
    "Observation",
    "Quality",
    "Recovery",
    "Seen",
    "Suspicion",
    "Verdict",
    "Verification",
    "View",
    "advise",
    "analytic",
    "audit",
    "cocktail_party",
    "cosine",
    "detect",
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
