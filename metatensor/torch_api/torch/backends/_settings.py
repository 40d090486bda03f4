"""Contexts in which the settings of a module are others."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any

__all__ = ["Precision", "changed", "replace"]


class Precision:
    """How float32 is computed by one kind of operator: kept as ``fp32_precision``."""

    def __init__(self, fp32_precision: str = "none", **others: Any) -> None:
        self.fp32_precision = fp32_precision
        vars(self).update(others)


def replace(module: str, **values: Any) -> dict[str, Any]:
    """Set attributes of a module, leaving those that are None, and return what they were."""
    place = vars(sys.modules[module])
    given = {name: value for name, value in values.items() if value is not None}
    before = {name: place[name] for name in given}
    place.update(given)
    return before


@contextmanager
def changed(module: str, **values: Any) -> Any:
    """A context in which attributes of a module have other values."""
    before = replace(module, **values)
    try:
        yield
    finally:
        vars(sys.modules[module]).update(before)
