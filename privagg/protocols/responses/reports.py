"""Private ad reports: release tables of counts, learn click models from them, and score these.

1. Declare the tables: :class:`Layout`.
2. Say how they are released: :class:`ReportParams`, or a :func:`preset`; ask it for ``epsilon``.
3. :func:`release` them, from displays of your own or made-up ones (:func:`simulate`).
4. Learn: :class:`AggregateLogistic` (tables and unlabelled displays), :class:`MarkovRandomField`
   and :class:`NaiveBayes` (tables alone), :class:`Boosting` (tables and a few labelled displays).
5. Score: :func:`nllh`.

:func:`read_criteo` reads a local copy of the AdKDD'21 challenge's files.
"""

from __future__ import annotations

from privagg.protocols.responses.report_files import CriteoTables, read_criteo, read_criteo_rows
from privagg.protocols.responses.report_learners import (
    AggregateLogistic,
    Boosting,
    NaiveBayes,
    nllh,
)
from privagg.protocols.responses.report_mrf import MarkovRandomField
from privagg.protocols.responses.report_release import (
    PRESETS,
    Report,
    ReportParams,
    preset,
    release,
)
from privagg.protocols.responses.report_simulator import Displays, simulate
from privagg.protocols.responses.report_tables import Layout, Tables

__all__ = [
    "PRESETS",
    "AggregateLogistic",
    "Boosting",
    "CriteoTables",
    "Displays",
    "Layout",
    "MarkovRandomField",
    "NaiveBayes",
    "Report",
    "ReportParams",
    "Tables",
    "nllh",
    "preset",
    "read_criteo",
    "read_criteo_rows",
    "release",
    "simulate",
]
