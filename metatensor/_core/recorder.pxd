"""Whether a thread makes tensors without data."""


cdef class Recorder:
    """What a thread does with values while it is entered; see `metatensor.deferred` and `metatensor.deferred.fake`."""
    cdef readonly bint everything       # record whatever happens; else only small constants
