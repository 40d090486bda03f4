"""What the kernels of linear algebra share: LAPACK for each matrix of a batch, and errors that name it.

What the array library does for batches itself is left to it. The rest is SciPy's LAPACK and BLAS, matrix by matrix; where the
library is not NumPy, `on_host` has it computed on the host.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from metatensor.linalg import LinAlgError

__all__ = ["adjoint", "blas", "flat", "lapack", "on_host", "raise_failed", "stacks", "translated"]

_UNITARY = {"orgqr": "ungqr", "ormqr": "unmqr"}


@functools.cache
def lapack(name: str, dtype: Any) -> Callable[..., Any]:
    """LAPACK's routine for a dtype; what is called orthogonal for real numbers is the unitary one for complex ones."""
    import scipy.linalg.lapack

    return getattr(scipy.linalg.lapack, _letter(dtype) + (_UNITARY.get(name, name) if dtype.kind == "c" else name))


@functools.cache
def blas(name: str, dtype: Any) -> Callable[..., Any]:
    """BLAS's routine for a dtype."""
    import scipy.linalg.blas

    return getattr(scipy.linalg.blas, _letter(dtype) + name)


def _letter(dtype: Any) -> str:
    return {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}[dtype.name]


def on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that computes with NumPy arrays, whatever the device's library; it returns its results."""

    @functools.wraps(function)
    def run(kit: Any, out: Any, *args: Any) -> Any:
        if kit.on_host:
            return function(kit, out, *args)
        brought = [kit.download(arg) if isinstance(arg, kit.xp.ndarray) else arg for arg in args]
        result = function(kit, out, *brought)
        return tuple(map(kit.upload, result)) if isinstance(result, tuple) else kit.upload(result)

    return run


def flat(array: Any, keep: int = 2) -> Any:
    """A batch of any rank as one with a single batch dimension before the last ``keep``."""
    batch = array.shape[: array.ndim - keep]
    return array.reshape((math.prod(batch), *array.shape[array.ndim - keep :]))


def stacks(*arrays: Any, keep: tuple[int, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The matrices of several batches that broadcast, side by side; ``keep`` has the dimensions of one item, 2 unless told."""
    kept = keep or (2,) * len(arrays)
    batch = np.broadcast_shapes(*(a.shape[: a.ndim - k] for a, k in zip(arrays, kept, strict=True)))
    wide = [np.broadcast_to(a, batch + a.shape[a.ndim - k :]) for a, k in zip(arrays, kept, strict=True)]
    return zip(*(flat(a, k) for a, k in zip(wide, kept, strict=True)), strict=True)


def adjoint(xp: Any, array: Any) -> Any:
    """Matrices transposed and conjugated."""
    return xp.conj(xp.swapaxes(array, -1, -2))


def raise_failed(info: Any, text: str, error: type[RuntimeError] = LinAlgError) -> None:
    """Raise ``error`` for the first matrix whose ``info`` is not 0; in ``text``, ``{}`` stands for that number."""
    failed = np.flatnonzero(info)
    if failed.size:
        which = np.unravel_index(failed[0], info.shape)
        place = f" (matrix {tuple(map(int, which))} of the batch {info.shape})" if info.ndim else ""
        raise error(text.format(abs(int(info[which]))) + place)


def translated(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a kernel raise `LinAlgError` with ``text`` where its library raises an error of its own, or matrices are not finite."""

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
