"""Run, plan and audit private aggregation.

Importing this package is cheap: it loads neither NumPy nor Numba nor torch. Import the part you
need, for example ``from privagg.protocols import secagg``.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
