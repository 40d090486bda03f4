"""The call path of array-kit kernels: convert tensors to arrays, run the kernel, store its result.

This module is compiled, because every operation passes through it. Rare steps are methods of `backend.ArrayBackend`.
"""
import contextvars

cimport cython
cimport numpy as cnp
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from metatensor._core.dtype cimport F16, F4E2M1X2, N_DTYPES, DType
from metatensor._core.slots cimport use_vectorcall
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT, MAX_DIMS, T_CONJ, T_CONTIGUOUS, T_NEG, dim_t
from metatensor.devices.array_kit.memory cimport Block

import numpy as np

cdef extern from "numpy/arrayobject.h":
    # NumPy's .pxd has no exact signature for this function: it steals a reference to the dtype, and `obj` may be NULL.
    object PyArray_NewFromDescr(PyTypeObject* subtype, PyObject* descr, int nd, const cnp.npy_intp* dims,
                                const cnp.npy_intp* strides, void* data, int flags, PyObject* obj)

cdef extern from "Python.h":
    object PyTuple_New(Py_ssize_t n)
    void PyTuple_SET_ITEM(object t, Py_ssize_t i, PyObject* value)
    PyObject* PyLong_FromLongLong(long long value) except NULL
    bint PyLong_CheckExact(PyObject* value) noexcept
    bint PyFloat_CheckExact(PyObject* value) noexcept
    long long PyLong_AsLongLongAndOverflow(PyObject* value, int* overflow) except? -1
    object PyObject_Call(object function, object args, PyObject* kwargs)
    Py_ssize_t Py_REFCNT(object)
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1

cdef size_t ARGUMENTS_OFFSET = <size_t>1 << (8 * sizeof(size_t) - 1)
# A contiguous array of at least this many bytes becomes the result's memory. Copying is faster for smaller arrays.
cdef dim_t ADOPTED = 1 << 16

cdef object _ndarray = np.ndarray
cdef object _generic = np.generic
cdef dict _IN_SINGLE = {"dtype": np.dtype("f4"), "casting": "unsafe"}

cdef list _NUMBERS = [{} for _ in range(N_DTYPES)]     # by dtype code: {number: array}. Decoded dtypes have no ufuncs
cdef int _MOST_NUMBERS = 256


cdef object _number(object value, DType dtype, object raw):
    """Return a 0-d array with the value of a Python number. Arrays are cached; a ufunc takes them faster than numbers."""
    cdef dict known = <dict>_NUMBERS[dtype.code]
    cdef object found
    # float16 is computed in float32. As dict keys, -0.0 equals 0.0, and NaN equals nothing.
    if dtype.code == F16 or not value or value != value:
        return value
    found = known.get(value)
    if found is None:
        if len(known) >= _MOST_NUMBERS:
            known.clear()
        with np.errstate(over="ignore"):
            found = known[value] = np.array(value, raw)
    return found
cdef object _UINT8 = np.dtype("u1")
cnp.import_array()


# NumPy keeps its floating-point error settings in a context variable. Kernels run in a context where all of them are
# "ignore". Entering such a context takes about 20 ns, whereas np.errstate takes 900 ns. A context cannot be entered a
# second time before it is left, so there is a stack of spare contexts.
cdef list _spare = []


cdef object _quiet_context():
    if _spare:
        return _spare.pop()
    context = contextvars.Context()
    context.run(np.seterr, all="ignore")
    return context


def quietly(function, *args):
    """Call ``function`` with NumPy's warnings about overflow, division by zero and invalid values turned off."""
    context = _quiet_context()
    PyContext_Enter(context)
    try:
        return function(*args)
    finally:
        PyContext_Exit(context)
        _spare.append(context)


def _assign(target, source):
    target[...] = source


cdef object _dims(int n, const dim_t* values, dim_t scale):
    cdef object t = PyTuple_New(n)
    cdef int i
    for i in range(n):
        PyTuple_SET_ITEM(t, i, PyLong_FromLongLong(values[i] * scale))
    return t


