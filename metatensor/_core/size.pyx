"""Size, the shape of a tensor."""
import operator

from cpython.object cimport PyObject
from metatensor._core.layout cimport mul_dims
from metatensor._core.types cimport dim_t

from metatensor._core.dtype import spelling

cdef extern from *:
    """
    static PyObject *mt_alloc_tuple(PyObject *type, Py_ssize_t n) {
        return ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, n);
    }
    """
    object alloc_tuple "mt_alloc_tuple" (object t, Py_ssize_t n)
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
            if type(item) is not int:
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
cdef object _Size = Size


cdef object make_size(int ndim, const dim_t* values):
    cdef object t = alloc_tuple(_Size, ndim)
    cdef int i
    for i in range(ndim):
        PyTuple_SET_ITEM(t, i, PyLong_FromLongLong(values[i]))
    return t
