"""Where operators are called: the operator, the module and the line of each, while a memory log wants to know."""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdlib cimport free, realloc
from metatensor._core cimport graph
from metatensor._core.lines cimport line_of
from metatensor._core.thread cimport ThreadState, thread_state

cdef extern from *:
    """
    #include <frameobject.h>
    #if PY_VERSION_HEX >= 0x030B0000
    #define mt_instruction(f) PyFrame_GetLasti((PyFrameObject *)(f))
    #else
    #define mt_instruction(f) PyFrame_GetLineNumber((PyFrameObject *)(f))
    #endif
    static PyObject *mt_current_frame(void) { return Py_XNewRef((PyObject *)PyEval_GetFrame()); }
    static PyObject *mt_caller(PyObject *f) { return (PyObject *)PyFrame_GetBack((PyFrameObject *)f); }
    static PyObject *mt_code(PyObject *f) { return (PyObject *)PyFrame_GetCode((PyFrameObject *)f); }

    /* Python 3.11 makes a frame object for each frame that is asked for. Its own frames can be read without. */
    #if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000 && !defined(PYPY_VERSION)
    #ifndef Py_BUILD_CORE
    #define Py_BUILD_CORE 1
    #endif
    #include "internal/pycore_frame.h"
    static void *mt_first(void) {
        _PyInterpreterFrame *f = PyThreadState_Get()->cframe->current_frame;
        while (f != NULL && _PyFrame_IsIncomplete(f)) f = f->previous;
        return f;
    }
    static void *mt_next(void *frame) {
        _PyInterpreterFrame *f = ((_PyInterpreterFrame *)frame)->previous;
        while (f != NULL && _PyFrame_IsIncomplete(f)) f = f->previous;
        return f;
    }
    static PyObject *mt_code_of(void *frame) { return (PyObject *)((_PyInterpreterFrame *)frame)->f_code; }
    static int mt_place_of(void *frame) {
        return _PyInterpreterFrame_LASTI((_PyInterpreterFrame *)frame) * (int)sizeof(_Py_CODEUNIT);
    }
    #else
    static void *mt_first(void) { return NULL; }
    static void *mt_next(void *frame) { (void)frame; return NULL; }
    static PyObject *mt_code_of(void *frame) { (void)frame; return NULL; }
    static int mt_place_of(void *frame) { (void)frame; return 0; }
    #endif
    """
    void* mt_first() noexcept                   # these return borrowed references, or NULL; always so in other versions of Python
    void* mt_next(void* frame) noexcept
    PyObject* mt_code_of(void* frame) noexcept
    int mt_place_of(void* frame) noexcept
    PyObject* mt_current_frame()                # these return new references
    PyObject* mt_caller(PyObject* frame)
    PyObject* mt_code(PyObject* frame)
    int mt_instruction(PyObject* frame)

cdef enum:
    SEEN = 512              # a power of two
    FRAMES = 40             # how many frames are searched for user code

cdef struct Seen:
    PyObject* code
    int ours

cdef Seen _seen[SEEN]       # a cache: whether a code object belongs to metatensor
cdef dict _codes = {}       # address of a code object -> (the code object, whether it belongs to metatensor)


cdef int _ours(PyObject* frame, PyObject* code) except -1:
    cdef Seen* s = &_seen[(<size_t>code >> 5) & (SEEN - 1)]
    cdef tuple found
    if s.code != code:
        found = _codes.get(<size_t>code)
        if found is None:
            from metatensor._core.source_locations import is_ours
            found = (<object>code, (<object>code).co_filename.startswith("<") or is_ours(<object>frame))
            _codes[<size_t>code] = found
        s.code, s.ours = code, found[1]
    return s.ours


cdef int _quickly(Place* p) noexcept:
    """Set the place of an operator without making frame objects. Return 0 if a code object has not been seen."""
    cdef void* frame = mt_first()
    cdef PyObject* code
    cdef Seen* s
    cdef int left = FRAMES
    while frame != NULL:
        code = mt_code_of(frame)
        s = &_seen[(<size_t>code >> 5) & (SEEN - 1)]
        if s.code != code:
            return 0
        if left == 0 or not s.ours:
            Py_INCREF(<object>code)
            p.code, p.instruction = code, mt_place_of(frame)
            return 1
        left -= 1
        frame = mt_next(frame)
    return 0