cdef object _over(Tensor t, object handle, object raw):
    """Return an array of dtype ``raw`` that shares the host memory ``handle`` of the tensor ``t``."""
    cdef dim_t strides[MAX_DIMS]
    cdef dim_t itemsize = t.dtype.itemsize, last = 0
    cdef bint dense = t.flags & T_CONTIGUOUS
    cdef int i, flags = cnp.NPY_ARRAY_WRITEABLE
    cdef char* start
    cdef Py_ssize_t nbytes
    cdef Py_buffer view
    cdef object array
    if t.total == 0:    # the offset may lie outside the storage
        return _ndarray(_dims(t.ndim, t.sizes, 1), raw)
    if type(handle) is Block:
        start = (<Block>handle).start
        nbytes = (<Block>handle).nbytes
        (<Block>handle).touched = True
    else:
        try:
            PyObject_GetBuffer(handle, &view, PyBUF_WRITABLE)
        except (BufferError, ValueError):
            PyObject_GetBuffer(handle, &view, PyBUF_SIMPLE)
            flags = 0
        start, nbytes = <char*>view.buf, view.len
        PyBuffer_Release(&view)
    if dense:
        last = t.total - 1
    else:
        for i in range(t.ndim):
            strides[i] = t.strides[i] * itemsize
            last += t.strides[i] * (t.sizes[i] - 1)
    if t.offset < 0 or (t.offset + last + 1) * itemsize > nbytes:
        raise RuntimeError(f"a tensor of shape {tuple(t.shape)} does not fit in its memory of {nbytes} bytes")
    Py_INCREF(raw)
    array = PyArray_NewFromDescr(<PyTypeObject*>_ndarray, <PyObject*>raw, t.ndim, <cnp.npy_intp*>t.sizes,
                                 NULL if dense else <cnp.npy_intp*>strides, start + t.offset * itemsize, flags, NULL)
    cnp.set_array_base(<cnp.ndarray>array, handle)
    return array


