"""Where operators are called: the operator, the module and the line of each call, recorded for a memory log."""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdlib cimport free, realloc
from metatensor._core.lines cimport line_of
from metatensor._core.tensor cimport Tensor
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

    /* Python 3.11 creates a frame object for each frame requested. Reading its internal frames avoids this. */
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
    void* mt_first() noexcept                   # these return borrowed references, or NULL; always NULL in other versions of Python
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


cdef void* _quickly(Place* p) noexcept:
    """Set the place of an operator without creating frame objects. Return the frame, or NULL if a code object has not been seen."""
    cdef void* frame = mt_first()
    cdef PyObject* code
    cdef Seen* s
    cdef int left = FRAMES
    while frame != NULL:
        code = mt_code_of(frame)
        s = &_seen[(<size_t>code >> 5) & (SEEN - 1)]
        if s.code != code:
            return NULL
        if left == 0 or not s.ours:
            Py_INCREF(<object>code)
            p.code, p.instruction = code, mt_place_of(frame)
            return frame
        left -= 1
        frame = mt_next(frame)
    return NULL


cdef void* raw_user_frame() noexcept:
    """Return the interpreter's internal frame of the innermost user code, or NULL."""
    cdef Place p
    cdef void* frame
    p.code = NULL
    frame = _quickly(&p)
    Py_XDECREF(p.code)
    return frame


def user_place():
    """Return (file, line) of the innermost user code that runs in this thread, or None."""
    cdef Place p
    cdef PyObject* frame
    cdef PyObject* back
    p.code = NULL
    if _quickly(&p) != NULL and not _seen[(<size_t>p.code >> 5) & (SEEN - 1)].ours:
        code = <object>p.code
        Py_XDECREF(p.code)
        return code.co_filename, line_of(code, p.instruction)
    Py_XDECREF(p.code)
    frame = mt_current_frame()
    while frame != NULL:
        p.code = mt_code(frame)
        code = <object>p.code
        Py_XDECREF(p.code)
        if not _ours(frame, p.code):
            p.instruction = mt_instruction(frame)
            Py_XDECREF(frame)
            return code.co_filename, line_of(code, p.instruction)
        back = mt_caller(frame)
        Py_XDECREF(frame)
        frame = back
    return None


@cython.final
@cython.binding(False)
cdef class Attribution:
    """A context manager that records where the operators of this thread are called while memory is counted.

    `module` is any number; each operator is recorded with its current value. An operator of a backward pass has the module in
    which the node that calls it was recorded, unless `module` has changed since, as during recomputation.
    """

    def __cinit__(self):
        self.collectives = []
        self.categories = {}

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

    cdef PyObject* user_frame(self) except? NULL:
        """Return a new reference to the innermost frame of user code, or NULL."""
        cdef PyObject* frame = mt_current_frame()
        cdef PyObject* back
        cdef PyObject* code
        cdef int left = FRAMES
        cdef bint found
        while frame != NULL:
            code = mt_code(frame)
            found = left == 0 or not _ours(frame, code)
            Py_XDECREF(code)
            if found:
                break
            left -= 1
            back = mt_caller(frame)
            Py_XDECREF(frame)
            frame = back
        return frame

    cdef int note(self, PyObject* op) except -1:
        cdef Place* p
        cdef PyObject* frame
        if self.n == self.room:
            p = <Place*>realloc(self.places, (self.room * 2 + 1024) * sizeof(Place))
            if p == NULL:
                raise MemoryError()
            self.places = p
            self.room = self.room * 2 + 1024
        p = &self.places[self.n]
        p.op, p.code, p.instruction, p.module, p.by_engine = op, NULL, 0, self.module, False
        p.sequence = sequences.last[0] if sequences.last != NULL else 0
        p.node = self.visiting
        p.moved = self.visiting != 0 and self.module != self.module_before
        Py_INCREF(<object>op)
        self.n += 1
        raw = _quickly(p)
        if raw != NULL:
            p.by_engine = self.visiting != 0 and raw == self.caller_raw
            return 0
        frame = self.user_frame()
        p.by_engine = self.visiting != 0 and frame == self.caller
        if frame != NULL:
            p.code = mt_code(frame)
            p.instruction = mt_instruction(frame)
            Py_XDECREF(frame)
        return 0

    cdef Py_ssize_t origin(self, Py_ssize_t i) noexcept:
        """Return the index of the operator whose gradient operator `i` computes, or -1 if it is not known."""
        cdef Py_ssize_t low = 0, high = i, middle
        cdef unsigned long long node = self.places[i].node
        if not node:
            return -1
        while low < high:       # the last one that was called before the node was made
            middle = (low + high) // 2
            if self.places[middle].sequence < node:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def __len__(self):
        return self.n

    def place(self, long long number):
        """Return the name of operator `number`, the number of its module, its file and its line; None if it is unknown.

        Operators of a backward pass have the module and the line of the operator whose gradient they compute.
        """
        cdef Py_ssize_t i = number - self.first, line, at
        cdef int module
        if i < 0 or i >= self.n:
            return None
        name = (<object>self.places[i].op).name
        line, module = i, self.places[i].module
        while self.places[line].by_engine:
            at = self.origin(line)
            if at < 0:
                break
            line = at
        at = i
        while at >= 0 and (not module or self.places[at].by_engine) and not self.places[at].moved:
            at = self.origin(at)
            module = self.places[at].module if at >= 0 else 0 if self.places[i].by_engine else module
        if self.places[line].code == NULL:
            return name, module, None, None
        code = <object>self.places[line].code
        return name, module, code.co_filename, line_of(code, self.places[line].instruction)


def categorize(Tensor t not None, str category not None):
    """Set the category of a tensor's storage in `metatensor.analysis.profile`, if one is running in this thread."""
    cdef Attribution notes = <Attribution>thread_state().attribution
    if notes is not None and t.storage.scope is not None:
        notes.categories[t.storage.number] = category


@cython.final
@cython.binding(False)
cdef class Collective:
    """A context manager for the operators of a collective of `metatensor.distributed`. Their storages count as communication."""
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
