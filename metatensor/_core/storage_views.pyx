"""Tensors over existing storages, with bounds checks."""
from metatensor._core.dtype cimport DType
from metatensor._core.layout cimport Layout, add_dims, extent, mul_dims
from metatensor._core.storage cimport Storage
from metatensor._core.tensor cimport over_storage
from metatensor._core.types cimport MAX_DIMS, dim_t


def tensor_from_storage(storage, dtype, sizes, strides, offset=0):
    """Return a tensor over an existing storage.

    Parameters
    ----------
    storage : Storage
        The storage.
    dtype : dtype
        The dtype of the elements.
    sizes, strides : sequence of int
        The shape and the strides, in elements.
    offset : int
        The position of the first element in the storage, in elements. Default 0.

    Raises
    ------
    RuntimeError
        If the layout does not fit in the storage, or if a size or stride is negative.
    TypeError
        If `storage` or `dtype` has another type.
    """
    cdef Layout lay
    cdef int i = 0
    cdef Storage s
    cdef DType d
    if not isinstance(storage, Storage) or not isinstance(dtype, DType):
        raise TypeError("tensor_from_storage: expected a storage and a dtype")
    s = <Storage>storage
    sizes, strides = list(sizes), list(strides)
    d = <DType>dtype
    if len(sizes) != len(strides) or len(sizes) > MAX_DIMS:
        raise RuntimeError(f"tensor_from_storage: sizes {tuple(sizes)} and strides {tuple(strides)} do not match")
    for size, stride in zip(sizes, strides):
        lay.sizes[i] = size
        lay.strides[i] = stride
        if lay.sizes[i] < 0 or lay.strides[i] < 0:
            raise RuntimeError("tensor_from_storage: negative sizes or strides are not supported")
        i += 1
    lay.ndim = i
    lay.offset = offset
    check_bounds(s, d, &lay, "tensor_from_storage")
    return over_storage(s, d, lay.ndim, lay.sizes, lay.strides, lay.offset)


cdef int check_bounds(Storage s, DType d, Layout* lay, str op) except -1:
    """Raise RuntimeError if a layout does not fit in the storage."""
    cdef dim_t need
    if lay.offset < 0:
        raise RuntimeError(f"{op}(): negative storage offset {lay.offset}")
    need = extent(lay.ndim, lay.sizes, lay.strides)
    if need:
        need = mul_dims(add_dims(need, lay.offset), d.itemsize)
    if need > s.size_bytes:
        raise RuntimeError(f"{op}(): the layout needs {need} bytes, but the storage has {s.size_bytes}")
    return 0
