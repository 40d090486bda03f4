"""Functions over host memory that are compiled here: those that NumPy lacks or takes many steps for.

Arguments are C-contiguous buffers; values are floats of 4 bytes, and so is the result, which may be the input itself.
Other threads run meanwhile.
"""
cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t

cdef extern from "metatensor/devices/array_kit/host.h" nogil:
    void erf32 "mt_erf32" (const float* x, float* out, Py_ssize_t n) noexcept
    void gelu32 "mt_gelu32" (const float* x, float* out, Py_ssize_t n) noexcept
    void softmax32 "mt_softmax32" (const float* x, float* out, Py_ssize_t rows, Py_ssize_t n, bint zeros) noexcept
    void layer_norm32 "mt_layer_norm32" (const float* x, const float* weight, const float* bias, float* out,
                                         Py_ssize_t rows, Py_ssize_t n, double eps) noexcept
    bint beyond64 "mt_beyond64" (const int64_t* index, Py_ssize_t n, int64_t size) noexcept
    bint beyond32 "mt_beyond32" (const int32_t* index, Py_ssize_t n, int64_t size) noexcept


@cython.final
@cython.freelist(8)
cdef class _Buffer:
    """The memory of an argument, as long as this object lives."""
    cdef Py_buffer view
    cdef bint held

    cdef Py_ssize_t open(self, object owner, Py_ssize_t n, int flags=0) except -1:
        """Take floats, `n` of them if that is not negative; returns how many there are."""
        PyObject_GetBuffer(owner, &self.view, PyBUF_ND | PyBUF_FORMAT | flags)
        self.held = True
        if self.view.format[0] != b"f" or (n >= 0 and self.view.len != n * sizeof(float)):
            raise ValueError(f"expected {'' if n < 0 else n} floats")
        return self.view.len // sizeof(float)

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


cdef int _rows(Py_ssize_t total, Py_ssize_t n) except -1:
    if n < 1 or total % n:
        raise ValueError(f"{total} elements are not rows of {n}")
    return 0


def erf(values, out):
    """The error function."""
    cdef _Buffer x = _Buffer(), y = _Buffer()
    cdef Py_ssize_t n = x.open(values, -1)
    y.open(out, n, PyBUF_WRITABLE)
    with nogil:
        erf32(<float*>x.view.buf, <float*>y.view.buf, n)


def gelu(values, out):
    """Each value times the probability that a standard normal one is below it."""
    cdef _Buffer x = _Buffer(), y = _Buffer()
    cdef Py_ssize_t n = x.open(values, -1)
    y.open(out, n, PyBUF_WRITABLE)
    with nogil:
        gelu32(<float*>x.view.buf, <float*>y.view.buf, n)


def softmax(values, out, Py_ssize_t n, bint zeros=False):
    """The softmax of each `n` elements that follow each other; of minus infinities alone NaN, or with `zeros` zeros."""
    cdef _Buffer x = _Buffer(), y = _Buffer()
    cdef Py_ssize_t total = x.open(values, -1)
    y.open(out, total, PyBUF_WRITABLE)
    _rows(total, n)
    with nogil:
        softmax32(<float*>x.view.buf, <float*>y.view.buf, total // n, n, zeros)


def layer_norm(values, weight, bias, out, Py_ssize_t n, double eps):
    """Each `n` elements brought to mean 0 and variance 1, times `weight` plus `bias`: `n` elements, or None."""
    cdef _Buffer x = _Buffer(), y = _Buffer(), w = _Buffer(), b = _Buffer()
    cdef Py_ssize_t total = x.open(values, -1)
    cdef const float* weights = NULL
    cdef const float* biases = NULL
    y.open(out, total, PyBUF_WRITABLE)
    _rows(total, n)
    if weight is not None:
        w.open(weight, n)
        weights = <const float*>w.view.buf
    if bias is not None:
        b.open(bias, n)
        biases = <const float*>b.view.buf
    with nogil:
        layer_norm32(<float*>x.view.buf, weights, biases, <float*>y.view.buf, total // n, n, eps)


def beyond(index, int64_t size):
    """Whether some of the integers, of 4 or 8 bytes with a sign, lies outside of 0..size - 1."""
    cdef _Buffer x = _Buffer()
    cdef bint found
    PyObject_GetBuffer(index, &x.view, PyBUF_ND | PyBUF_FORMAT)
    x.held = True
    if x.view.format[0] not in b"ilq":
        raise ValueError("expected integers of 4 or 8 bytes")
    with nogil:
        if x.view.itemsize == 8:
            found = beyond64(<int64_t*>x.view.buf, x.view.len // 8, size)
        else:
            found = beyond32(<int32_t*>x.view.buf, x.view.len // 4, size)
    return found
