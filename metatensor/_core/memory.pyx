"""Trackers of the memory of storages.

While a tracker is active in a thread, each new storage of the thread owns a `Life`, which `born` creates. It notifies
the tracker when the storage is resized or freed. Without an active tracker, new storages have no `Life`.
"""
cimport cython
from metatensor._core.slots cimport forbid_new
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport dim_t


@cython.binding(False)
cdef class MemoryTracker:
    """A context manager that counts the bytes of the storages that this thread creates inside it.

    A storage counts once, however many tensors share it. It counts from its creation until it is freed, even if that
    happens after the block. Storages that existed before the block do not count. An operator that works in place or with
    ``out=`` creates no storage for its result. Trackers may be nested. A storage counts in each of them.

    Attributes
    ----------
    current : int
        The bytes of storages that have not been freed.
    peak : int
        The greatest value of `current` since the tracker was created, or since `reset_peak`.
    count : int
        The number of storages that were created.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.analysis.MemoryTracker() as memory:
    ...     a = mt.empty(1000, device="meta")
    ...     b = a + a
    ...     del a
    >>> memory.current, memory.peak, memory.count
    (4000, 8000, 2)
    """

    def __enter__(self):
        cdef ThreadState state = thread_state()
        if self.entered:
            raise RuntimeError("MemoryTracker: this tracker is active already")
        self.entered = True
        self.outer = <MemoryTracker>state.tracker
        state.tracker = self
        hints.trackers += 1
        return self

    def __exit__(self, *exc):
        cdef ThreadState state = thread_state()
        if state.tracker is not self:
            raise RuntimeError("MemoryTracker: trackers must be left in the order in which they were entered")
        state.tracker = self.outer
        self.outer = None
        self.entered = False
        hints.trackers -= 1

    def reset_peak(self):
        """Set `peak` to `current`."""
        self.peak = self.current

    cdef int happened(self, Life life, dim_t change) noexcept:
        """Record that storages now have `change` more bytes, or fewer if it is negative."""
        self.current += change
        if self.current > self.peak:
            self.peak = self.current
        return 0


@cython.final
@cython.binding(False)
@cython.no_gc
@cython.freelist(256)
cdef class Life:
    """Notifies one tracker of changes of one storage. The storage owns it, so both are freed together."""

    def __dealloc__(self):
        if self.tracker is not None:
            self.tracker.happened(self, -self.nbytes)

    cdef int resize(self, dim_t nbytes) except -1:
        cdef Life life = self
        cdef dim_t change
        while life is not None:
            change = nbytes - life.nbytes
            life.nbytes = nbytes
            life.tracker.happened(life, change)
            life = life.next
        return 0


forbid_new(Life)


cdef Life born(dim_t nbytes):
    """Notify the trackers of this thread of a new storage. Return the `Life` that the storage must own, or None."""
    cdef MemoryTracker tracker = <MemoryTracker>thread_state().tracker
    cdef Life life, first = None
    while tracker is not None:
        life = Life.__new__(Life)
        life.tracker = tracker
        life.nbytes = nbytes
        life.next = first
        first = life
        tracker.count += 1
        tracker.happened(life, nbytes)
        tracker = tracker.outer
    return first


cdef MemoryTracker pause_tracking():
    """Deactivate the trackers of this thread. Pass the result to `resume_tracking` to activate them again."""
    cdef ThreadState state = thread_state()
    cdef MemoryTracker tracker = <MemoryTracker>state.tracker
    state.tracker = None
    return tracker


cdef int resume_tracking(MemoryTracker tracker) except -1:
    thread_state().tracker = tracker
    return 0
