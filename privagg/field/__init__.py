"""Finite fields and rings on arrays.

Elements are canonical (0 to ``modulus - 1``) in arrays of the dtype of their field; a field of two
limbs (:data:`F128`) has an axis of two words at the end. The functions check their arguments and
call compiled kernels, or plain NumPy with ``PRIVAGG_JIT=0``; both give the same results. Fields
with names are in :data:`FIELDS`; :func:`prime_field` and :func:`ring` make others. The default is
:data:`M61`, integers modulo 2**61 - 1.

Where the arrays are CUDA arrays, most functions compute on their device and leave the result there:
:mod:`privagg.field.cuda.functions` says which, and what differs.
"""

from privagg.field.arithmetic import add, inverse, mul, mul_add, neg, power, sub
from privagg.field.checks import Elements, elements, integers
from privagg.field.elimination import Elimination
from privagg.field.linear import (
    inverse_matrix,
    null_space,
    rank,
    row_echelon,
    row_space,
    solve,
)
from privagg.field.params import (
    F128,
    FIELDS,
    GOLDILOCKS,
    M31,
    M61,
    Algebra,
    Field,
    Ring,
    prime_field,
    ring,
)
from privagg.field.polynomials import (
    evaluate,
    interpolate,
    lagrange_weights,
    lagrange_weights_at_zero,
    vandermonde,
)
from privagg.field.products import dot, matmul, sum_rows, weighted_sum
from privagg.field.sampling import ByteSource, uniform
from privagg.field.transforms import inverse_ntt, ntt, polynomial_product, root_of_unity

__all__ = [
    "F128",
    "FIELDS",
    "GOLDILOCKS",
    "M31",
    "M61",
    "Algebra",
    "ByteSource",
    "Elements",
    "Elimination",
    "Field",
    "Ring",
    "add",
    "dot",
    "elements",
    "evaluate",
    "integers",
    "interpolate",
    "inverse",
    "inverse_matrix",
    "inverse_ntt",
    "lagrange_weights",
    "lagrange_weights_at_zero",
    "matmul",
    "mul",
    "mul_add",
    "neg",
    "ntt",
    "null_space",
    "polynomial_product",
    "power",
    "prime_field",
    "rank",
    "ring",
    "root_of_unity",
    "row_echelon",
    "row_space",
    "solve",
    "sub",
    "sum_rows",
    "uniform",
    "vandermonde",
    "weighted_sum",
]
