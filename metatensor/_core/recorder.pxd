"""The per-thread stack of active recorders."""


cdef class Recorder:
    """A context manager under which tensors hold no data. See `metatensor.deferred` and `metatensor.deferred.fake`."""
    cdef readonly bint everything       # whether to record all calls; if False, only those that make small constants
