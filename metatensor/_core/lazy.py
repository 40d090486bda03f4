"""Modules whose submodules and attributes are loaded when they are first named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["attributes"]


def attributes(
    module: str, submodules: Iterable[str] = (), others: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for the module called ``module``.

    ``submodules`` are modules below it; ``others`` maps a name to the module it is, or to ``"module:attribute"``.
    Any other name is an AttributeError.
    """
    places = {name: f"{module}.{name}" for name in submodules} | dict(others or {})
    public = module.partition("torch_api.")[2] or module
    note = " (metatensor stands in the place of PyTorch)" if public != module else ""

    def find(name: str) -> Any:
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {public!r} has no attribute {name!r}{note}")
        where, _, attribute = place.partition(":")
        found: Any = import_module(where)
        if attribute:
            found = getattr(found, attribute)
        vars(_module())[name] = found
        return found

    def names() -> list[str]:
        return sorted({*vars(_module()), *places})

    def _module() -> Any:
        return import_module(module)

    return find, names
