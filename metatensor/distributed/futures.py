"""Futures: values that become available later."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A value that is set later, possibly by another thread.

    Callbacks run in the thread that sets the value, or immediately if it is set already.
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._inner: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._ask: Callable[[bool], None] | None = None

    @staticmethod
    def _of_work(work: Any) -> Future[Any]:
        """Return a future for ``work.result()``. No thread watches the work: `done` and `wait` ask it."""
        made: Future[Any] = Future()

        def ask(block: bool) -> None:
            if made._inner.done() or not (block or work.is_completed()):
                return
            try:
                work.wait()
            except Exception as error:
                made.set_exception(error)
            else:
                made.set_result(work.result())

        made._ask = ask
        ask(False)
        return made

    def _advance(self, block: bool) -> None:
        """Check whether the work that this future depends on is done. If ``block`` is true, wait for it."""
        if self._ask is not None and not self._inner.done():
            self._ask(block)

    def done(self) -> bool:
        """Return True if a value or an exception has been set."""
        self._advance(False)
        return self._inner.done()

    def wait(self) -> T:
        """Wait for the value and return it, or raise the exception that was set."""
        self._advance(True)
        found: T = self._inner.result()
        return found

    def value(self) -> T:
        """Return the value. Raise RuntimeError if it is not set yet."""
        if not self.done():
            raise RuntimeError("Future.value: not completed yet; use wait()")
        return self.wait()

    def set_result(self, result: T) -> None:
        """Set the value. Raise RuntimeError if the future is completed already."""
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
        """Call ``callback(self)`` once the future is completed."""
        self._inner.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """Return a future for the result of ``callback(self)``, which is called once this future is completed."""
        result: Future[Any] = Future()
        result._ask = self._advance

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
    """Return a future whose value is the list of all futures. It is completed when all of them are."""
    given = list(futures)
    result: Future[list[Future[Any]]] = Future()
    left = {"count": len(given)}
    if not given:
        result.set_result(given)

    def ask(block: bool) -> None:
        for one in given:
            one._advance(block)

    result._ask = ask
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
    """Wait for all futures and return their values."""
    return [one.wait() for one in collect_all(futures).wait()]
