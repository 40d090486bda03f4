"""Handles of operations: `Work`, which is done, and `PendingWork`, which waits for a communicator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

__all__ = ["PendingWork", "Work", "seconds_of"]


def seconds_of(timeout: Any) -> float | None:
    """Return a timeout in seconds, given as a timedelta or a number. None, and a timedelta of 0, mean no limit."""
    if timeout is None:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    return seconds if seconds > 0 else None


class Work:
    """A collective operation that has completed. Communicators derive the handles of running operations from it.

    A subclass overrides `wait` and `is_completed`.
    """

    def __init__(self, result: Any = None) -> None:
        self._result = result

    def wait(self, timeout: Any = None) -> bool:
        """Wait until the operation has completed. Return True.

        Raise the error of the operation if it failed, also if it exceeded ``timeout`` (a timedelta) or the group's own.
        """
        return True

    def synchronize(self) -> None:
        """Wait until the operation has completed."""
        self.wait()

    def is_completed(self) -> bool:
        """Return True if the operation has completed."""
        return True

    def is_success(self) -> bool:
        """Return True if the operation has completed without an error."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """Return the error of an operation that failed, or None."""
        return None

    def result(self) -> Any:
        """Return the tensors of the collective."""
        return self._result

    def get_future(self) -> Any:
        """Return a future that holds the tensors. Waiting for it waits for the operation."""
        from metatensor.distributed.futures import Future

        return Future._of_work(self)


class PendingWork(Work):
    """The operations ``parts`` of a communicator, and what is to be done once all of them have completed.

    Parameters
    ----------
    parts : sequence of Work
        The handles that the communicator returned.
    finish : callable, optional
        Called once, without arguments, after all parts: it moves results to where the caller wants them.
    result : object
        What `result` returns.
    """

    def __init__(self, parts: Sequence[Work], finish: Callable[[], Any] | None = None, result: Any = None) -> None:
        super().__init__(result)
        self._parts, self._finish = list(parts), finish
        self._error: BaseException | None = None

    def wait(self, timeout: Any = None) -> bool:
        if self._error is not None:
            raise self._error
        try:
            while self._parts:
                self._parts[0].wait(timeout)
                del self._parts[0]
        except Exception as error:
            self._error = error
            raise
        self._complete()
        return True

    def is_completed(self) -> bool:
        if self._error is not None:
            return True
        while self._parts:
            try:
                if not self._parts[0].is_completed():
                    return False
                self._parts[0].wait()
            except Exception as error:
                self._error = error
                return True
            del self._parts[0]
        self._complete()
        return True

    def exception(self) -> BaseException | None:
        return self._error

    def _complete(self) -> None:
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
