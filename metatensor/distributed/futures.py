"""Values that come later."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A value that someone sets later. Callbacks run in the thread that sets it, or at once where it is there."""

    def __init__(self, *, devices: Any = None) -> None:
        self._inner: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether a value or an exception was set."""
        return self._inner.done()

    def wait(self) -> T:
        """The value, once it is there; raises the exception if one was set."""
        found: T = self._inner.result()
        return found

    def value(self) -> T:
        """The value. RuntimeError where there is none yet."""
        if not self.done():
            raise RuntimeError("Future.value: not completed yet; use wait()")
        return self.wait()

    def set_result(self, result: T) -> None:
        """Set the value. RuntimeError where one was set."""
        self._set(self._inner.set_result, result)

    def set_exception(self, result: BaseException) -> None:
        """Set an exception for `wait` to raise."""
        if not isinstance(result, Exception):
            raise AssertionError(f"Future.set_exception: expected an exception, got {result!r}")
        self._set(self._inner.set_exception, result)

    def _set(self, setter: Callable[[Any], None], value: Any) -> None:
        try:
            setter(value)
        except concurrent.futures.InvalidStateError:
            raise RuntimeError("Future: completed already; a future can be completed once") from None

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call ``callback(self)`` once the value is there."""
        self._inner.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """A future of what ``callback(self)`` returns, once the value is there."""
        result: Future[Any] = Future()

        def run(_: Any) -> None:
            try:
                value = callback(self)
            except Exception as error:
                result.set_exception(error)
            else:
                result.set_result(value)

        self._inner.add_done_callback(run)
        return result


def collect_all(futures: Iterable[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the list of futures, done when all of them are."""
    given = list(futures)
    result: Future[list[Future[Any]]] = Future()
    left = {"count": len(given)}
    if not given:
        result.set_result(given)
    lock = threading.Lock()

    def one_is_done(_: Any) -> None:
        with lock:
            left["count"] -= 1
            last = left["count"] == 0
        if last:
            result.set_result(given)

    for one in given:
        one.add_done_callback(one_is_done)
    return result


def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """The values of all, once they are there."""
    return [one.wait() for one in collect_all(futures).wait()]
