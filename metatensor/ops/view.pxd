"""Changes of layout that views and indexing share, and reshape for other families."""
from metatensor._core.layout cimport Layout, copy_dims
from metatensor._core.tensor cimport Tensor, new_view
from metatensor._core.thread cimport hints
from metatensor._core.types cimport T_DISTRIBUTED, T_OVERRIDES, T_REQUIRES_GRAD, dim_t


cdef inline bint is_plain(Tensor t) noexcept:
    """Return whether a view of `t` can be made from a layout alone, without calling an op.

    It can unless a mode or a subclass would handle the call, `t` requires grad, or there are tangents.
    """
    return not hints.modes and not hints.duals and not t.flags & (T_DISTRIBUTED | T_OVERRIDES | T_REQUIRES_GRAD)


cdef inline void read_layout(Tensor t, Layout* lay) noexcept:
    """Copy the layout of a tensor into `lay`, to be changed step by step."""
    lay.ndim = t.ndim
    lay.offset = t.offset
    copy_dims(lay.sizes, t.sizes, t.ndim)
    copy_dims(lay.strides, t.strides, t.ndim)


cdef inline Tensor view_of(Tensor t, Layout* lay):
    return new_view(t, lay.ndim, lay.sizes, lay.strides, lay.offset)


cdef inline void drop_dim(Layout* lay, int d) noexcept:
    """Remove dimension `d`."""
    cdef int i
    lay.ndim -= 1
    for i in range(d, lay.ndim):
        lay.sizes[i] = lay.sizes[i + 1]
        lay.strides[i] = lay.strides[i + 1]


cdef int insert_dim(Layout* lay, int d) except -1
cdef int slice_dim(Layout* lay, int d, dim_t start, dim_t stop, dim_t step) except -1
cdef Tensor reshape_to(Tensor t, int ndim, const dim_t* sizes)
cdef object dims_tuple(int n, const dim_t* dims)
