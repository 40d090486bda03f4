"""The C layout of modules, and helpers for the other compiled parts of ``nn``."""
from cpython.object cimport PyObject
from metatensor.nn._cpython cimport Py_DECREF, vectorcallfunc


cdef class ModuleBase:
    cdef vectorcallfunc vectorcall
    cdef dict __dict__
    cdef object __weakref__


cdef struct ModuleLayout:       # the layout of ModuleBase, to read its __dict__ without touching its reference count
    PyObject head
    vectorcallfunc vectorcall
    PyObject* attributes


cdef inline PyObject* attributes(PyObject* module) noexcept:
    """Return a borrowed reference to the module's ``__dict__``."""
    return (<ModuleLayout*>module).attributes

cdef inline PyObject* checked(PyObject* result) except NULL:
    """Return ``result``. If it is NULL, raise the pending exception."""
    return result

cdef inline object owned(PyObject* new_reference):
    """Return the object of a new reference and release that reference."""
    cdef object value = <object>new_reference
    Py_DECREF(new_reference)
    return value

cdef PyObject* item(PyObject* holder, PyObject* name) noexcept
cdef PyObject* member(PyObject* attrs, PyObject* name) noexcept
cdef bint reads_plainly(PyObject* module) noexcept
cdef str exact(object name)
cdef tuple pack_positional(PyObject** args, Py_ssize_t n)
cdef dict pack_keywords(PyObject** args, PyObject* kwnames)
