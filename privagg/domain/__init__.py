"""Declared domains of attributes: which values there are, before anyone looks at any.

A domain is never inferred from values: that would publish, with no privacy at all, which values
occur. It is declared, by the one who asks, and each respondent's side turns its own value into a
code under it:

:class:`Categorical`
    Strings, booleans or integers, each with a code; perhaps with a cell for everything else.
:class:`Integers`, :class:`Floats`
    A range of numbers, the floats on a grid.

:func:`read_attributes` reads the domains of a survey from TOML.
"""

from privagg.domain.base import Domain
from privagg.domain.categorical import Categorical
from privagg.domain.config import domain_from, read_attributes
from privagg.domain.numeric import Floats, Integers

__all__ = ["Domain", "Categorical", "Integers", "Floats", "domain_from", "read_attributes"]
