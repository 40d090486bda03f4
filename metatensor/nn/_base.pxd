"""The module object, and what the other compiled parts of ``nn`` read of it."""
from cpython.object cimport PyObject
from metatensor.nn._cpython cimport Py_DECREF, vectorcallfunc


cdef class ModuleBase:
    cdef vectorcallfunc vectorcall
    cdef dict __dict__
    cdef object __weakref__


cdef struct ModuleLayout:       # ModuleBase again, to reach its __dict__ without counting a reference
    PyObject head
    vectorcallfunc vectorcall
    PyObject* attributes


cdef inline PyObject* attributes(PyObject* module) noexcept:
    """The module's ``__dict__``, borrowed."""
    return (<ModuleLayout*>module).attributes

cdef inline PyObject* checked(PyObject* result) except NULL:
    """Turns a NULL that came with an exception into Cython's way of saying so."""
    return result

cdef inline object owned(PyObject* new_reference):
    """The object of a reference that is ours."""
    cdef object value = <object>new_reference
    Py_DECREF(new_reference)
    return value

cdef PyObject* item(PyObject* holder, PyObject* name) noexcept
cdef PyObject* member(PyObject* attrs, PyObject* name) noexcept
cdef bint reads_plainly(PyObject* module) noexcept
cdef str exact(object name)
cdef tuple pack_positional(PyObject** args, Py_ssize_t n)
cdef dict pack_keywords(PyObject** args, PyObject* kwnames)