@cython.final
@cython.binding(False)
cdef class Views:
    """Creates arrays that share the memory of one device's tensors.

    Both lists are indexed by dtype code. ``raws`` holds the array dtype that a dtype is stored as. ``decodes`` holds
    the function that converts a stored half dtype to an array to compute with, or None for all other dtypes.
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
        if self.host:
            return _over(t, data, raw)
        return self.kit.strided(data, t.offset * itemsize, raw, _dims(t.ndim, t.sizes, 1), _dims(t.ndim, t.strides, itemsize))

    cdef object value(self, Tensor t):
        cdef object decode = self.decodes[t.dtype.code]
        return self.array(t) if decode is None else decode(self.xp, self.array(t))

    def raw(self, Tensor tensor not None):
        """Return a strided view of the stored elements. A tensor of another device is copied first."""
        return self.array(tensor)

    def computable(self, Tensor tensor not None):
        """Return an array to compute with: a view, or a converted copy if the dtype is a half dtype."""
        return self.value(tensor)

    def assign(self, Tensor target not None, Tensor source not None):
        """Copy between host tensors if NumPy's conversion agrees with metatensor's. Return True if it was done."""
        cdef DType to = target.dtype, of = source.dtype
        if not self.host or source.storage.device is not target.storage.device \
                or (target.flags ^ source.flags) & (T_CONJ | T_NEG):
            return False
        if to is not of:
            if to.code == F4E2M1X2 or of.code == F4E2M1X2:      # packed pairs of numbers are never converted
                return False
            if to.kind > KIND_COMPLEX or of.kind > KIND_COMPLEX or self.decodes[to.code] is not None \
                    or self.decodes[of.code] is not None or (target.flags | source.flags) & (T_CONJ | T_NEG):
                return False
            if of.kind == KIND_COMPLEX and to.kind != KIND_COMPLEX:
                return False
            if of.kind == KIND_FLOAT and to.kind == KIND_INT:   # unsigned targets wrap around, through int64
                return False
        quietly(_assign, self.array(target), self.array(source))
        return True

    def is_zero(self, Tensor tensor not None):
        """Return True if all bytes are known to be 0: the system cleared the memory and nothing accessed it since."""
        cdef object data = tensor.storage.data
        return type(data) is Block and (<Block>data).zero and not (<Block>data).touched


@cython.final
@cython.binding(False)
cdef class Binding:
    """A kernel as the dispatcher calls it: ``binding(out, *args)`` with tensors."""
    cdef void* vectorcall
    cdef object kit
    cdef object entry           # the Kernel in the table
    cdef object function
    cdef str name
    cdef Views views
    cdef bint native            # the kernel takes half dtypes unconverted
    cdef bint tensors           # the kernel takes tensors, not arrays
    cdef object ufunc           # ufunc that replaces the kernel if all operands have one dtype, or None
    cdef int operands           # number of operands of the ufunc
    cdef bint out_by_name       # the ufunc needs its output as a keyword argument
    cdef tuple rest             # the ufunc is used only if the arguments after the operands equal these

    def __init__(self, kit, Views views not None, str name not None, entry):
        self.vectorcall = <void*>_call_binding
        self.kit = kit
        self.views = views
        self.name = name
        self.entry = entry
        self.function = entry.function
        self.native = entry.half == "native"
        self.tensors = entry.half == "tensors"
        self.rest = entry.rest
        if entry.ufunc and views.host:
            self.ufunc = getattr(kit.xp, entry.ufunc)
            self.operands = self.ufunc.nin
            self.out_by_name = entry.ufunc in ("maximum", "minimum")   # NumPy 2.4 warns about a third positional operand

    @property
    def __name__(self):
        return f"{self.views.type}:{self.name}"

    def __repr__(self):
        return f"<kernel {self.__name__} of {self.entry.owner}>"

    cdef inline object read(self, Tensor t):
        return self.views.array(t) if self.native else self.views.value(t)

    cdef object argument(self, object value):
        """Convert an argument for the kernel: replace tensors by arrays, also inside sequences."""
        if isinstance(value, Tensor):
            return self.read(<Tensor>value)
        if isinstance(value, (tuple, list)):
            for item in value:
                if isinstance(item, Tensor):
                    return [self.read(<Tensor>item) if isinstance(item, Tensor) else item for item in value]
        return value

    cdef bint direct(self, Tensor out, PyObject** args, int n) except -1:
        """Call the ufunc directly if all operands have the same dtype. Return True if that computed the result."""
        cdef object given, target, operand
        cdef DType dtype = None
        cdef Tensor t
        cdef long long number
        cdef int i, overflow
        if n != self.operands + len(self.rest):
            return False
        for i in range(self.operands):
            if isinstance(<object>args[i], Tensor):
                t = <Tensor>args[i]
                if (dtype is not None and t.dtype is not dtype) or t.storage.device is not out.storage.device:
                    return False
                dtype = t.dtype
        if dtype is None or (dtype is not out.dtype and out.dtype.kind != KIND_BOOL):
            return False
        if self.views.decodes[dtype.code] is not None and (dtype.code != F16 or dtype is not out.dtype):
            return False
        for i in range(self.operands):
            if isinstance(<object>args[i], Tensor):
                continue
            # Numbers take the arrays' dtype, as in NumPy. Numbers that might not fit take the general path.
            if PyLong_CheckExact(args[i]):
                number = PyLong_AsLongLongAndOverflow(args[i], &overflow)
                if overflow or not 0 <= number < 128 or dtype.kind > KIND_COMPLEX or dtype.kind < KIND_INT:
                    return False
            elif not PyFloat_CheckExact(args[i]) or (dtype.kind != KIND_FLOAT and dtype.kind != KIND_COMPLEX):
                return False
        for i in range(len(self.rest)):
            if <object>args[self.operands + i] != self.rest[i]:
                return False
        given = PyTuple_New(self.operands + (not self.out_by_name))
        target = self.views.array(out)
        for i in range(self.operands):
            operand = <object>args[i]
            if operand is out:
                _put(given, i, target)
            elif isinstance(operand, Tensor):
                _put(given, i, self.views.array(<Tensor>operand))
            else:
                _put(given, i, _number(operand, dtype, self.views.raws[dtype.code]))
        if self.out_by_name:
            given_by_name = {"out": target} | (_IN_SINGLE if dtype.code == F16 else {})
            PyObject_Call(self.ufunc, given, <PyObject*>given_by_name)
            return True
        _put(given, self.operands, target)
        # NumPy converts float16 blockwise: it computes in float32 and rounds once, without temporary arrays.
        PyObject_Call(self.ufunc, given, NULL if dtype.code != F16 else <PyObject*>_IN_SINGLE)
        return True

    cdef object compute(self, object out, PyObject** args, int n):
        cdef object values, result, target
        cdef int i
        cdef bint own, fresh
        try:
            if self.ufunc is not None and isinstance(out, Tensor) and self.direct(<Tensor>out, args, n):
                return None
            values = PyTuple_New(n + 2)
            _put(values, 0, self.kit)
            for i in range(n):
                _put(values, i + 2, <object>args[i] if self.tensors else self.argument(<object>args[i]))
            if self.tensors:
                _put(values, 1, out)
                return PyObject_Call(self.function, values, NULL)
            if isinstance(out, Tensor):
                own = self.native or self.views.decodes[(<Tensor>out).dtype.code] is None
                fresh = _is_fresh(<Tensor>out)
                target = self.views.array(<Tensor>out) if own else self.kit.target(out)
                _put(values, 1, target)
                result = PyObject_Call(self.function, values, NULL)
                if not own or (result is not None and result is not target):
                    if not (own and (_stored(target, result) or fresh and self.adopt(<Tensor>out, result))):
                        self.kit.finish(self, out, target, result)
                return None
            if out is None:
                _put(values, 1, None)
                given = tuple([<object>args[i] for i in range(n)])
                return self.kit.adopt_results(self, PyObject_Call(self.function, values, NULL), given)
            return self.several(out, values)
        except MemoryError as error:
            raise self.kit.out_of_memory(doing=f"to compute {self.name}") from error

    cdef object several(self, object out, object values):
        """Run a kernel with several outputs. None among the outputs stands for one that the caller does not need."""
        cdef list targets = [], fresh = []
        cdef bint own
        cdef Py_ssize_t i
        for item in out:
            fresh.append(False)
            if item is None:
                targets.append(None)
            elif self.native or self.views.decodes[(<Tensor?>item).dtype.code] is None:
                fresh[len(fresh) - 1] = _is_fresh(<Tensor>item)
                targets.append(self.views.array(<Tensor>item))
            else:
                targets.append(self.kit.target(item))
        _put(values, 1, tuple(targets))
        results = PyObject_Call(self.function, values, NULL)
        if results is None:
            results = (None,) * len(targets)
        elif not isinstance(results, (tuple, list)) or len(results) != len(targets):
            given = len(results) if isinstance(results, (tuple, list)) else 1
            raise RuntimeError(f"{self} returned {given} values for {len(targets)} outputs")
        results = list(results)
        for i in range(len(targets)):
            if out[i] is None:
                continue
            result, results[i] = results[i], None
            own = self.native or self.views.decodes[(<Tensor>out[i]).dtype.code] is None
            if result is targets[i] and own:
                continue
            if not (own and result is not None and (_stored(targets[i], result) or fresh[i] and self.adopt(<Tensor>out[i], result))):
                self.kit.finish(self, out[i], targets[i], result)
        return None

    cdef bint adopt(self, Tensor out, object result) except -1:
        """Use an array that the kernel returned as the result's memory if nothing else refers to it. Return True if done."""
        if type(result) is not _ndarray or Py_REFCNT(result) > 1 or out.storage.size_bytes < ADOPTED \
                or not out.flags & T_CONTIGUOUS or out.offset:
            return False
        if result.dtype != self.views.raws[out.dtype.code] or result.shape != _dims(out.ndim, out.sizes, 1):
            return False
        flags = result.flags
        if not (flags.owndata and flags.c_contiguous and flags.writeable) or result.nbytes != out.storage.size_bytes:
            return False
        self.kit.track(result)
        out.storage.data = result.reshape(-1).view(_UINT8)
        return True

    @property
    def is_native(self):
        """Whether the kernel takes half dtypes as they are stored."""
        return self.native


