"""Helpers for linear-algebra kernels: LAPACK on batches of matrices, and error messages that name the failing matrix.

Operations that the array library supports for batches are left to it. For the rest SciPy's LAPACK and BLAS process one
matrix after the other. If the library is not NumPy, `on_host` moves the computation to the host.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from metatensor.devices.threads import limit_blas
from metatensor.linalg import LinAlgError

__all__ = ["adjoint", "blas", "flat", "lapack", "on_host", "raise_failed", "stacks", "translated"]

_UNITARY = {"orgqr": "ungqr", "ormqr": "unmqr"}


@functools.cache
def lapack(name: str, dtype: Any) -> Callable[..., Any]:
    """Return LAPACK's routine for a dtype. For complex dtypes, orthogonal routines are replaced by unitary ones."""
    import scipy.linalg.lapack

    limit_blas()
    return getattr(scipy.linalg.lapack, _letter(dtype) + (_UNITARY.get(name, name) if dtype.kind == "c" else name))


@functools.cache
def blas(name: str, dtype: Any) -> Callable[..., Any]:
    """Return BLAS's routine for a dtype."""
    import scipy.linalg.blas

    limit_blas()
    return getattr(scipy.linalg.blas, _letter(dtype) + name)


def _letter(dtype: Any) -> str:
    return {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}[dtype.name]


def on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a kernel that needs NumPy arrays: copy its arguments to the host and its results back.

    The kernel must return its results and not write to ``out``.
    """

    @functools.wraps(function)
    def run(kit: Any, out: Any, *args: Any) -> Any:
        if kit.on_host:
            return function(kit, out, *args)
        brought = [kit.download(arg) if isinstance(arg, kit.xp.ndarray) else arg for arg in args]
        result = function(kit, out, *brought)
        return tuple(map(kit.upload, result)) if isinstance(result, tuple) else kit.upload(result)

    return run


def flat(array: Any, keep: int = 2) -> Any:
    """Merge all dimensions before the last ``keep`` into a single batch dimension."""
    batch = array.shape[: array.ndim - keep]
    return array.reshape((math.prod(batch), *array.shape[array.ndim - keep :]))


def stacks(*arrays: Any, keep: tuple[int, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Iterate over several batches in parallel, broadcasting them.

    ``keep`` gives the number of dimensions of one item of each batch, by default 2 (matrices).
    """
    kept = keep or (2,) * len(arrays)
    batch = np.broadcast_shapes(*(a.shape[: a.ndim - k] for a, k in zip(arrays, kept, strict=True)))
    wide = [np.broadcast_to(a, batch + a.shape[a.ndim - k :]) for a, k in zip(arrays, kept, strict=True)]
    return zip(*(flat(a, k) for a, k in zip(wide, kept, strict=True)), strict=True)


def adjoint(xp: Any, array: Any) -> Any:
    """Return the conjugate transpose of each matrix."""
    return xp.conj(xp.swapaxes(array, -1, -2))


def raise_failed(info: Any, text: str, error: type[RuntimeError] = LinAlgError) -> None:
    """Raise ``error`` for the first matrix with nonzero ``info``. That value replaces ``{}`` in ``text``."""
    failed = np.flatnonzero(info)
    if failed.size:
        which = np.unravel_index(failed[0], info.shape)
        place = f" (matrix {tuple(map(int, which))} of the batch {info.shape})" if info.ndim else ""
        raise error(text.format(abs(int(info[which]))) + place)


def translated(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes a kernel raise `LinAlgError`, with a message that begins with ``text``.

    The error is raised for non-finite matrices, and in place of errors of the array library.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(kit: Any, out: Any, array: Any, *args: Any) -> Any:
            if not kit.xp.isfinite(array).all():
                raise LinAlgError(f"{text}: there are infinities or NaNs in the matrices of shape {list(array.shape)}")
            try:
                return function(kit, out, array, *args)
            except np.linalg.LinAlgError as error:
                raise LinAlgError(f"{text}: {error} (shape {list(array.shape)})") from error

        return run

    return decorate