@cython.final
@cython.binding(False)
cdef class Attribution:
    """A context manager that notes where the operators of this thread are called while memory is counted.

    `module` is any number; each operator is noted with its current value. An operator of a backward pass has the module in
    which the node that calls it was recorded, unless `module` has changed since, as while a module is computed again.
    """

    def __cinit__(self):
        self.collectives = []

    @property
    def module(self):
        return self.at

    @module.setter
    def module(self, int number):
        cdef Change* c
        self.at = number
        if self.n_changes and self.changes[self.n_changes - 1].sequence == graph.last_sequence + 1:
            self.changes[self.n_changes - 1].module = number
            return
        if self.n_changes == self.changes_room:
            c = <Change*>realloc(self.changes, (self.changes_room * 2 + 256) * sizeof(Change))
            if c == NULL:
                raise MemoryError()
            self.changes = c
            self.changes_room = self.changes_room * 2 + 256
        self.changes[self.n_changes].sequence = graph.last_sequence + 1
        self.changes[self.n_changes].module = number
        self.n_changes += 1

    def __enter__(self):
        cdef ThreadState state = thread_state()
        self.outer = state.attribution
        self.first = state.operators + 1
        state.attribution = self
        return self

    def __exit__(self, *exc):
        thread_state().attribution = self.outer
        self.outer = None

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n):
            Py_XDECREF(self.places[i].op)
            Py_XDECREF(self.places[i].code)
        free(self.places)
        free(self.changes)

    cdef int note(self, PyObject* op) except -1:
        cdef Place* p
        cdef PyObject* frame
        cdef PyObject* back
        cdef PyObject* code
        cdef int left = FRAMES
        if self.n == self.room:
            p = <Place*>realloc(self.places, (self.room * 2 + 1024) * sizeof(Place))
            if p == NULL:
                raise MemoryError()
            self.places = p
            self.room = self.room * 2 + 1024
        p = &self.places[self.n]
        p.op, p.code, p.instruction, p.module, p.node = op, NULL, 0, self.at, self.node if self.at == self.at_node else 0
        Py_INCREF(<object>op)
        self.n += 1
        if _quickly(p):
            return 0
        frame = mt_current_frame()
        while frame != NULL:
            code = mt_code(frame)
            if left == 0 or not _ours(frame, code):
                p.code = code
                p.instruction = mt_instruction(frame)
                Py_XDECREF(frame)
                return 0
            Py_XDECREF(code)
            left -= 1
            back = mt_caller(frame)
            Py_XDECREF(frame)
            frame = back
        return 0

    cdef int module_of(self, unsigned long long node) noexcept:
        """Return the module in which a node was recorded, 0 if that was outside modules or before this began."""
        cdef Py_ssize_t low = 0, high = self.n_changes, middle
        while low < high:               # finds the first change after the node
            middle = (low + high) // 2
            if self.changes[middle].sequence <= node:
                low = middle + 1
            else:
                high = middle
        return self.changes[low - 1].module if low else 0

    def __len__(self):
        return self.n

    def place(self, long long number):
        """Return the name of operator `number`, the number of its module, its file and its line; None if it is not known."""
        cdef Py_ssize_t i = number - self.first
        cdef Place* p
        if i < 0 or i >= self.n:
            return None
        p = &self.places[i]
        module = self.module_of(p.node) if p.node else p.module
        if p.code == NULL:
            return (<object>p.op).name, module, None, None
        return (<object>p.op).name, module, (<object>p.code).co_filename, line_of(<object>p.code, p.instruction)


cdef unsigned long long enter_node(Attribution notes, unsigned long long sequence) noexcept:
    """Note the node that a backward pass runs from now on. Return the one before."""
    cdef unsigned long long before = notes.node
    notes.node, notes.at_node = sequence, notes.at
    return before


@cython.final
@cython.binding(False)
cdef class Collective:
    """A context manager for the operators of a collective of `metatensor.distributed`. What they make are its buffers."""
    cdef Attribution notes
    cdef long long first

    def __enter__(self):
        self.notes = <Attribution>thread_state().attribution
        if self.notes is not None:
            self.first = self.notes.first + self.notes.n
        return self

    def __exit__(self, *exc):
        if self.notes is not None:
            self.notes.collectives.append((self.first, self.notes.first + self.notes.n - 1))
