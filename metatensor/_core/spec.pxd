cdef class Spec:
    cdef readonly object shape, dtype, strides, device
