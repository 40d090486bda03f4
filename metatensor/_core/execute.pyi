"""The steps of a call after its meta kernel."""

from metatensor._core.tensor import Tensor

def mark_output(tensor: Tensor) -> Tensor: ...
