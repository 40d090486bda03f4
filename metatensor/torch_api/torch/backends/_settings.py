"""Context managers that change settings stored as attributes of a module."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any

__all__ = ["Precision", "changed", "replace"]


class Precision:
    """The precision of float32 computations for one kind of operator, stored as ``fp32_precision``."""

    def __init__(self, fp32_precision: str = "none", **others: Any) -> None:
        self.fp32_precision = fp32_precision
        vars(self).update(others)


def replace(module: str, **values: Any) -> dict[str, Any]:
    """Set attributes of a module, except those whose value is None. Return their previous values."""
    place = vars(sys.modules[module])
    given = {name: value for name, value in values.items() if value is not None}
    before = {name: place[name] for name in given}
    place.update(given)
    return before


@contextmanager
def changed(module: str, **values: Any) -> Any:
    """Return a context manager that sets attributes of a module and restores them on exit. See `replace`."""
    before = replace(module, **values)
    try:
        yield
    finally:
        vars(sys.modules[module]).update(before)
