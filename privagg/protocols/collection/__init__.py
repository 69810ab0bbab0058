"""Real collection under local differential privacy: one survey, many respondents, files between.

:class:`Survey` is what respondents and collector must agree on, of one attribute or of several, as
a file that carries its digest. A respondent's side turns values into reports
(:func:`write_reports`); a :class:`Collector` counts them batch by batch, and the states of several
collectors add up, over processes and machines. ``privagg ldp`` does it from the shell.

What other protocols call ``params`` is :class:`Survey`, in ``survey``; ``messages``, the files of
reports and states, are in ``files``. There is no ``rounds`` and no driver, as nobody waits for
anybody: :func:`write_reports` and :meth:`Collector.receive` are the two steps. The ``result`` is
what :meth:`Collector.estimate` returns. The ``planner`` is :func:`privagg.protocols.multidim.plan`,
which takes one attribute too.
"""

from privagg.protocols.collection.collector import Collector
from privagg.protocols.collection.columns import Chunk, read_chunks
from privagg.protocols.collection.files import (
    decode_state,
    encode_state,
    read_reports,
    write_reports,
)
from privagg.protocols.collection.survey import Survey

__all__ = [
    "Chunk",
    "Collector",
    "Survey",
    "decode_state",
    "encode_state",
    "read_chunks",
    "read_reports",
    "write_reports",
]
