"""Python's `multiprocessing`, with `spawn`.

Tensors are pickled by value, except those whose memory is shared (`share_memory_`).
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from typing import Any

from metatensor._core.lazy import attributes

__all__ = [
    *multiprocessing.__all__, "ProcessContext", "ProcessExitedException", "ProcessRaisedException", "SpawnContext",
    "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip

__getattr__, __dir__ = attributes(__name__, ("reductions",))

_strategies = {"file_descriptor", "file_system"}
_strategy = "file_descriptor" if sys.platform.startswith("linux") else "file_system"


def get_all_sharing_strategies() -> set[str]:
    """Return the names of PyTorch's strategies for sharing tensors."""
    return set(_strategies)


def get_sharing_strategy() -> str:
    """Return the strategy set by `set_sharing_strategy`."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Store the strategy. It has no effect, because tensors are pickled by value."""
    global _strategy
    if new_strategy not in _strategies:
        raise AssertionError(f"set_sharing_strategy: expected one of {sorted(_strategies)}, got {new_strategy!r}")
    _strategy = new_strategy


# Starting processes ---------------------------------------------------------------------------------------------------


class ProcessException(Exception):
    """Base class of errors for failed processes."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid


class ProcessRaisedException(ProcessException):
    """A process raised an exception. The message contains its traceback."""


class ProcessExitedException(ProcessException):
    """A process exited with a nonzero code or was killed by a signal."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], failed: Any) -> None:
    """Call the function in a child process, and send the traceback of an exception to the parent."""
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        failed.send(traceback.format_exc())
        failed.close()
        sys.exit(1)


class ProcessContext:
    """A group of processes that were started together."""

    def __init__(self, processes: list[Any], failures: list[Any]) -> None:
        self.processes, self._failures = processes, failures
        self._left = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int | None]:
        """Return the process ids."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until at least one more process ends, and return whether all have ended.

        If a process failed, stop the others and raise.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait. Default: no limit.
        grace_period : float, optional
            Seconds that the other processes have to terminate before they are killed. Default: 30.

        Raises
        ------
        ProcessRaisedException
            If a process raised an exception.
        ProcessExitedException
            If a process exited with a nonzero code or was killed by a signal.
        """
        for sentinel in multiprocessing.connection.wait(list(self._left), timeout=timeout):
            index = self._left.pop(sentinel)  # type: ignore[call-overload]
            process = self.processes[index]
            process.join()
            if process.exitcode != 0:
                self._stop(grace_period)
                self._raise(index)
        return not self._left

    def _stop(self, grace_period: float | None) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(grace_period if grace_period is not None else 30)
            if process.is_alive():
                process.kill()
                process.join()

    def _raise(self, index: int) -> None:
        process, failure = self.processes[index], self._failures[index]
        try:
            text = failure.recv() if failure.poll() else None
        except EOFError:
            text = None
        if text is not None:
            raise ProcessRaisedException(f"process {index} raised:\n\n{text}", index, process.pid)
        if process.exitcode < 0:
            name = signal.Signals(-process.exitcode).name
            raise ProcessExitedException(
                f"process {index} was ended by signal {name}", index, process.pid, process.exitcode, name
            )
        raise ProcessExitedException(f"process {index} exited with code {process.exitcode}", index, process.pid, process.exitcode)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Call ``fn(i, *args)`` in `nprocs` processes, with i = 0, 1, ...

    Parameters
    ----------
    fn : callable
    args : tuple
    nprocs : int
    join : bool
        If True, wait for all processes, and raise if one fails. If False, return a `ProcessContext` immediately.
        Default: True.
    daemon : bool
        Whether the processes are daemonic. Default: False.
    start_method : str
        Start method of `multiprocessing`. Default: "spawn".
    """
    context = multiprocessing.get_context(start_method)
    processes, failures = [], []
    for index in range(nprocs):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, index, args, sender), daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        sender.close()
        processes.append(process)
        failures.append(receiver)
    started = ProcessContext(processes, failures)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Call ``fn(i, *args)`` in `nprocs` new processes. See `start_processes`.

    While metatensor is installed as torch, the new processes install it as well before they import the main script.
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)

