"""Spec: what the meta kernel of a custom op returns for each result."""
cimport cython


@cython.final
cdef class Spec:
    """The metadata of one result: `shape`, `dtype`, and where they matter `strides` and `device`.

    `strides` (in elements) default to contiguous, `device` to that of the
    tensor arguments.
    """

    def __init__(self, shape, dtype, *, strides=None, device=None):
        self.shape = tuple(shape)
        self.dtype = dtype
        self.strides = None if strides is None else tuple(strides)
        self.device = device

    def __repr__(self):
        return f"Spec(shape={self.shape}, dtype={self.dtype}, strides={self.strides}, device={self.device})"

    def __eq__(self, other):
        if not isinstance(other, Spec):
            return NotImplemented
        return (self.shape, self.dtype, self.strides, self.device) == \
            (other.shape, other.dtype, other.strides, other.device)

    __hash__ = None
