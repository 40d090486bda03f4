"""The line of user code that is running. Only the instruction is recorded. Its line is looked up on request."""
from cpython.object cimport PyObject

cdef extern from *:
    """
    #include <frameobject.h>  // CPython 3.10 declares PyFrame_GetBack there
    #if PY_VERSION_HEX >= 0x030B0000
    #define mt_lasti(f) PyFrame_GetLasti((PyFrameObject *)(f))
    #define mt_line_at(code, at) PyCode_Addr2Line((PyCodeObject *)(code), at)
    #else
    #define mt_lasti(f) PyFrame_GetLineNumber((PyFrameObject *)(f))
    #define mt_line_at(code, at) (at)
    #endif
    static PyObject *mt_frame(void) { return (PyObject *)PyEval_GetFrame(); }
    static PyObject *mt_frame_back(PyObject *f) { return (PyObject *)PyFrame_GetBack((PyFrameObject *)f); }
    static PyObject *mt_frame_code(PyObject *f) { return (PyObject *)PyFrame_GetCode((PyFrameObject *)f); }
    """
    PyObject* mt_frame()                        # borrowed reference
    PyObject* mt_frame_back(PyObject* frame)    # these two return new references
    PyObject* mt_frame_code(PyObject* frame)
    int mt_lasti(PyObject* frame)
    int mt_line_at(PyObject* code, int lasti)
    void Py_XDECREF(PyObject* o)

cdef dict _ours = {}            # address of a code object -> (code object, whether it belongs to metatensor); never shrinks
cdef enum:
    FRAMES = 12                     # how many frames are searched for user code
    RECENT = 256                    # a power of two


cdef struct Recent:
    PyObject* code                  # `_ours` keeps it alive
    bint ours

cdef Recent _recent[RECENT]         # some of `_ours`, found faster


cdef bint _is_ours(PyObject* frame, PyObject* code) except -1:
    """Return whether a code object belongs to metatensor or has no file."""
    cdef Recent* recent = &_recent[(<size_t>code >> 5) & (RECENT - 1)]
    if recent.code == code:
        return recent.ours
    found = _ours.get(<size_t>code)
    if found is None:
        from metatensor._core.source_locations import is_ours
        found = (<object>code, (<object>code).co_filename.startswith("<") or is_ours(<object>frame))
        _ours[<size_t>code] = found
    recent.code, recent.ours = code, found[1]
    return found[1]


cdef object running_code(int* lasti):
    """Return the code object of the innermost user frame, and set `lasti` to the instruction that it executes.

    Return None if none of the innermost FRAMES frames is user code.
    """
    cdef PyObject* frame = mt_frame()
    cdef PyObject* back
    cdef PyObject* raw
    cdef int left = FRAMES
    cdef object code, _held = None
    while frame != NULL and left:
        left -= 1
        raw = mt_frame_code(frame)
        code = <object>raw
        Py_XDECREF(raw)
        if not _is_ours(frame, raw):
            lasti[0] = mt_lasti(frame)
            return code
        back = mt_frame_back(frame)
        frame = back
        _held = None if back == NULL else <object>back       # keeps the frame alive
        Py_XDECREF(back)
    return None


cdef int line_of(object code, int lasti) except -2:
    """Return the line number of an instruction."""
    return mt_line_at(<PyObject*>code, lasti)
