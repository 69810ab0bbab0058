"""Mechanisms of local differential privacy, and noise that clients of a secure sum add.

See :mod:`privagg.mechanisms.base` for what all of them promise.
"""

from privagg.mechanisms.additive import Gaussian, Laplace
from privagg.mechanisms.attributes import SampledAttributes
from privagg.mechanisms.base import FrequencyOracle, Mechanism, PureOracle
from privagg.mechanisms.calibration import calibrate
from privagg.mechanisms.channel import Channel
from privagg.mechanisms.count_mean_sketch import CMS, HCMS
from privagg.mechanisms.distributed import DistributedNoise
from privagg.mechanisms.duchi import Duchi, Hybrid
from privagg.mechanisms.em import DistributionEstimate
from privagg.mechanisms.estimate import Estimate
from privagg.mechanisms.exponential import ExponentialMechanism
from privagg.mechanisms.grr import GRR
from privagg.mechanisms.guarantees import Guarantee, Target, coalition_curve
from privagg.mechanisms.hadamard import HadamardResponse
from privagg.mechanisms.histogram_encoding import SHE, THE
from privagg.mechanisms.local_hashing import BLH, OLH, LocalHashing
from privagg.mechanisms.longitudinal import LGRR, Longitudinal
from privagg.mechanisms.longitudinal_hashing import LOLOHA, DBitFlip
from privagg.mechanisms.longitudinal_unary import LOSUE, LSUE
from privagg.mechanisms.mean_estimate import MeanEstimate
from privagg.mechanisms.memory import Memory
from privagg.mechanisms.numeric import NumericMechanism
from privagg.mechanisms.poisson_binomial import PoissonBinomial
from privagg.mechanisms.postprocess import METHODS
from privagg.mechanisms.projective import PGR
from privagg.mechanisms.randomized_response import RandomizedResponse
from privagg.mechanisms.registry import MECHANISMS, make, mechanism_from
from privagg.mechanisms.reports import Reports
from privagg.mechanisms.rotation import Rotation
from privagg.mechanisms.square_wave import SquareWave
from privagg.mechanisms.state import State
from privagg.mechanisms.subset import SubsetSelection
from privagg.mechanisms.unary import OUE, SUE, UnaryEncoding
from privagg.mechanisms.window import Piecewise

__all__ = [
    "Mechanism",
    "FrequencyOracle",
    "PureOracle",
    "Reports",
    "State",
    "Estimate",
    "METHODS",
    "MECHANISMS",
    "make",
    "mechanism_from",
    "GRR",
    "SUE",
    "OUE",
    "UnaryEncoding",
    "BLH",
    "OLH",
    "LocalHashing",
    "SubsetSelection",
    "HadamardResponse",
    "PGR",
    "CMS",
    "HCMS",
    "SHE",
    "THE",
    "RandomizedResponse",
    "Longitudinal",
    "Memory",
    "LGRR",
    "LOSUE",
    "LSUE",
    "LOLOHA",
    "DBitFlip",
    "ExponentialMechanism",
    "Channel",
    "NumericMechanism",
    "MeanEstimate",
    "DistributionEstimate",
    "Laplace",
    "Duchi",
    "Piecewise",
    "Hybrid",
    "Gaussian",
    "SquareWave",
    "SampledAttributes",
    "DistributedNoise",
    "PoissonBinomial",
    "calibrate",
    "Guarantee",
    "Target",
    "coalition_curve",
    "Rotation",
]
