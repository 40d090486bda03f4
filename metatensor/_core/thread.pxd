"""State that belongs to one thread, and cheap process-wide hints about it."""

# How many modes, trackers and overriding subclasses exist in all threads
# together. Zero means that no thread needs the slow path; the truth for one
# thread stands in its ThreadState.
cdef struct Hints:
    int modes
    int trackers
    int default_devices
    int recorders

cdef Hints hints


cdef class ThreadState:
    cdef bint grad_enabled
    cdef bint inference
    cdef bint overrides_disabled    # __torch_function__ of subclasses is switched off
    cdef int dispatch_disabled      # how many `_DisableTorchDispatch` live
    cdef list modes                 # the mode stack, innermost last
    cdef int level                  # modes[:level] are active here
    cdef object device              # the Device of `with device`, or None
    cdef object tracker             # the innermost MemoryTracker, or None
    cdef object recorder            # the innermost Recorder, or None

cdef ThreadState thread_state()
