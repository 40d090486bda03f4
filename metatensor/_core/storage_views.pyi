"""Tensors over existing storages, with bounds checks."""

from collections.abc import Sequence

from metatensor._core.dtype import DType
from metatensor._core.storage import Storage
from metatensor._core.tensor import Tensor

def tensor_from_storage(
    storage: Storage, dtype: DType, sizes: Sequence[int], strides: Sequence[int], offset: int = 0
) -> Tensor: ...
