"""Field arithmetic on CUDA arrays.

:mod:`privagg.field` calls :mod:`privagg.field.cuda.functions` when an argument is a CUDA array. The
kernels are written once, over the operations of a field (:mod:`privagg.field.cuda.operations`), and
run in Numba's simulator as they do on a device.
"""
