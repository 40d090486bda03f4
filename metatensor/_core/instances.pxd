"""Creation and deallocation of Tensor instances: type slots that Cython cannot fill. tensor.pyx sets them once.

`Tensor.__new__` called from Python returns a valid, empty tensor. The instance
dictionary is created when the first attribute is set (tp_dictoffset). It and the
autograd node are traversed and cleared here.
"""
from cpython.object cimport PyObject

cdef extern from *:
    """
    static newfunc mt_tensor_new;
    static destructor mt_tensor_dealloc;
    static traverseproc mt_tensor_traverse;
    static inquiry mt_tensor_clear;
    static PyObject *mt_noargs;
    static Py_ssize_t mt_attrs_offset;
    static int (*mt_init_fresh)(PyObject *);
    static Py_ssize_t mt_node_offset;
    #define MT_ATTRS(o) (*(PyObject **)((char *)(o) + mt_attrs_offset))
    #define MT_NODE(o) (*(PyObject **)((char *)(o) + mt_node_offset))

    static PyObject *mt_safe_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
        PyObject *o = mt_tensor_new(type, mt_noargs, NULL);
        if (o && mt_init_fresh(o) < 0) { Py_CLEAR(o); }
        return o;
    }
    static void mt_dealloc(PyObject *o) {
        if (MT_ATTRS(o) || MT_NODE(o)) {
            PyObject_GC_UnTrack(o);
            Py_CLEAR(MT_ATTRS(o));
            Py_CLEAR(MT_NODE(o));
        }
        mt_tensor_dealloc(o);
    }
    static int mt_traverse(PyObject *o, visitproc visit, void *arg) {
        Py_VISIT(MT_ATTRS(o));
        Py_VISIT(MT_NODE(o));
        return mt_tensor_traverse(o, visit, arg);
    }
    static int mt_clear(PyObject *o) {
        Py_CLEAR(MT_ATTRS(o));
        Py_CLEAR(MT_NODE(o));
        return mt_tensor_clear ? mt_tensor_clear(o) : 0;
    }
    static PyObject *mt_get_dict(PyObject *o, void *closure) { return PyObject_GenericGetDict(o, closure); }
    static PyGetSetDef mt_dict_getset[] = {
        {"__dict__", mt_get_dict, PyObject_GenericSetDict, NULL, NULL}, {NULL}};
    static void mt_setup_tensor(PyObject *type, Py_ssize_t offset, Py_ssize_t node, int (*init)(PyObject *), PyObject *noargs) {
        PyTypeObject *t = (PyTypeObject *)type;
        PyObject *descr = PyDescr_NewGetSet(t, mt_dict_getset);
        mt_tensor_new = t->tp_new; mt_tensor_dealloc = t->tp_dealloc;
        mt_tensor_traverse = t->tp_traverse; mt_tensor_clear = t->tp_clear;
        mt_init_fresh = init; mt_attrs_offset = offset; mt_node_offset = node; mt_noargs = noargs;
        t->tp_new = mt_safe_new; t->tp_vectorcall = NULL; t->tp_dealloc = mt_dealloc;
        t->tp_traverse = mt_traverse; t->tp_clear = mt_clear;
        t->tp_dictoffset = offset;
        if (descr) { PyDict_SetItemString(t->tp_dict, "__dict__", descr); Py_DECREF(descr); }
        PyType_Modified(t);
    }
    static PyObject *mt_make_instance(PyObject *type) {
        return mt_tensor_new((PyTypeObject *)type, mt_noargs, NULL);
    }
    """
    void setup_tensor "mt_setup_tensor" (object t, Py_ssize_t offset, Py_ssize_t node, int (*init)(PyObject*) except -1,
                                         object noargs)
    object make_instance "mt_make_instance" (object t)
