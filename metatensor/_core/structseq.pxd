"""Parts of the C API that Cython does not declare: named tuples of results and bound methods."""

cdef extern from *:
    """
    #include <structseq.h>
    static PyObject *mt_bind_method(PyObject *self, PyObject *obj) { return PyMethod_New(self, obj); }
    static PyObject *mt_new_structseq(PyObject *type) { return PyStructSequence_New((PyTypeObject *)type); }
    static void mt_set_structseq(PyObject *o, Py_ssize_t i, PyObject *v) {
        Py_INCREF(v); PyStructSequence_SetItem(o, i, v);
    }
    static PyObject *mt_make_structseq(const char *name, PyObject *fields) {
        /* The names must outlive the type. These types are never freed, so neither are the names. */
        Py_ssize_t i, n = PyTuple_GET_SIZE(fields);
        PyStructSequence_Field *f = PyMem_RawCalloc(n + 1, sizeof(PyStructSequence_Field));
        PyStructSequence_Desc d = {NULL, NULL, f, (int)n};
        char *copy = PyMem_RawMalloc(strlen(name) + 1);
        if (!f || !copy) return PyErr_NoMemory();
        strcpy(copy, name);
        d.name = copy;
        for (i = 0; i < n; i++) {
            const char *s = PyUnicode_AsUTF8(PyTuple_GET_ITEM(fields, i));
            char *c = PyMem_RawMalloc(strlen(s) + 1);
            if (!c) return PyErr_NoMemory();
            strcpy(c, s);
            f[i].name = c;
        }
        return (PyObject *)PyStructSequence_NewType(&d);
    }
    """
    object bind_method "mt_bind_method" (object f, object obj)
    object new_structseq "mt_new_structseq" (object t)
    void set_structseq "mt_set_structseq" (object o, Py_ssize_t i, object v)
    object make_structseq "mt_make_structseq" (const char* name, object fields)
