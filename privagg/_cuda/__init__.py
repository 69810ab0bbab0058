"""What the kernels for CUDA devices share, and those that no field owns.

Nothing here imports ``numba.cuda`` before a CUDA array comes in, :mod:`privagg._cuda.arrays` least
of all: every function that takes arrays asks it first.
"""
