"""Type slots that are set in C, because Cython has no syntax for them."""
from cpython.object cimport PyObject, newfunc

cdef extern from *:
    """
    #include <structmember.h>
    static PyObject *mt_no_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
        PyErr_Format(PyExc_TypeError, "cannot create '%.200s' instances", type->tp_name);
        return NULL;
    }
    /* Only factories create objects of these types, so no uninitialized one can exist. */
    static void mt_forbid_new(PyObject *type) {
        ((PyTypeObject *)type)->tp_new = mt_no_new;
        ((PyTypeObject *)type)->tp_vectorcall = NULL;   /* newer Cython versions set this second constructor too */
        PyType_Modified((PyTypeObject *)type);
    }
    static void mt_set_new(PyObject *type, newfunc f) {
        ((PyTypeObject *)type)->tp_new = f;
        ((PyTypeObject *)type)->tp_vectorcall = NULL;
        PyType_Modified((PyTypeObject *)type);
    }
    static int mt_type_set(PyObject *type, PyObject *name, PyObject *value) {
        PyTypeObject *t = (PyTypeObject *)type;
        int r;
        if (t->tp_flags & Py_TPFLAGS_HEAPTYPE) return PyObject_SetAttr(type, name, value);
        r = PyDict_SetItem(t->tp_dict, name, value);
        PyType_Modified(t);
        return r;
    }
    /* An object's buffer is the buffer of the object that `source` returns. The view keeps that object alive. */
    static PyObject *(*mt_buffer_source)(PyObject *);
    static int mt_get_buffer(PyObject *o, Py_buffer *view, int flags) {
        PyObject *source;
        int r;
        view->obj = NULL;
        source = mt_buffer_source(o);
        if (source == NULL) return -1;
        r = PyObject_GetBuffer(source, view, flags);
        Py_DECREF(source);
        return r;
    }
    static PyBufferProcs mt_buffer_procs = {mt_get_buffer, NULL};
    static void mt_set_buffer(PyObject *type, PyObject *(*source)(PyObject *)) {
        PyTypeObject *t = (PyTypeObject *)type;
        mt_buffer_source = source;
        if (t->tp_as_buffer == NULL) t->tp_as_buffer = &mt_buffer_procs;
        t->tp_as_buffer->bf_getbuffer = mt_get_buffer;
        PyType_Modified(t);
    }
    static void mt_use_vectorcall(PyObject *type, Py_ssize_t offset, int method) {
        PyTypeObject *t = (PyTypeObject *)type;
        t->tp_vectorcall_offset = offset;
        t->tp_call = PyVectorcall_Call;
        t->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
        if (method) t->tp_flags |= Py_TPFLAGS_METHOD_DESCRIPTOR;
        PyType_Modified(t);
    }
    """
    void forbid_new "mt_forbid_new" (object type) noexcept
    void set_new "mt_set_new" (object type, newfunc f) noexcept
    int type_set "mt_type_set" (object type, object name, object value) except -1
    void set_buffer "mt_set_buffer" (object type, object (*source)(object)) noexcept
    void use_vectorcall "mt_use_vectorcall" (object type, Py_ssize_t offset, bint method) noexcept
