"""Compiled construction of parameters, and compiled calls with gradient recording off."""
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_XINCREF
from metatensor._core.layout cimport mul_dims
from metatensor._core.tensor cimport Tensor
from metatensor._core.thread cimport ThreadState, thread_state
from metatensor._core.types cimport T_OVERRIDES, dim_t
from metatensor.nn._base cimport checked, owned, pack_keywords, pack_positional
from metatensor.nn._cpython cimport (
    PyObject_Vectorcall, PyVectorcall_NARGS, Py_TYPE, mt_enable_vectorcall, mt_new_instance, vectorcallfunc,
)

cdef object make_subclass = Tensor._make_subclass
cdef object YES = True      # a Python object: Cython would cast a bare True to the C integer 1


cdef PyObject* new_parameter(PyObject* cls, PyObject** args, size_t nargsf, PyObject* kwnames) except NULL:
    """Implement ``Parameter(...)``: call the tensor factory directly for a plain tensor, else ``Parameter.__new__``."""
    cdef Py_ssize_t n = PyVectorcall_NARGS(nargsf)
    cdef PyObject* values[3]
    if kwnames == NULL and 1 <= n <= 2 and Py_TYPE(args[0]) == <PyTypeObject*>Tensor:
        values[0] = cls
        values[1] = args[0]
        values[2] = args[1] if n == 2 else <PyObject*>YES
        return PyObject_Vectorcall(<PyObject*>make_subclass, values, 3, NULL)
    made = (<object>cls).__new__(<object>cls, *pack_positional(args, n), **pack_keywords(args + n, kwnames))
    Py_XINCREF(<PyObject*>made)
    return <PyObject*>made


def fill(method, tensor, a, b=None):
    """Call ``method(tensor, a, b)`` with gradient recording off, and without ``b`` if it is None.

    Initializers use it for every parameter of every layer. `without_grad` is more general and slower.
    """
    cdef ThreadState state = thread_state()
    cdef bint was = state.grad_enabled
    cdef PyObject* values[3]
    cdef PyObject* result
    values[0] = <PyObject*>tensor
    values[1] = <PyObject*>a
    values[2] = <PyObject*>b
    state.grad_enabled = False
    result = PyObject_Vectorcall(<PyObject*>method, values, 2 if b is None else 3, NULL)
    state.grad_enabled = was
    return owned(checked(result))


def without_grad(function, *args, **kwargs):
    """Return ``function(*args, **kwargs)``, called with gradient recording off. It is cheaper than `no_grad`."""
    cdef ThreadState state = thread_state()
    cdef bint was = state.grad_enabled
    state.grad_enabled = False
    try:
        return function(*args, **kwargs)
    finally:
        state.grad_enabled = was


def fans(Tensor tensor not None):
    """Return (fan_in, fan_out) of a weight (out, in, ...): the inputs per output and the outputs per input.

    Raise ValueError for fewer than 2 dimensions.
    """
    cdef dim_t field = 1
    cdef int i
    if tensor.ndim < 2:
        raise ValueError(f"fan in and fan out need at least 2 dimensions, got shape {list(tensor.shape)}")
    for i in range(2, tensor.ndim):
        field = mul_dims(field, tensor.sizes[i])
    return mul_dims(tensor.sizes[1], field), mul_dims(tensor.sizes[0], field)


def become(Tensor tensor not None, cls):
    """Change the class of a tensor to one of the same layout that does not override operator dispatch."""
    tensor.__class__ = cls
    tensor.flags &= ~T_OVERRIDES


def install(parameter_class):
    """Install the compiled constructor in ``parameter_class``."""
    cdef PyTypeObject* cls = <PyTypeObject*>parameter_class
    mt_new_instance(cls)[0] = <vectorcallfunc>new_parameter
    # Before CPython 3.12 a metaclass written in Python does not inherit the vectorcall flag from `type`.
    mt_enable_vectorcall(Py_TYPE(<PyObject*>cls), <char*>mt_new_instance(cls) - <char*>cls)
