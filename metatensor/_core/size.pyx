"""Size, the shape of a tensor."""
import operator
from _thread import get_ident

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from metatensor._core.layout cimport copy_dims, dims_equal, mul_dims
from metatensor._core.types cimport INLINE_DIMS, dim_t

from metatensor._core.dtype import spelling

cdef extern from *:
    """
    static PyObject *mt_alloc_tuple(PyObject *type, Py_ssize_t n) {
        return ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, n);
    }
    """
    object alloc_tuple "mt_alloc_tuple" (object t, Py_ssize_t n)
    object PyTuple_New(Py_ssize_t n)
    void PyTuple_SET_ITEM(object t, Py_ssize_t i, PyObject* value)
    PyObject* PyLong_FromLongLong(long long v) except NULL


cdef object _size(int i, object value):
    """Return item `i` as an int. Raise TypeError unless it is an int or supports ``__index__``."""
    if not isinstance(value, float) and hasattr(value, "__index__"):
        try:
            return operator.index(value)
        except (TypeError, NotImplementedError):
            pass
    raise TypeError(f"Size: expected an iterable of int, but item {i} is {type(value).__name__}")


class Size(tuple):
    """The shape of a tensor, a tuple of ints.

    Parameters
    ----------
    iterable : iterable of int
        The sizes. Default: empty.

    Raises
    ------
    TypeError
        If an item is not an int.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.Size((2, 3)).numel()
    6
    """
    __slots__ = ()

    def __new__(cls, iterable=()):
        items = tuple(iterable)
        for item in items:
            if type(item) is not int and not (observers and isinstance(item, int)):
                items = tuple([_size(i, n) for i, n in enumerate(items)])
                break
        return tuple.__new__(cls, items)

    def numel(self):
        """Return the number of elements, the product of the sizes."""
        cdef dim_t n = 1
        for s in self:
            n = mul_dims(n, s)
        return n

    def __repr__(self):
        return f"{spelling()}.Size({list(self)})"

    def __getitem__(self, index):
        item = tuple.__getitem__(self, index)
        return tuple.__new__(Size, item) if type(item) is tuple else item

    def __add__(self, other):
        return Size(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other):
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times):
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__


cdef extern from *:
    """
    /* x.shape[i] must be fast: ints are handled by tuple, slices by Size.__getitem__. */
    static binaryfunc mt_size_slow;
    static PyObject *mt_size_subscript(PyObject *self, PyObject *index) {
        if (PyLong_CheckExact(index)) return PyTuple_Type.tp_as_mapping->mp_subscript(self, index);
        return mt_size_slow(self, index);
    }
    static void mt_setup_size(PyObject *type) {
        PyTypeObject *t = (PyTypeObject *)type;
        mt_size_slow = t->tp_as_mapping->mp_subscript;
        t->tp_as_mapping->mp_subscript = mt_size_subscript;
    }
    """
    void setup_size "mt_setup_size" (object t)

setup_size(Size)


# While a capture follows sizes, `shape` and its relatives return what its observer returns: ints that know their expressions.
cdef int observers = 0
cdef object _observer = None
cdef object _thread = None


def observe(observer):
    """Pass each size and stride that this thread reads through ``observer(tensor, numbers, stride)``. None ends this."""
    global observers, _observer, _thread
    if observer is not None and _observer is not None:
        raise RuntimeError("the sizes of tensors are already being followed")
    _observer, _thread = observer, None if observer is None else get_ident()
    observers = observer is not None


cdef object observed(object tensor, object numbers, bint stride):
    return _observer(tensor, numbers, stride) if _observer is not None and get_ident() == _thread else numbers


# Programs request the same few shapes and strides again and again. The tuples are immutable, so a small hash table
# caches the most recent ones of up to INLINE_DIMS dimensions.
cdef enum:
    RECENT_BITS = 6

cdef struct Recent:
    PyObject* made          # owned, or NULL
    int ndim
    dim_t values[INLINE_DIMS]

cdef Recent _sizes[1 << RECENT_BITS]
cdef Recent _tuples[1 << RECENT_BITS]


cdef object _filled(object type, int ndim, const dim_t* values):
    cdef object made = PyTuple_New(ndim) if type is tuple else alloc_tuple(type, ndim)
    cdef int i
    for i in range(ndim):
        PyTuple_SET_ITEM(made, i, PyLong_FromLongLong(values[i]))
    return made


cdef inline object _recent(Recent* table, object type, int ndim, const dim_t* values):
    cdef unsigned long long mixed = ndim
    cdef Recent* r
    cdef PyObject* before
    cdef int i
    if ndim > INLINE_DIMS:
        return _filled(type, ndim, values)
    for i in range(ndim):
        mixed = (mixed ^ <unsigned long long>values[i]) * 0x9E3779B97F4A7C15ULL
    r = &table[mixed >> (64 - RECENT_BITS)]
    if r.made != NULL and r.ndim == ndim and dims_equal(r.values, values, ndim):
        return <object>r.made
    made = _filled(type, ndim, values)
    Py_INCREF(made)
    before = r.made
    r.made = <PyObject*>made
    r.ndim = ndim
    copy_dims(r.values, values, ndim)
    Py_XDECREF(before)
    return made


cdef object _Size = Size


cdef object make_size(int ndim, const dim_t* values):
    return _recent(_sizes, _Size, ndim, values)


cdef object make_tuple(int ndim, const dim_t* values):
    return _recent(_tuples, tuple, ndim, values)
