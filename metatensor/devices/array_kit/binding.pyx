"""What runs on every call on a device of the array kit: tensors to arrays, the kernel, its result into place.

Compiled because it stands between every operation and its kernel; what is rare is in `backend`.
"""
import contextvars

cimport cython
from cpython.object cimport PyObject
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport T_CONTIGUOUS, dim_t

import numpy as np

cdef extern from "Python.h":
    object PyTuple_New(Py_ssize_t n)
    void PyTuple_SET_ITEM(object t, Py_ssize_t i, PyObject* value)
    PyObject* PyLong_FromLongLong(long long value) except NULL
    object PyObject_CallObject(object function, object args)
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1

cdef object _ndarray = np.ndarray


# NumPy keeps its settings for floating-point errors in a context variable. Kernels run in a context where all are
# "ignore": entering it takes some 20 ns, np.errstate 900 ns. A context can be entered once at a time, so there is a
# stack of spare ones.
cdef list _spare = []


cdef object _quiet_context():
    if _spare:
        return _spare.pop()
    context = contextvars.Context()
    context.run(np.seterr, all="ignore")
    return context


def quietly(function, *args):
    """Call ``function`` without NumPy's warnings of overflow, division by zero and invalid values."""
    context = _quiet_context()
    PyContext_Enter(context)
    try:
        return function(*args)
    finally:
        PyContext_Exit(context)
        _spare.append(context)


cdef object _dims(int n, const dim_t* values, dim_t scale):
    cdef object t = PyTuple_New(n)
    cdef int i
    for i in range(n):
        PyTuple_SET_ITEM(t, i, PyLong_FromLongLong(values[i] * scale))
    return t


@cython.final
@cython.binding(False)
cdef class Views:
    """Turns tensors of one device into arrays over the same memory.

    ``raws`` and ``decodes`` hold, by dtype code, the array dtype it is stored as, and the function that makes an
    array to compute with out of one of half precision, or None.
    """
    cdef object kit
    cdef object xp
    cdef str type
    cdef bint host
    cdef list raws, decodes

    def __init__(self, kit, list raws not None, list decodes not None):
        self.kit = kit
        self.xp = kit.xp
        self.type = kit.type
        self.host = kit.xp is np
        self.raws = raws
        self.decodes = decodes

    cdef object array(self, Tensor t):
        cdef str type = t.storage.device.type
        cdef object data = t.storage.data
        cdef object raw = self.raws[t.dtype.code]
        cdef dim_t itemsize = t.dtype.itemsize
        if type is not self.type and type != self.type:
            return self.kit._bring(t)
        if data is None:
            raise RuntimeError(f"a tensor of shape {tuple(t.shape)} on {t.device} has no data")
        if not self.host:
            return self.kit.strided(data, t.offset * itemsize, raw, _dims(t.ndim, t.sizes, 1), _dims(t.ndim, t.strides, itemsize))
        if t.total == 0:    # its offset may lie outside the storage
            return _ndarray(_dims(t.ndim, t.sizes, 1), raw)
        if t.flags & T_CONTIGUOUS:
            return _ndarray(_dims(t.ndim, t.sizes, 1), raw, data, t.offset * itemsize)
        return _ndarray(_dims(t.ndim, t.sizes, 1), raw, data, t.offset * itemsize, _dims(t.ndim, t.strides, itemsize))

    cdef object value(self, Tensor t):
        cdef object decode = self.decodes[t.dtype.code]
        return self.array(t) if decode is None else decode(self.xp, self.array(t))

    def raw(self, Tensor tensor not None):
        """The array of what is stored: a strided view. A tensor of another device is copied over."""
        return self.array(tensor)

    def computable(self, Tensor tensor not None):
        """The view itself or, of half precision, a converted copy."""
        return self.value(tensor)


@cython.final
@cython.binding(False)
cdef class Binding:
    """A kernel as the dispatcher calls it: ``binding(out, *args)`` with tensors."""
    cdef object kit
    cdef object entry           # the Kernel in the table
    cdef object function
    cdef str name
    cdef Views views
    cdef bint native            # takes half precision as it is stored

    def __init__(self, kit, Views views not None, str name not None, entry):
        self.kit = kit
        self.views = views
        self.name = name
        self.entry = entry
        self.function = entry.function
        self.native = entry.half == "native"

    @property
    def __name__(self):
        return f"{self.views.type}:{self.name}"

    def __repr__(self):
        return f"<kernel {self.__name__} of {self.entry.owner}>"

    def __call__(self, out, *args):
        cdef object context = None
        if not self.views.host:
            return self.compute(out, args)
        context = _quiet_context()
        PyContext_Enter(context)
        try:
            return self.compute(out, args)
        finally:
            PyContext_Exit(context)
            _spare.append(context)

    cdef inline object read(self, Tensor t):
        return self.views.array(t) if self.native else self.views.value(t)

    cdef object argument(self, object value):
        """An argument for the kernel: tensors, also in sequences, become arrays."""
        if isinstance(value, Tensor):
            return self.read(<Tensor>value)
        if isinstance(value, (tuple, list)):
            for item in value:
                if isinstance(item, Tensor):
                    return [self.read(<Tensor>item) if isinstance(item, Tensor) else item for item in value]
        return value

    cdef object compute(self, object out, tuple args):
        cdef list values = [self.kit, None]
        cdef object target, result
        cdef bint own
        try:
            for value in args:
                values.append(self.argument(value))
            if isinstance(out, Tensor):
                own = self.native or self.views.decodes[(<Tensor>out).dtype.code] is None
                target = self.views.array(<Tensor>out) if own else self.kit.target(out)
                values[1] = target
                result = PyObject_CallObject(self.function, tuple(values))
                if not own or (result is not None and result is not target):
                    self.kit.finish(self, out, target, result)
                return None
            if out is None:
                return self.kit.adopt_results(self, PyObject_CallObject(self.function, tuple(values)), args)
            return self.several(out, values)
        except MemoryError as error:
            raise self.kit.out_of_memory(doing=f"to compute {self.name}") from error

    cdef object several(self, object out, list values):
        """A kernel with several outputs; those that are None are not wanted."""
        cdef list targets = []
        for item in out:
            if item is None:
                targets.append(None)
            elif self.native or self.views.decodes[(<Tensor?>item).dtype.code] is None:
                targets.append(self.views.array(<Tensor>item))
            else:
                targets.append(self.kit.target(item))
        values[1] = tuple(targets)
        results = PyObject_CallObject(self.function, tuple(values))
        if results is None:
            results = (None,) * len(targets)
        elif not isinstance(results, (tuple, list)) or len(results) != len(targets):
            given = len(results) if isinstance(results, (tuple, list)) else 1
            raise RuntimeError(f"{self} returned {given} values for {len(targets)} outputs")
        for item, target, result in zip(out, targets, results):
            if item is not None:
                self.kit.finish(self, item, target, result)
        return None

    @property
    def is_native(self):
        """Whether it takes half precision as it is stored."""
        return self.native
