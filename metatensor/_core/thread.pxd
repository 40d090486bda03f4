"""Per-thread state, and process-wide hints that avoid looking it up."""

# Counts over all threads. Zero means that no thread needs the slow path. If a
# count is not zero, the ThreadState of a thread decides.
cdef struct Hints:
    int modes
    int trackers
    int default_devices
    int recorders
    int saved_hooks     # number of active `saved_tensors_hooks`
    int anomaly         # anomaly mode, of all threads: see `set_anomaly`
    int duals           # number of active forward-mode levels
    int policies        # number of `push_policy` in effect
    int constants       # number of blocks and threads in which small constants on meta keep their values

cdef Hints hints


cdef class ThreadState:
    cdef bint grad_enabled
    cdef bint inference
    cdef bint overrides_disabled    # __torch_function__ of subclasses is disabled
    cdef int dispatch_disabled      # number of `_DisableTorchDispatch` objects in effect
    cdef list modes                 # the mode stack, innermost last
    cdef int level                  # modes[:level] are active
    cdef object device              # the Device set by `with device` or `set_default_device`, or None
    cdef object tracker             # the Scope of the active memory trackers, or None
    cdef long long operators        # how many operators have run while a memory tracker was active
    cdef list held                  # what the operators of a gradient's formula made, or None; see accounting
    cdef object attribution         # the Attribution that notes where operators are called, or None
    cdef int constants              # number of `keep_constants` in effect
    cdef object recorder            # the innermost Recorder, or None
    cdef object policy              # the kernel policy that was chosen, or None
    cdef list outer_policies        # those that it replaces, the innermost last, or None
    cdef object walk                # the backward pass that is running, or None
    cdef unsigned long long dual_limit      # tangents of levels from this number on are ignored
    cdef list saved_hooks           # pairs of hooks for saved tensors, the innermost last, or None

cdef ThreadState thread_state()
cdef tuple innermost_hooks(ThreadState state)
