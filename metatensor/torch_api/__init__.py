"""Run code written for PyTorch on metatensor, without PyTorch installed.

    import metatensor.torch_api as torch_api

    torch_api.install()
    import timm  # or any other library or file that imports torch

After `install`, ``import torch`` and its submodules resolve to metatensor in this process, and `importlib.metadata`
finds a distribution called torch. ``with torch_api.install():`` undoes this at the end of the block.
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
    """The result of `install`: a context manager that calls `uninstall` on exit.

    It does nothing on exit if metatensor was already installed as torch.
    """

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
    """Make ``import torch`` resolve to metatensor in this process.

    Call it before anything imports torch, and before importing libraries that check only once whether torch is
    available. An installed PyTorch is hidden while metatensor replaces it, and its files are not changed. Processes
    started through `multiprocessing` in the meantime call `install` before they import the main script. A second call
    has no effect.

    Returns
    -------
    Installation
        Context manager that undoes the installation.

    Raises
    ------
    RuntimeError
        If PyTorch is already imported.

    Examples
    --------
    >>> from metatensor import torch_api
    >>> with torch_api.install():
    ...     import torch
    ...     print(torch.empty(2, 3, device="meta").shape)
    torch.Size([2, 3])
    """
    with _lock:
        if _finder in sys.meta_path:
            return Installation(fresh=False)
        found = sys.modules.get("torch")
        if found is not None:
            raise RuntimeError(
                f"torch_api.install: torch is already imported, from {getattr(found, '__file__', None) or 'an unknown place'}; "
                "call install() before anything imports torch, in a fresh process"
            )
        sys.meta_path.insert(0, _finder)
        _children.prepare()
        set_spelling("torch")
        return Installation(fresh=True)


def uninstall() -> None:
    """Undo `install`, so that ``import torch`` finds PyTorch again if it is installed.

    Modules that imported torch in the meantime keep their references to metatensor. Without a previous `install` this
    does nothing.
    """
    with _lock:
        if _finder not in sys.meta_path:
            return
        sys.meta_path.remove(_finder)
        for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
            del sys.modules[name]
        set_spelling("metatensor")


def is_installed() -> bool:
    """Return whether ``import torch`` resolves to metatensor."""
    return _finder in sys.meta_path
