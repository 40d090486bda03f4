"""Trackers of the memory of storages.

While a tracker is active in a thread, each new storage of the thread gets the `Scope` of the active trackers, and
notifies them when it is resized or freed. The first active tracker enables this check in the storages' deallocator, and
the end of the last counted storage disables it, so that there is no cost without a tracker.
"""
cimport cython
from cpython.object cimport PyObject
from libc.stdlib cimport free, realloc
from metatensor._core.slots cimport forbid_new
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport dim_t

cdef long long _births = 0          # storages created while a tracker was active
cdef long long _alive = 0           # those of them that are alive
cdef void (*_watch)(bint on) noexcept       # enables or disables notification of frees; the module `storage` sets it


cdef set_watch(void (*watch)(bint on) noexcept):
    global _watch
    _watch = watch


@cython.final
@cython.binding(False)
@cython.no_gc
cdef class Scope:
    pass


forbid_new(Scope)


@cython.binding(False)
cdef class MemoryTracker:
    """A context manager that counts the bytes of the storages that this thread creates inside it.

    A storage counts once, however many tensors share it. It counts from its creation until it is freed, even if that
    happens after the block. Storages that existed before the block do not count. An operator that works in place or with
    ``out=`` creates no storage for its result. For an operator on meta that PyTorch computes in several steps, the
    temporary tensors of these steps count too (see `metatensor.rules.parts`), unless all active trackers are plain.
    Trackers may be nested. A storage counts in each of them.

    Parameters
    ----------
    plain : bool
        Whether to leave out these temporary tensors. Default False.

    Attributes
    ----------
    current : int
        The bytes of storages that have not been freed.
    peak : int
        The greatest value of `current` since the tracker was created, or since `reset_peak`.
    count : int
        The number of storages that were created, temporary ones included.

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

    def __cinit__(self, *, bint plain=False):
        self.plain = plain

    def __enter__(self):
        cdef ThreadState state = thread_state()
        cdef Scope scope
        if self.scope is not None:
            raise RuntimeError("MemoryTracker: this tracker is active already")
        scope = Scope.__new__(Scope)
        scope.tracker, scope.outer, scope.state = self, <Scope>state.tracker, state
        scope.plain = self.plain and (scope.outer is None or scope.outer.plain)
        self.scope = state.tracker = scope
        hints.trackers += 1
        _watch(True)
        if not self.n_events:
            self.first_storage, self.first_operator = _births + 1, state.operators
        return self

    def __exit__(self, *exc):
        cdef ThreadState state = thread_state()
        if self.scope is None or state.tracker is not self.scope:
            raise RuntimeError("MemoryTracker: trackers must be left in the order in which they were entered")
        state.tracker = self.scope.outer
        self.scope = None
        self.walk = None
        hints.trackers -= 1
        if not hints.trackers and not _alive:
            _watch(False)

    def __dealloc__(self):
        free(self.log)
        free(self.marks)

    def reset_peak(self):
        """Set `peak` to `current`."""
        self.peak = self.current


@cython.binding(False)
cdef class MemoryLog(MemoryTracker):
    """A `MemoryTracker` that also keeps a log of the storages that were created, resized and freed.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.analysis.MemoryLog() as log:
    ...     a = mt.empty(1000, device="meta")
    ...     del a
    >>> [(event.kind, event.change) for event in log.events()]
    [('birth', 4000), ('death', -4000)]
    """

    def __cinit__(self, *, bint plain=False):
        self.writes = True

    def __len__(self):
        return self.n_events

    cdef int check(self) except -1:
        if self.incomplete:
            raise MemoryError(f"MemoryLog: memory ran out after {self.n_events:,} events, so the log is incomplete")
        return 0

    def highest(self):
        """Return the index of the event at the peak, or -1 if there is none, and the bytes of all storages after it."""
        cdef Py_ssize_t i, at = -1
        self.check()
        cdef dim_t now = 0, most = 0
        for i in range(self.n_events):
            now += self.log[i].change >> 2
            if now > most:
                most, at = now, i
        return at, most

    def operator_at(self, Py_ssize_t i):
        """Return the number of the operator at which event `i` happened."""
        if not 0 <= i < self.n_events:
            raise IndexError(f"MemoryLog: there is no event {i}; there are {self.n_events:,}")
        return self.first_operator + self.log[i].operator

    def events(self):
        """Return the events so far, a list of `MemoryEvent`."""
        cdef Py_ssize_t i, mark = 0
        cdef Event* e
        cdef int walk = 0, kind
        from metatensor._core.memory_events import MemoryEvent
        self.check()
        kinds = (None, "birth", "resize", "death")
        made = []
        for i in range(self.n_events):
            e = &self.log[i]
            while mark < self.n_marks and self.marks[mark].event <= i:
                walk = self.marks[mark].walk
                mark += 1
            kind = e.change & 3
            made.append(MemoryEvent(kinds[kind], self.first_storage + e.storage, (e.change - kind) // 4,
                                    self.first_operator + e.operator, walk))
        return made


cdef void* _more(void* block, Py_ssize_t* room, size_t size) noexcept:
    """Return a block with more room, or NULL."""
    cdef void* larger = realloc(block, (room[0] * 2 + 4096) * size)
    if larger != NULL:
        room[0] = room[0] * 2 + 4096
    return larger


cdef int _mark(MemoryTracker log, object walk) noexcept:
    """Record that a backward pass has begun or ended."""
    cdef void* block
    if log.n_marks == log.marks_room:
        block = _more(log.marks, &log.marks_room, sizeof(Mark))
        if block == NULL:
            log.writes, log.incomplete = False, True
            return 0
        log.marks = <Mark*>block
    log.walk = walk
    log.walks += walk is not None
    log.marks[log.n_marks].event = log.n_events
    log.marks[log.n_marks].walk = log.walks if walk is not None else 0
    log.n_marks += 1
    return 0


cdef inline int _write(MemoryTracker log, PyObject* thread, long long storage, dim_t change, int kind) noexcept:
    """Add an event to a log."""
    cdef Event* e
    cdef void* block
    if log.n_events == log.room:
        block = _more(log.log, &log.room, sizeof(Event))
        if block == NULL:
            log.writes, log.incomplete = False, True
            return 0
        log.log = <Event*>block
    if (<ThreadState>thread).walk is not log.walk:
        _mark(log, (<ThreadState>thread).walk)
    e = &log.log[log.n_events]
    log.n_events += 1
    e.storage = <unsigned int>(storage - log.first_storage)
    e.operator = <unsigned int>((<ThreadState>thread).operators - log.first_operator)
    e.change = change * 4 + kind
    return 0


cdef void happened(PyObject* scope, long long number, dim_t change, int kind) noexcept:
    """Notify trackers of one event."""
    global _alive
    cdef PyObject* tracker
    cdef dim_t now
    if kind == DEATH:
        _alive -= 1
        if not _alive and not hints.trackers:
            _watch(False)
    while scope != <PyObject*>None:
        tracker = <PyObject*>(<Scope>scope).tracker
        (<MemoryTracker>tracker).count += kind == BIRTH
        now = (<MemoryTracker>tracker).current + change
        (<MemoryTracker>tracker).current = now
        if now > (<MemoryTracker>tracker).peak:
            (<MemoryTracker>tracker).peak = now
        if (<MemoryTracker>tracker).writes and (<MemoryTracker>tracker).scope is not None:
            _write(<MemoryTracker>tracker, <PyObject*>(<Scope>scope).state, number, change, kind)
        scope = <PyObject*>(<Scope>scope).outer


cdef Scope born(dim_t nbytes, long long* number):
    """Notify the trackers of this thread of a new storage. Return the scope that the storage must own, or None."""
    global _births, _alive
    cdef ThreadState state = thread_state()
    if state.tracker is None:
        return None
    _births += 1
    _alive += 1
    number[0] = _births
    happened(<PyObject*>state.tracker, _births, nbytes, BIRTH)
    return <Scope>state.tracker


cdef Scope pause_tracking():
    """Pause this thread's trackers until `resume_tracking` is called with the scope that this returns."""
    cdef ThreadState state = thread_state()
    cdef Scope scope = <Scope>state.tracker
    state.tracker = None
    return scope


cdef int resume_tracking(Scope scope) except -1:
    thread_state().tracker = scope
    return 0
