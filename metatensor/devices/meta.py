"""The meta device: tensors with shapes and dtypes but without data. It is built in. All other devices are plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from metatensor.devices.base import DeviceBackend

if TYPE_CHECKING:
    from metatensor import Tensor

__all__ = ["MetaBackend"]


class MetaBackend(DeviceBackend):
    """The meta device. It allocates and computes nothing: a call is complete once the meta kernel has run."""

    type = "meta"

    def allocate(self, nbytes: int, index: int) -> None:
        """Return None: a storage on this device has a size but no data."""

    def copy(self, dst: Tensor, src: Tensor) -> None:
        """Do nothing: neither tensor has data."""

    def from_host(self, tensor: Tensor, data: Any) -> None:
        """Discard the data."""

    def to_host(self, tensor: Tensor) -> NoReturn:
        """Raise `NotImplementedError`: the tensor has no data."""
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