cdef inline void _put(object values, Py_ssize_t i, object value) noexcept:
    """Set an item of a tuple under construction."""
    Py_INCREF(value)
    PyTuple_SET_ITEM(values, i, <PyObject*>value)


cdef bint _stored(object target, object result) except -1:
    """Copy a small result that already has the target's dtype and shape. Return True if the copy was done."""
    cdef cnp.ndarray a, b
    cdef dim_t total = 1
    cdef int i
    if type(target) is not _ndarray:
        return False
    if type(result) is not _ndarray:
        if cnp.PyArray_NDIM(<cnp.ndarray>target) or not isinstance(result, _generic) or result.dtype is not target.dtype:
            return False
        target[()] = result
        return True
    a, b = <cnp.ndarray>target, <cnp.ndarray>result
    if cnp.PyArray_NDIM(a) != cnp.PyArray_NDIM(b) or cnp.PyArray_DESCR(a) != cnp.PyArray_DESCR(b):
        return False
    for i in range(cnp.PyArray_NDIM(a)):
        if cnp.PyArray_DIMS(a)[i] != cnp.PyArray_DIMS(b)[i]:
            return False
        total *= cnp.PyArray_DIMS(a)[i]
    if total * target.itemsize >= ADOPTED:
        return False
    cnp.PyArray_CopyInto(a, b)
    return True


cdef inline bint _is_fresh(Tensor out) noexcept:
    """Return True if the memory was allocated for this result and has not been accessed."""
    cdef object data = out.storage.data
    return type(data) is Block and not (<Block>data).touched


cdef object _call_binding(PyObject* self, PyObject** args, size_t nargsf, PyObject* kwnames):
    cdef Binding binding = <Binding>self
    cdef int n = <int>(nargsf & ~ARGUMENTS_OFFSET)
    cdef object context
    if kwnames != NULL or n < 1:
        raise TypeError(f"{binding} expects the result and then the arguments, as positional arguments")
    if not binding.views.host:
        return binding.compute(<object>args[0], args + 1, n - 1)
    context = _quiet_context()
    PyContext_Enter(context)
    try:
        return binding.compute(<object>args[0], args + 1, n - 1)
    finally:
        PyContext_Exit(context)
        _spare.append(context)


cdef Binding _probe = Binding.__new__(Binding)
use_vectorcall(Binding, <char*>&_probe.vectorcall - <char*><PyObject*>_probe, False)
