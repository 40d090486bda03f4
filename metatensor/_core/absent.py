"""Placeholders for names of PyTorch that metatensor does not implement. They can be imported, but using one raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["function", "functions", "kind", "kinds"]


def function(name: str, why: str, error: type[Exception] = NotImplementedError) -> Callable[..., Any]:
    """Return a function named ``torch.<name>`` that raises `error` with the reason `why`."""

    def raising(*_: Any, **__: Any) -> NoReturn:
        raise error(f"torch.{name}: {why}")

    raising.__name__ = name.rpartition(".")[2]
    raising.__qualname__ = raising.__name__
    raising.__module__ = f"torch.{name.rpartition('.')[0]}".rstrip(".")
    raising.__doc__ = f"Raise {error.__name__}: {why}."
    return raising


def functions(module: str, names: str, why: str, error: type[Exception] = NotImplementedError) -> dict[str, Any]:
    """Return a dict from each of ``names``, a str separated by spaces, to a function made by `function`."""
    return {name: function(f"{module}.{name}".lstrip("."), why, error) for name in names.split()}


def kind(name: str, why: str, *bases: type, error: type[Exception] = NotImplementedError, **members: Any) -> Any:
    """Return a class named ``torch.<name>`` that cannot be instantiated. Its subclasses can."""

    def create(cls: type, *_: Any, **__: Any) -> Any:
        if cls is made:
            raise error(f"torch.{name}: {why}")
        return super(made, cls).__new__(cls)  # type: ignore[misc]

    made: Any = type(name.rpartition(".")[2], bases or (object,), {
        "__new__": create, "__module__": f"torch.{name.rpartition('.')[0]}".rstrip("."), "__doc__": f"{why[:1].upper()}{why[1:]}.",
        **members,
    })  # fmt: skip
    return made


def kinds(module: str, names: str, why: str, *bases: type) -> dict[str, Any]:
    """Return a dict from each of ``names``, a str separated by spaces, to a class made by `kind`."""
    return {name: kind(f"{module}.{name}", why, *bases) for name in names.split()}
