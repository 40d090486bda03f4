"""Installation of metatensor as torch in child processes, before they import the main script.

`multiprocessing` first sends a child process a dict with instructions for importing the main script. While metatensor
is installed as torch, this dict also holds an object that calls `install` when it is unpickled. The server of the
"forkserver" method imports `metatensor.torch_api._installed` instead of the main script.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

__all__ = ["MODULES", "call_in_children", "find", "prepare"]

MODULES = ("multiprocessing.spawn", "multiprocessing.forkserver")
_calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


def call_in_children(function: Callable[..., Any], *args: Any) -> None:
    """Let child processes call a function after they have installed metatensor as torch. Both must be picklable."""
    _calls.append((function, args))


def _install(calls: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...]) -> bool:
    """Install metatensor as torch in a child process."""
    from metatensor.torch_api import install

    install()
    for function, args in calls:
        function(*args)
    return True


class _Installing:
    """An object that installs metatensor as torch when it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple]:
        return _install, (tuple(_calls),)


def _with_install(module: ModuleType) -> None:
    original = module.get_preparation_data  # type: ignore[attr-defined]
    if hasattr(original, "_metatensor"):
        return

    @wraps(original)
    def get_preparation_data(name: str) -> dict[str, Any]:
        from metatensor.torch_api import is_installed

        data: dict[str, Any] = original(name)
        return {"metatensor": _Installing(), **data} if is_installed() else data

    get_preparation_data._metatensor = True  # type: ignore[attr-defined]
    module.get_preparation_data = get_preparation_data  # type: ignore[attr-defined]


def _with_preload(module: ModuleType) -> None:
    server = module._forkserver  # type: ignore[attr-defined]
    if server._preload_modules == ["__main__"]:
        server.set_forkserver_preload(["metatensor.torch_api._installed"])


def _patch(module: ModuleType) -> None:
    (_with_install if module.__name__ == "multiprocessing.spawn" else _with_preload)(module)


def prepare() -> None:
    """Patch the modules of `multiprocessing` that are already imported. `find` patches the others on import."""
    for name in MODULES:
        if name in sys.modules:
            _patch(sys.modules[name])


class _Loader:
    """A loader that patches a module of `multiprocessing` after loading it."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        _patch(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


def find(name: str, path: Any) -> ModuleSpec | None:
    """Return the spec of one of `MODULES`, with a loader that patches it."""
    spec = PathFinder.find_spec(name, path)
    if spec is not None:
        spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
    return spec
