"""Modules that import their submodules and attributes on first access."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in typing, which would take longer to import than the rest of metatensor's Python
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

__all__ = ["attributes"]


def attributes(
    module: str, submodules: Iterable[str] = (), others: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a module that imports lazily.

    Parameters
    ----------
    module : str
        The name of the module.
    submodules : iterable of str
        Names of its submodules.
    others : mapping of str to str, optional
        Other names. The value is the name of a module, or ``"module:attribute"``.
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
