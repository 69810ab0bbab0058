"""Compiled loops of the mechanisms, each beside its plain NumPy twin.

The twin serves ``PRIVAGG_JIT=0`` and is the tests' oracle: given the same words, both return the
same, bit for bit. Nothing here validates.
"""
