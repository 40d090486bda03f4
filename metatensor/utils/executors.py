"""Executors of `concurrent.futures`, by name: processes, Dask, Ray, MPI.

What metatensor runs on executors (`metatensor.materialize`, sweeps over candidates or models) takes any object with their `submit`. The
functions here save the user the set-up of the common ones.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["RayExecutor", "open_executor"]

FORMS = "'process', 'process:COUNT', 'dask', 'dask:ADDRESS', 'ray', 'ray:ADDRESS', 'mpi'"


class RayExecutor(concurrent.futures.Executor):
    """An executor whose calls are tasks of a Ray cluster that is connected to already.

    Parameters
    ----------
    **options
        Options of the tasks, as `ray.remote` takes them, such as ``num_cpus=1``.
    """

    def __init__(self, **options: Any) -> None:
        remote = _imported("ray", "ray").remote
        self._task = remote(**options)(_call) if options else remote(_call)
        self._pending: set[concurrent.futures.Future[Any]] = set()
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        """Run ``fn(*args, **kwargs)`` in a task and return its future.

        Raises
        ------
        RuntimeError
            If the executor was shut down.
        """
        if self._closed:
            raise RuntimeError("RayExecutor: no calls can be submitted after shutdown")
        future: concurrent.futures.Future[Any] = self._task.remote(fn, args, kwargs).future()
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls, and wait for those submitted. The connection to the cluster is left as it is."""
        self._closed = True
        pending = list(self._pending)
        if cancel_futures:
            for future in pending:
                future.cancel()
        if wait:
            concurrent.futures.wait(pending)


def _call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)   # a task of Ray must be a Python function, and `fn` can be any callable


@contextlib.contextmanager
def open_executor(name: str) -> Iterator[Any]:
    """Return a context manager that opens an executor and shuts it down at the end.

    Parameters
    ----------
    name : str
        ``"process"`` or ``"process:COUNT"``: processes of this machine, one for each processor by default. ``"dask"`` or
        ``"dask:ADDRESS"``: workers of a Dask cluster, or of one made for the purpose (needs ``dask[distributed]``). ``"ray"`` or
        ``"ray:ADDRESS"``: likewise with Ray. ``"mpi"``: the processes of a program that was started by
        ``mpiexec -n N python -m mpi4py.futures SCRIPT`` (needs ``mpi4py``).

    Raises
    ------
    ValueError
        If there is no executor of this name.
    ImportError
        If its library is not installed.

    Examples
    --------
    >>> from metatensor.utils.executors import open_executor
    >>> with open_executor("process:1") as executor:
    ...     executor.submit(sum, [1, 2, 3]).result()
    6
    """
    kind, _, rest = name.partition(":")
    opened = {"process": _processes, "dask": _dask, "ray": _ray, "mpi": _mpi}.get(kind)
    if opened is None:
        raise ValueError(f"executor {name!r}: expected one of {FORMS}")
    with opened(rest) as executor:
        yield executor


@contextlib.contextmanager
def _processes(count: str) -> Iterator[Any]:
    if count and not (count.isascii() and count.isdigit() and int(count) > 0):
        raise ValueError(f"executor 'process:{count}': expected a positive number of processes")
    # Forked processes would share the threads' locks of this one.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    with concurrent.futures.ProcessPoolExecutor(int(count) if count else None, context, _begin_worker) as executor:
        try:
            yield executor
        except KeyboardInterrupt:  # nobody waits for what the workers compute
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()
            raise


def _begin_worker() -> None:
    """Leave interrupts to the main process, and end with it, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def end() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end, name="metatensor-end-with-parent", daemon=True).start()


@contextlib.contextmanager
def _dask(address: str) -> Iterator[Any]:
    distributed = _imported("dask.distributed", "dask[distributed]")
    # Threads of one worker would share metatensor's modes and the interpreter's lock.
    client = distributed.Client(address) if address else distributed.Client(threads_per_worker=1, dashboard_address=None)
    with client, client.get_executor(pure=False) as executor:
        yield executor


@contextlib.contextmanager
def _ray(address: str) -> Iterator[Any]:
    ray = _imported("ray", "ray")
    ours = not ray.is_initialized()
    if ours:
        ray.init(address=address or None, include_dashboard=False, log_to_driver=False)
    elif address and address != "auto" and ray.get_runtime_context().gcs_address != address:
        raise ValueError(f"executor 'ray:{address}': this process is connected to {ray.get_runtime_context().gcs_address}")
    try:
        with RayExecutor() as executor:
            yield executor
    finally:
        if ours:
            ray.shutdown()


@contextlib.contextmanager
def _mpi(rest: str) -> Iterator[Any]:
    if rest:
        raise ValueError(f"executor 'mpi:{rest}': the processes are those of mpiexec; expected 'mpi'")
    with _imported("mpi4py.futures", "mpi4py").MPIPoolExecutor() as executor:
        yield executor


def _imported(module: str, distribution: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"the executor needs {distribution!r}: pip install {distribution!r} ({error})") from error
