"""Declarations of the parts of CPython's C API that ``nn`` uses and Cython does not provide."""
from cpython.object cimport PyObject, PyTypeObject

cdef extern from *:
    """
    /* Fields of PyTypeObject that Cython does not declare. */
    static CYTHON_INLINE getattrofunc *mt_getattro(PyTypeObject *cls) { return &cls->tp_getattro; }
    static CYTHON_INLINE ternaryfunc *mt_tp_call(PyTypeObject *cls) { return &cls->tp_call; }
    static CYTHON_INLINE vectorcallfunc *mt_new_instance(PyTypeObject *cls) { return &cls->tp_vectorcall; }
    static void mt_enable_vectorcall(PyTypeObject *cls, Py_ssize_t offset) {
        cls->tp_vectorcall_offset = offset;
        cls->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    }

    #if PY_VERSION_HEX >= 0x030C0000
    #define mt_take_error PyErr_GetRaisedException
    #define mt_put_error PyErr_SetRaisedException
    #else
    static PyObject *mt_take_error(void) {
        PyObject *kind, *value, *trace;
        PyErr_Fetch(&kind, &value, &trace);
        PyErr_NormalizeException(&kind, &value, &trace);
        if (trace != NULL) PyException_SetTraceback(value, trace);
        Py_XDECREF(kind);
        Py_XDECREF(trace);
        return value;
    }
    static void mt_put_error(PyObject *error) {
        Py_INCREF(Py_TYPE(error));
        PyErr_Restore((PyObject *)Py_TYPE(error), error, PyException_GetTraceback(error));
    }
    #endif
    """
    ctypedef PyObject* (*getattrofunc)(PyObject*, PyObject*) noexcept
    ctypedef PyObject* (*ternaryfunc)(PyObject*, PyObject*, PyObject*) noexcept
    ctypedef PyObject* (*vectorcallfunc)(PyObject*, PyObject**, size_t, PyObject*) noexcept
    ctypedef PyObject* (*descrgetfunc)(PyObject*, PyObject*, PyObject*) noexcept

    getattrofunc* mt_getattro(PyTypeObject* cls) noexcept
    ternaryfunc* mt_tp_call(PyTypeObject* cls) noexcept
    vectorcallfunc* mt_new_instance(PyTypeObject* cls) noexcept
    void mt_enable_vectorcall(PyTypeObject* cls, Py_ssize_t offset) noexcept
    PyObject* mt_take_error() noexcept
    void mt_put_error(PyObject* error) noexcept

    const size_t PY_VECTORCALL_ARGUMENTS_OFFSET
    PyTypeObject* Py_TYPE(PyObject*) noexcept
    void Py_DECREF(PyObject*) noexcept
    PyObject* _PyType_Lookup(PyTypeObject*, PyObject*) noexcept
    bint PyType_IsSubtype(PyTypeObject*, PyTypeObject*) noexcept
    bint PyFunction_Check(PyObject*) noexcept
    bint PyUnicode_CheckExact(PyObject*) noexcept
    PyObject* PyUnicode_FromObject(PyObject*) noexcept
    PyObject* PyDict_GetItemWithError(PyObject*, PyObject*) noexcept
    Py_ssize_t PyDict_Size(PyObject*) noexcept
    bint PyDict_Check(PyObject*) noexcept
    int PyDict_SetItem(PyObject*, PyObject*, PyObject*) noexcept
    PyObject* PyErr_Occurred() noexcept
    PyObject* PyErr_Format(object, const char*, ...) noexcept
    Py_ssize_t PyVectorcall_NARGS(size_t) noexcept
    PyObject* PyObject_Vectorcall(PyObject*, PyObject**, size_t, PyObject*) noexcept
    PyObject* PyObject_GetAttr(PyObject*, PyObject*) noexcept
    PyObject* PyObject_Call(PyObject*, PyObject*, PyObject*) except NULL
    PyObject* PyObject_CallFunctionObjArgs(PyObject*, ...) noexcept
    PyObject* PyTuple_GetItem(PyObject*, Py_ssize_t) noexcept
    PyObject* PyLong_FromUnsignedLong(unsigned long) noexcept
