"""The number of threads that operators use in host memory.

There are two kinds of threads. The array kit divides long loops among its own threads. The BLAS libraries of the
process have threads that `threadpoolctl` controls if it is installed.

Until `set_num_threads` is called, loops use all processors, and BLAS half of them. The threads of a BLAS library wait
for each other by spinning. If another process runs on one of their processors, every product waits until the scheduler
gives the processor back, a thousand times as long as a small product takes. If an environment variable that BLAS
libraries read (``OMP_NUM_THREADS`` and the like) sets a number, that number is used instead.
"""

from __future__ import annotations

import contextvars
import functools
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["get_num_threads", "limit_blas", "set_num_threads", "share_out"]

LEAST = 1 << 17  # number of elements that justifies starting another thread
_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

_chosen: int | None = None
_limited: tuple[int, bool] | None = None  # last applied by `limit_blas`: number of threads, whether SciPy was loaded
_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def get_num_threads() -> int:
    """Return the number set by `set_num_threads`, else by the environment, else the number of usable processors."""
    return _chosen or _from_environment() or _processors()


def set_num_threads(n: int) -> None:
    """Set the number of threads of the array kit's loops and of the BLAS libraries of this process.

    Parameters
    ----------
    n : int
        The number of threads, at least 1.

    Raises
    ------
    TypeError
        If `n` is not an int.
    RuntimeError
        If `n` is not positive or does not fit into a C int.
    """
    global _chosen
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"set_num_threads: expected an int, got {type(n).__name__}")
    if not 1 <= n < 2**31:
        raise RuntimeError(f"set_num_threads: expected a positive number of threads below 2**31, got {n}")
    _chosen = n
    limit_blas()


def limit_blas() -> None:
    """Apply the number of threads to the BLAS libraries that are loaded. NumPy and SciPy each bring one."""
    global _limited
    if _chosen is None and _from_environment():
        return
    wanted = _chosen or max(1, _processors() // 2)
    state = (wanted, "scipy.linalg" in sys.modules or "scipy.special" in sys.modules)
    if state == _limited or "numpy" not in sys.modules:
        return
    _limited = state
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return
    threadpool_limits(wanted, user_api="blas")


def share_out(work: Callable[[int, int], Any], n: int) -> None:
    """Call ``work(first, count)`` for parts of `n` elements that are large enough, each in a thread of its own.

    The parts are multiples of 4 elements, except for the last. `work` has to release the GIL for most of its time.
    """
    parts = n // LEAST
    if parts < 2 or get_num_threads() == 1:
        work(0, n)
        return
    parts = min(parts, get_num_threads())
    size = (-(-n // parts) + 3) // 4 * 4
    pool = _threads(parts - 1)
    others = [pool.submit(contextvars.copy_context().run, work, first, min(size, n - first)) for first in range(size, n, size)]
    try:
        work(0, size)
    finally:
        failures = [other.exception() for other in others]
    for failure in filter(None, failures):
        raise failure


def _threads(n: int) -> ThreadPoolExecutor:
    """Return a pool of at least `n` threads."""
    global _pool, _pool_size
    if _pool is None or _pool_size < n:
        _pool, _pool_size = ThreadPoolExecutor(n, "metatensor"), n
    return _pool


def _forget_threads() -> None:
    global _pool, _pool_size
    _pool, _pool_size = None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)  # a child process does not inherit threads


@functools.cache
def _from_environment() -> int:
    """Return the number of threads that the environment gives to BLAS libraries, or 0."""
    for name in _VARIABLES:
        text = os.environ.get(name, "")
        if text.isdecimal() and int(text):
            return int(text)
    return 0


@functools.cache
def _processors() -> int:
    """Return the number of processors that this process may use, limited by the quota of its control group."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        return max(1, min(count, -(-int(quota) // int(period))))
    except (OSError, ValueError):  # no control groups, or no quota
        return count
