"""The per-thread stack of active recorders."""


cdef class Recorder:
    """A context manager under which tensors hold no data. See `metatensor.deferred` and `metatensor.deferred.fake`."""
    cdef readonly bint everything       # record all calls, or else only those that make small constants
