"""What the storages of a program weigh: an event for each birth, resize and death of a storage.

`new_storage` asks `born` for a `Life` while a tracker is active in its thread; the storage owns it. The life tells its
tracker when the storage is resized, and when it is freed. Without a tracker nothing is asked and storages own nothing.
"""
cimport cython
from metatensor._core.slots cimport forbid_new
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport dim_t


@cython.binding(False)
cdef class MemoryTracker:
    """A context manager that counts the bytes of the storages that this thread makes inside it, while they live.

    A storage counts once, however many tensors share it, from its creation until it is freed, also after the block. Storages
    that existed before do not count. An operator that works in place or with ``out=`` makes no storage for its result.
    Trackers may be nested: a storage counts in each of them.

    Attributes
    ----------
    current : int
        The bytes that are alive.
    peak : int
        The greatest value of `current` since the tracker was made, or since `reset_peak`.
    count : int
        How many storages were made.

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
        """Note one event: a birth or growth if `change` is positive, else a death or a loss of size."""
        self.current += change
        if self.current > self.peak:
            self.peak = self.current
        return 0


@cython.final
@cython.binding(False)
@cython.no_gc
@cython.freelist(256)
cdef class Life:
    """The life of one storage in one tracker. The storage owns it, so it ends with the storage."""

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
    """Tell the trackers of this thread that there is a new storage. Return what the storage must own, or None."""
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
    """Let this thread's trackers overlook what happens until `resume_tracking`, which needs what this returns."""
    cdef ThreadState state = thread_state()
    cdef MemoryTracker tracker = <MemoryTracker>state.tracker
    state.tracker = None
    return tracker


cdef int resume_tracking(MemoryTracker tracker) except -1:
    thread_state().tracker = tracker
    return 0
