"""How fast things are here, beside what else is installed, on the same work in the same run.

Times are CPU seconds, over all threads where there are several. Contestants take turns, so that a
busy machine is busy for all of them; medians are shown with their spread, floors beside figures,
and what was computed from smaller measurements is labelled as extrapolated. See
:mod:`privagg.bench.clock` for how time and cycles are taken.
"""
