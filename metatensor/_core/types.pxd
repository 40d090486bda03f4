"""The C typedefs, limits and enums of metatensor: this file is their only home."""
from libc.stdint cimport int64_t

ctypedef int64_t dim_t

cdef enum:
    INLINE_DIMS = 5     # sizes and strides of tensors up to this rank live in the object
    MAX_DIMS = 72       # of a tensor
    SET_DIMS = 64       # of one whose dimensions an op takes a set of, as in PyTorch
    MAX_ARGS = 32       # slots of one schema

# Values below this are kept for symbolic sizes; no size may reach them.
cdef enum: SYMBOLIC_SHIFT = 62


cdef enum DTypeKind:
    KIND_BOOL = 0
    KIND_INT = 1
    KIND_FLOAT = 2
    KIND_COMPLEX = 3
    KIND_OTHER = 4      # quantised and bit types: no arithmetic


cdef enum TensorFlag:
    T_REQUIRES_GRAD = 1
    T_NONLEAF = 2       # made by an op that recorded a gradient
    T_CONJ = 4
    T_NEG = 8
    T_OVERRIDES = 16    # the class overrides dispatch
    T_CONTIGUOUS = 32   # dense in row-major order; kept in step with sizes and strides
    T_INFERENCE = 64
    T_VIEW = 128        # `base` is set
    T_RETAINS_GRAD = 256
    T_FRESH = 512       # made by `Tensor.__new__`, before `__init__` ran
    T_BUFFER = 1024     # registered in a module at some time
    T_TOGETHER = 4096   # one of several views that an op made of a tensor that requires grad
    T_RETRIED = 2048    # of no tensor: a call that is only tried, see `refuse` in ops/operands


cdef enum MemoryFormat:
    FORMAT_CONTIGUOUS = 0
    FORMAT_PRESERVE = 1
    FORMAT_CHANNELS_LAST = 2
    FORMAT_CHANNELS_LAST_3D = 3
