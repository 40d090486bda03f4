"""Names that can be imported, subclassed and asked about, but mean nothing without PyTorch: they raise when they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["function", "functions", "kind", "kinds"]


def function(name: str, why: str, error: type[Exception] = NotImplementedError) -> Callable[..., Any]:
    """A function called ``torch.<name>`` that raises and says why."""

    def raising(*_: Any, **__: Any) -> NoReturn:
        raise error(f"torch.{name}: {why}")

    raising.__name__ = name.rpartition(".")[2]
    raising.__qualname__ = raising.__name__
    raising.__module__ = f"torch.{name.rpartition('.')[0]}".rstrip(".")
    raising.__doc__ = f"{error.__name__}: {why}."
    return raising


def functions(module: str, names: str, why: str, error: type[Exception] = NotImplementedError) -> dict[str, Any]:
    """Several of them, for a module's namespace: ``names`` are separated by spaces."""
    return {name: function(f"{module}.{name}".lstrip("."), why, error) for name in names.split()}


def kind(name: str, why: str, *bases: type, error: type[Exception] = NotImplementedError, **members: Any) -> Any:
    """A class called ``torch.<name>`` of which there are no instances: making one raises; its subclasses may make theirs."""

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
    """Several of them, for a module's namespace: ``names`` are separated by spaces."""
    return {name: kind(f"{module}.{name}", why, *bases) for name in names.split()}
