"""Spec, the description of a result that meta functions return."""
cimport cython


@cython.final
cdef class Spec:
    """The metadata of one result of an op. Meta functions of custom ops return it.

    Parameters
    ----------
    shape : iterable of int
        The shape.
    dtype : dtype
        The dtype.
    strides : iterable of int, optional
        The strides in elements. Default: contiguous.
    device : device, optional
        The device. Default: the device of the call.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.Spec((2, 3), mt.float32).shape
    (2, 3)
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
