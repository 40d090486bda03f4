"""Context managers that can also be used as decorators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["ClassPropertyDescriptor", "context_decorator"]


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `func` inside a context manager.

    `ctx` is a context manager, or a function that returns a new one for each call. A generator function enters a
    context each time it resumes, and leaves it at each yield.
    """
    make = ctx if callable(ctx) and not hasattr(ctx, "__enter__") else lambda: ctx
    if inspect.isgeneratorfunction(func):

        @functools.wraps(func)
        def generate(*args: Any, **kwargs: Any) -> Any:
            generator = func(*args, **kwargs)
            value = None
            while True:
                try:
                    with make():
                        produced = generator.send(value)
                except StopIteration as stop:
                    return stop.value
                value = yield produced

        return generate

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return wrapped


class _DecoratorContextManager:
    """Base class of context managers whose instances are decorators.

    Each call of a decorated function uses a new `clone`.
    """

    def __call__(self, orig_func: Any) -> Any:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *error: Any) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """Return a new context manager with the same settings."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """Base class of context managers without parameters. The class itself is a decorator."""

    def __new__(cls, orig_func: Any = None) -> Any:
        return super().__new__(cls) if orig_func is None else cls()(orig_func)


class ClassPropertyDescriptor:
    """A read-only property of a class."""

    def __init__(self, fget: Callable[..., Any]) -> None:
        self.fget = fget

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.fget(owner if owner is not None else type(instance))
