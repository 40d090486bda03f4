"""Conversion of Python values to tensors, for other families."""
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.tensor cimport Tensor

cdef Tensor tensor_of(object data, DType dtype, Device device)
