"""metatensor in the place of PyTorch: model code that imports torch runs unmodified, with no PyTorch installed.

    import metatensor.torch_api as torch_api

    torch_api.install()
    import timm  # or any other library or file that imports torch

While it is installed, ``import torch`` and its submodules resolve to metatensor in this process, and
`importlib.metadata` knows a distribution called torch. ``with torch_api.install():`` undoes it at the end.
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType

from metatensor._core.dtype import set_spelling
from metatensor.torch_api import _children
from metatensor.torch_api._finder import TorchFinder
from metatensor.torch_api.torch.torch_version import TORCH_VERSION

__all__ = ["TORCH_VERSION", "Installation", "install", "is_installed", "uninstall"]

_lock = threading.RLock()
_finder = TorchFinder()


class Installation:
    """What `install` returns: a context manager at whose end the installation is undone."""

    def __init__(self, fresh: bool) -> None:
        self._fresh = fresh

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._fresh:
            uninstall()

    def __repr__(self) -> str:
        return f"<metatensor as torch {TORCH_VERSION}, {'installed' if is_installed() else 'uninstalled'}>"


def install() -> Installation:
    """Make ``import torch`` resolve to metatensor in this process; nothing happens where it does already.

    Call it before anything imports torch, and before libraries that look once whether torch is there. A PyTorch
    that is installed is hidden, not touched. Processes started by `multiprocessing` meanwhile call it too, before they import
    the main script. Raises RuntimeError where PyTorch is imported already.
    """
    with _lock:
        if _finder in sys.meta_path:
            return Installation(fresh=False)
        found = sys.modules.get("torch")
        if found is not None:
            raise RuntimeError(
                f"torch_api.install: torch is imported already, from {getattr(found, '__file__', None) or 'an unknown place'}; "
                "call install() before anything imports torch, in a fresh process"
            )
        sys.meta_path.insert(0, _finder)
        _children.prepare()
        set_spelling("torch")
        return Installation(fresh=True)


def uninstall() -> None:
    """Undo `install`: ``import torch`` finds what it found before, a PyTorch or nothing. Harmless where none is installed.

    Modules that imported torch in between keep what they got.
    """
    with _lock:
        if _finder not in sys.meta_path:
            return
        sys.meta_path.remove(_finder)
        for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
            del sys.modules[name]
        set_spelling("metatensor")


def is_installed() -> bool:
    """Whether ``import torch`` resolves to metatensor."""
    return _finder in sys.meta_path
