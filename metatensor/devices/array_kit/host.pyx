"""Compiled functions over host memory that NumPy does not have or computes in several passes.

Arguments are C-contiguous buffers of float32. The output may be the input buffer. The GIL is released during the
computation.
"""
cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t

cdef extern from "metatensor/devices/array_kit/host.h" nogil:
    void erf32 "mt_erf32" (const float* x, float* out, Py_ssize_t n) noexcept
    void erfinv32 "mt_erfinv32" (const float* x, float* out, Py_ssize_t n) noexcept
    void gelu32 "mt_gelu32" (const float* x, float* out, Py_ssize_t n) noexcept
    void softmax32 "mt_softmax32" (const float* x, float* out, Py_ssize_t rows, Py_ssize_t n, bint zeros) noexcept
    void layer_norm32 "mt_layer_norm32" (const float* x, const float* weight, const float* bias, float* out,
                                         Py_ssize_t rows, Py_ssize_t n, double eps) noexcept
    bint beyond64 "mt_beyond64" (const int64_t* index, Py_ssize_t n, int64_t size) noexcept
    bint beyond32 "mt_beyond32" (const int32_t* index, Py_ssize_t n, int64_t size) noexcept


@cython.final
@cython.freelist(8)
cdef class _Buffer:
    """Holds the buffer of an argument as long as this object lives."""
    cdef Py_buffer view
    cdef bint held

    cdef Py_ssize_t open(self, object owner, Py_ssize_t n, int flags=0) except -1:
        """Acquire a buffer of floats. If `n` is not negative, there must be `n` of them. Return their number."""
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
    """Compute the error function."""
    cdef _Buffer x = _Buffer(), y = _Buffer()
    cdef Py_ssize_t n = x.open(values, -1)
    y.open(out, n, PyBUF_WRITABLE)
    with nogil:
        erf32(<float*>x.view.buf, <float*>y.view.buf, n)


def erfinv(values, out):
    """Compute the inverse of the error function."""
    cdef _Buffer x = _Buffer(), y = _Buffer()
    cdef Py_ssize_t n = x.open(values, -1)
    y.open(out, n, PyBUF_WRITABLE)
    with nogil:
        erfinv32(<float*>x.view.buf, <float*>y.view.buf, n)


def gelu(values, out):
    """Compute the exact GELU: x times the standard normal distribution function at x."""
    cdef _Buffer x = _Buffer(), y = _Buffer()
    cdef Py_ssize_t n = x.open(values, -1)
    y.open(out, n, PyBUF_WRITABLE)
    with nogil:
        gelu32(<float*>x.view.buf, <float*>y.view.buf, n)


def softmax(values, out, Py_ssize_t n, bint zeros=False):
    """Compute the softmax of each run of `n` elements. A run of all -inf gives NaN, or 0 if `zeros` is true."""
    cdef _Buffer x = _Buffer(), y = _Buffer()
    cdef Py_ssize_t total = x.open(values, -1)
    y.open(out, total, PyBUF_WRITABLE)
    _rows(total, n)
    with nogil:
        softmax32(<float*>x.view.buf, <float*>y.view.buf, total // n, n, zeros)


def layer_norm(values, weight, bias, out, Py_ssize_t n, double eps):
    """Normalize each run of `n` elements, then apply `weight` and `bias` (of `n` elements each, or None)."""
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
    """Return True if any index (int32 or int64) lies outside [0, size)."""
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
