"""What is taken from scikit-learn, or the error that names the extra."""

from __future__ import annotations

from privagg.errors import UsageError

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise UsageError(
        "privagg", "no scikit-learn", "the extra 'responses'", "pip install 'privagg[responses]'"
    ) from None

__all__ = [
    "BaseEstimator",
    "ClassifierMixin",
    "RegressorMixin",
    "check_classification_targets",
    "check_is_fitted",
    "clone",
    "validate_data",
]
