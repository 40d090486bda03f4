"""Helpers for ops that create tensors: reading their options, and allocating results."""
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport dim_t

# The options are consecutive slots of a schema, in the following order. `first` is the slot of the dtype.
# "dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=None, bool requires_grad=False"
cdef enum Option:
    O_DTYPE, O_LAYOUT, O_DEVICE, O_PIN, O_GRAD, O_FORMAT

cdef DType option_dtype(Call* c, int first, DType default)
cdef int read_sizes(Call* c, int slot, dim_t* sizes) except -1
cdef Tensor with_options(Call* c, int first, Tensor t)
cdef Tensor make_like(Call* c, Tensor like, DType dtype, Device device, int memory_format)
# make_like and fresh_like return a new tensor with the sizes of `like`. fresh_like computes strides as empty_like does.
# make_like also keeps the strides of tensors without elements, as clone does.
cdef Tensor fresh_like(Tensor like, DType dtype, Device device)
cdef int format_arg(Call* c, int slot, int default) except -1
# Return whether a number can be stored in a dtype. check_fill raises if it cannot.
cdef bint holds(DType d, object value) except -1
cdef bint has_infinity(DType d) noexcept
cdef int check_fill(Call* c, DType dtype, object value) except -1
