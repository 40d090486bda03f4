"""C typedefs, limits and enums."""
from libc.stdint cimport int64_t

ctypedef int64_t dim_t

cdef enum:
    INLINE_DIMS = 5     # sizes and strides of tensors up to this rank are stored in the object
    MAX_DIMS = 72       # maximal rank of a tensor
    SET_DIMS = 64       # maximal rank for ops that take a set of dimensions, as in PyTorch
    MAX_ARGS = 32       # maximal number of arguments of a schema


cdef enum DTypeKind:
    KIND_BOOL = 0
    KIND_INT = 1
    KIND_FLOAT = 2
    KIND_COMPLEX = 3
    KIND_OTHER = 4      # quantized and bit dtypes, which have no arithmetic


cdef enum TensorFlag:
    T_REQUIRES_GRAD = 1
    T_NONLEAF = 2       # the result of an op with a gradient
    T_CONJ = 4
    T_NEG = 8
    T_OVERRIDES = 16    # the class overrides dispatch
    T_CONTIGUOUS = 32   # row-major contiguous; updated with sizes and strides
    T_INFERENCE = 64
    T_VIEW = 128        # `base` is set
    T_RETAINS_GRAD = 256
    T_FRESH = 512       # created by `Tensor.__new__`; `__init__` has not run yet
    T_BUFFER = 1024     # has been registered as a buffer of a module
    T_MULTI_VIEW = 4096  # one of several views that one op returned for a tensor that requires grad
    T_FIXED_VIEW = 8192  # a view that was created while gradients were not recorded, or by an autograd.Function
    T_DUAL = 16384      # has tangents; see forward.pyx
    T_CONSTANT = 32768  # may have values that follow from constants; see constants.pyx
    T_SAVED = 65536     # a node has saved it, or a view of it
    T_DISTRIBUTED = 1 << 17  # a DistributedTensor, of which this process holds a part; see sharded.pyx
    T_RETRIED = 2048    # a flag of calls, not of tensors: `refuse` in ops/operands repeats the call with another dtype


cdef enum MemoryFormat:
    FORMAT_CONTIGUOUS = 0
    FORMAT_PRESERVE = 1
    FORMAT_CHANNELS_LAST = 2
    FORMAT_CHANNELS_LAST_3D = 3
