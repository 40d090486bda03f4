"""Garbage-collector tracking for recorded steps.

A recipe (see `recording.pyx`) has about five objects, and a big model has thousands of recipes. Traversing them in
every collection would cost more than creating them. Recipes that cannot be part of a reference cycle are therefore
not tracked by the garbage collector. A step that only creates one new tensor is such a case: it holds a weak reference
to its result, and its arguments are older. A cycle needs a step with several results, or one that writes to an existing
tensor and refers to another. All objects that such a step reaches are tracked.
"""
from cpython.object cimport PyObject
from metatensor._core.recording cimport Recipe, Ref, Step

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(void* o)
    void PyObject_GC_Track(void* o)
    int PyObject_GC_IsTracked(PyObject* o)


cdef int untrack(object o) except -1:
    PyObject_GC_UnTrack(<void*>o)
    return 0


cdef bint _track(object o) except -1:
    """Track `o` with the garbage collector. Return True if it was untracked before."""
    if PyObject_GC_IsTracked(<PyObject*>o):
        return False
    PyObject_GC_Track(<void*>o)
    return True


cdef int track_all(object start) except -1:
    """Track `start` and all objects of recipes that it reaches."""
    cdef list queue = [start]
    while queue:
        o = queue.pop()
        if isinstance(o, Recipe):
            if _track(o):
                _track((<Recipe>o).writers)
                queue.extend((<Recipe>o).writers)
        elif isinstance(o, Step):
            _track(o)
            _track((<Step>o).args)
            queue.extend((<Step>o).args)
            queue.append((<Step>o).result)
        elif isinstance(o, Ref):
            _track(o)
            queue.append(<Recipe>(<Ref>o).raw)
        elif isinstance(o, (list, tuple)):
            queue.extend(o)
    return 0


cdef int set_tracking(Step step, Recipe own, bint fresh) except -1:
    """Untrack a step that only writes to `own`. If it could be part of a cycle, track it and all it reaches instead."""
    cdef bint refers = False
    for value in step.args:
        if isinstance(value, Ref):
            refers = refers or (<Ref>value).strong is not None
        elif type(value) is list:
            refers = True
    if refers and not fresh:
        track_all(own)
        track_all(step)
        return 0
    untrack(step)
    untrack(step.args)
    untrack(step.result)
    for value in step.args:
        if isinstance(value, Ref):
            untrack(value)
    return 0
