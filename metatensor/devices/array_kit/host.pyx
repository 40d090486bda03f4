"""Functions over host memory that are compiled here: those that NumPy lacks, in single precision.

Arguments are C-contiguous buffers of floats of one length, the result's last; it may be the input. Other threads run
meanwhile.
"""
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer

cdef extern from "metatensor/devices/array_kit/host.h" nogil:
    void erf32 "mt_erf32" (const float* x, float* out, Py_ssize_t n) noexcept
    void gelu32 "mt_gelu32" (const float* x, float* out, Py_ssize_t n) noexcept

ctypedef void (*Function)(const float*, float*, Py_ssize_t) noexcept nogil


cdef int _apply(Function function, object values, object out) except -1:
    cdef Py_buffer source, target
    cdef Py_ssize_t n
    PyObject_GetBuffer(values, &source, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
    try:
        PyObject_GetBuffer(out, &target, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE)
        try:
            if source.len != target.len or source.format != b"f" or target.format != b"f":
                raise ValueError("expected floats, as many as the result has")
            n = source.len // sizeof(float)
            with nogil:
                function(<const float*>source.buf, <float*>target.buf, n)
        finally:
            PyBuffer_Release(&target)
    finally:
        PyBuffer_Release(&source)
    return 0


def erf(values, out):
    """The error function."""
    _apply(erf32, values, out)


def gelu(values, out):
    """Each value times the probability that a standard normal one is below it."""
    _apply(gelu32, values, out)
