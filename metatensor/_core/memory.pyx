"""What the storages of a program weigh: an event for each birth, resize and death of a storage.

`new_storage` asks `born` for a `Life` while a tracker is active in its thread; the storage owns it. The life tells its
trackers when the storage is resized, and when it is freed. Without a tracker nothing is asked and storages own nothing.
"""
cimport cython
from cpython.object cimport PyObject
from libc.stdlib cimport free, realloc
from metatensor._core.slots cimport forbid_new
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport dim_t

cdef extern from *:
    """
    /* Cython would save and restore the current exception around the __dealloc__ of a class. */
    static destructor mt_life_freed;
    static void mt_on_life_end(PyObject *type, destructor f) {
        mt_life_freed = ((PyTypeObject *)type)->tp_dealloc;
        ((PyTypeObject *)type)->tp_dealloc = f;
    }
    """
    ctypedef void (*destructor)(PyObject*) noexcept
    void on_life_end "mt_on_life_end" (object type, destructor f) noexcept
    void life_freed "mt_life_freed" (PyObject* life) noexcept

cdef long long _births = 0          # storages that have been born while somebody counted


@cython.final
@cython.binding(False)
@cython.no_gc
cdef class Scope:
    pass


forbid_new(Scope)


@cython.binding(False)
cdef class MemoryTracker:
    """A context manager that counts the bytes of the storages that this thread makes inside it, while they live.

    A storage counts once, however many tensors share it, from its creation until it is freed, also after the block. Storages
    that existed before do not count. An operator that works in place or with ``out=`` makes no storage for its result. An
    operator on meta that PyTorch computes in several steps counts with the temporary tensors of these steps (see
    `metatensor.rules.parts`).

    Trackers may be nested: a storage counts in each of them.

    Attributes
    ----------
    current : int
        The bytes that are alive.
    peak : int
        The greatest value of `current` since the tracker was made, or since `reset_peak`.
    count : int
        How many storages were made, temporary ones included.

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
        cdef Scope scope
        if self.scope is not None:
            raise RuntimeError("MemoryTracker: this tracker is active already")
        scope = Scope.__new__(Scope)
        scope.tracker, scope.outer = self, <Scope>state.tracker
        self.scope = state.tracker = scope
        hints.trackers += 1
        return self

    def __exit__(self, *exc):
        cdef ThreadState state = thread_state()
        if self.scope is None or state.tracker is not self.scope:
            raise RuntimeError("MemoryTracker: trackers must be left in the order in which they were entered")
        state.tracker = self.scope.outer
        self.scope = None
        self.walk = None
        hints.trackers -= 1

    def __dealloc__(self):
        free(self.log)

    def reset_peak(self):
        """Set `peak` to `current`."""
        self.peak = self.current


@cython.binding(False)
cdef class MemoryLog(MemoryTracker):
    """A `MemoryTracker` that also keeps a log of what happened while it was active.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.analysis.MemoryLog() as log:
    ...     a = mt.empty(1000, device="meta")
    ...     del a
    >>> [(event.kind, event.change) for event in log.events()]
    [('birth', 4000), ('death', -4000)]
    """

    def __cinit__(self):
        self.writes = True

    def __len__(self):
        return self.n_events

    def events(self):
        """Return the events so far, a list of `MemoryEvent`."""
        cdef Py_ssize_t i
        cdef Event* e
        from metatensor._core.memory_events import MemoryEvent
        kinds = (None, "birth", "resize", "death")
        made = []
        for i in range(self.n_events):
            e = &self.log[i]
            made.append(MemoryEvent(kinds[e.kind], e.storage, e.change, e.operator, e.walk))
        return made


cdef int _write(MemoryTracker log, long long storage, dim_t change, int kind) noexcept:
    """Add an event to a log."""
    cdef ThreadState state = thread_state()
    cdef Event* e
    if log.n_events == log.room:
        e = <Event*>realloc(log.log, (log.room * 2 + 1024) * sizeof(Event))
        if e == NULL:
            log.writes = False      # a log that ends early
            return 0
        log.log = e
        log.room = log.room * 2 + 1024
    e = &log.log[log.n_events]
    log.n_events += 1
    e.storage, e.change, e.kind, e.operator = storage, change, kind, state.operators
    if state.walk is None:
        e.walk = 0
    else:
        if state.walk is not log.walk:
            log.walk = state.walk
            log.walks += 1
        e.walk = log.walks
    return 0


cdef inline void _happened(PyObject* scope, long long number, dim_t change, int kind) noexcept:
    """Tell trackers of one event."""
    cdef PyObject* tracker
    cdef dim_t now
    while scope != <PyObject*>None:
        tracker = <PyObject*>(<Scope>scope).tracker
        (<MemoryTracker>tracker).count += kind == BIRTH
        now = (<MemoryTracker>tracker).current + change
        (<MemoryTracker>tracker).current = now
        if now > (<MemoryTracker>tracker).peak:
            (<MemoryTracker>tracker).peak = now
        if (<MemoryTracker>tracker).writes and (<MemoryTracker>tracker).scope is not None:
            _write(<MemoryTracker>tracker, number, change, kind)
        scope = <PyObject*>(<Scope>scope).outer


@cython.final
@cython.binding(False)
@cython.no_gc
@cython.freelist(1024)
cdef class Life:
    """The life of one storage. The storage owns it, so it ends with the storage."""

    cdef int resize(self, dim_t nbytes) except -1:
        cdef dim_t change = nbytes - self.nbytes
        self.nbytes = nbytes
        _happened(<PyObject*>self.scope, self.number, change, RESIZE)
        return 0


forbid_new(Life)


cdef void _ended(PyObject* life) noexcept:
    _happened(<PyObject*>(<Life>life).scope, (<Life>life).number, -(<Life>life).nbytes, DEATH)
    life_freed(life)


on_life_end(Life, _ended)


cdef Life born(dim_t nbytes):
    """Tell the trackers of this thread that there is a new storage. Return what the storage must own, or None."""
    global _births
    cdef ThreadState state = thread_state()
    cdef Life life
    if state.tracker is None:
        return None
    life = Life.__new__(Life)
    life.scope = <Scope>state.tracker
    life.nbytes = nbytes
    _births += 1
    life.number = _births
    _happened(<PyObject*>life.scope, life.number, nbytes, BIRTH)
    return life


cdef Scope pause_tracking():
    """Let this thread's trackers overlook what happens until `resume_tracking`, which needs what this returns."""
    cdef ThreadState state = thread_state()
    cdef Scope scope = <Scope>state.tracker
    state.tracker = None
    return scope


cdef int resume_tracking(Scope scope) except -1:
    thread_state().tracker = scope
    return 0
