"""Kernels behind :mod:`privagg.prg`: each adds key streams into an accumulator.

Every kernel has the signature ``(accumulator, seeds, signs, start)`` and trusts its arguments:
:func:`privagg.prg.accumulate` has checked them. All kernels of a suite produce the same stream.
"""
