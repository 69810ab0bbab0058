"""Small real tables that come with the package, and the inputs that simulations deal out of them.

Nothing is downloaded. ``README.md`` in this folder gives each table's source, licence and columns.
Only :func:`load`, :func:`load_pictures` and :func:`histogram_inputs` import pyarrow and NumPy.
"""

from privagg.datasets.catalog import Info, info, names
from privagg.datasets.histograms import MAX_CATEGORIES, HistogramInputs, histogram_inputs
from privagg.datasets.loading import load
from privagg.datasets.pictures import PICTURES_LICENCE, load_pictures

__all__ = [
    "names",
    "info",
    "load",
    "histogram_inputs",
    "Info",
    "HistogramInputs",
    "MAX_CATEGORIES",
    "PICTURES_LICENCE",
    "load_pictures",
]
