"""What Python's collector of cycles sees of recipes.

A recipe is some five objects, of which a big model has thousands, and looking through them again and again would cost
more than making them. So the collector does not see recipes in which no cycle can be: a step refers to its own result
weakly, and what a fresh result is made of is older. A cycle takes a step with several results, or one that writes to
an old result and refers to another: with these, what they reach is shown to the collector.
"""
from cpython.object cimport PyObject
from metatensor._core.recording cimport Ghost, Ref, Step

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(void* o)
    void PyObject_GC_Track(void* o)
    int PyObject_GC_IsTracked(PyObject* o)


cdef int hide(object o) except -1:
    PyObject_GC_UnTrack(<void*>o)
    return 0


cdef bint _show(object o) except -1:
    """Let the collector see an object; whether it was hidden."""
    if PyObject_GC_IsTracked(<PyObject*>o):
        return False
    PyObject_GC_Track(<void*>o)
    return True


cdef int show_all(object start) except -1:
    """The same for all that an object of a recipe reaches."""
    cdef list queue = [start]
    while queue:
        o = queue.pop()
        if isinstance(o, Ghost):
            if _show(o):
                _show((<Ghost>o).writers)
                queue.extend((<Ghost>o).writers)
        elif isinstance(o, Step):
            _show(o)
            _show((<Step>o).args)
            queue.extend((<Step>o).args)
            queue.append((<Step>o).result)
        elif isinstance(o, Ref):
            _show(o)
            queue.append(<Ghost>(<Ref>o).raw)
        elif isinstance(o, (list, tuple)):
            queue.extend(o)
    return 0


cdef int settle(Step step, Ghost own, bint fresh) except -1:
    """Hide a step that fills in `own` alone, or show what it may be in a cycle with."""
    cdef bint refers = False
    for value in step.args:
        if isinstance(value, Ref):
            refers = refers or (<Ref>value).strong is not None
        elif type(value) is list:
            refers = True
    if refers and not fresh:
        show_all(own)
        show_all(step)
        return 0
    hide(step)
    hide(step.args)
    hide(step.result)
    for value in step.args:
        if isinstance(value, Ref):
            hide(value)
    return 0
