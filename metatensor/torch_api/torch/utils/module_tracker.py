"""Which modules are running."""

from __future__ import annotations

from typing import Any

from metatensor.nn._hooks import register_module_forward_hook, register_module_forward_pre_hook

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """A context manager; inside, `parents` are the dotted paths of the modules that are running, and "Global"."""

    def __init__(self) -> None:
        self.parents: set[str] = {"Global"}
        self._names: dict[int, str] = {}
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """False: there is no backward."""
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
        if id(module) not in self._names:
            root = type(module).__name__
            for path, inner in module.named_modules(prefix=root):
                self._names.setdefault(id(inner), path)
        return self._names[id(module)]

    def _before(self, module: Any, args: Any) -> None:
        self.parents.add(self._name(module))

    def _after(self, module: Any, args: Any, output: Any) -> None:
        self.parents.discard(self._name(module))
