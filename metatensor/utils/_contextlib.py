"""Context managers that are decorators, too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["ClassPropertyDescriptor", "context_decorator"]


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """``func`` inside ``ctx``, a context manager or what makes one; a generator is inside while it runs."""
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
    """A context manager whose instances decorate functions; each call has a fresh one, from `clone`."""

    def __call__(self, orig_func: Any) -> Any:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *error: Any) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """Another one like it."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One without arguments: the class itself may decorate."""

    def __new__(cls, orig_func: Any = None) -> Any:
        return super().__new__(cls) if orig_func is None else cls()(orig_func)


class ClassPropertyDescriptor:
    """A property of a class."""

    def __init__(self, fget: Callable[..., Any]) -> None:
        self.fget = fget

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.fget(owner if owner is not None else type(instance))
