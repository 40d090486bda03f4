"""The device for code written by PyTorch: that of its module and arguments, whatever device the code names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor

__all__ = ["common_device", "default_device", "same_grad_mode"]


def common_device(tensors: Iterable[Tensor]) -> Any:
    """Return the device of all tensors, or None if they are on several or there are none."""
    found = {t.device for t in tensors}
    return found.pop() if len(found) == 1 else None


@contextmanager
def default_device(device: Any) -> Iterator[None]:
    """Return a context in which tensors are created on a device, unless it is None."""
    if device is None:
        yield
    else:
        with device:
            yield


@contextmanager
def same_grad_mode() -> Iterator[None]:
    """Return a context that restores the grad mode, which the code may set."""
    before = mt.is_grad_enabled()
    try:
        yield
    finally:
        mt.set_grad_enabled(before)
