"""Tracking of the modules that are running."""

from __future__ import annotations

import weakref
from typing import Any

from metatensor.nn._hooks import register_module_forward_hook, register_module_forward_pre_hook

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Context manager that tracks which modules are running.

    `parents` is a set that contains "Global" and the dotted path of each running module. A path starts with the class
    name of the outermost module.
    """

    def __init__(self) -> None:
        self.parents: set[str] = {"Global"}
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """False, because there is no backward pass."""
        return False

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        return self

    def __exit__(self, *_: Any) -> None:
        for handle in self._handles:
            handle.remove()
        self.parents = {"Global"}

    def _name(self, module: Any) -> str:
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._seen:
            for child, below in module.named_children():
                self._names[below] = f"{name}.{child}"
                self._name(below)
            self._seen.add(module)
        return name

    def _before(self, module: Any, args: Any) -> None:
        self.parents.add(self._name(module))

    def _after(self, module: Any, args: Any, output: Any) -> None:
        self.parents.discard(self._name(module))
