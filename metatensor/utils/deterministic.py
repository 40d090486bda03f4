"""The setting `fill_uninitialized_memory`: whether `empty` and `resize_` fill new memory in deterministic mode."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from metatensor.devices import basics

__all__ = ["fill_uninitialized_memory"]

fill_uninitialized_memory: bool


class _Module(ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether deterministic mode fills new memory with NaN, or with the largest integer. Default: True."""
        return basics.settings["fill"]

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, value: Any) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"fill_uninitialized_memory: expected a bool, got {type(value).__name__}")
        basics.settings["fill"] = value


sys.modules[__name__].__class__ = _Module
