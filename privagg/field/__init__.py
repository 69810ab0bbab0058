"""Finite fields on NumPy arrays.

Elements are canonical (0 to p - 1) in arrays of the field's dtype. The functions check their
arguments and then call compiled kernels, or plain NumPy with ``PRIVAGG_JIT=0``; both give the same
results. The fields are :data:`FIELDS`; the default is :data:`M61`, integers modulo 2**61 - 1.
"""

from privagg.field.arithmetic import (
    add,
    dot,
    inverse,
    mul,
    neg,
    power,
    sub,
    uniform,
    weighted_sum,
)
from privagg.field.checks import Elements, elements
from privagg.field.params import FIELDS, M61, Field
from privagg.field.polynomials import evaluate, lagrange_weights_at_zero

__all__ = [
    "FIELDS",
    "M61",
    "Elements",
    "Field",
    "add",
    "dot",
    "elements",
    "evaluate",
    "inverse",
    "lagrange_weights_at_zero",
    "mul",
    "neg",
    "power",
    "sub",
    "uniform",
    "weighted_sum",
]
