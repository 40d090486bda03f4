"""The meta device: shapes and dtypes without data. The one backend that needs no plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from metatensor.devices.base import DeviceBackend

if TYPE_CHECKING:
    from metatensor import Tensor

__all__ = ["MetaBackend"]


class MetaBackend(DeviceBackend):
    """Allocates nothing and computes nothing: the dispatcher is done when the meta kernel is."""

    type = "meta"

    def allocate(self, nbytes: int, index: int) -> None:
        """No memory: the storage knows its size and holds no data."""

    def copy(self, dst: Tensor, src: Tensor) -> None:
        """Nothing to copy: both have no data."""

    def from_host(self, tensor: Tensor, data: Any) -> None:
        """Forget the data."""

    def to_host(self, tensor: Tensor) -> NoReturn:
        """Raise `NotImplementedError`: there is nothing to read."""
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
