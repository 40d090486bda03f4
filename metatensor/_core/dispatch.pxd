"""The dispatcher: bind the arguments, run modes, run the meta kernel, then continue in `execute`."""
from cpython.object cimport PyObject
from metatensor._core.op cimport Call, Op, Overload

cdef enum Why:
    FITS, TOO_MANY, BAD_TYPE, MISSING, UNKNOWN, TWICE

cdef struct Misfit:
    Why why
    int slot
    PyObject* name          # the unknown keyword, if `why` is UNKNOWN

cdef int bind(Overload ov, Call* c, PyObject** args, Py_ssize_t n, PyObject* kwnames,
              Misfit* misfit) except -1
cdef object dispatch(Call* c)
cdef object run(Call* c)
cdef object run_plain(Call* c)
cdef object invoke(PyObject* op, PyObject** args, int n)
