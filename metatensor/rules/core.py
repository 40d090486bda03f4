"""The core operators, to which all decompositions reduce.

A device with kernels for the core operators can compute every operator that has a decomposition. `metatensor devices
--ops NAME` lists how a device computes each operator. Views need no kernels. Allocation, filling, ranges and random numbers
need no kernels either, because `metatensor.devices.basics` provides them through the methods that every device has.
"""

from __future__ import annotations

__all__ = ["CORE"]

CORE: frozenset[str] = frozenset("""
    abs neg exp log sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfinv expm1 log1p lgamma digamma
    floor ceil round trunc sign isnan logical_not bitwise_not
    add sub mul div pow atan2 fmod remainder maximum minimum nextafter
    eq ne lt le gt ge
    bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift
    where
    sum prod amax amin argmax argmin any
    cumsum cumprod cummax cummin sort.stable
    mm bmm
    flip gather scatter scatter_add scatter_reduce index_select _index _index_put_ nonzero
    complex _fft_c2c
    linalg.cholesky_ex linalg.lu_factor_ex linalg.qr linalg.eigh linalg.eig linalg.svd linalg.solve_triangular
""".split())
"""The qualified names of the core operators."""
