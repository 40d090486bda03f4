"""Running kernels on devices with data."""

from metatensor._core.tensor import Tensor

def mark_output(tensor: Tensor) -> Tensor: ...
